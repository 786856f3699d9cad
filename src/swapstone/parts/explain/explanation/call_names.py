# SPDX-License-Identifier: MIT OR Apache-2.0
"""System calls that do the same work under several names: which one a C library makes is no difference of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from swapstone.parts.explain.model.explanation import Count

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
    found: dict[tuple[str, str], list[Count]] = {}
    for count in counts:
        name = common_call(count.name) if count.group == "system calls" else count.name
        found.setdefault((count.group, name), []).append(count)
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
