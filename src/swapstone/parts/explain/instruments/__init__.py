# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run both variants of a row under instruments, apart from the measured trials."""

from swapstone.parts.explain.instruments.acquisition import INSTRUMENTS, RowVariant, run_instruments
from swapstone.parts.explain.instruments.traced_run import Region, Tracee

__all__ = ["INSTRUMENTS", "Region", "RowVariant", "Tracee", "run_instruments"]
