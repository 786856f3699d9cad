# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a dynamic loader reads in an ELF file: the loader's path, the needed objects and where they are searched.

It reads the segments, as a loader does. A file without section headers is read too.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import struct
from collections.abc import Iterator, Sequence

from elftools.common.exceptions import ELFError
from elftools.construct import Container
from elftools.elf.elffile import ELFFile

from swapstone.core.factors.elf_file import MOST_ENTRIES, DamagedElfError, open_elf
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.safe_text import safe

_MOST_TEXT_BYTES = 4096
"""PATH_MAX of Linux: no path that a loader could open is longer."""

_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29  # DT_ values of elf(5)
_RELR = 36  # DT_RELR of the generic ABI
_TEXTS = frozenset({_NEEDED, _SONAME, _RPATH, _RUNPATH})


class DynamicEntries(FrozenStruct, frozen=True, kw_only=True):
    """The entries of one program or shared object.

    Attributes:
        machine: ``e_machine``, e.g. ``EM_X86_64``.
        bits: 32 or 64.
        loader: its PT_INTERP; empty if it has none.
        needed: its DT_NEEDED, in the order of the file.
        soname: its DT_SONAME, or empty.
        rpath, runpath: its search paths, with their placeholders, or empty.
        dynamic: whether it has a PT_DYNAMIC.
        relr: whether it has relative relocations in the packed form of DT_RELR, which older loaders do not apply.
    """

    machine: str
    bits: int
    loader: str = ""
    needed: tuple[str, ...] = ()
    soname: str = ""
    rpath: str = ""
    runpath: str = ""
    dynamic: bool = False
    relr: bool = False

    def names(self) -> tuple[str, ...]:
        """Return the sonames of all needed objects; the loader is one of them."""
        return (*self.needed, posixpath.basename(self.loader)) if self.loader else self.needed


_MOST_KEPT_BYTES = 4 << 20
"""Larger files are decoded each time: what is kept would take much memory, and its comparison much of the time that it saves."""


def read_entries(content: bytes) -> DynamicEntries | None:
    """Read the entries of a file.

    Args:
        content: of the file.

    Returns:
        None if it is no ELF file.

    Raises:
        DamagedElfError: its headers are damaged. No text is longer than 4096 bytes and no list longer than `MOST_ENTRIES`.
    """
    return (_kept if len(content) <= _MOST_KEPT_BYTES else _read)(content)


def _read(content: bytes) -> DynamicEntries | None:
    if not content.startswith(b"\x7fELF"):
        return None
    with open_elf(content) as elf:
        segments = [(str(each["p_type"]), each.header) for each in itertools.islice(elf.iter_segments(), MOST_ENTRIES)]
        loader = next((_text(content, at["p_offset"]) for kind, at in segments if kind == "PT_INTERP"), "")
        dynamic = next((at for kind, at in segments if kind == "PT_DYNAMIC"), None)
        found: dict[int, list[str]] = {tag: [] for tag in _TEXTS}
        pairs: list[tuple[int, int]] = []
        if dynamic is not None:
            pairs = list(_pairs(elf, content[dynamic["p_offset"] : dynamic["p_offset"] + dynamic["p_filesz"]]))
            loads = [at for kind, at in segments if kind == "PT_LOAD"]
            table = next((_offset(loads, value) for tag, value in pairs if tag == _STRTAB), None)
            for tag, value in pairs:
                if tag in _TEXTS:
                    if table is None:
                        raise DamagedElfError("its dynamic entries have no table of texts")
                    found[tag].append(_text(content, table + value))
        return DynamicEntries(
            machine=str(elf["e_machine"]),
            bits=elf.elfclass,
            loader=loader,
            needed=tuple(found[_NEEDED]),
            soname="".join(found[_SONAME][:1]),
            rpath="".join(found[_RPATH][:1]),
            runpath="".join(found[_RUNPATH][:1]),
            dynamic=dynamic is not None,
            relr=any(tag == _RELR for tag, _ in pairs),
        )
    return None


_kept = functools.lru_cache(maxsize=16)(_read)  # of a C library, a loader and a program, which are read many times


def _pairs(elf: ELFFile, table: bytes) -> Iterator[tuple[int, int]]:
    entry = struct.Struct(("<" if elf.little_endian else ">") + ("qQ" if elf.elfclass == 64 else "iI"))
    whole = table[: len(table) // entry.size * entry.size]
    for number, (tag, value) in enumerate(entry.iter_unpack(whole)):
        if tag == 0:  # DT_NULL
            return
        if number == MOST_ENTRIES:
            raise ELFError(f"it has more than {MOST_ENTRIES} dynamic entries")
        yield tag, value


def _offset(loads: Sequence[Container], address: int) -> int | None:
    """Return where in the file an address is; None if no segment loads it from there."""
    for load in loads:
        if 0 <= address - load["p_vaddr"] < load["p_filesz"]:
            return int(address - load["p_vaddr"] + load["p_offset"])
    return None


def _text(content: bytes, at: int) -> str:
    if at >= len(content):
        raise ELFError("a text of its dynamic entries is not inside the file")
    end = content.find(b"\0", at, at + _MOST_TEXT_BYTES)
    if end < 0:
        raise ELFError(f"a text of its dynamic entries is longer than {_MOST_TEXT_BYTES} bytes")
    return content[at:end].decode(errors="surrogateescape")


def read_dependencies(name: str, content: bytes) -> DynamicEntries:
    """Read the entries of a file; without any, and without a machine, if it is no ELF file.

    Args:
        name: of the file, for the error.
        content: of the file.

    Raises:
        UserError: its headers are damaged.
    """
    try:
        return read_entries(content) or DynamicEntries(machine="", bits=0)
    except DamagedElfError as error:
        raise UserError(f"{safe(name)} is a damaged ELF file: {safe(str(error))}.") from error
