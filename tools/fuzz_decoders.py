# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every decoder of outside input, with valid inputs. tests/unit/wire/test_fuzz.py checks that the table is whole."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [path for path in (str(TOP / "src"), str(TOP)) if path not in sys.path]

from tools.fuzz_decoder import Decoder, repair_figures, scratch_folder  # noqa: E402 # the path comes first, here and below
from tools.fuzz_images import IMAGE_DECODERS  # noqa: E402
from tools.fuzz_programs import PROGRAM_DECODERS  # noqa: E402
from tools.fuzz_records import (  # noqa: E402
    RECORD_DECODERS,
    repair_answers,
    repair_record,
    repair_runs,
)

__all__ = [
    "DECODERS",
    "Decoder",
    "find",
    "is_empty",
    "repair_answers",
    "repair_figures",
    "repair_record",
    "repair_runs",
    "scratch_folder",
]

DECODERS = (*RECORD_DECODERS, *PROGRAM_DECODERS, *IMAGE_DECODERS)


def find(name: str) -> Decoder:
    """Return a decoder by its name.

    Raises:
        KeyError: there is none.
    """
    return {one.name: one for one in DECODERS}[name]


def is_empty(value: object) -> bool:
    """Return whether a value holds nothing: an empty container, or a tuple or list of such."""
    if isinstance(value, tuple | list):
        return all(map(is_empty, itertools.islice(value, 1000)))
    return value is None or value in ("", b"") or (isinstance(value, dict | set | frozenset) and not value)
