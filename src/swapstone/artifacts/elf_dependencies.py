"""Which shared objects a program needs: what its ELF file names, and what those name in turn."""

from __future__ import annotations

import io
import posixpath

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from swapstone.model import FrozenStruct, UserError

_NEEDED, _SONAME = "needed", "soname"  # pyelftools adds these attributes by the tag's kind, unknown to its type stubs


class Needs(FrozenStruct, frozen=True, kw_only=True):
    """What a program or shared object asks the loader for.

    Attributes:
        loader: the path of its loader, or empty.
        objects: sonames, in the order of the file.
    """

    loader: str = ""
    objects: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return the sonames, the loader's among them."""
        return (*self.objects, posixpath.basename(self.loader)) if self.loader else self.objects


def needs_of(name: str, content: bytes) -> Needs:
    """Read what an ELF file needs; a file that isn't ELF, or is static, needs nothing.

    Raises:
        UserError: it starts as an ELF file does, but can't be read.
    """
    if not content.startswith(b"\x7fELF"):
        return Needs()
    try:
        elf = ELFFile(io.BytesIO(content))
        loader, objects = "", []
        for segment in elf.iter_segments():
            if isinstance(segment, InterpSegment):
                loader = segment.get_interp_name()
            elif isinstance(segment, DynamicSegment):
                objects = [str(getattr(tag, _NEEDED)) for tag in segment.iter_tags("DT_NEEDED")]
    except (ELFError, ValueError, KeyError) as error:
        raise UserError(f"{name} is a damaged ELF file: {error}.") from error
    return Needs(loader=loader, objects=tuple(objects))


def soname_of(content: bytes) -> str:
    """Return the name that a shared object gives itself, or an empty text."""
    if not content.startswith(b"\x7fELF"):
        return ""
    try:
        for section in ELFFile(io.BytesIO(content)).iter_sections():
            if isinstance(section, DynamicSection):
                return next((str(getattr(tag, _SONAME)) for tag in section.iter_tags("DT_SONAME")), "")
    except (ELFError, ValueError, KeyError):
        return ""
    return ""
