# SPDX-License-Identifier: MIT OR Apache-2.0
"""The network stack of a server or client: the kernel's, or one in its process over a TAP device. docs/netstack.md explains it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import FrozenStruct, UserError, find_named, unknown

SEPARATOR = "+"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")


class StackOption(FrozenStruct, frozen=True, kw_only=True):
    """An option of a network stack, whose values are numbers.

    Attributes:
        name: as users type it.
        listed: values that `swapstone list levels` shows, each with its effect.
        least: the least value.
        most: the largest value.
        or_zero: whether 0 is a value, too.
        default: the value of the stack without the option; None if it depends on the workload.
        unit: behind the number.
        variable: the environment variable of the build that sets it; empty if it is set when the stack is created.
    """

    name: str
    listed: tuple[tuple[int, str], ...]
    least: int = 0
    most: int
    or_zero: bool = False
    default: int | None
    unit: str = ""
    variable: str = ""


_BUFFERS = StackOption(
    name="buffers",
    listed=(
        (64, "receive and send buffer of a TCP socket of 64 KiB each: one large frame fills the window"),
        (1024, "buffers of 1024 KiB each, instead of those of the workload; 4 to 65536"),
    ),
    least=4,
    most=65536,
    default=None,
    unit="KiB",
)
_SOCKETS = StackOption(
    name="pools",
    listed=((64, "at most 64 TCP sockets, besides TIME-WAIT; 16 to 16000, by default 1024"),),
    least=16,
    most=16000,
    default=1024,
)

OPTIONS: dict[str, tuple[StackOption, ...]] = {
    "lwip": (
        StackOption(
            name="checksum-on-copy",
            variable="LWIP_CHECKSUM_ON_COPY",
            most=1,
            default=0,
            listed=((1, "LWIP_CHECKSUM_ON_COPY: payload is summed when it is queued, not when it is sent"),),
        ),
        StackOption(
            name="oversize",
            variable="LWIP_OVERSIZE",
            most=1460,
            default=1460,
            listed=(
                (0, "TCP_OVERSIZE: a small write gets a buffer of its size, so small writes share no segment buffer"),
                (256, "room for 256 bytes more behind a small write; 0 to 1460, by default 1460"),
            ),
        ),
        StackOption(
            name="ooseq",
            variable="LWIP_OOSEQ",
            most=1,
            default=1,
            listed=((0, "TCP_QUEUE_OOSEQ: data out of order is dropped, and there is no SACK"),),
        ),
        # The pools hold listeners and connections of clients too: with few control blocks no connection is accepted.
        StackOption(
            name="pools",
            variable="LWIP_POOLS",
            most=16000,
            default=0,
            least=16,
            or_zero=True,
            listed=(
                (64, "MEMP_MEM_MALLOC=0: lwIP's fixed pools with MEMP_NUM_TCP_PCB 64, including TIME-WAIT"),
                (1024, "the same with 1024 TCP connections; up to 16000, 0: one allocator for all"),
            ),
        ),
        _BUFFERS,
    ),
    "smoltcp": (
        StackOption(
            name="ooseq",
            variable="SMOLTCP_ASSEMBLER_MAX_SEGMENT_COUNT",
            most=32,
            default=32,
            least=1,
            listed=(
                (1, "ASSEMBLER_MAX_SEGMENT_COUNT: a receive buffer keeps one piece of data out of order"),
                (4, "4 pieces, smoltcp's own default; 1 to 32, here 32"),
            ),
        ),
        _SOCKETS,
        _BUFFERS,
    ),
}
"""For each stack: its options in the order in which its server reports them, the compiled ones first."""

BUILD_VARIABLES = frozenset(option.variable for options in OPTIONS.values() for option in options if option.variable)
"""The environment variables of a build that set options."""


def parse_options(stack: str, texts: tuple[str, ...]) -> dict[str, int]:
    """Return the values of options in canonical order, without those that a stack has by default.

    Args:
        stack: a name of `OPTIONS`.
        texts: each ``NAME=VALUE``.

    Raises:
        UserError: an option is unknown or twice, or its value is impossible.
    """
    known = {option.name: option for option in OPTIONS[stack]}
    found: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        option = find_named(f"option of {stack}", name, known)
        if name in found:
            raise UserError(
                f"The level of {stack} has {name} twice.", f"For example: netstack={stack},{stack}:{_first(option)}"
            )
        found[name] = _value(stack, option, value)
    return {name: found[name] for name, option in known.items() if name in found and found[name] != option.default}


def _value(stack: str, option: StackOption, text: str) -> int:
    number = text.removesuffix(option.unit)
    value = int(number) if _NUMBER.fullmatch(number) and text == f"{number}{option.unit}" else -1
    if not (option.least <= value <= option.most or (option.or_zero and value == 0)):
        raise UserError(
            f"{option.name} of {stack} is {'0, or ' if option.or_zero else ''}{option.least} to {option.most}"
            f"{' ' if option.unit else ''}{option.unit}, and not {text!r}.",
            f"For example: netstack={stack},{stack}:{_first(option)}",
        )
    return value


def _first(option: StackOption) -> str:
    return option_text(option, option.listed[0][0])


def option_text(option: StackOption, value: int) -> str:
    """Return ``NAME=VALUE`` as users type it."""
    return f"{option.name}={value}{option.unit}"


def options_text(stack: str, values: Mapping[str, int]) -> str:
    """Return the part of a level that names options; empty for none."""
    return SEPARATOR.join(
        option_text(option, values[option.name]) for option in OPTIONS[stack] if option.name in values
    )


def build_variables(level: str) -> tuple[tuple[str, str], ...]:
    """Return the environment variables, with values, of the build for a level of ``netstack``; none for one that is not compiled in.

    Args:
        level: as `swapstone.parts.net.factors.netstack.Netstack.level_of_text` returns it.
    """
    stack, _, rest = level.partition(":")
    values = dict(part.split("=", 1) for part in rest.split(SEPARATOR) if "=" in part)
    return tuple(
        (option.variable, values[option.name])
        for option in OPTIONS.get(stack, ())
        if option.variable and option.name in values
    )


def stack_level(name: str, description: str) -> Level:
    """Return a level whose workloads are built by cargo and create network devices."""
    return Level(name=name, description=description, needs=("cargo", "ip"))


FIXES: dict[str, dict[str, str]] = {
    "lwip": {
        "backlog-recycling": "a SYN flood fills the backlog for 20 s",
        "syn-with-fin": "a SYN with a FIN opens a connection",
        "least-mss": "an MSS option of 1 is accepted",
        "limited-transmit": "the first two duplicate ACKs send nothing (RFC 3042)",
        "large-segments": "a segment for TSO has at most 16 MSS instead of up to 43",
        "icmp-error-rate": "ICMP errors have no rate limit",
        "handshake-timed": "the handshake is no round-trip sample (RFC 6298)",
        "ack-after-read": "data is acknowledged before the application can read it",
        "ack-filled-gap": "data that fills a gap gets a delayed ACK (RFC 5681)",
        "reordering-window": "a segment that 3 others overtake is retransmitted as lost (RFC 8985)",
        "simultaneous-open": "two hosts that connect to each other at once don't (RFC 9293)",
        "retransmission-order": "a fast retransmission that a closed window delays is queued in the wrong order",
        "duplicate-ack-window": "a duplicate ACK with a larger window is not counted (RFC 6675)",
        "timestamps": "no timestamps: a late segment costs the peer's sender its window (RFC 7323)",
    },
    "smoltcp": {
        "ack-beyond-window": "streams in both directions hang after a loss",
        "neighbor-from-segment": "a SYN from an unknown neighbor waits for address resolution",
        "solicitation-per-neighbor": "one ARP request or solicitation a second for all neighbors",
        "data-after-fin": "data after the peer's FIN is delivered",
        "syn-challenge-ack": "a SYN of an established connection gets no answer (RFC 5961)",
        "data-with-old-ack": "data with an older ACK is dropped",
        "early-fin": "a FIN behind a lost segment is forgotten",
        "rst-in-syn-received": "any RST in the window ends a connection in SYN-RECEIVED (RFC 5961)",
        "ipv6-extension-headers": "TCP and UDP behind destination options or an atomic fragment header are dropped",
        "path-mtu": "frag-needed and packet-too-big are ignored",
        "backlog-recycling": "a SYN flood fills the backlog for 60 s",
        "icmp-error-rate": "ICMP errors have no rate limit",
        "reordering-window": "a segment that 3 others overtake is retransmitted as lost (RFC 8985)",
        "duplicate-ack-window": "a duplicate ACK with a larger window is not counted (RFC 6675)",
        "closed-window-probe": "a window that closes while data is in flight is not probed (RFC 9293)",
        "timestamps": "no timestamps: a late segment costs the peer's sender its window (RFC 7323)",
    },
}
"""For each stack: its fixes in the order in which its server reports them, each with what happens without it."""

TEXTS = {"ack-beyond-window": "smoltcp-ack-beyond-window"}
"""The files in ``docs/upstream`` whose names differ from ``STACK-fixes``."""


def upstream_of(stack: str, fix: str) -> str:
    """Return the path of the text for the authors of a stack, below the repository's root.

    Args:
        stack: a name of `FIXES`.
        fix: one of its fixes.
    """
    return f"docs/upstream/{TEXTS.get(fix, f'{stack}-fixes')}.md"


KERNEL = "kernel"
VARIABLE = "NETSTACK"
"""The environment variable with the level. All values have the same length, so the environment has the same size."""

CONTROLS = (
    "reno",
    "bbr",
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)
"""Congestion controls of Linux besides `DEFAULT_CONTROL` (net/ipv4/Kconfig), those of the documentation first."""
DEFAULT_CONTROL = "cubic"
"""That of the level ``kernel``."""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_MODULES = Path("/lib/modules")

_NONE = "none"
_SHIPPED = "shipped"
_WITHOUT = "without-"
_LONGEST = len(
    f"lwip:{_WITHOUT}reordering-window+checksum-on-copy=1+oversize=1460+ooseq=0+pools=16000+buffers=65536KiB"
)


class Netstack:
    """The network stack of the server."""

    name = "netstack"
    stage = Stage.LAUNCH
    description = "the network stack that a server runs on"
    unseen = "Only workloads of the suites netstack and netstack-counts use a stack: add `--suite netstack`."
    levels: tuple[Level, ...] = (
        stack_level(KERNEL, "Linux's sockets with cubic, over a pair of veth devices"),
        *(stack_level(stack, f"{stack} in the server's process, over a TAP, with its fixes") for stack in FIXES),
        *(stack_level(f"{stack}:{_SHIPPED}", f"{stack} without its fixes") for stack in FIXES),
    )
    forms: tuple[Level, ...] = (
        tuple(
            stack_level(f"{stack}:{_WITHOUT}{fix}", f"all fixes but one: then {reason} ({upstream_of(stack, fix)})")
            for stack, fixes in FIXES.items()
            for fix, reason in fixes.items()
        )
        + tuple(
            stack_level(f"{stack}:{option_text(option, value)}", reason)
            for stack, options in OPTIONS.items()
            for option in options
            for value, reason in option.listed
        )
        + tuple(stack_level(f"{KERNEL}:{control}", f"Linux's sockets with {control}") for control in CONTROLS)
    )

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a stack with other fixes or options, or of the kernel with a congestion control; None for another text.

        Raises:
            UserError: the stack has no such fix or option, or Linux no such congestion control.
        """
        stack, colon, rest = text.partition(":")
        if not colon or stack not in (KERNEL, *FIXES):
            return None
        for form in (*self.levels, *self.forms):
            if form.name in {text, text.removesuffix(f":{DEFAULT_CONTROL}")}:
                return form
        if stack == KERNEL:
            raise unknown("congestion control", rest, [DEFAULT_CONTROL, *CONTROLS])
        return _tuned(stack, tuple(rest.split(SEPARATOR)))

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable to the level, padded with spaces to the longest name."""
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, (VARIABLE, level.ljust(_LONGEST))))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the stack of the measured process by its open TAP device, its kernel sockets, and the name that its stack reports.

        The kernel sockets of a server are those that listen; of a client, those that are connected. The process reports fixes and
        options of its stack as ``server_fixes`` and ``server_options``, or as ``client_fixes`` and ``client_options``.

        Returns:
            A level if all three agree; a description if they don't; None if one of them was not observed.
        """
        seen = dict(evidence.seen)
        if not {"tap", "kernel_sockets", "stack"} <= seen.keys():
            return None
        wired, listens = seen["tap"] != _NONE, seen["kernel_sockets"] != _NONE
        stack = seen["stack"].partition(" ")[0]
        places = " and ".join(text for text, there in (("a TAP", wired), ("the kernel's sockets", listens)) if there)
        fits = (wired, listens) == ((False, True) if stack == KERNEL else (True, False))
        controls = {seen[name] for name in ("server_control", "client_control") if name in seen}
        if stack == KERNEL and controls - {DEFAULT_CONTROL}:
            stack = f"{KERNEL}:{' and '.join(sorted(controls))}"
        # The measured process is a server or a client; some report nothing.
        fixes, options = (seen.get(f"server_{what}", seen.get(f"client_{what}")) for what in ("fixes", "options"))
        if stack in FIXES and fixes is not None:
            stack = _of_fixes(stack, fixes)
        if stack.partition(":")[0] in FIXES and options is not None:
            stack = _with_options(stack, options)
        return stack if fits else f"{stack} on {places or 'neither a TAP nor the kernel'}"


