# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs tests against one mutant at a time, in copies of the tree.

For each mutant a keeper process is forked, which forks the process that runs pytest. The large libraries are imported once, before.
The keeper enforces the time limit, and afterwards kills every process that the tests left: it is their subreaper (prctl(2)).
The process under test has a PID and a mount namespace of its own where the machine allows that.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import enum
import importlib
import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tools import mutation_namespace
from tools.mutation_operators import Mutant

PRELOADED = ("numpy", "scipy.stats", "msgspec", "click", "jinja2", "rich.table", "duckdb")
"""Imported before the forks. Plugins of pytest are not: it must import them itself."""

IMPORT_S = 60.0
"""Time to import the tests, in addition to the longest limit of a test."""

SETUP_S = 300.0
"""Time for the fixtures of a test, in addition to its limit. What several tests need, such as the compiled agent, is made in the set-up of
whichever runs first, and this is another one than before."""

MEMORY_BYTES = 6 << 30
"""Address space of a process under test: a mutant may allocate without end."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")


class Status(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "killed by the time limit"
    SURVIVED = "survived"
    UNTESTED = "survived: no test calls it"
    INVALID = "does not compile"
    EQUAL = "compiles to the same program"
    CRASHED = "the test run crashed"
    UNCERTAIN = "the test that failed also fails without the change"

    @property
    def killed(self) -> bool:
        """Return whether the tests found the change."""
        return self in {Status.KILLED, Status.TIMED_OUT}

    @property
    def survived(self) -> bool:
        """Return whether the tests passed despite the change."""
        return self in {Status.SURVIVED, Status.UNTESTED}


@dataclasses.dataclass(frozen=True)
class Result:
    """The run of one mutant.

    Attributes:
        mutant: None for a control, a run of unchanged code.
        status: what became of it.
        test: the first test that failed; empty if none did.
        tests: how many were chosen.
        seconds: how long it took.
        detail: end of the log of a run that crashed.
    """

    mutant: Mutant | None
    status: Status
    test: str = ""
    tests: int = 0
    seconds: float = 0.0
    detail: str = ""


def preload() -> None:
    """Import the large libraries, so that forks need not."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def copy_tree(top: Path, folder: Path) -> None:
    """Copy a tree: of a checkout the files that git does not ignore. ``.venv`` is linked.

    Args:
        top: of the tree.
        folder: does not exist yet.
    """
    if (top / ".git").exists():
        command = ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (top / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(top / name, folder / name, follow_symlinks=False)
    else:
        shutil.copytree(top, folder, symlinks=True, ignore=_LEFT_OUT)
    if (top / ".venv").exists():
        (folder / ".venv").symlink_to((top / ".venv").resolve())


class Slot:
    """A copied tree in which one mutant at a time is tested.

    Args:
        top: the tree that is copied.
        folder: where; does not exist yet.
    """

    _changes = 0

    def __init__(self, top: Path, folder: Path) -> None:
        self.tree, self.scratch = folder / "tree", folder / "s"
        folder.mkdir(parents=True)
        copy_tree(top, self.tree)
        self.mutant: Mutant | None = None
        self.keeper = 0
        self._original = b""
        self._time = 0.0
        self._tests = 0
        self._began = 0.0

    def start(self, mutant: Mutant | None, tests: Mapping[str, float]) -> None:
        """Fork the keeper of a run.

        Args:
            mutant: None for a control.
            tests: the time limit of each test, in seconds, by its node identifier. They run in this order, to the first failure.
        """
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        self.mutant, self._tests, self._began = mutant, len(tests), time.monotonic()
        if mutant:
            path = self.tree / mutant.file
            self._original, self._time = path.read_bytes(), path.stat().st_mtime
            path.write_bytes(mutant.applied(self._original))
            # Compiled modules are recognised by time in whole seconds and size: each change needs a time of its own.
            Slot._changes += 1
            os.utime(path, (Slot._changes, Slot._changes))
        sys.stdout.flush()
        sys.stderr.flush()
        self.keeper = os.fork()
        if self.keeper == 0:
            _keep(self.tree, self.scratch, mutant, tests)

    def finish(self) -> Result:
        """Return the result after the keeper has ended, and undo the change."""
        mutant, self.keeper = self.mutant, 0
        if mutant:
            (self.tree / mutant.file).write_bytes(self._original)
            os.utime(self.tree / mutant.file, (self._time, self._time))
        seconds = time.monotonic() - self._began
        try:
            found = json.loads((self.scratch / "result.json").read_text())
        except (OSError, ValueError):
            found = {"status": Status.CRASHED.value, "test": ""}
        status = Status(found["status"])
        detail = "\n".join(_text(self.scratch / "log").splitlines()[-15:]) if status is Status.CRASHED else ""
        return Result(mutant, status, found["test"], self._tests, round(seconds, 2), detail)

    def stop(self) -> None:
        """End a run."""
        if self.keeper:
            os.kill(self.keeper, signal.SIGTERM)
            os.waitpid(self.keeper, 0)
            self.keeper = 0


def build_agent(tree: Path, folder: Path) -> bytes | None:
    """Compile the agent of a tree; return the program, or None if that fails.

    Args:
        tree: top of the tree.
        folder: for the program.
    """
    code = "import sys; from pathlib import Path; from swapstone.core.targets.agent_build import build_agent\n"
    code += "sys.stdout.write(str(build_agent(Path(sys.argv[1]))))"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-c", code, str(folder)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Path(result.stdout).read_bytes() if result.returncode == 0 else None


def _keep(tree: Path, scratch: Path, mutant: Mutant | None, tests: Mapping[str, float]) -> NoReturn:
    """Run the tests of one mutant and write the result; the body of the keeper process."""
    try:
        os.setsid()  # without the terminal's SIGINT
        control = ctypes.CDLL(None).prctl
        control(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        control(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        found = _kept(tree, scratch, mutant, tests)
        (scratch / "result.json").write_text(json.dumps(found))
    except SystemExit:
        pass
    finally:
        _kill_descendants()
        os._exit(0)


def _kept(tree: Path, scratch: Path, mutant: Mutant | None, tests: Mapping[str, float]) -> dict[str, str]:
    if mutant and mutant.file.endswith(".c"):
        program = build_agent(tree, scratch / "agent")
        if program is None:
            return {"status": Status.INVALID.value, "test": ""}
        unchanged = scratch.parent / "agent"
        if unchanged.exists() and unchanged.read_bytes() == program:
            return {"status": Status.EQUAL.value, "test": ""}
    package = "agent" if mutant is None or mutant.file.endswith(".c") else mutant.file.split("/")[2]
    own = {test: limit_s for test, limit_s in tests.items() if f"/{package}/" in test.partition("::")[0]}
    rest = {test: limit_s for test, limit_s in tests.items() if test not in own}
    found = {"status": Status.SURVIVED.value, "test": ""}
    for part in filter(None, (own, rest)):  # pytest imports the files of the second part only if the first part passed
        found = _run_part(tree, scratch, part)
        if found["status"] != Status.SURVIVED.value:
            break
    return found


def _run_part(tree: Path, scratch: Path, tests: Mapping[str, float]) -> dict[str, str]:
    """Run pytest in a child; end it if a test exceeds its limit, or if the import of the tests takes longer than any test may."""
    for name in ("report.json", "current"):
        (scratch / name).unlink(missing_ok=True)
    shutil.rmtree(scratch / "tmp", ignore_errors=True)
    child = os.fork()
    if child == 0:
        _test(tree, scratch, tuple(tests))
    current, end = "", time.monotonic() + max(tests.values()) + IMPORT_S
    while True:
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            return _judged(scratch)
        running = _text(scratch / "current")
        phase, _, test = running.partition(" ")
        if test in tests and running != current:
            current, end = running, time.monotonic() + tests[test] + (0.0 if phase == "call" else SETUP_S)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"status": Status.TIMED_OUT.value, "test": current.partition(" ")[2]}
        time.sleep(0.01)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _judged(scratch: Path) -> dict[str, str]:
    """Return the status from what the plugin wrote. A run that ended without it crashed, which is no verdict of a test."""
    try:
        report = json.loads((scratch / "report.json").read_text())
    except (OSError, ValueError):
        return {"status": Status.CRASHED.value, "test": ""}
    if report["failed"] and not report["internal"]:
        return {"status": Status.KILLED.value, "test": report["failed"][0]}
    passed = report["status"] == pytest.ExitCode.OK and not report["internal"]
    return {"status": (Status.SURVIVED if passed else Status.CRASHED).value, "test": ""}


def _kill_descendants() -> None:
    """Kill all processes below this one. A process whose parent is killed becomes a child of this one."""
    me = os.getpid()
    for _ in range(1000):
        children = [pid for pid, parent in _processes() if parent == me]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _processes() -> list[tuple[int, int]]:
    """Return the number of each process, with that of its parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue
            found.append((int(entry.name), int(text.rpartition(")")[2].split()[1])))
    return found


class Chosen:
    """A plugin of pytest that runs chosen tests in a given order, and keeps what failed."""

    def __init__(self, tests: Sequence[str], current: Path) -> None:
        self._current = current
        self._places = {test: place for place, test in enumerate(tests)}
        self.failed: list[str] = []
        self.internal = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, in their order."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._places), key=lambda item: self._places[item.nodeid]
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Write whose fixtures are made, for the time limit."""
        self._current.write_text(f"setup {item.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Write which test runs, for its time limit."""
        self._current.write_text(f"call {item.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Write whose fixtures are closed, for the time limit."""
        self._current.write_text(f"teardown {item.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Keep a failure, or a file that can't be imported: an error of the changed module."""
        if report.failed:
            self.failed.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_internalerror(self) -> None:
        """Keep that pytest itself failed."""
        self.internal = True


def _test(tree: Path, scratch: Path, tests: Sequence[str]) -> NoReturn:
    """Run pytest in the copied tree; the body of the process under test."""
    try:
        if not mutation_namespace.obstacle():
            mutation_namespace.enter()
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _redirect(scratch / "log")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        _use_tree(tree, scratch)
        chosen = Chosen(tests, scratch / "current")
        files = sorted({test.partition("::")[0] for test in tests})
        options = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={scratch / 't'}", "-m", "not slow"]
        if importlib.util.find_spec("_hypothesis_pytestplugin"):
            options.append("--hypothesis-seed=0")
        status = pytest.main([*options, *files], plugins=[chosen])
        report: dict[str, Any] = {"status": int(status), "failed": chosen.failed, "internal": chosen.internal}
        (scratch / "report.tmp").write_text(json.dumps(report))
        (scratch / "report.tmp").rename(scratch / "report.json")
    finally:
        os._exit(0)


def _redirect(log: Path) -> None:
    null, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for number, target in enumerate((null, file, file)):
        os.dup2(target, number)


def _use_tree(tree: Path, scratch: Path) -> None:
    """Make this process one that was started in the copied tree: folder, environment, and modules to import."""
    shutil.rmtree(tree / ".hypothesis", ignore_errors=True)  # examples that failed for another mutant
    os.chdir(tree)
    (scratch / "tmp").mkdir()
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "SWAPSTONE_"))]:
        del os.environ[name]
    os.environ |= {"PYTHONPATH": str(tree / "src"), "TMPDIR": str(scratch / "tmp")}
    top = Path(__file__).resolve().parent.parent
    inside = [str(top), str(top / "src"), str(top / "tools")]
    sys.path[:] = [str(tree / "src"), *(path for path in sys.path if path not in inside)]
    for name, module in list(sys.modules.items()):
        if name == "__main__":
            continue
        place = str(getattr(module, "__file__", None) or "")
        if name.partition(".")[0] in {"swapstone", "tests", "tools", "benchmarks"} or (
            place.startswith(f"{top}/") and "/.venv/" not in place
        ):
            del sys.modules[name]
    sys.argv = ["pytest"]
