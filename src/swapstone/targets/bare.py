# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine without an operating system as a target: an emulated riscv64 machine, booted for each trial, is the server.

The trial itself runs on this machine (crates/swapstone-net-bench/src/trial/guest.rs): its namespace, its client and the emulator, on whose
TAP the machine is.
"""

from __future__ import annotations

import functools
import shutil
import subprocess

from swapstone.model import Experiment, FrozenStruct, UserError
from swapstone.model.safe_text import safe
from swapstone.targets.host import HostTarget, check_nice
from swapstone.targets.target import Target
from swapstone.targets.target_kind import Notify, TargetKind, TargetOptions

EMULATOR = "qemu-system-riscv64"
_VERSION_TIMEOUT_S = 30


class BareTarget(HostTarget):
    """Runs trials on this machine, whose servers are emulated machines."""

    name = "bare-riscv64"
    offers = frozenset({"runs_programs", "shares_files", "bare"})

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return those of this machine, and the emulator with its version."""
        return (*super().tools(), ("emulator", emulator_version()))


@functools.cache
def emulator_version() -> str:
    """Return the first line that the emulator prints of itself, or that it prints none."""
    path = shutil.which(EMULATOR) or EMULATOR
    try:
        done = subprocess.run(
            (path, "--version"),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{EMULATOR} of an unknown version"
    return safe(done.stdout.partition("\n")[0].strip()[:200]) or f"{EMULATOR} of an unknown version"


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
    does=lambda detail: "boot an emulated riscv64 machine for each trial",  # noqa: ARG005 - it has no detail
)
