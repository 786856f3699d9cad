# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a virtual machine boots: a kernel and an initrd, to which the files of an experiment are appended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from swapstone.core.model.cpio import unpack
from swapstone.core.model.directories import share_dir
from swapstone.core.model.regular_file import readable
from swapstone.core.targets.agent_build import FREESTANDING, build_native, sha256_of
from swapstone.parts.vm.machine.emulator import EmulatedMachine


@dataclasses.dataclass(frozen=True)
class VmImage:
    """The kernel and the file system that a virtual machine boots, without programs.

    Attributes:
        kernel: its file in a form that QEMU boots.
        initrd: a cpio archive of the file system, to which agent and first process are appended.
        machine: the emulated machine.
        agent, init: the agent and the first process; None to build them when they are needed.
        own_modules: this project's modules for this kernel by name, for trials that need them.
        banner: the kernel's version text in its file, with or without ``Linux version``; empty if it has none.
    """

    kernel: Path
    initrd: Path
    machine: EmulatedMachine = dataclasses.field(default_factory=EmulatedMachine)
    agent: Path | None = None
    init: Path | None = None
    own_modules: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    banner: str = ""


class BootImage:
    """One kernel with its initrd, to which agent and first process are appended.

    Args:
        source: kernel and file system.
    """

    def __init__(self, source: VmImage) -> None:
        self.source = source
        self.kernel_digest = bytes.fromhex(sha256_of(source.kernel))
        with readable(f"The initrd {source.initrd}"):
            self.base = source.initrd.read_bytes()
        self.entries = unpack(self.base)

    def initrd(self, added: bytes) -> bytes:
        """Return the initrd with an appended archive."""
        return self.base + bytes(-len(self.base) % 4) + added


def guest_sources() -> tuple[Path, ...]:
    """Return the C files and headers of a virtual machine's first process, sorted."""
    patterns = ("guest/*.[ch]", "port/*.[ch]", "wire/*.[ch]", "agent/text.[ch]")
    return tuple(sorted(path for pattern in patterns for path in (share_dir() / "native").glob(pattern)))


def build_init(directory: Path, compiler: str = "cc") -> Path:
    """Compile the first process of virtual machines, or return it from the cache; as `build_agent`."""
    return build_native("swapstone-init", guest_sources(), directory, (compiler, *FREESTANDING))
