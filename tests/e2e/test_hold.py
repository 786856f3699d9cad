# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--hold FACTOR=LEVEL`: a level that all variants share, applied, observed and stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import swapstone as api
from tests.e2e.cli import FAKE, swapstone

SOURCE = "int main(void) { volatile int i = 0; for (int n = 0; n < 1000; n++) { i += n; } return 0; }\n"


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    path = tmp_path / "fake.toml"
    path.write_text(FAKE)
    return path


def _runs(record: Path) -> list[dict[str, object]]:
    return [json.loads(line)["run"] for line in (record / "runs.jsonl").read_text().splitlines()]


def _compare(folder: Path, fake: Path, *more: str, expect: int = 0) -> str:
    target = ("--target", f"fake:{fake}", "--only", "b_malloc_tiny1", "--seed", "5", "--out", "record")
    result = swapstone(folder, "compare", "libc=glibc,musl", *target, *more, expect=expect)
    return result.stdout if expect == 0 else result.stderr


def test_a_held_level_is_applied_observed_stored_and_printed(tmp_path: Path, fake: Path) -> None:
    printed = _compare(tmp_path, fake, "--blocks", "2", "--hold", "optimization=Os", "--hold", "linking=dynamic")
    record = tmp_path / "record"
    assert "All variants have optimization=Os, linking=dynamic." in " ".join(printed.split())
    assert json.loads((record / "experiment.json").read_text())["held"] == [
        ["optimization", "Os"],
        ["linking", "dynamic"],
    ]
    runs = _runs(record)
    assert len(runs) == 6
    for run in runs:
        observed, label = dict(run["observed"]), run["trial"]["variant"]  # type: ignore[call-overload, index]
        assert observed.items() >= {"optimization": "Os", "linking": "dynamic"}.items()
        assert label in {"libc=glibc", "libc=musl"}  # what all share is in no name

    swapstone(tmp_path, "rerun", "record", "--out", "again")
    assert dict(_runs(tmp_path / "again")[0]["observed"])["optimization"] == "Os"  # type: ignore[call-overload]
    assert "all with optimization=Os linking=dynamic" in swapstone(tmp_path, "verify", "record").stdout


def test_a_resumed_record_holds_the_level(tmp_path: Path, fake: Path) -> None:
    _compare(tmp_path, fake, "--hold", "optimization=Os", "--budget", "3s")
    before = len(_runs(tmp_path / "record"))
    swapstone(tmp_path, "compare", "--resume", "record", "--budget", "30s")
    runs = _runs(tmp_path / "record")
    assert len(runs) >= before
    assert {dict(run["observed"])["optimization"] for run in runs} == {"Os"}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("held", "message", "hint"),
    [
        ("libc=musl", "libc is compared and can't be held at musl too", "leave libc out of what is compared"),
        ("optimization", "'optimization' is not FACTOR=LEVEL", "--hold optimization=Os"),
        ("optimisation=Os", "There is no factor named 'optimisation'", "Did you mean 'optimization'"),
        ("optimization=O9", "There is no level named 'O9'", "O0"),
        ("optimization=O2,O3", "holds several levels", "swapstone compare optimization=O2,O3"),
        ("env:LANG=C", "env:LANG can't be held", "--env NAME=VALUE"),
    ],
)
def test_what_can_not_be_held_is_refused(tmp_path: Path, fake: Path, held: str, message: str, hint: str) -> None:
    printed = _compare(tmp_path, fake, "--hold", held, expect=2)
    assert message in printed and hint in printed
    assert not (tmp_path / "record").exists()


def test_a_factor_is_held_once(tmp_path: Path, fake: Path) -> None:
    printed = _compare(tmp_path, fake, "--hold", "optimization=Os", "--hold", "optimization=O2", expect=2)
    assert "The factor optimization is held twice." in printed


def test_a_build_that_ignores_the_held_level_is_refused(tmp_path: Path) -> None:
    """The level is read from the program, as that of a varied factor is."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "prog.c").write_text(SOURCE)
    build = ("--source", "src", "--blocks", "1", "--vary", "env:SPEED=1,2", "--hold", "optimization=Os")
    refused = swapstone(
        tmp_path,
        *("compare", *build, "--build", "cc -O2 -frecord-gcc-switches -o prog prog.c", "--", "./prog"),
        expect=4,
    )
    assert "optimization=Os was requested, but O2 was in force" in refused.stderr
    command = "cc {cflags} -frecord-gcc-switches -o prog prog.c"
    swapstone(tmp_path, "compare", *build, "--out", "record", "--build", command, "--", "./prog")
    assert dict(_runs(tmp_path / "record")[0]["observed"])["optimization"] == "Os"  # type: ignore[call-overload]


def test_python_and_studies_hold_levels(tmp_path: Path, fake: Path) -> None:
    record = api.compare(
        api.Workloads(hold={"optimization": "O3"}, only="b_malloc_tiny1"),
        api.Measuring(blocks=1),
        api.Place(target=f"fake:{fake}"),
        libc=["glibc", "musl"],
        out=tmp_path / "python",
    )
    assert record.experiment.held == (("optimization", "O3"),)
    study = tmp_path / "held.toml"
    study.write_text(
        'title = "t"\nquestion = "q"\nonly = ["b_malloc_tiny1"]\nblocks = 1\nhold = { optimization = "Os" }\n'
        f'target = "fake:{fake}"\n[[factor]]\nname = "libc"\nlevels = ["glibc", "musl"]\n'
    )
    assert api.study(study, out=tmp_path / "study").records["held"].experiment.held == (("optimization", "Os"),)
