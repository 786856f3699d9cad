# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone gate` with a small repository: what passes without a run, what fails, and what is never taken for a pass."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swapstone.core.model.directories import cache_dir
from swapstone.core.record import load
from swapstone.parts.cluster.content_store import RUNS, ContentStore, get_run, put_run
from swapstone.parts.gate.gate_file import decode_gate
from tests.contract.vm_images import need_emulator
from tests.e2e.cli import swapstone
from tests.programs import require
from tests.unit.gate.repositories import SmallRepository


@pytest.fixture
def small(tmp_path: Path) -> SmallRepository:
    require("git", "make", "cc")
    return SmallRepository(tmp_path / "small")


def gate(
    small: SmallRepository, *arguments: str, expect: int | frozenset[int], out: str = "gate", **variables: str
) -> dict[str, Any]:
    """Run a gate, and return its JSON."""
    file = small.folder.parent / f"{out}.json"
    forge = dict.fromkeys(("GITHUB_EVENT_NAME", "GITHUB_REF", "CI_MERGE_REQUEST_EVENT_TYPE"), "")
    state = {"XDG_STATE_HOME": str(small.folder.parent / "state"), "GIT_CEILING_DIRECTORIES": ""}
    done = swapstone(
        small.folder, "gate", "--json", str(file), *arguments, expect=expect, **forge, **state, **variables
    )
    found: dict[str, Any] = json.loads(file.read_text())
    assert found["format"] == "swapstone-gate-result" and found["status"] == done.returncode
    assert found["answer"].split() == done.stdout.split()[: len(found["answer"].split())]
    return found


def test_a_change_that_builds_nothing_else(small: SmallRepository) -> None:
    """Nothing is built or run, so that no trust is needed."""
    small.commit(README="other")
    found = gate(small, expect=0)
    assert (
        found["answer"]
        == "Nothing is measured, because nothing can differ: no file that decides what is built differs."
    )
    assert found["measured"] == 0 and found["base"] == small.git("rev-parse", "main")
    small.edit("swapstone.toml", '"*.h", ', '"*.none"]\nprograms = ["prog"]#')
    assert "TOML" in swapstone(small.folder, "gate", expect=2).stderr


def test_patterns_that_match_nothing_are_no_pass(small: SmallRepository) -> None:
    small.edit("swapstone.toml", '["*.c", "*.h", "Makefile"]', '["*.none"]')
    assert "match no file" in swapstone(small.folder, "gate", "--base", "HEAD^", expect=2).stderr


def test_equal_programs(small: SmallRepository) -> None:
    """A comment before the last function of a file without debug information."""
    small.edit("Makefile", " -g", "")
    small.git("branch", "-q", "-f", "main")
    small.edit("work.c", "unsigned work", "/* a comment */ unsigned work")
    assert "equal to the byte" in gate(small, "--trust", expect=0)["answer"]
    assert "equal to the byte" in gate(small, expect=0)["answer"], "trust is stored"


def test_a_library_of_the_build_is_part_of_its_programs(small: SmallRepository) -> None:
    """The program itself is equal to the byte. No machine is needed: no run begins."""
    recipe = "cc -shared -fPIC -o libwork.so work.c && cc -o prog main.c -L. -lwork -Wl,-rpath,'$$ORIGIN'"
    small.commit(Makefile=f"prog: main.c work.c\n\t{recipe}\n")
    small.git("branch", "-q", "-f", "main")
    small.edit("work.c", "i < turns", "i < turns + 1")
    assert "the time of the whole gate is over" in gate(small, "--trust", "--budget", "1ms", expect=4)["answer"]


def test_a_script_may_import_any_file(small: SmallRepository) -> None:
    small.commit(Makefile="prog:\n\tprintf '#! /bin/sh\\n. ./part\\n' >prog && chmod +x prog\n", part="echo 1\n")
    small.edit("swapstone.toml", '"Makefile"]', '"Makefile", "part"]')
    small.git("branch", "-q", "-f", "main")
    small.commit(part="echo 2\n")
    assert "the time of the whole gate is over" in gate(small, "--trust", "--budget", "1ms", expect=4)["answer"]


