# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/mutate on a small project: what is killed, what survives, and what is no verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.mutate import AGENT, PACKAGES, Project, candidates, fingerprint, main, namespaces, read_lists
from tools.mutation_operators import mutants

TOP = Path(__file__).parents[3]
MARK = "swapstone-test-of-mutate"

FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/tiny/__init__.py": "",
    "src/tiny/calc/__init__.py": "",
    "src/tiny/calc/sums.py": (
        "import functools\n"
        "import time\n"
        "LIMIT = 5\n"
        "def total(a, b):\n    return a + b\n"
        "def larger(a, b):\n    if a > b:\n        return a\n    return b\n"
        "def leave():\n    return 'ended'\n"
        "def turn():\n    while False:\n        time.sleep(1)\n    return 'turned'\n"
        "def pause():\n    return 0.25\n"
        "@functools.cache\n"
        "def remote():\n    return 'far away'\n"
    ),
    "src/tiny/other/__init__.py": "",
    "src/tiny/other/lonely.py": "def nowhere():\n    return 'here too'\n",
    "tests/unit/calc/test_sums.py": (
        "import subprocess, sys, time, pytest\n"
        "from tiny.calc import sums\n"
        "@pytest.fixture\ndef made(): return time.sleep(sums.pause()) or sums.pause()\n"
        "def test_that_needs_a_fixture(made): assert made\n"
        "def test_total(): assert sums.total(2, 3) == 5\n"
        "def test_larger(): assert sums.larger(2, 3) == sums.larger(3, 2) == 3\n"
        "def test_limit(): assert sums.LIMIT == 5\n"
        "def test_ends(): assert sums.leave() and sums.turn()\n"
        "def test_remote():\n"
        "    code = 'from tiny.calc import sums; print(sums.remote())'\n"
        "    assert subprocess.check_output([sys.executable, '-c', code], text=True) == 'far away\\n'\n"
        "def test_that_fails_without_a_change(): assert sums.total(0, 0) == 7\n"
    ),
}

ODD_FILES = {
    "src/tiny/odd/__init__.py": "",
    "src/tiny/odd/names.py": "def name():\n    return 'odd'\n",
    "tests/unit/odd/test_names.py": (  # passes only in the first run, which has several workers
        "import os\n"
        "from tiny.odd import names\n"
        "def test_name(): assert names.name() and 'PYTEST_XDIST_WORKER' in os.environ\n"
    ),
    "src/tiny/odd/files.py": "def kind():\n    return 'file'\n",
    "tests/unit/odd/test_files.py": (  # is imported only in the first run
        "import os\n"
        "from tiny.odd import files\n"
        "assert 'PYTEST_XDIST_WORKER' in os.environ\n"
        "def test_kind(): assert files.kind()\n"
    ),
}
"""Tests that fail without a change later, but not at first."""

BY_HAND = {
    "killed": ("return a + b", "return a - b"),
    "survives": ("if a > b", "if a >= b"),
    "module": ("LIMIT = 5", "LIMIT = 6"),
    "import": ("LIMIT = 5", "raise ValueError"),
    "slow fixture": ("return 0.25", "return 1.25"),
    "crash": ("return 'ended'", "__import__('os')._exit(3)"),
    "endless": ("while False", "while True"),
    "other process": ("return 'far away'", "return 'near'"),
    "leaves": (
        "return 'turned'",
        f"return __import__('subprocess').Popen(['sleep', '600', '{MARK}'], start_new_session=True)",
    ),
    "signals": ("return b", "return __import__('os').kill(-1, 9)"),
    "lonely": ("return 'here too'", "return None"),
}


def write(top: Path, files: dict[str, str], by_hand: dict[str, tuple[str, str]]) -> None:
    lines = []
    for name, (old, new) in by_hand.items():
        file = next(file for file, text in files.items() if old in text)
        lines.append(
            f"[[by-hand]]\nname = {name!r}\nfile = {file!r}\nold = {json.dumps(old)}\nnew = {json.dumps(new)}\n"
        )
    for file, text in {**files, "tools/mutants.toml": "\n".join(lines)}.items():
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    write(top, FILES, BY_HAND)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    return top


