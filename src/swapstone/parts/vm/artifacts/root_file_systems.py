# SPDX-License-Identifier: MIT OR Apache-2.0
"""Root file systems of the user: unpacked once into the cache, under the digest of their content.

A root is a folder, a tar archive, or a container image, as an archive or by its name. Left out are devices, FIFOs and sockets, and
set-user-ID and set-group-ID bits: docs/rootfs.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, read_description, sha256_of
from swapstone.core.model import Direction, FrozenStruct, Metric, Quantity, UserError
from swapstone.core.model.announcement import announced
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe
from swapstone.parts.vm.artifacts.container_images import pinned_image, save_image
from swapstone.parts.vm.artifacts.root_archives import (
    DAMAGED_HINT,
    ArchiveError,
    TarEntry,
    decompressed,
    layers_of,
    read_tar,
)
from swapstone.parts.vm.factors.container_image import PREFIX, is_image, parse_image

MOST_ENTRIES = 500_000
MOST_BYTES = 4 << 30
MOST_ARCHIVE_BYTES = 4 * MOST_BYTES
"""Of an archive, before it is read: images have layers that later ones replace."""
DEEPEST = 100
_LONGEST_PATH, _LONGEST_NAME = 4000, 255
_MOST_LINKS = 40
"""Limit of the kernel for the links in a path."""

MOUNT_POINTS = ("proc", "sys", "dev", "tmp", "swapstone")
"""Folders over which the agent mounts, or that it makes."""


@dataclasses.dataclass
class Node:
    """A file, folder or link.

    Attributes:
        kind: ``file``, ``folder`` or ``link``.
        layer: number of the layer that it is from.
        executable: of a file.
        sticky: of a folder.
        blob: of a file: where its content is.
        sha256, size_bytes: of the content.
        target: of a link.
    """

    kind: str
    layer: int
    executable: bool = False
    sticky: bool = False
    blob: Path = Path()
    sha256: str = ""
    size_bytes: int = 0
    target: str = ""


def resolve_inside(path: str, target: Callable[[str], str | None]) -> str | None:
    """Return a path without links, as the kernel resolves it in a root. What does not exist is taken as a folder.

    Args:
        path: in the root.
        target: returns the target of a link by its path in the root without a first slash, or None.

    Returns:
        The path without a first slash; None if more than 40 links are on the way, as for the kernel.
    """
    left = [part for part in path.split("/") if part not in {"", "."}]
    at: list[str] = []
    followed = 0
    while left:
        part = left.pop(0)
        if part == "..":
            at = at[:-1]
            continue
        link = target("/".join((*at, part)))
        if link is None:
            at.append(part)
            continue
        followed += 1
        if followed > _MOST_LINKS:
            return None
        at = [] if link.startswith("/") else at
        left = [each for each in link.split("/") if each not in {"", "."}] + left
    return "/".join(at)


_FORMS = "A root file system is a folder, a tar archive, an OCI archive or `docker save`."


class RootTree:
    """The index of a root file system.

    Args:
        name: of its source, for messages.
        work: an empty folder for contents, in the file system where the root will be.

    Attributes:
        layer: number of the layer that is being added: its entries replace those of the layers below.
    """

    def __init__(self, name: str, work: Path) -> None:
        self.nodes: dict[str, Node] = {}
        self.layer = 0
        self.size_bytes = 0
        self._name = name
        self._work = work
        self._blobs = 0
        self._names: dict[str, set[str]] = {}  # of what is in each folder

    def refuse(self, why: str, hint: str = _FORMS) -> UserError:
        """Return an error on the source."""
        return UserError(f"{safe(self._name)} {why}.", hint)

    def add_folder(self, path: str, *, sticky: bool = False) -> None:
        """Add a folder; one that exists stays, with its content."""
        key = self._place(path)
        if not key:
            return
        here = self.nodes.get(self._resolved(key))
        if here is None or here.kind != "folder":
            self._put(key, Node("folder", self.layer, sticky=sticky))
        elif here is self.nodes[key]:  # no link to a folder
            here.sticky, here.layer = sticky, self.layer

    def add_file(self, path: str, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Add a file."""
        key = self._place(path)
        if not key:
            raise self.refuse("has a file in place of its root folder")
        self._blobs += 1
        blob, digest, size = self._work / str(self._blobs), hashlib.sha256(), 0
        with blob.open("xb") as handle:
            for data in chunks:
                size += len(data)
                self.size_bytes += len(data)
                if self.size_bytes > MOST_BYTES:
                    raise self.refuse(f"has more than {MOST_BYTES >> 30} GiB of files")
                digest.update(data)
                handle.write(data)
        node = Node("file", self.layer, executable, blob=blob, sha256=digest.hexdigest(), size_bytes=size)
        self._put(key, node)

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link. Where it leads is decided in the root, which it can't leave (chroot(2))."""
        if not target or len(os.fsencode(target)) > _LONGEST_PATH or "\0" in target:
            raise self.refuse(f"has the link {path!r} with an invalid target")
        if key := self._place(path):
            self._put(key, Node("link", self.layer, target=target))

    def add_hard_link(self, path: str, target: str) -> None:
        """Add another name of a file that is in the archive."""
        node = self.nodes.get(self._place(target))
        if node is None or node.kind == "folder":
            raise self.refuse(f"has a hard link {path!r} to {target!r}, which is no file in it")
        if key := self._place(path):
            self._put(key, dataclasses.replace(node, layer=self.layer))

    def remove(self, path: str, *, itself: bool) -> None:
        """Remove what the layers below have in a folder, and the folder or file itself: the whiteouts of the OCI image specification."""
        key = self._place(path)
        if not itself:
            self._remove(self._below(key))
        elif key in self.nodes:
            self._remove((key, *self._below(key)))

    def blob(self, path: str) -> Path | None:
        """Return where the content of a file is, following links; None if there is none at a path."""
        node = self.nodes.get(self._resolved(path.strip("/")))
        return node.blob if node is not None and node.kind == "file" else None

    def sha256(self) -> str:
        """Return the SHA-256 of all that is in the root: 64 hexadecimal digits."""
        digest = hashlib.sha256(b"swapstone-root 1")
        for path, node in sorted(self.nodes.items()):
            what = (node.kind, node.executable, node.sticky, node.sha256, node.target)
            for text in (path, *map(str, what)):
                data = os.fsencode(text)
                digest.update(len(data).to_bytes(8) + data)
        return digest.hexdigest()

    def content_bytes(self) -> tuple[int, int]:
        """Return the bytes of all files, and those of their content compressed by gzip; each file once, in the order of the paths."""
        blobs = dict.fromkeys(node.blob for _, node in sorted(self.nodes.items()) if node.kind == "file")
        gzip, size, packed = zlib.compressobj(wbits=_GZIP), 0, 0
        for blob in blobs:
            for data in _file_chunks(str(blob)):
                size += len(data)
                packed += len(gzip.compress(data))
        return size, packed + len(gzip.flush())

    def check(self) -> None:
        """Refuse a root in which a file or link is where the agent mounts.

        Raises:
            UserError: there is one, or the root is empty.
        """
        if not any(node.kind == "file" for node in self.nodes.values()):
            raise self.refuse("has no files")
        for name in MOUNT_POINTS:
            node = self.nodes.get(name)
            if node is not None and node.kind != "folder":
                raise self.refuse(f"has a {node.kind} at /{name}, where a folder must be")

    def write(self, folder: Path) -> None:
        """Move the files into a new folder.

        Raises:
            OSError: it can't be written.
        """
        folder.mkdir()
        written: dict[Path, Path] = {}
        for path, node in sorted(self.nodes.items()):
            place = folder / path
            if node.kind == "folder":
                place.mkdir()
                place.chmod(0o1777 if node.sticky else 0o755)
            elif node.kind == "file" and (same := written.get(node.blob)) is not None:
                os.link(same, place)
            elif node.kind == "file":
                node.blob.rename(place)
                place.chmod(0o755 if node.executable else 0o644)
                written[node.blob] = place
        for path, node in self.nodes.items():
            if node.kind == "link":
                (folder / path).symlink_to(node.target)

    def _place(self, path: str) -> str:
        """Return the key of an entry's path: its folder without links, and its name.

        Raises:
            UserError: the path leaves the root, or is too long or too deep.
        """
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if ".." in parts or "\0" in path:
            raise self.refuse(f"has the path {path[:200]!r}, which leads out of it")
        if len(parts) > DEEPEST or len(os.fsencode(path)) > _LONGEST_PATH:
            raise self.refuse(f"has a path that is too long or too deep: {path[:60]!r}")
        if any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
            raise self.refuse(f"has a name of more than {_LONGEST_NAME} bytes: {path[:60]!r}")
        if not parts:
            return ""
        above = self._resolved("/".join(parts[:-1]))
        return f"{above}/{parts[-1]}" if above else parts[-1]

    def _resolved(self, path: str) -> str:
        """Return a path without links, as the kernel resolves it in the root. What does not exist is taken as a folder."""
        found = resolve_inside(path, self._target)
        if found is None:
            raise self.refuse(f"has links that lead to each other: {path[:60]!r}")
        return found

    def _target(self, key: str) -> str | None:
        node = self.nodes.get(key)
        return node.target if node is not None and node.kind == "link" else None

    def _put(self, key: str, node: Node) -> None:
        parts = key.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if above not in self.nodes:
                self._set(above, Node("folder", self.layer))
            if self.nodes[above].kind != "folder":
                raise self.refuse(f"has {key[:200]!r} below a file")
        before = self.nodes.get(key)
        if before is not None and before.kind == "folder" and node.kind != "folder":
            for each in tuple(self._below(key)):
                self._delete(each)
        self._set(key, node)

    def _set(self, key: str, node: Node) -> None:
        above, _, name = key.rpartition("/")
        self.nodes[key] = node
        self._names.setdefault(above, set()).add(name)
        if len(self.nodes) > MOST_ENTRIES:
            raise self.refuse(f"has more than {MOST_ENTRIES} files")

    def _delete(self, key: str) -> None:
        above, _, name = key.rpartition("/")
        del self.nodes[key]
        self._names[above].discard(name)

    def _below(self, key: str) -> Iterator[str]:
        """Yield what is in a folder, each file after those in it."""
        for name in self._names.get(key, ()):
            each = f"{key}/{name}" if key else name
            yield from self._below(each)
            yield each

    def _remove(self, keys: Iterable[str]) -> None:
        """Remove what is from the layers below; a folder of this layer stays, and one that still has files."""
        for key in sorted(keys, reverse=True):
            if self.nodes[key].layer < self.layer and not self._names.get(key):
                self._delete(key)


