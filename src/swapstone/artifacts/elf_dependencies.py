# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shared objects that an ELF file needs."""

from __future__ import annotations

import contextlib
import posixpath

from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.segments import InterpSegment

from swapstone.factors.elf_file import DamagedElfError, limited, open_elf
from swapstone.model import FrozenStruct, UserError

_NEEDED, _SONAME = "needed", "soname"  # attributes that pyelftools adds at run time; its type stubs lack them


class ElfDependencies(FrozenStruct, frozen=True, kw_only=True):
    """The loader and the direct dependencies of a program or shared object.

    Attributes:
        loader: path of its loader, or empty.
        objects: sonames, in the order of the file.
    """

    loader: str = ""
    objects: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return the sonames, with the loader's."""
        return (*self.objects, posixpath.basename(self.loader)) if self.loader else self.objects


def read_dependencies(name: str, content: bytes) -> ElfDependencies:
    """Read the dependencies of a file; none if it is static or not an ELF file.

    Raises:
        UserError: it is a damaged ELF file.
    """
    if not content.startswith(b"\x7fELF"):
        return ElfDependencies()
    loader, objects = "", []
    try:
        with open_elf(content) as elf:
            for segment in elf.iter_segments():
                if isinstance(segment, InterpSegment):
                    loader = segment.get_interp_name()
                elif isinstance(segment, DynamicSegment):
                    objects = [str(getattr(tag, _NEEDED)) for tag in limited(segment.iter_tags("DT_NEEDED"))]
    except DamagedElfError as error:
        raise UserError(f"{name} is a damaged ELF file: {error}.") from error
    return ElfDependencies(loader=loader, objects=tuple(objects))


def soname_of(content: bytes) -> str:
    """Return the soname of a shared object; empty if it has none, or is damaged."""
    if not content.startswith(b"\x7fELF"):
        return ""
    with contextlib.suppress(DamagedElfError), open_elf(content) as elf:
        for section in elf.iter_sections():
            if isinstance(section, DynamicSection):
                return next((str(getattr(tag, _SONAME)) for tag in limited(section.iter_tags("DT_SONAME"))), "")
    return ""
