# SPDX-License-Identifier: MIT OR Apache-2.0
"""Slow tests that passed before with equal inputs are not run again: see docs/test-suite.md.

The process that starts the workers (or the only process) reads the file of passed tests, decides which are not run, passes their names to
the workers, so that all collect the same, and appends tests to the file as they pass.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.input_digests import InputDigests, commit, listed_files, outside

TOP = Path(__file__).parents[1]
REUSABLE = "reusable"
"""A keyword of the tests whose results are reused."""

DRAWN = 20
"""Of so many tests that passed before with equal inputs, one runs anyway."""

LONGEST_BYTES = 32 << 20
KEPT_LINES = 50_000
"""About 25 runs of all slow tests."""

BETWEEN_WRITES_S = 10

_LINE = re.compile(r"(?P<key>[0-9a-f]{64}) (?P<name>tests/\S.*)")
_HARMLESS = re.compile(
    r"-n=?.*|--dist.*|--no-loadscope-reorder|--durations.*|--junit-?xml.*|-[qvx]+|--maxfail.*|--exhaustive|--no-reuse|-m"
)
_REPORTS = {"--junit-xml", "--junitxml"}
_VALUES = re.compile(r"\d+|loadfile|slow")


def cache_folder() -> Path:
    """Return the folder of the program's cache, without an import of the program."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "swapstone")


