# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files whose pages lie in the page cache alike, so that equal bytes give equal memory.

A file that was just written lies in the page cache in larger folios than one that was read from storage, and read-ahead makes folios of
other sizes again. A page fault maps what its folio has (fault-around, mm/filemap.c), so that two processes of equal files have different
resident sizes, and take different numbers of faults.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import stat
from typing import NamedTuple

_READ_BYTES = 1 << 20


class SettledFile(NamedTuple):
    """A file that was read anew.

    Attributes:
        sha256: of its content; empty if it could not be read.
        size: in bytes.
        kept: why some of its pages may lie in the page cache as before; empty if all were dropped and read again.
    """

    sha256: str
    size: int
    kept: str


def settle(path: str) -> SettledFile:
    """Write a file back, drop it from the page cache, and read it again page by page, without read-ahead (posix_fadvise(2)).

    The kernel keeps pages that a process has mapped or locked, and those of file systems without storage.

    Args:
        path: of a file, which is not changed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return SettledFile("", 0, f"it can't be read: {error.strerror}")
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return SettledFile("", 0, "it is not a regular file")
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        kept = _kept(descriptor, status.st_size)
        digest = hashlib.sha256()
        while part := os.read(descriptor, _READ_BYTES):
            digest.update(part)
        return SettledFile(digest.hexdigest(), status.st_size, kept)
    except OSError as error:
        return SettledFile("", 0, f"it can't be read anew: {error.strerror}")
    finally:
        os.close(descriptor)


def _kept(descriptor: int, size: int) -> str:
    """Return whether mincore(2) reports pages of a file that was dropped; it reports all of a file that this user does not own."""
    if not size:
        return ""
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), pages)
        number = ctypes.get_errno()
        del start  # the mapping can't be closed before
    if failed:
        raise OSError(number, os.strerror(number))
    resident = sum(page & 1 for page in pages)
    return f"mincore reports {resident} of its {len(pages)} pages after they were dropped" if resident else ""
