# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs in a store: the inputs that a name stands for, so that any machine can make the run, and runs that are finished."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from swapstone.model import MOST_PROCESSORS, FrozenStruct, UnavailableError, UserError
from swapstone.model.safe_text import safe_excerpt
from swapstone.targets.vm import qemu
from swapstone.targets.vm.content_store import (
    MOST_BYTES,
    OBJECTS,
    RUNS,
    TRIALS,
    ContentStore,
    DamagedEntryError,
)
from swapstone.targets.vm.emulator import Emulator, check_cpu, find_emulator
from swapstone.targets.vm.machine_models import MACHINE_MODELS, EmulatedMachine, check_scale
from swapstone.targets.vm.qemu import GuestRun, Setup
from swapstone.targets.vm.run_cache import mark_used, write_whole
from swapstone.targets.vm.run_name import digest_of, run_inputs
from swapstone.version import __version__

SCHEME = 1
MOST_MEMORY_BYTES = 64 << 30
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclasses.dataclass(frozen=True)
class NamedRun:
    """A run that can be made here or elsewhere.

    Attributes:
        name: digest of its inputs.
        setup: emulator, machine, files and order.
        inputs: by `run_inputs`.
        parts: of the initrd, each with its digest: the image, and what the experiment appends.
    """

    name: str
    setup: Setup
    inputs: Mapping[str, bytes]
    parts: tuple[tuple[str, bytes], ...]


class StoredTrial(FrozenStruct, frozen=True, kw_only=True):
    """The inputs of a run, as a store has them. Digests are 64 hexadecimal digits.

    Attributes:
        scheme: `SCHEME`.
        swapstone: the version that wrote it, for messages.
        emulator: SHA-256 of QEMU with its firmware.
        emulator_version: for messages.
        machine: the emulated machine.
        arguments: QEMU's command line, with words in place of paths.
        kernel, order: digests of objects.
        initrd: digest of the whole initrd.
        parts: digests of the objects that follow each other in the initrd: the image, and what the experiment appends.
    """

    scheme: int = SCHEME
    swapstone: str
    emulator: str
    emulator_version: str
    machine: EmulatedMachine
    arguments: tuple[str, ...]
    kernel: str
    initrd: str
    parts: tuple[str, ...]
    order: str


class _FinishedRun(FrozenStruct, frozen=True, kw_only=True):
    """A finished run with its name: a copy under another name is refused."""

    name: str
    run: GuestRun


def put_trial(store: ContentStore, named: NamedRun) -> None:
    """Store the inputs of a run, unless they are there.

    Raises:
        UserError: the store can't be written.
    """
    setup = named.setup
    trial = StoredTrial(
        swapstone=__version__,
        emulator=setup.emulator.build,
        emulator_version=setup.emulator.version,
        machine=setup.machine,
        arguments=tuple(named.inputs["arguments"].decode().split("\0")),
        kernel=_put_file(store, setup.kernel, named.inputs["kernel"]),
        initrd=named.inputs["initrd"].hex(),
        parts=tuple(store.put_object(content, digest) for digest, content in named.parts),
        order=store.put_object(setup.order),
    )
    encoded = trial.encoded()
    if store.size(TRIALS, named.name) != len(encoded):
        store.put(TRIALS, named.name, encoded)


