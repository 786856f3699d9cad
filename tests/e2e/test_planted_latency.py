# SPDX-License-Identifier: MIT OR Apache-2.0
"""A positive control: a kernel module disables preemption for 2 ms in stock kernels, and cyclictest measures it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from swapstone.core.factors import Recipe
from swapstone.core.model import IDLE, Source, Workload
from swapstone.core.run.machine_config import machine_config_for
from swapstone.core.targets import MachineConfig
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.core.workloads import find_load
from swapstone.parts.build.artifacts.packages import package_file, read_lock
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.artifacts.kernel_modules import build_module
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.machine.vm_target import VmTarget
from tests.uncompared_snapshots import leave_out_cold_starts

LOOPS = 1500
GAP_US = 420
"""Gap between the phases of 14 sections to the period of 1000 us: at most 411 us, with 0 to 60 us of overhead in each pause."""
ASKED = TrialRequest(
    id="1-0",
    arguments=("/usr/bin/cyclictest", "-q", "-m", "-p", "95", "-i", "1000", "-l", str(LOOPS)),
    environment=(("PATH", "/usr/bin:/bin"),),
    cwd="/scratch",
    timeout_ms=60_000,
)
WORKLOAD = Workload(name="cyclictest", origin=Source(file="x.c"), description="", metrics=())


def _target(architecture: str, machine: str, kernels: tuple[str, ...]) -> VmTarget:
    parts = {}
    for kernel in kernels:
        asked = ImageRequest(
            architecture=architecture,
            kernel=kernel,
            modules=(),
            parts=("busybox", "glibc", "cyclictest"),
        )
        built = build_image(asked)
        parts[kernel] = VmImage(
            built.kernel,
            built.initrd,
            EmulatedMachine(architecture=machine),
            own_modules={"planted": _planted(architecture, kernel)},
            banner=built.image.banner,
        )
    return VmTarget(parts)


def _planted(architecture: str, kernel: str) -> bytes:
    return build_module("planted", find_machine_architecture(architecture), kernel, read_lock(), print).content


def _setting(kernel: str, load: str) -> MachineConfig:
    return machine_config_for(WORKLOAD, Recipe(kernel=kernel), IDLE if load == IDLE.name else find_load(load))


def _maximum_us(answer: AgentAnswer) -> int:
    found = re.search(rf"C:\s*{LOOPS} .*Max:\s*(\d+)", answer.stdout.decode())
    assert found, answer
    return int(found[1])


def _sections(answer: AgentAnswer, when: str) -> int:
    return int(dict(answer.machine).get(f"{when} /sys/module/planted/parameters/sections", "-1"))


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its compilers build for both architectures")
@pytest.mark.parametrize(
    ("architecture", "machine", "kernels"),
    [
        ("x86_64", "x86_64", ("rt",)),
        pytest.param("x86_64", "x86_64", ("generic",), marks=pytest.mark.exhaustive),
        pytest.param("arm64", "aarch64", ("rt",), marks=pytest.mark.exhaustive),
    ],
    ids=["x86_64", "x86_64-generic", "arm64"],
)
def test_cyclictest_measures_a_planted_section_of_2_ms(
    architecture: str, machine: str, kernels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_cold_starts(monkeypatch.setattr)
    with _target(architecture, machine, kernels) as target:
        for kernel in kernels:
            idle = target.run(ASKED, _setting(kernel, "idle"))
            planted = target.run(ASKED, _setting(kernel, "planted"))
            assert _maximum_us(idle) < 100
            assert 2000 - GAP_US <= _maximum_us(planted) < 2100, "sections of 2000 us at different phases of 1000 us"
            assert _sections(idle, "before") == -1, "the module is only loaded for its load"
            ran = _sections(planted, "after") - _sections(planted, "before")
            assert ran >= LOOPS // 103 - 1, "one in 102 to 103 ms"


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
def test_the_planted_module_builds_reproducibly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _planted("x86_64", "generic")
    packages = package_file("").parent  # fetched once; everything else is built again, in a folder with another name
    (tmp_path / "the-other" / "swapstone").mkdir(parents=True)
    (tmp_path / "the-other" / "swapstone" / "packages").symlink_to(packages)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the-other"))
    assert _planted("x86_64", "generic") == first
    assert list(tmp_path.glob("the-other/swapstone/modules/*/planted.ko"))