def start(project: Path, *arguments: str) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from tools import mutate\n"
        "mutate.LIMIT_S = 6\n"
        "project = mutate.Project(Path(sys.argv[1]), 'src/tiny', ('calc', 'other'), left_out=('left out',))\n"
        "sys.exit(mutate.main(sys.argv[2:], project))\n"
    )
    command = [sys.executable, "-c", code, str(project), *arguments]
    return subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def content(project: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_each_kind_of_result(project: Path, tmp_path: Path) -> None:
    before = content(project)
    state = tmp_path / "state.json"
    process = start(project, "--by-hand", "--jobs", "2", "--state", str(state))
    out, err = process.communicate(timeout=900)
    assert content(project) == before, "the tree is changed"
    by_name = dict(zip(BY_HAND.values(), BY_HAND, strict=True))
    stored = json.loads(state.read_text())
    found = {by_name[old, new]: each for each in stored for old, new in by_name if _is_of(each, old, new)}
    assert {name: each["status"] for name, each in found.items()} == {
        "killed": "killed",
        "survives": "survived",
        "module": "killed",
        "import": "killed",
        "slow fixture": "survived",
        "crash": "the test run crashed",
        "endless": "killed by the time limit",
        "other process": "killed",
        "leaves": "survived",
        "signals": "killed",
        "lonely": "survived",
    }, err
    assert found["killed"]["test"] == "tests/unit/calc/test_sums.py::test_total"
    assert found["other process"]["test"] == "tests/unit/calc/test_sums.py::test_remote"
    assert out.startswith("6 of 10 mutants made by hand were killed: 60.0 % (95 % interval 31.3 % to 83.2 %)\n")
    assert "  src/tiny/calc/sums.py:7 (survives)\n    - if a > b:\n    + if a >= b:\n" in out
    assert "1: the test run crashed\n  src/tiny/calc/sums.py:11 (crash)" in out
    assert "1 tests that fail without a change are left out tests/unit/calc/test_sums.py::test_that_fails" in err
    assert process.returncode == 1  # a crash is no verdict
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if MARK in _text(path)]

    state.write_text(json.dumps([each for each in stored if each["status"] != "the test run crashed"]))
    process = start(project, "--by-hand", "--jobs", "2", "--state", str(state))
    again, err = process.communicate(timeout=900)
    assert again == out and "\n1 of 1 runs: " in err  # only the one that is not in the file


def _is_of(result: dict[str, str], old: str, new: str) -> bool:
    return old in result["before"] and new in result["after"]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.slow
def test_a_test_that_also_fails_without_the_change_is_no_verdict(project: Path) -> None:
    write(
        project,
        FILES | ODD_FILES,
        {"name": ("return 'odd'", "return 'even'"), "not imported": ("return 'file'", "return 'folder'")},
    )
    out, err = start(project, "--by-hand").communicate(timeout=900)
    assert out.startswith("0 of 0 mutants made by hand were killed: no score"), err
    assert "\n2: the test that failed also fails without the change\n  src/tiny/odd/names.py:2 (name)\n" in out


@pytest.mark.slow
@pytest.mark.exhaustive  # the first test goes on from a file of results
def test_sigint_ends_the_run_with_what_it_has(project: Path) -> None:
    process = start(project, "--sample", "30", "--jobs", "1")
    assert process.stderr
    for line in process.stderr:
        if line.startswith("2 of "):
            process.send_signal(signal.SIGINT)
            break
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "\ninterrupted: " in out and "mutants, a sample of " in out


