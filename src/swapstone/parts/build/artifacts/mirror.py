# SPDX-License-Identifier: MIT OR Apache-2.0
"""The mirror: a folder or an address with pinned files and their ``SHA256SUMS``. `swapstone image vendor` fills one.

Every fetch reads the mirror first. A file is found by its SHA-256, which is compared again while it is copied.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from swapstone.core.artifacts.cache_folder import writable_folder
from swapstone.core.model import UserError

VARIABLE = "SWAPSTONE_MIRROR"
"""Names the folder or the address (``http://``, ``https://``) of the mirror; empty for none."""

SUMS = "SHA256SUMS"
_TIMEOUT_S = 60
_CHUNK_BYTES = 1 << 20
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64}) [ *](?P<name>[A-Za-z0-9][A-Za-z0-9._+~%:-]*)")


def from_mirror(sha256: str, kept: Path) -> bool:
    """Copy a file of the mirror to its place in the cache.

    Args:
        sha256: of the file.
        kept: path of the copy; its folder is created.

    Returns:
        Whether there is a mirror that has the file.

    Raises:
        UserError: the mirror can't be read, its file has another digest, or the cache can't be written.
    """
    place = os.environ.get(VARIABLE, "")
    name = read_sums(place).get(sha256) if place else None
    if name is None:
        return False
    with writable_folder(kept.parent):
        found = copy_checked(_chunks(place, name), kept, sha256)
    if found != sha256:
        raise UserError(
            f"{name} of the mirror {place} has SHA-256 {found}; its {SUMS} has {sha256}.",
            f"Remove the file there and write it again: swapstone image vendor {place}",
        )
    return True


def copy_checked(chunks: Iterable[bytes], kept: Path, sha256: str) -> str:
    """Copy a file through a temporary one, which replaces `kept` only if its digest is the given one.

    Returns:
        The digest of what was read.

    Raises:
        OSError: the folder can't be written.
    """
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".fetching-") as work:
        copy = Path(work) / "file"
        with copy.open("wb") as handle:
            for chunk in chunks:
                digest.update(chunk)
                handle.write(chunk)
        if digest.hexdigest() == sha256:
            copy.replace(kept)
    return digest.hexdigest()


def chunks_of(handle: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of an open file in parts of at most 1 MiB."""
    while chunk := handle.read(_CHUNK_BYTES):
        yield chunk


def read_sums(place: str) -> dict[str, str]:
    """Return the names of a mirror's files, by SHA-256. Lines of another form, such as paths, are ignored.

    Raises:
        UserError: the mirror has no ``SHA256SUMS``, or can't be read.
    """
    text = b"".join(_chunks(place, SUMS)).decode(errors="replace")
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match["sha256"]: match["name"] for match in found if match}


def sums_text(names: Mapping[str, str]) -> str:
    """Return the content of ``SHA256SUMS``, as ``sha256sum --check`` reads it; the argument is that of `read_sums`."""
    return "".join(f"{sha256}  {name}\n" for sha256, name in sorted(names.items(), key=lambda item: item[1]))


def _chunks(place: str, name: str) -> Iterator[bytes]:
    import http.client  # noqa: PLC0415 - with TLS, in 15 ms, and few have a mirror
    import urllib.error  # noqa: PLC0415 - as above

    try:
        with _open(place, name) as handle:
            yield from chunks_of(handle)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{name} of the mirror {place} can't be read: {reason}.",
            f"{VARIABLE} names a folder or an address that `swapstone image vendor FOLDER` filled; unset it to fetch"
            " from the archives.",
        ) from error


def _open(place: str, name: str) -> IO[bytes]:
    if place.startswith(("http://", "https://")):
        import urllib.parse  # noqa: PLC0415 - as above
        import urllib.request  # noqa: PLC0415 - as above

        address = f"{place.rstrip('/')}/{urllib.parse.quote(name)}"
        return cast(IO[bytes], urllib.request.urlopen(address, timeout=_TIMEOUT_S))  # noqa: S310 - http or https
    return Path(place, name).open("rb")
