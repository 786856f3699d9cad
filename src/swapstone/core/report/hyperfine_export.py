# SPDX-License-Identifier: MIT OR Apache-2.0
"""hyperfine's JSON: one file with everything, or a file for each plot of hyperfine's scripts."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swapstone.core.model import Analysis, Copy, OwnProgram, Variant, filled_text
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.sides import Side, sides

Place = tuple[str, str, str, Variant]
"""(suite, workload, load, variant)"""


def to_hyperfine(context: ReportContext, analysis: Analysis) -> str:
    """Return one result per workload and variant in the JSON of hyperfine 1.15 to 1.20 (`src/benchmark/benchmark_result.rs`).

    Times are seconds of elapsed time for one operation, memory is the peak resident size in bytes. `user` and `system` are means of
    those metrics where they were measured, else null; `stddev` is null for one run, as hyperfine has it. Workloads without elapsed
    time are left out, and so are runs that failed: every exit code is 0, unless other ones were accepted.
    """
    results = [_result(context, place, metrics) for place, metrics in _measured(analysis).items()]
    return _text(results)


def to_hyperfine_files(context: ReportContext, analysis: Analysis) -> dict[str, str]:
    """Return files for hyperfine's scripts, which accept one parameter: pairs (name of the file, text).

    - ``WORKLOAD.json``: a result per variant. The parameter is the factor that is varied, or ``variant`` where several are.
      `plot_whisker.py` and `plot_histogram.py` read it; `plot_parametrized.py` too, where the levels are numbers.
    - ``FAMILY-PARAMETER-VARIANT.json``: a result per workload of a family that differs in one number, such as a block size. Other
      parameters of the family are in the name.
      `plot_parametrized.py` reads one such file for each variant.
    """
    measured = _measured(analysis)
    files: dict[str, list[dict[str, object]]] = {}
    for place, metrics in measured.items():
        (_, workload, load, variant) = place
        single = variant.levels[0] if len(variant.levels) == 1 else ("variant", variant.label)
        name = single if variant.copy is Copy.FIRST else ("variant", variant.label)
        files.setdefault(file_name(workload, load), []).append(
            _result(context, place, metrics) | {"parameters": dict([name])}
        )
    for places in _families(context, measured):
        (suite, workload, load, variant), parameter, _ = places[0]
        held = [f"{name}={value}" for name, value in context.parameters(suite, workload).items() if name != parameter]
        family = "-".join([workload.partition("(")[0], parameter, *held, variant.label])
        files[file_name(family, load)] = [
            _result(context, place, measured[place]) | {"parameters": {parameter: value}} for place, _, value in places
        ]
    return {name: _text(results) for name, results in files.items()}


def _measured(analysis: Analysis) -> dict[Place, dict[str, Side]]:
    """Return the metrics by suite, workload, load and variant, where elapsed time was measured."""
    by: dict[Place, dict[str, Side]] = {}
    for side in sides(analysis, copies=True):
        by.setdefault((side.suite, side.workload, side.load, side.variant), {})[side.metric.name] = side
    return {place: metrics for place, metrics in by.items() if "wall" in metrics}


def _families(context: ReportContext, measured: Iterable[Place]) -> Iterator[list[tuple[Place, str, str]]]:
    """Yield the workloads of a variant that differ in one number, each as (place, parameter, value), by increasing value."""
    groups: dict[tuple[object, ...], list[tuple[Place, str, str]]] = {}
    for place in measured:
        suite, workload, load, variant = place
        parameters = context.parameters(suite, workload)
        for name, value in parameters.items():
            others = tuple(sorted((other, text) for other, text in parameters.items() if other != name))
            if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value, re.ASCII):
                key = (suite, workload.partition("(")[0], load, variant, name, others)
                groups.setdefault(key, []).append((place, name, value))
    yield from (sorted(found, key=lambda each: float(each[2])) for found in groups.values() if len(found) > 1)


def file_name(text: str, load: str = "idle") -> str:
    """Return a name for a file, so that no text from a record leaves the folder, and different texts have different names."""
    whole = text if load == "idle" else f"{text},{load}"
    name = re.sub(r"[^A-Za-z0-9=_,+()-]+", "_", whole)
    return f"{name}.json" if name == whole else f"{name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}.json"


def _text(results: Sequence[dict[str, object]]) -> str:
    return json.dumps({"results": results}, indent=2, allow_nan=False) + "\n"


def _result(context: ReportContext, key: tuple[str, str, str, Variant], metrics: dict[str, Side]) -> dict[str, object]:
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
