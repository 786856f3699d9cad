# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine without an operating system as a target: an emulated riscv64 machine, booted for each trial, is the server.

The trial itself runs on this machine (crates/swapstone-net-bench/src/trial/guest.rs): its namespace, its client and the emulator, on whose
TAP the machine is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.model import IDLE, Experiment, FrozenStruct, UnavailableError, UserError, refuse
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.host import HOST, HostTarget, check_nice
from swapstone.core.targets.target import Target
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.parts.net.factors.netstack import NETSTACK, needs_system

EMULATOR = "qemu-system-riscv64"
_SUITE = "netstack-bare"
_HOST = "Measure on --target host."
_DEFAULT = ("kernel",)


class BareTarget(HostTarget):
    """Runs trials on this machine, whose servers are emulated machines."""

    name = "bare-riscv64"
    offers = frozenset({"runs_programs", "shares_files", "bare"})
    suites = (_SUITE,)

    @classmethod
    def check_experiment(cls, experiment: Experiment, need_system: Sequence[str]) -> None:
        """Refuse what needs an operating system."""
        factor = next((each.factor for each in experiment.applied_factors if each.factor != NETSTACK.name), "")
        load = next((load for load in experiment.loads if load != IDLE.name), "")
        levels = experiment.levels_of(NETSTACK.name) or _DEFAULT
        refused = {level: reason for level in levels if (reason := needs_system(level))}
        level = next(iter(refused), "")
        refuse(
            (
                factor,
                f"The target {cls.name} has no factor {factor}: without an operating system, only the network stack varies.",
                _HOST,
            ),
            (load, f"The target {cls.name} runs no load {load} beside a trial.", _HOST),
            (
                need_system,
                f"The target {cls.name} has no operating system, which {next(iter(need_system), '')} needs.",
                f"Select the workloads that it runs: --suite {_SUITE}. Or measure on --target host.",
            ),
            (
                levels[0] in refused or (len(levels) > 1 and refused.keys() >= set(levels[1:])),
                f"{NETSTACK.name}={level} is {refused.get(level)}.",
                f"Compare the stacks of the machine: {NETSTACK.name}=lwip,smoltcp. Or measure on --target host.",
            ),
            kind=UnavailableError,
        )

    @classmethod
    def left_out_levels(cls, experiment: Experiment) -> Iterator[str]:
        """Yield a sentence for each level that needs an operating system."""
        for level in experiment.levels_of(NETSTACK.name) or _DEFAULT:
            if reason := needs_system(level):
                yield f"Note: {NETSTACK.name}={level} is {reason}. The other levels are measured."

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return those of this machine, and the emulator with its version."""
        return (*super().tools(), ("emulator", emulator_version()))


@functools.cache
def emulator_version() -> str:
    """Return the first line that the emulator prints of itself, or why it prints none."""
    return safe(first_line([EMULATOR, "--version"])[:200])


class BareSpec(FrozenStruct, frozen=True):
    """The target has no parameters."""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:  # noqa: ARG002 - see `TargetSpec`
        """Open the target.

        Raises:
            UnavailableError: as `check_nice`.
        """
        check_nice()
        return BareTarget()


def _parse(detail: str, options: TargetOptions) -> BareSpec:  # noqa: ARG001 - see `TargetKind`
    if detail:
        raise UserError("The target bare-riscv64 takes nothing after its name.", "Write: --target bare-riscv64")
    return BareSpec()


BARE = TargetKind(
    name="bare-riscv64",
    description="an emulated riscv64 machine without an operating system, as the server of network stacks",
    opens=BareTarget,
    parse=_parse,
    usage="bare-riscv64",
    programs=HOST.programs,
    does=lambda detail: "boot an emulated riscv64 machine for each trial",  # noqa: ARG005 - it has no detail
)
