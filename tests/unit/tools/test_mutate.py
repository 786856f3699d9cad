# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/mutate on a small project: what is killed, what survives, and what is no verdict."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.mutate import PACKAGES, CallMap, Project, candidates, main, read_lists, sample
from tools.mutation_operators import Mutant

TOP = Path(__file__).parents[3]
MARK = "swapstone-test-of-mutate"
AGENT_TEST = "tests/unit/agent/test_a.py::a"

FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/tiny/__init__.py": "",
    "src/tiny/calc/__init__.py": "",
    "src/tiny/calc/sums.py": (
        "import functools\n"
        "LIMIT = 5\n"
        "def total(a, b):\n    return a + b\n"
        "def larger(a, b):\n    return a if a > b else b\n"
        "def leave():\n    return 'ended'\n"
        "def turn():\n    while False:\n        continue\n    return 'turned'\n"
        "def pause():\n    return 0.25\n"
        "@functools.cache\n"
        "def remote():\n    return 'far away'\n"
    ),
    "src/tiny/other/__init__.py": "",
    "src/tiny/other/lonely.py": "def nowhere():\n    return 'here too'\n",
    "src/tiny/odd/__init__.py": "",
    "src/tiny/odd/names.py": "def name():\n    return 'odd'\n",
    "tests/unit/odd/test_names.py": (  # passes only in the run that makes the map
        "import os\n"
        "from tiny.odd import names\n"
        "def test_name(): assert names.name() and 'CALL_MAP_CALLS' in os.environ\n"
    ),
    "src/tiny/odd/files.py": "def kind():\n    return 'file'\n",
    "tests/unit/odd/test_files.py": (  # is imported only in the run that makes the map
        "import os\n"
        "from tiny.odd import files\n"
        "assert 'CALL_MAP_CALLS' in os.environ\n"
        "def test_kind(): assert files.kind()\n"
    ),
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

BY_HAND = {
    "killed": ("return a + b", "return a - b"),
    "survives": ("if a > b", "if a >= b"),
    "module": ("LIMIT = 5", "LIMIT = 6"),
    "import": ("LIMIT = 5", "raise ValueError"),
    "slow fixture": ("return 0.25", "return 7.25"),
    "crash": ("return 'ended'", "__import__('os')._exit(0)"),
    "endless": ("while False", "while True"),
    "other process": ("return 'far away'", "return 'near'"),
    "leaves": (
        "return 'turned'",
        f"return __import__('subprocess').Popen(['sleep', '600', '{MARK}'], start_new_session=True)",
    ),
    "lonely": ("return 'here too'", "return None"),
    "uncertain": ("return 'odd'", "return 'even'"),
    "not imported": ("return 'file'", "return 'folder'"),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    lines = []
    for name, (old, new) in BY_HAND.items():
        file = next(file for file, text in FILES.items() if old in text)
        lines.append(
            f"[[by-hand]]\nname = {name!r}\nfile = {file!r}\nold = {json.dumps(old)}\nnew = {json.dumps(new)}\n"
        )
    for file, text in {**FILES, "tools/mutants.toml": "\n".join(lines)}.items():
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).write_text(text)
    return top


def start(project: Path, *arguments: str) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from tools import mutate\n"
        "mutate.GRACE_S = 6.0\n"
        "top = Path(sys.argv[1])\n"
        "project = mutate.Project(top, source='src/tiny', packages=('calc', 'other'), left_out=())\n"
        "sys.exit(mutate.main(sys.argv[2:], project, top.parent / 'map.json'))\n"
    )
    command = [sys.executable, "-c", code, str(project), *arguments]
    return subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def content(project: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_each_kind_of_result(project: Path, tmp_path: Path) -> None:
    before = content(project)
    process = start(project, "--by-hand", "--jobs", "2", "--json", str(tmp_path / "out.json"))
    out, err = process.communicate(timeout=900)
    assert content(project) == before, "the tree is changed"
    stored = json.loads((tmp_path / "out.json").read_text())
    by_name = dict(zip(BY_HAND.values(), BY_HAND, strict=True))
    found = {by_name[old, new]: each for each in stored["results"] for old, new in by_name if _is_of(each, old, new)}
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
        "lonely": "survived: no test calls it",
        "uncertain": "the test that failed also fails without the change",
        "not imported": "the test that failed also fails without the change",
    }, err
    assert found["killed"]["test"] == "tests/unit/calc/test_sums.py::test_total"
    assert found["other process"]["test"] == "tests/unit/calc/test_sums.py::test_remote"
    assert found["survives"]["tests"] == 1  # those that call the function
    assert found["module"]["tests"] == 6
    assert (stored["controls"], stored["controls_passed"]) == (1, 1)
    assert out.startswith("5 of 9 mutants made by hand were killed: 55.6 % (95 % interval 26.7 % to 81.1 %)\n")
    assert (
        "  src/tiny/calc/sums.py:6 (survives)\n    - return a if a > b else b\n    + return a if a >= b else b\n" in out
    )
    assert "1: the test run crashed\n  src/tiny/calc/sums.py:8 (crash)" in out
    assert "1 of 1 runs of unchanged code passed" in out
    assert "Tests that fail without a change are left out (1): tests/unit/calc/test_sums.py::test_that_fails" in err
    assert process.returncode == 1  # a crash is no verdict
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if MARK in _text(path)]


