# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables that benchmarks/netstack prints."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.netstack_workloads import SETTINGS, TUNED, WORKLOADS

Run = Mapping[str, Any]
_TAILS = ("p50", "p99", "p99.9", "p99.99", "max")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown, its columns aligned: the first to the left, the rest to the right."""
    rows = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |"

    rule = ["-" * width if not place else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    return "\n".join([line(rows[0]), f"|{'|'.join(f' {cell} ' for cell in rule)}|", *map(line, rows[1:])])


def number(value: float | None) -> str:
    """Return three digits of a number, without an exponent; a dash for none."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _median(runs: Sequence[Run], *path: str) -> float | None:
    values = []
    for run in runs:
        value: Any = run
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None:
            values.append(float(value))
    return statistics.median(values) if values else None


def _spread(runs: Sequence[Run]) -> str:
    values = [run["rate"] for run in runs if run.get("rate") is not None]
    if not values:
        return "-"
    middle = number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({number(min(values))} to {number(max(values))})"


def _ratio(runs: Sequence[Run], others: Sequence[Run]) -> str:
    """Return the median over blocks of the rate as a multiple of the kernel's in the same block."""
    theirs = {run["block"]: run["rate"] for run in others if run.get("rate")}
    ratios = [run["rate"] / theirs[run["block"]] for run in runs if run.get("rate") and run["block"] in theirs]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def _label(stack: str, setting: str) -> str:
    return stack if stack == "kernel" and setting == TUNED else f"{stack}, {setting}"


def _by_stack(row: tuple[int, str, str]) -> tuple[str, int]:
    return row[1], row[0]


def _columns(unit: str) -> list[str]:
    per = "MB" if unit == "MB/s" else "packet" if unit == "packets/s" else "request"
    tails = [] if unit in {"MB/s", "packets/s"} else [f"{name}, us" for name in _TAILS]
    return [unit, "of the kernel's", *tails, f"CPU, us a {per}", "user part", "whole runs"]


def results(runs: Sequence[Run]) -> str:
    """Return a table for each workload, with a line for each stack and setting; failures are listed below each."""
    parts = []
    for workload in WORKLOADS:
        mine = [run for run in runs if run["workload"] == workload.name]
        if not mine:
            continue
        lines, notes = [], []
        columns = _columns(workload.unit)
        kernel = [run for run in mine if run["stack"] == "kernel" and run["setting"] == TUNED]
        order = list(SETTINGS)
        for _, stack, setting in sorted(
            {(order.index(r["setting"]), r["stack"], r["setting"]) for r in mine}, key=_by_stack
        ):
            these = [run for run in mine if (run["stack"], run["setting"]) == (stack, setting)]
            tried = [run for run in these if run["status"] != "unavailable"]
            whole = sum(run["status"] == "ok" for run in tried)
            tails = [number(_median(tried, "latency_us", name)) for name in _TAILS] if "p50, us" in columns else []
            lines.append(
                [
                    _label(stack, setting),
                    _spread(tried),
                    _ratio(tried, kernel),
                    *tails,
                    number(_median(tried, "cpu_us")),
                    number(_median(tried, "user_us")),
                    f"{whole} of {len(tried)}",
                ]
            )
            reasons = dict.fromkeys(f"{run['status']}: {run['reason']}" for run in these if run["status"] != "ok")
            notes += [f"- {_label(stack, setting)}: {reason}" for reason in reasons]
        parts.append("\n".join([f"{workload.name}: {workload.description}", "", table(["", *columns], lines), *notes]))
    return "\n\n".join(parts)


def counted(runs: Sequence[Run]) -> str:
    """Return the table of copies and allocations per request: calls, and bytes in brackets."""
    rows, notes = [], []
    for run in runs:
        if run["status"] == "unavailable":
            notes.append(f"- {run['stack']}, {run['setting']}: unavailable: {run['reason']}")
            continue
        server = run.get("server") or {}
        counts, requests = server.get("counts"), server.get("requests")
        if not counts or not requests:
            notes.append(f"- {run['stack']}, {run['setting']}: {run['status']}: {run['reason']}")
            continue
        cells = [
            f"{counts[kind]['calls'] / requests:.2f} ({counts[kind]['bytes'] / requests:.0f})"
            for kind in ("copies", "heap", "lwip")
        ]
        sizes = [f"{tally['calls'] / requests:.2f}" for tally in counts["copies_by_size"]]
        rows.append([f"{run['stack']}, {run['setting']}", cells[0], *sizes, *cells[1:]])
    sizes = ["to 16 B", "to 64 B", "to 256 B", "more"]
    head = ["per request: calls (bytes)", "copied", *sizes, "allocated, heap", "allocated, lwIP's own"]
    return "\n".join([table(head, rows), *notes])
