# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor netstack: the level is observed in the server, not taken from its environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapstone.core.factors import Evidence, find_level, parse_choice
from swapstone.core.model import UserError
from swapstone.core.workloads.named_figures import NamedFigures, decode_named_figures
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.net.factors.netstack import (
    BUILD_VARIABLES,
    FIXES,
    NETSTACK,
    OPTIONS,
    VARIABLE,
    StackOption,
    build_variables,
    option_text,
    upstream_of,
)
from tests.named_figures import encode_named_figures

ROOT = Path(__file__).parents[3]
TAP = {"tap": "tap0", "kernel_sockets": "none"}
SOCKET = {"tap": "none", "kernel_sockets": "tcp:80"}
ALL = ",".join(FIXES["smoltcp"])
LWIP = {**TAP, "stack": "lwip 2.2.1", "server_fixes": ",".join(FIXES["lwip"])}
DEFAULTS = "checksum-on-copy=0,oversize=1460,ooseq=1,pools=0"


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
        ({**LWIP, "server_options": DEFAULTS}, "lwip"),
        ({**LWIP, "server_options": DEFAULTS.replace("oversize=1460", "oversize=0")}, "lwip:oversize=0"),
        (
            {**LWIP, "server_options": "checksum-on-copy=1,oversize=1460,ooseq=0,pools=64,buffers=256KiB"},
            "lwip:checksum-on-copy=1+ooseq=0+pools=64+buffers=256KiB",
        ),
        ({**LWIP, "server_fixes": "none", "server_options": f"{DEFAULTS},buffers=64KiB"}, "lwip:shipped+buffers=64KiB"),
        (
            {**TAP, "stack": "smoltcp 0.14.0", "server_fixes": ALL, "server_options": "ooseq=4,pools=64"},
            "smoltcp:ooseq=4+pools=64",
        ),
        ({**TAP, "stack": "lwip 2.2.1", "client_fixes": "none"}, "lwip:shipped"),
        (
            {**TAP, "stack": "smoltcp 0.14.0", "client_fixes": ALL, "client_options": "ooseq=4,pools=64"},
            "smoltcp:ooseq=4+pools=64",
        ),
        ({**SOCKET, "stack": "smoltcp 0.14.0", "client_fixes": ALL}, "smoltcp on the kernel's sockets"),
        ({**LWIP, "server_options": "window=1"}, "lwip with the options window=1"),
        ({**LWIP, "server_options": "buffers=1/2"}, "lwip with the options buffers=1/2"),
        ({**LWIP, "server_fixes": "other", "server_options": "ooseq=0"}, "lwip with the fixes other"),
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
    for stack, fix in (("lwip", "reordering-window"), ("smoltcp", "solicitation-per-neighbor")):
        largest = "+".join(
            option_text(option, option.most - (option.most == option.default)) for option in OPTIONS[stack]
        )
        level = NETSTACK.level_of_text(f"{stack}:without-{fix}+{largest}")
        assert level is not None
        levels.append(level.name)
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


def test_options_are_parts_of_a_level_in_canonical_order() -> None:
    choice = parse_choice("netstack=lwip,lwip:ooseq=0,lwip:buffers=64KiB+ooseq=0+shipped,smoltcp:ooseq=32+pools=64")
    assert choice.levels == ("lwip", "lwip:ooseq=0", "lwip:shipped+ooseq=0+buffers=64KiB", "smoltcp:pools=64")
    # What a stack has by default is no other level.
    assert parse_choice("netstack=lwip:oversize=0,lwip:oversize=1460").levels == ("lwip:oversize=0", "lwip")
    with pytest.raises(UserError, match="twice"):
        parse_choice("netstack=lwip,lwip:checksum-on-copy=0")


def test_each_listed_value_is_a_level() -> None:
    listed = [level.name for level in NETSTACK.forms if "=" in level.name]
    assert len(listed) == sum(len(option.listed) for options in OPTIONS.values() for option in options)
    assert len({name.partition(":")[2].partition("=")[0] for name in listed if name.startswith("lwip:")}) == 5
    for name in listed:
        assert find_level(NETSTACK, name).name == name


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("lwip:window=1", "checksum-on-copy, ooseq, oversize, pools"),
        ("smoltcp:oversize=0", "Known: buffers, ooseq, pools."),
        ("lwip:oversize=1461", "oversize of lwip is 0 to 1460, and not '1461'."),
        ("lwip:oversize=", "and not ''."),
        ("lwip:ooseq=00", "ooseq of lwip is 0 to 1, and not '00'."),
        ("lwip:pools=15", "pools of lwip is 0, or 16 to 16000, and not '15'."),
        ("smoltcp:ooseq=0", "ooseq of smoltcp is 1 to 32, and not '0'."),
        ("smoltcp:buffers=64", "buffers of smoltcp is 4 to 65536 KiB, and not '64'."),
        ("lwip:ooseq=0+ooseq=1", "has ooseq twice"),
        ("lwip:shipped+without-least-mss", "selects fixes twice"),
        ("smoltcp:early-fin", "Did you mean 'without-early-fin'?"),
        ("smoltcp:pool", "pools=64"),
    ],
)
def test_a_wrong_option_is_refused_and_the_known_ones_are_listed(level: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_choice(f"netstack=lwip,{level}")
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_only_compiled_options_need_a_build_of_their_own() -> None:
    assert build_variables("lwip") == build_variables("kernel:bbr") == build_variables("smoltcp:buffers=64KiB") == ()
    assert build_variables("lwip:shipped+ooseq=0+pools=64+buffers=64KiB") == (("LWIP_OOSEQ", "0"), ("LWIP_POOLS", "64"))
    assert build_variables("smoltcp:ooseq=4+pools=64") == (("SMOLTCP_ASSEMBLER_MAX_SEGMENT_COUNT", "4"),)


def test_the_options_and_their_limits_are_those_of_the_crates() -> None:
    def numbers(option: StackOption) -> tuple[str, int]:
        return option.variable, option.most

    build = (ROOT / "crates/swapstone-net-lwip-sys/build.rs").read_text(encoding="utf-8")
    found = re.findall(r'\("(LWIP_[A-Z_]+)", "LW_[A-Z_]+", ([0-9_]+)\)', build)
    compiled = [option for option in OPTIONS["lwip"] if option.variable]
    assert [(name, int(most)) for name, most in found] == [numbers(option) for option in compiled]
    header = (ROOT / "crates/swapstone-net-lwip-sys/c/lwipopts.h").read_text(encoding="utf-8")
    for option in compiled:
        assert f"#define {option.variable.replace('LWIP', 'LW')} {option.default}\n#endif" in header
    for stack, options in OPTIONS.items():
        source = (ROOT / f"crates/swapstone-net-{stack}/src/tuning.rs").read_text(encoding="utf-8")
        assert re.findall(r'\("([a-z-]+)", ', source) == [option.name for option in options if option.variable]
    cargo = (ROOT / "crates/swapstone-net-smoltcp/Cargo.toml").read_text(encoding="utf-8")
    assert "assembler-max-segment-count-32" in cargo
    assert {option.variable for options in OPTIONS.values() for option in options if option.variable} == BUILD_VARIABLES
