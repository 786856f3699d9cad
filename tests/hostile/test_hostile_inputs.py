# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hostile files, names, cache entries and boards against `image`, `sdk` and `target clean`: each ends with a message and a status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model.regular_file import read_regular_file
from tests.hostile.inputs import INPUTS, Found

TOP = Path(__file__).parents[2]


def test_no_input_is_named_twice() -> None:
    names = [one.name for one in INPUTS]
    assert len(names) == len(set(names)) >= 80


@pytest.mark.slow
def test_each_input_is_refused_with_a_message(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWAPSTONE_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.hostile.inputs", "--json"],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": f"{TOP / 'src'}:{TOP}", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr.decode(errors="replace")
    found = msgspec.json.decode(done.stdout, type=list[Found])
    assert len(found) == len(INPUTS)
    assert [f"{each.name}: {', '.join(each.faults)}\n{each.text[-600:]}" for each in found if each.faults] == []


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    assert read_regular_file(tmp_path / "a", 1 << 20) == bytes(1 << 20)
    with pytest.raises(OSError, match=r"larger than 0\.5 MiB"):
        read_regular_file(tmp_path / "a", 1 << 19)
    os.mkfifo(tmp_path / "b")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular_file(tmp_path / "b", 1 << 20)
