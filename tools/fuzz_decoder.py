# SPDX-License-Identifier: MIT OR Apache-2.0
"""A decoder of outside input for tools/fuzz, and what the tables of decoders share."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from swapstone.core.model import UserError
from swapstone.core.model.temporary_folder import TemporaryFolder

TOP = Path(__file__).resolve().parent.parent
RECORDED = TOP / "tests" / "recorded"


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder of outside input.

    Attributes:
        name: short, for the command line and the table.
        origin: who writes the input.
        decode: returns a value, or raises one of `errors`.
        seeds: returns valid inputs; each is accepted, and its value is not empty.
        repair: makes checksums of a changed input valid, so that what they protect is reached.
        errors: what it raises for an invalid input.
        refused: seeds that are error messages of the other side, which raise an error by design.
    """

    name: str
    origin: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], tuple[bytes, ...]]
    repair: Callable[[bytes], bytes] | None = None
    errors: tuple[type[Exception], ...] = (UserError,)
    refused: tuple[bytes, ...] = ()


@functools.cache
def _made() -> TemporaryFolder:
    shared = Path("/dev/shm")  # noqa: S108 # memory, if there is any; the folder in it has a random name
    return TemporaryFolder("fuzz", shared if shared.is_dir() else None)


def scratch_folder() -> Path:
    """Return a folder for decoders that read files: one for this process and its forks, which leave it when they end."""
    return _made().path


def in_file(data: bytes, name: str = "file") -> Path:
    """Write a file into the scratch folder; return its path."""
    path = scratch_folder() / name
    path.write_bytes(data)
    return path


def in_folder(name: str, files: Mapping[str, bytes]) -> Path:
    """Write files into a new folder of the scratch folder; return its path."""
    folder = scratch_folder() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    return folder


def text_of(data: bytes) -> str:
    """Return bytes as text, with replacement characters."""
    return data.decode(errors="replace")


def recorded(*names: str) -> Callable[[], tuple[bytes, ...]]:
    """Return files of tests/recorded."""
    return lambda: tuple((RECORDED / name).read_bytes() for name in names)


def constant(*seeds: bytes) -> Callable[[], tuple[bytes, ...]]:
    """Return inputs that are written out."""
    return lambda: seeds


def sections(data: bytes, names: Iterable[str]) -> dict[str, bytes]:
    """Return the parts of an input by their names: each begins with a line ``--- NAME``."""
    found: dict[str, bytes] = {}
    name = ""
    known = set(names)
    for line in data.splitlines(keepends=True):
        mark, _, rest = line.partition(b" ")
        if mark == b"---":
            name = text_of(rest).strip()
        elif name in known:
            found[name] = found.get(name, b"") + line
    return found


def repair_figures(data: bytes) -> bytes:
    """Return named figures with a valid last line."""
    lines = [line for line in data.split(b"\n") if line and not line.startswith(b"end ")]
    text = b"".join(line + b"\n" for line in lines) + b"end %d" % len(lines)
    return text + b" %08x\n" % zlib.crc32(text)
