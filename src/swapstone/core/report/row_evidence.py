# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a part stores beside a record for some rows, as claims are tested by it: objects of the kind ``evidence``, each a function.

It takes the view of a record, and returns for each of its kinds of tests what yields the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from swapstone.core.model.parts import provided
from swapstone.core.record import RecordView

Range = tuple[float, float, str]
"""The smallest and the largest value that the evidence allows, nan without them; and a sentence without the verdict."""

Ranges = Callable[[Any], Iterator[Range]]
"""Yields what a record has for a test: an object whose attributes the part names that has the kind of test."""


def stored_evidence(view: RecordView) -> dict[str, Ranges]:
    """Return the evidence that all parts have stored beside a record, by kind of test."""
    readers: tuple[Callable[[RecordView], Mapping[str, Ranges]], ...] = provided("evidence", Callable)
    return {kind: ranges for read in readers for kind, ranges in read(view).items()}
