# SPDX-License-Identifier: MIT OR Apache-2.0
"""A received record runs no command of its own: an own program's record, edited and made foreign, on this machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.cli import swapstone

SCRIPT = "#!/bin/sh\nexec true {}\n"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a record of two scripts, complete and sealed."""
    folder = tmp_path_factory.mktemp("received")
    for name in ("old", "new"):
        (folder / name).write_text(SCRIPT.format(name))
        (folder / name).chmod(0o755)
    programs = ("--program", f"old={folder}/old", "--program", f"new={folder}/new")
    swapstone(
        folder, "compare", "--blocks", "6", "--prime", "0", "--seed", "5", "--out", str(folder / "r"), *programs, "--"
    )
    return folder / "r"


def _edited(original: Path, folder: Path) -> Path:
    """Return a copy of the record in which commands were planted."""
    record = Path(shutil.copytree(original, folder / "r"))
    path = record / "experiment.json"
    content = json.loads(path.read_text())
    content["own"] |= {
        "prepare": f"touch {folder}/ran",
        "output": str(folder / "precious"),
    }
    path.write_text(json.dumps(content))
    (folder / "precious").write_text("precious")
    return record


COMMANDS = (
    ("rerun", "r", "--out", "again"),
    ("compare", "--resume", "r", "--budget", "10m"),
    ("study", "--resume", "r", "--budget", "10m"),
    ("explain", "r", "--only", "*"),
    ("profile", "r", "--only", "*"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "unsealed"])
def test_an_edited_record_runs_nothing(
    original: Path, tmp_path: Path, arguments: tuple[str, ...], *, seal: bool
) -> None:
    record = _edited(original, tmp_path)
    if not seal:
        (record / "seal.json").unlink()
    before = {path.relative_to(record): path.stat().st_mtime_ns for path in record.rglob("*")}
    refused = swapstone(tmp_path, *arguments, expect=2)
    assert "is not trusted" in refused.stderr and "--trust" in refused.stderr
    assert f"run before each trial, by /bin/sh -c: touch {tmp_path}/ran" in refused.stderr
    assert f"empty, and write standard output in each trial to: {tmp_path}/precious" in refused.stderr
    assert not (tmp_path / "ran").exists() and (tmp_path / "precious").read_text() == "precious"
    assert {path.relative_to(record): path.stat().st_mtime_ns for path in record.rglob("*")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "r"]


def test_with_trust_the_commands_run(original: Path, tmp_path: Path) -> None:
    _edited(original, tmp_path)
    swapstone(tmp_path, "rerun", "r", "--out", "again", "--trust")
    assert (tmp_path / "ran").exists() and (tmp_path / "precious").read_text() == ""


def test_an_own_record_is_repeated_and_one_of_another_user_is_not(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "r")
    swapstone(tmp_path, "rerun", "r", "--out", "again")
    refused = swapstone(tmp_path, "rerun", "r", "--out", "third", expect=2, XDG_STATE_HOME=str(tmp_path / "other"))
    assert "this user has no key yet" in refused.stderr and f"={original.parent}/old" in refused.stderr
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("command", ["show", "verify", "report", "export"])
def test_reading_an_edited_record_runs_nothing(original: Path, tmp_path: Path, command: str) -> None:
    _edited(original, tmp_path)
    options = {"report": ("--markdown",), "export": ("--format", "csv")}.get(command, ())
    swapstone(tmp_path, command, "r", *options, expect=2 if command == "verify" else 0)
    assert not (tmp_path / "ran").exists() and (tmp_path / "precious").read_text() == "precious"
