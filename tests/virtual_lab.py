# SPDX-License-Identifier: MIT OR Apache-2.0
"""A labgrid lab whose board is a virtual one: an environment, an exporter's configuration, kernels and keys, in a folder of the user."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from swapstone.core.model import UserError, cpio, unknown
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.safe_text import safe
from swapstone.parts.boards.session.board_images import BOARD_MODULES, BOARD_PROGRAMS
from swapstone.parts.boards.targets.virtual_board import (
    ARCHITECTURES,
    MEMORY_MIB,
    BoardKeys,
    added_files,
    boot_words,
    device_words,
    free_port,
)
from swapstone.parts.vm.artifacts.libc_files import LibcImageRequest, build_libc_image
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator

PLACE = "virtual-board"
"""Name of the place at the coordinator, and of the target in the environment that needs none."""

_KERNELS, _ROOTS = ("generic", "rt"), ("musl", "glibc")
_LOCAL, _REMOTE = "local.yaml", "lab.yaml"

_ENVIRONMENT = """\
# A virtual board of Swapstone, as a board of a lab. `swapstone docs boards` explains it.
imports: [strategy.py]
targets:
  {role}:
    resources:
    - {resource}
    drivers:
    - QEMUDriver:
        qemu_bin: qemu
        machine: {machine}
        cpu: {cpu}
        memory: {memory}
        kernel: kernel
        boot_args: {boot_args}
        extra_args: {extra_args}
    - ShellDriver:
        prompt: 'board# '
        login_prompt: ' login: '
        username: root
        login_timeout: 300
    - InitrdStrategy: {{}}
images:
  kernel: ./kernel-generic
  generic: ./kernel-generic
  rt: ./kernel-rt
  rootfs: ./root-musl
  musl: ./root-musl
  glibc: ./root-glibc
tools:
  qemu: ./qemu
options:
  swapstone_ssh_config: ./config
"""

_STRATEGY = '''\
"""Boots the board with the images kernel and rootfs of the environment: QEMUDriver has no option for an initrd of its own."""

import shlex

import attr
from labgrid import target_factory
from labgrid.strategy import ShellStrategy


@target_factory.reg_driver
@attr.s(eq=False)
class InitrdStrategy(ShellStrategy):
    words = None

    def transition(self, status):
        self.words = self.power.extra_args if self.words is None else self.words
        image = self.target.env.config.get_image_path("rootfs")
        self.power.extra_args = f"{self.words} -initrd {shlex.quote(image)}"
        super().transition(status)
'''

EXPORTER = """\
## For labgrid-exporter: the board's ssh server.
{place}:
  NetworkService:
    address: 127.0.0.1
    port: {port}
    username: root
"""
"""A template of labgrid's exporter, for which a line that begins with one ``#`` is a statement of Jinja, and with two a comment."""


def write_lab(folder: Path, architecture: str, notify: Callable[[str], None]) -> str:
    """Write what labgrid needs for a virtual board.

    Args:
        folder: new, or empty.
        architecture: one of `ARCHITECTURES`; empty for the default.
        notify: called with a line before each long step.

    Returns:
        Sentences for the user, with the commands that use it.

    Raises:
        UserError: the folder is not empty or can't be written, or something that the image needs is missing.
    """
    name = architecture or ARCHITECTURES[0]
    if name not in ARCHITECTURES:
        raise unknown("architecture of a virtual board", name, ARCHITECTURES)
    folder = folder.expanduser().absolute()
    machine = EmulatedMachine(architecture=find_architecture(name).machine)
    emulator = find_emulator(machine)
    built = {
        (libc, kernel): build_libc_image(
            LibcImageRequest(
                architecture=name, libc=libc, kernel=kernel, modules=BOARD_MODULES, programs=BOARD_PROGRAMS
            ),
            notify,
        ).built
        for libc, kernel in (*((_ROOTS[0], kernel) for kernel in _KERNELS), (_ROOTS[1], _KERNELS[0]))
    }
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"The folder {safe(str(folder))} is not empty.", "Name a new one.")
        keys, port = BoardKeys(folder), free_port()
        added = added_files(keys)
        modules: list[str] = []
        for kernel in _KERNELS:
            image = built[_ROOTS[0], kernel]
            (folder / f"kernel-{kernel}").write_bytes(image.kernel.read_bytes())
            named = _modules(image.initrd.read_bytes(), kernel)
            modules += named
            added.update(named)
        # Each kernel loads its own modules, and refuses those of the other.
        added["modules"] = cpio.file("".join(f"/{name}\n" for name in modules).encode())
        for libc in _ROOTS:
            root = built[libc, _KERNELS[0]].initrd.read_bytes()
            (folder / f"root-{libc}").write_bytes(root + bytes(-len(root) % 4) + cpio.archive(added))
        (folder / "strategy.py").write_text(_STRATEGY)
        words = device_words(port)
        script = folder / "qemu"
        script.write_text(f'#!/bin/sh\nexec setpriv --pdeathsig KILL -- {shlex.join(emulator.command)} "$@"\n')
        script.chmod(0o700)
        values = {
            "machine": machine.model.machine,
            "cpu": machine.model.cpu,
            "memory": f"{MEMORY_MIB}M",
            "boot_args": " ".join((*boot_words(machine), "board_console")),
            "extra_args": shlex.join(words),
        }
        scalars = {key: json.dumps(value) for key, value in values.items()}
        service = {"address": "127.0.0.1", "port": port, "username": "root"}
        for file, role, resource in (
            (_REMOTE, "main", {"RemotePlace": {"name": PLACE}}),
            (_LOCAL, PLACE, {"NetworkService": service}),
        ):
            text = _ENVIRONMENT.format(role=role, resource=json.dumps(resource), **scalars)
            (folder / file).write_text(text)
        (folder / "exporter.yaml").write_text(EXPORTER.format(place=PLACE, port=port))
    except OSError as error:
        raise UserError(f"The lab can't be written to {safe(str(folder))}: {error.strerror}.") from error
    return _sentences(shlex.quote(str(folder)))


def _modules(initrd: bytes, kernel: str) -> dict[str, cpio.Entry]:
    """Return the modules of an initrd in the order in which they are loaded, in a folder of their kernel."""
    files = cpio.unpack(initrd) or {}
    names = files["modules"].content.decode().split()
    return {f"lib/modules/{kernel}/{Path(name).name}": files[name.lstrip("/")] for name in names}


def _sentences(folder: str) -> str:
    kernels = ",".join(f"{folder}/kernel-{kernel}" for kernel in _KERNELS)
    return f"""Wrote the lab of a virtual board to {folder}.

Without a coordinator:
  swapstone doctor --target labgrid:{PLACE} --lg-env {folder}/{_LOCAL}
  swapstone compare kernel={kernels} --target labgrid:{PLACE} --lg-env {folder}/{_LOCAL}
  swapstone compare rootfs={",".join(_ROOTS)} --target labgrid:{PLACE} --lg-env {folder}/{_LOCAL}

With one, on this machine:
  labgrid-coordinator -l 127.0.0.1:20408 &
  labgrid-exporter -c 127.0.0.1:20408 -n lab {folder}/exporter.yaml &
  labgrid-client -p {PLACE} create
  labgrid-client -p {PLACE} add-match 'lab/{PLACE}/*'
  swapstone doctor --target labgrid:{PLACE} --lg-env {folder}/{_REMOTE}"""
