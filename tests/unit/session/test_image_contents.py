# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the images of an experiment contain: the same for all loads and tools."""

from __future__ import annotations

import itertools

import pytest

from swapstone.core.model import Experiment, FactorLevels, MachineNeeds
from swapstone.core.workloads.loads import LOADS
from swapstone.parts.vm.artifacts.image_catalog import MODULES, PARTS
from swapstone.parts.vm.session.vm_images import LIBRARIES, image_contents
from tests.unit import builders

KERNELS = ("generic", "rt")


def _experiment(*loads: str, latency: bool = False, swap: bool = False) -> Experiment:
    levels = (FactorLevels(factor="swap", levels=("flash", "zram:lz4")),) if swap else ()
    kernels = FactorLevels(factor="kernel", levels=KERNELS)
    work = (("latency", "cyclictest"),) if latency else (("libc", "b_malloc_tiny1"),)
    return builders.experiment(target="vm", clock="virtual", factors=(kernels, *levels), loads=loads, workloads=work)


def test_all_loads_have_one_image() -> None:
    loads = [load.name for load in LOADS if not load.machine.own_modules]
    combinations = [(load,) for load in loads if load != "idle"] + list(itertools.combinations(loads, 2))
    found = {image_contents(_experiment(*each, latency=True), KERNELS) for each in combinations}
    found.add(image_contents(_experiment("idle", latency=True), KERNELS))
    (contents,) = found
    assert contents.parts == tuple(part.name for part in PARTS)
    assert set(contents.modules) == {"configfs", "null_blk", "ext4"}
    assert contents.own_modules == ()


def test_a_module_of_this_project_is_added_for_its_load_only() -> None:
    planted = image_contents(_experiment("idle", "planted", latency=True), KERNELS)
    idle = image_contents(_experiment("idle", latency=True), KERNELS)
    assert (planted.parts, planted.modules, planted.own_modules) == (idle.parts, idle.modules, ("planted",))


def test_without_loads_and_tools_an_image_is_small() -> None:
    contents = image_contents(_experiment("idle"), KERNELS)
    assert contents == MachineNeeds(parts=(*LIBRARIES, "busybox"))
    swap = image_contents(_experiment("idle", swap=True), KERNELS)
    assert swap.parts == contents.parts
    assert {"zram", "lz4", "null_blk"} <= set(swap.modules) <= set(MODULES)


@pytest.mark.parametrize(("load", "modules"), [("idle", ()), ("io", ("configfs", "null_blk", "ext4"))])
def test_a_kernel_of_the_user_loads_only_the_modules_that_are_needed(load: str, modules: tuple[str, ...]) -> None:
    contents = image_contents(_experiment(load, latency=True), ("generic", "/tmp/bzImage"))
    assert contents.parts == tuple(part.name for part in PARTS)
    assert contents.modules == modules
