# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent's answer to a trial (docs/wire.md, section 2)."""

from __future__ import annotations

import enum
import re
import zlib

from swapstone.core.model import FrozenStruct, MemorySeries, Observation, ObservationKind, WireError
from swapstone.core.wire.protocol_text import MAX_NUMBER, Place, encode_bytes, encode_text, show
from swapstone.core.wire.protocol_words import AGENT_HEADER, AGENT_WORDS, FACTS, OUTCOMES

CHUNK_BYTES = 512
MAX_LINE_BYTES = 1 << 16

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}", re.ASCII)
_CRC = re.compile(rb"[0-9a-f]{8}", re.ASCII)
_NONCE = re.compile(rb"[0-9a-f]{32}", re.ASCII)
_ORDER = tuple(word.encode() for word in AGENT_WORDS if word not in {"begin", "end", "error"})
_SECTIONS = {
    word: number - (word == b"absent") for number, word in enumerate(_ORDER)
}  # of one section: observed and absent
_KINDS = {kind.value.encode(): kind for kind in ObservationKind}
_FACTS = {
    name.encode(): (name, low, 19 if name in ("nice", "agent_nice") else MAX_NUMBER) for name, low in FACTS.items()
}
"""By the name on the wire: name, lowest and highest value."""
_OUTPUTS = (b"out", b"err", b"driver-out", b"driver-err")
_FORGED = "Another process than the agent may have written into its pipe: `swapstone docs wire`, section 1."


class ProcessOutcome(enum.Enum):
    """How a trial's process ended; `AgentAnswer.code` adds a detail.

    `UNSTARTED`: there was no process. `TIMEOUT`, `OVERFLOW` and `DISK`: the agent killed it. A server that was measured and ended after
    SIGTERM is `DRIVEN`; an `UNREADY` one never accepted a connection; with `UNDRIVEN` its load generator failed.
    """

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    OVERFLOW = "overflow"
    DISK = "disk"
    ORPHANS = "orphans"
    UNSTARTED = "unstarted"
    DRIVEN = "driven"
    UNREADY = "unready"
    UNDRIVEN = "undriven"


class AgentAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The agent's answer to one trial.

    Attributes:
        id: of the request.
        facts: pairs (name, value) in their order on the wire; docs/wire.md lists names and units.
        interp: the loader of the program that ran (PT_INTERP), or None if it has none or could not be observed.
        objects: files that were mapped executable at its end.
        observed: pairs (observation, value), as requested. A value comes from the process or the system and may contain anything; bytes
            that are not UTF-8 are shown by their hexadecimal codes.
        absent: observations of a variable or file that does not exist. One that is in neither list could not be read.
        stdout, stderr: the outputs, up to the request's limit.
        driver_stdout, driver_stderr: of a server's load generator in the window.
        notes: for the user.
        outcome: how it ended.
        code: exit status, signal, errno or number of orphans, depending on `outcome`; else 0.
        machine: pairs (name, text) that the place of the trial reports about itself around it: a virtual machine
            (docs/virtual-machines.md), a board, a memory cgroup, counters under load. Not part of the protocol.
        name: digest of all inputs of the run, on the virtual clock; empty elsewhere. Not part of the protocol.
        memory: resident memory over time, of a trial in a memory cgroup. Not part of the protocol.
    """

    id: str
    facts: tuple[tuple[str, int], ...] = ()
    interp: str | None = None
    objects: tuple[str, ...] = ()
    observed: tuple[tuple[Observation, str], ...] = ()
    absent: tuple[Observation, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    driver_stdout: bytes = b""
    driver_stderr: bytes = b""
    notes: tuple[str, ...] = ()
    outcome: ProcessOutcome
    code: int
    machine: tuple[tuple[str, str], ...] = ()
    name: str = ""
    memory: MemorySeries | None = None


def encode_answer_header() -> bytes:
    """Return the line that an agent writes before its first answer."""
    return AGENT_HEADER + b"\n"


def encode_answer(answer: AgentAnswer, nonce: str = "") -> bytes:
    """Return an answer as an agent writes it, from ``begin`` to ``end``. The fake target uses it.

    Args:
        answer: what it contains.
        nonce: of the request; empty if it has none.

    Raises:
        WireError: a text can't be encoded.
    """
    lines = [b"begin " + answer.id.encode()]
    lines += [b"nonce " + nonce.encode()] if nonce else []
    lines += [b"fact %s %d" % (name.encode(), value) for name, value in answer.facts]
    if answer.interp is not None:
        lines.append(b"interp " + encode_text(answer.interp))
    lines += [b"object " + encode_text(path) for path in answer.objects]
    lines += [b"observed " + _observation(what) + b" " + encode_text(value) for what, value in answer.observed]
    lines += [b"absent " + _observation(what) for what in answer.absent]
    outputs = ((b"out ", answer.stdout), (b"err ", answer.stderr))
    driver = ((b"driver-out ", answer.driver_stdout), (b"driver-err ", answer.driver_stderr))
    for word, output in (*outputs, *driver):
        chunks = (output[at : at + CHUNK_BYTES] for at in range(0, len(output), CHUNK_BYTES))
        lines += [word + encode_bytes(chunk) for chunk in chunks]
    lines += [b"note " + encode_text(note) for note in answer.notes]
    body = b"".join(line + b"\n" for line in lines)
    body += f"end {answer.id} {answer.outcome.value} {answer.code} {len(lines)} ".encode()
    return body + b"%08x\n" % zlib.crc32(body)


def _observation(what: Observation) -> bytes:
    return what.kind.value.encode() + b" " + encode_text(what.name)


class _Draft:
    """An answer that is being decoded.

    Args:
        line: its first, ``begin``.
        answer_id: what follows that word.
    """

    def __init__(self, line: bytes, answer_id: bytes) -> None:
        self.id = answer_id
        self.nonce = b""
        self.section = 0
        self.lines = 1
        self.crc = zlib.crc32(line + b"\n")
        self.facts: dict[str, int] = {}
        self.interp: str | None = None
        self.observed: dict[Observation, str | None] = {}
        self.texts: dict[bytes, list[str]] = {b"object": [], b"note": []}
        self.outputs: dict[bytes, bytearray] = {word: bytearray() for word in _OUTPUTS}

    def decode_line(self, place: Place, line: bytes) -> AgentAnswer | None:
        """Decode one line after ``begin``. That of ``end`` completes the answer."""
        word, _, rest = line.partition(b" ")
        if word == b"end":
            return self._finish(place, rest)
        section = _SECTIONS.get(word)
        if section is None:
            raise place.fault(f"{show(word)} is no word of an answer.")
        if section < self.section:
            raise place.fault(f"'{word.decode()}' comes after '{_ORDER[self.section].decode()}'.")
        self.section = section
        if word == b"fact":
            token, _, number = rest.partition(b" ")
            self._decode_fact(place, token, number)
        elif word == b"nonce":
            if self.nonce or not _NONCE.fullmatch(rest):
                raise place.fault("there is a second or an invalid 'nonce'.")
            self.nonce = rest
        elif word == b"interp":
            if self.interp is not None:
                raise place.fault("there is a second 'interp'.")
            self.interp = place.decode_text(rest)
        elif word in {b"observed", b"absent"}:
            self._decode_observation(place, rest, absent=word == b"absent")
        elif word in self.outputs:
            chunk = place.decode_bytes(rest)
            if not 1 <= len(chunk) <= CHUNK_BYTES:
                raise place.fault(f"a piece of output has {len(chunk)} bytes, not 1 to {CHUNK_BYTES}.")
            self.outputs[word] += chunk
        else:
            self.texts[word].append(place.decode_text(rest))
        self.lines += 1
        self.crc = zlib.crc32(line + b"\n", self.crc)
        return None

    def _decode_fact(self, place: Place, token: bytes, number: bytes) -> None:
        known = _FACTS.get(token)
        if known is None:
            raise place.fault(f"there is no fact named {show(token)}.")
        name, low, high = known
        if name in self.facts:
            raise place.fault(f"the fact {name} comes twice.")
        self.facts[name] = place.decode_number(number, name, low, high)

    def _decode_observation(self, place: Place, rest: bytes, *, absent: bool) -> None:
        fields = rest.split(b" ")
        if len(fields) != (2 if absent else 3) or fields[0] not in _KINDS:
            raise place.fault(f"{show(rest)} is no observation.")
        what = Observation(kind=_KINDS[fields[0]], name=place.decode_text(fields[1]))
        if what in self.observed:
            raise place.fault(f"the observation {show(rest)} comes twice.")
        self.observed[what] = None if absent else place.decode_text(fields[2])

    def _finish(self, place: Place, rest: bytes) -> AgentAnswer:
        """Decode the line ``end`` and return the answer."""
        fields = rest.split(b" ")
        if len(fields) != 5:
            raise place.fault("'end' has not five fields.")
        answer_id, word, code, lines, crc = fields
        if answer_id != self.id:
            raise place.fault(f"the end of {show(answer_id)} comes inside {show(self.id)}.")
        if place.decode_number(lines, "the number of lines") != self.lines:
            raise place.fault(f"the answer has {self.lines} lines and should have {int(lines)}: lines were lost.")
        whole = zlib.crc32(b"end " + rest.removesuffix(crc), self.crc)
        if not _CRC.fullmatch(crc) or int(crc, 16) != whole:
            raise place.fault("the checksum is wrong: the answer was changed in transit.")
        try:
            outcome = ProcessOutcome(word.decode("ascii", "replace"))
        except ValueError:
            raise place.fault(f"{show(word)} is no way to end.") from None
        return AgentAnswer(
            id=self.id.decode(),
            facts=tuple(self.facts.items()),
            interp=self.interp,
            objects=tuple(self.texts[b"object"]),
            observed=tuple((what, value) for what, value in self.observed.items() if value is not None),
            absent=tuple(what for what, value in self.observed.items() if value is None),
            stdout=bytes(self.outputs[b"out"]),
            stderr=bytes(self.outputs[b"err"]),
            driver_stdout=bytes(self.outputs[b"driver-out"]),
            driver_stderr=bytes(self.outputs[b"driver-err"]),
            notes=tuple(self.texts[b"note"]),
            outcome=outcome,
            code=place.decode_number(code, f"the code of {outcome.value}", *OUTCOMES[outcome.value]),
        )


class AgentRefusedError(WireError):
    """The plan is malformed: the agent named the line and exited."""


class AnswerReader:
    """Decodes an agent's output as it arrives. After an error it reads no more: the agent must be restarted."""

    def __init__(self) -> None:
        self._place = Place("the agent's output")
        self._rest = b""
        self._begun = False
        self._draft: _Draft | None = None
        self._broken = False

    def feed(self, data: bytes, nonce: str = "") -> tuple[AgentAnswer, ...]:
        """Decode the next bytes.

        Args:
            data: the bytes that follow those of the last call, split anywhere.
            nonce: of the one request that is answered: its answer must have the nonce, and be the end of what the agent writes. Empty
                for any number of requests without nonces.

        Returns:
            The answers that they complete.

        Raises:
            WireError: the bytes don't follow docs/wire.md; the text names the line. Answers that the same bytes completed before that
                line are lost: pass single lines to keep them.
            AgentRefusedError: the plan is malformed.
        """
        if self._broken:
            raise WireError("The agent's output can't be read after an error.", "Restart the agent.")
        self._broken = True  # until this is done without an error
        answers: list[AgentAnswer] = []
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            draft = self._draft
            self._place.number += 1
            if len(line) > MAX_LINE_BYTES:
                raise self._place.fault("the line is too long.")
            if draft is None:
                self._begin(line)
            elif (answer := draft.decode_line(self._place, line)) is not None:
                if nonce and answers:
                    raise self._place.fault("the agent wrote more than one answer to one trial.", _FORGED)
                if draft.nonce != nonce.encode():
                    raise self._place.fault("the answer does not have the nonce of its request.", _FORGED)
                self._draft = None
                answers.append(answer)
        if len(self._rest) > MAX_LINE_BYTES:
            self._place.number += 1
            raise self._place.fault("the line has no end.")
        if nonce and answers and (self._rest or self._draft is not None):
            raise WireError("The agent's output goes on after its answer.", _FORGED)
        self._broken = False
        return tuple(answers)

    def finish(self) -> None:
        """Check that the output is complete.

        Raises:
            WireError: it ends before the header, or inside a line or an answer.
        """
        if self._rest or self._draft is not None or not self._begun:
            self._place.number += bool(self._rest)
            inside = f" inside the answer to {self._draft.id.decode()}" if self._draft else ""
            raise self._place.fault(f"the agent stopped{inside}.", "It may have been killed, or its connection lost.")

    def _begin(self, line: bytes) -> None:
        """Decode a line between two answers, or before the first."""
        word, _, rest = line.partition(b" ")
        if word == b"error":
            self._refuse(rest)
        if not self._begun:
            if line != AGENT_HEADER:
                raise self._place.fault(f"{show(line)} is not the first line of an agent, '{AGENT_HEADER.decode()}'.")
            self._begun = True
        elif word != b"begin" or not _ID.fullmatch(rest):
            raise self._place.fault(f"{show(line)} begins no answer.")
        else:
            self._draft = _Draft(line, rest)

    def _refuse(self, rest: bytes) -> None:
        number, _, text = rest.partition(b" ")
        at = self._place.decode_number(number, "the line of the plan", 1)
        raise AgentRefusedError(f"The agent refuses line {at} of its plan: {self._place.decode_text(text)}.")


def decode_answers(data: bytes) -> tuple[AgentAnswer, ...]:
    """Decode the whole output of an agent.

    Raises:
        WireError: as `AnswerReader`.
    """
    reader = AnswerReader()
    answers = reader.feed(data)
    reader.finish()
    return answers
