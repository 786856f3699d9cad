# SPDX-License-Identifier: MIT OR Apache-2.0
"""The name of a run: the digest of everything that it depends on, so that it can be made here or elsewhere; and what gets runs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Protocol

from swapstone.parts.vm.machine import qemu
from swapstone.parts.vm.machine.boot_image import Parts

_SCHEME = b"swapstone-run 1"


def digest_of(inputs: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of named inputs: any other byte anywhere gives another one.

    Args:
        inputs: by name; a large one may be given by its own digest.
    """
    digest = hashlib.sha256(_SCHEME)
    for name in sorted(inputs):
        for part in (name.encode(), inputs[name]):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


def run_inputs(setup: qemu.Setup, *, kernel: bytes, initrd: bytes) -> dict[str, bytes]:
    """Return the named inputs of a run. `digest_of` them is its name.

    Args:
        setup: emulator, machine and order.
        kernel: digest of the kernel.
        initrd: digest of the initrd.
    """
    names = qemu.Files("KERNEL", "INITRD", "ORDER", "CONSOLE", "CHANNEL")
    return {
        "emulator": setup.emulator.build.encode(),
        "arguments": "\0".join(qemu.arguments(setup.machine, names)).encode(),
        "kernel": kernel,
        "initrd": initrd,
        "order": setup.order,
    }


@dataclasses.dataclass(frozen=True)
class NamedRun:
    """A run that can be made here or elsewhere.

    Attributes:
        name: digest of its inputs.
        setup: emulator, machine, files and order.
        inputs: by `run_inputs`.
        parts: of the initrd.
    """

    name: str
    setup: qemu.Setup
    inputs: Mapping[str, bytes]
    parts: Parts


class RunSource(Protocol):
    """Gets runs, also from elsewhere. Several threads may call it at once.

    Attributes:
        at_once: how many runs it makes at the same time; 0 for as many as this machine.
        used: names of the runs that were needed.
    """

    at_once: int
    used: set[str]

    def get(self, named: NamedRun, known: qemu.GuestRun | None) -> qemu.GuestRun:
        """Return a run.

        Args:
            named: its name and inputs.
            known: the run, if this machine has it.

        Raises:
            TargetError: it can't be made.
            UserError: the source is not usable.
        """
        ...

    def close(self) -> None:
        """End what it makes."""
        ...
