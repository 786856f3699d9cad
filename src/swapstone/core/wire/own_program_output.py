# SPDX-License-Identifier: MIT OR Apache-2.0
"""Digests of what a run of an own program prints and writes, so that the outputs of two variants can be compared.

A content has up to three digests, as pairs (name, digest) of `swapstone.core.model.Run.digests`:

- ``NAME``: SHA-256 of the whole content. In standard output, the paths of the program and of its folder are replaced first: they
  differ between variants, and many programs print them.
- ``shape:NAME``: SHA-256 of its lines in sorted order, each with numbers, hexadecimal words and blanks masked. It is the same for outputs
  that differ in times, addresses, process identifiers or the order of lines alone.
- ``columns:NAME``: `columns_digest`, by which each number is compared alone: a result beside a printed time, in the same line too.

The last two exist for contents up to `SHAPED_BYTES` that are not empty. Records by rules below 3 have ``sections:NAME`` in the place of
the last one: 8 hexadecimal digits of SHA-256 for each of at most 32 successive parts of equally many lines.
"""

from __future__ import annotations

import collections
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from swapstone.core.model import OwnProgram

Digests = tuple[tuple[str, str], ...]
Column = tuple[bytes, int]
"""(masked line, place of a number in it)"""

SHAPE, COLUMNS = "shape:", "columns:"

STDOUT, STDERR = "stdout", "stderr"
"""The names of standard output, also if it goes to a file, and of standard error."""

ORDER: Column = (b"", -1)
"""The masked lines, in the place of a column's numbers."""

MOST_COLUMNS = 64
"""A record has thousands of runs: so many columns are 1536 characters for each."""

KEY_DIGITS, VALUE_DIGITS = 8, 16
"""Hexadecimal digits of a column in `columns_digest`: of its key, and of its values, half of them in order and half sorted."""

SHAPED_BYTES = 4 << 20
"""Larger contents have no shape: it would take longer than many programs run."""

LARGEST_BYTES = 1 << 30
"""A larger file is not read: its digest would take seconds for each run."""

_CHUNK_BYTES = 1 << 20
_KNOWN = 16

_WORD = (
    rb"0[xX][0-9a-fA-F]+"  # an address
    rb"|(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![0-9A-Za-z])"  # a digest, a part of a UUID
)
_MASKED = re.compile(_WORD + rb"|[-+]?[0-9]+(?:[.,][0-9]+)*(?:[eE][-+]?[0-9]+)?")
_NUMBER = re.compile(
    _WORD + rb"|[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)*(?:[eE][-+]?[0-9]+)?"
    rb"(?: ?(?:[num]?s|\xc2\xb5s|secs?|seconds?|min|minutes?)(?![0-9A-Za-z]))?"  # 900 us and 1.1 ms vary like 1 ms and 2 ms
)
_BLANKS = re.compile(rb"[ \t\r]+")


class OutputDigests:
    """Computes the digests of contents. It remembers the last few, because most programs print the same in every run."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[str, Digests] = collections.OrderedDict()
        self._lock = threading.Lock()

    def of_bytes(self, name: str, content: bytes, compared: bytes | None = None) -> Digests:
        """Return the digests of a content.

        Args:
            name: under which they are stored.
            content: all of it.
            compared: the content without the numbers of metrics, of which the columns are taken; None if it is the same.
        """
        return self._with_shape(name, hashlib.sha256(content).hexdigest(), content, compared)

    def of_printed(self, own: OwnProgram, stdout: bytes, stderr: bytes) -> Digests:
        """Return the digests of what a run printed: of standard error only if there is any, of standard output unless it goes elsewhere.

        Args:
            own: defines the numbers that are metrics: they vary, and are not compared.
            stdout: with the paths of the program and of its folder replaced.
            stderr: the same of standard error.
        """
        found: Digests = () if own.output else self.of_bytes(STDOUT, stdout, without_metrics(own, stdout))
        return (*found, *(self.of_bytes(STDERR, stderr, without_metrics(own, stderr)) if stderr else ()))

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

    def _with_shape(self, name: str, digest: str, content: bytes | None, compared: bytes | None = None) -> Digests:
        if not content or len(content) > SHAPED_BYTES:
            return ((name, digest),)
        key = digest + ("" if compared is None else hashlib.sha256(compared).hexdigest())
        with self._lock:
            known = self._known.get(key)
        if known is None:
            text = content if compared is None else compared
            known = ((SHAPE, shape_of(content)), (COLUMNS, columns_digest(text)))
            with self._lock:
                self._known[key] = known
                if len(self._known) > _KNOWN:
                    self._known.popitem(last=False)
        return ((name, digest), *((prefix + name, value) for prefix, value in known))


def masked(content: bytes) -> bytes:
    """Return a text with each number, hexadecimal word and run of blanks replaced by one character."""
    return _BLANKS.sub(b" ", _MASKED.sub(b"#", content))


def shape_of(content: bytes) -> str:
    """Return the SHA-256 of the sorted masked lines."""
    return hashlib.sha256(b"\n".join(sorted(masked(content).split(b"\n")))).hexdigest()


def without_name(stderr: bytes, path: str) -> bytes:
    """Return standard error without the program's name in front of messages (``NAME: message``), in which variants differ."""
    name = re.escape(os.fsencode(os.path.basename(path)))  # noqa: PTH119 # a path may be empty
    return re.sub(rb"^%s:" % name, b"{program}:", stderr, flags=re.MULTILINE) if name and stderr else stderr


