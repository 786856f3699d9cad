"""Running baseline and candidate of a row again, under instruments: never together with measured trials."""

from swapstone.instruments.acquisition import INSTRUMENTS, Asked, run_instruments
from swapstone.instruments.tracee import Region, Subject

__all__ = ["INSTRUMENTS", "Asked", "Region", "Subject", "run_instruments"]
