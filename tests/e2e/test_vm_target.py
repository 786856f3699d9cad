# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--target vm`: the suites in an emulated machine, on the virtual clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.session import machines
from swapstone.core.session.request import parse_factors, resolve
from swapstone.core.targets import clock_of
from swapstone.parts.vm.artifacts.images import BuiltImage, Image
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.session import vm_images, vm_kind
from tests.e2e.cli import fake, runs_of, swapstone
from tests.programs import require
from tests.small_records import request_of


def test_each_target_has_its_clock() -> None:
    assert clock_of("host") == clock_of("host", "wall") == clock_of("fake:x.toml") == "wall"
    assert clock_of("vm") == clock_of("vm:rt", "virtual") == "virtual"
    with pytest.raises(UserError, match="The target host has a wall clock"):
        clock_of("host", "virtual")
    assert clock_of("vm", "wall") == "wall"  # KVM is checked when the machine is opened


def test_a_wall_clock_in_a_virtual_machine_needs_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "/dev/kvm opens, but the kernel 6.1 did not start under it within 15 s"
    monkeypatch.setattr(vm_images, "kvm_device_trouble", lambda _: reason)
    request = request_of(
        name="compare",
        factors=parse_factors(["libc=glibc,musl"]),
        suites=("libc",),
        only=("b_string_strlen",),
        target="vm",
        clock="wall",
    )
    with pytest.raises(UnavailableError, match=f"needs KVM, which is unavailable: {reason}") as caught:
        machines.open_experiment_target(resolve(request), print)
    assert "Leave --clock out" in caught.value.hint


def test_a_record_of_a_wall_clock_cannot_be_recomputed(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "2", "--target", fake(tmp_path))
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    result = swapstone(tmp_path, "verify", str(record), "--recompute", "2", expect=2)
    assert "no trial of it can be repeated to the byte" in result.stderr and "swapstone rerun" in result.stderr


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the kernels of this test are of x86_64")
def test_each_kernel_runs_under_kvm_with_a_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image(
        architecture="x86_64",
        kernel="generic",
        banner="",
        release="",
        preempt_dynamic=True,
        kernel_sha256="",
        initrd_sha256="",
        modules=(),
        packages=(),
        files={},
    )
    tried: list[VmImage] = []

    def works(parts: VmImage) -> str:
        tried.append(parts)
        return ""

    opened: list[dict[str, VmImage]] = []
    monkeypatch.setattr(vm_images, "build_image", lambda asked, progress: BuiltImage(image, tmp_path / asked.kernel))
    monkeypatch.setattr(vm_images, "kvm_device_trouble", lambda _: "")
    monkeypatch.setattr(vm_kind, "kvm_trouble", works)
    monkeypatch.setattr(vm_kind, "VmTarget", lambda images, options, image_differences: opened.append(images))
    for clock in ("wall", "virtual"):
        request = request_of(
            name="compare",
            factors=parse_factors(["kernel=generic,rt"]),
            suites=("libc",),
            only=("b_string_strlen",),
            clock=clock,
        )
        machines.open_experiment_target(resolve(request), print)
    assert [parts.kernel for parts in tried] == [tmp_path / "generic" / "kernel", tmp_path / "rt" / "kernel"]
    assert [{level: parts.machine.wall for level, parts in each.items()} for each in opened] == [
        {"generic": True, "rt": True},
        {"generic": False, "rt": False},
    ]


@pytest.mark.slow
@pytest.mark.exhaustive  # own programs run in a machine below, and kernels are compared in test_boot_parameters.py
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as below")
def test_an_own_program_runs_on_two_kernels(tmp_path: Path) -> None:
    """The program, its libraries and the file that it reads are in the machine; what it prints is read and compared."""
    asked = ("kernel=generic,rt", "--blocks", "1", "--files", "numbers.txt", "--metric", r"first=regex:^(\d+)$")
    program = ("--", "sort", "-n", "numbers.txt")
    (tmp_path / "numbers.txt").write_text("7\n")
    shown = swapstone(tmp_path, "compare", *asked, "--out", "r", *program)
    assert "The clock is virtual" in " ".join(shown.stdout.split())
    runs = runs_of(tmp_path / "r")
    assert len({dict(run["digests"])["stdout"] for run in runs}) == 1
    assert all(["first", [7.0]] in [[each["metric"], each["values"]] for each in run["samples"]] for run in runs)
    assert [(run["status"], dict(run["observed"])["kernel"]) for run in runs] == [
        ("ok", run["trial"]["variant"].removeprefix("kernel=")) for run in runs
    ]
    assert "1 of 1 trials gave the same bytes" in swapstone(tmp_path, "verify", "r", "--recompute", "1").stdout
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            swapstone(tmp_path, "compare", *asked, "--no-cache", "--out", "again", *program)
        finally:
            busy.kill()

    def results(record: str) -> dict[str, object]:
        return {
            run["trial"]["variant"]: (run["name"], run["output"], run["samples"]) for run in runs_of(tmp_path / record)
        }

    assert results("again") == results("r")


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as below")
def test_two_programs_are_compared_and_a_failure_tells_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("7\n")
    pair = ("--program", "old=/bin/cat", "--program", "new=/usr/bin/tac", "--target", "vm", "--blocks", "1")
    metric = ("--metric", r"first=regex:^(\d+)$")
    swapstone(tmp_path, "compare", *pair, *metric, "--out", "r", "--", "text")
    runs = runs_of(tmp_path / "r")
    assert {run["status"] for run in runs} == {"ok"}
    assert len({dict(run["digests"])["stdout"] for run in runs}) == 1
    assert all(["first", [7.0]] in [[each["metric"], each["values"]] for each in run["samples"]] for run in runs)
    # The same machines as before, which need no second boot.
    failed = swapstone(tmp_path, "compare", *pair, "--out", "f", "--", "missing", expect=4)
    assert "the machine has the program, its libraries, and what arguments and --files name" in failed.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as below")
