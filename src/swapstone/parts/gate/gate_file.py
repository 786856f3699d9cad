# SPDX-License-Identifier: MIT OR Apache-2.0
"""``swapstone.toml``: what a repository's gate builds, runs and rejects, decoded strictly."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from swapstone.core.model import FrozenStruct, UserError, placeholders_in
from swapstone.core.model.regular_file import TomlError, decode_toml
from swapstone.core.session.option_values import duration_ns
from swapstone.core.session.options import settings_from
from swapstone.core.session.study_file import KEYS, PROGRAM_KEYS, is_part_name, with_options

FILE = "swapstone.toml"
DEFINITION = "definition"
"""The metric of an acceptance of a run that is new, was changed, or is gone."""

UNITS: Mapping[str, str] = {
    **dict.fromkeys(("instructions", "own_code", "kernel", "syscalls", "faults"), "1"),
    **dict.fromkeys(("memory", "size"), "B"),
    "time": "ns",
}
"""The metrics of a gate with their units."""

WALL = "wall"
_ON_WALL = ("time", "size")
"""The metrics on the wall clock: `time` is elapsed time, and is not measured on the virtual one."""

_TERM = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(%|[KMG]iB|B|)", re.ASCII)
_FACTORS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_DATA = re.compile(r"\{data\}((?:/[\w.+-]+)*)", re.ASCII)
_LIMITS = "1%, 2KiB, 0, or 1%|5000000"


class Limit(FrozenStruct, frozen=True, kw_only=True):
    """By how much a row may be larger: the smaller one of both.

    Attributes:
        text: as written.
        share: of the base's value; None for none.
        amount: in the unit of the metric; None for none.
    """

    text: str
    share: float | None = None
    amount: float | None = None

    def of(self, value: float) -> float:
        """Return the largest difference that is allowed, in the unit of the metric, beside a value of the base."""
        shares = [] if self.share is None else [self.share * value]
        return min([*shares, *([] if self.amount is None else [self.amount])])


class RunKeys(FrozenStruct, frozen=True, kw_only=True):
    """A table ``[run.NAME]``. Besides these it has keys of `PROGRAM_KEYS`.

    Attributes:
        command: a program and its arguments. A word that starts with ``./`` is a file of the built tree, ``{data}`` the folder `data`.
        fail: limits that replace the file's.
    """

    command: str
    fail: dict[str, str] = msgspec.field(default_factory=dict)


class Acceptance(FrozenStruct, frozen=True, kw_only=True):
    """A table ``[[accept]]``: a change of a row that is intended.

    Attributes:
        run: its name; of a size, the program's.
        metric: one of `UNITS`, or `DEFINITION`.
        size: up to which difference, in the form of a limit; empty for a definition.
        reason: why, in words.
    """

    run: str
    metric: str
    reason: str
    size: str = ""


class GateFile(FrozenStruct, frozen=True, kw_only=True):
    """The file. Besides these it has keys of `KEYS` for the virtual machine.

    Attributes:
        build: shell command that builds `programs`.
        programs: paths in the built tree.
        paths: patterns of git of the files that decide what is built; empty for all.
        data: folder of the runs' inputs in the repository; empty for none.
        fail: limits by metric.
        run: by name.
        accept: changes that are intended.
    """

    build: str
    programs: tuple[str, ...]
    fail: dict[str, str]
    run: dict[str, RunKeys]
    paths: tuple[str, ...] = ()
    data: str = ""
    accept: tuple[Acceptance, ...] = ()

    @property
    def built_by(self) -> tuple[bytes, ...]:
        """Return what determines the programs beside the sources."""
        return (self.build.encode(), *(each.encode() for each in self.programs))

    def limits(self, run: str) -> dict[str, Limit]:
        """Return the limits of a run by metric; of a name that is no run, the file's."""
        own = self.run[run].fail if run in self.run else {}
        return {name: parse_limit(name, text) for name, text in {**self.fail, **own}.items()}

    def machine(self) -> dict[str, object]:
        """Return the options of the place and of the build that are in the file."""
        return {name: value for name in _OF_FILE if (value := getattr(self, name)) is not msgspec.UNSET}

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that are measured on the file's clock."""
        on_wall = self.machine().get("clock") == WALL
        return _ON_WALL if on_wall else tuple(name for name in UNITS if name != "time")


