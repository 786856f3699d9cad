#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Change the code in one place at a time and count how many changes the tests find.

    tools/mutate [--sample 100] [--seed 1] [--part 1/4] [--only PLACE]... [--by-hand | --again FILE] [--json FILE]

Each change (a mutant) is made in a copy of the tree; the working tree is never written. The tests of a Python mutant are those that
called the function before, in any process; of the agent, those of tests/unit/agent. Which test calls which function is found by one run
of the short tests, and kept in the cache folder until the code or a test changes. A mutant is killed if a test fails or takes ten times
as long. A run of pytest that crashes is no verdict: it is listed, left out of the score, and makes the exit status 1. Each runs in a
PID and a mount namespace of its own, so that it can't signal or mount outside. A line of the output reports where the machine does not
allow that.

tools/mutants.toml has the mutants made by hand (--by-hand), and the equivalent ones, each with the reason why no test can find it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP)]

from tools.mutation_namespace import obstacle  # noqa: E402
from tools.mutation_operators import Mutant, is_valid, mutants, substitution  # noqa: E402
from tools.mutation_runner import (  # noqa: E402 # the path comes first
    Result,
    Slot,
    Status,
    build_agent,
    copy_tree,
    preload,
)

AGENT = "agent"
PACKAGES = ("record", "wire", "stats", "comparison", "plan", "run", AGENT)

SLOWER = 10
"""A test is ended after this multiple of what it took before, and `GRACE_S`."""

GRACE_S = 30.0
CONTROLS = 20
"""One unchanged run is made for so many mutants."""


@dataclasses.dataclass(frozen=True)
class Project:
    """What is changed, and where its tests are.

    Attributes:
        top: folder of the tree.
        source: folder of the packages, below it.
        packages: names below `source`, and `AGENT`.
        tests: folders or files with tests, below `top`.
        left_out: folders below `top` whose tests examine the text of the code.
        agent: folder of the C sources; empty for none.
        agent_tests: folder of their tests.
    """

    top: Path
    source: str = "src/swapstone"
    packages: tuple[str, ...] = PACKAGES
    tests: tuple[str, ...] = ("tests",)
    left_out: tuple[str, ...] = ("tests/style", "tests/unit/tools")
    agent: str = "native/agent"
    agent_tests: str = "tests/unit/agent"

    def files(self, package: str) -> list[str]:
        """Return the source files of a package, sorted."""
        source = self.top / self.source
        core = source / "core" / package
        folder = self.top / self.agent if package == AGENT else core if core.is_dir() else source / package
        return sorted(str(path.relative_to(self.top)) for path in folder.glob("*.c" if package == AGENT else "**/*.py"))

    def package_of(self, file: str) -> str:
        """Return the package of a source file."""
        first, second, *_ = *file.removeprefix(f"{self.source}/").split("/"), ""
        return AGENT if file.endswith(".c") else second if first == "core" else first


# Which test calls which function


