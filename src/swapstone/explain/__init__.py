"""From counts and profiles of two variants to what their difference is consistent with. Nothing is run here."""

from swapstone.explain.classes import Classes, load_classes
from swapstone.explain.reasons import explain
from swapstone.explain.stacks import difference, folded, folded_difference, speedscope

__all__ = ["Classes", "difference", "explain", "folded", "folded_difference", "load_classes", "speedscope"]
