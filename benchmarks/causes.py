# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether `swapstone explain` names planted causes: pairs of programs whose second has one added cost, and nulls. `benchmarks/causes`.

The pairs and their truths are in benchmarks/causes.toml, the programs in benchmarks/causes.c and benchmarks/cause_programs. Each pair is
compared and explained. Prints for each which functions lead, and the share of the first with its interval. `function` is the right
function without the counts that name the cause. Then the number of causes that were named, of wrong functions that were named, and of
nulls that named anything. The exit status is 1 if a wrong function or a null was named, or a pair failed. Needs root, perf, valgrind,
perl, and the headers of SQLite and zlib.

    benchmarks/causes                     all 60 causes and 10 nulls
    benchmarks/causes fsync lock          some causes, and the nulls
    benchmarks/causes --nulls             all causes without nulls
    benchmarks/causes --hogs 2            beside two busy loops
    benchmarks/causes --user              as an ordinary user: the causes that such a user can run
    benchmarks/causes --confirm           causes with a remedy: the share of the gap that it closes

Pairs whose truth has no count are explained without the instruments that only count. Each result is stored in the folder of --out, and
what was observed beside it. If the command is repeated, only what is missing there is run: take another folder for other settings.
--explain-again explains with the present program what was observed, and runs nothing. Several commands with different causes may use
one folder at once. `table.md` there has the tables of the last.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.shared import parser_of, table
from benchmarks.verdict_hogs import beside
from tests.e2e.cli import swapstone

from swapstone.core.model.directories import write_whole
from swapstone.core.model.profile import KERNEL
from swapstone.core.model.regular_file import decode_toml
from swapstone.parts.explain.explanation.by_function import function_text
from swapstone.parts.explain.explanation.row_answer import NO_PROCESSOR, explain_measurements
from swapstone.parts.explain.instruments.acquisition import INSTRUMENTS
from swapstone.parts.explain.model.explanation import RemedyShare, RowMeasurements
from swapstone.parts.explain.report.explanation_document import to_json
from swapstone.parts.explain.session.explanation_files import SEEN

SOURCES = Path(__file__).with_name("cause_programs")
LIBRARIES = 50
FILE = Path(__file__).with_suffix(".toml")
SHA256 = "e5d8f72a6e46b846eef1ffb914c9f33a17c0e48b4cc6061180761287d20249ef"
"""Digest of `FILE`. Its truths were written before explain ran on the programs."""


class Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A planted cause, or with no functions a null.

    Attributes:
        commands: the plain program and the planted one; of a null, two that do the same.
        functions: pattern for a function that leads, or for one of its callers; one is enough.
        detail: pattern for what the counts must contain; empty for none.
        metric: of the row.
        remedy: name of the one that takes it away; empty for none.
        kind: where the cost is.
        user: whether an ordinary user can run the pair and see the cause.
        ratio: of the planted program to the plain one in the metric, where it was measured; else 0.
    """

    commands: tuple[str, str]
    functions: str = ""
    detail: str = ""
    metric: str = "cpu"
    remedy: str = ""
    kind: str = ""
    user: bool = True
    ratio: float = 0.0


class Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file of truths contains.

    Attributes:
        build: commands that build a program in the current folder, by its name.
        nulls, causes: by name.
    """

    build: Mapping[str, tuple[str, ...]]
    nulls: Mapping[str, Cause]
    causes: Mapping[str, Cause]


def programs(content: bytes) -> Programs:
    """Return what the file of truths contains.

    Raises:
        SystemExit: it is not the file whose digest is `SHA256`.
    """
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise SystemExit(
            f"{FILE.name} has the SHA-256 {found}, but the truths were committed as {SHA256}: see git log -p {FILE}"
        )
    return msgspec.convert(decode_toml(content), Programs)


