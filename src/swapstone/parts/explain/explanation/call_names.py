# SPDX-License-Identifier: MIT OR Apache-2.0
"""System calls that do the same work under several names: which one a C library makes is no difference of work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from swapstone.core.model import FrozenStruct, grouped
from swapstone.core.model.profile import OWN_OBJECT, Frame
from swapstone.parts.explain.model.explanation import LISTED_FUNCTIONS, Count

_SAME: Mapping[str, str] = {
    other: name
    for name, others in {
        "accept": "accept4",
        "access": "faccessat faccessat2",
        "clone": "clone3 fork vfork",
        "dup2": "dup3",
        "epoll_wait": "epoll_pwait epoll_pwait2",
        "getdents": "getdents64",
        "link": "linkat",
        "mkdir": "mkdirat",
        "nanosleep": "clock_nanosleep usleep",
        "open": "openat",
        "pipe": "pipe2",
        "poll": "ppoll",
        "pread64": "pread",
        "pwrite64": "pwrite",
        "read": "readv",
        "readlink": "readlinkat",
        "recvfrom": "recv",
        "rename": "renameat renameat2",
        "select": "pselect pselect6",
        "sendto": "send",
        "stat": "newstat fstat newfstat lstat newlstat fstatat newfstatat",
        "symlink": "symlinkat",
        "unlink": "unlinkat",
        "wait4": "waitid",
        "write": "writev",
    }.items()
    for other in others.split()
}
"""Other names of calls, as the kernel's tracepoints and functions and the wrappers of C libraries have them, with the name that stands for
all. readv and writev are among them because streams of musl use these where those of glibc use read and write."""

_OR = " or "


def common_call(name: str) -> str:
    """Return the name that stands for a system call and those that do the same work.

    Args:
        name: as in a count, or the joined names of `common_counts`.
    """
    first = name.split(_OR, maxsplit=1)[0]
    return _SAME.get(first, first)


def common_counts(counts: Iterable[Count]) -> tuple[Count, ...]:
    """Add up the counts of system calls that do the same work, where the variants have different ones.

    The sum has all names, as ``open or openat``. It takes the place of the first count. Others do not change.
    """
    found = grouped(
        counts, lambda count: (count.group, common_call(count.name) if count.group == "system calls" else count.name)
    )
    return tuple(_sum(each) for each in found.values())


def _sum(counts: list[Count]) -> Count:
    if len(counts) == 1:
        return counts[0]
    return msgspec.structs.replace(
        counts[0],
        name=_OR.join(sorted(count.name for count in counts)),
        baseline=_added(count.baseline for count in counts),
        candidate=_added(count.candidate for count in counts),
    )


def _added(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None if one is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known, 0.0) if len(known) == len(every) else None


_DECORATION = re.compile(
    r"(?:__GI_)?(?:__+)?(?:(?<=_)libc_)?(?:(?:two|three|four)(?:way|byte)_)?(?P<name>_?[A-Za-z]\w*?)"  # musl's twoway_strstr
    r"(?:_(?:avx|evex|s?sse\d?|erms|unaligned|aligned|generic|impl|asimd|mte|sve|zbb|small|back)\w*)?"
)
_ALIASES = {"memmove": "memcpy", "mempcpy": "memcpy", "cfree": "free", "rawmemchr": "memchr", "strchrnul": "strchr"}


class NamedCounts(FrozenStruct, frozen=True, kw_only=True):
    """Counts of a function per operation.

    Attributes:
        name: of the function, without what distinguishes its variants in a library.
        frame: one of its names, with the object.
        baseline, candidate: how many; an upper bound for a variant whose list is cut off before it.
        bounded: whether one of them is a bound.
    """

    name: str
    frame: Frame
    baseline: float
    candidate: float
    bounded: bool


def plain_name(symbol: str) -> str:
    """Return a function's name without prefixes and suffixes of its variants: ``strlen`` for ``__strlen_avx2``."""
    found = _DECORATION.fullmatch(symbol)
    name = found["name"] if found else symbol
    return _ALIASES.get(name, name)


def by_name(counts: Sequence[Count], group: str) -> tuple[NamedCounts, ...]:
    """Return the counts of each function in a group, ``calls`` or ``instructions``.

    Of several names of a function in one variant the largest count is taken: they may call each other.
    """
    frames: dict[str, Frame] = {}
    sides: tuple[dict[str, float], dict[str, float]] = ({}, {})
    listed = [0, 0]
    for count in counts:
        symbol, _, where = count.name.partition(" (")
        if (
            count.group != group or count.name == "all" or symbol.startswith(("0x", "?"))
        ):  # an address is no name that two variants could share
            continue
        name = plain_name(symbol)
        frames.setdefault(name, Frame(symbol=symbol, object=where.removesuffix(")") or OWN_OBJECT))
        for number, value in enumerate((count.baseline, count.candidate)):
            if value:
                listed[number] += 1
                sides[number][name] = max(value, sides[number].get(name, 0.0))
    # A function that is not in the list of a variant was called at most as often as the last of a full list.
    rest = [
        min(side.values()) if length >= LISTED_FUNCTIONS else 0.0 for side, length in zip(sides, listed, strict=True)
    ]
    return tuple(
        NamedCounts(
            name=name,
            frame=frame,
            baseline=sides[0].get(name, rest[0]),
            candidate=sides[1].get(name, rest[1]),
            bounded=any(name not in side and bound > 0 for side, bound in zip(sides, rest, strict=True)),
        )
        for name, frame in frames.items()
    )