@pytest.mark.slow
def test_a_list_that_does_not_fit_the_code_is_an_error(project: Path) -> None:
    (project / "src/tiny/calc/sums.py").write_text("LIMIT = 5\n")
    process = start(project, "--by-hand")
    _, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "src/tiny/calc/sums.py contains this text 0 times, not once: return a + b" in err


def test_samples_depend_on_the_seed_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = Project(project, "src/tiny", ("calc", "other"))

    def drawn(*arguments: str) -> list[str]:
        assert main(["--list", *arguments], tiny) == 0
        return capsys.readouterr().out.splitlines()

    first, same, other = (drawn("--sample", "5", "--seed", seed) for seed in ("1", "1", "2"))
    assert first == same != other
    assert len(set(first)) == 5
    assert len(drawn("--sample", "10000")) == len(candidates(tiny))


def test_mutants_of_packages_and_of_files(project: Path) -> None:
    tiny = Project(project, "src/tiny", ("calc", "other"))
    every = candidates(tiny)
    file = "src/tiny/calc/sums.py"
    of_file, of_package = candidates(tiny, (file,)), candidates(tiny, ("calc",))
    assert {each.file for each in of_file} == {file}
    assert of_package == [each for each in every if each.file.startswith("src/tiny/calc/")]
    assert of_file == [each for each in every if each.file == file]
    assert candidates(tiny, (file, "calc", "other")) == every
    with pytest.raises(ValueError, match=r"^--only src is neither a package \(calc, other\) nor a file of one\.$"):
        candidates(tiny, ("src",))


def test_the_lists_fit_the_code() -> None:
    by_hand, equivalent = read_lists(TOP / "tools/mutants.toml", TOP)
    assert len(by_hand) >= 14
    files = {file: (TOP / file).read_bytes() for file, *_ in equivalent}
    made = {fingerprint(file, each.before, each.after) for file in files for each in mutants(file, files[file])}
    assert not equivalent - made, "these are no mutants any more"


def test_every_package_has_files() -> None:
    project = Project(TOP)
    assert all(project.files(package) for package in PACKAGES)
    assert project.package_of("src/swapstone/core/record/reader.py") == "record"
    assert project.package_of("native/agent/trial.c") == "agent"
    own, others = project.tests_of(["record"])
    assert own and all("/record/" in name for name in own)
    assert others and not {*own} & {*others}
    assert project.tests_of([AGENT])[1] == []


need_namespaces = pytest.mark.skipif(not namespaces(), reason="no namespaces here")


def inside(code: str, *arguments: Path) -> str:
    """Run Python code where a mutant is tested; return what it prints."""
    command = [*namespaces(), sys.executable, "-c", f"import os, signal, subprocess, sys\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@need_namespaces
def test_a_signal_to_all_processes_ends_none_outside() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as outside:
        code = "print(os.getpid(), sorted(int(name) for name in os.listdir('/proc') if name.isdigit()), flush=True)\n"
        seen = inside(code + "os.getpid() == 2 and os.kill(-1, signal.SIGKILL)")
        alive = outside.poll() is None
        outside.kill()
    assert alive
    assert seen == "2 [1, 2]\n"  # process 1 is a shell that waits


@need_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_a_mount_does_not_reach_the_machine(tmp_path: Path) -> None:
    code = (
        "subprocess.run(['mount', '-t', 'tmpfs', 'none', sys.argv[1]], check=True); print(os.path.ismount(sys.argv[1]))"
    )
    assert inside(code, tmp_path) == "True\n"
    assert not tmp_path.is_mount()


@need_namespaces
def test_what_a_mutant_started_ends_with_it(tmp_path: Path) -> None:
    inside("subprocess.Popen(['sleep', '600'], start_new_session=True, cwd=sys.argv[1], stdout=2)", tmp_path)
    links = [path for path in Path("/proc").glob("[0-9]*/cwd") if os.access(path, os.R_OK)]
    assert not [path for path in links if path.exists() and path.resolve() == tmp_path]
