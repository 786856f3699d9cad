# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor netstack: the level is observed in the server, not taken from its environment."""

from __future__ import annotations

import pytest

from swapstone.artifacts import BASE_RECIPE
from swapstone.factors import Evidence
from swapstone.factors.netstack import NETSTACK, VARIABLE

TAP = {"tap": "tap0", "kernel_sockets": "none"}
SOCKET = {"tap": "none", "kernel_sockets": "tcp:80"}


def observed(**seen: str) -> str | None:
    return NETSTACK.observe(Evidence(interp=None, objects=(), seen=tuple(seen.items())))


@pytest.mark.parametrize(
    ("seen", "level"),
    [
        ({**SOCKET, "stack": "kernel 6.18.0"}, "kernel"),
        ({**SOCKET, "kernel_sockets": "udp:80", "stack": "kernel 6.18.0"}, "kernel"),
        ({**TAP, "stack": "lwip 2.2.1"}, "lwip"),
        ({**TAP, "stack": "smoltcp 0.14.0"}, "smoltcp"),
        ({**SOCKET, "stack": "lwip 2.2.1"}, "lwip on the kernel's sockets"),
        ({**TAP, "stack": "kernel 6.18.0"}, "kernel on a TAP"),
        ({"tap": "tap0", "kernel_sockets": "tcp:80", "stack": "lwip 2"}, "lwip on a TAP and the kernel's sockets"),
        ({"tap": "none", "kernel_sockets": "none", "stack": "lwip 2"}, "lwip on neither a TAP nor the kernel"),
        ({**TAP, "stack": "picotcp 1"}, "picotcp"),
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": "ack-beyond-window"}, "smoltcp"),
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": "none"}, "smoltcp:shipped"),
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": "other"}, "smoltcp with the fixes other"),
        ({**SOCKET, "stack": "smoltcp 0.14.0", "server_fixes": "none"}, "smoltcp:shipped on the kernel's sockets"),
    ],
)
def test_device_sockets_and_name_must_agree(seen: dict[str, str], level: str) -> None:
    assert observed(**seen) == level


@pytest.mark.parametrize("missing", ["tap", "kernel_sockets", "stack"])
def test_a_missing_observation_leaves_the_level_unknown(missing: str) -> None:
    whole = {**TAP, "stack": "lwip 2.2.1"}
    assert observed(**{name: text for name, text in whole.items() if name != missing}) is None
    assert observed() is None


def test_the_environment_is_equally_large_at_every_level() -> None:
    environments = [dict(NETSTACK.apply(level.name, BASE_RECIPE).environment) for level in NETSTACK.levels]
    assert [found[VARIABLE].strip() for found in environments] == ["kernel", "lwip", "smoltcp", "smoltcp:shipped"]
    assert len({len(found[VARIABLE]) for found in environments}) == 1
    assert all(found["PATH"] == dict(BASE_RECIPE.environment)["PATH"] for found in environments)
