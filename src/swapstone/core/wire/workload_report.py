# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report that a native workload prints (docs/wire.md, section 3)."""

from __future__ import annotations

import msgspec

from swapstone.core.model import FrozenStruct, WireError
from swapstone.core.wire.protocol_text import MAX_NUMBER, Place, encode_text, show
from swapstone.core.wire.protocol_words import WORKLOAD_HEADER as _HEADER

MAX_PASSES = 10_000_000

_UNCOUNTED = b"-"
_PASS_FIELDS = (
    ("wall_ns", "the wall time of pass {}", 1),
    ("cpu_ns", "the CPU time of pass {}", 0),
    ("run_delay_ns", "the run-queue delay of pass {}", 0),
    ("minflt", "the count of minor faults of pass {}", 0),
    ("majflt", "the count of major faults of pass {}", 0),
    ("nvcsw", "the count of voluntary switches of pass {}", 0),
    ("nivcsw", "the count of involuntary switches of pass {}", 0),
)
_MEMORY_FIELDS = (
    ("virt_bytes", "the virtual memory", 0),
    ("res_bytes", "the resident memory", 0),
    ("dirty_bytes", "the dirty memory", 0),
)


class Pass(FrozenStruct, frozen=True, kw_only=True):
    """The measurements of one pass.

    Attributes:
        wall_ns: elapsed time, at least 1.
        cpu_ns: processor time of the process and the children it waited for.
        run_delay_ns: time on the run queue; None if the kernel does not count it.
        minflt, majflt: page faults.
        nvcsw, nivcsw: voluntary and involuntary context switches.
    """

    wall_ns: int
    cpu_ns: int
    run_delay_ns: int | None
    minflt: int
    majflt: int
    nvcsw: int
    nivcsw: int


class Memory(FrozenStruct, frozen=True, kw_only=True):
    """Anonymous memory at the end of the last pass, without the stack, in bytes: Size, Rss, Private_Dirty of smaps."""

    virt_bytes: int
    res_bytes: int
    dirty_bytes: int


class WorkloadReport(FrozenStruct, frozen=True, kw_only=True):
    """A workload's report.

    Attributes:
        name: the workload's name; empty only beside an `error`.
        ops: operations in one pass; 0 only beside an `error`.
        passes: one for each pass, in order.
        memory: at the end of the last pass; None only beside an `error`.
        malloc: the file that contains the malloc of that process; empty if no file does.
        mapped: files mapped in the process that ran the last pass.
        check: checksum of the work; empty if there is none.
        error: why the work failed; empty if it did not. With an error, no other field is a measurement.
    """

    name: str = ""
    ops: int = 0
    passes: tuple[Pass, ...] = ()
    memory: Memory | None = None
    malloc: str = ""
    mapped: tuple[str, ...] = ()
    check: str = ""
    error: str = ""


def encode_workload_report(report: WorkloadReport) -> bytes:
    """Return a report as a workload prints it. The fake target uses it.

    Raises:
        WireError: a text can't be encoded.
    """
    lines = [_HEADER]
    if report.name:
        lines.append(b"name " + encode_text(report.name))
    if report.error:
        return b"\n".join([*lines, b"error " + encode_text(report.error), b"end", b""])
    lines += [b"ops %d" % report.ops, b"passes %d" % len(report.passes)]
    for one in report.passes:
        lines.append(b"pass " + b" ".join(_pass_token(one, field) for field, _, _ in _PASS_FIELDS))
    if report.memory is not None:
        lines.append(b"memory " + b" ".join(b"%d" % getattr(report.memory, field) for field, _, _ in _MEMORY_FIELDS))
    lines.append(b"malloc " + encode_text(report.malloc))
    lines += [b"mapped " + encode_text(path) for path in report.mapped]
    if report.check:
        lines.append(b"check " + encode_text(report.check))
    return b"\n".join([*lines, b"end", b""])


def _pass_token(one: Pass, field: str) -> bytes:
    value = getattr(one, field)
    return _UNCOUNTED if value is None else b"%d" % value


class _FailedError(Exception):
    """A report has a line ``error``; the text is the reason."""


