# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs in a store: the inputs that a name stands for, so that any machine can make the run, and runs that are finished."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from swapstone.core.model import CLOCK_SCALES, MOST_PROCESSORS, FrozenStruct, UnavailableError, WireError
from swapstone.core.model.directories import mark_used, write_whole
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.agent_build import sha256_of
from swapstone.parts.cluster.content_store import RUNS, TRIALS, ContentStore, DamagedEntryError
from swapstone.parts.vm.machine.boot_image import Part
from swapstone.parts.vm.machine.emulator import EmulatedMachine, check_cpu, find_emulator
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun, Setup
from swapstone.parts.vm.machine.run_cache import NamedRun, decode_run, digest_of, encode_run, run_inputs
from swapstone.version import __version__

MOST_MEMORY_BYTES = 64 << 30
Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class StoredTrial(FrozenStruct, frozen=True, kw_only=True):
    """The inputs of a run, as a store has them.

    Attributes:
        swapstone: the version that wrote it, for messages.
        emulator: SHA-256 of QEMU with its firmware.
        emulator_version: for messages.
        machine: the emulated machine.
        kernel: digest of an object.
        initrd: digest of the whole initrd.
        parts: digests of the objects that follow each other in the initrd: the image, which other experiments have too, and the rest.
        order: digest of an object.
    """

    swapstone: str
    emulator: str
    emulator_version: str
    machine: EmulatedMachine
    kernel: Digest
    initrd: Digest
    parts: tuple[Digest, Digest]
    order: Digest


def put_trial(store: ContentStore, named: NamedRun) -> None:
    """Store the inputs of a run, unless they are there.

    Raises:
        UserError: the store can't be written, or a file of the run can't be read.
    """
    setup = named.setup
    trial = StoredTrial(
        swapstone=__version__,
        emulator=setup.emulator.build,
        emulator_version=setup.emulator.version,
        machine=setup.machine,
        kernel=store.put_object(named.inputs["kernel"].hex(), setup.kernel.read_bytes),
        initrd=named.inputs["initrd"].hex(),
        parts=(_put_part(store, named.parts[0]), _put_part(store, named.parts[1])),
        order=store.put_object(hashlib.sha256(setup.order).hexdigest(), lambda: setup.order),
    )
    encoded = trial.encoded()
    if store.size(TRIALS, named.name) != len(encoded):
        store.put(TRIALS, named.name, encoded)


def _put_part(store: ContentStore, part: Part) -> str:
    return store.put_object(part[0], lambda: part[1])


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
    machine = trial.machine
    emulator = find_emulator(machine)
    if emulator.build != trial.emulator:
        raise UnavailableError(
            f"This machine would make another run than {name}: its QEMU is {emulator.version}, SHA-256 {emulator.build}, and the run "
            f"needs {safe_excerpt(trial.emulator_version, 100)}, SHA-256 {safe_excerpt(trial.emulator, 64)}.",
            "Install the same package of QEMU on both machines, or set SWAPSTONE_QEMU to a folder with it.",
        )
    order = store.get_object(trial.order)
    setup = Setup(emulator, machine, folder / trial.kernel, folder / trial.initrd, order)
    inputs = run_inputs(setup, kernel=bytes.fromhex(trial.kernel), initrd=bytes.fromhex(trial.initrd))
    if digest_of(inputs) != name:
        if trial.swapstone == __version__:
            raise DamagedEntryError(entry, "its inputs have another name")
        raise UnavailableError(
            f"The run {name} is another one here: Swapstone {safe_excerpt(trial.swapstone, 40)} named it, and this is {__version__}.",
            "Install that version of Swapstone on this machine.",
        )
    if machine.cpu:
        check_cpu(emulator, machine)
    for path, parts in ((setup.kernel, (trial.kernel,)), (setup.initrd, trial.parts)):
        if not path.exists() or _digest_at(path) != path.name:  # files are replaced, never changed
            write_whole(path, b"".join(map(store.get_object, parts)))
            _digest_at.cache_clear()
        if _digest_at(path) != path.name:
            raise DamagedEntryError(entry, "the parts of its initrd have another digest")
        mark_used(path)
    return setup, inputs


def decode_trial(data: bytes, entry: str) -> StoredTrial:
    """Decode the inputs of a run, and check that its machine can be one of an experiment.

    Args:
        data: of the entry.
        entry: its path, for messages.

    Raises:
        DamagedEntryError: it is none.
    """
    try:
        trial = msgspec.json.decode(data, type=StoredTrial)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedEntryError(entry, f"it is no trial ({safe_excerpt(str(error), 100)})") from error
    machine = trial.machine
    counts = not machine.wall and machine.ns_per_instruction in CLOCK_SCALES
    if not (counts and 0 < machine.memory_bytes <= MOST_MEMORY_BYTES and 1 <= machine.processors <= MOST_PROCESSORS):
        raise DamagedEntryError(entry, "its machine is none on the virtual clock")
    return trial


_digest_at = functools.cache(sha256_of)


def put_run(store: ContentStore, name: str, run: GuestRun) -> None:
    """Store a finished run.

    Raises:
        UserError: the store can't be written.
    """
    store.put(RUNS, name, encode_run(name, run))


def get_run(store: ContentStore, name: str) -> GuestRun | None:
    """Return a finished run; None if the store has none of this name.

    Raises:
        DamagedEntryError: it is truncated, altered, or another run's.
        UserError: the store can't be read.
    """
    data = store.get(RUNS, name)
    try:
        run = decode_run(data, name) if data is not None else None
    except WireError as error:
        raise DamagedEntryError(store.path_of(RUNS, name), error.message) from error
    if run is not None and run.end is not GuestEnd.FINISHED:
        raise DamagedEntryError(store.path_of(RUNS, name), "the run did not finish")
    return run


def usable_run(store: ContentStore, name: str, note: Callable[[str], None], then: str = "") -> GuestRun | None:
    """Return a finished run; None if the store has none of this name, or a damaged one.

    Args:
        store: where it is.
        name: of the run.
        note: called with a warning about a damaged one.
        then: what follows, a sentence for the warning.

    Raises:
        UserError: the store can't be read.
    """
    try:
        return get_run(store, name)
    except DamagedEntryError as error:
        note(f"warning: {error.message} {then}".rstrip())
        return None
