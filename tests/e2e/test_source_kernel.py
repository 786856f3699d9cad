# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels built from the distribution's source boot and are observed. The test runs only if an environment variable is set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.vm.artifacts.source_kernel import build_source_kernel
from tests.e2e.cli import runs_of, swapstone


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("SWAPSTONE_SOURCE_KERNEL") != "1", reason="compiles two kernels: set SWAPSTONE_SOURCE_KERNEL=1"
)
def test_kernels_from_source_are_compared(tmp_path: Path) -> None:
    kernels = [build_source_kernel(name, read_lock(), print) for name in ("generic", "preempt_rt")]
    record = tmp_path / "r"
    levels = ",".join(map(str, kernels))
    swapstone(
        tmp_path, "compare", f"kernel={levels}", "--only", "b_string_strlen", "--blocks", "1", "--out", str(record)
    )
    runs = runs_of(record)
    assert {run["status"] for run in runs} == {"ok"}
    assert {dict(run["observed"])["kernel"] for run in runs} == {str(kernel) for kernel in kernels}
    assert [b"PREEMPT_RT" in kernel.read_bytes() for kernel in kernels] == [False, True]
