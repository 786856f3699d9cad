# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names for waits: which reason accounts for most of what the slower variant waits more, and who had the processor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from swapstone.parts.explain.explanation.call_names import common_call
from swapstone.parts.explain.explanation.cost_classes import LOCKS, READY, WAITING
from swapstone.parts.explain.explanation.evidence import Named, Sides, amount, duration
from swapstone.parts.explain.explanation.ledger import run_of
from swapstone.parts.explain.model.explanation import LedgerLine, RowMeasurements
from swapstone.parts.explain.model.wait_causes import (
    COMPUTING,
    DELAYED_ACK,
    DISK,
    FUTEX,
    HAND_OFF,
    IDLE,
    INTERRUPT,
    LOAD_GENERATOR,
    LOCK,
    NETWORK,
    NO_PROCESSOR,
    OWN_THREADS,
    TIMER,
    EndedWaits,
    ProcessorTaken,
)

FOREIGN = "foreign load"

MOST_OF = 0.5
"""A reason names a wait if it has at least this share of what the slower variant waits more."""

_HAND_OFFS = 0.25
"""Share of hand-offs from which waits in futex are hand-offs: threads that take turns also meet at the lock of their condition."""

_COVERS = 0.25
"""Least share of a class's time that its waits, of all threads together, must have."""

_MENTIONED, _MOST_TEXTS = 0.1, 3

_NAMES: Mapping[str, str] = {
    DELAYED_ACK: "Nagle's algorithm with delayed ACK",
    TIMER: "sleep or time-out",
    DISK: "disk",
    NETWORK: "network",
    LOCK: "a lock that another thread holds",
    HAND_OFF: "hand-off between threads",
}

_WORDS: Mapping[str, str] = {
    DELAYED_ACK: "a delayed ACK, whose timer released data that Nagle's algorithm had held back",
    TIMER: "a timer (sleep or time-out)",
    DISK: "a disk",
    NETWORK: "data from the network",
    INTERRUPT: "another interrupt",
    LOCK: "unlocking",
    HAND_OFF: "a hand-off: a condition, a semaphore or a thread's end",
    FUTEX: "a futex, of a lock or a hand-off",
    COMPUTING: "a thread that computed meanwhile",
    NO_PROCESSOR: "a thread that had no processor meanwhile",
}


NO_NAME = Named("", ())


def sleep_name(lines: Sequence[LedgerLine]) -> Named | None:
    """Return the name of a class of waits if most of its difference lies in calls that only sleep; else None.

    For waits of which no event shows what ended them: only a timer or a signal ends nanosleep(2).

    Args:
        lines: of the class `WAITING`.
    """
    whole = sum(line.difference for line in lines)
    if not whole:
        return None
    slept = sum(line.difference for line in lines if common_call(line.detail.removeprefix("in ")) == "nanosleep")
    if slept / whole < MOST_OF:
        return None
    return Named(_NAMES[TIMER], ("only a timer or a signal ends this call",))


def wait_name(seen: RowMeasurements, pair: Sides, cause: str, more_ns: float = 0.0) -> Named:
    """Return the name of the waits of a class, by what ended them.

    Args:
        seen: the measurements of both variants.
        pair: the variants.
        cause: a class of cost; those other than waiting, locks and no processor have no name.
        more_ns: that the slower variant spends in this class, by the ledger; waits that are much shorter don't name it.
    """
    slow, fast = (run_of(seen, "waits", each.variant) for each in (pair.slow, pair.fast))
    if slow is None or fast is None:
        return NO_NAME
    if cause == READY:
        return _taken(slow.taken, fast.taken)
    if cause == WAITING:
        found = _excess(slow.waits, fast.waits, {LOCK})
        return _named(found) if sum(each.more_ns for each in found) >= _COVERS * more_ns else NO_NAME
    if cause == LOCKS:
        return _locks(slow.waits, fast.waits)
    return NO_NAME