def test_the_code_of_a_repository_is_not_run_without_trust(small: SmallRepository, tmp_path: Path) -> None:
    small.edit("Makefile", "\tcc", f"\ttouch {tmp_path}/built\n\tcc")
    planned = swapstone(small.folder, "gate", "--dry-run").stdout
    assert "build" in planned and "run small (same)" in planned
    refused = swapstone(small.folder, "gate", expect=2, XDG_STATE_HOME=str(tmp_path / "state"))
    assert "was never accepted here" in refused.stderr and "make -s" in refused.stderr and "--trust" in refused.stderr
    assert not (tmp_path / "built").exists()
    another = swapstone(small.folder, "gate", "--trust", expect=2, GITHUB_EVENT_NAME="pull_request_target")
    assert "a token that can write" in another.stderr
    assert not (tmp_path / "built").exists()


def test_a_build_has_no_token(small: SmallRepository, tmp_path: Path) -> None:
    small.edit("Makefile", "\tcc", f"\tenv >{tmp_path}/seen\n\tcc")
    gate(small, "--trust", expect=0, GITHUB_TOKEN="abc", MY_SECRET="abc", ACTIONS_RUNTIME_TOKEN="abc")
    assert "abc" not in (seen := (tmp_path / "seen").read_text()) and "PATH=" in seen


def test_a_head_that_does_not_build(small: SmallRepository) -> None:
    small.edit("work.c", "return value;", "return valu;")
    found = gate(small, "--trust", expect=3)
    assert "does not build" in found["answer"] and "valu" in found["answer"]
    small.git("branch", "-q", "-f", "main")
    small.edit("work.c", "return valu;", "return value;")
    assert "the base gave nothing" in gate(small, expect=4)["answer"]


def test_the_time_of_a_gate_ends(small: SmallRepository) -> None:
    """No machine is needed: no run begins, and the size that was compared is no pass."""
    small.edit("work.c", "i < turns", "i < turns + 1")
    assert "the time of the whole gate is over" in gate(small, "--trust", "--budget", "1ms", expect=4)["answer"]


def test_a_head_without_its_program(small: SmallRepository) -> None:
    small.edit("Makefile", "-o prog", "-o other")
    assert "prog is not made by the build" in gate(small, "--trust", expect=3)["answer"]


def test_a_head_without_the_file(small: SmallRepository) -> None:
    small.git("rm", "-q", "swapstone.toml")
    small.commit()
    assert "The head has no swapstone.toml, and the base has one" in swapstone(small.folder, "gate", expect=2).stderr


@pytest.mark.slow
def test_a_planted_regression(small: SmallRepository) -> None:
    """The head also loosens its own limits, which has no effect."""
    need_emulator("x86_64")
    small.edit("swapstone.toml", '"0.2%"', '"50%"')
    small.edit("work.c", "i < turns", "i < turns + turns / 100")
    found = gate(small, "--trust", "--markdown", str(small.folder.parent / "gate.md"), expect=3)
    worse = {row["metric"]: row for row in found["rows"] if row["state"] == "worse"}
    assert worse.keys() == {"instructions", "own_code"} and worse["instructions"]["limit"] == "0.2%"
    assert worse["own_code"]["difference"] == pytest.approx(300000 / 100 * 6, rel=0.2)
    assert found["causes"][0]["function"] == "work"
    assert (found["causes"][0]["source"], found["causes"][0]["edited"]) == ("work.c", True)
    assert any("those of the base" in note for note in found["notes"])
    text = (small.folder.parent / "gate.md").read_text()
    assert text.startswith("<!-- swapstone gate -->\n# Gate") and "edited here (work.c)" in text
    kept = swapstone(small.folder, "history").stdout
    assert kept.startswith("1 step among 2 measured points of 2 commits of small") and "+18.00 k" in kept
    accepted = 'accept = [{ run = "small", metric = "%s", size = "2%%", reason = "one more check" }]'
    both = ", ".join(accepted[len("accept = [") : -1] % each for each in ("instructions", "own_code"))
    small.edit("swapstone.toml", 'data = "bench"', f'data = "bench"\naccept = [{both}]')
    found = gate(small, expect=0)
    assert "accepted: small: instructions" in found["answer"] and found["answer"].count("one more check") == 2


