# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two versions of Swapstone use one cache, at the same time and one after the other, up and down."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli import MEASURED, TOP, command, environment

OTHER = {
    "src/swapstone/version.py": ('__version__ = "', '__version__ = "99.'),
    "src/swapstone/parts/build/factors/build_facts.py": ("    symbols: ", '    another: str = ""\n    symbols: '),
}
"""What the other version has in the place of another text: its number, and one fact of programs more in their description in the cache."""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Return another version of Swapstone."""
    made = tmp_path / "other"
    for name in ("src", "native"):
        shutil.copytree(TOP / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOP / "packages", made / "packages")
    for name, (before, after) in OTHER.items():
        text = (made / name).read_text()
        assert before in text, name
        (made / name).write_text(text.replace(before, after, 1))
    return made


def _start(version: Path, folder: Path, name: str, cache: Path) -> subprocess.Popen[str]:
    asked = ("compare", "libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "2", "--out", name)
    changes = {"PYTHONPATH": str(version / "src"), "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(
        command(*asked),
        cwd=folder,
        env=environment(folder, **changes),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _ended(process: subprocess.Popen[str]) -> None:
    printed, errors = process.communicate(timeout=300)
    assert process.returncode in MEASURED and "Traceback" not in errors, f"{printed}\n{errors}"


def _programs(record: Path) -> dict[str, str]:
    """Return the digest of each program of a record, by the variant."""
    artifacts = json.loads((record / "manifest.json").read_text())["artifacts"]
    return {f"{each['workload']} {each['variant']}": each["sha256"] for each in artifacts}


@pytest.mark.slow
def test_two_versions_use_one_cache_at_once_and_one_after_the_other(tmp_path: Path, other: Path) -> None:
    cache = tmp_path / "cache"
    at_once = [_start(version, tmp_path, name, cache) for version, name in ((TOP, "ours"), (other, "theirs"))]
    for process in at_once:
        _ended(process)
    built = {path: path.stat().st_mtime_ns for path in (cache / "swapstone" / "programs").glob("*/prog")}
    assert len(built) >= 4, "each version has programs of its own"
    for version, name in ((TOP, "down"), (other, "up")):
        _ended(_start(version, tmp_path, name, cache))
    again = {path: path.stat().st_mtime_ns for path in (cache / "swapstone" / "programs").glob("*/prog")}
    assert again == built, "each version finds its own again"
    for first, second in (("ours", "down"), ("theirs", "up")):
        assert _programs(tmp_path / first) == _programs(tmp_path / second)
