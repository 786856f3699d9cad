# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that the image of a virtual machine brings, such as cyclictest. Some are carried to other machines too."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from swapstone.core.factors import PRIORITY, PRIORITY_VARIABLE, Recipe, Stage, find_factor
from swapstone.core.model import Experiment, UnavailableError, Variant, Workload
from swapstone.core.run.machine_config import machine_config_for, probe_request, require_real_time
from swapstone.core.run.subject import BuildContext, DeclaredProgram, TrialSpec
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import Capabilities, MachineConfig
from swapstone.core.wire import TrialRequest
from swapstone.core.wire.output_reading import MOST_TOOL_BYTES
from swapstone.parts.vm.artifacts.image_assembly import carried_programs
from swapstone.parts.vm.factors.rootfs import ROOTFS
from swapstone.parts.vm.suites.latency import ImageTool

_PROBE = "{command} --quiet --mlockall --priority=99 --threads=1 --interval=100 --loops=1"


class ImageProgram(DeclaredProgram):
    """A program of a virtual machine's image, measured unchanged.

    Args:
        workload: its origin is an `ImageTool`.
    """

    needs_compiler = False
    output_is_evidence: ClassVar[bool] = True

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        assert isinstance(workload.origin, ImageTool)
        self._origin = workload.origin

    def check(self, experiment: Experiment, target: Capabilities) -> None:
        """Raise if the target neither boots machines nor gets programs of packages.

        Raises:
            UserError: it doesn't.
        """
        if "runs_loads" not in target.offers:
            super().check(experiment, target)

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Return the program in the image; nothing is built. On a target that boots no machine, carry it there.

        Raises:
            UnavailableError: a factor varies what is built or how a program starts; this program is the same for each level. Or the
                target does not permit a real-time priority.
        """
        target = context.target
        if "boots" in target.offers:
            if PRIORITY.name in dict(variant.applied):
                raise UnavailableError(
                    f"{self.workload.name} has the priority 99 in virtual machines",
                    "Measure on --target host or on a board.",
                )
            return Program("/bin/sh", recipe, None, target.inspect("/bin/sh"))
        for name, _ in variant.applied:
            if find_factor(name).stage is not Stage.BOOT and name not in (PRIORITY.name, ROOTFS.name):
                raise UnavailableError(
                    f"{self.workload.name} is a program of a package, and the same for each level of {name}",
                    "Compare the workload wakeup, which is built for each variant.",
                )
        if not dict(recipe.environment).get(PRIORITY_VARIABLE, "fifo:").startswith("fifo:"):
            raise UnavailableError(
                f"{self.workload.name} makes no histogram without a real-time priority", "Compare the workload wakeup."
            )
        command = carried_programs((self._origin.package,), target, context.notify)[0][self._origin.package]
        probe = probe_request(("/bin/sh", "-c", _PROBE.replace("{command}", command)), target.scratch())
        require_real_time(self.workload.name, target, probe)
        return Program("/bin/sh", recipe, None, target.inspect("/bin/sh"), carried=command)

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request. On several processors, a tool that has arguments for that may use all of them, isolated ones too."""
        request, cpus = super().request(trial), trial.cpus
        alone = len(cpus) < 2 or not self._origin.several
        if trial.program.carried:
            command = self._origin.carried if alone else self._origin.carried_several
            words = _filled(command, cpus, listed=True).replace("{command}", trial.program.carried)
            words = words.replace("{priority}", _priority(trial.program.recipe))
            return msgspec.structs.replace(
                request,
                arguments=("/bin/sh", "-c", words),
                cpus=request.cpus if alone else cpus,
                output_bytes=MOST_TOOL_BYTES,
            )
        if alone:
            return request
        arguments = tuple(_filled(word, cpus) for word in self._origin.several)
        return msgspec.structs.replace(request, arguments=(request.arguments[0], *arguments), cpus=cpus)

    def machine_config(self, trial: TrialSpec) -> MachineConfig:
        """Return the machine that a trial runs in; one that is not booted is not prepared."""
        if not trial.program.carried:
            return super().machine_config(trial)
        bare = msgspec.structs.replace(self.workload, machine=None)
        return machine_config_for(bare, trial.program.recipe, trial.load, trial.memory_bytes)


def _priority(recipe: Recipe) -> str:
    """Return cyclictest's options for the policy and priority of a recipe."""
    policy, _, priority = dict(recipe.environment).get(PRIORITY_VARIABLE, "fifo:99").partition(":")
    return f"--policy={policy} --priority={int(priority)}"


def _filled(word: str, cpus: tuple[int, ...], *, listed: bool = False) -> str:
    """Replace the placeholders of `ImageTool.several`. The processors of a machine that is not booted may have gaps between them."""
    numbers = ",".join(map(str, cpus)) if listed else f"{min(cpus)}-{max(cpus)}" if cpus else ""
    return word.replace("{processors}", str(len(cpus))).replace("{list}", numbers)