LONG = pytest.mark.exhaustive
"""A change passes above where it is accepted; test_measured_runs.py has the least number of instructions and the lost work."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "status", "text"),
    [
        pytest.param("work(turns) != 0", "work(turns) != 0 + *(volatile int *)0", 3, "the head crashes", marks=LONG),
        pytest.param("work(turns) != 0", "work(turns) != 1", 0, "passes", marks=LONG),
        ("work(turns) != 0", "work(turns) == 0", 3, "prints another answer"),
        pytest.param("work(turns) != 0", "work(turns / 3) != 0", 4, "did it do the same work?", marks=LONG),
        pytest.param("work(turns) != 0", "work(turns / 900) != 0", 4, "a run needs 100,000", marks=LONG),
    ],
)
def test_a_head_that_fails(small: SmallRepository, old: str, new: str, status: int, text: str) -> None:
    need_emulator("x86_64")
    small.edit("main.c", old, new)
    assert text in gate(small, "--trust", expect=status)["answer"]


@pytest.mark.slow
def test_rows_that_vanish_or_are_redefined(small: SmallRepository) -> None:
    need_emulator("x86_64")
    small.edit("swapstone.toml", "[run.small]", '[run.tiny]\ncommand = "./prog {data}/small"\n\n[run.small]')
    small.git("branch", "-q", "-f", "main")
    small.edit("swapstone.toml", '[run.tiny]\ncommand = "./prog {data}/small"\n', "")
    assert "tiny is gone" in gate(small, "--trust", expect=4)["answer"]
    accept = '[[accept]]\nrun = "tiny"\nmetric = "definition"\nreason = "the same as small"\n'
    small.edit("swapstone.toml", "[run.small]", f"{accept}[run.small]")
    assert "accepted: tiny is gone" in gate(small, expect=0)["answer"]
    small.git("branch", "-q", "-f", "main")
    small.commit(**{"bench/small": "290000\n"})
    found = gate(small, expect=4)
    assert "small is redefined" in found["answer"] and [name for name, _ in found["records"]] == [
        "small",
        "small (as in the base)",
    ]


@pytest.mark.slow
def test_sizes_alone_are_no_pass(small: SmallRepository) -> None:
    """All runs are new, and the base can't run any: only the sizes of both sides are compared."""
    need_emulator("x86_64")
    small.git("checkout", "-q", "main")
    text = (small.folder / "swapstone.toml").read_text()
    small.git("rm", "-q", "swapstone.toml")
    small.edit("main.c", "return 0;", "__builtin_trap();")
    small.git("checkout", "-q", "-B", "topic")
    small.write(**{"swapstone.toml": text})
    small.edit("main.c", "__builtin_trap();", "return 0;")
    found = gate(small, "--trust", expect=4)
    assert "no row of a run" in found["answer"] and {row["metric"] for row in found["rows"]} == {"size"}
    assert any("small is new here, and not counted" in note for note in found["notes"])


@pytest.mark.slow
def test_another_compiler_option_is_no_edit_of_the_function(small: SmallRepository, exhaustive: bool) -> None:
    need_emulator("x86_64")
    small.edit("Makefile", "-O1", "-O0")
    found = gate(small, "--trust", "--annotations", str(small.folder.parent / "annotations"), expect=3)
    causes = {each["function"]: each for each in found["causes"]}
    assert (causes["work"]["source"], causes["work"]["edited"]) == ("work.c", False) and causes["work"]["line"] > 1
    assert len((small.folder.parent / "annotations").read_text().splitlines()) == 1, "no function is edited"
    if exhaustive:  # now with the call paths that the gate left out
        (_, record), *_ = found["records"]
        state = str(small.folder.parent / "state")
        swapstone(small.folder, "profile", record, "--instructions", XDG_STATE_HOME=state)
        assert list(Path(record).rglob("instructions-*"))


def runs_of_base(found: dict[str, Any]) -> list[str]:
    """Return the names of the base's runs."""
    (_, path), *_ = found["records"]
    return [run.name for run in load(Path(path)).runs if "command=base" in run.trial.variant and run.name]