def _put_file(store: ContentStore, path: Path, digest: bytes) -> str:
    if store.has_put(digest.hex()):
        return digest.hex()
    try:
        found = store.put_object(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from error
    if found != digest.hex():
        raise UserError(f"{path} changed while it was used.", "Give the same command again.")
    return found


def get_trial(store: ContentStore, name: str, folder: Path) -> tuple[Setup, dict[str, bytes]]:
    """Read the inputs of a run, check that they have this name, and write its files.

    Args:
        store: where it is.
        name: of the run.
        folder: for kernel and initrd, by their digests.

    Returns:
        The run's setup on this machine, and its inputs.

    Raises:
        DamagedEntryError: an entry is missing or damaged, or the inputs have another name.
        UnavailableError: this machine would make another run: its QEMU or its Swapstone differs. The message has both.
        UserError: the store can't be read, or `folder` can't be written.
    """
    entry = store.path_of(TRIALS, name)
    data = store.get(TRIALS, name)
    if data is None:
        raise DamagedEntryError(entry, "it is missing")
    trial = decode_trial(data, entry)
    written = {
        "emulator": trial.emulator.encode(),
        "arguments": "\0".join(trial.arguments).encode(),
        "kernel": bytes.fromhex(_digest(trial.kernel, entry)),
        "initrd": bytes.fromhex(_digest(trial.initrd, entry)),
        "order": store.get_object(_digest(trial.order, entry)),
    }
    if digest_of(written) != name:
        raise DamagedEntryError(entry, "its inputs have another name")
    _check_machine(trial.machine, entry)
    emulator = _same_emulator(trial, name)
    kernel = _file(folder / trial.kernel, trial.kernel, lambda: store.get_object(trial.kernel))
    initrd = _file(folder / trial.initrd, trial.initrd, lambda: _joined(store, trial, entry))
    setup = Setup(emulator, trial.machine, kernel, initrd, written["order"])
    inputs = run_inputs(setup, kernel=written["kernel"], initrd=written["initrd"])
    if inputs != written:
        raise UnavailableError(
            f"The run {name} has another command line of QEMU than this Swapstone ({__version__}) makes: it was named by "
            f"{safe_excerpt(trial.swapstone, 40)}.",
            "Install that version of Swapstone on this machine.",
        )
    return setup, inputs


def decode_trial(data: bytes, entry: str) -> StoredTrial:
    """Decode the inputs of a run, unchecked.

    Args:
        data: of the entry.
        entry: its path, for messages.

    Raises:
        DamagedEntryError: it is none.
    """
    try:
        return msgspec.json.decode(data, type=StoredTrial)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedEntryError(entry, f"it is no trial ({safe_excerpt(str(error), 100)})") from error


def _digest(text: str, entry: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise DamagedEntryError(entry, "it names an object that has no digest")
    return text


def _check_machine(machine: EmulatedMachine, entry: str) -> None:
    """Refuse a machine that no experiment has, before QEMU reads it."""
    try:
        check_scale(machine.ns_per_instruction)
    except UserError as error:
        raise DamagedEntryError(entry, "its machine is none on the virtual clock") from error
    whole = machine.memory_bytes % (1 << 20) == 0 and 0 < machine.memory_bytes <= MOST_MEMORY_BYTES
    if machine.wall or not whole or machine.architecture not in MACHINE_MODELS:
        raise DamagedEntryError(entry, "its machine is none on the virtual clock")
    if not 1 <= machine.processors <= MOST_PROCESSORS:
        raise DamagedEntryError(entry, "its machine is none on the virtual clock")


def _same_emulator(trial: StoredTrial, name: str) -> Emulator:
    emulator = find_emulator(trial.machine)
    if emulator.build != trial.emulator:
        raise UnavailableError(
            f"This machine would make another run than {name}: its QEMU is {emulator.version}, SHA-256 {emulator.build}, and the run "
            f"needs {safe_excerpt(trial.emulator_version, 100)}, SHA-256 {safe_excerpt(trial.emulator, 64)}.",
            "Install the same package of QEMU on both machines, or set SWAPSTONE_QEMU to a folder with it.",
        )
    if trial.machine.cpu:
        check_cpu(emulator, trial.machine)
    return emulator


def _joined(store: ContentStore, trial: StoredTrial, entry: str) -> bytes:
    if sum(store.size(OBJECTS, _digest(part, entry)) or 0 for part in trial.parts) > MOST_BYTES[OBJECTS]:
        raise DamagedEntryError(entry, "the parts of its initrd are too large together")
    content = b"".join(store.get_object(part) for part in trial.parts)
    if hashlib.sha256(content).hexdigest() != trial.initrd:
        raise DamagedEntryError(entry, "the parts of its initrd have another digest")
    return content


_checked: set[tuple[Path, str, int, int]] = set()
"""Files whose digest this process has checked, each with its inode and size: they are replaced, never changed."""


def _file(path: Path, digest: str, read: Callable[[], bytes]) -> Path:
    """Return a file with this digest, which is written from the store unless it is there."""
    if _is_whole(path, digest):
        mark_used(path)
        return path
    write_whole(path, read())
    if not _is_whole(path, digest):
        raise UserError(f"{path} changed while it was written.", "Give the same command again.")
    return path


def _is_whole(path: Path, digest: str) -> bool:
    try:
        status = path.stat()
        state = (path, digest, status.st_ino, status.st_size)
        if state in _checked:
            return True
        with path.open("rb") as handle:
            if hashlib.file_digest(handle, "sha256").hexdigest() != digest:
                return False
    except OSError:
        return False
    _checked.add(state)
    return True


def put_run(store: ContentStore, name: str, run: GuestRun) -> None:
    """Store a finished run.

    Raises:
        UserError: the store can't be written.
    """
    body = _FinishedRun(name=name, run=run).encoded()
    store.put(RUNS, name, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def get_run(store: ContentStore, name: str) -> GuestRun | None:
    """Return a finished run; None if the store has none of this name.

    Raises:
        DamagedEntryError: it is truncated, altered, or another run's.
        UserError: the store can't be read.
    """
    data = store.get(RUNS, name)
    return None if data is None else decode_finished(data, name, store.path_of(RUNS, name))


def decode_finished(data: bytes, name: str, entry: str) -> GuestRun:
    """Decode a finished run, and check its digest and its name.

    Args:
        data: of the entry.
        name: of the run.
        entry: its path, for messages.

    Raises:
        DamagedEntryError: it is truncated, altered, or another run's.
    """
    mark, _, body = data.partition(b"\n")
    if mark != hashlib.sha256(body).hexdigest().encode():
        raise DamagedEntryError(entry, "its content has another digest")
    try:
        found = msgspec.json.decode(body, type=_FinishedRun)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedEntryError(entry, f"it is no run ({safe_excerpt(str(error), 100)})") from error
    if found.name != name:
        raise DamagedEntryError(entry, "it is the run of another name")
    if found.run.end is not qemu.GuestEnd.FINISHED:
        raise DamagedEntryError(entry, "the run did not finish")
    return found.run
