# SPDX-License-Identifier: MIT OR Apache-2.0
"""The name of a run: the digest of everything that a run on the virtual clock depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from swapstone.model import UserError
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


def digest_of_file(path: Path) -> bytes:
    """Return the SHA-256 of a file.

    Raises:
        UserError: it can't be read.
    """
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").digest()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from error


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