@dataclasses.dataclass
class CallMap:
    """Which test calls which function.

    Attributes:
        seconds: of each test that passed.
        calls: node identifiers by (file below the packages' folder, qualified name).
    """

    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    calls: dict[tuple[str, str], set[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(set))

    def tests(self, project: Project, mutant: Mutant, most_s: float) -> tuple[str, ...]:
        """Return the tests to run for a mutant, until together they would take longer than `most_s`.

        The tests of the mutant's package come first, and of each kind the shortest. Of the agent all tests run: most of the time of the
        longest ones is that of compiling its parts, once for many tests.
        """
        package = project.package_of(mutant.file)
        if package == AGENT:
            found = {test for test in self.seconds if test.startswith(f"{project.agent_tests}/")}
            most_s = math.inf
        else:
            file = mutant.file.removeprefix(f"{project.source}/")
            found = set(self.calls.get((file, mutant.function), ()))
            if not found:  # outside functions, or in a function that is called when the module is imported
                found = {test for (called, _), tests in self.calls.items() if called == file for test in tests}
                found |= {test for test in self.seconds if f"/{package}/" in test.partition("::")[0]}
        chosen, total = [], 0.0
        own = f"/{package}/"
        for test in sorted(
            found, key=lambda test: (own not in test.partition("::")[0], self.seconds.get(test, 0.0), test)
        ):
            if test in self.seconds and total + self.seconds[test] <= most_s:
                chosen.append(test)
                total += self.seconds[test]
        return tuple(chosen)

    def limits_s(self, tests: Iterable[str]) -> dict[str, float]:
        """Return after how long each of these tests is ended, and the run with it."""
        return {test: GRACE_S + SLOWER * self.seconds[test] for test in tests}


def call_map(project: Project, cache: Path, jobs: int, *, keep: bool) -> CallMap:
    """Return the map of a project, from the cache as far as code and tests are unchanged.

    Args:
        project: whose tests are run.
        cache: JSON file.
        jobs: number of workers of pytest.
        keep: whether to use the cached map for changed code too. New and changed files of tests are run in any case.
    """
    code = _digest(sorted((project.top / project.source).rglob("*.py")))
    stored: dict[str, Any] = {}
    try:
        stored = json.loads(cache.read_text())
    except (OSError, ValueError):
        keep = False
    entries: dict[str, Any] = stored["files"] if keep or stored.get("code") == code else {}
    used = _test_files(project)
    present = {file: _digest([project.top / file]) for file in {*used, *entries} if (project.top / file).exists()}
    entries = {file: entry for file, entry in entries.items() if present.get(file) == entry["digest"]}
    wanted = [file for file in used if file not in entries]
    if wanted:
        entries |= _traced(project, wanted, present, jobs)
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary = cache.with_name(f"{cache.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"code": code, "files": entries}))
        temporary.replace(cache)
    found = CallMap()
    for entry in (entries[file] for file in used):
        found.seconds |= entry["tests"]
        names = list(entry["tests"])
        for file, function, numbers in entry["calls"]:
            found.calls[file, function].update(names[number] for number in numbers)
    return found


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="swapstone-mutate-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _test_files(project: Project) -> list[str]:
    paths = {
        path
        for place in project.tests
        for path in ([project.top / place] if place.endswith(".py") else (project.top / place).rglob("test_*.py"))
    }
    names = sorted(str(path.relative_to(project.top)) for path in paths)
    return [name for name in names if not name.startswith(tuple(f"{folder}/" for folder in project.left_out))]


def _traced(project: Project, files: Sequence[str], digests: Mapping[str, str], jobs: int) -> dict[str, Any]:
    """Run tests and return, for each of their files: digest, seconds of each test that passed, and calls.

    A call is (file, function, numbers of the tests in the order of the second).
    """
    progress(f"Running the tests of {len(files)} files once, to find which test calls which function")
    with _temporary_folder() as folder:
        tree = folder / "tree"
        copy_tree(project.top, tree)
        source = tree / project.source.partition("/")[0]
        shutil.copy2(Path(__file__).parent / "call_map.py", source)
        (source / "sitecustomize.py").write_text("import call_map\ncall_map.start()\n")
        calls, tests = folder / "calls", folder / "tests.json"
        environment = {
            **os.environ,
            "PYTHONPATH": str(source),
            "CALL_MAP_CALLS": str(calls),
            "CALL_MAP_TESTS": str(tests),
            "CALL_MAP_SOURCE": str(tree / project.source),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "call_map", "-p", "no:cacheprovider", "-m", "not slow"]
        command += ["-n", str(jobs), "--maxschedchunk", "1", f"--basetemp={folder}/t", *files]
        result = subprocess.run(
            command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if not tests.exists():
            raise SystemExit(f"The tests could not be run:\n{result.stdout[-3000:]}")
        outcomes: dict[str, tuple[str, float]] = json.loads(tests.read_text())
        lines = {tuple(line.split("\t")) for line in calls.read_text().splitlines()} if calls.exists() else set()
    failed = sorted(test for test, (outcome, _) in outcomes.items() if outcome == "failed")
    if failed:
        progress(f"Tests that fail without a change are left out ({len(failed)}): {', '.join(failed[:5])}")
    passed: dict[str, dict[str, float]] = {file: {} for file in files}
    for test, (outcome, seconds) in sorted(outcomes.items()):
        if outcome == "passed":
            passed[test.partition("::")[0]][test] = round(seconds, 3)
    numbers = {test: number for found in passed.values() for number, test in enumerate(found)}
    called: dict[str, dict[tuple[str, str], list[int]]] = {file: {} for file in files}
    for test, source_file, function in sorted(line for line in lines if len(line) == 3):
        if test in numbers:
            called[test.partition("::")[0]].setdefault((source_file, function), []).append(numbers[test])
    return {
        file: {
            "digest": digests[file],
            "tests": passed[file],
            "calls": [(*place, tests) for place, tests in called[file].items()],
        }
        for file in files
    }


# Which mutants


@dataclasses.dataclass(frozen=True)
class Lists:
    """The content of tools/mutants.toml.

    Attributes:
        by_hand: name and mutant.
        equivalent: (file, line before, line after) of mutants that no test can find.
    """

    by_hand: tuple[tuple[str, Mutant], ...]
    equivalent: frozenset[tuple[str, str, str]]


def read_lists(path: Path, top: Path) -> Lists:
    """Read the lists of mutants.

    Raises:
        ValueError: an entry does not fit the code.
    """
    data = tomllib.loads(path.read_text()) if path.exists() else {}
    by_hand = [
        (entry["name"], substitution(entry["file"], (top / entry["file"]).read_bytes(), entry["old"], entry["new"]))
        for entry in data.get("by-hand", ())
    ]
    equivalent = [(entry["file"], entry["before"], entry["after"]) for entry in data.get("equivalent", ())]
    return Lists(tuple(by_hand), frozenset(equivalent))


def candidates(project: Project, places: Sequence[str] = ()) -> list[Mutant]:
    """Return every mutant of the project.

    Args:
        project: that is changed.
        places: packages, and paths of files below the project's folder; all packages if there are none.

    Raises:
        ValueError: a place is neither.
    """
    files = {file: package for package in project.packages for file in project.files(package)}
    for place in places:
        if place not in {*files, *project.packages}:
            raise ValueError(f"--only {place} is neither a package ({', '.join(project.packages)}) nor a file of one.")
    chosen = [file for file, package in files.items() if not places or {file, package} & {*places}]
    return [mutant for file in chosen for mutant in mutants(file, (project.top / file).read_bytes())]


def sample(every: Sequence[Mutant], size: int, seed: int, top: Path) -> list[Mutant]:
    """Draw mutants without replacement; those that are no program, or the same program, are passed over."""
    order = list(range(len(every)))
    random.Random(seed).shuffle(order)  # noqa: S311 # a reproducible sample, not a secret
    valid = (each for each in (every[number] for number in order) if is_valid(each, (top / each.file).read_bytes()))
    return list(itertools.islice(valid, size))


def part(text: str) -> tuple[int, int]:
    """Parse ``NUMBER/COUNT``, as in ``2/4``: the second of four parts.

    Raises:
        ValueError: it has another form, or there is no such part.
    """
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError(text)
    return number, count


def again(path: Path, top: Path) -> list[Mutant]:
    """Return the survivors and crashes of an earlier run, by their lines: other lines of the file may have changed.

    Raises:
        ValueError: a line is not in the file any more.
    """
    found = []
    for entry in json.loads(path.read_text())["results"]:
        if Status(entry["status"]).killed:
            continue
        file, data = entry["file"], (top / entry["file"]).read_bytes()
        matching = [
            each for each in mutants(file, data) if (each.before, each.after) == (entry["before"], entry["after"])
        ]
        if not matching:
            raise ValueError(f"{file} has no such line any more: {entry['before']}")
        found.append(min(matching, key=lambda each: abs(each.line - entry["line"])))
    return found


# Running


def progress(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Work:
    """A list of runs, and what they found so far.

    Attributes:
        project: that is changed.
        runs: mutant, or None for unchanged code, and the limit of each test, in seconds, in the order of the tests.
        results: what was found.
    """

    project: Project
    runs: Sequence[tuple[Mutant | None, dict[str, float]]]
    results: list[Result] = dataclasses.field(default_factory=list)

    def all(self, jobs: int) -> bool:
        """Make every run. Return False if SIGINT ended it early; `results` then has what is finished."""
        with _temporary_folder() as folder:
            slots = [Slot(self.project.top, folder / str(number)) for number in range(min(jobs, len(self.runs)))]
            if any(mutant and mutant.file.endswith(".c") for mutant, _ in self.runs):
                for slot in slots:
                    (slot.scratch.parent / "agent").write_bytes(
                        build_agent(slot.tree, slot.scratch.parent / "unchanged") or b""
                    )
            try:
                self._loop(slots)
            except KeyboardInterrupt:
                return False
            finally:
                for slot in slots:
                    slot.stop()
        return True

    def _loop(self, slots: Sequence[Slot]) -> None:
        began, waiting = time.monotonic(), list(self.runs)
        busy: dict[int, Slot] = {}
        free = list(slots)
        while waiting or busy:
            while waiting and free:
                mutant, tests = waiting.pop(0)
                if mutant and not tests:
                    self._add(Result(mutant, Status.UNTESTED), began)
                    continue
                slot = free.pop()
                slot.start(mutant, tests)
                busy[slot.keeper] = slot
            if busy:
                ended, _ = os.wait()
                if ended in busy:
                    slot = busy.pop(ended)
                    free.append(slot)
                    self._add(slot.finish(), began)

    def _add(self, result: Result, began: float) -> None:
        self.results.append(result)
        done, total = len(self.results), len(self.runs)
        left_s = (time.monotonic() - began) / done * (total - done)
        if result.mutant and not result.status.killed:
            progress(f"{result.mutant.file}:{result.mutant.line}: {result.status.value}: {result.mutant.after}")
        progress(f"{done} of {total} runs, about {left_s / 60:.0f} min left")


def _runs(
    project: Project, found: CallMap, chosen: Sequence[Mutant], most_s: float
) -> list[tuple[Mutant | None, dict[str, float]]]:
    """Return the runs of mutants, with one of unchanged code after each `CONTROLS` of them."""
    runs: list[tuple[Mutant | None, dict[str, float]]] = []
    for number, mutant in enumerate(chosen):
        tests = found.limits_s(found.tests(project, mutant, most_s))
        if number % CONTROLS == 0 and tests:
            runs.append((None, tests))
        runs.append((mutant, tests))
    return runs


def _confirmed(project: Project, results: Sequence[Result], found: CallMap, jobs: int) -> list[Result]:
    """Run what killed a mutant once without a change. What fails then, too, killed nothing.

    That is a test, or a file of tests that was not imported: one of its tests stands for it, if the map has any.
    """
    names = {each.test for each in results if each.status is Status.KILLED and each.test}
    of_file = {test.partition("::")[0]: test for test in sorted(found.seconds, reverse=True)}
    tests = sorted({test for name in names if (test := name if name in found.seconds else of_file.get(name))})
    checks = Work(project, [(None, found.limits_s((test,))) for test in tests])
    progress(f"Running {len(tests)} tests that failed without a change")
    checks.all(jobs)
    failing = {each.test for each in checks.results if each.test}
    failing |= {name for name in names if name not in found.seconds and name not in of_file}
    return [
        dataclasses.replace(each, status=Status.UNCERTAIN) if each.mutant and each.test in failing else each
        for each in results
    ]


# Reporting


def report(results: Sequence[Result], project: Project, origin: str, names: Mapping[Mutant, str]) -> str:
    """Return the report: the score first, then a table of packages, the survivors and whatever gave no verdict.

    Args:
        results: of mutants and controls.
        project: that was changed.
        origin: how the mutants were chosen; ends the first line.
        names: of mutants that were made by hand.
    """
    judged = [each for each in results if each.mutant and (each.status.killed or each.status.survived)]
    killed = [each for each in judged if each.status.killed]
    low, high = _interval(len(killed), len(judged))
    share = f"{100 * len(killed) / len(judged):.1f} %" if judged else "no score"
    lines = [
        f"{len(killed)} of {len(judged)} {origin} were killed: {share} (95 % interval {low:.1f} % to {high:.1f} %)"
    ]
    lines += ["", f"{'package':<12}{'killed':>8}{'of':>6}"]
    packages = [project.package_of(each.mutant.file) for each in judged if each.mutant]
    found_in = collections.Counter(
        package for package, each in zip(packages, judged, strict=True) if each.status.killed
    )
    lines += [f"{package:<12}{found_in[package]:>8}{packages.count(package):>6}" for package in sorted(set(packages))]
    for status in Status:
        found = [each for each in results if each.status is status and each.mutant]
        if found and not status.killed:
            lines += ["", f"{len(found)}: {status.value}"]
            lines += [line for each in found for line in _shown(each, names)]
    controls = [each for each in results if not each.mutant]
    bad = [each for each in controls if each.status is not Status.SURVIVED]
    lines += ["", f"{len(controls) - len(bad)} of {len(controls)} runs of unchanged code passed"]
    lines += [f"  {each.status.value}: {each.test}{each.detail}" for each in bad]
    return "\n".join(lines)


def _shown(result: Result, names: Mapping[Mutant, str]) -> list[str]:
    mutant = result.mutant
    assert mutant is not None
    name = f" ({names[mutant]})" if mutant in names else f" in {mutant.function}" if mutant.function else ""
    lines = [f"  {mutant.file}:{mutant.line}{name}", f"    - {mutant.before}", f"    + {mutant.after}"]
    lines += [f"    {result.tests} tests passed"] if result.status is Status.SURVIVED else []
    return lines + [f"    {line}" for line in result.detail.splitlines()]


def _interval(hits: int, trials: int) -> tuple[float, float]:
    """Return Wilson's interval in percent."""
    sys.path.insert(0, str(TOP / "src"))
    from swapstone.core.stats import wilson  # noqa: PLC0415 # after the forks: they import the changed one

    low, high = wilson(hits, trials) if trials else (0.0, 1.0)
    return 100 * low, 100 * high


def as_json(results: Sequence[Result], seed: int, every: int) -> dict[str, Any]:
    """Return the results for a file."""
    return {
        "seed": seed,
        "candidates": every,
        "controls": sum(not each.mutant for each in results),
        "controls_passed": sum(not each.mutant and each.status is Status.SURVIVED for each in results),
        "results": [
            {
                "file": each.mutant.file,
                "line": each.mutant.line,
                "function": each.mutant.function,
                "kind": each.mutant.kind,
                "before": each.mutant.before,
                "after": each.mutant.after,
                "status": each.status.value,
                "test": each.test,
                "tests": each.tests,
                "seconds": each.seconds,
            }
            for each in results
            if each.mutant
        ],
    }


def main(arguments: Sequence[str] | None = None, project: Project | None = None, cache: Path | None = None) -> int:
    """Parse the command line and run.

    Args:
        arguments: of the command line.
        project: the repository by default.
        cache: JSON file for the call map.

    Returns:
        The exit status: 0 if every run ended with a verdict and unchanged code passed, 130 after SIGINT, 2 if the lists
        do not fit the code, else 1.
    """
    options = _parser().parse_args(arguments)
    project = project or Project(TOP)
    try:
        with _temporary_folder() as folder:
            copy_tree(project.top, folder / "tree")  # the tree may change during the run
            return _run(options, dataclasses.replace(project, top=folder / "tree"), cache or _cache())
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, project: Project, cache: Path) -> int:
    if options.tests:
        project = dataclasses.replace(project, tests=tuple(options.tests))
    lists = read_lists(project.top / "tools/mutants.toml", project.top)
    every = [] if options.by_hand or options.again else candidates(project, options.only or ())
    names: dict[Mutant, str] = {}
    if options.by_hand:
        names = {mutant: name for name, mutant in lists.by_hand}
        chosen, origin = list(names), "mutants made by hand"
    elif options.again:
        chosen = again(options.again, project.top)
        origin = f"earlier survivors ({options.again.name})"
    else:
        chosen = sample(every, options.sample, options.seed, project.top)
        origin = f"mutants, a sample of {len(every)} with seed {options.seed},"
    number, count = options.part
    chosen = chosen[number - 1 :: count]
    equal = [each for each in chosen if (each.file, each.before, each.after) in lists.equivalent]
    chosen = [each for each in chosen if each not in equal]
    if options.list:
        print("\n".join(f"{each.file}:{each.line}: {each.kind}: {each.before}  =>  {each.after}" for each in chosen))
        return 0
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    found = call_map(project, cache, options.jobs, keep=options.keep_map)
    where = (
        f"outside: a mutant can harm the machine ({obstacle()})"
        if obstacle()
        else "in PID and mount namespaces of their own"
    )
    progress(f"The mutants run {where}")
    preload()
    work = Work(project, _runs(project, found, chosen, options.most_seconds))
    whole = work.all(options.jobs)
    results = _confirmed(project, work.results, found, options.jobs) if whole else work.results
    print(report(results, project, origin, names))
    if equal:
        print(f"{len(equal)} of the sample are equivalent by tools/mutants.toml and left out")
    if not whole:
        print(f"interrupted: {len(work.results)} of {len(work.runs)} runs were made")
    if options.json:
        options.json.write_text(json.dumps(as_json(results, options.seed, len(every)), indent=1) + "\n")
    good = all(
        each.status is Status.SURVIVED if each.mutant is None else each.status is not Status.CRASHED for each in results
    )
    return (0 if good else 1) if whole else 130


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "swapstone" / "mutation" / f"{hashlib.sha256(str(TOP).encode()).hexdigest()[:16]}.json"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--sample", type=int, default=100, metavar="N", help="number of mutants [100]")
    chosen.add_argument("--by-hand", action="store_true", help="the mutants of tools/mutants.toml")
    chosen.add_argument("--again", type=Path, metavar="FILE", help="the survivors of an earlier run's --json FILE")
    parser.add_argument("--seed", type=int, default=1, help="of the sample [1]")
    parser.add_argument(
        "--part",
        type=part,
        default=(1, 1),
        metavar="N/M",
        help="each M-th mutant, from the N-th on, for runs in pieces",
    )
    parser.add_argument(
        "--only", action="append", metavar="PLACE", help=f"a package ({', '.join(PACKAGES)}), or the path of a file"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result to a file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at once [processors]")
    parser.add_argument(
        "--most-seconds",
        type=float,
        default=600.0,
        metavar="S",
        help="of tests for one mutant of Python code, the shortest first [600]",
    )
    parser.add_argument("--tests", action="append", metavar="PATH", help="folder or file of tests to use [tests]")
    parser.add_argument("--keep-map", action="store_true", help="use the kept map of calls although the code changed")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
