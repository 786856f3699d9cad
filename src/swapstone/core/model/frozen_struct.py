# SPDX-License-Identifier: MIT OR Apache-2.0
"""The base of the model's types: an immutable, strictly decoded value with a digest."""

from __future__ import annotations

import hashlib
from typing import Annotated, TypeAlias, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True)
class FrozenStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An immutable, hashable value whose encoding is the same for the same content."""

    def encoded(self) -> bytes:
        """Return the canonical JSON encoding (UTF-8, keys sorted), of which digests are taken."""
        return msgspec.json.encode(self, order="sorted")

    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of `encoded`."""
        return hashlib.sha256(self.encoded()).hexdigest()[:16]


LARGEST_INTEGER = (1 << 63) - 1
LARGEST_NUMBER = 1e60
"""Magnitude of a measured value: its fourth power, and the sum of a million of them, are finite."""

SMALLEST_NUMBER = 1e-60
"""Magnitude of a measured value other than 0: its fourth power is not rounded to 0."""

MOST_BLOCKS = 1_000_000
LONGEST_NAME = 16_384
LONGEST_TEXT = 1 << 20
MOST_VALUES = 5_000_000
"""Of one file: pairs of short texts take 80 bytes of memory for each value. 100,000 programs of a manifest have about 3 million."""

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
NonNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)]
PositiveInteger: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_INTEGER)]
BlockNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_BLOCKS)]
Position: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
Passes: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]


def amount_problem(data: bytes) -> str:
    """Return whether a file in JSON has more values than are decoded, as a clause; empty if it has not."""
    count = data.count(b",")  # at least one before each value but the first of an array or object
    return f"it has about {count} values, more than the {MOST_VALUES} that are read" if count > MOST_VALUES else ""
