# SPDX-License-Identifier: MIT OR Apache-2.0
"""A virtual machine for contract tests: one boot saves the machine of all tests."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.contract.programs import contract_programs
from tests.contract.vm_images import initrd_for, kernel, need_emulator
from tests.shared import Shared
from tests.uncompared_snapshots import compared_elsewhere


@dataclasses.dataclass(frozen=True)
class VmFixture:
    """An image, its options and the test programs. `target` opens it with changed options."""

    parts: VmImage
    options: VmOptions
    programs: dict[str, Path]

    def open(self, **changed: object) -> VmTarget:
        """Open the target with all programs."""
        target = VmTarget(self.parts, dataclasses.replace(self.options, **changed))  # type: ignore[arg-type] # one of its fields
        for path in self.programs.values():
            target.put(path)
        return target

    @contextlib.contextmanager
    def target(self, **changed: object) -> Iterator[tuple[VmTarget, dict[str, str]]]:
        with self.open(**changed) as target:
            yield target, {name: target.put(path) for name, path in self.programs.items()}

    def run(
        self, name: str, *arguments: str, trial: str = "0-0", timeout_ms: int = 10_000, **options: object
    ) -> AgentAnswer:
        with self.target(**options) as (target, paths):
            return target.run(
                TrialRequest(
                    id=trial,
                    arguments=(paths[f"{name}-static"], *arguments),
                    environment=(("LC_ALL", "C"),),
                    cwd=target.scratch(),
                    timeout_ms=timeout_ms,
                )
            )


def vm_fixture(shared: Shared) -> VmFixture:
    """Return the machine. The first caller of all workers compiles the programs and boots it once.

    tests/contract/test_vm_host.py compares a run from its snapshot with one from a boot.
    """
    need_emulator()
    programs = contract_programs(shared)

    def at(folder: Path) -> VmFixture:
        return VmFixture(VmImage(kernel(), folder / "initrd"), VmOptions(cache=folder), programs)

    def fill(folder: Path) -> None:
        initrd_for(programs["empty"], folder / "initrd")
        with compared_elsewhere():
            at(folder).run("empty")

    return at(shared.folder("contract-vm", fill))
