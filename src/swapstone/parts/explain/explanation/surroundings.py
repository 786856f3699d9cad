# SPDX-License-Identifier: MIT OR Apache-2.0
"""What surrounds the processes of both variants and may account for their difference: limits, priority, filters, environment, objects.

Any user can read it. Each quantity is one line of `QUANTITIES`: its name, where it is read, and which part of the time it may change.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swapstone.core.comparison.profile_difference import LEAST_SHARE
from swapstone.core.model import Observation
from swapstone.core.model.observation import cgroup_file, process_file
from swapstone.core.model.profile import Frame
from swapstone.core.model.regular_file import text_of
from swapstone.parts.explain.explanation.by_function import amount, duration, short_label, signed
from swapstone.parts.explain.explanation.profile_formats import is_library
from swapstone.parts.explain.explanation.time_split import WALL
from swapstone.parts.explain.model.explanation import SURROUNDINGS, Count, Reference, RowMeasurements

USER, SYSTEM, NEITHER = "user", "system", "neither"
"""Parts of elapsed time: on a processor outside the kernel, in the kernel, and the rest, in which a thread waits or has no processor.
Metrics of reference runs, in ns of the whole process; the rest is known of a program with one thread."""
READY = "ready"
"""Part of the rest: ready to run without a processor (proc(5): `/proc/PID/schedstat`)."""

TICK_NS = 1e7
"""The kernel divides processor time into user and system time by what ran at its ticks. With CONFIG_HZ=100 a tick takes 10 ms; most
kernels have shorter ones, and those with VIRT_CPU_ACCOUNTING_GEN need none."""

LEAST_TICKS = 30
"""With fewer ticks in all reference runs the division is not stated."""

GROUPS = Path("/sys/fs/cgroup")
NONE = "none"
MOST_LINES = 6
_ANY, _ON_CPU = (USER, SYSTEM, NEITHER), (USER, SYSTEM)
_STATUS, _STAT, _GROUP = process_file("status"), process_file("stat"), process_file("cgroup")
_ENVIRON, _LIMITS, _IO, _QUOTA_FILE = (
    process_file("environ"),
    process_file("limits"),
    process_file("io"),
    cgroup_file("cpu.max"),
)
_QUOTA = "processor quota and its period in us"
_POLICIES = {
    "0": "SCHED_OTHER",
    "1": "SCHED_FIFO",
    "2": "SCHED_RR",
    "3": "SCHED_BATCH",
    "5": "SCHED_IDLE",
    "6": "SCHED_DEADLINE",
}
_MODES = {"0": NONE, "1": "strict", "2": "filter"}
_NAME = r"\A(?s:.*)\) "  # a process may have any name
_LONGEST, _MOST_VALUES = 120, 512


class Quantity(NamedTuple):
    """A quantity of a process.

    Attributes:
        name: of it, the subject of its line; with ``{}`` for the name of each of several.
        where: the text that has it.
        pattern: its value in that text, the last group; the first of two groups is the name of one of several.
        parts: of the time that it may change.
        words: what values stand for.
    """

    name: str
    where: Observation
    pattern: str
    parts: tuple[str, ...] = _ANY
    words: Mapping[str, str] = {}


QUANTITIES = (
    Quantity(_QUOTA, _QUOTA_FILE, r"\A(\d+ \d+|none)", (NEITHER,)),
    Quantity("CPU affinity", _STATUS, r"^Cpus_allowed_list:\s*(\S+)"),
    Quantity("nice value", _STAT, _NAME + r"(?:\S+ ){16}(-?\d+)", (NEITHER,)),
    Quantity("scheduling policy", _STAT, _NAME + r"(?:\S+ ){38}(\d+)", (NEITHER,), _POLICIES),
    Quantity("real-time priority", _STAT, _NAME + r"(?:\S+ ){37}(\d+)", (NEITHER,)),
    Quantity("slack of timers in ns", process_file("timerslack_ns"), r"(\d+)", (NEITHER,)),
    Quantity("weight of the cgroup's processor time", cgroup_file("cpu.weight"), r"(\d+)", (NEITHER,)),
    Quantity("limit of the cgroup's memory", cgroup_file("memory.max"), r"(\w+)"),
    Quantity("limit of the cgroup's transfers", cgroup_file("io.max"), r"(.+)", (NEITHER,)),
    Quantity("seccomp mode", _STATUS, r"^Seccomp:\s*(\d)", (SYSTEM,), _MODES),
    Quantity("seccomp filters", _STATUS, r"^Seccomp_filters:\s*(\d+)", (SYSTEM,)),
    Quantity("speculative store bypass", _STATUS, r"^Speculation_Store_Bypass:\s*(.+)", _ON_CPU),
    Quantity("indirect branch speculation", _STATUS, r"^SpeculationIndirectBranch:\s*(.+)", _ON_CPU),
    Quantity("huge pages permitted (THP_enabled)", _STATUS, r"^THP_enabled:\s*(\d)", _ON_CPU),
    Quantity("locked memory", _STATUS, r"^VmLck:\s*(\d+ kB)", _ON_CPU),
    Quantity("allowed memory nodes", _STATUS, r"^Mems_allowed_list:\s*(\S+)", _ON_CPU),
    Quantity("personality", process_file("personality"), r"([0-9a-f]+)", _ON_CPU),
    Quantity("environment variable {}", _ENVIRON, r"(?:\A|\0)(?!PWD=|OLDPWD=|SHLVL=|_=|SWAPSTONE_)([^=\0]+)=([^\0]*)"),
    Quantity("limit of {}", _LIMITS, r"^Max (.+?)  +(\S+)"),
    Quantity("mapped object {}", process_file("maps"), r"^(?:.*/)?([^/\n]+\.so\b.*)\n(.+)"),
)
"""Of the process that was started, at its end. A quota is looked for in the cgroups above its own, too."""

OBSERVED = (*dict.fromkeys(each.where for each in QUANTITIES[:-1]), _GROUP, _IO)
"""What an agent reads for them; it reports the mapped objects in any case."""
_CONSTRAINTS = QUANTITIES[:5]
"""What keeps a processor from a thread that is ready. It is also read while a program runs."""

STOPS = "nr_throttled"
COUNTED = {
    "rchar": "bytes read",
    "wchar": "bytes written",
    "syscr": "read calls",
    "syscw": "write calls",
    "read_bytes": "bytes read from storage",
    "write_bytes": "bytes written to storage",
    STOPS: "stops by the processor quota",
}
"""Names of lines of /proc/PID/io (proc(5)) and of a cgroup's cpu.stat, and what they count."""
_LEAST_MORE, _LEAST = 1.2, {"bytes": 64 << 10, "calls": 16}
"""A count differs if the slower variant has this many times as much, and so much more."""

