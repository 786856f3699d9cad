# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that tune a network stack, as parts of a level of the factor ``netstack``: ``lwip:oversize=0+ooseq=0``.

Some are compiled in: each value then needs a build of its own. Others are set when the stack is created. The stack reports the values in
force. A test compares the names with those of the crates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from swapstone.core.factors.factor import Level
from swapstone.core.model import FrozenStruct, UserError, unknown

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
    least: int
    most: int
    or_zero: bool = False
    default: int | None
    unit: str = ""
    variable: str = ""

    def allows(self, value: int) -> bool:
        """Return whether it can have a value."""
        return self.least <= value <= self.most or (self.or_zero and value == 0)

    def range_text(self) -> str:
        """Return the values that it can have."""
        return f"{'0, or ' if self.or_zero else ''}{self.least} to {self.most}{' ' if self.unit else ''}{self.unit}"


def _compiled(
    name: str, variable: str, most: int, default: int, listed: dict[int, str], *, least: int = 0, or_zero: bool = False
) -> StackOption:
    return StackOption(
        name=name,
        listed=tuple(listed.items()),
        least=least,
        most=most,
        or_zero=or_zero,
        default=default,
        variable=variable,
    )


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
        _compiled(
            "checksum-on-copy",
            "LWIP_CHECKSUM_ON_COPY",
            1,
            0,
            {1: "LWIP_CHECKSUM_ON_COPY: payload is summed when it is queued, not when it is sent"},
        ),
        _compiled(
            "oversize",
            "LWIP_OVERSIZE",
            1460,
            1460,
            {
                0: "TCP_OVERSIZE: a small write gets a buffer of its size, so small writes share no segment buffer",
                256: "room for 256 bytes more behind a small write; 0 to 1460, by default 1460",
            },
        ),
        _compiled(
            "ooseq", "LWIP_OOSEQ", 1, 1, {0: "TCP_QUEUE_OOSEQ: data out of order is dropped, and there is no SACK"}
        ),
        # The pools hold listeners and connections of clients too: with few control blocks no connection is accepted.
        _compiled(
            "pools",
            "LWIP_POOLS",
            16000,
            0,
            {
                64: "MEMP_MEM_MALLOC=0: lwIP's fixed pools with MEMP_NUM_TCP_PCB 64, including TIME-WAIT",
                1024: "the same with 1024 TCP connections; up to 16000, 0: one allocator for all",
            },
            least=16,
            or_zero=True,
        ),
        _BUFFERS,
    ),
    "smoltcp": (
        _compiled(
            "ooseq",
            "SMOLTCP_ASSEMBLER_MAX_SEGMENT_COUNT",
            32,
            32,
            {
                1: "ASSEMBLER_MAX_SEGMENT_COUNT: a receive buffer keeps one piece of data out of order",
                4: "4 pieces, smoltcp's own default; 1 to 32, here 32",
            },
            least=1,
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
        if name not in known:
            raise unknown(f"option of {stack}", name, known)
        if name in found:
            raise UserError(
                f"The level of {stack} has {name} twice.",
                f"For example: netstack={stack},{stack}:{_first(known[name])}",
            )
        found[name] = _value(stack, known[name], value)
    return {name: found[name] for name, option in known.items() if name in found and found[name] != option.default}


def _value(stack: str, option: StackOption, text: str) -> int:
    number = text.removesuffix(option.unit)
    value = int(number) if _NUMBER.fullmatch(number) and text == f"{number}{option.unit}" else -1
    if not option.allows(value):
        raise UserError(
            f"{option.name} of {stack} is {option.range_text()}, and not {text!r}.",
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
    return Level(name=name, description=description, needs=("cargo", "ip"), package="cargo-web rustc-web iproute2")
