# SPDX-License-Identifier: MIT OR Apache-2.0
"""Slow tests that passed with equal inputs are left out; any doubt, failure or change runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.input_digests import PACKAGES, PROJECTS, STATED, InputDigests, commit
from tests.reuse import DRAWN, PassedTests, drawn, unsuitable_argument

TOP = Path(__file__).parents[3]

CHECKOUT = {
    "src/swapstone/__init__.py": "",
    "src/swapstone/one.py": "",
    "src/swapstone/two.py": "",
    "src/swapstone/cli/__init__.py": "",
    "src/swapstone/cli/main.py": "from importlib import import_module",
    "src/swapstone/kind.py": "def all(): return provided('target', object)",
    "src/swapstone/other_kind.py": "def all(): return provided('suite', object)",
    "src/swapstone/any_kind.py": "def all(kind): return provided(kind, object)",
    "src/swapstone/parts/vm/part.toml": '[provides]\ntarget = ["swapstone.two:TWO"]\nsuite = ["swapstone.one:ONE"]',
    "native/agent.c": "int main(void) { return 0; }",
    "crates/lib.rs": "",
    "docs/page.md": "",
    "docs/other.md": "",
    "tests/__init__.py": "",
    "tests/conftest.py": "",
    "tests/e2e/test_crates.py": "import tests.helper",
    "tests/rust_toolchain.py": "",
    "tests/helper.py": "def use():\n    from swapstone import one",
    "tests/test_a.py": "import tests.helper",
    "tests/test_page.py": 'PAGE = "docs/page.md"',
    "tests/test_pages.py": 'PAGE = "page.md"',
    "tests/test_start.py": 'import sys\nCOMMAND = [sys.executable, "-m", "swapstone"]',
    "tests/test_code.py": 'import sys\nCOMMAND = [sys.executable, "-c", "import swapstone; print(1)"]',
    "tests/test_part.py": 'import sys\nCOMMAND = [sys.executable, "-c", "from swapstone.two import value"]',
    "tests/test_server.py": 'import sys\nCOMMAND = [sys.executable, "-c", "print(1)"]',
    "tests/test_script.py": 'COMMAND = [TOP / "swapstone"]',
    "tests/test_all.py": 'FILES = TOP.rglob("*.py")',
    "tests/test_beside.py": 'COMMAND = ["sh", Path(__file__).with_name("helper.py")]',
    "tests/test_command.py": "from swapstone.cli.main import main",
    "tests/test_computed.py": "from importlib import import_module\ndef use(name): import_module(name)",
    "tests/test_constant.py": 'import importlib\nTWO = importlib.import_module("swapstone.two")',
    "tests/test_kind.py": "import swapstone.kind",
    "tests/test_other_kind.py": "import swapstone.other_kind",
    "tests/test_any_kind.py": "import swapstone.any_kind",
    "tests/test_load.py": "from swapstone.core.model.parts import load",
    "tests/test_patched.py": 'NAME = "swapstone.two.value"',
    "tests/test_program.py": 'TOOL = TOP / "tools" / "count"',
    "tests/test_types.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from swapstone import two",
    "tools/count": "",
    "tools/count.py": "from swapstone import two",
}


def checkout(top: Path, files: Mapping[str, str] = CHECKOUT) -> Path:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    subprocess.run(["git", "init", "-q", top], check=True)
    return top


@pytest.mark.parametrize(
    ("module", "changed", "differs"),
    [
        ("test_a", "tests/test_a.py", True),
        ("test_a", "tests/helper.py", True),
        ("test_a", "tests/conftest.py", True),
        ("test_a", "tests/__init__.py", True),
        ("test_a", "src/swapstone/__init__.py", True),
        ("test_a", "src/swapstone/one.py", True),
        ("test_a", "src/swapstone/two.py", False),
        ("test_a", "tests/test_pages.py", False),
        ("test_a", "native/agent.c", True),
        ("test_a", "native/new.c", True),
        ("test_a", "tools/count", True),
        ("test_a", "docs/page.md", False),
        ("test_pages", "docs/other.md", True),
        ("test_page", "docs/other.md", False),
        ("test_page", "docs/page.md", True),
        ("test_pages", "docs/page.md", True),
        ("test_start", "src/swapstone/two.py", True),
        ("test_code", "src/swapstone/two.py", True),
        ("test_part", "src/swapstone/two.py", True),
        ("test_part", "src/swapstone/one.py", False),
        ("test_server", "src/swapstone/two.py", False),
        ("test_script", "src/swapstone/two.py", True),
        ("test_all", "tests/test_a.py", True),
        ("test_beside", "tests/helper.py", True),
        ("test_command", "src/swapstone/two.py", True),
        ("test_computed", "tools/count.py", True),
        ("test_constant", "src/swapstone/two.py", True),
        ("test_constant", "src/swapstone/one.py", False),
        ("test_kind", "src/swapstone/two.py", True),
        ("test_kind", "src/swapstone/one.py", False),
        ("test_kind", "src/swapstone/parts/vm/part.toml", True),
        ("test_other_kind", "src/swapstone/two.py", False),
        ("test_any_kind", "src/swapstone/two.py", True),
        ("test_load", "src/swapstone/two.py", True),
        ("test_patched", "src/swapstone/two.py", True),
        ("test_program", "src/swapstone/two.py", True),
        ("test_program", "src/swapstone/one.py", False),
        ("test_types", "src/swapstone/two.py", False),
        ("test_a", "crates/lib.rs", True),
        ("e2e/test_crates", "crates/lib.rs", True),
        ("e2e/test_crates", "crates/new.rs", True),
        ("e2e/test_crates", "tests/e2e/test_crates.py", True),
        ("e2e/test_crates", "tests/rust_toolchain.py", True),
        ("e2e/test_crates", "tests/helper.py", False),
        ("e2e/test_crates", "src/swapstone/one.py", False),
        ("e2e/test_crates", "native/agent.c", False),
        ("e2e/test_crates", "docs/page.md", False),
    ],
)
def test_a_digest_changes_with_what_the_module_can_reach(
    tmp_path: Path, module: str, changed: str, *, differs: bool
) -> None:
    top = checkout(tmp_path)
    before = InputDigests(top, "").of(f"tests/{module}.py")
    with (top / changed).open("a") as file:
        file.write("\n# changed\n")
    assert (InputDigests(top, "").of(f"tests/{module}.py") != before) == differs


def test_a_digest_changes_with_the_machine_and_with_what_git_lists(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    before = InputDigests(top, "a").of("tests/test_a.py")
    assert InputDigests(top, "b").of("tests/test_a.py") != before
    (top / ".gitignore").write_text("")
    without = InputDigests(top, "a").of("tests/test_a.py")
    (top / "native/agent.c").unlink()
    (top / "native/renamed.c").write_text(CHECKOUT["native/agent.c"])
    assert len({before, without, InputDigests(top, "a").of("tests/test_a.py")}) == 3


def test_the_stated_modules_exist_and_start_or_name_others() -> None:
    digests = InputDigests(TOP, "")
    for name, paths in STATED.items():
        package, _, rest = name.partition(".")
        path = PACKAGES[package] + rest.replace(".", "/")
        assert {f"{path}.py", f"{path.rstrip('/')}/__init__.py"} & digests.modules, name
        assert all((TOP / path).exists() for path in paths), name
    assert all((TOP / path).exists() for module, paths in PROJECTS.items() for path in (module, *paths))


def test_what_slow_tests_can_t_reach_is_no_input() -> None:
    """One import too many in what they share makes all of them run after each change."""
    digests = InputDigests(TOP, "")
    for module, changed in (
        ("contract/test_vm", "comparison/verdicts"),
        ("contract/test_targets", "report/formatting"),
        ("unit/workloads/test_programs", "comparison/verdicts"),
        ("unit/artifacts/test_images", "report/formatting"),
        ("unit/stats/test_fixed_inputs", "targets/host"),
        ("unit/tools/test_mutate", "targets/host"),
    ):
        inputs, _ = digests.inputs(f"tests/{module}.py")
        assert f"tests/{module}.py" in inputs and f"src/swapstone/core/{changed}.py" not in inputs, module


def test_one_of_twenty_tests_is_drawn_by_the_commit() -> None:
    names = [f"tests/test_a.py::test_{number}" for number in range(2000)]
    first, second = ({name for name in names if drawn(head, name)} for head in ("a", "b"))
    assert 2000 / DRAWN / 2 < len(first) < 2000 / DRAWN * 2
    assert first != second


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("-n 3 --dist loadfile --no-loadscope-reorder --durations 15 --exhaustive -m slow --junit-xml=a.xml", ""),
        ("--junit-xml a.xml -q", ""),
        ("-n 3 -k record", "-k"),
        ("tests/e2e/test_walk.py", "tests/e2e/test_walk.py"),
        ("-q tests/e2e/test_walk.py", "tests/e2e/test_walk.py"),
        ("-W ignore", "-W"),
        ("--deselect x", "--deselect"),
        ("--lf", "--lf"),
    ],
)
def test_results_are_reused_only_if_all_tests_run(arguments: str, found: str) -> None:
    assert unsuitable_argument(tuple(arguments.split())) == found


KEY = "0" * 64


def test_damaged_lines_are_named_and_ignored(tmp_path: Path) -> None:
    path = tmp_path / "passed"
    path.write_bytes(f"{KEY} tests/test_a.py::test_a[x y]\n".encode() + b"\xff\x00\n" + b"short tests/test_b.py::b\n")
    passed = PassedTests(path)
    assert passed.found == {(KEY, "tests/test_a.py::test_a[x y]")}
    assert passed.problem == f"{path}: 2 damaged lines are ignored"


def test_what_is_no_file_is_named_and_not_used(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "target").write_text(f"{KEY} tests/test_a.py::a\n")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "link", "folder"):
        passed = PassedTests(tmp_path / name)
        assert not passed.found
        assert passed.problem.startswith(f"{tmp_path / name} is not used: ")
        passed.add([(KEY, "tests/test_a.py::b")])
        assert passed.problem.startswith(f"{tmp_path / name} is not written: ")
        passed.prune()
    assert (tmp_path / "target").read_text() == f"{KEY} tests/test_a.py::a\n"


def test_a_long_file_keeps_its_latest_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.reuse.KEPT_LINES", 3)
    path = tmp_path / "passed"
    names = [f"tests/test_a.py::{name}" for name in "abcbdea"]
    passed = PassedTests(path)
    passed.add([(KEY, name) for name in names])
    passed.prune()
    assert path.read_text() == "0 tests/test_a.py::d\n0 tests/test_a.py::e\n0 tests/test_a.py::a\n".replace("0", KEY)
    PassedTests(path).prune()
    assert len(path.read_text().splitlines()) == 3
    passed.drop()
    assert not PassedTests(path).found


RUN = {
    "src/swapstone/__init__.py": "",
    "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npythonpath = ["src", "."]\nmarkers = ["slow: x"]\n',
    ".gitignore": "__pycache__\n.pytest_cache\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "from tests import reuse\n"
    "def pytest_addoption(parser):\n"
    "    parser.addoption('--exhaustive', action='store_true')\n"
    "    reuse.add_option(parser)\n"
    "pytest_configure = reuse.configure\n",
    "tests/test_many.py": "import os, pytest\n"
    "pytestmark = pytest.mark.slow\n"
    "@pytest.mark.parametrize('number', range(60))\n"
    "def test_many(number):\n"
    "    assert 'BREAK' not in os.environ\n"
    "def test_failing():\n"
    "    assert False\n"
    "def test_skipped():\n"
    "    pytest.skip('no')\n"
    "@pytest.fixture\n"
    "def broken_at_the_end():\n"
    "    yield\n"
    "    assert False\n"
    "def test_teardown(broken_at_the_end):\n"
    "    pass\n",
    "tests/test_short.py": "def test_short():\n    pass\n",
    "tests/style/test_rules.py": "import pytest\n@pytest.mark.slow\ndef test_rules():\n    pass\n",
}


ONLY_XDIST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
"""Other installed plugins take most of a start."""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_second_run_reuses_what_passed(tmp_path: Path, workers: str) -> None:
    top = checkout(tmp_path / "checkout", RUN)
    for name in ("tests/reuse.py", "tests/input_digests.py"):
        shutil.copy(TOP / name, top / name)
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", "-C", top, "add", "."], check=True)
    subprocess.run(["git", "-C", top, *identity, "commit", "-qm", "first"], check=True)

    def run(*arguments: str, **variables: str) -> tuple[int, int, str]:
        """Return the number of tests that passed, of those that were reused (-1: not printed), and the output."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
        result = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-n", workers, *arguments],
            cwd=top,
            env={**kept, **ONLY_XDIST, "XDG_CACHE_HOME": str(tmp_path / "cache"), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        passed = re.search(r"(\d+) passed", result.stdout)
        reused = re.search(r"^reused (\d+) results", result.stdout, re.MULTILINE)
        return int(passed[1]) if passed else 0, int(reused[1]) if reused else -1, result.stdout + result.stderr

    passed, reused, output = run()
    assert (passed, reused) == (63, 0), output
    head = commit(top)
    again = sum(drawn(head, f"tests/test_many.py::test_many[{number}]") for number in range(60))
    passed, reused, output = run()
    rest = 3  # test_short, test_rules, and the call of test_teardown
    assert (passed, reused) == (rest + again, 60 - again), output
    assert f"reused {reused} results of slow tests; {again} others with equal inputs ran anyway" in output
    if workers == "2":
        return  # the rest is the same with workers
    assert run("--exhaustive")[:2] == (63, 0)
    assert run("tests/test_many.py")[:2] == (61, -1)
    _, reused, output = run("--no-reuse", BREAK="1")
    assert reused == 0
    assert "tests/test_many.py::test_many[7] failed, but passed before with equal inputs" in output
    assert "All kept results are dropped" in output
    assert run()[:2] == (63, 0)
