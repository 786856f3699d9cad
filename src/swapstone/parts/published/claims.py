# SPDX-License-Identifier: MIT OR Apache-2.0
"""Claims of the pages that records can test: claims.toml."""

from __future__ import annotations

import functools
import math
import tomllib
from typing import Literal

import msgspec

from swapstone.core.model import FrozenStruct
from swapstone.core.model.references import Side
from swapstone.parts.published.data import shipped
from swapstone.parts.published.joins import side_of

Kind = Literal["ratio", "difference", "values", "share", "index", "seconds", "stacks", "modelled"]
"""What a test decides by; the comment in claims.toml explains each."""


class ClaimTest(FrozenStruct, frozen=True, kw_only=True):
    """A condition of a claim.

    Attributes:
        what: what is compared with the bounds.
        suite, workload, metric, load: the row; without a workload for an index.
        side: its levels.
        over: what is divided by or subtracted; empty for values, shares and stacks.
        part_of: the metric of which a share is taken; empty for others.
        profile: kind of the profile whose stacks are searched; empty for others.
        functions: names of functions, one of which a stack must have.
        processor: the modelled one; empty for others.
        least, most: the claim holds from least to most; infinite without a bound.
    """

    what: Kind
    suite: str
    metric: str
    side: str
    workload: str = ""
    load: str = "idle"
    over: str = ""
    part_of: str = ""
    profile: str = ""
    functions: tuple[str, ...] = ()
    processor: str = ""
    least: float = -math.inf
    most: float = math.inf

    @property
    def sides(self) -> tuple[Side, Side]:
        """Return the side, and what it is compared with; that is itself where nothing is."""
        return side_of(self.side, self.load), side_of(self.over or self.side, self.load)


class PageClaim(FrozenStruct, frozen=True, kw_only=True):
    """A claim of a page.

    Attributes:
        name: of the claim.
        source, place: the page, and where on it.
        words: the claim, abridged.
        command: what measures it; empty if nothing here does.
        untested: why no record tests it; empty if it has tests.
        note: what differs between the words and the tests.
        tests: all must hold.
    """

    name: str = msgspec.field(name="id")
    source: str
    place: str
    words: str
    command: str
    untested: str = ""
    note: str = ""
    tests: tuple[ClaimTest, ...] = msgspec.field(name="test", default=())


@functools.cache
def page_claims() -> tuple[PageClaim, ...]:
    """Return the claims of the pages."""
    with shipped("claims.toml") as text:
        return msgspec.convert(tomllib.loads(text)["claim"], tuple[PageClaim, ...])
