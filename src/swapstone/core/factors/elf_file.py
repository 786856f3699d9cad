# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens untrusted ELF files: whatever their headers state, reading takes no more memory and steps than the file's size allows.

pyelftools follows the numbers of a file as they are. A damaged one can state sections of 2^60 bytes, a table whose entries have size 0, or
a list that points to itself.

`read_facts` reads what the file of a program or shared object shows: facts of the core, and those that parts need for their factors.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import stat
import struct
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section
from elftools.elf.segments import InterpSegment, Segment

from swapstone.core.factors.factor import PartFacts, ProgramFacts
from swapstone.core.model.parts import provided

MOST_UNPACKED_BYTES = 64 << 20
"""A compressed section that is larger unpacked is damage: those that are read here have some kilobytes."""

MOST_ENTRIES = 4096
"""Limit of entries in lists whose length the file's size does not bound, such as needed versions."""

_MOST_NAME_BYTES = 1 << 16

MOST_SHARED = 4
"""The names of symbols together are at most so many times as long as their tables. Linkers store the names `malloc` and `m_malloc` as one,
and entries of equal names share it; but 2^20 symbols that all share a name of 64 KiB would take 64 GiB."""

_ONCE = frozenset({"SHT_SYMTAB", "SHT_DYNSYM", "SHT_DYNAMIC", "SHT_GNU_verneed", "PT_DYNAMIC", "PT_INTERP"})
"""Sections and segments of which a file has at most one: ELF specification, sections 4 and 5."""

_LOCAL = 0  # STB_LOCAL
_EXPORTED = (0, 3)  # STV_DEFAULT, STV_PROTECTED
_SYMBOLS = {32: "IIIBBH", 64: "IBBHQQ"}
"""The fields of a symbol table's entry: Elf32_Sym and Elf64_Sym."""

