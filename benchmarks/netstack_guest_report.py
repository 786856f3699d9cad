# SPDX-License-Identifier: MIT OR Apache-2.0
"""What benchmarks/netstack-guest prints of a profile."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.netstack_guest_profile import MEAN_INTERVAL_S, Profile
from benchmarks.netstack_profile import Classes, functions, split
from benchmarks.netstack_tables import table

from swapstone.stats import wilson

TITLES = {"lwip": "lwIP", "smoltcp": "smoltcp"}
LIMITS = (
    "Shares are measured, not times: the machine is emulated and is stopped for each sample. An instruction's cost is QEMU's, not that of"
    " hardware.",
    "A sample is taken where QEMU can stop the machine: at the start of a translation block, which is often the start of a function.",
    "QEMU stops the machine in the thread that runs its devices: time in which that thread sends or receives frames is under-represented.",
    "An access to a device may wait for QEMU's lock, which counts as work of the driver. So profiles on a busy host differ by more than the"
    " intervals.",
    "ab and the machine share processors with this command. Idle time depends on them and is counted apart.",
    "Intervals (95 %, Wilson) are of random sampling alone.",
)
_FUNCTIONS, _STACKS = 10, 3


def share(hits: int, trials: int) -> str:
    """Return a share with Wilson's 95 % interval, in per cent."""
    if not trials:
        return "-"
    low, high = wilson(hits, trials)
    return f"{100 * hits / trials:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def _percent(hits: int, trials: int) -> str:
    return f"{100 * hits / trials:.0f} %"


def answer(profile: Profile, classes: Classes) -> str:
    """Return the sentence that states where one stack's samples are."""
    title, samples, busy = TITLES[profile.stack], profile.samples, len(profile.costs)
    if not samples:
        return f"{title}: no sample was taken."
    idle = f"Of {title}'s {samples} samples, {_percent(profile.idle, samples)} wait for frames"
    if not busy:
        return f"{idle}; none is of work."
    parts = sorted(split(profile.costs, classes).items(), key=lambda one: (-one[1], one[0]))
    work = ", ".join(f"{_percent(count, busy)} {name}" for name, count in parts[:3] if count)
    function, _, count = _by_function(profile, classes)[0]
    return f"{idle}. Of the {busy} others, {work}; the function with the most, {_percent(count, busy)}, is {function}."


def _by_function(profile: Profile, classes: Classes) -> list[tuple[str, str, int]]:
    return functions(profile.costs, classes)


def by_class(profiles: Sequence[Profile], classes: Classes) -> str:
    """Return the table of classes: the shares of the samples that are not idle."""
    splits = [split(profile.costs, classes) for profile in profiles]
    used = [name for name in classes.names() if any(found[name] for found in splits)]
    used.sort(
        key=lambda name: -max(found[name] / max(1, len(one.costs)) for one, found in zip(profiles, splits, strict=True))
    )
    head = ["", *(TITLES[profile.stack] for profile in profiles)]
    rows = [
        ["samples", *(str(profile.samples) for profile in profiles)],
        ["idle (wfi)", *(share(profile.idle, profile.samples) for profile in profiles)],
        ["others", *(str(len(profile.costs)) for profile in profiles)],
    ]
    rows += [
        [f"of these: {name}" if name == used[0] else name]
        + [share(found[name], len(profile.costs)) for profile, found in zip(profiles, splits, strict=True)]
        for name in used
    ]
    return table(head, rows)


def _hottest(profile: Profile, classes: Classes) -> list[str]:
    busy = len(profile.costs)
    title = TITLES[profile.stack]
    rows = [
        [function, name, str(count), share(count, busy)]
        for function, name, count in _by_function(profile, classes)[:_FUNCTIONS]
    ]
    lines = [f"{title}: functions with the most samples, of {busy}", ""]
    lines += [table(["function", "class", "samples", "share"], rows), ""]
    lines += [f"{title}: stacks with the most samples, the innermost function first"]
    stacks = collections.Counter(one.stack for one in profile.costs)
    for stack, count in sorted(stacks.items(), key=lambda one: (-one[1], one[0]))[:_STACKS]:
        lines += ["", f"{count} samples, {share(count, busy)}", *(f"    {name}" for name in reversed(stack))]
    return lines


def _notes(profile: Profile) -> list[str]:
    title, busy = TITLES[profile.stack], len(profile.costs)
    notes = [
        f"{title}: {profile.whole} of {busy} stacks reach the entry code of the guest."
        f" ab made {profile.requests} requests in {profile.runs} run{'s' if profile.runs != 1 else ''}, {profile.failed} failed."
    ]
    notes += [
        f"{title}: {count} stack{'s end' if count != 1 else ' ends'} early: {reason}."
        for reason, count in sorted(profile.reasons.items(), key=lambda one: (-one[1], one[0]))
    ]
    if profile.samples < profile.wanted:
        notes.append(f"{title}: only {profile.samples} of {profile.wanted} samples were taken in the time limit.")
    return notes


def text(profiles: Sequence[Profile], classes: Classes) -> str:
    """Return the answer, the tables, and the limits."""
    lines = [answer(profile, classes) for profile in profiles]
    lines += ["", "Shares of samples by class of work, with intervals of 95 %", "", by_class(profiles, classes)]
    for profile in profiles:
        if profile.costs:
            lines += ["", *_hottest(profile, classes)]
    lines += ["", *(note for profile in profiles for note in _notes(profile)), ""]
    interval = f"Intervals between samples are exponential, with a mean of {1000 * MEAN_INTERVAL_S:.0f} ms of running."
    return "\n".join([*lines, *(f"- {limit}" for limit in (*LIMITS, interval))])


def data(profile: Profile, classes: Classes) -> Mapping[str, Any]:
    """Return a profile as JSON values."""
    stacks = collections.Counter(one.stack for one in profile.costs)
    return {
        **{"stack": profile.stack, "wanted": profile.wanted, "samples": profile.samples, "idle": profile.idle},
        **{"whole": profile.whole, "reasons": profile.reasons, "split": split(profile.costs, classes)},
        **{"runs": profile.runs, "requests": profile.requests, "failed": profile.failed},
        "functions": [
            {"function": function, "class": name, "samples": count}
            for function, name, count in _by_function(profile, classes)
        ],
        "stacks": [{"stack": stack, "samples": count} for stack, count in stacks.most_common()],
    }