_ROOT, _LAYER, _SEAL = "root", "layer", "seal"
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_CHUNK = 1 << 20
_PAGE_BYTES = 4096
_INODE_BYTES = 1024
"""Of a file in memory: struct shmem_inode_info and struct dentry, about 900 bytes on 64-bit machines."""

_VERSION = b"swapstone-root-archive 1"


_GZIP = 31
"""The format of gzip with the largest window (zlib's windowBits)."""


def _root_size(name: str, unit: str, meaning: str) -> Metric:
    return Metric(name=name, unit=unit, quantity=Quantity.SIZE, better=Direction.LOWER, meaning=meaning)


ROOT_SIZES: tuple[Metric, ...] = (
    _root_size("root_size", "B", "content of all files of the root file system"),
    _root_size(
        "root_gzip", "B", "the same compressed by gzip, level 6, one file after the other in the order of their paths"
    ),
    _root_size("root_files", "1", "files, folders and links of the root file system"),
)


class RootFileSystem(FrozenStruct, frozen=True, kw_only=True):
    """An unpacked root file system.

    Attributes:
        sha256: of its content, 64 hexadecimal digits. Equal content from another source has the same.
        size_bytes, gzip_bytes, entries: the values of `ROOT_SIZES`; several names of one file count once in bytes.
        memory_bytes: what it takes in a file system in memory, where each name of a file has its own pages: an upper bound.
        source: path of the folder or archive, or the name of the image.
        folder: the unpacked root. Nothing writes to it.
        layer: an empty folder, over which the agent mounts a layer.
    """

    sha256: str
    size_bytes: int
    gzip_bytes: int
    entries: int
    memory_bytes: int
    source: str
    folder: str
    layer: str