Texts = Mapping[Observation, str]


def read_surroundings(
    texts: Texts, objects: Sequence[str], given: Sequence[tuple[str, str]], groups: Path = GROUPS
) -> dict[str, str]:
    """Return the quantities of a process by name. The name with ``{}`` is there if those of several were read.

    Args:
        texts: what was read of it.
        objects: paths of the files that it had mapped executable, without its program and what a variant preloads.
        given: environment of its request: variables of variants are no surroundings.
        groups: folder of the cgroups.
    """
    quota = next(filter(None, map(_quota, _groups(texts, groups))), "")
    # A group that is gone had what the agent read.
    quota = quota or next(iter(re.findall(r"\A\d+ \d+", texts.get(_QUOTA_FILE, ""))), NONE)
    paths = {Path(path).name: path for path in objects}
    mapped = (f"{path}\n{path}" for name, path in paths.items() if not is_library(Frame(symbol="", object=name)))
    texts = {**texts, _QUOTA_FILE: quota, QUANTITIES[-1].where: "\n\n".join(mapped)}
    found: dict[str, str] = {}
    for each in QUANTITIES:
        several = "{}" in each.name
        if several and each.where in texts:
            found[each.name] = ""
        hits = re.finditer(each.pattern, texts.get(each.where, ""), re.MULTILINE)
        for hit in itertools.islice(hits, _MOST_VALUES if several else 1):
            value = hit[hit.re.groups].strip()
            if each.where != _ENVIRON or hit.groups() not in given:
                found[each.name.format(hit[1])[:_LONGEST]] = each.words.get(value, value)[:_LONGEST] or "empty"
    return found