_OF_RUN = ("input", "env", "timeout", "memory", "ignore_failure", "output_may_differ", "hold", "budget")
_OF_FILE = ("clock", "architecture", "cpu_model", "ns_per_instruction", "build_timeout")
_OPTIONS = {**KEYS, **PROGRAM_KEYS}
_RUN = with_options(RunKeys, {name: _OPTIONS[name] for name in _OF_RUN})
_FILE = with_options(
    GateFile, {name: _OPTIONS[name] for name in _OF_FILE}, ("run", dict[str, dict[str, Any]], msgspec.NODEFAULT)
)
_EXAMPLES = {
    "build": 'build = "make -s -j{jobs}"',
    "programs": 'programs = ["prog"]',
    "paths": 'paths = ["*.c", "*.h", "Makefile"]',
    "data": 'data = "tests/data"',
    "fail": 'fail = { instructions = "1%", syscalls = "0", size = "2KiB" }',
    "run": '[run.small] with command = "./prog {data}/small"',
    "command": 'command = "./prog {data}/small"',
    "accept": '[[accept]] with run = "small", metric = "instructions", size = "3%" and reason = "checks its input"',
    **{name: _OPTIONS[name].example for name in (*_OF_RUN, *_OF_FILE)},
}


def with_keys(text: str) -> str:
    """Return a message with the keys of a run instead of the options of the command line."""
    for name in _OF_RUN:
        text = text.replace(_OPTIONS[name].flags[0], f"the key {name}")
    return text


def parse_limit(metric: str, text: str) -> Limit:
    """Parse a limit such as ``1%``, ``2KiB``, ``0`` or ``1%|5000000``, whose terms are at most one share and one amount.

    Raises:
        ValueError: it has another form, or there is no such metric.
    """
    if metric not in UNITS:
        raise ValueError(f"there is no metric {metric!r}: they are {', '.join(UNITS)}")
    if metric == "time" and not text.endswith("%"):
        raise ValueError(f"{text!r} is no limit of time, which is a share: write 5%")
    found: dict[str, float] = {}
    for term in text.split("|"):
        match = _TERM.fullmatch(term.strip())
        if match is None or (match[2].endswith("B") and UNITS[metric] != "B"):
            raise ValueError(f"{text!r} is no limit of {metric}: write {_LIMITS}")
        kind = "share" if match[2] == "%" else "amount"
        if kind in found:
            raise ValueError(f"{text!r} has two terms of one kind: write {_LIMITS}")
        found[kind] = float(match[1]) / 100 if kind == "share" else float(match[1]) * _FACTORS[match[2]]
    return Limit(text=text, **found)


def data_paths(run: RunKeys) -> tuple[str, ...]:
    """Return the paths below ``{data}`` that a run names, each with a leading slash; an empty one is the folder itself."""
    given = getattr(run, "input", msgspec.UNSET)
    texts = (run.command, "" if given is msgspec.UNSET else given)
    return tuple(dict.fromkeys(match[1] for text in texts for match in _DATA.finditer(text)))


def decode_gate(content: bytes, name: str = FILE) -> GateFile:
    """Decode the file.

    Args:
        content: all of it.
        name: for the error.

    Raises:
        UserError: it is not TOML, a key is unknown or missing, or a value has another form; names the line.
    """
    lines = content.decode(errors="replace").splitlines()
    try:
        table = decode_toml(content)
        file = msgspec.convert(table, _FILE)
    except TomlError as error:
        raise UserError(f"{name} is not TOML: {error}.", "`swapstone docs gate` has all keys.") from error
    except msgspec.ValidationError as error:
        raise _bad(name, lines, str(error)) from error
    runs = {}
    for each, keys in file.run.items():
        try:
            runs[each] = msgspec.convert(keys, _RUN)
        except msgspec.ValidationError as error:
            raise _bad(name, lines, str(error), f"run.{each}") from error
    found: GateFile = msgspec.structs.replace(file, run=runs)
    for where, key, problem in _problems(found):
        raise _bad(name, lines, problem, where, key)
    return found


