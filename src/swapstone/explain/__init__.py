"""From counts and profiles of two variants to what their difference is consistent with. Nothing is run here."""

from swapstone.explain.cost_classes import Classes, load_classes
from swapstone.explain.findings import explain
from swapstone.explain.profile_formats import difference, folded, folded_difference, speedscope

__all__ = ["Classes", "difference", "explain", "folded", "folded_difference", "load_classes", "speedscope"]
