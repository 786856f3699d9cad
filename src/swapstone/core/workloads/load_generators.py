# SPDX-License-Identifier: MIT OR Apache-2.0
"""Strict readers for the output of load generators: one for each known program, and one for a pattern of the user.

docs/servers.md lists what each prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from swapstone.core.model import FrozenStruct, UserError, WireError, refuse
from swapstone.core.workloads.named_figures import decode_named_figures

_COUNT, _DECIMAL = (
    r"[0-9]{1,15}",
    r"[0-9]{1,15}\.[0-9]{1,9}",
)  # of bounded length: more digits overflow when they are converted
NS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
"""Nanoseconds in each unit that load generators print."""

PACE = "swapstone-pace"
_PERCENTILE = re.compile(r"p\d{1,2}(\.\d{1,3})?", re.ASCII)
_LARGEST = 1e30
"""Nothing measured is larger; neither is the product of such a number and a unit infinite."""


class LoadReport(FrozenStruct, frozen=True, kw_only=True):
    """The output of a load generator for one run.

    Attributes:
        requests: number of requests with a response; 0 if not printed.
        per_second: requests per second, as the load generator computes it; None if not printed.
        latencies: pairs (``p50``, ``p99.9``, ``max``..., nanoseconds), ascending. Latencies that are rounded to zero are left out.
    """

    requests: int = 0
    per_second: float | None = None
    latencies: tuple[tuple[str, float], ...] = ()


class KnownLoadGenerator(FrozenStruct, frozen=True, kw_only=True):
    """A load generator whose output has a reader.

    Attributes:
        percentiles: names of the latencies that it prints, ascending.
        closed: whether it is a closed-loop generator: it sends the next request of a connection only after the response.
    """

    percentiles: tuple[str, ...]
    closed: bool = True


LOAD_GENERATORS: dict[str, KnownLoadGenerator] = {
    "wrk": KnownLoadGenerator(percentiles=("p50", "p75", "p90", "p99", "max")),
    "ab": KnownLoadGenerator(percentiles=("p50", "p66", "p75", "p80", "p90", "p95", "p98", "p99", "max")),
    "redis-benchmark": KnownLoadGenerator(percentiles=("p50", "p95", "p99", "max")),
    PACE: KnownLoadGenerator(percentiles=("p50", "p75", "p90", "p99", "p99.9", "p99.99", "max"), closed=False),
}
"""By the name of the program, which is also the name of its reader."""


def _number(name: str, pattern: str, text: str) -> float:
    """Return the number in the only line that matches.

    Raises:
        WireError: no line matches, or several do.
    """
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        raise WireError(
            f"{name}'s output has {'no' if not found else 'more than one'} line like {pattern!r}: it is cut off, or not {name}'s."
        )
    return float(found[0])


def _rising(name: str, latencies: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Check that latencies ascend with their percentiles; leave out zeros, which are rounded values.

    Raises:
        WireError: they do not ascend.
    """
    values = list(latencies.values())
    if values != sorted(values):
        raise WireError(f"{name}'s latencies don't rise with their percentiles.")
    return tuple((key, value) for key, value in latencies.items() if value > 0)


def _first(pattern: str, text: str) -> str:
    """Return the first group of a pattern in a text; empty if it matches nothing."""
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def read_wrk(output: bytes) -> LoadReport:
    """Read what wrk prints, with or without ``--latency``.

    Raises:
        WireError: the output is cut off, or requests failed.
    """
    text = output.decode(errors="replace")
    rate = _number("wrk", rf"^Requests/sec: +({_DECIMAL})$", text)
    requests = int(_number("wrk", rf"^  ({_COUNT}) requests in ", text))
    errors = _first(r"^  Socket errors: (.+)$", text)
    refused = _first(r"^  Non-2xx or 3xx responses: ([0-9]+)$", text)
    refuse(
        # The transfer rate is the last line of a complete output.
        (not _first(r"^(Transfer/sec): +\S+B\n\Z", text), "wrk's output is cut off.", ""),
        (errors, f"wrk met socket errors: {errors}.", ""),
        (refused, f"{refused} of {requests} answers were not of 2xx or 3xx.", ""),
        (not requests, "wrk had no request answered.", ""),
        kind=WireError,
    )
    found = re.findall(rf"^ +([0-9]{{1,3}}(?:\.[0-9]{{1,9}})?)% +({_DECIMAL})(us|ms|s|m|h)$", text, re.MULTILINE)
    latencies = {f"p{float(share):g}": float(value) * NS[unit] for share, value, unit in found}
    summary = re.search(rf"^    Latency +\S+ +\S+ +({_DECIMAL})(us|ms|s|m|h) ", text, re.MULTILINE)
    if "Latency Distribution" in text and len(found) < 4:
        raise WireError("wrk's latency distribution is cut off.")
    if summary is None:
        raise WireError("wrk's output has no line of latencies: it is cut off, or not wrk's.")
    # The maximum is printed with fewer digits than the percentiles, so its rounded value may be below the last percentile.
    latencies["max"] = max(float(summary[1]) * NS[summary[2]], *latencies.values(), 0.0)
    return LoadReport(requests=requests, per_second=rate, latencies=_rising("wrk", latencies))