def test_a_script_runs_with_its_commands_and_the_loopback_device(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("""#!/bin/sh
[ "$(seq 3 | sort -r | tr -d 12)" = 3 ] && [ "$(cat /sys/class/net/lo/flags)" = 0x9 ] && [ -d /dev/shm ] && cat /dev/fd/0
""")  # IFF_UP and IFF_LOOPBACK of netdevice(7)
    script.chmod(0o755)
    swapstone(tmp_path, "compare", "env:X=1,2", "--target", "vm", "--blocks", "1", "--out", "r", "--", "./run")
    runs = runs_of(tmp_path / "r")
    assert {run["status"] for run in runs} == {"ok"}


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_a_comparison_in_a_virtual_machine_is_exact_and_can_be_recomputed(tmp_path: Path, exhaustive: bool) -> None:
    """Runs differ only by variant and replicate, and a repeated experiment gives equal bytes."""
    require("qemu-system-x86_64")
    record = tmp_path / "r"
    blocks = "2" if exhaustive else "1"  # tests/contract/test_vm.py shows that replicates differ
    factor = ("allocator=default,mimalloc", "--hold", "libc=musl", "--only", "b_malloc_tiny1")
    asked = (*factor, "--blocks", blocks, "--target", "vm", "--seed", "4")
    shown = swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = runs_of(record)
    assert len(runs) == 2 * int(blocks) and {run["status"] for run in runs} == {"ok"}
    observed = {run["trial"]["variant"]: dict(run["observed"]) for run in runs}
    levels = ("default", "mimalloc")
    assert observed == {f"allocator={level}": {"allocator": level, "libc": "musl"} for level in levels}
    assert json.loads((record / "experiment.json").read_text())["clock"] == "virtual"
    machine = dict(json.loads((record / "manifest.json").read_text())["machine"])
    assert "QEMU" in machine["virtualization"] and machine["kernel"].startswith("Linux ")
    assert "The clock is virtual" in " ".join(shown.stdout.split())
    count = "4" if exhaustive else "1"
    verified = swapstone(tmp_path, "verify", str(record), "--recompute", count)
    assert f"{count} of {count} trials gave the same bytes" in verified.stdout
    # Another experiment with the same seed runs the same trials.
    swapstone(tmp_path, "compare", *asked, "--out", str(tmp_path / "again"))
    assert [run["output"] for run in runs_of(tmp_path / "again")] == [run["output"] for run in runs]


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
def test_a_dynamic_program_runs_on_a_c_library_that_the_image_lacks(tmp_path: Path) -> None:
    asked = ("libc=musl,musl:1.2.5", "--only", "b_string_strlen", "--blocks", "1", "--target", "vm", "--out", "r")
    swapstone(tmp_path, "compare", *asked)
    runs = runs_of(tmp_path / "r")
    assert {run["status"] for run in runs} == {"ok"}
    assert {dict(run["observed"])["libc"] for run in runs} == {"musl", "musl:1.2.5"}


@pytest.mark.slow
@pytest.mark.exhaustive  # with musl they are compared above
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
def test_an_allocator_is_preloaded_and_observed_in_the_machine(tmp_path: Path) -> None:
    """A run is refused unless the objects that the process has mapped show the requested allocator."""
    asked = (
        "allocator=default,mimalloc",
        "libc=glibc,musl",
        "--only",
        "b_malloc_tiny1",
        "--blocks",
        "1",
        "--target",
        "vm",
    )
    swapstone(tmp_path, "compare", *asked, "--out", str(tmp_path / "record"))
    runs = runs_of(tmp_path / "record")
    assert [run["status"] for run in runs] == ["ok"] * 4
    times = {run["trial"]["variant"]: run["samples"][0]["values"][0] for run in runs}
    assert len(set(times.values())) == 4  # exact times of four different allocators
