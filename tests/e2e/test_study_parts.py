# SPDX-License-Identifier: MIT OR Apache-2.0
"""A study of several parts: SIGINT during a part, and resuming."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.cli import command, environment, fake, runs_of, swapstone
from tests.json_schema import check_printed

STUDY = """
title = "Two parts"
question = "Does it resume?"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
[[part]]
name = "one"
title = "First"
suites = ["libc"]
only = ["b_string_strlen"]
budget = "1m"
[[part]]
name = "two"
title = "Second"
suites = ["libc"]
only = ["b_malloc_tiny*"]
budget = "1m"
"""


def _lines(record: Path) -> int:
    path = record / "runs.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_sigint_inside_a_part_loses_no_run(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(STUDY)
    asked = ("study", str(tmp_path / "two.toml"), "--target", fake(tmp_path), "--seed", "5", "--blocks", "24")
    swapstone(tmp_path, *asked, "--out", str(tmp_path / "whole"))
    folder = tmp_path / "20260101-000000-two"
    process = subprocess.Popen(
        command(*asked, "--out", str(folder)),
        env=environment(tmp_path),
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while _lines(folder / "two") < 20 and process.poll() is None:
        assert time.monotonic() < deadline, "the study makes no progress"
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Part 2 of 2: two: Second" in out and "Interrupted after" in out  # the answer so far
    assert err.count(f"Resume with: swapstone study --resume {folder}") == 1 and "compare --resume" not in err
    states = [part["state"] for part in json.loads((folder / "index.json").read_text())["index"]["parts"]]
    assert states == ["complete", "interrupted"]
    assert check_printed((folder / "index.json").read_text()) == "swapstone-study-index"
    assert 20 <= _lines(folder / "two") < _lines(tmp_path / "whole" / "two")
    swapstone(tmp_path, "study", "--resume", folder.name)  # by its name under the root
    for part in ("one", "two"):
        assert runs_of(folder / part) == runs_of(tmp_path / "whole" / part)
    asked_sql = "SELECT DISTINCT record FROM runs ORDER BY record"
    records = [row["record"] for row in json.loads(swapstone(tmp_path, "query", asked_sql, "--json").stdout)["rows"]]
    assert records == [f"{folder.name}/one", f"{folder.name}/two", "whole/one", "whole/two"]
    listed = json.loads(swapstone(tmp_path, "list", "records", "--json").stdout)["rows"]
    assert f"{folder.name}/two" in {row["record"] for row in listed}
    assert "2 parts: 2 complete." in swapstone(tmp_path, "study", "--resume", folder.name).stdout
    assert "Whole and unaltered" in swapstone(tmp_path, "verify", f"{folder.name}/two").stdout
