# SPDX-License-Identifier: MIT OR Apache-2.0
"""Readers of the output of ab, wrk and swapstone-net-bench."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

_WRK_UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7, "h": 3.6e9}


class UnreadableError(ValueError):
    """A program's output is not that of a successful run."""


def _field(text: str, pattern: str) -> float | None:
    found = re.search(pattern, text, re.MULTILINE)
    return None if found is None else float(found[1])


def read_ab(text: str, requests: int) -> dict[str, Any]:
    """Read the output of ab.

    Args:
        text: its output with errors.
        requests: the requested number of requests.

    Returns:
        `requests` completed, `failed` (counted by ab or not completed), `rate` in requests per second (None if it gave up), `gave_up`:
        its last message if it did.

    Raises:
        UnreadableError: it made no request.
    """
    failed = _field(text, r"^Failed requests: +([0-9]+)")
    if failed is None:
        completed = _field(text, r"^Total of ([0-9]+) requests completed")
        words = [line for line in text.splitlines() if "apr_" in line or "SSL" in line]
        if completed is None:
            raise UnreadableError(_last(text))
        return {
            "requests": int(completed),
            "failed": requests - int(completed),
            "rate": None,
            "gave_up": words[-1].rpartition("...")[2] if words else "",
        }
    completed = _field(text, r"^Complete requests: +([0-9]+)")
    rate = _field(text, r"^Requests per second: +([0-9.]+)")
    if completed is None or rate is None:
        raise UnreadableError(_last(text))
    bad_status = _field(text, r"^Non-2xx responses: +([0-9]+)") or 0
    return {
        "requests": int(completed),
        "failed": int(failed) + int(bad_status) + requests - int(completed),
        "rate": rate,
        "gave_up": None,
    }


def read_ab_percentiles(text: str) -> dict[str, float]:
    """Read ab's file of percentiles (its option -e): p50, p90, p99 and max, in microseconds.

    Raises:
        UnreadableError: it is not such a file.
    """
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or rows[0] != ["Percentage served", "Time in ms"]:
        raise UnreadableError("ab's file of percentiles begins otherwise")
    table = {int(row[0]): float(row[1]) * 1e3 for row in rows[1:]}
    return {"p50": table[50], "p90": table[90], "p99": table[99], "max": table[100]}


def read_wrk(text: str) -> dict[str, Any]:
    """Read what wrk printed with --latency.

    Returns:
        `requests`, `failed` (socket errors and answers of other status), `rate` in requests per second, `latency_us` with p50, p75, p90
        and p99.

    Raises:
        UnreadableError: it printed no rate.
    """
    rate = _field(text, r"^Requests/sec: +([0-9.]+)")
    requests = _field(text, r"^ +([0-9]+) requests in ")
    if rate is None or requests is None:
        raise UnreadableError(_last(text))
    errors = re.search(r"Socket errors: connect ([0-9]+), read ([0-9]+), write ([0-9]+), timeout ([0-9]+)", text)
    failed = sum(map(int, errors.groups())) if errors else 0
    failed += int(_field(text, r"Non-2xx or 3xx responses: ([0-9]+)") or 0)
    latency = {
        f"p{share}": float(value) * _WRK_UNITS_US[unit]
        for share, value, unit in re.findall(r"^ +(50|75|90|99)% +([0-9.]+)(us|ms|s|m|h)$", text, re.MULTILINE)
    }
    return {"requests": int(requests), "failed": failed, "rate": rate, "latency_us": latency}


def read_own(text: str) -> dict[str, Any]:
    """Read the last line of swapstone-net-bench.

    Raises:
        UnreadableError: it did not end in order.
    """
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("event") == "end":
            return found
    raise UnreadableError(_last(text))


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
