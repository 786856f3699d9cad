# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run both variants of a row under instruments, apart from the measured trials."""

from swapstone.instruments.acquisition import INSTRUMENTS, RowVariant, run_instruments
from swapstone.instruments.tracee import Region, Tracee

__all__ = ["INSTRUMENTS", "Region", "RowVariant", "Tracee", "run_instruments"]
