# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report prints of the network of each level of the factor ``netstack``: the settings that its trials observed."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.core.model import Run, Status
from swapstone.core.model.number_text import percent
from swapstone.core.record import Description, RecordView
from swapstone.core.report.context import PartContext
from swapstone.parts.net.model.link_counters import counters

FACTOR = "netstack"
LINK = "link"
CONTROL = "_control"
"""How the names of the observations of congestion control end: ``server_control``, ``client_control``."""

_NOT_SETTINGS = frozenset({"tap", "kernel_sockets", "stack"})
_VARY = frozenset({"bytes_per_frame"})
"""Observations that differ from workload to workload."""
_MOST = 3
_OF_CLIENT = " (client on the stack)"
"""After the names of observations in trials whose client is on the stack under test, and whose server is on the kernel's."""
_STACK_OF_CLIENT = "client_options"
"""An observation of those trials only."""
_EMULATED = (
    "The server ran on an emulated machine without an operating system. Its instructions can be compared with those of other stacks on the "
    "same machine; rates and latencies are those of the emulator, and of no hardware."
)
_OF_LINK = "link_"
"""How the names of the observations of an emulated link begin: they differ in every run."""
_DIRECTIONS = (("to the server", "link_in"), ("from it", "link_out"))


def network_context(view: RecordView, description: Description) -> PartContext:
    """Return the facts and notes of a record's report on the network."""
    return PartContext(facts=network_facts(view), notes=network_notes(view, bare=description.place.bare))


def network_facts(view: RecordView) -> tuple[tuple[str, str], ...]:
    """Return pairs (label, settings) of each level of the factor in a record; none without the factor.

    Different settings of one level are all listed, so that a change within the record shows.

    Args:
        view: the record.
    """
    networks = tuple(
        (f"network of {variant}", "; ".join(f"{name} {_listed(texts)}" for name, texts in settings.items()))
        for variant, settings in _settings(view).items()
    )
    return (*networks, *_links(view))


def _links(view: RecordView) -> tuple[tuple[str, str], ...]:
    """Return pairs (label, sums of the counters of the emulated link) of each variant of a record with the factor ``link``."""
    if LINK not in _factors(view):
        return ()
    sums: dict[str, dict[str, dict[str, int]]] = {}
    for run in view.runs:
        seen = dict(run.seen)
        for way, name in _DIRECTIONS if run.status is Status.OK else ():
            total = sums.setdefault(run.trial.variant, {}).setdefault(way, {})
            for counter, count in counters(seen.get(name, "")).items():
                if counter in {"shortest_us", "longest_us"}:
                    total[counter] = (min if counter == "shortest_us" else max)(total.get(counter, count), count)
                else:
                    total[counter] = total.get(counter, 0) + count
    return tuple(
        (f"link of {variant}", "; ".join(_counted(way, total) for way, total in ways.items() if total))
        for variant, ways in sums.items()
        if any(ways.values())
    )


def _counted(way: str, total: dict[str, int]) -> str:
    frames = total.get("frames", 0)
    shares = [
        f"{counter} {total[counter]} ({percent(total[counter] / frames)})"
        for counter in ("lost", "reordered", "overtaken", "duplicated", "corrupted", "dropped")
        if frames and total.get(counter)
    ]
    delay = f"delay {total.get('shortest_us', 0) / 1e3:.2f} to {total.get('longest_us', 0) / 1e3:.2f} ms"
    return f"{way} {', '.join((f'{frames} frames', *shares, delay))}"


def _factors(view: RecordView) -> set[str]:
    return {choice.factor for choice in view.experiment.applied_factors}


def network_notes(view: RecordView, *, bare: bool) -> tuple[str, ...]:
    """Return what limits the figures of an emulated server, and the congestion control in force on both sides of every level.

    There is nothing of it without the factor.

    Args:
        view: the record.
        bare: whether its servers ran without an operating system.
    """
    clauses = []
    for variant, settings in _settings(view).items():
        sides = [
            f"{name.replace(CONTROL, '')} {_listed(texts)}"
            for name, texts in settings.items()
            if name.removesuffix(_OF_CLIENT).endswith(CONTROL)
        ]
        if sides:
            clauses.append(f"{variant}: {', '.join(sides)}")
    notes = (_EMULATED,) if bare else ()
    return (*notes, f"Congestion control in force, as observed. {'; '.join(clauses)}.") if clauses else notes


def _settings(view: RecordView) -> dict[str, dict[str, list[str]]]:
    """Return for each variant the observations by name, each with its different texts in order."""
    if not _factors(view) & {FACTOR, LINK}:
        return {}
    return settings_of(view.runs)


def settings_of(runs: Iterable[Run]) -> dict[str, dict[str, list[str]]]:
    """Return the settings that valid runs observed: for each variant, by name, the different texts in the order of the runs.

    Args:
        runs: of a record.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        if run.status is not Status.OK:
            continue
        of_client = any(name == _STACK_OF_CLIENT for name, _ in run.seen)
        for name, text in run.seen:
            if name in _NOT_SETTINGS or name.startswith(_OF_LINK):
                continue
            side = _OF_CLIENT if of_client else ""
            place = f"{name} of {run.trial.workload}" if name in _VARY else f"{name}{side}"
            texts = found.setdefault(run.trial.variant, {}).setdefault(place, [])
            if text not in texts:
                texts.append(text)
    return found


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _MOST} others" if len(texts) > _MOST else ""
    return " or ".join(texts[:_MOST]) + more