def needs_system(level: str) -> str:
    """Return why a level can't be measured on a machine without an operating system; empty if it can."""
    if level.partition(":")[0] != KERNEL:
        return ""
    return "unavailable: there is no operating system on that machine, so no kernel whose sockets a server could use"


def missing_control(level: str) -> str | None:
    """Return why this machine's kernel lacks the congestion control of a level; None if it has it, or can load it."""
    stack, _, control = level.partition(":")
    if stack != KERNEL or not control:
        return None
    try:
        there = _AVAILABLE.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None  # the trial finds out
    modules = _MODULES / os.uname().release
    if control in there or next(modules.rglob(f"tcp_{control}.ko*"), None) is not None:
        return None
    return f"unavailable: this kernel has no congestion control {control}; it has {', '.join(sorted(there))}"


def _tuned(stack: str, parts: tuple[str, ...]) -> Level:
    """Return the level of a stack with other fixes, with options, or with both."""
    fixes = [part for part in parts if "=" not in part]
    known = [_SHIPPED, *(f"{_WITHOUT}{fix}" for fix in FIXES[stack])]
    for fix in fixes:
        if fix not in known:
            usages = [option_text(option, option.listed[0][0]) for option in OPTIONS[stack]]
            raise unknown("fix or option", fix, [*usages, *known])
    if len(fixes) > 1:
        raise UserError(
            f"The level {stack}:{SEPARATOR.join(parts)} selects fixes twice.",
            f"Use {stack}:{_SHIPPED} for none, {stack}:{_WITHOUT}FIX for all but one.",
        )
    values = parse_options(stack, tuple(part for part in parts if "=" in part))
    rest = SEPARATOR.join(filter(None, (*fixes, options_text(stack, values))))
    return stack_level(f"{stack}:{rest}" if rest else stack, "defined by its parts")


def _with_options(level: str, options: str) -> str:
    """Return a level with the options in force that its stack does not have by default; another text if the level has no such form."""
    stack, colon, rest = level.partition(":")
    try:
        text = options_text(stack, parse_options(stack, tuple(options.split(","))))
    except UserError:
        return f"{level} with the options {options}"
    return f"{stack}:{rest}{SEPARATOR if colon else ''}{text}" if text else level


def _of_fixes(stack: str, fixes: str) -> str:
    """Return the level of a stack by the fixes that were on. Servers of older records report none."""
    if fixes == _NONE:
        return f"{stack}:{_SHIPPED}"
    on = fixes.split(",")
    off = [fix for fix in FIXES[stack] if fix not in on]
    if len(on) + len(off) != len(FIXES[stack]) or len(off) > 1:
        return f"{stack} with the fixes {fixes}"
    return f"{stack}:{_WITHOUT}{off[0]}" if off else stack


NETSTACK = Netstack()
