# SPDX-License-Identifier: MIT OR Apache-2.0
"""The outcome of a packetdrill script on a network stack, and the failures that are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec

from swapstone.core.model.frozen_struct import FrozenStruct

STACKS = ("lwip", "smoltcp", "kernel")
STACK_TITLES = {"lwip": "lwIP", "smoltcp": "smoltcp", "kernel": "the kernel"}

PASSED, FAILED, REFUSED = "passed", "failed", "bad-script"


def stack_title(stack: str) -> str:
    """Return how sentences name a stack, such as ``smoltcp without its fixes``.

    Args:
        stack: one of `STACKS`, perhaps with ``:shipped`` or ``:without-FIX``.
    """
    name, _, fixes = stack.partition(":")
    if not fixes:
        return STACK_TITLES[name]
    without = "its fixes" if fixes == "shipped" else fixes.removeprefix("without-")
    return f"{STACK_TITLES[name]} without {without}"


def in_order(stacks: Iterable[str]) -> list[str]:
    """Return each of some stacks once, in the order of `STACKS`, and else as they came."""
    return sorted(dict.fromkeys(stacks), key=lambda stack: STACKS.index(stack.partition(":")[0]))


class ScriptOutcome(FrozenStruct, frozen=True, kw_only=True):
    """What a script found about a stack.

    Attributes:
        script: the path of the script.
        stack: one of `STACKS`, or one of them as ``smoltcp:shipped`` or ``smoltcp:without-FIX``.
        outcome: ``unsupported`` if the runner lacks a part of the language, ``unavailable`` if the stack can't run here.
        line: of the script, from 1; 0 for none.
        column: the character of that line, from 1, if the script or a part of it is refused; else 0.
        reason: what went wrong.
        expected: the packet or call of the script, in its notation; empty for none.
        seen: what was seen instead.
        skipped: how many shell commands and pieces of Python code of the script were left out.
    """

    script: str
    stack: str
    outcome: Literal["passed", "failed", "unsupported", "unavailable", "bad-script"]
    line: int = 0
    column: int = 0
    reason: str = ""
    expected: str = ""
    seen: str = ""
    skipped: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.stack.partition(":")[0] not in STACKS:
            raise ValueError("it names no stack")

    @property
    def place(self) -> str:
        """Return line and column as messages print them behind the name of the script, such as ``:3:12``."""
        return "".join(f":{number}" for number in (self.line, self.column) if number)


class Conformance(FrozenStruct, frozen=True, kw_only=True):
    """The outcomes of scripts on stacks.

    Attributes:
        outcomes: in the order of scripts and stacks.
        known: reasons of known failures, by stack and script name; empty for a user's own scripts.
        names: the name of each script, by its path.
    """

    outcomes: tuple[ScriptOutcome, ...]
    known: Mapping[str, Mapping[str, str]]
    names: Mapping[str, str]

    def name(self, outcome: ScriptOutcome) -> str:
        """Return the name of a script: folder and file, as ``rfc9293/listen-syn``."""
        return self.names.get(outcome.script, outcome.script)

    def reason(self, outcome: ScriptOutcome) -> str | None:
        """Return why a failure is known; None if it is not."""
        return self.known.get(outcome.stack, {}).get(self.name(outcome))

    @property
    def unexpected(self) -> tuple[ScriptOutcome, ...]:
        """Return what did not pass and is not known."""
        return tuple(one for one in self.outcomes if one.outcome != PASSED and self.reason(one) is None)

    @property
    def outdated(self) -> tuple[ScriptOutcome, ...]:
        """Return what is known to fail and passed."""
        return tuple(one for one in self.outcomes if one.outcome == PASSED and self.reason(one) is not None)


_LONGEST_LINE = 1 << 16


def decode_script_outcome(line: bytes) -> ScriptOutcome:
    """Decode a line of swapstone-net-packetdrill.

    Args:
        line: JSON.

    Raises:
        ValueError: it is no outcome.
    """
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"the line has more than {_LONGEST_LINE} bytes")
    try:
        return msgspec.json.decode(line, type=ScriptOutcome)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
