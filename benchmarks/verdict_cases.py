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

from benchmarks.verdict_truth import IDENTICAL, PERSISTING, SAME, UNKNOWN, Bounds, Truth

TIMES = ("wall", "cpu")

PLAIN = "elapsed time"

FILE = Path(__file__).with_name("verdict_cases.toml")
"""Pairs of further kinds, in the fields of `Case`. Bounds are ``[low, high]``, high 0 for no bound; a text file ``NAME.c`` is compiled."""

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


def exchanged(case: Case, name: str, why: str) -> Case:
    """Return the case with baseline and candidate exchanged, under the same names in the same order."""
    return dataclasses.replace(
        case,
        name=name,
        baseline=case.candidate,
        candidate=case.baseline,
        truth={metric: truth.inverse() for metric, truth in case.truth.items()},
        why=why,
    )


def renamed(case: Case, name: str, names: tuple[str, str], why: str) -> Case:
    """Return the case with other names of the commands: random orders are a function of names too."""
    return dataclasses.replace(case, name=name, names=names, why=why)


def times(median: Bounds, mean: Bounds | None = None, *, size: bool = False) -> Mapping[str, Truth]:
    """Return the same truth for elapsed time and CPU time; the mean as the median unless it is given."""
    truth = Truth(median, mean or median, size)
    return dict.fromkeys(TIMES, truth)


def wall(median: Bounds, mean: Bounds | None = None, *, size: bool = False) -> Mapping[str, Truth]:
    """Return a truth of elapsed time alone."""
    return {"wall": Truth(median, mean or median, size)}


SLOWER = Bounds(1.05, math.inf)
NOTHING_DIFFERS: Mapping[str, Truth] = {ALL: IDENTICAL}
LOOP = "./adversary loop:4000"
NO_INVALID = frozenset({"invalid", "unavailable"})
WORK = f"{LOOP} print:sum=42"

_DD = Case(
    name="dd-nocache",
    baseline="dd if=data.bin of=/dev/null bs=1M status=none",
    candidate="dd if=data.bin of=/dev/null bs=1M iflag=nocache status=none",
    truth=wall(Bounds(1.1, math.inf)),
    why="After itself the candidate reads from the device, and the baseline from the page cache.",
    data={"data.bin": 16384},
    needs_disk=True,
)

_EVICT = Case(
    name="evict-after-reading",
    baseline="./adversary read:data.bin print:read",
    candidate="./adversary read:data.bin print:read evict:data.bin",
    truth=wall(Bounds(1.2, math.inf)),
    why="The candidate drops the file's pages at its end, so that the next run reads from the device, whichever it is.",
    data={"data.bin": 16384},
    needs_disk=True,
)

_DEBT = Case(
    name="leaves-work",
    baseline="./adversary loop:3000 pay:debt:3000 leave:debt:0",
    candidate="./adversary loop:3000 pay:debt:3000 leave:debt:1",
    truth=times(Bounds(1.3, 2.0)),
    why="The candidate leaves 3 ms of work to the next run; after itself it pays them always.",
)

_MODE5 = Case(
    name="slow-mode-10x-5%",
    baseline=LOOP,
    candidate=f"{LOOP} mode:50:36000",
    truth=times(SAME, Bounds(1.1, 1.7)),
    why="5 % of the candidate's runs take ten times as long.",
    seconds=12,
)

_CACHE = Case(
    name="cold-after-the-other",
    baseline="./adversary loop:4000 streak:last:base:0:0",
    candidate="./adversary loop:4000 streak:last:cand:1:2000",
    truth=times(SAME),
    why="The candidate is slower after the baseline alone; after itself it is as fast.",
)

_DIFFERENT = Case(
    name="wrong-answer",
    baseline="./adversary loop:4000 print:42",
    candidate="./adversary loop:2000 print:41",
    truth={ALL: UNKNOWN},
    why="Half the work gives another answer.",
    same_work=False,
)

_PERSISTS = Case(
    name="cache-file",
    baseline="./adversary loop:3000 unless:cache:4000",
    candidate="./adversary loop:3000 unless:cache:4000 text:cache:x",
    truth=times(Bounds(0.3, 0.8)),
    why="Alone the baseline never has the cache file; after the candidate's first run both have it.",
    excusing=PERSISTING,
)

