"""What drivers of servers print, read strictly: one reader for each driver, and one for a pattern of the user's.

docs/servers.md says what each gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from swapstone.model import FrozenStruct, UserError, WireError
from swapstone.workloads.named_figures import decode_named_figures

NS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
"""Nanoseconds in the units that drivers print times in."""

PACE = "swapstone-pace"
_PERCENTILE = re.compile(r"p\d{1,2}(\.\d{1,3})?")


class LoadReport(FrozenStruct, frozen=True, kw_only=True):
    """What a driver says of one run.

    Attributes:
        requests: how many were answered; 0 where it doesn't say.
        per_second: how many a second, as the driver counts them; None where it doesn't say.
        latencies: pairs (``p50``, ``p99.9``, ``max``..., nanoseconds), in rising order. What it says too coarsely is left out.
    """

    requests: int = 0
    per_second: float | None = None
    latencies: tuple[tuple[str, float], ...] = ()


class KnownLoadGenerator(FrozenStruct, frozen=True, kw_only=True):
    """A driver that is known.

    Attributes:
        percentiles: names of the latencies that it prints, in rising order.
        closed: whether it sends its next request only after an answer.
        package: what to install for it, on Debian; empty for our own.
    """

    percentiles: tuple[str, ...]
    closed: bool = True
    package: str = ""


LOAD_GENERATORS: dict[str, KnownLoadGenerator] = {
    "wrk": KnownLoadGenerator(percentiles=("p50", "p75", "p90", "p99", "max"), package="wrk"),
    "ab": KnownLoadGenerator(
        percentiles=("p50", "p66", "p75", "p80", "p90", "p95", "p98", "p99", "max"), package="apache2-utils"
    ),
    "redis-benchmark": KnownLoadGenerator(percentiles=("p50", "p95", "p99", "max"), package="redis-tools"),
    PACE: KnownLoadGenerator(percentiles=("p50", "p75", "p90", "p99", "p99.9", "p99.99", "max"), closed=False),
}
"""By the program's name; the reader of each has the same name."""


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def _number(name: str, pattern: str, text: str) -> float:
    """Return the number in the one place where a line matches.

    Raises:
        WireError: there is none, or several.
    """
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        raise WireError(
            f"{name}'s output has {'no' if not found else 'more than one'} line like {pattern!r}: it is cut off, or not {name}'s."
        )
    return float(found[0])


