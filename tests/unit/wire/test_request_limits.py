# SPDX-License-Identifier: MIT OR Apache-2.0
"""The limits of a request: the last value that is accepted, and the first that is not. `LIMITS` is also sent to the agent."""

from __future__ import annotations

import pytest

from swapstone.core.model import WireError, environment_variable
from swapstone.core.wire import LoadGeneratorRequest, TrialRequest, encode_request

YEAR_MS = 365 * 24 * 3600 * 1000
HOUR_MS = 3600 * 1000

LIMITS: tuple[tuple[str, object, object], ...] = (
    ("id", "a" * 64, "a" * 65),
    ("id", "A.z_0-9", "a/b"),
    ("timeout_ms", 1, 0),
    ("timeout_ms", YEAR_MS, YEAR_MS + 1),
    ("output_bytes", 1, 0),
    ("output_bytes", 16 << 20, (16 << 20) + 1),
    ("disk_bytes", 1, 0),
    ("disk_bytes", 2**63 - 1, 2**63),
    ("nice", -20, -21),
    ("nice", 19, 20),
    ("cpus", (0,), (-1,)),
    ("cpus", (4095,), (4096,)),
    ("arguments", ("/a",) * 4096, ("/a",) * 4097),
    ("environment", (("A", "b"),) * 4096, (("A", "b"),) * 4097),
    ("observe", tuple(environment_variable(f"A{n}") for n in range(64)), tuple(map(environment_variable, "AA"))),
    ("stdin", "/a", "a"),
    ("stdout", "/nonexistent/a", "a"),
    # 1 MiB of texts, each with a zero byte at its end: the working directory, the program, three arguments, and another one.
    (
        "arguments",
        ("/nonexistent", *["b" * 262_143] * 3, "b" * 262_128),
        ("/nonexistent", *["b" * 262_143] * 3, "b" * 262_129),
    ),
    ("generator.port", 1, 0),
    ("generator.port", 65535, 65536),
    ("generator.ready_ms", 1, 0),
    ("generator.ready_ms", HOUR_MS, HOUR_MS + 1),
    ("generator.warm_ms", 0, -1),
    ("generator.warm_ms", HOUR_MS, HOUR_MS + 1),
    ("generator.drain_ms", 0, -1),
    ("generator.drain_ms", HOUR_MS, HOUR_MS + 1),
    ("generator.stop_ms", 1, 0),
    ("generator.stop_ms", HOUR_MS, HOUR_MS + 1),
    ("generator.cpus", (4095,), (4096,)),
    ("generator.arguments", ("/a",) * 4096, ("/a",) * 4097),
    ("generator.environment", (("A", "b"),) * 4096, (("A", "b"),) * 4097),
)
"""Field, the last value that is accepted, and the first that is not."""


def request(field: str, value: object) -> TrialRequest:
    """Return a request for a program that does not exist, with one field of it or of its load generator changed."""
    fields: dict[str, object] = {"id": "t", "arguments": ("/nonexistent",), "cwd": "/", "timeout_ms": 1000}
    if field.startswith("generator."):
        server = {"port": 1, "arguments": ("/nonexistent",), field.removeprefix("generator."): value}
        fields["load_generator"] = LoadGeneratorRequest(**server)  # type: ignore[arg-type] # one field at a time
    else:
        fields[field] = value
    return TrialRequest(**fields)  # type: ignore[arg-type] # as above


@pytest.mark.parametrize("number", range(len(LIMITS)), ids=lambda number: f"{LIMITS[number][0]}-{number}")
def test_each_limit_is_the_last_value_that_is_accepted(number: int) -> None:
    field, last, beyond = LIMITS[number]
    assert encode_request(request(field, last))
    with pytest.raises(WireError):
        encode_request(request(field, beyond))


def test_a_line_is_shorter_than_400_kib() -> None:
    longest = (400 << 10) - 1 - len("arg /")
    assert encode_request(request("arguments", ("/" + "a" * longest,)))
    with pytest.raises(WireError, match="longer than an agent can read"):
        encode_request(request("arguments", ("/" + "a" * (longest + 1),)))
