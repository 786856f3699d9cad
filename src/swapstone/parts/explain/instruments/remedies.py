# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remedies: changes of a program's surroundings that take a cause away, if the cause is what explain named. `explain --confirm` tries them.

None changes the program's file. Each is measured beside a placebo: what carries it, without its effect. Each run is judged as a trial is:
by its status, its output and its levels.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.core.model.frozen_struct import LARGEST_INTEGER
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.acquisition import RowVariant
from swapstone.parts.explain.instruments.traced_run import compile_c
from swapstone.parts.explain.model.explanation import RemedyRuns

ROUNDS = 16
"""With few rounds, bootstrap intervals of medians miss the true value too often: 6 % instead of 5 % with 8 rounds of normal noise."""

CALLS = "calls"
"""Name of the file in which an object counts."""

_PRELOAD = "LD_PRELOAD"
_MALLOC = "malloc, calloc, realloc"


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change of a program's surroundings.

    Attributes:
        name: a word or two.
        text: what it does, as a phrase.
        suits: pattern for a function with a tenth of the difference, or for a sentence about counts or limits, to which it belongs.
        calls: what it acts on, as a phrase; empty if that can't be counted.
        preload: source in native/remedies of an object that the loader preloads, and that counts the calls on which it acts.
        level: factor and level whose object is preloaded.
        environment: variables to set.
        counter: source there of an object that counts the calls, of a remedy without `preload`.
        one_processor: whether the program is pinned to one processor.
        of_glibc: whether only programs with a shared glibc heed it.
    """

    name: str
    text: str
    suits: str
    calls: str = ""
    preload: str = ""
    level: tuple[str, str] | tuple[()] = ()
    environment: tuple[tuple[str, str], ...] = ()
    counter: str = ""
    one_processor: bool = False
    of_glibc: bool = False


_FAULTS = r"page faults \(kernel\)"
_MEMORY = rf"{_FAULTS}|\b(?:brk|mmap|munmap|madvise|mremap) \(system call\)"
_SMALL_PAGES = rf"{_FAULTS}|sizes of pages|in huge pages"
_READY = r"ready without a processor"

REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        "one processor",
        "all of its threads on one processor (taskset)",
        r"false sharing|\bfutex \(system call\)",
        one_processor=True,
    ),
    Remedy(
        "mimalloc",
        "malloc is that of mimalloc (allocator=mimalloc)",
        rf"{_MEMORY}|malloc|\b(?:free|calloc|realloc|_int_free|unlink_chunk|alloc_slot|alloc_group|get_meta) \(",
        _MALLOC,
        level=("allocator", "mimalloc"),
        counter="count_malloc",
    ),
    Remedy(
        "kept memory",
        "glibc's malloc keeps freed memory and takes large blocks from its heap (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, "
        "MALLOC_TOP_PAD_)",
        _MEMORY,
        _MALLOC,
        environment=(
            ("MALLOC_TRIM_THRESHOLD_", str(1 << 30)),
            ("MALLOC_MMAP_THRESHOLD_", str(32 << 20)),  # its largest value, DEFAULT_MMAP_THRESHOLD_MAX
            ("MALLOC_TOP_PAD_", str(64 << 20)),
        ),
        counter="count_malloc",
        of_glibc=True,
    ),
    Remedy(
        "huge pages",
        "glibc's malloc requests huge pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1)",
        _SMALL_PAGES,
        _MALLOC,
        environment=(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),),
        counter="count_malloc",
        of_glibc=True,
    ),
    Remedy(
        "kept mappings",
        "what the program maps itself stays when it is unmapped, and MADV_DONTNEED frees nothing (a preloaded mmap, munmap, madvise)",
        _MEMORY,
        "munmap and MADV_DONTNEED of whole mappings of at most 32 MiB",
        preload="kept_mappings",
    ),
    Remedy(
        "huge mappings",
        "what the program maps itself may be in huge pages (a preloaded mmap and madvise request MADV_HUGEPAGE)",
        _SMALL_PAGES,
        "mmap of 2 MiB or more, MADV_NOHUGEPAGE",
        preload="huge_mappings",
    ),
    Remedy(
        "bindings at start",
        "the loader binds all functions before the program starts (LD_BIND_NOW=1)",
        r"\b_dl_(?:runtime_resolve|fixup|lookup_symbol)\w*|\bdo_lookup_x\b|\bcheck_match\b",
        "functions that are bound when they are first called",
        environment=(("LD_BIND_NOW", "1"),),
        counter="count_bindings",
        of_glibc=True,
    ),
    Remedy(
        "locale C",
        "whatever locale the program selects is C, as with LC_ALL=C (a preloaded setlocale and newlocale)",
        r"locale|\bLC_|\bLANG\b|coll(?:_l)?\b|\w*xfrm|\bmb\w*to\w*c|\bwc\w*tomb|gconv|utf8|\bisw|\btow|\bre_search|\bregexec|\bfnmatch|\b_nl_",
        "setlocale, newlocale",
        preload="locale",
    ),
    Remedy(
        "all processors",
        "the program may use all processors (a preloaded sched_setaffinity and pthread_setaffinity_np do nothing)",
        rf"{_READY}|affinity",
        "sched_setaffinity, pthread_setaffinity_np",
        preload="affinity",
    ),
    Remedy(
        "no quota",
        "the program does not move itself to a control group (a preloaded open and fopen write nothing to cgroup.procs and tasks)",
        rf"{_READY}|quota|throttl",
        "open and fopen of cgroup.procs and tasks",
        preload="control_group",
    ),
    Remedy(
        "no forced writes",
        "written data stays in the page cache (a preloaded fsync and fdatasync do nothing)",
        r"\bf(?:data)?sync \(system call\)",
        "fsync, fdatasync, syncfs, sync",
        preload="no_sync",
    ),
    Remedy(
        "page cache",
        "files are opened without O_DIRECT and O_SYNC (a preloaded open, openat and mkostemp)",
        r"\bp(?:read|write)\w* \(system call\)|ended by a disk",
        "open, openat, mkostemp with O_DIRECT or O_SYNC",
        preload="page_cache",
    ),
    Remedy(
        "no sleeps",
        "sleeps and the time-outs of poll end at once (a preloaded nanosleep, clock_nanosleep, usleep, sleep and poll)",
        r"\b(?:clock_nanosleep|nanosleep|poll) \(system call\)",
        "nanosleep, clock_nanosleep, usleep, sleep, poll with a time-out",
        preload="no_sleeps",
    ),
    Remedy(
        "room to grow",
        "a block that grows gets half more than it requests (a preloaded realloc)",
        r"\brealloc \(",
        "realloc of a block",
        preload="room_to_grow",
    ),
    Remedy(
        "larger buffers",
        "streams of the C library buffer 64 KiB (a preloaded setvbuf)",
        r"\bwrite \(system call\)",
        "setvbuf, setbuf, setbuffer, setlinebuf",
        preload="buffers",
    ),
    Remedy(
        "TCP_NODELAY",
        "sockets send small segments at once (a preloaded socket and accept set TCP_NODELAY)",
        r"\b(?:read|recv\w*|poll|select|epoll_wait) \(system call\)",
        "socket, accept, accept4 for TCP",
        preload="no_delay",
    ),
)


def remedies_for(named: Sequence[str]) -> tuple[Remedy, ...]:
    """Return the remedies that belong to functions with a tenth of a difference, and to sentences about counts and limits."""
    return tuple(remedy for remedy in REMEDIES if any(re.search(remedy.suits, text) for text in named))


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """A change of a request.

    Attributes:
        variables: to set.
        objects: pairs (variable, path): objects that the loader gets by the list in a variable.
        cpus: processors to pin the program to; none for those of the request.
    """

    variables: tuple[tuple[str, str], ...] = ()
    objects: tuple[tuple[str, str], ...] = ()
    cpus: tuple[int, ...] = ()

    def __call__(self, request: TrialRequest) -> TrialRequest:
        """Return the request with these surroundings."""
        found = dict(request.environment) | dict(self.variables)
        for name, path in self.objects:
            found[name] = ":".join(filter(None, (found.get(name, ""), path)))
        return msgspec.structs.replace(request, environment=tuple(found.items()), cpus=self.cpus or request.cpus)


def surroundings_of(
    remedy: Remedy, variant: RowVariant, folder: Path, notify: Callable[[str], None]
) -> tuple[Surroundings, Surroundings, Surroundings]:
    """Return a remedy for a variant, its placebo, and the run in which its calls are counted.

    Remedy and placebo have equally many objects and processors' masks, and equally many bytes of environment.

    Args:
        remedy: to apply.
        variant: to which.
        folder: for objects, and for the file `CALLS`; it must be readable for the program.
        notify: called with a line before something takes its time.

    Raises:
        UserError: an object can't be made, or the variant has the remedy already.
    """
    if variant.tracee.request.root and (remedy.preload or remedy.level or remedy.counter):
        raise UserError("objects to preload are not in the program's root file system")
    file, every = folder.resolve() / f"{re.sub(r'[^a-zA-Z0-9_]', '-', remedy.name)}.so", os.sched_getaffinity(0)
    made: tuple[tuple[str, str], ...] = ()
    if remedy.preload:
        made = (_compiled(remedy.preload, file),)
    elif remedy.level:
        made = ((_PRELOAD, str(shutil.copyfile(variant.object_of(*remedy.level, notify), file))),)
    empty = (_compiled("empty", file.with_stem("0" * len(file.stem))),) if made else ()
    one, all_of_them = ((max(every),), tuple(sorted(every))) if remedy.one_processor else ((), ())
    with_it = Surroundings(remedy.environment, made, one)
    if with_it(variant.tracee.request) == variant.tracee.request:
        raise UserError("the slower variant has it already")
    placebo = Surroundings(tuple((name[::-1], value) for name, value in remedy.environment), empty, all_of_them)
    counter = (_compiled(remedy.counter, file.with_stem(remedy.counter)),) if remedy.counter else ()
    # Without the remedy's object: mimalloc has an operator new of its own, which calls no malloc.
    return with_it, placebo, Surroundings((("SWAPSTONE_CALLS", str(folder / CALLS)),), counter or made)


def _compiled(source: str, made: Path) -> tuple[str, str]:
    """Compile an object of native/remedies; return the variable that names it to the loader, and its path."""
    folder = share_dir() / "native" / "remedies"
    require_command("cc", "Compiling a preloaded object")
    try:
        compile_c((folder / f"{source}.c").read_text(), made, f"-I{folder}", "-shared", "-fPIC", "-ldl")
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"the preloaded object can't be compiled: {error}") from error
    return "LD_AUDIT" if source == "count_bindings" else _PRELOAD, str(made)


def try_remedies(
    remedies: Sequence[Remedy],
    sides: tuple[RowVariant, RowVariant],
    metric: str,
    folder: Path,
    notify: Callable[[str], None],
) -> tuple[RemedyRuns, ...]:
    """Measure the slower variant with each remedy and with its placebo, in turns with both variants without them.

    Args:
        remedies: to try.
        sides: the slower variant, and the other one.
        metric: of the reference runs, ``wall`` or ``cpu``.
        folder: for objects to preload.
        notify: called with a line before each remedy.
    """
    return tuple(_tried(remedy, sides, metric, folder, notify) for remedy in remedies)


def _tried(
    remedy: Remedy, sides: tuple[RowVariant, RowVariant], metric: str, folder: Path, notify: Callable[[str], None]
) -> RemedyRuns:
    notify(f"trying a remedy, in turns with its placebo and with both variants: {remedy.name}")
    slow, fast = sides
    made = RemedyRuns(name=remedy.name, text=remedy.text)
    rounds: dict[str, list[float]] = {"faster": [], "slower": [], "placebo": [], "remedied": []}
    try:
        with_it, placebo, counted = surroundings_of(remedy, slow, folder, notify)
        if remedy.calls:
            (folder / CALLS).write_bytes(bytes(8))
            _check_effect(remedy, counted, slow.run(0, counted).objects)
            calls = int.from_bytes((folder / CALLS).read_bytes()[:8], sys.byteorder)
            made = msgspec.structs.replace(made, calls=min(calls, LARGEST_INTEGER))
            if not calls:
                raise UserError(f"nothing outside the C library calls: {remedy.calls}")
        ways = {"faster": Surroundings(), "slower": Surroundings(), "placebo": placebo, "remedied": with_it}
        for number in range(ROUNDS):
            # No way always follows the same one.
            for name in random.Random(number).sample(tuple(ways), len(ways)):  # noqa: S311 - no secret
                variant = fast if name == "faster" else slow
                run = variant.run(number, ways[name])
                if variant is slow:
                    _check_effect(remedy, ways[name], run.objects)
                rounds[name].append(run.metrics.get(metric, 0.0))
    except UserError as error:
        return msgspec.structs.replace(made, problem=error.message)
    return msgspec.structs.replace(made, **{name: tuple(times) for name, times in rounds.items()})


def _check_effect(remedy: Remedy, change: Surroundings, objects: Sequence[str]) -> None:
    """Refuse a remedy that can't have an effect on a program.

    Args:
        remedy: that was applied.
        change: with which the program ran.
        objects: files that it had mapped.

    Raises:
        UserError: it can't.
    """
    if {path for name, path in change.objects if name == _PRELOAD} - {*objects}:
        raise UserError("the program did not load the preloaded object: it is static, or ignores LD_PRELOAD")
    if remedy.of_glibc and not any(Path(each).name in {"libc.so.6", "libc.so.6.1"} for each in objects):
        raise UserError("the slower variant has no shared glibc, which alone heeds it")