def sizes_of_root(root: RootFileSystem) -> tuple[tuple[str, int], ...]:
    """Return the values of `ROOT_SIZES` by their names."""
    values = root.size_bytes, root.gzip_bytes, root.entries
    return tuple((metric.name, value) for metric, value in zip(ROOT_SIZES, values, strict=True))


def unpack_root(source: str, architecture: str = "") -> RootFileSystem:
    """Return a root file system from the cache; unpack it if it is not there.

    Args:
        source: absolute path of a folder or an archive, or the level of an image, which is saved if the cache does not have its root.
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
    architecture = architecture or os.uname().machine
    archive = True
    stamp: tuple[int, ...] = ()
    if is_image(source):
        source = pinned_image(source, architecture)
    else:
        status = _status(source)
        if archive := stat.S_ISREG(status.st_mode):
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    key = (str(cache_dir()), source, architecture, stamp)
    if key not in _unpacked or not Path(_unpacked[key].folder).is_dir():
        _unpacked[key] = _unpack(source, architecture, archive=archive)
    return _unpacked[key]


def _status(source: str) -> os.stat_result:
    with readable(f"The root file system {safe(source)}", "Name a folder or an archive."):
        status = Path(source).stat()
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise UserError(f"{safe(source)} is neither a folder nor an archive.", "Name a folder or an archive.")
    if stat.S_ISREG(status.st_mode) and status.st_size > MOST_ARCHIVE_BYTES:
        raise UserError(
            f"The archive {safe(source)} has {status.st_size >> 30} GiB, more than the {MOST_ARCHIVE_BYTES >> 30} GiB that are read.",
            f"A root has at most {MOST_BYTES >> 30} GiB of files: leave out what the program does not need.",
        )
    return status


_unpacked: dict[tuple[str, str, str, tuple[int, ...]], RootFileSystem] = {}
"""In one process a folder is read once, and an archive when its file has changed: by cache, source, architecture and the file's state."""


