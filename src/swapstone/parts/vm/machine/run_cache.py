# SPDX-License-Identifier: MIT OR Apache-2.0
"""A cache of runs on the virtual clock, by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from swapstone.core.model import WireError
from swapstone.core.model.directories import mark_used, write_whole
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.agent_build import plugin_digest
from swapstone.parts.vm.machine import qemu
from swapstone.parts.vm.machine.qemu import GuestRun


def encode_run(name: str, run: GuestRun) -> bytes:
    """Return a run as a file has it: the digest of its name and content, then the content."""
    body = msgspec.json.encode(run)
    return _mark(name, body) + b"\n" + body


def decode_run(data: bytes, name: str) -> GuestRun:
    """Decode a run, and check its digest: a copy under another name is refused.

    Raises:
        WireError: it is truncated, altered, another run's, or of another version.
    """
    mark, _, body = data.partition(b"\n")
    if mark != _mark(name, body):
        raise WireError("its content has another digest")
    try:
        run: GuestRun = msgspec.json.decode(body, type=GuestRun)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"it is no run ({safe_excerpt(str(error), 100)})") from error
    if msgspec.json.encode(run) != body:  # fields that an older version lacked would have their defaults
        raise WireError("it is of another version")
    return run


def _mark(name: str, body: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + body).hexdigest().encode()


class RunCache:
    """A folder with one file for each run.

    Args:
        folder: created when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> GuestRun | None:
        """Return a run; None if there is none or its file is damaged or of another version."""
        try:
            run = decode_run((self._folder / name).read_bytes(), name)
        except (OSError, WireError):
            return None
        mark_used(self._folder / name)
        return run

    def put(self, name: str, run: GuestRun) -> None:
        """Store a run atomically.

        Raises:
            UserError: it can't be written.
        """
        write_whole(self._folder / name, encode_run(name, run))


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


def run_inputs(setup: qemu.Setup, kernel: bytes, initrd: bytes, received: bytes) -> dict[str, bytes]:
    """Return the named inputs of a run. `digest_of` them is its name.

    Args:
        setup: emulator, machine and order.
        kernel: digest of the kernel.
        initrd: digest of the initrd.
        received: digest of the trial's files.
    """
    names = {name: name.upper() for name in ("kernel", "initrd", "order", "console", "channel", "received")}
    return {
        "emulator": setup.emulator.build.encode(),
        "arguments": "\0".join(qemu.arguments(setup.machine, names)).encode(),
        "kernel": kernel,
        "initrd": initrd,
        "order": setup.order,
        "received": received,
        **({"counts": plugin_digest() + setup.points} if setup.points else {}),
    }


class NamedRun(msgspec.Struct, frozen=True):
    """A run that can be made here or elsewhere.

    Attributes:
        name: digest of its inputs.
        setup: emulator, machine, files and order.
        inputs: by `run_inputs`.
    """

    name: str
    setup: qemu.Setup
    inputs: Mapping[str, bytes]


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
