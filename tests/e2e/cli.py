"""Running the command line as a user does: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]

FAKE = """
seed = 3
[[behaviour]]
wall_ns = 2_000_000
noise = 0.01
pass_noise = 0.005
[[behaviour]]
variant = "libc=musl*"
wall_ns = 3_000_000
virt_bytes = 16384
"""


def environment(records: Path, **changes: str) -> dict[str, str]:
    """Return an environment for the command line, with its records in a folder of the test's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWAPSTONE_")}
    return {**kept, "PYTHONPATH": str(TOP / "src"), "SWAPSTONE_RECORDS": str(records), **changes}


def command(*arguments: str) -> list[str]:
    """Return the command line as a list."""
    return [sys.executable, "-m", "swapstone", *arguments]


def swapstone(records: Path, *arguments: str, expect: int = 0, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end and check its exit status."""
    result = subprocess.run(
        command(*arguments),
        env=environment(records, **changes),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=records,
    )
    assert result.returncode == expect, f"status {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr
    return result


def fake(folder: Path, extra: str = "") -> str:
    """Write a spec for the fake target and return the target's name."""
    path = folder / "fake.toml"
    path.write_text(FAKE + extra)
    return f"fake:{path}"


def runs_of(record: Path) -> list[dict[str, Any]]:
    """Return a record's runs, less what time of day does to them."""
    lines = [json.loads(line)["run"] for line in (record / "runs.jsonl").read_text().splitlines()]
    for run in lines:
        for name in ("started_unix_ns", "elapsed_ns", "facts"):
            run.pop(name, None)
    return lines
