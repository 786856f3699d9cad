# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sizes of programs by section class."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from elftools.elf.constants import SH_FLAGS

from swapstone.core.factors import read_facts
from swapstone.core.factors.elf_file import DamagedElfError, open_elf
from swapstone.core.model import Direction, Metric, Quantity, UserError
from swapstone.core.model.temporary_folder import TemporaryFolder


def _size(name: str, meaning: str) -> Metric:
    return Metric(name=name, unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning=meaning)


SIZE_METRICS: tuple[Metric, ...] = (
    _size("text", "code and constants: allocated sections that are not writable"),
    _size("data", "initialised writable sections"),
    _size("bss", "writable memory without content in the file"),
    _size("file", "the stripped program on disk"),
)


def sizes_of(program: Path) -> tuple[tuple[str, int], ...]:
    """Return a program's sizes in bytes, under the names of `SIZE_METRICS`.

    The classes are those of binutils' ``size`` in Berkeley format: read-only allocated sections are text, writable ones with content
    data, writable ones without content bss.

    Raises:
        UserError: it is not an ELF file, or a damaged one.
    """
    text = data = bss = 0
    try:
        with open_elf(program) as elf:
            for section in elf.iter_sections():
                flags, size = section["sh_flags"], section["sh_size"]
                if not flags & SH_FLAGS.SHF_ALLOC:
                    continue
                if not flags & SH_FLAGS.SHF_WRITE:
                    text += size
                elif section["sh_type"] == "SHT_NOBITS":
                    bss += size
                else:
                    data += size
    except DamagedElfError as error:
        raise UserError(f"{program} is not an ELF program: {error}.") from error
    return (("text", text), ("data", data), ("bss", bss), ("file", program.stat().st_size))


def stripped_sizes(program: Path) -> tuple[tuple[str, int], ...]:
    """Return the sizes of a program in bytes as `sizes_of` does, after stripping; none for a script."""
    if read_facts(program) is None:
        return ()
    with TemporaryFolder("strip") as folder:
        stripped = Path(folder) / "stripped"
        command = ["strip", "--strip-all", "-o", str(stripped), str(program)]
        with contextlib.suppress(OSError):
            subprocess.run(command, capture_output=True, check=False, timeout=60)
        return sizes_of(stripped if stripped.is_file() else program)