def read_limits(process: Path, groups: Path = GROUPS) -> dict[str, str]:
    """Return what may keep a processor from a process that runs, by the names of quantities; nothing of one that has ended.

    Args:
        process: its folder in /proc.
        groups: folder of the cgroups.
    """
    wanted = dict.fromkeys((_GROUP, *(each.where for each in _CONSTRAINTS)))
    texts = {each: text_of(process / each.name) for each in wanted if each.kind is _GROUP.kind}
    names = {each.name for each in _CONSTRAINTS}
    found = read_surroundings(texts, (), (), groups) if all(texts.values()) else {}
    return {name: value for name, value in found.items() if name in names}


def read_counts(texts: Texts, groups: Path = GROUPS) -> dict[str, int]:
    """Return what a process counted, and how often quotas stopped its cgroups so far, by the names of `COUNTED`.

    Args:
        texts: what was read of it.
        groups: folder of the cgroups.
    """
    stat = "".join(text_of(path / "cpu.stat") + "\n" for path in _groups(texts, groups) if _quota(path))
    found: dict[str, int] = {}
    for name, number in re.findall(r"^(\w+):? (\d{1,18})$", f"{texts.get(_IO, '')}\n{stat}", re.MULTILINE):
        if name in COUNTED:
            found[name] = found.get(name, 0) + int(number)
    return found


def _groups(texts: Texts, root: Path) -> list[Path]:
    """Return the folders of a process's cgroups of processor time (cgroups(7)), from its own to the root."""
    found: list[Path] = []
    for line in texts.get(_GROUP, "").splitlines():
        number, controllers, path = f"{line}::".split(":")[:3]
        inner = Path(path.strip("/"))
        if ".." not in inner.parts and (number == "0" or "cpu" in controllers.split(",")):
            found += [root / ("" if number == "0" else "cpu") / each for each in (inner, *inner.parents)]
    return found


def _quota(group: Path) -> str:
    """Return the quota and the period of a cgroup in us, of version 2 or 1; empty if it has none."""
    files = ("cpu.max",) if (group / "cpu.max").exists() else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    found = " ".join(text_of(group / name).strip() for name in files)
    return found if found[:1].isdigit() else ""


def surrounding_lines(seen: RowMeasurements, counts: Sequence[Count]) -> tuple[str, ...]:
    """Return how the time is divided, and the quantities that differ and may account for its difference: a line each.

    A quantity differs if all runs of a variant have the same value; a count, if the slower variant has more. It may account for the
    difference if a part of the time that it may change has `LEAST_SHARE` of it or more.
    """
    parts = part_differences(seen)
    changed = _changed(parts)
    lines = [line for each in QUANTITIES if changed & {*each.parts} for line in _unlike(each, seen)]
    for count in counts if changed & {SYSTEM, NEITHER} else ():
        if count.group == SURROUNDINGS and count.baseline is not None and count.candidate is not None:
            sides = (count.candidate, count.baseline)
            more, less = sides if slower_first(seen)[0] is seen.references[1] else sides[::-1]
            least = next((least for word, least in _LEAST.items() if word in count.name), 1)
            if more >= _LEAST_MORE * less and more - less >= least:
                lines.append(_line(count.name, amount(more), amount(less), seen))
    left = len(lines) - MOST_LINES
    note = f"{left} more of the surroundings differ; the stored evidence has them."
    return (*_divided(seen, parts), *lines[:MOST_LINES], *((note,) if left > 0 else ()))


def processor_limits(seen: RowMeasurements) -> tuple[str, ...]:
    """Return the lines of what differs and keeps a processor from a thread that is ready."""
    return tuple(line for each in _CONSTRAINTS for line in _unlike(each, seen))


