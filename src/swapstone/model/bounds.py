# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bounds of stored values. The decoder checks them, so that arithmetic on decoded values neither overflows nor takes forever.

A bound is an annotation: it holds for decoded values, and costs nothing for values that the program makes itself.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

LARGEST_INTEGER = (1 << 63) - 1
LARGEST_NUMBER = 1e60
"""Magnitude of a measured value: its fourth power, and the sum of a million of them, are finite."""

SMALLEST_NUMBER = 1e-60
"""Magnitude of a measured value other than 0: its fourth power is not rounded to 0."""

MOST_BLOCKS = 1_000_000
LONGEST_NAME = 16_384
LONGEST_TEXT = 1 << 20

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
NonNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)]
BlockNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_BLOCKS)]
Position: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
Passes: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
