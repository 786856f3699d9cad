# SPDX-License-Identifier: MIT OR Apache-2.0
"""hyperfine's JSON."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Mapping

from swapstone.core.model import Analysis, OwnProgram, Variant, filled_text
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.variant_values import Side, sides

Place = tuple[str, str, str, Variant]
"""(suite, workload, load, variant)"""


def to_hyperfine(context: ReportContext, analysis: Analysis) -> str:
    """Return one result per workload and variant in the JSON of hyperfine 1.15 to 1.20 (`src/benchmark/benchmark_result.rs`).

    Times are seconds of elapsed time for one operation, memory is the peak resident size in bytes. `user` and `system` are means of
    those metrics where they were measured, else null; `stddev` is null for one run, as hyperfine has it. Workloads without elapsed
    time are left out, and so are runs that failed: every exit code is 0, unless other ones were accepted.
    """
    measured: dict[Place, dict[str, Side]] = {}
    for side in sides(analysis, copies=True):
        measured.setdefault((side.suite, side.workload, side.load, side.variant), {})[side.metric.name] = side
    results = [_result(context, place, metrics) for place, metrics in measured.items() if "wall" in metrics]
    return json.dumps({"results": results}, indent=2, allow_nan=False) + "\n"


def _result(context: ReportContext, key: Place, metrics: dict[str, Side]) -> dict[str, object]:
    suite, workload, load, variant = key
    own, parameters = context.experiment.own, context.parameters(suite, workload)
    command = workload if own is None else formatting.safe(shlex.join(_own_command(own, variant, parameters)))
    times = [value / 1e9 for value in metrics["wall"].values]

    def mean_seconds(name: str) -> float | None:
        return statistics.mean(v / 1e9 for v in metrics[name].values) if name in metrics else None

    result: dict[str, object] = {
        "command": f"{command} [{variant.label}]" if load == "idle" else f"{command} [{variant.label}, load {load}]",
        "mean": statistics.mean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": mean_seconds("user"),
        "system": mean_seconds("system"),
        "min": min(times),
        "max": max(times),
        "times": times,
    }
    peak = metrics.get("maxrss")
    if peak is not None and len(peak.values) == len(times):
        result["memory_usage_byte"] = [round(value) for value in peak.values]
    status = metrics.get("exit_status")
    known = status is not None and len(status.values) == len(times)
    result["exit_codes"] = [round(value) for value in status.values] if status and known else [0] * len(times)
    where = {"suite": suite, "workload": workload, "load": load, "variant": variant.label}
    result["parameters"] = {**where, **parameters, **{name.strip("{}"): level for name, level in variant.levels}}
    return result


def _own_command(own: OwnProgram, variant: Variant, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line of the own program on a variant, with the values of its placeholders."""
    free = {name[1:-1]: level for name, level in variant.levels if name.startswith("{")}
    values = {**free, **{name: parameters.get(name, "") for name, _ in own.parameters}}
    return tuple(filled_text(word, values) for word in own.command_of(dict(variant.levels)).words)
