# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which flags of a compiler account for the difference between two levels of optimization, and how much is left to none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.model import FrozenStruct, refuse
from swapstone.core.model.number_text import exact_effect
from swapstone.core.model.safe_text import safe
from swapstone.core.report.document import Commands, Document, Section
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions
from swapstone.parts.bisect.measurer import Measurer, measuring
from swapstone.parts.bisect.sets import Effect, elements_with_effect, plus
from swapstone.parts.build.artifacts.build_command import build_environment, run_tool
from swapstone.parts.gate.gate_result import Row
from swapstone.parts.gate.points import Point, Points, every_row
from swapstone.parts.gate.revisions import Repository
from swapstone.parts.gate.trusted import require_trust

_LEVEL = re.compile(r"-O(?:[0-3sgz]|fast)", re.ASCII)
_LINE = re.compile(r"^  (-f[a-z0-9-]+)(=?)\S*[ \t]+(\S+)$", re.ASCII | re.MULTILINE)
_METRICS = ("instructions", "size")
_EXAMPLE = "For example: swapstone bisect --flags='-O1..-O2'"
_HINT = "Write it into `build` of swapstone.toml, for example: make CFLAGS='{flags} -g'"


class FlagEffect(FrozenStruct, frozen=True, kw_only=True):
    """What a flag changes when it is added alone.

    Attributes:
        flag: of the compiler; a text in brackets for what is left.
        differences: in the order of `FlagsResult.rows`, in the unit of each.
    """

    flag: str
    differences: tuple[float, ...]


class FlagsResult(FrozenStruct, frozen=True, kw_only=True):
    """The shares of flags.

    Attributes:
        answer: one sentence.
        first, last: the levels.
        flags: number of flags in which they differ, as the compiler lists them.
        rows: instructions of each run and size of each program, with the first and the last level as base and head.
        effects: of the flags that change something, the largest first; then what their interactions and what no flag accounts for.
        builds: number of builds that were made.
        repeat: the command.
    """

    answer: str
    first: str
    last: str
    flags: int
    rows: tuple[Row, ...]
    effects: tuple[FlagEffect, ...]
    builds: int
    repeat: str


def flags_between(first: str, last: str) -> tuple[str, ...]:
    """Return the flags that a level of optimization of `cc` has and another has not, or has with another value.

    Raises:
        UserError: a level has another form, or the compiler lists no flags.
    """
    refuse(
        *(
            (not _LEVEL.fullmatch(level), f"'{safe(level)}' is no level such as -O2.", _EXAMPLE)
            for level in (first, last)
        )
    )
    found = []
    for level in (first, last):
        command = ("cc", level, "-Q", "--help=optimizers")
        text = run_tool(command, "Asking cc for its flags", hint="GCC lists them.", environment=build_environment())
        found.append({match[1] + match[2]: match[3] for match in _LINE.finditer(text)})
    before, after = found
    refuse((not after, "cc lists no flags.", "GCC does; clang has none."))
    changed = [(name, value) for name, value in after.items() if before.get(name) != value]
    return tuple(
        f"{name}{value}" if name.endswith("=") else f"-fno-{name[2:]}" if value == "[disabled]" else name
        for name, value in changed
    )