PROGRAMS = programs(FILE.read_bytes())
NULLS, CAUSES = PROGRAMS.nulls, PROGRAMS.causes
PROFILES = {"cpu": ("on-cpu",), "wall": ("on-cpu", "off-cpu")}
"""The instruments that divide a metric by function; the others count."""
ORDINARY_USER = 65534
"""User and group (Debian Policy 9.2.2) without rights."""
DISTURBED = "has no result to explain: disturbed"
"""Printed by explain where other processes used processors that a pair needs: on a busy machine the record has no result."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """What is compared: a cause, or with `null` two commands that do the same."""

    name: str
    null: bool

    @property
    def key(self) -> str:
        """Return a name for its file."""
        return f"null-{self.name}" if self.null else self.name

    @property
    def planted(self) -> Cause:
        """Return its commands and its truth."""
        return (NULLS if self.null else CAUSES)[self.name]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What explain gave for a pair.

    Attributes:
        named: the functions that lead, each with the one below it that has most of its difference, and callers; `NO_PROCESSOR` if that is
            the answer; empty for none.
        share: of the first in the difference.
        interval: of the share; None without intervals.
        evidence: the sentences about counts, and what differs in the surroundings.
        answer: the first sentence.
        differs: whether the record has a difference; on a busy machine a planted cause may have no effect, such as false sharing of
            threads that never run at the same time.
    """

    named: str = ""
    share: float = 0.0
    interval: tuple[float, float] | None = None
    evidence: str = ""
    answer: str
    differs: bool = True


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a pair.

    Attributes:
        pair: it.
        verdict: ``right``; ``function``: the right function, without the counts that name the cause; ``WRONG``; ``missed`` (nothing
            was named); ``none`` (no difference in the record); ``silent``; ``LOUD`` or ``FAILED``.
        outcome: what explain gave.
        seconds: of the comparison and the explanation.
        load: average of the last minute before it.
        remedies: that were tried, as in the explanation's JSON.
    """

    pair: Pair
    verdict: str
    outcome: Outcome
    seconds: float
    load: float = 0.0
    remedies: tuple[RemedyShare, ...] = ()


def stored(path: Path) -> Result | None:
    """Return a stored result; None if there is none, it is damaged, or the pair failed."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError):
        return None
    return None if found.verdict == "FAILED" else found


def outcome_of(explanation: Mapping[str, Any]) -> Outcome:
    """Return what an explanation, as JSON, names."""
    time, differs = explanation["time"], explanation.get("differs", True)
    answer, evidence = explanation["sentence"], " | ".join((*explanation["evidence"], *explanation["surroundings"]))
    leading = time["functions"][: time["leading"]] if time else []
    if NO_PROCESSOR in answer:
        return Outcome(answer=answer, named=NO_PROCESSOR, evidence=evidence)
    if not leading:
        return Outcome(answer=answer, differs=differs, evidence=evidence)
    first, whole = leading[0], time["measured"][1] - time["measured"][0]
    entries = [{"symbol": one["entry"], "object": KERNEL} for one in leading if one["entry"]]
    names = [each for one in leading for each in (one, *filter(None, (one["mostly"],)), *one["callers"])] + entries
    return Outcome(
        named=", ".join(dict.fromkeys(function_text(each["symbol"], each["object"]) for each in names)),
        share=(first["candidate"] - first["baseline"]) / whole,
        interval=tuple(time["shares"][0]) if time["shares"] else None,
        evidence=evidence,
        answer=answer,
    )


def placed(command: str, folder: Path) -> str:
    """Return a command with the folders of the programs and of their sources."""
    return command.replace("{folder}", str(folder)).replace("{source}", str(SOURCES))


def built(folder: Path, commands: Iterable[str] = ("{folder}/causes",)) -> Path:
    """Compile the programs that commands name, and the libraries that `causes` loads; return where `causes` is, or would be."""
    words = " ".join(commands).split()
    for build in (each for name, steps in PROGRAMS.build.items() if f"{{folder}}/{name}" in words for each in steps):
        subprocess.run(shlex.split(placed(build, folder)), cwd=folder, check=True)
    source, first = folder / "library.c", folder / "causes-0.so"
    source.write_text("int causes_value = 7;\nint causes_function(void) { return causes_value; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", first, source], check=True)
    for number in range(1, LIBRARIES):
        (folder / f"causes-{number}.so").write_bytes(first.read_bytes())
    return folder / "causes"