class _Reader:
    """Reads the lines of a report in their fixed order."""

    def __init__(self, data: bytes) -> None:
        self.lines = data.split(b"\n")
        self.whole = not self.lines.pop()  # what follows the last newline must be nothing
        self.place = Place("the workload's report")
        self.name, self.ops = "", 0  # as far as they were read
        self.passes: list[Pass] = []

    def peek(self) -> bytes:
        """Return the first word of the next line; empty at the end.

        Raises:
            _FailedError: the next line is ``error``, which may be there instead of any other.
        """
        line = self.lines[self.place.number] if self.place.number < len(self.lines) else b""
        word, space, rest = line.partition(b" ")
        if word != b"error":
            return word
        self.place.number += 1
        if not space:
            raise self.place.fault(f"it should begin with 'error' and is {show(line)}.")
        if not (error := self.place.decode_text(rest)):
            raise self.place.fault("the error is empty.")
        raise _FailedError(error)

    def next(self) -> bytes:
        """Return the next line."""
        if self.place.number >= len(self.lines):
            raise self.place.fault(
                "the report stops here, without an 'end'.", "The workload was killed or its output truncated."
            )
        self.place.number += 1
        return self.lines[self.place.number - 1]

    def rest_of(self, word: bytes) -> bytes:
        """Return what follows `word` on the next line."""
        self.peek()
        line = self.next()
        found, space, rest = line.partition(b" ")
        if found != word or not space:
            raise self.place.fault(f"it should begin with '{word.decode()}' and is {show(line)}.")
        return rest

    def text(self, word: bytes) -> str:
        return self.place.decode_text(self.rest_of(word))

    def numbers(self, word: bytes, fields: tuple[tuple[str, str, int], ...], index: int = 0) -> dict[str, int | None]:
        """Return the numbers of the next line by their fields; None for one that is not counted.

        Args:
            word: with which the line begins.
            fields: of the line.
            index: number of the pass.
        """
        tokens = self.rest_of(word).split(b" ")
        if len(tokens) != len(fields):
            raise self.place.fault(f"'{word.decode()}' has {len(tokens)} numbers, not {len(fields)}.")
        return {
            field: None
            if field == "run_delay_ns" and token == _UNCOUNTED
            else self.place.decode_number(token, name.format(index), low)
            for (field, name, low), token in zip(fields, tokens, strict=True)
        }

    def number(self, word: bytes, name: str, low: int, high: int) -> int:
        return self.place.decode_number(self.rest_of(word), name, low, high)


def _read_body(reader: _Reader) -> WorkloadReport:
    """Read from the line after the header up to the ``end``.

    Raises:
        _FailedError: the report has a line ``error``.
    """
    reader.name = reader.text(b"name")
    if not reader.name:
        raise reader.place.fault("the name is empty.")
    reader.ops = reader.number(b"ops", "the number of operations", 1, MAX_NUMBER)
    count = reader.number(b"passes", "the number of passes", 1, MAX_PASSES)
    for index in range(1, count + 1):
        if reader.peek() != b"pass":
            reader.next()
            raise reader.place.fault(f"the report has {index - 1} of {count} passes.", "The workload stopped early.")
        reader.passes.append(msgspec.convert(reader.numbers(b"pass", _PASS_FIELDS, index), Pass))
    memory = msgspec.convert(reader.numbers(b"memory", _MEMORY_FIELDS), Memory)
    malloc = reader.text(b"malloc")
    mapped: list[str] = []
    while reader.peek() == b"mapped":
        mapped.append(reader.text(b"mapped"))
    check = reader.text(b"check") if reader.peek() == b"check" else ""
    reader.peek()
    return WorkloadReport(
        name=reader.name,
        ops=reader.ops,
        passes=tuple(reader.passes),
        memory=memory,
        malloc=malloc,
        mapped=tuple(mapped),
        check=check,
    )


def decode_workload_report(data: bytes) -> WorkloadReport:
    """Decode the output of a native workload.

    Args:
        data: its whole standard output.

    Returns:
        The report; if its `error` is set, the work failed.

    Raises:
        WireError: the output is empty or not a complete report; the text names the line and the reason.
    """
    if not data:
        raise WireError(
            "The workload printed nothing.", "It should print its report; see `swapstone docs wire`, section 3."
        )
    reader = _Reader(data)
    if not reader.lines or reader.next() != _HEADER:
        first = show(data.partition(b"\n")[0])
        raise Place(reader.place.what, 1).fault(f"{first} is not '{_HEADER.decode()}'.", "Is it a native workload?")
    try:
        report = _read_body(reader)
    except _FailedError as error:
        report = WorkloadReport(name=reader.name, ops=reader.ops, passes=tuple(reader.passes), error=str(error))
    line = reader.next()
    if line != b"end":
        raise reader.place.fault(f"it should be 'end' and is {show(line)}.")
    if reader.place.number < len(reader.lines) or not reader.whole:
        raise reader.place.fault("the workload printed more after its 'end'.")
    return report
