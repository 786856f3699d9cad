# SPDX-License-Identifier: MIT OR Apache-2.0
"""Digests of what a run of an own program prints and writes, so that the outputs of two variants can be compared.

A content has up to three digests, as pairs (name, digest) of `swapstone.core.model.Run.digests`:

- ``NAME``: SHA-256 of the whole content. In standard output, the paths of the program and of its folder are replaced first: they
  differ between variants, and many programs print them.
- ``shape:NAME``: SHA-256 of its lines in sorted order, each with numbers, hexadecimal words and blanks masked. It is the same for outputs
  that differ in times, addresses, process identifiers or the order of lines alone.
- ``sections:NAME``: the lines in their order, divided into at most `SECTIONS` sections of equally many lines; 8 hexadecimal digits of
  SHA-256 for each section.

The last two exist for contents up to `SHAPED_BYTES`.
"""

from __future__ import annotations

import collections
import hashlib
import re
import threading
from typing import BinaryIO

Digests = tuple[tuple[str, str], ...]

SHAPE, SECTION = "shape:", "sections:"

STDOUT = "stdout"
"""The name of standard output, also if it goes to a file."""

SECTIONS = 32
"""A record has thousands of runs: so many sections are 256 characters for each."""

SHAPED_BYTES = 4 << 20
"""Larger contents have no shape: it would take longer than many programs run."""

LARGEST_BYTES = 1 << 30
"""A larger file is not read: its digest would take seconds for each run."""

_CHUNK_BYTES = 1 << 20
_KNOWN = 16

_MASKED = re.compile(
    rb"0[xX][0-9a-fA-F]+"  # an address
    rb"|(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![0-9A-Za-z])"  # a digest, a part of a UUID
    rb"|[-+]?[0-9]+(?:[.,][0-9]+)*(?:[eE][-+]?[0-9]+)?"
)
_BLANKS = re.compile(rb"[ \t\r]+")


class OutputDigests:
    """Computes the digests of contents. It remembers the last few, because most programs print the same in every run."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[str, Digests] = collections.OrderedDict()
        self._lock = threading.Lock()

    def of_bytes(self, name: str, content: bytes) -> Digests:
        """Return the digests of a content.

        Args:
            name: under which they are stored.
            content: all of it.
        """
        return self._with_shape(name, hashlib.sha256(content).hexdigest(), content)

    def of_file(self, name: str, file: BinaryIO) -> Digests:
        """Return the digests of an open file, from its position to its end; none if that is more than `LARGEST_BYTES`.

        Args:
            name: under which they are stored.
            file: opened for reading.

        Raises:
            OSError: it can't be read.
        """
        digest, size, head = hashlib.sha256(), 0, bytearray()
        while chunk := file.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > LARGEST_BYTES:
                return ()
            digest.update(chunk)
            if size <= SHAPED_BYTES:
                head += chunk
        return self._with_shape(name, digest.hexdigest(), bytes(head) if size <= SHAPED_BYTES else None)

    def _with_shape(self, name: str, digest: str, content: bytes | None) -> Digests:
        if not content or len(content) > SHAPED_BYTES:
            return ((name, digest),)
        with self._lock:
            known = self._known.get(digest)
        if known is None:
            known = ((SHAPE, shape_of(content)), (SECTION, sections_of(content)))
            with self._lock:
                self._known[digest] = known
                if len(self._known) > _KNOWN:
                    self._known.popitem(last=False)
        return ((name, digest), *((prefix + name, value) for prefix, value in known))


def masked(content: bytes) -> bytes:
    """Return a text with each number, hexadecimal word and run of blanks replaced by one character."""
    return _BLANKS.sub(b" ", _MASKED.sub(b"#", content))


def shape_of(content: bytes) -> str:
    """Return the SHA-256 of the sorted masked lines."""
    return hashlib.sha256(b"\n".join(sorted(masked(content).split(b"\n")))).hexdigest()


def sections_of(content: bytes) -> str:
    """Return 8 hexadecimal digits of SHA-256 for each section."""
    lines = content.split(b"\n")
    size = -(-len(lines) // SECTIONS)
    sections = (b"\n".join(lines[at : at + size]) for at in range(0, len(lines), size))
    return "".join(hashlib.sha256(section).hexdigest()[:8] for section in sections)