def _unpack(source: str, architecture: str, *, archive: bool) -> RootFileSystem:
    title = _title_of(source)
    try:
        roots, archives = cache_dir() / "roots", cache_dir() / "root-archives"
        for folder in (roots, archives):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        note = archives / _archive_digest(source, architecture) if archive else None
        with locked(roots / "lock"):
            found = read_description(note, RootFileSystem) if note else None
            if found is None or not (roots / found.sha256 / _SEAL).is_file():
                found = _collect(source, architecture, roots, archive=archive)
                if note:
                    write_whole(note, msgspec.json.encode(found))
        home = roots / found.sha256
        os.utime(home / _SEAL)
        # The description in the cache is of the first source with this content, and the cache may have been moved.
        return msgspec.structs.replace(found, source=title, folder=str(home / _ROOT), layer=str(home / _LAYER))
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else source
        raise UserError(f"{safe(title)} can't be unpacked: {safe(name)}: {error.strerror}.") from error


def root_with(root: RootFileSystem, files: Sequence[str]) -> RootFileSystem:
    """Return a root with more files, at the paths that they have on this machine; the files of the root itself are shared.

    Args:
        root: unpacked.
        files: absolute paths.

    Raises:
        UserError: a path leads to where the agent mounts, or a file can't be read or written.
    """
    digest = hashlib.sha256(f"swapstone-root-with 1 {root.sha256}".encode())
    for path in files:
        digest.update(f"{path}\0{sha256_of(Path(path))}\0".encode())
    home = cache_dir() / "roots" / digest.hexdigest()
    more_bytes = sum(Path(path).stat().st_size + _PAGE_BYTES + _INODE_BYTES for path in files)
    try:
        with locked(home.parent / "lock"):
            if not (home / _SEAL).is_file():
                with new_folder(home, ".unpacking-") as made:
                    shutil.copytree(root.folder, made / _ROOT, symlinks=True, copy_function=os.link)
                    for path in files:
                        _add_to(made / _ROOT, path)
                    (made / _LAYER).mkdir()
                    (made / _SEAL).write_bytes(b"")
    except OSError as error:
        raise UserError(f"{safe(root.source)} can't be given {safe(files[0])}: {error.strerror}.") from error
    return msgspec.structs.replace(
        root,
        sha256=home.name,
        folder=str(home / _ROOT),
        layer=str(home / _LAYER),
        memory_bytes=root.memory_bytes + more_bytes,
    )