def read_ab(output: bytes) -> LoadReport:
    """Read what ApacheBench prints. Its times are whole milliseconds; those that are rounded to zero are left out.

    Raises:
        WireError: the output is cut off, or requests failed.
    """
    text = output.decode(errors="replace")
    requests = int(_number("ab", rf"^Complete requests: +({_COUNT})$", text))
    failed = int(_number("ab", rf"^Failed requests: +({_COUNT})$", text))
    rate = _number("ab", rf"^Requests per second: +({_DECIMAL}) \[#/sec\]", text)
    refused = _first(r"^Non-2xx responses: +([0-9]+)$", text)
    other_length = "ab also counts answers of another length as failed: see its -l"
    refuse(
        (refused, f"{refused} of {requests} answers were not of 2xx.", ""),
        (failed, f"{failed} of {requests} requests failed ({other_length}).", ""),
        (not requests, "ab had no request answered.", ""),
        kind=WireError,
    )
    found = re.findall(rf"^ +([0-9]{{1,3}})% +({_COUNT})(?: \(longest request\))?$", text, re.MULTILINE)
    if requests > 1 and (not found or found[-1][0] != "100" or not text.endswith("(longest request)\n")):
        raise WireError("ab's percentages are cut off.")
    latencies = {("max" if share == "100" else f"p{share}"): float(value) * NS["ms"] for share, value in found}
    return LoadReport(requests=requests, per_second=rate, latencies=_rising("ab", latencies))


def read_redis_benchmark(output: bytes) -> LoadReport:
    """Read what redis-benchmark prints of one command, without ``--csv`` or ``-q``.

    Raises:
        WireError: the output is cut off, or of several commands.
    """
    text = output.decode(errors="replace").replace("\r", "\n")
    requests = int(_number("redis-benchmark", rf"^  ({_COUNT}) requests completed in ", text))
    rate = _number("redis-benchmark", rf"^  throughput summary: ({_DECIMAL}) requests per second$", text)
    summary = re.search(
        rf"^  latency summary \(msec\):\n +avg +min +p50 +p95 +p99 +max\n((?: +{_DECIMAL}){{6}})\n", text, re.MULTILINE
    )
    if summary is None:
        raise WireError("redis-benchmark's summary of latencies is cut off.")
    _, _, *values = (float(value) * NS["ms"] for value in summary[1].split())
    names = LOAD_GENERATORS["redis-benchmark"].percentiles
    return LoadReport(
        requests=requests, per_second=rate, latencies=_rising("redis-benchmark", dict(zip(names, values, strict=True)))
    )


def read_pace(output: bytes) -> LoadReport:
    """Read the figures of swapstone-pace, the constant-rate load generator of this project.

    Raises:
        WireError: the output is cut off, or of another program.
    """
    printed = decode_named_figures(output)
    values = {name: value for name, value in printed.figures if value is not None}
    if printed.name != "pace" or "requests" not in values or not values.get("took_ns"):
        raise WireError(f"The output is of the program {printed.name!r}, or lacks the figures of {PACE}.")
    latencies = {name: values.get(f"{name.replace('.', '_')}_ns", 0.0) for name in LOAD_GENERATORS[PACE].percentiles}
    return LoadReport(
        requests=int(values["requests"]),
        per_second=values["requests"] / (values["took_ns"] / 1e9),
        latencies=_rising(PACE, latencies),
    )


READERS: dict[str, Callable[[bytes], LoadReport]] = {
    "wrk": read_wrk,
    "ab": read_ab,
    "redis-benchmark": read_redis_benchmark,
    PACE: read_pace,
}
"""By name. Each raises a `WireError` if the output is cut off, or if the load generator met errors."""