@dataclasses.dataclass(frozen=True)
class _Excess:
    """Waits of one reason, of the slower variant and of the other, and the time that the slower one has more."""

    slow: EndedWaits
    fast: EndedWaits | None
    more_ns: float

    def text(self) -> str:
        """Return the numbers."""
        slow, fast = self.slow, self.fast
        whose = f" ({slow.whose})" if slow.whose else ""
        other = "none" if fast is None else f"{amount(fast.waits)}, {duration(fast.total_ns)}"
        return (
            f"{amount(slow.waits)} waits per operation, {duration(slow.total_ns)} in all threads together, most of them "
            f"{duration(slow.short_ns)} to {duration(slow.long_ns)} long, ended by {_WORDS.get(slow.reason, slow.reason)}{whose} "
            f"(other variant: {other})"
        )


def _excess(slow: Sequence[EndedWaits], fast: Sequence[EndedWaits], without: set[str]) -> list[_Excess]:
    """Return the reasons that the slower variant has more of, the largest first."""
    others = {(each.reason, each.whose): each for each in fast}
    found = []
    for each in slow:
        other = others.get((each.reason, each.whose))
        more_ns = each.total_ns - (other.total_ns if other else 0.0)
        if each.reason not in without and more_ns > 0:
            found.append(_Excess(each, other, more_ns))
    return sorted(found, key=lambda one: -one.more_ns)


def _named(found: Sequence[_Excess]) -> Named:
    whole = sum(each.more_ns for each in found)
    if not whole:
        return NO_NAME
    first = found[0]
    how = _name_of(first.slow) if first.more_ns >= MOST_OF * whole else ""
    return Named(how, tuple(each.text() for each in found[:_MOST_TEXTS] if each.more_ns >= _MENTIONED * whole))


def _name_of(waits: EndedWaits) -> str:
    if waits.reason == COMPUTING and waits.whose in {OWN_THREADS, LOAD_GENERATOR}:
        return f"until {waits.whose} had computed"
    if waits.reason == NO_PROCESSOR and waits.whose not in {OWN_THREADS, LOAD_GENERATOR}:
        return FOREIGN
    return _NAMES.get(waits.reason, "")


def _locks(slow: Sequence[EndedWaits], fast: Sequence[EndedWaits]) -> Named:
    """Return a lock, or a hand-off where hand-offs have their share of the waits and of their time.

    Threads that take turns more often don't wait longer for each other's work, so the time that the slower variant has more is not asked.
    """
    futex = [each for each in slow if each.reason in {LOCK, HAND_OFF, FUTEX}]
    others = {(each.reason, each.whose): each for each in fast}
    pairs = {each: others.get((each.reason, each.whose)) for each in futex}
    more = {each: max(0.0, each.waits - (other.waits if other else 0.0)) for each, other in pairs.items()}
    number, whole = sum(more.values()), sum(each.total_ns for each in futex)
    turns = [each for each in futex if each.reason == HAND_OFF]
    name = _named(_excess(slow, fast, set(_WORDS) - {LOCK, HAND_OFF, FUTEX}))
    if (
        number
        and whole
        and sum(more[each] for each in turns) >= _HAND_OFFS * number
        and sum(each.total_ns for each in turns) >= _HAND_OFFS * whole
    ):
        texts = tuple(_Excess(each, pairs[each], 0.0).text() for each in turns[:1])
        return Named(_NAMES[HAND_OFF], (*texts, *(text for text in name.texts if text not in texts)))
    return name


def _taken(slow: Sequence[ProcessorTaken], fast: Sequence[ProcessorTaken]) -> Named:
    """Return who had the processor of the slower variant.

    Its own threads or its load generator are named only if they had it longer than those of the other variant, too, by the same share:
    otherwise the difference lies in other load, which differs from run to run.
    """
    whole = sum(each.total_ns for each in slow if each.whose != IDLE)
    if not whole:
        return NO_NAME
    of = {each.whose: each.total_ns for each in slow if each.whose != IDLE}
    before = {each.whose: each.total_ns for each in fast}
    more = {name: of.get(name, 0.0) - before.get(name, 0.0) for name in (OWN_THREADS, LOAD_GENERATOR)}
    how = next((name for name, part in more.items() if part >= MOST_OF * whole), FOREIGN)
    most = sorted(of.items(), key=lambda one: -one[1])[:_MOST_TEXTS]
    who = ", ".join(f"{name} for {duration(part)}" for name, part in most)
    return Named(how, (f"the processor was taken, per operation, by {who}",))
