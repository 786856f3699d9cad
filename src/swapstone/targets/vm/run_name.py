# SPDX-License-Identifier: MIT OR Apache-2.0
"""The name of a run: the digest of everything that a run on the virtual clock depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from swapstone.targets.vm import qemu

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