def explained(program: Path, pair: Pair, asked: argparse.Namespace) -> Result:
    """Compare and explain a pair, and keep what was observed; a failure is a result, too."""
    cause, start, load = pair.planted, time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch:
        folder = Path(scratch)
        commands = [placed(each, program.parent) for each in cause.commands]
        words = ("-n", "plain", "-n", "planted", "--env", f"CAUSES_LIBRARIES={program.parent}")
        without = [
            f"--without={name}" for name in INSTRUMENTS if name not in PROFILES[cause.metric] and not cause.detail
        ]
        confirm = ("--confirm",) if asked.confirm and not pair.null else ()
        try:
            swapstone(folder, "compare", *commands, *words, "--blocks", str(asked.blocks), "--out", f"{folder}/r")
            found = swapstone(
                folder, "explain", f"{folder}/r", cause.metric, "--only", "*", "--json", *without, *confirm
            )
            content = json.loads(found.stdout)
        except (AssertionError, ValueError, TimeoutError, subprocess.TimeoutExpired) as error:
            disturbed = DISTURBED in str(error)
            problem = Outcome(answer=str(error)[-2000:], differs=not disturbed)
            verdict = verdict_of(problem, cause) if disturbed else "FAILED"
            return Result(pair, verdict, problem, time.monotonic() - start, load)
        finally:
            for seen in folder.glob(f"r/explain/*/{SEEN}"):
                write_whole(evidence_of(pair, asked.out), seen.read_bytes())
    return judged(content["explanation"], Result(pair, "", Outcome(answer=""), time.monotonic() - start, load))


def evidence_of(pair: Pair, out: Path) -> Path:
    """Return the file with what was observed of a pair."""
    return out / f"{pair.key}-{SEEN}"


def explained_again(result: Result, out: Path) -> Result:
    """Return a result by an explanation of what was observed, which is made now; unchanged if nothing is stored."""
    if not evidence_of(result.pair, out).exists():
        return result
    seen = msgspec.json.decode(evidence_of(result.pair, out).read_bytes(), type=RowMeasurements)
    return judged(json.loads(to_json(explain_measurements(seen), seen))["explanation"], result)


def judged(explanation: Mapping[str, Any], result: Result) -> Result:
    """Return a result with the verdict on an explanation, as JSON."""
    outcome = outcome_of(explanation)
    remedies = msgspec.convert(explanation["remedies"] or (), tuple[RemedyShare, ...])
    verdict = verdict_of(outcome, result.pair.planted)
    return dataclasses.replace(result, verdict=verdict, outcome=outcome, remedies=remedies)


def verdict_of(found: Outcome, cause: Cause) -> str:
    """Return the verdict on an outcome, as in `Result`. Time without a processor is a right answer where the surroundings are the cause."""
    if not cause.functions:
        return "LOUD" if found.named else "silent"
    if not found.named:
        return "missed" if found.differs else "none"
    limited = found.named == NO_PROCESSOR and cause.kind.startswith("surroundings")
    if not limited and not re.search(cause.functions, found.named):
        return "WRONG"
    return "right" if re.search(cause.detail, found.evidence) else "function"


def chosen(asked: argparse.Namespace) -> list[Pair]:
    """Return the pairs to run, causes before nulls."""
    causes = asked.causes or [
        name for name, cause in CAUSES.items() if (cause.remedy or not asked.confirm) and (cause.user or not asked.user)
    ]
    nulls = asked.nulls if asked.nulls is not None else () if asked.confirm else NULLS
    return [*(Pair(name, null=False) for name in causes), *(Pair(name, null=True) for name in nulls)]


def run_all(pairs: Sequence[Pair], asked: argparse.Namespace) -> list[Result]:
    """Run what has no stored result, and return the results of all. Progress with the time that is left goes to standard error."""
    found = {pair: result for pair in pairs if (result := stored(asked.out / f"{pair.key}.json")) is not None}
    if asked.explain_again:
        found = {pair: explained_again(result, asked.out) for pair, result in found.items()}
        for pair, result in found.items():
            write_whole(asked.out / f"{pair.key}.json", msgspec.json.encode(result))
    left = [pair for pair in pairs if pair not in found]
    loops = "while :; do :; done & " * (asked.hogs if left else 0)
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch, beside(["sh", "-c", f"{loops}wait"]):
        program = built(Path(scratch), [each for pair in left for each in pair.planted.commands]) if left else Path()
        for number, pair in enumerate(left):
            seconds = [result.seconds for result in found.values()]
            eta = f", about {sum(seconds) / len(seconds) * (len(left) - number) / 60:.0f} min left" if seconds else ""
            print(f"{pair.key}, {len(found) + 1} of {len(pairs)}{eta}", file=sys.stderr, flush=True)
            found[pair] = explained(program, pair, asked)
            write_whole(asked.out / f"{pair.key}.json", msgspec.json.encode(found[pair]))  # a kill leaves no part of it
            print(*row(found[pair]), f"{found[pair].seconds:.0f} s", sep="; ", flush=True)
            if found[pair].verdict not in {"right", "none", "silent"}:
                print(f"    {found[pair].outcome.evidence or found[pair].outcome.answer}", flush=True)
    return [found[pair] for pair in pairs]


