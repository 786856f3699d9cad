# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which C library the binaries of an image are of, as their files show it; an image with one of another C library is refused."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Mapping

from swapstone.core.factors import Evidence, facts_of, find_factor
from swapstone.core.model import FrozenStruct, UserError, cpio

_ELF = b"\x7fELF"


class ObservedFile(FrozenStruct, frozen=True, kw_only=True):
    """What the file of a program or shared object shows.

    Attributes:
        libc: the C library, by the factor ``libc``; of the C library's own files, that of their package.
        compiler: by the factor ``compiler``; empty if its file names none.
        loader: in PT_INTERP, or empty.
        needed: shared objects, in the order of the file.
        size_bytes: of the file.
    """

    libc: str
    compiler: str
    loader: str
    needed: tuple[str, ...]
    size_bytes: int


def observe_files(
    entries: Mapping[str, cpio.Entry], own: frozenset[str], libc: str, compiler: str
) -> dict[str, ObservedFile]:
    """Read each program and shared object of an image.

    Args:
        entries: by path.
        own: paths of the C library's own files, which come from its package.
        libc: the requested C library.
        compiler: the requested compiler.

    Returns:
        What was observed, by path.

    Raises:
        UserError: a file is of another C library or compiler, or shows none; or the image lacks a loader or shared object that one needs.
    """
    found = {
        path: _observed(path, entry.content, libc if path in own else "")
        for path, entry in sorted(entries.items())
        if stat.S_ISREG(entry.mode) and entry.content.startswith(_ELF)
    }
    for path, file in found.items():
        _require(path, "C library", file.libc, libc)
        if path not in own:
            _require(path, "compiler", file.compiler, compiler)
    _require_closure(entries, found)
    return found


def _observed(path: str, content: bytes, known: str) -> ObservedFile:
    facts = facts_of(content, path)
    if facts is None:
        raise UserError(f"{path} is a damaged ELF file.", "Build the image again: swapstone image gc --older-than 0d")
    evidence = Evidence(interp=facts.interp, objects=facts.needed, program=facts)
    return ObservedFile(
        libc=known or find_factor("libc").observe(evidence) or "",
        compiler=find_factor("compiler").observe(evidence) or "",
        loader=facts.interp or "",
        needed=facts.needed,
        size_bytes=len(content),
    )


def _require(path: str, what: str, seen: str, wanted: str) -> None:
    if seen != wanted:
        shown = f"is of the {what} {seen}" if seen else f"does not show its {what}"
        raise UserError(
            f"{path} {shown}; the image is for {wanted}, so it is refused.",
            "Each program of the image must be built with the SDK's compiler. Report a program of Swapstone's own.",
        )


def _require_closure(entries: Mapping[str, cpio.Entry], found: Mapping[str, ObservedFile]) -> None:
    """Check that loaders and needed objects are in the image. musl's loader is its C library, too, whatever name a program needs it by."""
    names = {posixpath.basename(path) for path in entries}
    for path, file in found.items():
        lacking = [
            name for name in file.needed if name not in names and not (file.libc == "musl" and name == "libc.so")
        ]
        if file.loader and file.loader.removeprefix("/usr").lstrip("/") not in entries:
            lacking.append(file.loader)
        if lacking:
            raise UserError(f"{path} needs {', '.join(lacking)}, which the image does not have.")
