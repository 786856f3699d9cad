# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel modules: their dependencies, and the order in which they are loaded.

A package does not contain modules.dep, which depmod creates on installation. So dependencies are read from the section ``.modinfo``
of the modules: ``depends`` and ``softdep``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from swapstone.core.factors.elf_file import DamagedElfError, content_of, open_elf
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.compression import CompressionError, decompress
from swapstone.core.model.regular_file import read_regular_file, readable
from swapstone.parts.vm.artifacts.kernels import ELF_MACHINES

_MODULE = re.compile(r"(?P<name>[^/]+)\.ko(?P<compressed>\.(?:xz|gz|zst))?\Z")
_BUILT_IN = "modules.builtin"


class Module(FrozenStruct, frozen=True, kw_only=True):
    """A kernel module.

    Attributes:
        name: with underscores, as in ``/proc/modules``.
        content: the uncompressed ELF file.
        release: of the kernel that it was built for.
    """

    name: str
    content: bytes
    release: str


class Modules:
    """The modules of a kernel.

    Args:
        paths: of all files of the kernel, relative; modules and ``modules.builtin`` are selected.
        read: returns the content of a file.
    """

    def __init__(self, paths: Iterable[str], read: Callable[[str], bytes]) -> None:
        self._read = read
        self._paths: dict[str, str] = {}
        self._built_in: set[str] = set()
        for path in sorted(paths):
            match = _MODULE.search(path)
            if match:
                self._paths[_plain(match["name"])] = path
            elif posixpath.basename(path) == _BUILT_IN:
                lines = read(path).decode(errors="replace").splitlines()
                self._built_in |= {_plain(posixpath.basename(line).removesuffix(".ko")) for line in lines}

    def load_order(self, wanted: Sequence[str]) -> tuple[Module, ...]:
        """Return modules with all their dependencies, each after its dependencies.

        Args:
            wanted: names, with hyphens or underscores. Modules built into the kernel are left out.

        Raises:
            UserError: a module does not exist or is damaged, or modules are of different kernels.
        """
        found: dict[str, Module | None] = {}
        for name in wanted:
            self._visit(_plain(name), found, "")
        modules = tuple(module for module in found.values() if module is not None)
        releases = sorted({module.release for module in modules})
        if len(releases) > 1:
            raise UserError(
                f"The modules belong to different kernels: {', '.join(releases)}.",
                "Name the folder of one kernel, such as lib/modules/6.1.0.",
            )
        return modules

    def _visit(self, name: str, found: dict[str, Module | None], asker: str) -> None:
        if name in found or name in self._built_in:
            return
        path = self._paths.get(name)
        if path is None:
            needed = f", which {asker} needs," if asker else ""
            raise UserError(
                f"The kernel has no module {name}{needed} and does not list it as built in.",
                "Build the kernel with it, or build the image without it (--modules).",
            )
        found[name] = None  # being visited; a cycle is possible in damaged modules only
        content = _unpacked(path, self._read(path))
        facts = _facts(path, content)
        for before in _split(facts.get("depends", [])):
            self._visit(_plain(before), found, name)
        for before in _wished(facts.get("softdep", [])):
            if before in self._paths:
                self._visit(before, found, name)
        del found[name]
        found[name] = Module(name=name, content=content, release=(facts.get("vermagic", [""])[0].split() or [""])[0])


class ModuleFile(FrozenStruct, frozen=True, kw_only=True):
    """A module of the user.

    Attributes:
        path: its file.
        module: its content.
        architecture: as ``uname -m`` prints it; empty if unknown.
        needs: names of the modules on which it depends.
    """

    path: str
    module: Module
    architecture: str
    needs: tuple[str, ...]


_LARGEST_MODULE = 64 << 20


