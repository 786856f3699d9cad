# SPDX-License-Identifier: MIT OR Apache-2.0
"""The format of named figures and series: docs/wire.md, section 4."""

from __future__ import annotations

import re
import zlib

from swapstone.core.model import FrozenStruct, WireError

MAX_LINE_BYTES = 1 << 16

_HEADER = b"swapstone-figures 1"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_SEEN = re.compile(r"[!-~]{1,512}(?: [!-~]{1,64}){0,7}", re.ASCII)
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,9})?", re.ASCII)
_END = re.compile(rb"end ([1-9][0-9]{0,8}) ([0-9a-f]{8})", re.ASCII)


class NamedFigures(FrozenStruct, frozen=True, kw_only=True):
    """The output of a program.

    Attributes:
        name: of the program.
        figures: pairs (name, value), in the order of the output; None for a figure that could not be measured.
        series: pairs (name, values), in the order of the output.
        seen: pairs (name, text), observations of the measured process, in the order of the output.
    """

    name: str
    figures: tuple[tuple[str, float | None], ...]
    series: tuple[tuple[str, tuple[float, ...]], ...]
    seen: tuple[tuple[str, str], ...] = ()


def decode_named_figures(output: bytes) -> NamedFigures:
    """Decode the output of a program.

    Args:
        output: all of its standard output.

    Raises:
        WireError: the output is cut off or has another format; the message names the line.
    """
    lines = _checked(output)
    name = lines[1].removeprefix("name ")
    if not lines[1].startswith("name ") or not _NAME.fullmatch(name):
        raise _fault(2, f"{lines[1][:60]!r} is not the name of the program.")
    figures: list[tuple[str, float | None]] = []
    series: list[tuple[str, tuple[float, ...]]] = []
    seen: set[str] = set()
    sights = _sights(lines)
    for number, line in enumerate(lines[2 + len(sights) :], start=3 + len(sights)):
        word, *rest = line.split(" ")
        if word not in {"figure", "series"} or len(rest) < 2 or not _NAME.fullmatch(rest[0]):
            raise _fault(number, f"{line[:60]!r} is neither a figure nor a series.")
        if rest[0] in seen:
            raise _fault(number, f"{rest[0]} comes a second time.")
        seen.add(rest[0])
        if word == "series":
            series.append((rest[0], _series(number, rest)))
        elif series or len(rest) != 2:
            raise _fault(number, f"{line[:60]!r} is no figure, or comes after a series.")
        else:
            figures.append((rest[0], None if rest[1] == "-" else _number(number, rest[1])))
    if len({len(values) for _, values in series}) > 1:
        raise WireError("The series that the program printed are not equally long.")
    return NamedFigures(name=name, figures=tuple(figures), series=tuple(series), seen=sights)


def _checked(output: bytes) -> list[str]:
    """Return the lines before the last one, which holds their number and checksum.

    Raises:
        WireError: number or checksum are wrong, or a byte is not ASCII.
    """
    *lines, rest = output.split(b"\n")
    if not lines or lines[0] != _HEADER:
        raise _fault(1, f"it should be {_HEADER.decode()!r}.")
    if too_long := next((n for n, line in enumerate(lines, start=1) if len(line) > MAX_LINE_BYTES), 0):
        raise _fault(too_long, f"it is longer than {MAX_LINE_BYTES} bytes.")
    found = _END.fullmatch(lines[-1])
    if rest or not found:
        raise _fault(len(lines) + bool(rest), "it must be the last, with the number of lines and their checksum.")
    if int(found[1]) != len(lines) - 1:
        raise _fault(len(lines), f"it counts {int(found[1])} lines, and there were {len(lines) - 1}.")
    summed = zlib.crc32(output[: output.rindex(b" ")])
    if f"{summed:08x}".encode() != found[2]:
        raise _fault(len(lines), f"the checksum is {found[2].decode()}, and that of the lines is {summed:08x}.")
    if len(lines) < 3:
        raise _fault(len(lines), "it has no name.")
    try:
        return [line.decode("ascii") for line in lines[:-1]]
    except UnicodeDecodeError as error:
        raise WireError("What the program printed is not ASCII.") from error


def _sights(lines: list[str]) -> tuple[tuple[str, str], ...]:
    """Return the observations in the lines after the program's name."""
    sights: dict[str, str] = {}
    for number, line in enumerate(lines[2:], start=3):
        word, _, rest = line.partition(" ")
        if word != "seen":
            break
        name, _, text = rest.partition(" ")
        if not _NAME.fullmatch(name) or not _SEEN.fullmatch(text):
            raise _fault(number, f"{line[:60]!r} is not an observation.")
        if name in sights:
            raise _fault(number, f"{name} comes a second time.")
        sights[name] = text
    return tuple(sights.items())


def _series(number: int, rest: list[str]) -> tuple[float, ...]:
    values = tuple(_number(number, text) for text in rest[2:])
    if rest[1] != str(len(values)):
        raise _fault(number, f"{rest[0]} should have {rest[1][:20]} values, and has {len(values)}.")
    return values


def _number(line: int, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise _fault(line, f"{text[:40]!r} is not a number of this format.")
    return float(text)


def _fault(line: int, text: str) -> WireError:
    return WireError(f"Line {line} of what the program printed: {text}")