def _add_to(top: Path, path: str) -> None:
    """Copy a file of this machine to the same path in a root, without leaving it by a link."""

    def target(inside: str) -> str | None:
        here = top / inside
        return os.readlink(here) if here.is_symlink() else None  # noqa: PTH115 - a text, which pathlib would normalise

    inside = resolve_inside(path, target)
    if inside is None or inside.split("/")[0] in {*MOUNT_POINTS} - {"tmp"}:
        raise UserError(f"{safe(path)} can't be put into a root file system.", "Copy it to another folder.")
    place = top / inside
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)  # it may share its content with the root itself
    shutil.copyfile(path, place)
    place.chmod(0o755)


def _title_of(source: str) -> str:
    return PREFIX + parse_image(source).title if is_image(source) else source


def _archive_digest(source: str, architecture: str) -> str:
    """Return the digest of an archive, or of the level of an image, which has that of its content."""
    with io.BytesIO(source.encode()) if is_image(source) else Path(source).open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.sha256(_VERSION + architecture.encode())).hexdigest()


def _collect(source: str, architecture: str, roots: Path, *, archive: bool) -> RootFileSystem:
    """Unpack into a temporary folder, and move the root to its digest."""
    with contextlib.ExitStack() as acts:
        temporary = acts.enter_context(tempfile.TemporaryDirectory(prefix=".unpacking-", dir=roots))
        image = save_image(source, architecture, Path(temporary) / "image.tar") if is_image(source) else None
        acts.enter_context(announced(f"{'unpacking' if archive else 'copying'} {_title_of(source)}"))
        tree = read_tree(
            _title_of(source), architecture, Path(temporary), archive=image or (Path(source) if archive else None)
        )
        tree.check()
        digest = tree.sha256()
        size, packed = tree.content_bytes()
        pages = sum(-(-node.size_bytes // _PAGE_BYTES) for node in tree.nodes.values())
        home = roots / digest
        if not (home / _SEAL).is_file():
            shutil.rmtree(home, ignore_errors=True)
            with new_folder(home, ".unpacking-") as made:
                tree.write(made / _ROOT)
                (made / _LAYER).mkdir()
                (made / _SEAL).write_bytes(b"")
    return RootFileSystem(
        sha256=digest,
        size_bytes=size,
        gzip_bytes=packed,
        entries=len(tree.nodes),
        memory_bytes=_INODE_BYTES * len(tree.nodes) + _PAGE_BYTES * pages,
        source=source,
        folder=str(home / _ROOT),
        layer=str(home / _LAYER),
    )


def read_tree(source: str, architecture: str, work: Path, *, archive: Path | None) -> RootTree:
    """Read a folder or an archive; contents go into `work`, a folder of its own.

    Args:
        source: the folder, or the name of the archive for messages.
        architecture: of the machine, as ``uname -m`` prints it.
        work: for contents.
        archive: the archive; None for a folder.

    Raises:
        UserError: it is damaged or beyond a limit.
        OSError: it can't be read, or there is no space.
    """
    first = RootTree(source, _made(work / "1"))
    try:
        if archive:
            _add_archive(first, archive, layered=False)
        else:
            _add(first, _folder_entries(Path(source)), layered=False)
        if (layers := layers_of(first.blob, architecture)) is None:
            return first
        image = RootTree(source, _made(work / "2"))
        for layer in layers:
            image.layer += 1
            digest = _add_archive(image, layer.file, layered=True)
            if layer.unpacked_sha256 and digest != layer.unpacked_sha256:
                raise ArchiveError(f"is damaged: the layer {layer.name[:80]!r} does not match its digest", DAMAGED_HINT)
    except ArchiveError as error:
        raise first.refuse(*error.args) from error
    return image


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _add_archive(tree: RootTree, file: Path, *, layered: bool) -> str:
    """Add the entries of an archive; return the SHA-256 of the archive without its compression, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with decompressed(file) as source:
        _add(tree, read_tar(source, digest.update), layered=layered)
    return digest.hexdigest()


def _add(tree: RootTree, entries: Iterable[TarEntry], *, layered: bool) -> None:
    """Add entries, but devices, FIFOs and sockets."""
    for entry, content in entries:
        folder, _, name = entry.name.rstrip("/").rpartition("/")
        if layered and name == _OPAQUE:
            tree.remove(folder, itself=False)
        elif layered and name.startswith(_WHITEOUT):
            tree.remove(f"{folder}/{name.removeprefix(_WHITEOUT)}", itself=True)
        elif entry.isdir():
            tree.add_folder(entry.name, sticky=bool(entry.mode & stat.S_ISVTX))
        elif entry.isreg():
            tree.add_file(entry.name, content, executable=bool(entry.mode & 0o111))
        elif entry.issym():
            tree.add_link(entry.name, entry.linkname)
        elif entry.islnk():
            tree.add_hard_link(entry.name, entry.linkname)


_TYPES = {stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFREG: tarfile.REGTYPE, stat.S_IFLNK: tarfile.SYMTYPE}


def _folder_entries(top: Path) -> Iterator[TarEntry]:
    """Yield what an archive of a folder has, without following links and without leaving its file system."""
    device = top.stat().st_dev
    names: dict[tuple[int, int], str] = {}  # the first name of each file, by device and inode

    def failed(error: OSError) -> None:
        raise error

    for here, folders, files in os.walk(top, onerror=failed):
        for name in sorted((*folders, *files)):
            path = Path(here, name)
            status = path.lstat()
            entry = tarfile.TarInfo(path.relative_to(top).as_posix())
            entry.mode, entry.type = status.st_mode, _TYPES.get(stat.S_IFMT(status.st_mode), tarfile.FIFOTYPE)
            if entry.issym():
                entry.linkname = os.readlink(path)  # noqa: PTH115 - a text, which pathlib would normalise
            elif (
                entry.isreg() and (first := names.setdefault((status.st_dev, status.st_ino), entry.name)) != entry.name
            ):
                entry.type, entry.linkname = tarfile.LNKTYPE, first
            yield entry, _file_chunks(str(path)) if entry.isreg() else iter(())
        folders[:] = [name for name in folders if Path(here, name).lstat().st_dev == device]


def _file_chunks(path: str) -> Iterator[bytes]:
    """Yield the content of a regular file. It is not opened if it has become a link, and a FIFO does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as handle:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UserError(f"{safe(path)} is no regular file any more.", "Is the folder being changed?")
        while data := handle.read(_CHUNK):
            yield data