_PAIRS: tuple[Case, ...] = (
    # what one run leaves to the next
    _DD,
    exchanged(_DD, "dd-nocache-baseline", "The same with the two commands exchanged."),
    renamed(_DD, "dd-nocache-names", ("z", "a"), "The same under names in the other order."),
    _EVICT,
    exchanged(_EVICT, "evict-in-the-baseline", "The same with the two commands exchanged."),
    renamed(_EVICT, "evict-names", ("keep", "evict"), "The same under other names."),
    Case(
        name="evicts-its-own-file",
        baseline="./adversary read:a.bin print:read",
        candidate="./adversary read:b.bin print:read evict:b.bin",
        truth=wall(Bounds(1.2, math.inf)),
        why="Each side has its own file; the candidate drops its pages before it ends, so each of its runs is cold.",
        data={"a.bin": 8192, "b.bin": 8192},
        needs_disk=True,
    ),
    _DEBT,
    exchanged(_DEBT, "leaves-work-baseline", "The same with the two commands exchanged."),
    _CACHE,
    exchanged(_CACHE, "cold-after-the-other-baseline", "The same with the two commands exchanged."),
    Case(
        name="cold-after-the-other-both",
        baseline="./adversary loop:3000 streak:last:base:1:3000",
        candidate="./adversary loop:4500 streak:last:cand:1:3000",
        truth=times(Bounds(1.2, 1.5)),
        why="Both are slower after the other by the same time; after itself the candidate does 1.5 times the work.",
    ),
    Case(
        name="cold-for-two-runs",
        baseline="./adversary loop:4000 streak:last:base:0:0",
        candidate="./adversary loop:4000 streak:last:cand:2:2000",
        truth=times(SAME),
        why="The candidate is slower in the first two runs after the baseline: one discarded run is not enough.",
    ),
    Case(
        name="cold-for-six-runs",
        baseline="./adversary loop:4000 streak:last:base:0:0",
        candidate="./adversary loop:4000 streak:last:cand:6:2000",
        truth=times(SAME),
        why="The candidate is slower in the first six runs after the baseline, so that a discarded run shows nothing.",
        excusing=PERSISTING,
    ),
    _PERSISTS,
    exchanged(_PERSISTS, "cache-file-baseline", "The same with the two commands exchanged."),
    Case(
        name="warm-up-of-five-runs",
        baseline=LOOP,
        candidate=f"{LOOP} warm:runs:5:8000",
        truth=times(SAME, Bounds(0.9, 1.3)),
        why="The candidate is slow in its first five runs ever.",
        excusing=PERSISTING,
    ),
    Case(
        name="grows-a-file-that-both-read",
        baseline="./adversary loop:1000 append:log:32768 read:log",
        candidate="./adversary loop:1000 append:log:32768 read:log ignored:x",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="Both append to one file and read it: every run is slower than the one before, on either side.",
        excusing=PERSISTING,
    ),
    Case(
        name="slow-in-every-second-run",
        baseline="./adversary loop:4000 parity:runs:4000",
        candidate="./adversary loop:4000 parity:runs:4000 ignored:x",
        truth=dict.fromkeys(TIMES, IDENTICAL),
        why="A shared counter makes every second run slow, on either side.",
    ),
    Case(
        name="candidate-slow-in-every-second-run",
        baseline=LOOP,
        candidate=f"{LOOP} parity:runs:4000",
        truth=times(Bounds(1.0, 2.0), Bounds(1.2, 1.6)),
        why="The candidate's own counter makes every second of its runs slow: in blocks of two runs, always the same ones.",
        excusing=PERSISTING,
    ),
    Case(
        name="dirty-pages",
        baseline=LOOP,
        candidate=f"{LOOP} write:out.bin:4096",
        truth=wall(SLOWER),
        why="The candidate writes 4 MB without a sync; their write-back falls into later runs of either side.",
        needs_disk=True,
    ),
    Case(
        name="dirty-pages-on-both-sides",
        baseline="./adversary loop:2000 write:a.bin:2048",
        candidate="./adversary loop:2000 write:b.bin:2048",
        truth=wall(SAME),
        why="Both write as much, each to its own file.",
        needs_disk=True,
    ),
    # nothing differs
    Case(
        name="identical",
        baseline=LOOP,
        candidate=f"{LOOP} ignored:x",
        truth=NOTHING_DIFFERS,
        why="An argument that is ignored.",
        seconds=12,
    ),
    Case(
        name="identical-files-two-names",
        baseline=WORK,
        candidate="./a-copy-of-the-same-program-with-a-long-name loop:4000 print:sum=42",
        truth=NOTHING_DIFFERS,
        why="The same file under a long name: argv[0] has another length.",
        copies=("a-copy-of-the-same-program-with-a-long-name",),
    ),
    Case(
        name="long-argument",
        baseline=LOOP,
        candidate=f"{LOOP} ignored:{'x' * 2000}",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="An argument of 2,000 bytes that is ignored moves the stack.",
    ),
    Case(
        name="large-environment",
        baseline=LOOP,
        candidate=f"PADDING={'x' * 3000} {LOOP}",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="A variable of 3,000 bytes that nothing reads moves the stack.",
    ),
    Case(
        name="identical-and-tiny",
        baseline="./adversary",
        candidate="./adversary ignored:x",
        truth=NOTHING_DIFFERS,
        why="The start of a process alone.",
    ),
    Case(
        name="identical-heavy-tail",
        baseline="./adversary loop:2000 heavy:400:100000",
        candidate="./adversary loop:2000 heavy:400:100000 ignored:x",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="Both have the same Pareto noise of shape 1, up to 50 times the median.",
        seconds=8,
    ),
    Case(
        name="identical-two-modes",
        baseline="./adversary loop:3000 mode:500:3000",
        candidate="./adversary loop:3000 mode:500:3000 ignored:x",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="Half of the runs take twice as long, on either side.",
    ),
    Case(
        name="identical-slow-periods",
        baseline="./adversary loop:3000 periodic:1000:300:6000",
        candidate="./adversary loop:3000 periodic:1000:300:6000 ignored:x",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="Both are three times as slow in 0.3 s of each second.",
    ),
    Case(
        name="identical-sleep",
        baseline="./adversary sleep:5000",
        candidate="./adversary sleep:5000 ignored:x",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="Hardly any processor time, which is measured with a large relative error.",
    ),
    Case(
        name="identical-python",
        baseline="python3 -I -S script.py",
        candidate="python3 -I -S script.py ignored",
        truth={"wall": IDENTICAL, "cpu": IDENTICAL},
        why="One Python script, whose hashes are random in each run.",
        scripts={"script.py": "words = {str(i) for i in range(2000)}\nprint(len(words))\n"},
        seconds=8,
    ),
    # rare slow runs
    _MODE5,
    exchanged(_MODE5, "slow-mode-10x-5%-baseline", "The same with the two commands exchanged."),
    Case(
        name="slow-mode-2x-5%",
        baseline=LOOP,
        candidate=f"{LOOP} mode:50:4000",
        truth=times(SAME, Bounds(1.02, 1.08)),
        why="5 % of the candidate's runs take twice as long: 4 % of the mean.",
        seconds=12,
    ),
    Case(
        name="slow-mode-10x-10%",
        baseline="./adversary loop:3000",
        candidate="./adversary loop:3000 mode:100:27000",
        truth=times(SAME, Bounds(1.3, 2.1)),
        why="10 % of the candidate's runs take ten times as long; the medians are equal.",
        seconds=10,
    ),
    Case(
        name="slow-mode-10x-2%",
        baseline="./adversary loop:3000",
        candidate="./adversary loop:3000 mode:20:27000",
        truth=times(SAME, Bounds(1.03, 1.4)),
        why="2 % of the candidate's runs take ten times as long: rarer than what `equivalent` excludes, but 16 % of the mean.",
        seconds=12,
    ),
    Case(
        name="slow-modes-15%-and-5%",
        baseline="./adversary loop:3000 mode:150:12000",
        candidate="./adversary loop:3000 mode:50:12000",
        truth=times(SAME, Bounds(0.6, 0.9)),
        why="Both have slow runs, the candidate a third as many.",
        seconds=8,
    ),
    Case(
        name="slow-mode-clustered",
        baseline=LOOP,
        candidate=f"{LOOP} slots:100:100:36000",
        truth=times(SAME, Bounds(1.1, 2.2)),
        why="The candidate is slow in 10 % of time slots of 100 ms.",
        seconds=12,
    ),
    Case(
        name="slow-every-5-seconds",
        baseline=LOOP,
        candidate=f"{LOOP} periodic:5000:500:16000",
        truth=times(SAME, Bounds(1.05, 1.6)),
        why="The candidate is slow in the last half second of each five: a short comparison can miss it.",
        seconds=12,
    ),
    Case(
        name="slower-without-a-tail",
        baseline="./adversary loop:3000 mode:100:27000",
        candidate="./adversary loop:3600",
        truth=times(Bounds(1.08, 1.25), Bounds(0.5, 0.9)),
        why="The candidate's median is 20 % larger and its mean is smaller: the baseline has slow runs.",
        seconds=10,
    ),
    Case(
        name="slower-median-same-mean",
        baseline="./adversary loop:3000 mode:100:6000",
        candidate="./adversary loop:3600",
        truth=times(Bounds(1.08, 1.25), Bounds(0.96, 1.04)),
        why="The candidate's median is 20 % larger, and the means are equal.",
        seconds=8,
    ),
    # other work
    _DIFFERENT,
    exchanged(_DIFFERENT, "wrong-answer-baseline", "The same with the two commands exchanged."),
    dataclasses.replace(
        _DIFFERENT,
        name="no-answer",
        candidate="./adversary loop:2000",
        why="Half the work prints nothing.",
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="wrong-at-the-end-of-a-long-output",
        baseline="./adversary loop:2000 lines:20000 print:42",
        candidate="./adversary loop:1000 lines:20000 print:41",
        why="The outputs differ after 600 kB.",
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="wrong-answer-in-a-file",
        baseline="./adversary loop:4000 text:answer:42",
        candidate="./adversary loop:2000 text:answer:41",
        options=("--artifact", "answer"),
        why="Half the work writes another answer to the file that --artifact names.",
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="other-exit-status",
        baseline="./adversary loop:4000 print:42",
        candidate="./adversary loop:2000 print:42 exit:3",
        why="The output is the same, and the candidate fails.",
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="other-exit-status-accepted",
        baseline="./adversary loop:4000 print:42",
        candidate="./adversary loop:2000 print:42 exit:3",
        options=("--ignore-failure",),
        why="Failures are accepted, but only one side fails: its answer is another one.",
        excusing=frozenset({"output-not-compared"}),
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="output-discarded",
        options=("--output", "null"),
        why="The answers differ, and go to /dev/null: the report has to state that it compared none.",
        excusing=frozenset({"output-not-compared"}),
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="crashes-in-its-slow-runs",
        baseline="./adversary loop:4000 mode:100:20000 print:42",
        candidate="./adversary loop:4000 crash:100:20000 print:42",
        why="The candidate crashes in its slow runs; those that end well are fast.",
    ),
    dataclasses.replace(
        _DIFFERENT,
        name="leaves-a-process",
        baseline="./adversary loop:4000 print:42",
        candidate="./adversary loop:2000 print:42 orphan:20000",
        why="The candidate leaves the rest of its work to a process in the background.",
    ),
    Case(
        name="output-with-the-time",
        baseline="./adversary loop:4000 time:",
        candidate="./adversary loop:5000 time:",
        truth=times(Bounds(1.1, 1.3)),
        why="Every run prints the time, so outputs differ without different work.",
        never=NO_INVALID,
    ),
    Case(
        name="warnings-with-the-time",
        baseline="./adversary loop:4000 warning:late print:42",
        candidate="./adversary loop:5000 warning:late print:42",
        truth=times(Bounds(1.1, 1.3)),
        why="Standard error has the time; standard output is the same.",
        never=NO_INVALID,
    ),
    Case(
        name="printed-metric",
        baseline="./adversary loop:4000 print:score=100",
        candidate="./adversary loop:4000 print:score=110",
        options=("--metric", "score[1/s,higher]=regex:score=([0-9]+)"),
        truth={**times(SAME), "score": Truth(Bounds(1.1, 1.1), Bounds(1.1, 1.1))},
        why="The program measures itself: its figure is 10 % higher, its time is the same.",
        never=NO_INVALID,
    ),
    # differences
    Case(
        name="three-percent",
        baseline="./adversary loop:10000",
        candidate="./adversary loop:10300",
        truth=times(Bounds(1.015, 1.035)),
        margin=1.0,
        why="3 % more work, with a margin of 1 %.",
        seconds=10,
    ),
    Case(
        name="484-fold",
        baseline="./adversary loop:2000",
        candidate="./adversary loop:1100000",
        truth=times(Bounds(200, 600)),
        why="The budget holds few pairs of a difference that one pair shows.",
        seconds=10,
    ),
    Case(
        name="sleep-and-spin",
        baseline="./adversary spin:4000",
        candidate="./adversary sleep:4000",
        truth={"wall": Truth(Bounds(0.7, 1.3), Bounds(0.7, 1.3)), "cpu": Truth(Bounds(0, 0.7), Bounds(0, 0.7))},
        why="Both wait for 4 ms; the candidate without the processor.",
    ),
    Case(
        name="two-threads",
        baseline="./adversary threads:1:8000",
        candidate="./adversary threads:2:4000",
        truth={
            "wall": Truth(Bounds(0.45, 0.75), Bounds(0, 0.95), size=True),
            "cpu": Truth(Bounds(0.9, 1.15), Bounds(0.9, 1.15)),
        },
        why="The same work by two threads takes half the time, where there are two processors.",
    ),
    Case(
        name="two-threads-on-both-sides",
        baseline="./adversary threads:2:3000",
        candidate="./adversary threads:2:4500",
        truth={"wall": Truth(Bounds(1.15, 1.6), Bounds(1.05, 2.0), size=True), "cpu": Truth(Bounds(1.2, 1.6), SLOWER)},
        why="1.5 times the work of two threads.",
    ),
    Case(
        name="two-threads-of-20-ms",
        baseline="./adversary loop:40000",
        candidate="./adversary threads:2:20000",
        truth={
            "wall": Truth(Bounds(0.48, 0.65), Bounds(0, 0.95), size=True),
            "cpu": Truth(Bounds(0.9, 1.15), Bounds(0.9, 1.15)),
        },
        why="The same work by two threads takes half the time; a start takes a small part of it.",
        seconds=8,
    ),
    Case(
        name="work-in-a-child",
        baseline="./adversary loop:6000",
        candidate="./adversary loop:2000 child:4000",
        truth={"cpu": Truth(Bounds(0.95, 1.3), Bounds(0.95, 1.3)), "wall": Truth(Bounds(0.95, 1.3), Bounds(0.95, 1.3))},
        why="A child does two thirds of the same work.",
    ),
    Case(
        name="twice-the-memory",
        baseline="./adversary touch:40960:2 loop:2000",
        candidate="./adversary touch:81920:1 loop:2000",
        truth={
            "maxrss": Truth(Bounds(1.6, 2.1), Bounds(1.6, 2.1), size=True),
            "wall": Truth(Bounds(0.8, 1.25), Bounds(0.8, 1.25)),
        },
        why="As many page faults, on twice the memory.",
    ),
    Case(
        name="shell-forks",
        baseline="sh fast.sh",
        candidate="sh slow.sh",
        truth=wall(Bounds(1.3, math.inf)),
        why="The candidate starts ten processes for what the shell does itself.",
        scripts={
            "fast.sh": "i=0; while [ $i -lt 10 ]; do true; i=$((i + 1)); done; echo $i\n",
            "slow.sh": "i=0; while [ $i -lt 10 ]; do /bin/true; i=$((i + 1)); done; echo $i\n",
        },
    ),
    # limits
    Case(
        name="budget-too-small",
        baseline="./adversary sleep:700000",
        candidate="./adversary sleep:700000 ignored:x",
        truth=wall(SAME),
        why="The budget holds one or two pairs, and no interval.",
        seconds=3,
        refused=True,
    ),
)


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
        case = Case(
            name=f"planted-{kind}-{percent}%-{number}",
            baseline=plain,
            candidate=more,
            truth={metric: Truth(ratio, ratio) for metric in (TIMES if of_cpu else ("maxrss",))},
            why=f"{percent} % more.",
            margin=0.5,
            kind=f"planted {kind}",
        )
        yield exchanged(case, case.name, "The same with the two commands exchanged.") if number % 2 else case


CASES = (*_PAIRS, *cases_of(FILE.read_text()), *planted())
