# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the facts in the ELF file of a program or shared object: those of the core, and those that parts need for their factors."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from swapstone.core.factors.elf_file import DamagedElfError, limited, open_elf
from swapstone.core.factors.factor import PartFacts, ProgramFacts
from swapstone.core.model.parts import provided


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
