# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of 32-bit ARM on this machine as a target, in QEMU's user-mode emulator (qemu-arm of qemu-user).

What is measured is the emulator: how long it takes for the instructions of the program. That is no time of the processor that it emulates.
"""

from __future__ import annotations

import shutil

import msgspec

from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.model import Experiment, FrozenStruct, UserError
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.host import HOST, HostTarget, check_nice
from swapstone.core.targets.target import DEFAULT_MACHINE, MachineConfig, Target, TargetDescription
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.core.wire import AgentAnswer, TrialRequest

EMULATOR, PROCESSOR, ARCHITECTURE = "qemu-arm", "cortex-a9", "armhf"


class UserEmulator(HostTarget):
    """Starts each program of a trial in the emulator, on this machine and its clock."""

    name = "qemu-arm"
    offers = frozenset({"runs_programs", "shares_files"})

    @property
    def architecture(self) -> str:
        """The architecture of its programs, as ``uname -m`` prints it."""
        return find_architecture(ARCHITECTURE).machine

    def describe(self) -> TargetDescription:
        """Return this machine's description, with the processor that its programs are for."""
        here = super().describe()
        emulated = f"{PROCESSOR} in a user-mode emulator on {here.cpu or here.architecture}"
        return msgspec.structs.replace(here, architecture=self.architecture, cpu=emulated)

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return those of this machine, and the emulator with its version."""
        return (*super().tools(), ("emulator", safe(first_line([EMULATOR, "--version"])[:200])))

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial with the emulator before its words; see `Target.run`."""
        words = (shutil.which(EMULATOR) or EMULATOR, "-cpu", PROCESSOR, *request.arguments)
        return super().run(msgspec.structs.replace(request, arguments=words), config)


class UserEmulatorSpec(FrozenStruct, frozen=True):
    """The target has no parameters."""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:  # noqa: ARG002 - see `TargetSpec`
        """Open the target.

        Raises:
            UnavailableError: as `check_nice`.
        """
        check_nice()
        return UserEmulator()


def _parse(detail: str, options: TargetOptions) -> UserEmulatorSpec:
    if detail or options.architecture not in {"", ARCHITECTURE}:
        raise UserError(
            f"The target {UserEmulator.name} runs programs of {ARCHITECTURE}, and takes nothing after its name.",
            f"Write: --target {UserEmulator.name} --arch {ARCHITECTURE}",
        )
    return UserEmulatorSpec()


USER_EMULATOR = TargetKind(
    name=UserEmulator.name,
    description="programs of 32-bit ARM in QEMU's user-mode emulator: the emulator's time",
    opens=UserEmulator,
    parse=_parse,
    usage=UserEmulator.name,
    has_architectures=True,
    programs=lambda experiment: (*HOST.programs(experiment), EMULATOR),
)