def slower_first(seen: RowMeasurements) -> tuple[Reference, Reference]:
    """Return both variants, the slower one first."""
    base, candidate = seen.references
    times = [dict(each.metrics).get(seen.ledger_metric, 0.0) for each in seen.references]
    return (base, candidate) if times[0] > times[1] else (candidate, base)


def _line(name: str, slow: str, fast: str, seen: RowMeasurements) -> str:
    sides = zip((slow, fast), slower_first(seen), strict=True)
    return f"{name}: {', '.join(f'{value} with {short_label(side.variant)}' for value, side in sides)}."


def _unlike(each: Quantity, seen: RowMeasurements) -> list[str]:
    """Return the lines of a quantity that differs; what one of several lacks has the value `NONE`.

    If the ends of the runs do not show it, a quantity differs if the slower variant had a value while it ran that the other never had.
    """
    slow, fast = (dict(side.surroundings) for side in slower_first(seen))
    several = "{}" in each.name
    prefix = each.name.partition("{")[0]
    names = (
        {name for name in (*slow, *fast) if name.startswith(prefix) and name != each.name} if several else {each.name}
    )
    found = []
    for name in sorted(names):
        values = [side.get(name, (NONE,) if several and each.name in side else ()) for side in (slow, fast)]
        if len(values[0]) == len(values[1]) == 1 and values[0] != values[1]:
            found.append(_line(name, values[0][0], values[1][0], seen))
    had, other = (
        {value for run in seen.runs if run.variant == side.variant for value in dict(run.limits).get(each.name, ())}
        for side in slower_first(seen)
    )
    if not found and other and (more := sorted(had - other)):
        found.append(_line(f"{each.name}, while it ran", " or ".join(more), " or ".join(sorted(other)), seen))
    return found


def part_differences(seen: RowMeasurements) -> dict[str, float]:
    """Return the difference of each part of an operation's time in ns, by name; empty if the parts are not known.

    Elapsed time has the parts `USER`, `SYSTEM` and `NEITHER`, CPU time the first two. `READY`, if known, is a part of the third.
    """
    names = (USER, SYSTEM, NEITHER) if seen.ledger_metric == WALL else (USER, SYSTEM)
    sides = []
    for each in seen.references:
        metrics = dict(each.metrics)
        whole = sum(metrics.get(name, 0.0) for name in names)
        if not whole or any(name not in metrics for name in names):
            return {}
        scale = metrics.get(seen.ledger_metric, 0.0) / whole
        sides.append({name: metrics.get(name, 0.0) * scale for name in (*names, READY)})
    return {name: sides[1][name] - sides[0][name] for name in sides[0]}


def _changed(parts: Mapping[str, float]) -> set[str]:
    """Return the parts that have `LEAST_SHARE` of the difference or more; all of them if they are not known."""
    whole = sum(each for name, each in parts.items() if name != READY)
    return (
        {name for name, each in parts.items() if name != READY and whole and each / whole >= LEAST_SHARE}
        if parts
        else {*_ANY}
    )


def _divided(seen: RowMeasurements, parts: Mapping[str, float]) -> Iterator[str]:
    """Yield how the difference is divided, without user and system time apart where the kernel's ticks were too few."""
    if not parts:
        return
    ticks = (dict(each.metrics).get("counted", 0.0) * each.runs / TICK_NS for each in seen.references)
    texts = {USER: "in user mode", SYSTEM: "in the kernel", NEITHER: "neither, that is waiting or without a processor"}
    shown = [(texts[name], each) for name, each in parts.items() if name in texts]
    if max(ticks) < LEAST_TICKS:
        shown[:2] = [("on a processor", parts[USER] + parts[SYSTEM])]
    whole = sum(each for _, each in shown)
    ready = f"; {duration(parts[READY])} of that ready to run" if abs(parts[READY]) >= LEAST_SHARE * abs(whole) else ""
    divided = ", ".join(f"{signed(each)} {text}" for text, each in shown) + (ready if NEITHER in parts else "")
    yield f"{signed(whole)} ({seen.ledger_metric}) by the kernel's own counts: {divided}."