def _is_of(result: dict[str, str], old: str, new: str) -> bool:
    return old in result["before"] and new in result["after"]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.slow
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


def test_samples_depend_on_the_seed_alone(project: Path) -> None:
    tiny = Project(project, source="src/tiny", packages=("calc", "other"), left_out=())
    every = candidates(tiny)
    drawn = [sample(every, 5, seed, project) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 5
    assert len(sample(every, 10_000, 1, project)) <= len(every)


def test_mutants_of_packages_and_of_files(project: Path) -> None:
    tiny = Project(project, source="src/tiny", packages=("calc", "other"), left_out=())
    every = candidates(tiny)
    file = "src/tiny/calc/sums.py"
    of_file, of_package = candidates(tiny, (file,)), candidates(tiny, ("calc",))
    assert {each.file for each in of_file} == {file}
    assert of_package == [each for each in every if each.file.startswith("src/tiny/calc/")]
    assert of_file == [each for each in every if each.file == file]
    assert candidates(tiny, (file, "calc", "other")) == every
    with pytest.raises(ValueError, match=r"^--only src is neither a package \(calc, other\) nor a file of one\.$"):
        candidates(tiny, ("src",))


def test_the_limit_of_time_is_for_tests_of_python_code() -> None:
    calls = CallMap({"tests/unit/run/test_a.py::a": 3.0, "tests/unit/run/test_a.py::b": 4.0, AGENT_TEST: 50.0})
    calls.calls["run/x.py", "f"] = {*calls.seconds} - {AGENT_TEST}
    python = Mutant("src/swapstone/run/x.py", 1, "f", "constant", 0, 1, b"2", "1", "2")
    agent = dataclasses.replace(python, file="native/agent/trial.c", function="")
    project = Project(TOP)
    assert [len(calls.tests(project, python, most_s)) for most_s in (2.9, 3.0, 6.9, 7.0)] == [0, 1, 1, 2]
    assert calls.tests(project, agent, 1.0) == (AGENT_TEST,)


def test_the_parts_of_a_sample_are_the_sample(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = Project(project, source="src/tiny", packages=("calc", "other"), left_out=())

    def listed(*arguments: str) -> list[str]:
        assert main(["--sample", "7", "--list", *arguments], tiny, tmp_path / "map.json") == 0
        return capsys.readouterr().out.splitlines()

    whole, parts = listed(), [listed("--part", f"{number}/3") for number in (1, 2, 3)]
    assert [len(each) for each in parts] == [3, 2, 2]
    assert sorted(line for each in parts for line in each) == sorted(whole)
    for wrong in ("0/3", "4/3", "2", "a/b"):
        with pytest.raises(SystemExit):
            main(["--list", "--part", wrong], tiny, tmp_path / "map.json")


def test_the_lists_fit_the_code() -> None:
    lists = read_lists(TOP / "tools/mutants.toml", TOP)
    assert len(lists.by_hand) >= 14
    for file, before, after in lists.equivalent:
        lines = {" ".join(line.split()) for line in (TOP / file).read_text().splitlines()}
        assert before in lines, f"{file} has no such line any more: {before}"
        assert before != after


def test_every_package_has_files() -> None:
    project = Project(TOP)
    assert all(project.files(package) for package in PACKAGES)
    assert project.package_of("src/swapstone/core/record/reader.py") == "record"
    assert project.package_of("native/agent/trial.c") == "agent"