class PassedTests:
    """A file with a line for each test that passed: the digest of its inputs, and its name."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Args:
            path: of the file, which may be absent or damaged.
        """
        self.path = path
        self.found: set[tuple[str, str]] = set()
        self.problem = ""
        self._lines = 0
        try:
            lines = self._read().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem = f"{path} is not used: {error.strerror or error}"
            return
        self._lines = len(lines)
        matches = [match for line in lines if (match := _LINE.fullmatch(line))]
        self.found = {(match["key"], match["name"]) for match in matches}
        if len(matches) < len(lines):
            self.problem = f"{path}: {len(lines) - len(matches)} damaged lines are ignored"

    def _open(self, flags: int) -> int:
        """Open the file if it is a regular file of this user. Do not wait for a FIFO, follow no link."""
        descriptor = os.open(self.path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_size > LONGEST_BYTES:
            os.close(descriptor)
            raise OSError("it is not a file of this user, or too large")
        return descriptor

    def _read(self) -> str:
        with os.fdopen(self._open(os.O_RDONLY), "rb") as file:
            return file.read(LONGEST_BYTES).decode(errors="replace")

    def add(self, passed: list[tuple[str, str]]) -> None:
        """Append tests that passed: their digests and names."""
        if not passed:
            return
        text = "".join(f"{key} {name}\n" for key, name in passed if _LINE.fullmatch(f"{key} {name}"))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(self._open(os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab", buffering=0) as file:
                file.write(text.encode())  # one write: another run may append, too
        except OSError as error:
            self.problem = f"{self.path} is not written: {error.strerror or error}"
        self._lines += len(passed)

    def prune(self) -> None:
        """Keep the latest lines of a file that has become long."""
        if self._lines <= 2 * KEPT_LINES and not self.problem:
            return
        try:
            lines = [line for line in self._read().splitlines() if _LINE.fullmatch(line)]
            kept = list(dict.fromkeys(reversed(lines)))[:KEPT_LINES]
            new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            new.write_text("".join(line + "\n" for line in reversed(kept)))
            new.replace(self.path)
        except OSError:
            return  # the next run tries again, or ignores the file

    def drop(self) -> None:
        """Forget all."""
        self.found = set()
        with contextlib.suppress(OSError):
            self.path.unlink()


def drawn(head: str, name: str) -> bool:
    """Return whether a test runs anyway at a commit."""
    return int(hashlib.sha256(f"{head} {name}".encode()).hexdigest(), 16) % DRAWN == 0


def unsuitable_argument(arguments: tuple[str, ...]) -> str:
    """Return the first argument of pytest with which tests are not those of every run, e.g. the name of a test, or an empty string."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        is_value = before in _REPORTS or (before.startswith("-") and _VALUES.fullmatch(argument))
        if not is_value and not _HARMLESS.fullmatch(argument):
            return argument
    return ""


class Selection:
    """Marks the tests whose results may be reused and leaves out those that need not run, in each process that collects tests."""

    def __init__(self, names: frozenset[str]) -> None:
        """Keep the names of tests that are left out."""
        self._names = names
        self.left_out: list[str] = []

    @pytest.hookimpl(trylast=True)  # after -m has selected
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out tests. See `reusable` for which."""
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            if not reusable(item):
                kept.append(item)
                continue
            item.keywords[REUSABLE] = True  # its reports have it, too
            (left_out if item.nodeid in self._names else kept).append(item)
        self.left_out = [item.nodeid for item in left_out]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Report the tests that were left out to the process that started this worker."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["reused"] = self.left_out


def reusable(item: pytest.Item) -> bool:
    """Return whether a test's result may be reused: if it is slow, and not of style."""
    return item.get_closest_marker("slow") is not None and item.path.parent.name != "style"


class Results:
    """Decides which tests are left out, and keeps those that pass, in the process that starts the workers or runs the tests."""

    def __init__(
        self, inputs: InputDigests, passed: PassedTests, *, setting: str, head: str, reuse: bool, top: Path
    ) -> None:
        """Decide.

        Args:
            inputs: digests of the modules of tests.
            passed: tests that passed before.
            setting: how the tests run; results with another setting are not reused.
            head: the commit, which decides which tests run anyway.
            reuse: whether tests are left out at all.
            top: the checkout.
        """
        self._inputs = inputs
        self._passed = passed
        self._setting = setting
        self._top = top
        self._state = state(top)
        self._keys: dict[str, str] = {}
        self._equal = {name for key, name in passed.found if key == self.key(name)}
        self.names = frozenset(name for name in self._equal if reuse and not drawn(head, name))
        self.selection: Selection | None = None
        self._outcomes: dict[str, list[bool]] = {}
        self._waiting: list[tuple[str, str]] = []
        self._written_s = time.monotonic()
        self._again: set[str] = set()
        self._reused: list[str] = []
        self._failed: list[str] = []
        self._changed = False

    def key(self, name: str) -> str:
        """Return the digest of a test's inputs by its name, or an empty string if its module does not exist."""
        path = name.partition("::")[0]
        if path not in self._keys:
            known = path in self._inputs.modules
            self._keys[path] = (
                hashlib.sha256(f"{self._setting} {self._inputs.of(path)}".encode()).hexdigest() if known else ""
            )
        return self._keys[path]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass a worker the names of tests that it leaves out."""
        node.workerinput["reused"] = sorted(self.names)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker has left out: all workers leave out the same."""
        self._reused = getattr(node, "workeroutput", {}).get("reused", self._reused)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a test whose set-up, call and teardown passed."""
        if REUSABLE not in report.keywords:
            return
        name = report.nodeid
        if name in self._equal:
            self._again.add(name)
            if report.failed:
                self._failed.append(name)
                self._passed.drop()
        outcomes = self._outcomes.setdefault(name, [])
        outcomes.append(report.passed)
        if report.when == "teardown":
            del self._outcomes[name]
            if outcomes == [True, True, True] and (key := self.key(name)):
                self._waiting.append((key, name))
        if time.monotonic() - self._written_s > BETWEEN_WRITES_S:
            self._write()

    def _write(self) -> None:
        """Write tests that passed, unless a file was changed meanwhile: it is not known which of its contents a test has read."""
        self._changed = self._changed or state(self._top) != self._state
        if not self._changed:
            self._passed.add(self._waiting)
        self._waiting = []
        self._written_s = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the rest, and the reused tests as the latest."""
        if self.selection is not None and self.selection.left_out:
            self._reused = self.selection.left_out
        if not self._failed:
            self._waiting += [(self.key(name), name) for name in self._reused]
        self._write()
        self._passed.prune()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how many results were reused, and each problem."""
        again = (
            f"{len(self._again)} others with equal inputs ran anyway"
            if self.names or self._again
            else "none had equal inputs"
        )
        terminalreporter.write_line(f"reused {len(self._reused)} results of slow tests; {again}")
        if self._passed.problem:
            terminalreporter.write_line(f"results of tests: {self._passed.problem}")
        if self._changed:
            terminalreporter.write_line(
                "results of tests: a file was changed during the run; what passed afterwards is not kept"
            )
        for name in dict.fromkeys(self._failed):
            terminalreporter.write_line(f"{name} failed, but passed before with equal inputs", red=True)
        if self._failed:
            terminalreporter.write_line(
                "All kept results are dropped: an input is missing in tests/input_digests.py, or these tests are not deterministic. "
                "./test --no-reuse runs what was reused.",
                red=True,
            )


def state(top: Path) -> dict[str, tuple[int, int, int]]:
    """Return number, size and time of each file in a checkout that git does not ignore; the errors are those of `listed_files`."""
    found = {}
    for name in listed_files(top):
        with contextlib.suppress(OSError):
            status = (top / name).lstat()
            found[name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def add_option(parser: pytest.Parser) -> None:
    """Add the option of pytest."""
    parser.addoption("--no-reuse", action="store_true", help="run slow tests, too, that passed with equal inputs")


def configure(config: pytest.Config) -> None:
    """Register what reuses results, if the tests are those of every run."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Selection(frozenset(config.workerinput.get("reused", ()))))
        return
    if config.option.collectonly or unsuitable_argument(config.invocation_params.args):
        return
    if config.getoption("markexpr") not in {"", "slow"}:
        return
    try:
        results = Results(
            InputDigests(TOP, outside()),
            PassedTests(cache_folder() / "passed-tests"),
            setting="exhaustive" if config.getoption("exhaustive") else "usual",
            head=commit(TOP),
            reuse=not config.getoption("no_reuse"),
            top=TOP,
        )
    except (OSError, subprocess.CalledProcessError, SyntaxError, ValueError) as error:
        sys.stderr.write(f"no results of tests are reused: {error}\n")
        return
    if not config.getoption("numprocesses", None):
        results.selection = Selection(results.names)
        config.pluginmanager.register(results.selection)
    config.pluginmanager.register(results)
