# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor netstack: the level is observed in the server, not taken from its environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapstone.artifacts import BASE_RECIPE
from swapstone.factors import Evidence, parse_choice
from swapstone.factors.netstack import NETSTACK, VARIABLE
from swapstone.factors.netstack_fixes import FIXES, upstream_of
from swapstone.model import UserError
from swapstone.workloads.named_figures import NamedFigures, decode_named_figures, encode_named_figures

ROOT = Path(__file__).parents[3]
TAP = {"tap": "tap0", "kernel_sockets": "none"}
SOCKET = {"tap": "none", "kernel_sockets": "tcp:80"}
ALL = ",".join(FIXES["smoltcp"])


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
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": ALL}, "smoltcp"),
        (
            {**TAP, "stack": "smoltcp 0.14.0", "server_fixes": ALL.replace("early-fin,", "")},
            "smoltcp:without-early-fin",
        ),
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": "none"}, "smoltcp:shipped"),
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": "other"}, "smoltcp with the fixes other"),
        ({**TAP, "stack": "smoltcp 0.14.0", "server_fixes": f"{ALL},other"}, f"smoltcp with the fixes {ALL},other"),
        ({**TAP, "stack": "lwip 2.2.1", "server_fixes": "none"}, "lwip:shipped"),
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
    levels = [level.name for level in (*NETSTACK.levels, *NETSTACK.forms)]
    environments = [dict(NETSTACK.apply(level, BASE_RECIPE).environment) for level in levels]
    assert [found[VARIABLE].strip() for found in environments] == levels
    assert levels[:5] == ["kernel", "lwip", "smoltcp", "lwip:shipped", "smoltcp:shipped"]
    assert len({len(found[VARIABLE]) for found in environments}) == 1
    assert all(found["PATH"] == dict(BASE_RECIPE.environment)["PATH"] for found in environments)


@pytest.mark.parametrize("stack", FIXES)
def test_the_fixes_are_those_of_the_crate(stack: str) -> None:
    source = (ROOT / f"crates/swapstone-net-{stack}/src/fixes.rs").read_text(encoding="utf-8")
    table = source.partition("pub const FIXES")[2].partition("];")[0]
    assert re.findall(r'name: "([a-z0-9-]+)"', table) == list(FIXES[stack])


@pytest.mark.parametrize("stack", FIXES)
def test_each_fix_has_a_text_for_upstream_and_a_line_in_the_documentation(stack: str) -> None:
    page = (ROOT / "docs/netstack-fixes.md").read_text(encoding="utf-8")
    for fix in FIXES[stack]:
        assert f"`{fix}`" in (ROOT / upstream_of(stack, fix)).read_text(encoding="utf-8"), fix
        assert f"| {stack} | `{fix}` |" in page


def test_a_fix_is_switched_off_by_its_name() -> None:
    choice = parse_choice("netstack=smoltcp,smoltcp:without-early-fin")
    assert choice.levels == ("smoltcp", "smoltcp:without-early-fin")
    with pytest.raises(UserError, match="early-fin"):
        parse_choice("netstack=smoltcp,smoltcp:without-early-finn")
    with pytest.raises(UserError):
        parse_choice("netstack=smoltcp,kernel:shipped")


@pytest.mark.parametrize("stack", sorted(FIXES))
def test_the_list_of_all_fixes_fits_an_observation(stack: str) -> None:
    seen = (("server_fixes", ",".join(FIXES[stack])),)
    assert (
        decode_named_figures(encode_named_figures(NamedFigures(name="work", figures=(), series=(), seen=seen))).seen
        == seen
    )
