"""Kernel modules: which ones a module needs, and in which order they must be loaded.

A package doesn't hold the list of dependencies that an installed system computes, so it is read from the modules themselves: the section
``.modinfo`` names what a module depends on and what it would like to have loaded before.
"""

from __future__ import annotations

import gzip
import io
import lzma
import posixpath
import re
import zlib
from collections.abc import Callable, Iterable, Sequence

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from swapstone.model import FrozenStruct, UserError

_MODULE = re.compile(r"(?P<name>[^/]+)\.ko(?P<compressed>\.(?:xz|gz|zst))?\Z")
_BUILT_IN = "modules.builtin"


class Module(FrozenStruct, frozen=True, kw_only=True):
    """A module as it is loaded.

    Attributes:
        name: with underscores, as the kernel shows it.
        content: the plain ELF file.
        release: the kernel that it was built for.
    """

    name: str
    content: bytes
    release: str


class Modules:
    """The modules that came with a kernel.

    Args:
        paths: of all files, relative; the modules and ``modules.builtin`` are found among them.
        read: returns the content of one.
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
        """Return modules with all that they depend on, each after what it needs.

        Args:
            wanted: names, with hyphens or underscores. What is built into the kernel is left out.

        Raises:
            UserError: one is neither there nor built in, is damaged, or they belong to different kernels.
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
                f"The kernel has no module {name}{needed} and doesn't say that it is built in.",
                "Build the kernel with it, or ask for an image without it (--modules).",
            )
        found[name] = None  # it is being visited; modules can't need each other in a circle, damaged ones could say so
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
    """Return what a module likes to have before it. ``crypto-X`` is any module for the algorithm X, such as its plain one."""
    found = []
    for value in values:
        before, _, _ = value.partition("post:")
        for name in map(_plain, before.replace("pre:", " ").split()):
            algorithm = name.removeprefix("crypto_")
            found += [name, algorithm, f"{algorithm}_generic"]
    return found


def _unpacked(path: str, data: bytes) -> bytes:
    """Undo a module's compression: the loader of a small system takes plain modules only."""
    try:
        if path.endswith(".xz"):
            return lzma.decompress(data)
        if path.endswith(".gz"):
            return gzip.decompress(data)
    except (lzma.LZMAError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"The module {path} is damaged: {error}.") from error
    if path.endswith(".zst"):
        raise UserError(
            f"The module {path} is compressed with zstd, which Swapstone can't undo.",
            "Unpack the modules first: find FOLDER -name '*.ko.zst' -exec unzstd --rm {} +",
        )
    return data


def _facts(path: str, content: bytes) -> dict[str, list[str]]:
    """Read the pairs ``name=value`` that a module says of itself."""
    try:
        section = ELFFile(io.BytesIO(content)).get_section_by_name(".modinfo")
        data = section.data() if section is not None else b""
    except (ELFError, ValueError, KeyError) as error:
        raise UserError(f"The module {path} is damaged: {error or type(error).__name__}.") from error
    if not data:
        raise UserError(f"The module {path} is damaged: it says nothing of itself.")
    facts: dict[str, list[str]] = {}
    for pair in data.split(b"\0"):
        name, equals, value = pair.decode(errors="replace").partition("=")
        if equals:
            facts.setdefault(name, []).append(value)
    return facts