def run_flags(
    folder: Path,
    text: str,
    *,
    least: float,
    trust: bool,
    options: RunOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> FlagsResult:
    """Measure the shares of flags, of HEAD.

    Args:
        folder: in the working tree.
        text: ``-O1..-O2``.
        least: the smallest share of a row that counts, as a ratio.
        trust: whether the user accepts that the repository's code is built and run.
        options: how runs are made.
        progress: receives events.

    Raises:
        UntrustedRecordError: the repository's code may not be built and run.
        UserError: the text is wrong, a build fails, or flags do not reach it.
    """
    first, _, last = text.partition("..")
    flags = flags_between(first, last)
    repository = Repository(folder)
    points = Points(repository, repository.commit("HEAD"))
    points.require_exact()
    plan = (f"build HEAD with flags of {first} and {last}, by /bin/sh -c: {points.file.build}",)
    require_trust(repository, "measure flags", lambda: plan, trust=trust)
    with measuring(points, options, progress) as measurer:
        return _Flags(points, measurer, first, last, least).result(flags)


class _Flags:
    """The effects of flags, measured."""

    def __init__(self, points: Points, measurer: Measurer, first: str, last: str, least: float) -> None:
        self._points, self._measurer, self._first, self._last, self._least = points, measurer, first, last, least
        self._base = self._point(first)

    def _point(self, flags: str) -> Point:
        point = self._measurer.point(self._points.commit, f"build {self._measurer.built + 1}: {flags[:60]}", flags)
        refuse((point.error, f"With {flags[:60]}: {point.error}.", "`swapstone gate --dry-run` prints the build."))
        return point

    def _rows(self, point: Point) -> list[Row]:
        return [row for row in every_row(self._base, point) if row.metric in _METRICS]

    def _effect(self, flags: Sequence[str]) -> Effect:
        return tuple(row.difference for row in self._rows(self._point(" ".join((self._first, *flags)))))

    def result(self, flags: Sequence[str]) -> FlagsResult:
        last = self._point(self._last)
        rows = self._rows(last)
        nothing = not any(row.difference for row in rows)
        refuse((nothing, "The flags change nothing, or do not reach the build.", _HINT))
        bounds = [self._least * row.base for row in rows]
        found = elements_with_effect(
            flags,
            self._effect,
            lambda effect: any(abs(each) > bound for each, bound in zip(effect, bounds, strict=True)),
        )
        order = sorted(found, key=lambda flag: [-each for each in _largest(found[flag], rows)])
        whole, together = tuple(row.difference for row in rows), self._effect(flags)
        alone: Effect = (0.0,) * len(rows)
        for effect in found.values():
            alone = plus(alone, effect)
        effects = {
            **{flag: found[flag] for flag in order},
            "(what they do together)": plus(together, alone, -1),
            "(what no flag explains)": plus(whole, together, -1),
        }
        made = tuple(FlagEffect(flag=flag, differences=effect) for flag, effect in effects.items())
        share = exact_effect(rows[0].ratio) if rows[0].ratio else ""
        named = ", ".join(f"{each.flag} {_share(each.differences[0], rows[0])}" for each in made[: min(3, len(order))])
        beyond, rest = (_share(each.differences[0], rows[0]) for each in made[-2:])
        return FlagsResult(
            answer=f"{len(found)} of {len(flags)} flags change something alone, for {self._last} against {self._first} "
            f"({rows[0].run}: {rows[0].metric} {share}): {named or 'none'}; together they do {beyond} beyond their sum, "
            f"and no flag explains {rest}.",
            first=self._first,
            last=self._last,
            flags=len(flags),
            rows=tuple(rows),
            effects=made,
            builds=self._measurer.built,
            repeat=f"swapstone bisect --flags='{self._first}..{self._last}'",
        )


def _largest(effect: Effect, rows: Sequence[Row]) -> list[float]:
    """Return the largest share of an effect in each of `_METRICS`."""
    shares = [(row.metric, abs(each) / row.base) for each, row in zip(effect, rows, strict=True)]
    return [max((share for metric, share in shares if metric == name), default=0.0) for name in _METRICS]


def _share(difference: float, row: Row) -> str:
    return exact_effect(1 + difference / row.base) if difference and row.base else "0"


def flags_document(result: FlagsResult) -> Document:
    """Return the document: the sentence, and a table of flags with their shares of each row."""
    head = ("flag", *(f"{row.run} {row.metric}" for row in result.rows))
    lines = [
        (each.flag, *map(_share, each.differences, result.rows))
        for each in (
            *result.effects,
            FlagEffect(flag=result.last, differences=tuple(row.difference for row in result.rows)),
        )
    ]
    return Document(
        title=f"{result.first}..{result.last}",
        answer=result.answer,
        lead=(f"{result.builds} builds were made. Each flag is added alone to {result.first}.",),
        sections=(Section(title="Flags", blocks=(text_table("Flags", head, lines),)),),
        closing=(Section(title="What to do next", blocks=(Commands(commands=(("repeat", result.repeat),)),)),),
    )


def flags_json(result: FlagsResult) -> str:
    """Return the result as JSON of the format ``swapstone-flags-result``."""
    return printed_json("flags-result", **{name: getattr(result, name) for name in result.__struct_fields__})