def row(result: Result) -> tuple[str, ...]:
    """Return the cells of a result."""
    found = result.outcome
    share = f"{100 * found.share:.0f} %" if found.named else ""
    return result.pair.key, result.verdict, found.named or "nothing", share, _between(found.interval)


def _between(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f} %"


def remedy_row(result: Result) -> tuple[str, ...]:
    """Return the cells of the remedies of a result: its own, the share with its interval, that of the placebo, and the others."""
    own = next(
        (each for each in result.remedies if each.name == CAUSES[result.pair.name].remedy),
        RemedyShare(name="not tried", text=""),
    )
    others = ", ".join(f"{each.name} {_percent(each.share)}" for each in result.remedies if each is not own)
    return result.pair.key, own.name, _percent(own.share), _between(own.interval), _percent(own.placebo), others


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.0f} %"


def tables(results: Sequence[Result]) -> str:
    """Return the results as Markdown: the causes and nulls, and the remedies if any were tried."""
    loads = [each.load for each in results]
    parts = [
        f"{len(os.sched_getaffinity(0))} processors, load {min(loads):.1f} to {max(loads):.1f}. {summary(results)}.",
        table(("planted", "verdict", "functions and callers", "share", "interval"), map(row, results)),
    ]
    if tried := [remedy_row(each) for each in results if each.remedies]:
        parts.append(table(("planted", "remedy", "closes", "interval", "placebo", "tried as well"), tried))
    return "\n\n".join(parts) + "\n"


def summary(results: Sequence[Result]) -> str:
    """Return how many results have each verdict, as a sentence."""
    found = collections.Counter(each.verdict for each in results)
    nulls = sum(each.pair.null for each in results)
    return (
        f"{found['right']} of {len(results) - nulls - found['none']} causes were named with their evidence, {found['function']} by "
        f"the right function alone, and {found['none']} had no effect; {found['WRONG']} wrong functions were named; "
        f"{found['LOUD']} of {nulls} nulls named a cause; {found['FAILED']} pairs failed"
    )


@contextlib.contextmanager
def ordinary_user(out: Path) -> Iterator[None]:
    """Become `ORDINARY_USER` for the rest of the process, with the folder of the results, and a home for the time of the context."""
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-home-", ignore_cleanup_errors=True) as home:
        for folder in (out, Path(home)):
            os.chown(folder, ORDINARY_USER, ORDINARY_USER)
        os.setgroups([])
        os.setresgid(*[ORDINARY_USER] * 3)
        os.setresuid(*[ORDINARY_USER] * 3)
        os.environ |= {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "TMPDIR": home}
        tempfile.tempdir = None
        yield


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return the exit status."""
    parser = parser_of("causes", __doc__)
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=f"any of {', '.join(CAUSES)}; default: all")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of each record (default: %(default)s)")
    parser.add_argument("--nulls", nargs="*", metavar="CAUSE", help="which nulls; default: all")
    parser.add_argument("--hogs", type=int, default=0, help="number of busy loops beside it")
    parser.add_argument("--confirm", action="store_true", help="try remedies; default: the causes that have one")
    parser.add_argument("--user", action="store_true", help="run as an ordinary user (uid 65534); started by root")
    parser.add_argument("--explain-again", action="store_true", help="explain what was observed again")
    parser.add_argument("--out", type=Path, default=Path("causes-results"), help="folder (default: %(default)s)")
    asked = parser.parse_args(arguments)
    pairs = chosen(asked)
    if wrong := [pair.key for pair in pairs if pair.name not in (NULLS if pair.null else CAUSES)]:
        parser.error(f"there is no {wrong[0]!r}; there are {', '.join(CAUSES)}, and as nulls {', '.join(NULLS)}")
    asked.out.mkdir(parents=True, exist_ok=True)
    asked.out = asked.out.resolve()
    try:
        with ordinary_user(asked.out) if asked.user else contextlib.nullcontext():
            results = run_all(pairs, asked)
    except KeyboardInterrupt:
        print(f"\nStopped. The results so far are in {asked.out}. Repeat the command to go on.", file=sys.stderr)
        return 130
    (asked.out / "table.md").write_text(tables(results))
    print(f"\n{tables(results)}\nThe table is in {asked.out / 'table.md'}.")
    return 1 if {each.verdict for each in results} & {"WRONG", "LOUD", "FAILED"} else 0
