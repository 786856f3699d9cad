# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pairs of programs whose truth is known by construction, most of them made to mislead a comparison.

Commands name files of the case's folder. `./adversary` is `adversary.c`, whose arguments are its work: `loop:4000` is 4 ms of processor
time on an idle machine. The start of a process takes 0.3 to 1 ms besides, which the ranges of the truths allow for.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.verdict_truth import Bounds, Truth

PLAIN = "elapsed time"

FILE = Path(__file__).with_name("verdict_cases.toml")
"""The pairs, in the fields of `Case`. Bounds are ``[low, high]``, high 0 for no bound; a text file ``NAME.c`` is compiled."""

ALL = "*"
"""Key of the truth of all metrics that are not named."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """Two commands and what is true of them.

    Attributes:
        name: of the case, unique.
        baseline, candidate: command lines.
        names: names of the two commands in the comparison.
        options: of `swapstone compare`, besides names, budget and folder.
        truth: by metric, for each command run after itself on an idle machine. Metrics without a truth are not judged.
        why: the reason, in one sentence.
        margin: in percent.
        seconds: budget.
        data: files of random bytes in the case's folder, KiB by name.
        scripts: text files there, by name.
        copies: further names of the program `adversary`.
        same_work: whether the two commands give the same answer.
        never: verdicts about elapsed time that are wrong here besides those that contradict the truth.
        excusing: kinds of caveats with which a contradiction counts as not stated.
        refused: whether the budget holds no interval, so that the comparison is refused or extended.
        needs_disk: whether the scratch folder must lie on a storage device, not in memory.
        kind: of the statements that the pair misleads to, e.g. ``memory``; `PLAIN` for elapsed time.
        arguments: of `swapstone compare` instead of the two commands; no names are added then.
        beside: a script for sh(1) that runs from the start of the comparison to its end, in the case's folder; $RECORD is the record.
        environment: variables of the caller.
        statuses: right exit statuses with ``--fail-if worse``; none where they follow from the truth.
        expected_words: regular expressions that the answer, or the error where there is no answer, must match.
        excluded_words: regular expressions that no line of the printed report and of the error may match.
    """

    name: str
    baseline: str
    candidate: str
    names: tuple[str, str] = ("base", "cand")
    options: tuple[str, ...] = ()
    truth: Mapping[str, Truth]
    why: str
    margin: float = 2.0
    seconds: int = 6
    data: Mapping[str, int] = dataclasses.field(default_factory=dict)
    scripts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    copies: tuple[str, ...] = ()
    same_work: bool = True
    never: frozenset[str] = frozenset()
    excusing: frozenset[str] = frozenset()
    refused: bool = False
    needs_disk: bool = False
    kind: str = PLAIN
    arguments: tuple[str, ...] = ()
    beside: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    statuses: frozenset[int] = frozenset()
    expected_words: tuple[str, ...] = ()
    excluded_words: tuple[str, ...] = ()

    def truth_of(self, metric: str) -> Truth | None:
        """Return the truth of a metric; None if it is not judged."""
        return self.truth.get(metric, self.truth.get(ALL))

    def truth_text(self, metric: str) -> str:
        """Return the truth of a metric as text."""
        return str(self.truth_of(metric)) if self.same_work else "different work"


def cases_of(text: str) -> tuple[Case, ...]:
    """Return the pairs of a file: its ``case`` tables. One whose ``programs`` has names gets these text files of the table ``programs``.

    Raises:
        KeyError: a program that the file does not have.
        TypeError: for an unknown field, or a missing one.
    """
    content = tomllib.loads(text)
    cases = []
    for fields in content.get("case", ()):
        scripts = {name: content["programs"][name] for name in fields.pop("programs", ())}
        cases.append(case_of({**fields, "scripts": {**scripts, **fields.get("scripts", {})}}))
    return tuple(cases)


def case_of(fields: Mapping[str, Any]) -> Case:
    """Return a pair of the file.

    Raises:
        TypeError: for an unknown field, or a missing one.
    """
    changed = {
        "truth": {metric: truth_of(given) for metric, given in fields.get("truth", {}).items()},
        **{name: tuple(fields[name]) for name in _TUPLES & fields.keys()},
        **{name: frozenset(fields[name]) for name in _SETS & fields.keys()},
    }
    return Case(**{**fields, **changed})


_TUPLES = frozenset({"options", "copies", "arguments", "expected_words", "excluded_words", "names"})
_SETS = frozenset({"never", "excusing", "statuses"})


def truth_of(given: Mapping[str, list[float]] | list[float]) -> Truth:
    """Return a truth: the range of median and mean, or a table with ``median`` and ``mean``.

    A range ``[1, 1]`` is the null hypothesis itself. With ``size`` a stated interval must meet the range.
    """
    if isinstance(given, list):
        return Truth(_bounds(given), _bounds(given))
    return Truth(_bounds(given["median"]), _bounds(given.get("mean", given["median"])), bool(given.get("size", False)))


def _bounds(pair: list[float]) -> Bounds:
    low, high = pair
    return Bounds(low, high or math.inf)


def planted() -> Iterator[Case]:
    """Yield 100 pairs whose CPU time differs by 1, 2 or 5 %, and 50 whose memory does by 2, 5 or 10 %, every other way round."""
    for number in range(150):
        of_cpu = number < 100
        percent = ((1, 2, 5) if of_cpu else (2, 5, 10))[number % 3]
        kind, amount = ("cpu", 5000 + 100 * number) if of_cpu else ("memory", 4096 * (1 + number % 8))
        work = "loop:{}" if of_cpu else "touch:{}:1 loop:2000"
        plain, more = (f"./adversary {work.format(each)}" for each in (amount, amount * (100 + percent) // 100))
        # The start of a process takes a part of both.
        ratio = Bounds(1 + 0.006 * percent, 1 + 0.0105 * percent)
        truth, commands = Truth(ratio, ratio), (plain, more)
        if number % 2:
            truth, commands = truth.inverse(), (more, plain)
        yield Case(
            name=f"planted-{kind}-{percent}%-{number}",
            baseline=commands[0],
            candidate=commands[1],
            truth=dict.fromkeys(("wall", "cpu") if of_cpu else ("maxrss",), truth),
            why=f"One does {percent} % more.",
            margin=0.5,
            kind=f"planted {kind}",
        )


CASES = (*cases_of(FILE.read_text()), *planted())