_DAMAGE = (
    *(ELFError, ConstructError, struct.error, ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(AssertionError, ArithmeticError, MemoryError, RecursionError),
)
"""What pyelftools raises for a damaged file."""

Item = TypeVar("Item")


class DamagedElfError(ValueError):
    """A file is no ELF file, or its headers contradict its size."""


class ElfSymbol(NamedTuple):
    """A symbol: name, value, size; type, binding and visibility as in elf(5); the index of its section, 0 if it is undefined."""

    name: str
    address: int
    size: int
    kind: int
    binding: int
    visibility: int
    section: int

    @property
    def is_offered(self) -> bool:
        """Return whether other objects can bind to it, if it is a dynamic symbol."""
        return self.binding != _LOCAL and self.visibility in _EXPORTED


class _BoundedReader(io.BufferedReader):
    """A file. A read allocates no more than what is left of the file, whatever size is requested."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


class _CheckedElfFile(ELFFile):
    """An ELF file whose tables, sections and segments are inside the file. What is not raises an ELFError."""

    def __init__(self, stream: io.BufferedReader | io.BytesIO) -> None:
        self._seen: dict[str, set[int]] = {}
        self._notes: dict[int, int] = {}
        self._names: bytes | None = None
        self._sections: dict[int, Section] = {}
        super().__init__(stream)

    def num_sections(self) -> int:
        count = super().num_sections()
        self._require_table("section", count, self["e_shoff"], self["e_shentsize"], self.structs.Elf_Shdr.sizeof())
        return count

    def num_segments(self) -> int:
        count = super().num_segments()
        self._require_table("program", count, self["e_phoff"], self["e_phentsize"], self.structs.Elf_Phdr.sizeof())
        return count

    def _require_table(self, name: str, count: int, start: int, size: int, defined: int) -> None:
        if count and (size != defined or start + count * size > self.stream_len):
            raise ELFError(f"the {name} headers are not inside the file")

    def get_section(self, n: int, type: Container[str] | None = None) -> Section:
        section = self._sections.get(n) or self._checked_section(n)
        if len(self._sections) < MOST_ENTRIES:
            self._sections[n] = section
        if type is not None and section["sh_type"] not in type:
            raise ELFError(f"section {n} has the type {section['sh_type']}")
        return section

    def _checked_section(self, n: int) -> Section:
        section = super().get_section(n)
        kind = str(section["sh_type"])
        self._require_name(section["sh_name"])
        if kind in {"SHT_NULL", "SHT_NOBITS"}:
            return section
        if section["sh_offset"] + section["sh_size"] > self.stream_len:
            raise ELFError(f"section {n} is not inside the file")
        self._require_one(kind, n)
        if kind == "SHT_NOTE":
            self._notes[n] = section["sh_size"]
            if sum(self._notes.values()) > self.stream_len:
                raise ELFError("the sections of notes overlap")
        return section

    def get_segment(self, n: int) -> Segment:
        segment = super().get_segment(n)
        if segment["p_filesz"] and segment["p_offset"] + segment["p_filesz"] > self.stream_len:
            raise ELFError(f"segment {n} is not inside the file")
        self._require_one(str(segment["p_type"]), n)
        return segment

    def _require_name(self, at: int) -> None:
        """Check the table of the sections' names: without zero bytes, each name would be as long as the file."""
        if self._names is None:
            table = self.get_shstrndx()
            self._names = content_of(super().get_section(table)) if table else b"\0"
            longest = max(map(len, self._names.split(b"\0")))
            if not self._names.endswith(b"\0") or longest > _MOST_NAME_BYTES:
                raise ELFError("the table of section names has no ends of names")
        if at >= len(self._names):
            raise ELFError("the name of a section is not inside its table")

    def _require_one(self, kind: str, n: int) -> None:
        if kind in _ONCE:
            found = self._seen.setdefault(kind, set())
            found.add(n)
            if len(found) > 1:
                raise ELFError(f"there is more than one {kind}")


@contextlib.contextmanager
def open_elf(source: Path | bytes) -> Iterator[ELFFile]:
    """Open an ELF file. Whatever pyelftools raises in the block, too, becomes a `DamagedElfError`.

    Args:
        source: a regular file, or its content.

    Raises:
        DamagedElfError: it is damaged, or no ELF file.
        OSError: it can't be opened.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(source, bytes):
            stream: io.BufferedReader | io.BytesIO = io.BytesIO(source)
        else:
            stream = stack.enter_context(_BoundedReader(source))
        try:
            yield _CheckedElfFile(stream)
        except _DAMAGE as error:
            raise DamagedElfError(str(error) or type(error).__name__) from error


def machine_of(path: Path) -> str:
    """Return the machine of a program as `ProgramFacts.machine`, from its header alone; empty for a damaged file, or none."""
    with contextlib.suppress(OSError, DamagedElfError), open_elf(path) as elf:
        return str(elf["e_machine"])
    return ""


def content_of(section: Section | None) -> bytes:
    """Return a section's content; empty for no section, and for one without content in the file.

    Raises:
        ELFError: it is larger than `MOST_UNPACKED_BYTES` when it is unpacked.
    """
    if section is None or section["sh_type"] == "SHT_NOBITS":
        return b""
    if section.compressed and section.data_size > MOST_UNPACKED_BYTES:
        raise ELFError(f"a section has {section.data_size} bytes unpacked")
    return bytes(section.data())


def limited(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the entries of a list of a file.

    Raises:
        ELFError: there are more than `MOST_ENTRIES`: the list points to itself.
    """
    for number, item in enumerate(items):
        if number == MOST_ENTRIES:
            raise ELFError(f"a list has more than {MOST_ENTRIES} entries")
        yield item


def symbols_of(elf: ELFFile, section: Section | None, kinds: Container[int] = range(16)) -> Iterator[ElfSymbol]:
    """Yield the symbols of a symbol table, without its first entry, which is empty.

    The table is read at once, which takes a small part of the time that pyelftools takes for each symbol. Each symbol is made when it is
    taken, so a caller that keeps few of a million needs little more memory than the table has.

    Args:
        elf: the file.
        section: of the type SHT_SYMTAB or SHT_DYNSYM; None, or a section without content in the file, has no symbols.
        kinds: types of symbols (``st_info & 15``); others are left out, and their names are not read.

    Raises:
        ELFError: the table is damaged, or its names together are longer than `MOST_SHARED` allows.
    """
    table = content_of(section)
    if section is None or not table:
        return
    entry = struct.Struct(("<" if elf.little_endian else ">") + _SYMBOLS[elf.elfclass])
    if section["sh_entsize"] != entry.size or len(table) % entry.size:
        raise ELFError("the entries of a symbol table have another size")
    names = content_of(elf.get_section(section["sh_link"], ("SHT_STRTAB",)))
    left, wide = MOST_SHARED * (len(table) + len(names)), elf.elfclass == 64
    for fields in entry.iter_unpack(memoryview(table)[entry.size :]):
        if wide:
            at, info, other, index, value, size = fields
        else:
            at, value, size, info, other, index = fields
        if info & 15 not in kinds:
            continue
        end = names.find(b"\0", at, at + _MOST_NAME_BYTES)
        if end < 0:
            raise ELFError("the name of a symbol is not inside its table")
        left -= end - at
        if left < 0:
            raise ELFError("the names of symbols overlap more than a linker merges them")
        name = names[at:end].decode("utf-8", "replace")
        yield ElfSymbol(name, cast(int, value), size, info & 15, info >> 4, other & 3, index)


@functools.cache
def facts_of_parts() -> tuple[type[PartFacts], ...]:
    """Return the classes of `ProgramFacts.pieces`, in their order there.

    Raises:
        UserError: a part can't be loaded.
    """
    return provided("program-facts", type(PartFacts))


def read_facts(path: Path | str) -> ProgramFacts | None:
    """Read a program's file.

    Args:
        path: of any file.

    Returns:
        Its facts, or None if it does not exist, is no ELF file, or is a damaged one.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - of each object in each trial, in a fifth of the time of pathlib
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return facts_of(Path(path), str(path), status.st_mtime_ns, status.st_size)


@functools.cache
def facts_of(file: Path | bytes, path: str, *_state: int) -> ProgramFacts | None:
    """Read a program's file once, or its content; as `read_facts`.

    Args:
        file: any file, or its content.
        path: for the facts.
        _state: what changes when the file does.
    """
    with contextlib.suppress(OSError, DamagedElfError), open_elf(file) as elf:
        return ProgramFacts(
            path=path,
            machine=str(elf["e_machine"]),
            interp=next(
                (segment.get_interp_name() for segment in elf.iter_segments() if isinstance(segment, InterpSegment)),
                None,
            ),
            needed=tuple(dynamic_texts(elf, "DT_NEEDED", "needed")),
            pieces=tuple(kind.read(elf) for kind in facts_of_parts()),
        )
    return None


def dynamic_texts(elf: ELFFile, tag: str, attribute: str) -> Iterator[str]:
    """Yield the texts of one kind of a file's dynamic entries."""
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            yield from (str(getattr(entry, attribute)) for entry in limited(section.iter_tags(tag)))
