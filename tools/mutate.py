# SPDX-License-Identifier: MIT OR Apache-2.0
"""Change the code in one place at a time and count how many changes the tests find.

    tools/mutate [--sample 100] [--seed 1] [--only PLACE]... [--by-hand] [--state FILE]

Each change (a mutant) is made in a copy of the tree; the working tree is never written. First all tests run without a change, and those
that fail are left out. The tests of a mutant are those of its package, and if they pass, all others; of the agent, those of
tests/unit/agent. A mutant is killed if a test fails or takes longer than 5 min. A test that failed must pass again without the change,
else there is no verdict. A run of pytest that crashes is no verdict either, and makes the exit status 1. Each run has a PID and a mount
namespace of its own (unshare(1)), so that it can't signal or mount outside; a line of the output reports where that is not allowed.

--state keeps every result in a file. After SIGINT the same command goes on from there. A mutant whose entry is removed runs again.
tools/mutants.toml has the mutants made by hand (--by-hand), and the equivalent ones, each with the reason why no test can find it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import enum
import functools
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.mutation_operators import Mutant, mutants, substitution

from swapstone.core.stats import wilson

TOP = Path(__file__).resolve().parent.parent

AGENT = "agent"
PACKAGES = ("record", "wire", "stats", "comparison", "plan", "run", AGENT)
LIMIT_S = 300
"""A test that takes longer is ended. With its fixtures: the first one that needs the compiled agent waits for the compiler."""

IMPORT_S = 3600
"""A whole run of pytest is ended after this time: the import of a changed module may never end."""

MEMORY_BYTES = 6 << 30
"""Address space of a process under test: a mutant may allocate without end."""


class Status(enum.StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "killed by the time limit"
    SURVIVED = "survived"
    INVALID = "does not compile"
    EQUAL = "compiles to the same program"
    CRASHED = "the test run crashed"
    UNCERTAIN = "the test that failed also fails without the change"


KILLED = (Status.KILLED, Status.TIMED_OUT)


class Result(NamedTuple):
    """The run of one mutant: what it changed, its status, and the test that failed or the end of the output of a crash."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    status: str
    test: str = ""