@pytest.mark.slow
def test_a_forged_run_of_the_base(small: SmallRepository, tmp_path: Path) -> None:
    """Who can write to the store gives the base's runs 2 % more instructions, with the right digest: a worse head would pass."""
    need_emulator("x86_64")
    small.edit("main.c", '"r"', '"rb"')
    store = ContentStore(str(tmp_path / "store"))
    shared = ("--store", str(tmp_path / "store"))
    names = runs_of_base(gate(small, "--trust", *shared, expect=0))
    assert len(names) == 2
    small.edit("work.c", "i < turns", "i < turns + turns / 100")
    for name in names:
        run = get_run(store, name)
        assert run is not None
        forged = {**dict(run.counts), "user_instructions": round(dict(run.counts)["user_instructions"] * 1.02)}
        put_run(store, name, msgspec.structs.replace(run, counts=tuple(forged.items())))
        (cache_dir() / "runs" / name).unlink()
    found = gate(small, *shared, expect=4)
    assert "a stored run of the base is not the one that this machine makes" in found["answer"]
    (entry,) = {each["entry"] for each in found["findings"]}
    assert entry in names and any(f"rm -f {cache_dir()}/runs/{entry}" in note for note in found["notes"])
    assert not [row for row in found["rows"] if row["run"] == "small"], "no row of a forged run is judged"
    for name in names:
        store.remove(RUNS, name)
        (cache_dir() / "runs" / name).unlink()
    assert "instructions" in gate(small, *shared, expect=3)["answer"]


@pytest.mark.slow
@pytest.mark.exhaustive  # above a gate finds the runs of the head in a store, and none of the base
def test_two_gates_in_one_store(small: SmallRepository, tmp_path: Path) -> None:
    """Both at once are right. A later one finds a base of which a job that was cancelled left one run."""
    need_emulator("x86_64")
    other = SmallRepository(tmp_path / "other")
    small.edit("work.c", "i < turns", "i < turns + turns / 100")
    other.edit("work.c", "i < turns", "i < turns + turns / 50")
    shared = ("--trust", "--store", str(tmp_path / "store"))
    own = {"PYTHONNOUSERSITE": "1"}  # processes of their own, and no forks of one server
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(gate, each, *shared, expect=3, out=name, **own) for name, each in (("a", small), ("b", other))
        ]
        first, second = (each.result() for each in asked)
    rows = [
        {row["metric"]: row["difference"] for row in found["rows"] if row["state"] == "worse"}
        for found in (first, second)
    ]
    assert rows[1]["own_code"] == pytest.approx(2 * rows[0]["own_code"], rel=0.01)
    name = runs_of_base(first)[0]
    ContentStore(str(tmp_path / "store")).remove(RUNS, name)
    (cache_dir() / "runs" / name).unlink()
    again = gate(small, *shared, expect=3)
    assert again["rows"] == first["rows"]


@pytest.mark.slow
def test_elapsed_time_only_where_it_is_written(small: SmallRepository) -> None:
    """Three times the work. Beside other work the runs may be disturbed, which is no pass."""
    small.edit(
        "swapstone.toml",
        'fail = { instructions = "0.2%", own_code = "0.5%", syscalls = "0"',
        'clock = "wall"\nfail = { time = "50%"',
    )
    small.edit("swapstone.toml", "[run.small]", '[run.small]\nbudget = "5s"')
    small.commit(**{"bench/small": "60000000\n"})
    small.git("branch", "-q", "-f", "main")
    small.edit("main.c", "work(turns)", "(work(turns) + work(turns + 1) + work(turns + 2))")
    found = gate(small, "--trust", expect=frozenset({3, 4}))
    if found["status"] == 3:
        (row,) = [row for row in found["rows"] if row["run"] == "small"]
        assert (row["metric"], row["unit"], row["limit"], row["state"]) == ("time", "ns", "50%", "worse")
        assert row["head"] > 2 * row["base"] and not found["causes"]


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        (
            "mkdir lib && cc -shared -fPIC -o lib/libwork.so work.c && cc -o prog main.c -Llib -lwork -Wl,-rpath,$(CURDIR)/lib",
            "prog searches its libraries in tree, the folder of the build",
        ),
        (
            "printf '#! /bin/sh\\n\\n# prog - temporary wrapper script for .libs/prog\\n' >prog && chmod +x prog",
            "prog is a wrapper script of libtool: configure with --disable-shared",
        ),
    ],
)
def test_a_program_that_only_runs_in_the_folder_of_its_build(small: SmallRepository, recipe: str, text: str) -> None:
    small.commit(Makefile=f"prog: main.c\n\t{recipe}\n")
    assert text in gate(small, "--trust", expect=3)["answer"]
    small.git("branch", "-q", "-f", "main")
    small.edit("work.c", "turns", "turns_")
    assert text in gate(small, expect=4)["answer"]


