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


_COUNT, _DECIMAL = "[0-9]{1,15}", r"[0-9]{1,15}(?:\.[0-9]{1,9})?"


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
    failed = _field(text, rf"^Failed requests: +({_COUNT})$")
    if failed is None:
        completed = _field(text, rf"^Total of ({_COUNT}) requests completed")
        words = [line for line in text.splitlines() if "apr_" in line or "SSL" in line]
        if completed is None:
            raise UnreadableError(_last(text))
        return {
            "requests": int(completed),
            "failed": requests - int(completed),
            "rate": None,
            "gave_up": words[-1].rpartition("...")[2] if words else "",
        }
    completed = _field(text, rf"^Complete requests: +({_COUNT})$")
    rate = _field(text, rf"^Requests per second: +({_DECIMAL}) ")
    if completed is None or rate is None:
        raise UnreadableError(_last(text))
    bad_status = _field(text, rf"^Non-2xx responses: +({_COUNT})$") or 0
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
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise UnreadableError(str(error)) from error
    if not rows or rows[0] != ["Percentage served", "Time in ms"]:
        raise UnreadableError("ab's file of percentiles begins otherwise")
    table = {row[0]: row[1] for row in rows[1:] if len(row) == 2 and re.fullmatch(_DECIMAL, row[1])}
    names = {"p50": "50", "p90": "90", "p99": "99", "max": "100"}
    if missing := [share for share in names.values() if share not in table]:
        raise UnreadableError(f"ab's file of percentiles lacks {missing[0]} %")
    return {name: float(table[share]) * 1e3 for name, share in names.items()}


def read_wrk(text: str) -> dict[str, Any]:
    """Read what wrk printed with --latency.

    Returns:
        `requests`, `failed` (socket errors and answers of other status), `rate` in requests per second, `latency_us` with p50, p75, p90
        and p99.

    Raises:
        UnreadableError: it printed no rate.
    """
    rate = _field(text, rf"^Requests/sec: +({_DECIMAL})$")
    requests = _field(text, rf"^ +({_COUNT}) requests in ")
    if rate is None or requests is None:
        raise UnreadableError(_last(text))
    kinds = ", ".join(f"{kind} ({_COUNT})" for kind in ("connect", "read", "write", "timeout"))
    errors = re.search(f"Socket errors: {kinds}", text)
    failed = sum(map(int, errors.groups())) if errors else 0
    failed += int(_field(text, rf"Non-2xx or 3xx responses: ({_COUNT})") or 0)
    latency = {
        f"p{share}": float(value) * _WRK_UNITS_US[unit]
        for share, value, unit in re.findall(rf"^ +(50|75|90|99)% +({_DECIMAL})(us|ms|s|m|h)$", text, re.MULTILINE)
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
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found.get("event") == "end":
            return found
    raise UnreadableError(_last(text))


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