class Project(NamedTuple):
    """What is changed, and where its tests are.

    Attributes:
        top: folder of the tree.
        source: folder of the packages, below it.
        packages: names below `source`, and `AGENT`.
        tests: folders or files with tests, below `top`.
        left_out: folders whose tests examine the text of the code.
    """

    top: Path
    source: str = "src/swapstone/core"
    packages: tuple[str, ...] = PACKAGES
    tests: tuple[str, ...] = ("tests",)
    left_out: tuple[str, ...] = ("tests/style/", "tests/unit/tools/")

    def files(self, package: str) -> list[str]:
        """Return the source files of a package, sorted."""
        paths = self.top.glob("native/agent/*.c" if package == AGENT else f"{self.source}/{package}/**/*.py")
        return sorted(str(path.relative_to(self.top)) for path in paths)

    def package_of(self, file: str) -> str:
        """Return the package of a source file."""
        return AGENT if file.endswith(".c") else file.removeprefix(f"{self.source}/").partition("/")[0]

    def tests_of(self, packages: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the files with tests of these packages, and all others; none of these if only the agent is changed."""
        found = {
            path
            for place in self.tests
            for path in ([self.top / place] if ".py" in place else (self.top / place).rglob("test_*.py"))
        }
        names = sorted(str(path.relative_to(self.top)) for path in found)
        names = [name for name in names if not name.startswith(self.left_out)]
        own = [name for name in names if {*packages} & {*Path(name).parent.parts}]
        return own, [name for name in names if name not in own] if {*packages} - {AGENT} else []


# Which mutants


def read_lists(path: Path, top: Path) -> tuple[dict[Mutant, str], set[tuple[str, ...]]]:
    """Return the mutants made by hand with their names, and the equivalent ones as `fingerprint` gives them.

    Raises:
        ValueError: an entry does not fit the code.
    """
    data = tomllib.loads(path.read_text()) if path.exists() else {}
    by_hand = {
        substitution(entry["file"], (top / entry["file"]).read_bytes(), entry["old"], entry["new"]): entry["name"]
        for entry in data.get("by-hand", ())
    }
    return by_hand, {
        fingerprint(entry["file"], entry["before"], entry["after"]) for entry in data.get("equivalent", ())
    }


def fingerprint(file: str, before: str, after: str) -> tuple[str, ...]:
    """Return file and changed lines without what a formatter may change: blanks, parentheses and quotes."""
    return (file, *(re.sub(r"[\s()'\"]", "", line) for line in (before, after)))


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


# Running


def progress(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def copy_checkout(top: Path, folder: Path) -> None:
    """Copy the files of a checkout that git does not ignore, with their times. ``.venv`` is linked."""
    command = ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (top / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(top / name, folder / name, follow_symlinks=False)
    if (top / ".venv").exists():
        (folder / ".venv").symlink_to((top / ".venv").resolve())


@functools.cache
def namespaces() -> tuple[str, ...]:
    """Return the command that runs another one in namespaces of its own; empty if this machine does not allow it."""
    user = ("--user", "--map-current-user") if os.geteuid() else ()
    command = ("unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        return ()
    return (*command, "sh", "-c", '"$@"; exit $?', "sh")  # process 1 must wait for processes without a parent


def run_tests(tree: Path, *arguments: str) -> tuple[Status, list[str], str]:
    """Run pytest in a tree.

    Returns:
        The status of the tree, the node identifiers of those that failed, and the end of the output.
    """
    with tempfile.TemporaryDirectory(prefix="swapstone-mutate-", ignore_cleanup_errors=True) as scratch:
        command = [*namespaces(), "prlimit", f"--as={MEMORY_BYTES}", sys.executable, "-m", "pytest", "-q", "-rfE"]
        command += ["-p", "no:cacheprovider", "-m", "not slow", "--hypothesis-seed=0", f"--basetemp={scratch}/t"]
        command += ["-o", f"faulthandler_timeout={LIMIT_S}", "-o", "faulthandler_exit_on_timeout=true", *arguments]
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "SWAPSTONE_"))}
        environment = {**kept, "PYTHONPATH": f"{tree}/src", "TMPDIR": scratch, "OPENBLAS_NUM_THREADS": "1"}
        with Path(scratch, "log").open("w+", errors="replace") as log:
            try:
                status = subprocess.run(
                    command,
                    cwd=tree,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=IMPORT_S,
                    start_new_session=True,  # without the terminal's SIGINT
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return Status.TIMED_OUT, [], ""
            log.seek(0)
            output = log.read()
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    end = "\n".join(output.splitlines()[-15:])
    if re.search(r"Timeout \([\d:.]+\)!\n", output):
        return Status.TIMED_OUT, failed, end
    if status in {0, 5}:  # passed, or no test was chosen
        return Status.SURVIVED, [], end
    return Status.KILLED if failed and status in {1, 2} else Status.CRASHED, failed, end


def build_agent(tree: Path) -> bytes:
    """Compile the agent of a tree; return the program, or nothing if that fails."""
    code = "import sys; from pathlib import Path; from swapstone.core.targets.agent_build import build_agent\n"
    code += "sys.stdout.buffer.write(build_agent(Path(sys.argv[1])).read_bytes())"
    with tempfile.TemporaryDirectory() as folder:
        command, environment = [sys.executable, "-c", code, folder], {**os.environ, "PYTHONPATH": str(tree / "src")}
        return subprocess.run(command, env=environment, capture_output=True, check=False).stdout


def judge(mutant: Mutant, project: Project, tree: Path, left_out: Sequence[str]) -> Result:
    """Run the tests against a mutant in a copied tree, and undo the change."""
    path, of_agent = tree / mutant.file, mutant.file.endswith(".c")
    unchanged = build_agent(tree) if of_agent else b""
    path.write_bytes(mutant.applied(path.read_bytes()))
    status, failed, output = Status.SURVIVED, [""], ""
    try:
        program = build_agent(tree) if of_agent else b"other"
        if program in {b"", unchanged}:
            status = Status.EQUAL if program else Status.INVALID
        for files in project.tests_of([project.package_of(mutant.file)]):
            if status is Status.SURVIVED and files:
                status, failed, output = run_tests(tree, "-x", *left_out, *files)
    finally:
        shutil.copy2(project.top / mutant.file, path)  # with its time, by which Python recognises compiled modules
    test = output if status is Status.CRASHED else "".join(failed[:1])
    return Result(mutant.file, mutant.line, mutant.kind, mutant.before, mutant.after, status, test)


def run(project: Project, chosen: Sequence[Mutant], state: Path | None, jobs: int) -> tuple[list[Result], bool]:
    """Run mutants that have no result in the file `state`, and store each result there.

    Returns:
        The results in the order of the mutants, and whether all were run: not after SIGINT.
    """
    stored = [Result(**entry) for entry in json.loads(state.read_text())] if state and state.exists() else []
    done: dict[tuple[object, ...], Result] = {each[:5]: each for each in stored}
    waiting = [each for each in chosen if _key(each) not in done]
    whole = True
    with tempfile.TemporaryDirectory(prefix="swapstone-mutate-", ignore_cleanup_errors=True) as folder:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(max(1, min(jobs, len(waiting)))):
            shutil.copytree(project.top, Path(folder, str(number)), symlinks=True)
            trees.put(Path(folder, str(number)))
        own, others = project.tests_of({project.package_of(each.file) for each in chosen})
        progress(f"Running the tests of {len(own + others)} files without a change")
        _, failing, output = run_tests(Path(folder, "0"), "-n", str(jobs), *own, *others)
        if not failing and " passed" not in output:
            raise SystemExit(f"The tests could not be run:\n{output}")
        progress(f"{len(failing)} tests that fail without a change are left out {' '.join(failing[:5])}")
        left_out = [f"--ignore={test}" if test.endswith(".py") else f"--deselect={test}" for test in failing]

        def judged(mutant: Mutant) -> Result:
            tree = trees.get()
            try:
                return judge(mutant, project, tree, left_out)
            finally:
                trees.put(tree)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(judged, mutant) for mutant in waiting]
            try:
                for number, future in enumerate(concurrent.futures.as_completed(futures), 1):
                    result = future.result()
                    done[result[:5]] = result
                    if state:
                        state.write_text(json.dumps([each._asdict() for each in done.values()], indent=1) + "\n")
                    progress(
                        f"{number} of {len(waiting)} runs: {result.file}:{result.line}: {result.status}: {result.after}"
                    )
            except KeyboardInterrupt:
                whole = False
                pool.shutdown(cancel_futures=True)
        results = [done[_key(each)] for each in chosen if _key(each) in done]
        tests = sorted({each.test for each in results if each.status == Status.KILLED})
        if whole and tests:
            progress(f"Running {len(tests)} tests that failed without a change")
            failing = run_tests(Path(folder, "0"), *tests)[1]
            results = [each._replace(status=Status.UNCERTAIN) if each.test in failing else each for each in results]
    return results, whole


def _key(mutant: Mutant) -> tuple[object, ...]:
    return mutant.file, mutant.line, mutant.kind, mutant.before, mutant.after


# Reporting


def report(results: Sequence[Result], project: Project, origin: str, names: Mapping[tuple[object, ...], str]) -> str:
    """Return the report: the score first, then a table of packages, the survivors and whatever gave no verdict.

    Args:
        results: of mutants.
        project: that was changed.
        origin: how the mutants were chosen; ends the first line.
        names: of mutants that were made by hand.
    """
    judged = collections.Counter(
        project.package_of(each.file) for each in results if each.status in {*KILLED, Status.SURVIVED}
    )
    killed = collections.Counter(project.package_of(each.file) for each in results if each.status in KILLED)
    low, high = wilson(killed.total(), judged.total()) if judged else (0.0, 1.0)
    share = f"{100 * killed.total() / judged.total():.1f} %" if judged else "no score"
    lines = [
        f"{killed.total()} of {judged.total()} {origin} were killed: {share} (95 % interval {100 * low:.1f} % to {100 * high:.1f} %)",
        "",
        f"{'package':<12}{'killed':>8}{'of':>6}",
        *(f"{package:<12}{killed[package]:>8}{judged[package]:>6}" for package in sorted(judged)),
    ]
    for status in Status:
        found = [each for each in results if each.status == status]
        if found and status not in KILLED:
            lines += ["", f"{len(found)}: {status}"]
            for each in found:
                name = f" ({names[each[:5]]})" if each[:5] in names else ""
                lines += [f"  {each.file}:{each.line}{name}", f"    - {each.before}", f"    + {each.after}"]
                lines += [f"    {line}" for line in each.test.splitlines()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None, project: Project | None = None) -> int:
    """Parse the command line and run.

    Args:
        arguments: of the command line.
        project: the repository by default.

    Returns:
        The exit status: 0 if no run crashed, 130 after SIGINT, 2 if the lists do not fit the code, else 1.
    """
    parser = argparse.ArgumentParser(
        prog="tools/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="number of mutants [100]")
    parser.add_argument("--by-hand", action="store_true", help="the mutants of tools/mutants.toml instead of a sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample [1]")
    parser.add_argument(
        "--only", action="append", metavar="PLACE", help=f"a package ({', '.join(PACKAGES)}), or the path of a file"
    )
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep every result there, and go on from it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at once [processors]")
    parser.add_argument("--tests", action="append", metavar="PATH", help="folder or file of tests to use [tests]")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and run nothing")
    options = parser.parse_args(arguments)
    project = project or Project(TOP)
    with tempfile.TemporaryDirectory(prefix="swapstone-mutate-", ignore_cleanup_errors=True) as folder:
        copy_checkout(project.top, Path(folder, "tree"))  # the tree may change during the run
        project = project._replace(top=Path(folder, "tree"), tests=tuple(options.tests or project.tests))
        try:
            return _run(options, project)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2


def _run(options: argparse.Namespace, project: Project) -> int:
    by_hand, equivalent = read_lists(project.top / "tools/mutants.toml", project.top)
    if options.by_hand:
        chosen, origin = list(by_hand), "mutants made by hand"
    else:
        chosen = candidates(project, options.only or ())
        origin = f"mutants, a sample of {len(chosen)} with seed {options.seed},"
        random.Random(options.seed).shuffle(chosen)  # noqa: S311 # a reproducible sample, not a secret
        chosen = chosen[: options.sample]
    count = len(chosen)
    chosen = [each for each in chosen if fingerprint(each.file, each.before, each.after) not in equivalent]
    if options.list:
        print("\n".join(f"{each.file}:{each.line}: {each.kind}: {each.before}  =>  {each.after}" for each in chosen))
        return 0
    progress(
        f"The mutants run {'in' if namespaces() else 'outside, where they can harm the machine, not in'} namespaces of their own"
    )
    results, whole = run(project, chosen, options.state, options.jobs)
    print(report(results, project, origin, {_key(each): name for each, name in by_hand.items()}))
    if len(chosen) < count:
        print(f"\n{count - len(chosen)} of the sample are equivalent by tools/mutants.toml and left out")
    if not whole:
        print(f"\ninterrupted: {len(results)} of {len(chosen)} runs were made")
        return 130
    return int(any(each.status == Status.CRASHED for each in results))