MAIN_C = '#include <stdio.h>\nint main(int argc, char **argv) { printf("%d\\n", argc); return argc > 1 ? 1 : 0; }\n'
PROJECTS = {
    "make": {"Makefile": "prog: main.c\n\tcc -o prog main.c\n", "main.c": MAIN_C},
    "cmake": {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.13)\nproject(p C)\nadd_executable(prog main.c)\n",
        "main.c": MAIN_C,
    },
    "meson": {"meson.build": "project('p', 'c')\nexecutable('prog', 'main.c')\n", "main.c": MAIN_C},
    "cargo": {
        "Cargo.toml": '[package]\nname = "prog"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/main.rs": 'fn main() { println!("1"); }\n',
    },
    "go": {
        "go.mod": "module example.org/prog\n\ngo 1.19\n",
        "main.go": 'package main\n\nfunc main() { println("1") }\n',
    },
}


@pytest.mark.parametrize("tool", PROJECTS)
def test_a_first_file(small: SmallRepository, tool: str) -> None:
    require(tool)
    small.git("rm", "-q", "-r", ".")
    small.commit(**PROJECTS[tool])
    state = str(small.folder.parent / "state")
    assert "was never accepted here" in swapstone(small.folder, "gate", "--init", expect=2, XDG_STATE_HOME=state).stderr
    swapstone(small.folder, "gate", "--init", "--trust", XDG_STATE_HOME=state)
    file = decode_gate((small.folder / "swapstone.toml").read_bytes())
    assert len(file.programs) == 1 and file.programs[0].endswith("prog")
    assert [run.command for run in file.run.values()] == [f"./{file.programs[0]}"]
    assert small.git("status", "--porcelain") == "?? swapstone.toml"
    assert "already" in swapstone(small.folder, "gate", "--init", expect=2).stderr
    small.commit()
    planned = swapstone(small.folder, "gate", "--dry-run", "--base", "HEAD^", GITHUB_EVENT_NAME="").stdout
    assert f"./{file.programs[0]}" in planned


@pytest.mark.slow
def test_more_work_at_certain_addresses_is_not_worse(small: SmallRepository) -> None:
    """As by a hash of an address. The stack is at 0x7fffff000000 or above in each run; at random addresses, in one of 1000."""
    need_emulator("x86_64")
    small.edit("main.c", "work(turns)", "work(turns + 20000 * ((unsigned long)&turns >> 24 == 0x7fffff))")
    found = gate(small, "--trust", expect=0)
    (note,) = found["notes"]
    assert note.startswith("small: instructions and own_code are not counted: the own code executes no more")
    assert {row["metric"]: row["state"] for row in found["rows"]}["instructions"] == "more"


def test_a_first_file_of_a_program_that_needs_arguments(small: SmallRepository) -> None:
    small.git("rm", "-q", "swapstone.toml")
    small.edit("work.c", "return value;", "return valu;")
    small.edit("Makefile", "\tcc", "\t@echo If there are errors, read this\n\tcc")
    state = str(small.folder.parent / "state")
    failed = swapstone(small.folder, "gate", "--init", "--trust", expect=2, XDG_STATE_HOME=state).stderr
    assert "the build ends with status 2: work.c:" in failed and "valu" in failed
    small.edit("work.c", "return valu;", "return value;")
    swapstone(small.folder, "gate", "--init", XDG_STATE_HOME=state)
    text = (small.folder / "swapstone.toml").read_text()
    file = decode_gate(text.encode())
    assert [run.command for run in file.run.values()] == ["./prog"] and "It fails without arguments" in text
    assert file.paths == (), "each file may decide what is built"


def test_a_runner_with_another_compiler(small: SmallRepository, tmp_path: Path) -> None:
    """Both sides are built by it: nothing differs, though the programs of an earlier job do."""
    small.edit("Makefile", " -g", "")
    small.git("branch", "-q", "-f", "main")
    small.edit("work.c", "unsigned work", "/* a comment */ unsigned work")
    assert "equal to the byte" in gate(small, "--trust", expect=0)["answer"]
    (tmp_path / "bin").mkdir()
    newer = tmp_path / "bin" / "cc"
    newer.write_text(f'#! /bin/sh\necho >>{tmp_path}/built\nexec {shutil.which("cc")} -O3 "$@"\n')
    newer.chmod(0o755)
    found = gate(small, expect=0, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert "equal to the byte" in found["answer"] and len((tmp_path / "built").read_text().splitlines()) == 2
