# SPDX-License-Identifier: MIT OR Apache-2.0
"""Claims of the pages that records can test: claims.toml, decoded."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from importlib import resources
from typing import Literal, get_args

import msgspec

from swapstone.model import FrozenStruct, UserError
from swapstone.model.toml_file import TomlError, decode_toml
from swapstone.published.data import sources
from swapstone.published.joins import CLAIMS, Place, Side, side_of

_REINSTALL = "This file comes with swapstone: install it again."
_IDLE = "idle"

Kind = Literal["ratio", "difference", "values", "share", "index", "seconds", "stacks", "modelled"]
"""What a test decides by; the comment in claims.toml explains each."""

_TWO_SIDED = frozenset({"ratio", "difference", "index", "seconds", "modelled"})


class ClaimTest(FrozenStruct, frozen=True, kw_only=True):
    """A condition of a claim.

    Attributes:
        what: what is compared with the bounds.
        place: the row; without a workload for an index.
        over: what is divided by or subtracted; None for values, shares and stacks.
        part_of: the metric of which a share is taken; empty for others.
        profile: kind of the profile whose stacks are searched; empty for others.
        functions: names of functions, one of which a stack must have.
        processor: the modelled one; empty for others.
        least, most: the claim holds from least to most; infinite without a bound.
    """

    what: Kind
    place: Place
    over: Side | None
    part_of: str
    profile: str
    functions: tuple[str, ...]
    processor: str
    least: float
    most: float


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

    name: str
    source: str
    place: str
    words: str
    command: str
    untested: str
    note: str
    tests: tuple[ClaimTest, ...]


class _Test(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    what: Kind
    suite: str
    metric: str
    side: str
    workload: str = ""
    load: str = _IDLE
    over: str = ""
    part_of: str = ""
    profile: Literal["", "on-cpu", "off-cpu"] = ""
    functions: list[str] = msgspec.field(default_factory=list)
    processor: str = ""
    least: float | None = None
    most: float | None = None


class _Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: str
    source: str
    place: str
    words: str
    command: str
    untested: str = ""
    note: str = ""
    test: list[_Test] = msgspec.field(default_factory=list)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    claim: list[_Claim]


def decode_claims(content: bytes) -> tuple[PageClaim, ...]:
    """Decode a file of claims: TOML; the comment in claims.toml explains it.

    Raises:
        UserError: the file is invalid; names the claim.
    """
    try:
        file = msgspec.convert(decode_toml(content), _File)
    except (TomlError, msgspec.ValidationError) as error:
        raise UserError(f"claims.toml: {error}.", _REINSTALL) from error
    pages = {each.name for each in sources()}
    names: set[str] = set()
    found = []
    for claim in file.claim:
        where = f"claims.toml, {claim.id[:40]!r}"
        for wrong in _problems(claim, pages):
            raise UserError(f"{where}: {wrong}.", _REINSTALL)
        if claim.id in names:
            raise UserError(f"{where}: it occurs twice.", _REINSTALL)
        names.add(claim.id)
        found.append(
            PageClaim(
                name=claim.id,
                source=claim.source,
                place=claim.place,
                words=claim.words,
                command=claim.command,
                untested=claim.untested,
                note=claim.note,
                tests=tuple(_decoded(each, where) for each in claim.test),
            )
        )
    return tuple(found)


def _problems(claim: _Claim, pages: set[str]) -> Iterator[str]:
    if claim.source not in pages:
        yield f"there is no page {claim.source[:40]!r}"
    if not claim.id or not claim.words:
        yield "it has no id or no words"
    if bool(claim.untested) == bool(claim.test):
        yield "it must have tests, or a reason why it is untested"
    if claim.test and not claim.command:
        yield "it has tests and no command"
    for test in claim.test:
        yield from _test_problems(test)


def _test_problems(test: _Test) -> Iterator[str]:
    if (test.what in _TWO_SIDED) != bool(test.over):
        yield f"a test of {test.what} {'needs' if test.what in _TWO_SIDED else 'has no'} over"
    if (test.what == "share") != bool(test.part_of):
        yield "part_of belongs to a share, and to nothing else"
    if (test.what == "stacks") != bool(test.profile and all(test.functions) and test.functions):
        yield "a profile and functions belong to stacks, and to nothing else"
    if (test.what == "modelled") != bool(test.processor):
        yield "a processor belongs to a modelled test, and to nothing else"
    if (test.what == "index") == bool(test.workload):
        yield "an index has no workload, and every other test has one"
    if test.least is None and test.most is None:
        yield "a test needs least or most"
    if test.least is not None and test.most is not None and test.least > test.most:
        yield "least is above most, so that the claim can't hold"
    if any(bound is not None and not math.isfinite(bound) for bound in (test.least, test.most)):
        yield "least and most must be finite"


def _decoded(test: _Test, where: str) -> ClaimTest:
    over = side_of(test.over, test.load, where) if test.over else None
    return ClaimTest(
        what=test.what,
        place=Place(
            section=CLAIMS,
            suite=test.suite,
            workload=test.workload,
            metric=test.metric,
            side=side_of(test.side, test.load, where),
            over=over,
            series=test.what == "seconds",
            index=test.what == "index",
        ),
        over=over,
        part_of=test.part_of,
        profile=test.profile,
        functions=tuple(test.functions),
        processor=test.processor,
        least=-math.inf if test.least is None else test.least,
        most=math.inf if test.most is None else test.most,
    )


@functools.cache
def page_claims() -> tuple[PageClaim, ...]:
    """Return the claims of the pages.

    Raises:
        UserError: the file is damaged.
    """
    return decode_claims(resources.files("swapstone.published").joinpath("claims.toml").read_bytes())


KINDS: tuple[str, ...] = get_args(Kind)
