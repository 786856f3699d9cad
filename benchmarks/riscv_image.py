# SPDX-License-Identifier: MIT OR Apache-2.0
"""The functions of a program for a machine without an operating system: their code, and the names of its addresses."""

from __future__ import annotations

import bisect
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.netstack_lab import UnavailableError

from swapstone.factors.elf_file import DamagedElfError, open_elf
from swapstone.instruments.symbol_tables import table_of

UNKNOWN = "[unknown]"
TOOLS = (("addr2line", "binutils"), ("c++filt", "binutils"))
"""The programs that names need, with their Debian packages."""
_LIBRARY = re.compile(r"^/rustc/|/rustlib/src/rust/library/")
_MODULE = re.compile(r"([A-Za-z0-9_-]+?)(?:-[0-9]+\.[0-9.]+)?/src/((?:[a-z0-9_]+/)*[a-z0-9_]+)\.rs$")
_DISAMBIGUATOR = re.compile(r"\[[0-9a-f]{1,16}\]")
_HASH = re.compile(r"::h[0-9a-f]{16}$")
"""The end of each name in the legacy mangling of Rust, that of rustc 1.95."""
_CLONE = re.compile(r"\.(?:llvm|isra|part|constprop|cold)(?:\.[0-9]+)*")
_TIMEOUT_S = 120.0


class Place(NamedTuple):
    """A function at an address, and the source file of the code there; empty if unknown."""

    name: str
    file: str


def without_generics(name: str) -> str:
    """Return the name of a Rust function without crate disambiguators, generic arguments and the hash of legacy names."""
    found: list[str] = []
    depth = 0
    text = _HASH.sub("", _DISAMBIGUATOR.sub("", name))
    for at, character in enumerate(text):
        if depth:
            depth += (character == "<") - (character == ">" and text[at - 1] != "-")
        elif character == "<" and found and (found[-1].isalnum() or found[-1] in "_:}"):
            depth = 1
            while found[-1] == ":":
                found.pop()
        else:
            found.append(character)
    return "".join(found)


def inlined_name(function: str, file: str) -> str:
    """Return the name of an inlined function with its module, which is derived from its file."""
    own = without_generics(function.strip())
    if not own or own == "??":
        own = "{inlined}"
    module = _MODULE.search(file)
    if module is None or "::" in own:
        return own
    path = re.sub(r"(?:^|/)(?:mod|lib|main)$", "", module[2])
    parts = (module[1].replace("-", "_"), *path.split("/")) if path else (module[1].replace("-", "_"),)
    return "::".join((*parts, own))


def read_places(text: str) -> dict[int, list[Place]]:
    """Read the output of `addr2line -a -i -f`: for each address its functions, the innermost first.

    Raises:
        UnavailableError: it has another form.
    """
    found: dict[int, list[Place]] = {}
    places: list[Place] | None = None
    lines = iter(text.splitlines())
    for line in lines:
        if re.fullmatch("0x[0-9a-f]{1,16}", line):
            places = found.setdefault(int(line, 16), [])
            continue
        file = next(lines, None)
        if places is None or file is None:
            raise UnavailableError(f"addr2line printed: {text[:200]}")
        places.append(Place(line, re.sub(r":[0-9?]+(?: \(discriminator [0-9]+\))?$", "", file).replace("??", "")))
    return found


def _output(command: Sequence[str], lines: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise UnavailableError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout


def _without_symbols(path: Path) -> bytes:
    """Return an ELF file whose symbol table is marked as unused (SHT_NULL).

    With one, addr2line names the innermost inlined function by the nearest symbol, which in RISC-V programs is a local label.
    """
    data = bytearray(path.read_bytes())
    with open_elf(path) as elf:
        for number, section in enumerate(elf.iter_sections()):
            if section["sh_type"] == "SHT_SYMTAB":
                at = elf["e_shoff"] + number * elf["e_shentsize"] + 4
                data[at : at + 4] = bytes(4)
    return bytes(data)


class Image:
    """The program in the memory of a machine.

    Args:
        path: an ELF file that is loaded to its own addresses.

    Raises:
        UnavailableError: it has no functions.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        table = table_of(path)
        try:
            with open_elf(path) as elf:
                first = elf["e_entry"]
                self._segments = [
                    (each["p_vaddr"], each.data())
                    for each in elf.iter_segments()
                    if each["p_type"] == "PT_LOAD" and each["p_flags"] & 1
                ]
        except (OSError, DamagedElfError) as error:
            raise UnavailableError(f"{path.name} can't be read: {error}") from error
        self._ends: dict[int, int] = {}
        for symbol in table or ():
            self._ends[symbol.address] = max(self._ends.get(symbol.address, 0), symbol.address + symbol.size)
        self._starts = sorted(self._ends)
        if table is None or not self._starts:
            raise UnavailableError(f"{path.name} has no functions")
        self._table = table
        behind = bisect.bisect_right(self._starts, first)
        self.entry = range(first, self._starts[behind] if behind < len(self._starts) else first + 1)

    def function(self, address: int) -> int | None:
        """Return the address of the function that contains an address; None if it is in none."""
        at = bisect.bisect_right(self._starts, address) - 1
        return self._starts[at] if at >= 0 and address < self._ends[self._starts[at]] else None

    def code(self, begin: int, end: int) -> bytes:
        """Return the code from one address to another; empty if it is not in the file."""
        for address, data in self._segments:
            if address <= begin <= end <= address + len(data):
                return bytes(data[begin - address : end - address])
        return b""

    def names(self, addresses: Iterable[int]) -> dict[int, tuple[Place, ...]]:
        """Return the functions at each address, the innermost first: those inlined there, and the one that contains it.

        Code of Rust's library that is inlined counts for the function that contains it.

        Raises:
            UnavailableError: `TOOLS` fail.
        """
        wanted = sorted({*addresses})
        with tempfile.NamedTemporaryFile(prefix="swapstone-") as file:
            file.write(_without_symbols(self._path))
            file.flush()
            command = ("addr2line", "-e", file.name, "-a", "-i", "-f", "-C")
            places = read_places(_output(command, [f"{address:#x}" for address in wanted]))
        symbols = [_CLONE.sub("", self._symbol(address)) for address in wanted]
        plain = _output(("c++filt",), symbols).splitlines()
        if len(plain) != len(symbols):
            raise UnavailableError("c++filt printed another number of names")
        found = {}
        for address, name in zip(wanted, plain, strict=True):
            *inner, last = places.get(address) or [Place("", "")]
            kept = [Place(inlined_name(*one), one.file) for one in inner if not _LIBRARY.search(one.file)]
            found[address] = (*kept, Place(without_generics(name), last.file))
        return found

    def _symbol(self, address: int) -> str:
        return "_start" if address in self.entry else self._table.name_at(address) or UNKNOWN