def _rising(name: str, latencies: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Check that latencies rise with their percentiles; leave out those that are zero, which no request takes.

    Raises:
        WireError: they don't rise.
    """
    values = list(latencies.values())
    if values != sorted(values):
        raise WireError(f"{name}'s latencies don't rise with their percentiles.")
    return tuple((key, value) for key, value in latencies.items() if value > 0)


def read_wrk(output: bytes) -> LoadReport:
    """Read what wrk prints, with or without ``--latency``.

    Raises:
        WireError: it is cut off, or requests failed.
    """
    text = _text(output)
    rate = _number("wrk", r"^Requests/sec: +(\d+\.\d+)$", text)
    requests = int(_number("wrk", r"^  (\d+) requests in ", text))
    # Last of all come the bytes: without them it is not the whole.
    if not re.search(r"^Transfer/sec: +\S+B\n\Z", text, re.MULTILINE):
        raise WireError("wrk's output is cut off.")
    if errors := re.search(r"^  Socket errors: (.+)$", text, re.MULTILINE):
        raise WireError(f"wrk met socket errors: {errors[1]}.")
    if refused := re.search(r"^  Non-2xx or 3xx responses: (\d+)$", text, re.MULTILINE):
        raise WireError(f"{refused[1]} of {requests} answers were not of 2xx or 3xx.")
    if not requests:
        raise WireError("wrk had no request answered.")
    found = re.findall(r"^ +(\d+(?:\.\d+)?)% +(\d+\.\d+)(us|ms|s|m|h)$", text, re.MULTILINE)
    latencies = {f"p{float(share):g}": float(value) * NS[unit] for share, value, unit in found}
    summary = re.search(r"^    Latency +\S+ +\S+ +(\d+\.\d+)(us|ms|s|m|h) ", text, re.MULTILINE)
    if "Latency Distribution" in text and len(found) < 4:
        raise WireError("wrk's latency distribution is cut off.")
    if summary is None:
        raise WireError("wrk's output has no line of latencies: it is cut off, or not wrk's.")
    # The maximum has fewer digits than the percentiles, so it may seem to lie below the last of them.
    latencies["max"] = max(float(summary[1]) * NS[summary[2]], *latencies.values(), 0.0)
    return LoadReport(requests=requests, per_second=rate, latencies=_rising("wrk", latencies))


def read_ab(output: bytes) -> LoadReport:
    """Read what ApacheBench prints. Its times are whole milliseconds; those that round to none are left out.

    Raises:
        WireError: it is cut off, or requests failed.
    """
    text = _text(output)
    requests = int(_number("ab", r"^Complete requests: +(\d+)$", text))
    failed = int(_number("ab", r"^Failed requests: +(\d+)$", text))
    rate = _number("ab", r"^Requests per second: +(\d+\.\d+) \[#/sec\]", text)
    if refused := re.search(r"^Non-2xx responses: +(\d+)$", text, re.MULTILINE):
        raise WireError(f"{refused[1]} of {requests} answers were not of 2xx.")
    if failed:
        raise WireError(
            f"{failed} of {requests} requests failed (ab also counts answers of another length as failed: see its -l)."
        )
    if not requests:
        raise WireError("ab had no request answered.")
    found = re.findall(r"^ +(\d+)% +(\d+)(?: \(longest request\))?$", text, re.MULTILINE)
    if requests > 1 and (not found or found[-1][0] != "100" or not text.endswith("(longest request)\n")):
        raise WireError("ab's percentages are cut off.")
    latencies = {("max" if share == "100" else f"p{share}"): float(value) * NS["ms"] for share, value in found}
    return LoadReport(requests=requests, per_second=rate, latencies=_rising("ab", latencies))


def read_redis_benchmark(output: bytes) -> LoadReport:
    """Read what redis-benchmark prints of one command, without ``--csv`` or ``-q``.

    Raises:
        WireError: it is cut off, or of several commands.
    """
    text = _text(output).replace("\r", "\n")
    requests = int(_number("redis-benchmark", r"^  (\d+) requests completed in ", text))
    rate = _number("redis-benchmark", r"^  throughput summary: (\d+\.\d+) requests per second$", text)
    summary = re.search(
        r"^  latency summary \(msec\):\n +avg +min +p50 +p95 +p99 +max\n((?: +\d+\.\d+){6})\n", text, re.MULTILINE
    )
    if summary is None:
        raise WireError("redis-benchmark's summary of latencies is cut off.")
    _, _, *values = (float(value) * NS["ms"] for value in summary[1].split())
    names = LOAD_GENERATORS["redis-benchmark"].percentiles
    return LoadReport(
        requests=requests, per_second=rate, latencies=_rising("redis-benchmark", dict(zip(names, values, strict=True)))
    )


def read_pace(output: bytes) -> LoadReport:
    """Read the figures of our own driver that keeps to a schedule.

    Raises:
        WireError: they are not whole.
    """
    said = decode_named_figures(output)
    values = {name: value for name, value in said.figures if value is not None}
    if said.name != "pace" or "requests" not in values or not values.get("took_ns"):
        raise WireError(f"The driver speaks as {said.name!r}, and doesn't say what {PACE} says.")
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
"""By name; each raises a `WireError` for what is not whole, and for a driver that met errors."""

PATTERN = "regex:"
_GROUP = re.compile(
    r"(?P<what>requests|seconds|per_second|errors)|(?P<name>p\d{1,2}(?:_\d{1,3})?|max)_(?P<unit>ns|us|ms|s)"
)
PATTERN_EXAMPLE = r"--read 'regex:(?P<requests>\d+) requests in (?P<seconds>[0-9.]+) s.*p99 (?P<p99_ms>[0-9.]+)'"


def check_reader(text: str) -> str:
    """Check how a user wants a driver's output to be read.

    Args:
        text: a driver's name, or ``regex:PATTERN``.

    Returns:
        The same.

    Raises:
        UserError: there is no such reader, or the pattern can't be used.
    """
    if not text.startswith(PATTERN):
        if text not in READERS:
            raise UserError(
                f"There is no reader {text!r} for what a driver prints.",
                f"Known are {', '.join(READERS)}; for any other driver: {PATTERN_EXAMPLE}",
            )
        return text
    try:
        groups = list(re.compile(text.removeprefix(PATTERN), re.DOTALL | re.MULTILINE).groupindex)
    except re.error as error:
        raise UserError(
            f"The pattern of --read is no regular expression: {error}.", f"For example: {PATTERN_EXAMPLE}"
        ) from error
    known = "requests, seconds, per_second, errors, and latencies such as p50_ms, p99_9_us or max_ns"
    if wrong := next((name for name in groups if not _GROUP.fullmatch(name)), None):
        raise UserError(f"--read has a group named {wrong!r}, which means nothing.", f"Known are {known}.")
    if "requests" not in groups and "per_second" not in groups:
        raise UserError(
            "The pattern of --read has neither a group named requests nor one named per_second.", f"Known are {known}."
        )
    return text


def read_pattern(pattern: str, output: bytes) -> LoadReport:
    """Read an output by a pattern that `check_reader` has checked; a point matches newlines too.

    Raises:
        WireError: it matches nothing, or more than once, or a group is no number, or the driver counted errors.
    """
    found = list(re.finditer(pattern, _text(output), re.DOTALL | re.MULTILINE))
    if len(found) != 1:
        raise WireError(f"The pattern of --read matches {len(found)} times in what the driver printed, not once.")
    values: dict[str, float] = {}
    for name, value in found[0].groupdict().items():
        try:
            values[name] = float(value)
        except (TypeError, ValueError):
            raise WireError(f"The group {name} of --read holds {value!r}, which is no number.") from None
    if values.get("errors"):
        raise WireError(f"The driver counted {values['errors']:g} errors.")
    latencies = {}
    for name, value in values.items():
        match = _GROUP.fullmatch(name)
        if match and match["name"]:
            latencies[match["name"].replace("_", ".")] = value * {"ns": 1.0, **NS}[match["unit"]]
    rate = values.get("per_second")
    if rate is None and values.get("seconds"):
        rate = values["requests"] / values["seconds"]
    return LoadReport(
        requests=int(values.get("requests", 0)),
        per_second=rate,
        latencies=_rising("The load generator", dict(sorted(latencies.items(), key=lambda pair: rank(pair[0])))),
    )


def read_load_report(reader: str, output: bytes) -> LoadReport:
    """Read what a driver printed.

    Raises:
        WireError: it is not whole, or the driver met errors.
    """
    if reader.startswith(PATTERN):
        return read_pattern(reader.removeprefix(PATTERN), output)
    return READERS[reader](output)


def percentiles_of(reader: str) -> tuple[str, ...]:
    """Return the names of the latencies that a reader gives, in rising order."""
    if not reader.startswith(PATTERN):
        return LOAD_GENERATORS[reader].percentiles
    groups = re.compile(reader.removeprefix(PATTERN)).groupindex
    names = {match["name"].replace("_", ".") for name in groups if (match := _GROUP.fullmatch(name)) and match["name"]}
    return tuple(sorted(names, key=rank))


def rank(name: str) -> float:
    """Return the percentile that the name of a latency says; 100 for the maximum."""
    return float(name[1:]) if _PERCENTILE.fullmatch(name) else 100.0


def is_closed(reader: str) -> bool:
    """Say whether a driver sends its next request only after an answer; of one that isn't known that is assumed."""
    return reader.startswith(PATTERN) or LOAD_GENERATORS[reader].closed
