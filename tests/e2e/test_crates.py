"""The network stacks' own tests, and the suite that runs each test on each stack."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.rust_toolchain import CRATES, require_rust

BACKENDS = {"lwip", "smoltcp"}


@pytest.mark.slow
def test_the_crates_tests_pass() -> None:
    require_rust()
    done = subprocess.run(
        ["cargo", "test", "--quiet", "--workspace", "--exclude", "swapstone-net-testkit"],
        cwd=CRATES,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.slow
def test_every_stack_passes_the_conformance_suite() -> None:
    require_rust()
    done = subprocess.run(
        ["cargo", "run", "--quiet", "--package", "swapstone-net-testkit", "--", "--jobs", "2", "--json"],
        cwd=CRATES,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    found = json.loads(done.stdout)
    failed = [row for row in found if row["outcome"] == "failed"]
    assert not failed, failed[:5]
    assert {row["backend"] for row in found if row["outcome"] == "ok"} == BACKENDS
    assert done.returncode == 0, done.stderr[-2000:]
