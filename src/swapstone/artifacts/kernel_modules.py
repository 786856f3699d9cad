# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel modules: their dependencies, and the order in which they are loaded.

A package does not contain modules.dep, which depmod creates on installation. So dependencies are read from the section ``.modinfo``
of the modules: ``depends`` and ``softdep``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from swapstone.factors.elf_file import DamagedElfError, content_of, open_elf
from swapstone.model import FrozenStruct, UserError
from swapstone.model.compression import CompressionError, decompress

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
        found[name] = None  # being visited; a circle is possible in damaged modules only
        content = _unpacked(path, self._read(path))
        facts = _facts(path, content)
        for before in _split(facts.get("depends", [])):
            self._visit(_plain(before), found, name)
        for before in _wished(facts.get("softdep", [])):
            if before in self._paths:
                self._visit(before, found, name)
        del found[name]
        release = (facts.get("vermagic", [""])[0].split() or [""])[0]
        found[name] = Module(name=name, content=content, release=release)


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