def _problems(file: GateFile) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with the values, as (table, key, problem)."""
    for key, texts in (("programs", file.programs), ("data", (file.data,) if file.data else ())):
        wrong = (text for text in texts if not _is_below(PurePosixPath(text)))
        yield from (("", key, f"{text!r} is no path below the repository's folder") for text in wrong)
    yield from (("", key, "it is empty") for key in ("build", "programs", "fail", "run") if not getattr(file, key))
    if placeholders_in(file.build) - {"jobs", "flags"}:
        yield "", "build", "its only placeholders are {jobs} and {flags}"
    yield from (("", "fail", problem) for problem in _limit_problems(file, file.fail))
    yield from (("", key, problem) for key, problem in _option_problems(file, _OF_FILE))
    for name, run in file.run.items():
        where = f"run.{name}"
        if not is_part_name(name):
            yield where, name, f"{name!r} is no name of a run: small letters, digits, -, _ and ."
        yield from ((where, "command", problem) for problem in _command_problems(file, run))
        yield from ((where, "fail", problem) for problem in _limit_problems(file, run.fail))
        yield from ((where, key, problem) for key, problem in _option_problems(run, _OF_RUN))
    for each in file.accept:
        if not each.reason.strip():
            yield "accept", "reason", f"the acceptance of {each.run} has no reason"
        sizes = {} if each.metric == DEFINITION else {each.metric: each.size}
        yield from (("accept", "size", problem) for problem in _limit_problems(file, sizes))


def _is_below(path: PurePosixPath) -> bool:
    return not path.is_absolute() and ".." not in path.parts and str(path) != "."


def _command_problems(file: GateFile, run: RunKeys) -> Iterator[str]:
    try:
        words = shlex.split(run.command)
    except ValueError:
        yield "its quotes do not match"
        return
    if not words:
        yield "it is empty"
    if placeholders_in(run.command) - {"data"}:
        yield "its only placeholder is {data}"
    unknown = (word for word in words if word.startswith("./") and word[2:] not in file.programs)
    yield from (f"{word} is not among the programs" for word in unknown)
    if data_paths(run) and not file.data:
        yield "{data} needs the key data"


def _limit_problems(file: GateFile, limits: Mapping[str, str]) -> Iterator[str]:
    for metric, text in limits.items():
        try:
            parse_limit(metric, text)
        except ValueError as error:
            yield str(error)
        else:
            if metric not in (known := file.metrics()):
                yield f"{metric} is not measured on this clock: {', '.join(known)} are"


def _option_problems(keys: object, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        if (value := getattr(keys, name)) is not msgspec.UNSET:
            try:
                settings_from({name: value})
                if name.endswith("timeout"):
                    duration_ns(value)
                if (choices := _OPTIONS[name].choices) and value not in choices:
                    yield name, f"{value!r} is none of {', '.join(choices)}"
            except UserError as error:
                yield name, error.message


def _bad(name: str, lines: list[str], problem: str, table: str = "", key: str = "") -> UserError:
    """Return the error with the line of the key, if it is found: in its table, or anywhere for the file's own keys."""
    text, _, place = problem.partition(" - at `$")
    named = re.search(r"field `([^`]+)`$", text)
    key = key or (named[1] if named else re.split(r"[.\[]", place.rstrip("`").lstrip("."))[0])
    header = re.compile(rf"\s*\[+\s*{re.escape(table)}\s*\]+", re.ASCII) if table else None
    start = next((at for at, line in enumerate(lines) if header and header.match(line)), 0)
    assigned = re.compile(rf"\s*(?:\[+\s*)?(?:run\.)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]") if key else None
    line = next(
        (at for at in range(start, len(lines)) if assigned and assigned.match(lines[at])), start if header else -1
    )
    where = f", line {line + 1}" if line >= 0 else ""
    example = f"Write for example: {_EXAMPLES[key]}. " if key in _EXAMPLES else ""
    return UserError(
        f"{name}{where}: {f'{key}: ' if key and key not in text else ''}{text.rstrip('.')}.",
        f"{example}`swapstone docs gate` has all keys.",
    )