PATTERN = "regex:"
_GROUP = re.compile(
    r"(?P<what>requests|seconds|per_second|errors)|(?P<name>p\d{1,2}(?:_\d{1,3})?|max)_(?P<unit>ns|us|ms|s)"
)
PATTERN_EXAMPLE = r"--read 'regex:(?P<requests>\d+) requests in (?P<seconds>[0-9.]+) s.*p99 (?P<p99_ms>[0-9.]+)'"


def check_reader(text: str) -> str:
    """Check the option ``--read``.

    Args:
        text: the name of a known load generator, or ``regex:PATTERN``.

    Returns:
        `text`.

    Raises:
        UserError: there is no such reader, or the pattern can't be used.
    """
    if not text.startswith(PATTERN):
        if text not in READERS:
            raise UserError(
                f"There is no reader {text!r} for the output of a load generator.",
                f"Known are {', '.join(READERS)}; for any other load generator: {PATTERN_EXAMPLE}",
            )
        return text
    try:
        groups = list(re.compile(text.removeprefix(PATTERN), re.DOTALL | re.MULTILINE).groupindex)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(
            f"The pattern of --read is no regular expression: {error}.", f"For example: {PATTERN_EXAMPLE}"
        ) from error
    known = "requests, seconds, per_second, errors, and latencies such as p50_ms, p99_9_us or max_ns"
    wrong = next((name for name in groups if not _GROUP.fullmatch(name)), "")
    refuse(
        (wrong, f"--read has a group named {wrong!r}, which is unknown.", f"Known are {known}."),
        (
            {"requests", "per_second"}.isdisjoint(groups),
            "The pattern of --read has neither a group named requests nor one named per_second.",
            f"Known are {known}.",
        ),
    )
    return text


def read_pattern(pattern: str, output: bytes) -> LoadReport:
    """Read an output with a pattern that `check_reader` accepts; a dot also matches newlines.

    Raises:
        WireError: the pattern does not match exactly once, a group is no number, or the load generator counted errors.
    """
    found = list(re.finditer(pattern, output.decode(errors="replace"), re.DOTALL | re.MULTILINE))
    if len(found) != 1:
        raise WireError(
            f"The pattern of --read matches {len(found)} times in the output of the load generator, not once."
        )
    values: dict[str, float] = {}
    for name, value in found[0].groupdict().items():
        try:
            values[name] = float(value)
        except (TypeError, ValueError):
            raise WireError(f"The group {name} of --read holds {_shown(value)}, which is no number.") from None
        if not 0 <= values[name] <= _LARGEST:
            raise WireError(f"The group {name} of --read holds {_shown(value)}, which is out of range.")
    if values.get("errors"):
        raise WireError(f"The load generator counted {values['errors']:g} errors.")
    latencies = {}
    for name, value in values.items():
        match = _GROUP.fullmatch(name)
        if match and match["name"]:
            latencies[match["name"].replace("_", ".")] = value * {"ns": 1.0, **NS}[match["unit"]]
    rate = values.get("per_second")
    if rate is None and values.get("seconds"):
        rate = values["requests"] / values["seconds"]
        if rate > _LARGEST:
            raise WireError(f"The group seconds of --read holds {values['seconds']:g}, which is out of range.")
    return LoadReport(
        requests=int(values.get("requests", 0)),
        per_second=rate,
        latencies=_rising("The load generator", dict(sorted(latencies.items(), key=lambda pair: rank(pair[0])))),
    )


def _shown(value: object) -> str:
    return repr(value)[:60]


def read_load_report(reader: str, output: bytes) -> LoadReport:
    """Read the output of a load generator.

    Args:
        reader: as `LoadGenerator.reader`.
        output: its standard output.

    Raises:
        WireError: the output is cut off, or the load generator met errors.
    """
    if reader.startswith(PATTERN):
        return read_pattern(reader.removeprefix(PATTERN), output)
    return READERS[reader](output)


def percentiles_of(reader: str) -> tuple[str, ...]:
    """Return the names of the latencies that a reader returns, ascending."""
    if not reader.startswith(PATTERN):
        return LOAD_GENERATORS[reader].percentiles
    groups = re.compile(reader.removeprefix(PATTERN)).groupindex
    names = {match["name"].replace("_", ".") for name in groups if (match := _GROUP.fullmatch(name)) and match["name"]}
    return tuple(sorted(names, key=rank))


def rank(name: str) -> float:
    """Return the percentile that a latency is named after; 100 for the maximum."""
    return float(name[1:]) if _PERCENTILE.fullmatch(name) else 100.0


def is_closed(reader: str) -> bool:
    """Return whether a load generator is closed-loop; an unknown one is assumed to be."""
    return reader.startswith(PATTERN) or LOAD_GENERATORS[reader].closed