def read_module_file(path: Path) -> ModuleFile:
    """Read a module's file, which may be compressed.

    Raises:
        UserError: it can't be read, or is no module.
    """
    with readable(f"The module {path}"):
        data = read_regular_file(path, _LARGEST_MODULE)
    content = _unpacked(str(path), data)
    facts = _facts(str(path), content)
    match = _MODULE.search(path.name)
    named = (facts.get("name") or [match["name"] if match else ""])[0]
    release = facts.get("vermagic", [""])[0].partition(" ")[0]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", named, re.ASCII) or not release:
        raise UserError(f"The file {path} is no kernel module: its .modinfo has no name or no vermagic.")
    with open_elf(content) as elf:
        architecture = ELF_MACHINES.get(elf["e_machine"], "")
    module = Module(name=_plain(named), content=content, release=release)
    needs = tuple(map(_plain, _split(facts.get("depends", []))))
    return ModuleFile(path=str(path), module=module, architecture=architecture, needs=needs)


def modules_for(files: Sequence[ModuleFile], release: str, kernel: str, architecture: str) -> tuple[ModuleFile, ...]:
    """Choose those of the user's modules that belong to a kernel. Each module must have a file for each kernel.

    Args:
        files: in the order of loading.
        release: of the kernel; empty if it is unknown, and the modules must be of one release.
        kernel: for the message.
        architecture: of the machine.

    Raises:
        UserError: a module has no file for this kernel or machine, or several.
    """
    found = []
    for name in dict.fromkeys(each.module.name for each in files):
        same = [each for each in files if each.module.name == name]
        fit = [each for each in same if each.module.release == release or not release]
        if not fit:
            others = ", ".join(f"{each.path} is for {each.module.release}" for each in same)
            raise UserError(
                f"The module {name} does not belong to the kernel {kernel}, which is {release}: {others}.",
                f"Build it with that kernel's headers, and name both files: --module {same[0].path} --module OTHER."
                f" Or name its C file, which is built for each packaged kernel: --module {name}.c",
            )
        if len(fit) > 1:
            raise UserError(
                f"The module {name} is named twice for the kernel {kernel}: {fit[0].path} and {fit[1].path}."
            )
        if fit[0].architecture != architecture:
            raise UserError(
                f"The module {fit[0].path} is for {fit[0].architecture or 'another machine'}, not for {architecture}."
            )
        found.append(fit[0])
    return tuple(found)


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _split(values: Iterable[str]) -> list[str]:
    return [name for value in values for name in value.split(",") if name]


def _wished(values: Iterable[str]) -> list[str]:
    """Return the soft dependencies of a module. ``crypto-X`` is any module of the algorithm X, such as the generic one."""
    found = []
    for value in values:
        before, _, _ = value.partition("post:")
        for name in map(_plain, before.replace("pre:", " ").split()):
            algorithm = name.removeprefix("crypto_")
            found += [name, algorithm, f"{algorithm}_generic"]
    return found


def _unpacked(path: str, data: bytes) -> bytes:
    """Decompress a module: busybox's insmod loads uncompressed modules only."""
    try:
        if path.endswith(".xz"):
            return decompress(data, "xz")
        if path.endswith(".gz"):
            return decompress(data, "gzip")
    except CompressionError as error:
        raise UserError(f"The module {path} is damaged: {error}.") from error
    if path.endswith(".zst"):
        raise UserError(
            f"The module {path} is compressed with zstd, which Swapstone can't decompress.",
            "Decompress the modules first: find FOLDER -name '*.ko.zst' -exec unzstd --rm {} +",
        )
    return data


def _facts(path: str, content: bytes) -> dict[str, list[str]]:
    """Read the pairs ``name=value`` of a module's ``.modinfo``."""
    try:
        with open_elf(content) as elf:
            data = content_of(elf.get_section_by_name(".modinfo"))
    except DamagedElfError as error:
        raise UserError(f"The module {path} is damaged: {error}.") from error
    if not data:
        raise UserError(f"The module {path} is damaged: it has no .modinfo.")
    facts: dict[str, list[str]] = {}
    for pair in data.split(b"\0"):
        name, equals, value = pair.decode(errors="replace").partition("=")
        if equals:
            facts.setdefault(name, []).append(value)
    return facts
