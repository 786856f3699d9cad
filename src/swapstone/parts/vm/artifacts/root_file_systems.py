# SPDX-License-Identifier: MIT OR Apache-2.0
"""Root file systems of the user: unpacked once into the cache, under the digest of their content.

A root is a folder, a tar archive, or a container image as an archive. Left out are devices, FIFOs and sockets, and set-user-ID and
set-group-ID bits: docs/rootfs.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, read_description
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.cached_files import write_whole
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe
from swapstone.parts.vm.artifacts.oci_layout import LayoutError, layers_of
from swapstone.parts.vm.artifacts.root_tree import RootTree
from swapstone.parts.vm.artifacts.tar_reader import Source, TarError, decompressed, read_tar

_ROOT, _LAYER, _SEAL = "root", "layer", "seal"
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_CHUNK = 1 << 20
_PAGE_BYTES = 4096
_INODE_BYTES = 1024
"""Of a file in memory: struct shmem_inode_info and struct dentry, about 900 bytes on 64-bit machines."""

_VERSION = b"swapstone-root-archive 1"


class UnpackedRoot(FrozenStruct, frozen=True, kw_only=True):
    """What the cache keeps of a source.

    Attributes:
        sha256: of its content, 64 hexadecimal digits. Equal content from another source has the same.
        size_bytes: of all its files; one with several names counts once.
        memory_bytes: what it takes in a file system in memory, where each name of a file has its own pages: an upper bound.
        files: how many files, folders and links it has.
        devices: how many devices, FIFOs and sockets were left out.
        privileged: how many files lost a set-user-ID or set-group-ID bit.
    """

    sha256: str
    size_bytes: int
    memory_bytes: int
    files: int
    devices: int
    privileged: int


class RootFileSystem(UnpackedRoot, frozen=True, kw_only=True):
    """An unpacked root file system.

    Attributes:
        source: path of the folder or archive.
        folder: the unpacked root. Nothing writes to it.
        layer: an empty folder, over which the agent mounts a layer.
    """

    source: str
    folder: str
    layer: str


def unpack_root(source: str, architecture: str = "") -> RootFileSystem:
    """Return a root file system from the cache; unpack it if it is not there.

    Args:
        source: absolute path of a folder or an archive.
        architecture: of the machine, for container images of several platforms; empty for this machine's.

    Raises:
        UserError: it is missing, damaged, too large, or can't be a root.
        UnavailableError: a program is missing that decompresses it.
    """
    if found := re.search(r"[,:\\]", str(cache_dir())):
        raise UserError(
            f"A root file system can't be mounted from the cache folder {safe(str(cache_dir()))}: {found[0]!r} separates mount options.",
            "Set XDG_CACHE_HOME to a folder without commas, colons and backslashes in its path.",
        )
    status = _status(source)
    archive = stat.S_ISREG(status.st_mode)
    stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if archive else ()
    key = (source, architecture or os.uname().machine, stamp)
    if key not in _unpacked or not Path(_unpacked[key].folder).is_dir():
        _unpacked[key] = _unpack(source, key[1], archive=archive)
    return _unpacked[key]


def _status(source: str) -> os.stat_result:
    with readable(f"The root file system {safe(source)}", "Name a folder or an archive."):
        status = Path(source).stat()
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise UserError(f"{safe(source)} is neither a folder nor an archive.", "Name a folder or an archive.")
    return status


_unpacked: dict[tuple[str, str, tuple[int, ...]], RootFileSystem] = {}
"""In one process a folder is read once, and an archive when its file has changed: by source, architecture and the file's state."""


def _unpack(source: str, architecture: str, *, archive: bool) -> RootFileSystem:
    try:
        roots, archives = cache_dir() / "roots", cache_dir() / "root-archives"
        for folder in (roots, archives):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        note = archives / _archive_digest(Path(source), architecture) if archive else None
        with locked(roots / "lock"):
            found = read_description(note, UnpackedRoot) if note else None
            if found is None or not (roots / found.sha256 / _SEAL).is_file():
                found = _collect(source, architecture, roots, archive=archive)
                if note:
                    write_whole(note, msgspec.json.encode(found))
        home = roots / found.sha256
        os.utime(home / _SEAL)
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else source
        raise UserError(f"{safe(source)} can't be unpacked: {safe(name)}: {error.strerror}.") from error
    return RootFileSystem(
        source=source,
        folder=str(home / _ROOT),
        layer=str(home / _LAYER),
        **msgspec.structs.asdict(found),
    )


def _archive_digest(path: Path, architecture: str) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.sha256(_VERSION + architecture.encode())).hexdigest()


