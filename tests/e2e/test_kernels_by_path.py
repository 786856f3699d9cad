# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels by path: copies of the packaged kernels, each with its modules in a folder beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from swapstone.parts.build.artifacts.packages import Contents, fetch, package_file, read_lock
from swapstone.parts.vm.artifacts.images import MODULES_BESIDE
from tests.e2e.cli import runs_of, swapstone
from tests.shared import Shared
from tests.tiny_kernel import END, HANG, tiny_kernel


def _copies(shared: Shared) -> list[Path]:
    """Copy each packaged kernel and some of its modules to a folder; return the kernels, which have the same file name."""
    packages = [package for package in read_lock().of("amd64") if package.kernel]

    def fill(folder: Path) -> None:
        fetch(packages, lambda _: None)
        for package in packages:
            kernel = folder / package.kernel / "bzImage"
            kernel.parent.mkdir()
            with Contents(package_file(package.sha256), folder) as contents:
                kernel.write_bytes(contents.read(contents.find("boot/vmlinuz-*"))[0])
                for name in contents.names():
                    if name.endswith(("/configfs.ko", "/modules.builtin")):
                        target = kernel.with_name(kernel.name + MODULES_BESIDE) / name
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(contents.read(name)[0])

    folder = shared.folder("kernels-by-path", fill)
    return [folder / package.kernel / "bzImage" for package in packages]


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_kernels_by_path_are_compared_and_observed(tmp_path: Path, shared: Shared, exhaustive: bool) -> None:
    """With --exhaustive a workload needs a shell in the image, and another one makes system calls only, in eight tasks."""
    one, other = _copies(shared)
    record = tmp_path / "r"
    works = ("shell_scripts(1)", "syscall (8 tasks)") if exhaustive else ("b_string_strlen",)
    only = (word for work in works for word in ("--only", work))
    asked = (f"kernel={one},{other}", *(("--suite", "throughput") if exhaustive else ()), *only, "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = runs_of(record)
    assert {run["status"] for run in runs} == {"ok"} and len(runs) == 2 * len(works)
    assert len({(run["trial"]["workload"], run["check"]) for run in runs}) == len(works)
    for run in runs:
        assert dict(run["observed"])["kernel"] == run["trial"]["variant"].removeprefix("kernel=")
    (found,) = json.loads((record / "manifest.json").read_text())["certificates"]
    assert found["between"] == [str(one), str(other)] and found["differing"] == [["kernel", "kernel"]]
    shown = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert f"Images of {one} and {other}: 1 file differs, and is of the kernel" in shown
    assert "\n  kernel (kernel)\n" in shown


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
def test_the_error_names_a_missing_module(tmp_path: Path, shared: Shared) -> None:
    one, other = _copies(shared)
    asked = (f"kernel={one},{other}", "--suite", "latency", "--load", "io")
    result = swapstone(tmp_path, "compare", *asked, expect=2)
    assert "The kernel has no module null_blk and does not list it as built in" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
@pytest.mark.parametrize(
    ("then", "limit", "reason"),
    [
        pytest.param(END, "120s", "its kernel panicked: tiny: no device", id="panics"),
        pytest.param(HANG, "60s", "it ran for more than 60 s", id="hangs", marks=pytest.mark.exhaustive),
    ],
)
def test_a_kernel_that_prints_and_fails_is_reported_with_its_last_console_lines(
    tmp_path: Path, then: bytes, limit: str, reason: str
) -> None:
    """The other kernel's runs succeed. What `compare` prints and what `show --all` prints have the lines."""
    lines = ("[    0.1] tiny: starting \x1b[31mred", "[    0.2] Kernel panic - not syncing: tiny: no device")
    kernel = tmp_path / "vmlinux"
    kernel.write_bytes(tiny_kernel(lines if then is END else lines[:1], then))
    record = tmp_path / "r"
    asked = (
        f"kernel=generic,{kernel}",
        "--only",
        "b_string_strlen",
        "--blocks",
        "1",
        "--guest-timeout",
        limit,
        "--out",
        str(record),
    )
    ended = swapstone(tmp_path, "compare", *asked, expect=4)
    shown = swapstone(tmp_path, "show", str(record), "--all").stdout
    for text in (ended.stdout + ended.stderr, shown):
        plain = " ".join(text.split())
        assert reason in plain and "The last lines of its console: [ 0.1] tiny: starting" in plain
        assert "\x1b" not in text and "Traceback" not in text
    assert {run["status"] for run in runs_of(record) if run["trial"]["variant"] == "kernel=generic"} == {"ok"}
