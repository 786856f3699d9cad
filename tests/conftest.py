# SPDX-License-Identifier: MIT OR Apache-2.0
"""Settings of all tests: which run by default, their order, and what they share."""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import importlib
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest

from tests import reuse
from tests.no_sync import COMPARED, UNCOMPARED, leave_out_fsync
from tests.shared import Shared

# A shell that starts the tests in the background leaves SIGINT ignored, and the programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The examples of short runs depend on the test alone: a change is not blamed for what chance finds. Exhaustive runs draw others each time.
hypothesis.settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
hypothesis.settings.register_profile("short", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.register_profile("exhaustive", max_examples=1000, deadline=None)


SHORT = "not slow"
"""What `./test --quick` selects."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive", action="store_true", help="run long tests of equality and stress, and more examples"
    )
    reuse.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    # The records of tests are marked by a key of this run, not by the developer's. Workers inherit the variable.
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="swapstone-test-state-")
        os.environ["XDG_STATE_HOME"] = folder
        os.environ[UNCOMPARED] = str(digests_folder())
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    leave_out_fsync()
    if config.getoption("exhaustive"):
        os.environ[COMPARED] = "1"
    short = "quick" if config.getoption("markexpr") == SHORT else "short"
    hypothesis.settings.load_profile("exhaustive" if config.getoption("exhaustive") else short)
    reuse.configure(config)


def digests_folder() -> Path:
    """Make and return the folder of the digests of uncompared snapshots. Other code that saves machines has another one, and saves anew."""
    code = sorted((Path(__file__).parents[1] / "src/swapstone/parts/vm/machine").glob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()
    folder = reuse.cache_folder() / "uncompared-snapshots" / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the modules of a whole run before they are collected, each worker from another one on.

    The first import of a module in a new checkout rewrites its assertions, which takes most of a collection. Other workers find that done.
    """
    config = session.config
    if not (worker := getattr(config, "workerinput", None)) or config.args_source is not config.ArgsSource.TESTPATHS:
        return
    top = Path(__file__).parents[1]
    modules = [path for path in sorted(top.glob("tests/**/test_*.py")) if not pytest_ignore_collect(path, config)]
    start = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in modules[start:] + modules[:start]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(".".join(path.relative_to(top).with_suffix("").parts))


ALL_SLOW = re.compile(r"^pytestmark = (?:\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules of slow tests alone if short tests are requested: each worker would import them, and select none of their tests."""
    if config.getoption("markexpr") != SHORT or not collection_path.match("test_*.py"):
        return None
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    return (collection_path.resolve() not in named and all_slow(collection_path)) or None


def all_slow(module: Path) -> bool:
    """Return whether all tests of a module are slow, by its text; see `pytest_collection_modifyitems`."""
    text = module.read_text()
    return bool(ALL_SLOW.search(text)) or (module.parent.name == "e2e" and "mark.quick" not in text)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out exhaustive tests unless they are requested, and sort: those marked `first`, style, slow tests, short ones.

    Tests in tests/e2e are slow if their module is not marked `quick`: each starts the command line, most of them build and run programs.

    The first ones build for minutes on a new machine, and all workers take part; other tests find what they built. Short tests come last,
    so that all workers end at the same time.
    """
    if not config.getoption("exhaustive"):
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if item.path.parent.name == "e2e" and not item.get_closest_marker("quick"):
            item.add_marker("slow")
    items.sort(
        key=lambda item: (
            not item.get_closest_marker("first"),
            item.path.parent.name != "style",
            not item.get_closest_marker("slow"),
        )
    )


def pytest_collection_finish() -> None:
    """Leave the items out of garbage collections: each of these would go through ten thousand tests."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # what is frozen at the end is a leak to DuckDB's binding, which prints it


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how much processor time the tests took. Unlike their duration it depends little on what else the machine does."""
    if not terminalreporter.config.getoption("numprocesses", None):
        return  # without workers, servers of the tests still run
    used = os.times()
    seconds = used.user + used.system + used.children_user + used.children_system
    terminalreporter.write_line(f"Processor time of all workers and what they started: {seconds:.0f} s")


@pytest.fixture(scope="session")
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Return whether long tests are requested. A test repeats more often then."""
    return bool(request.config.getoption("exhaustive"))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Shared:
    """Return the folders that all workers of this run share."""
    own = tmp_path_factory.getbasetemp()
    return Shared(own.parent if hasattr(request.config, "workerinput") else own)
