# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors of computations on a record's values, which may be damaged or edited."""

from __future__ import annotations

import contextlib
import re
import shlex
import traceback
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swapstone.core.model import RecordError
from swapstone.core.model.safe_text import safe_excerpt

BAD_DATA = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    re.error,
)
"""What a computation may raise for values that it was not made for. None of them is an error of the system or of the user's request."""


@contextlib.contextmanager
def named_record(path: Path) -> Iterator[None]:
    """Turn an error of a computation on a record's values into one about the record.

    Args:
        path: the record's folder.

    Raises:
        RecordError: instead of an error of `BAD_DATA`; it names the record and where the error occurred.
    """
    try:
        yield
    except BAD_DATA as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise RecordError(
            f"{path} has values that can't be analysed: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}: "
            f"{safe_excerpt(str(error))}.",
            f"If `swapstone verify {shlex.quote(str(path))}` finds the record whole, this is a bug of Swapstone: please report it with the "
            "record.",
        ) from error