def _collect(source: str, architecture: str, roots: Path, *, archive: bool) -> UnpackedRoot:
    """Unpack into a temporary folder, and move the root to its digest."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=roots) as temporary:
        tree = read_tree(source, architecture, Path(temporary), archive=archive)
        tree.check()
        digest = tree.sha256()
        found = UnpackedRoot(
            sha256=digest,
            size_bytes=sum({node.blob: node.size_bytes for node in tree.nodes.values()}.values()),
            memory_bytes=sum(
                _INODE_BYTES + -(-node.size_bytes // _PAGE_BYTES) * _PAGE_BYTES for node in tree.nodes.values()
            ),
            files=len(tree.nodes),
            devices=tree.devices,
            privileged=tree.privileged,
        )
        home = roots / digest
        if not (home / _SEAL).is_file():
            shutil.rmtree(home, ignore_errors=True)
            with new_folder(home, ".unpacking-") as made:
                tree.write(made / _ROOT)
                (made / _LAYER).mkdir()
                (made / _SEAL).write_bytes(b"")
        return found


def read_tree(source: str, architecture: str, work: Path, *, archive: bool) -> RootTree:
    """Read a folder or an archive; contents go into `work`, an empty folder.

    Raises:
        UserError: it is damaged or beyond a limit.
        OSError: it can't be read, or there is no space.
    """
    first = RootTree(source, _made(work / "1"))
    try:
        if archive:
            with decompressed(Path(source)) as opened:
                whole = _Digested(opened)
                _add_archive(first, whole, layered=False)
                whole.finish()
        else:
            _add_folder(first, Path(source))
        if (layers := layers_of(first.blob, architecture)) is None:
            return first
        image = RootTree(source, _made(work / "2"))
        for layer in layers:
            image.next_layer()
            with decompressed(layer.file) as opened:
                digested = _Digested(opened)
                _add_archive(image, digested, layered=True)
                digested.finish()
            if layer.unpacked_sha256 and digested.sha256() != layer.unpacked_sha256:
                raise LayoutError(f"is damaged: the layer {layer.name[:80]!r} does not match its digest")
    except (TarError, LayoutError) as error:
        raise first.refuse(str(error)) from error
    return image


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


class _Digested:
    """Computes the digest of what is read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._digest = hashlib.sha256()
        self._size = 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._digest.update(data)
        self._size += len(data)
        return data

    def finish(self) -> None:
        """Read what follows the last entry, so that damage there is found too."""
        until = self._size + _MOST_TRAILER_BYTES
        while self.read(_CHUNK):
            if self._size > until:
                raise TarError("has data after its end")

    def sha256(self) -> str:
        """Return the digest, 64 hexadecimal digits."""
        return self._digest.hexdigest()


_MOST_TRAILER_BYTES = 64 << 20


def _add_archive(tree: RootTree, source: Source, *, layered: bool) -> None:
    for entry, content in read_tar(source):
        folder, _, name = entry.name.rstrip("/").rpartition("/")
        if layered and name == _OPAQUE:
            tree.hide(folder)
        elif layered and name.startswith(_WHITEOUT):
            tree.remove(f"{folder}/{name.removeprefix(_WHITEOUT)}")
        elif entry.isdir():
            tree.add_folder(entry.name, sticky=bool(entry.mode & stat.S_ISVTX))
        elif entry.isreg():
            tree.privileged += bool(entry.mode & (stat.S_ISUID | stat.S_ISGID))
            tree.add_file(entry.name, content, executable=bool(entry.mode & 0o111))
        elif entry.issym():
            tree.add_link(entry.name, entry.linkname)
        elif entry.islnk():
            tree.add_hard_link(entry.name, entry.linkname)
        else:
            tree.devices += 1


def _add_folder(tree: RootTree, top: Path) -> None:
    """Read a folder without following links and without leaving its file system."""
    device = top.stat().st_dev
    linked: dict[int, str] = {}
    waiting = [""]
    while waiting:
        here = waiting.pop()
        with os.scandir(top / here) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        for child in children:
            path, status = f"{here}/{child.name}".lstrip("/"), child.stat(follow_symlinks=False)
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                tree.add_folder(path, sticky=bool(mode & stat.S_ISVTX))
                if status.st_dev == device:
                    waiting.append(path)
            elif stat.S_ISLNK(mode):
                tree.add_link(path, os.readlink(child.path))  # noqa: PTH115 - a text, which pathlib would normalise
            elif not stat.S_ISREG(mode):
                tree.devices += 1
            elif status.st_ino in linked:
                tree.add_hard_link(path, linked[status.st_ino])
            else:
                tree.privileged += bool(mode & (stat.S_ISUID | stat.S_ISGID))
                tree.add_file(path, _file_chunks(child.path), executable=bool(mode & 0o111))
                if status.st_nlink > 1:
                    linked[status.st_ino] = path


def _file_chunks(path: str) -> Iterator[bytes]:
    """Yield the content of a regular file. It is not opened if it has become a link, and a FIFO does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as handle:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UserError(f"{safe(path)} is no regular file any more.", "Is the folder being changed?")
        while data := handle.read(_CHUNK):
            yield data
