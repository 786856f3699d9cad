# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent's answer as a record keeps it beside the raw output, so that the samples of a run can be derived again."""

from __future__ import annotations

import msgspec

from swapstone.core.model import FrozenStruct, WireError
from swapstone.core.model.frozen_struct import amount_problem
from swapstone.core.wire.agent_answer import AgentAnswer

_OUTPUTS = ("stdout", "stderr", "driver_stdout", "driver_stderr")
_FORMER = b'"cgroup":[],'
"""A field of answers in earlier records, always empty there. Inside a text, its quotes would be escaped."""


def raw_output(answer: AgentAnswer) -> bytes:
    """Return all that a trial printed, the observed values and the agent's notes, as one text."""
    notes = "".join(f"{note}\n" for note in answer.notes).encode()
    driver = (("driver stdout", answer.driver_stdout), ("driver stderr", answer.driver_stderr))
    observed = "".join(f"{what} = {value!r}\n" for what, value in answer.observed)
    observed += "".join(f"{what} is absent\n" for what in answer.absent)
    parts = (
        ("stdout", answer.stdout),
        ("stderr", answer.stderr),
        *driver,
        ("observed", observed.encode()),
        ("agent", notes),
    )
    return b"".join(b"--- %s\n%s" % (name.encode(), data) for name, data in parts if data)


class KeptAnswer(FrozenStruct, frozen=True, kw_only=True):
    """An agent's answer without its outputs, which are in the raw output of the same run.

    Attributes:
        answer: with empty outputs.
        printed_bytes: how long each output was: standard output and standard error of the program, then of the load generator.
        kept_bytes: how much of each is in the raw output. Less than `printed_bytes` where the middle was left out.
    """

    answer: AgentAnswer
    printed_bytes: tuple[int, int, int, int]
    kept_bytes: tuple[int, int, int, int]

    @property
    def shortened(self) -> bool:
        """Return whether a part of an output was not kept."""
        return self.printed_bytes != self.kept_bytes


def kept_files(answer: AgentAnswer, kept: AgentAnswer) -> tuple[bytes, bytes]:
    """Return what a record keeps of an answer: the raw output, and a file of the rest.

    Args:
        answer: as the agent gave it.
        kept: the same with the outputs that the raw output holds.
    """
    stored = KeptAnswer(
        answer=msgspec.structs.replace(answer, **dict.fromkeys(_OUTPUTS, b"")),
        printed_bytes=_lengths(answer),
        kept_bytes=_lengths(kept),
    )
    return raw_output(kept), msgspec.json.encode(stored, order="sorted") + b"\n"


def decode_kept(data: bytes) -> KeptAnswer:
    """Decode the file that a record keeps of an answer.

    Raises:
        WireError: it is not such a file.
    """
    if problem := amount_problem(data):
        raise WireError(f"the agent's answer can't be decoded: {problem}")
    try:
        return msgspec.json.decode(data.replace(_FORMER, b"", 1), type=KeptAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"the agent's answer can't be decoded: {str(error)[:200]}") from error


def restored(kept: KeptAnswer, raw: bytes) -> AgentAnswer:
    """Return the answer with the outputs that a raw output holds.

    Args:
        kept: the answer without outputs.
        raw: the raw output of the same run.

    Raises:
        WireError: the raw output is not that of this answer.
    """
    outputs: dict[str, bytes] = {}
    at = 0
    for name, length in zip(_OUTPUTS, kept.kept_bytes, strict=True):
        header = b"--- %s\n" % name.replace("_", " ").encode()
        outputs[name] = b""
        if length > 0:
            if not raw.startswith(header, at):
                raise WireError(f"the raw output has no {name.replace('_', ' ')}, and the agent's answer has")
            at += len(header)
            outputs[name] = raw[at : at + length]
            at += length
    answer = msgspec.structs.replace(kept.answer, **outputs)
    if _lengths(answer) != kept.kept_bytes or not raw.startswith(raw_output(answer)):
        raise WireError("the raw output is not that of the agent's answer")
    return answer


def _lengths(answer: AgentAnswer) -> tuple[int, int, int, int]:
    return len(answer.stdout), len(answer.stderr), len(answer.driver_stdout), len(answer.driver_stderr)