def without_paths(printed: bytes, program: str, folder: str) -> bytes:
    """Replace the paths of a program and of its folder, in which variants differ and which many programs print."""
    for path, word in ((program, b"{program}"), (folder, b"{folder}")):
        if len(path) > 1:
            printed = printed.replace(os.fsencode(path), word)
    return printed


def without_metrics(own: OwnProgram, printed: bytes) -> bytes:
    """Return an output with each number of a metric replaced by a word: the text of the first group of its pattern."""
    if not own.numbers:
        return printed
    text = printed.decode(errors="surrogateescape")
    spans = {match.span(1) for number in own.numbers for match in re.finditer(number.pattern, text, re.MULTILINE)}
    for begin, end in sorted(spans, reverse=True):
        text = f"{text[:begin]}{{metric}}{text[end:]}"
    return text.encode(errors="surrogateescape")


def columns_of(content: bytes) -> dict[Column, list[bytes]]:
    """Return the numbers of a text in their order, by the line in which they stand, masked, and their place in it.

    A unit of time belongs to its number. A line without a number has one empty text for each time that it occurs. `ORDER` has the masked
    lines.
    """
    found: dict[Column, list[bytes]] = {ORDER: []}
    for line in content.split(b"\n"):
        key = _BLANKS.sub(b" ", _NUMBER.sub(b"#", line))
        found[ORDER].append(key)
        for place, number in enumerate(_NUMBER.findall(line) or [b""]):
            found.setdefault((key, place), []).append(number)
    return found


class Part(NamedTuple):
    """What of a content is compared by itself.

    Attributes:
        key: `KEY_DIGITS` hexadecimal digits, equal for the same part of other contents.
        line: the masked line in which the numbers stand; of several columns that of the first.
        place: of the number in it, from 0; that of `ORDER` for the masked lines.
        values: the numbers, or the masked lines, in their order.
    """

    key: str
    line: bytes
    place: int
    values: list[bytes]


def parts_of(content: bytes) -> Iterator[Part]:
    """Yield the masked lines, and each column of a text.

    Of more than `MOST_COLUMNS` columns, neighbours of one place in their lines are taken together: their key is that of their number.
    """
    found = columns_of(content)
    yield Part(_key(b"-1"), *ORDER, found.pop(ORDER))
    columns = sorted(found, key=lambda column: (column[1], column[0]))
    size = -(-len(columns) // (MOST_COLUMNS - 1))
    for at in range(0, len(columns), size):
        together = columns[at : at + size]
        line, place = together[0]
        key = b"%d %s" % (place, line) if size == 1 else b"%d of %d" % (at, len(columns))
        yield Part(_key(key), line, place, [number for column in together for number in found[column]])


def _key(name: bytes) -> str:
    return hashlib.sha256(name).hexdigest()[:KEY_DIGITS]


def columns_digest(content: bytes) -> str:
    """Return, for each part of a text, its key and two halves of a value: SHA-256 of the numbers in their order, and sorted."""
    half = VALUE_DIGITS // 2
    return "".join(
        key + "".join(hashlib.sha256(b"\n".join(each)).hexdigest()[:half] for each in (values, sorted(values)))
        for key, _, _, values in parts_of(content)
    )
