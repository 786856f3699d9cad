# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a root file system, collected from untrusted archives, before they are written.

All paths of an archive are resolved in this index. Contents are stored under numbers, and links are made last, so that no
file is ever written through a link. Permissions are 755 or 644, and the sticky bit of folders is kept; owners and times are ignored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from swapstone.core.model import UserError
from swapstone.core.model.safe_text import safe

MOST_ENTRIES = 500_000
MOST_BYTES = 4 << 30
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


class RootTree:
    """The index of a root file system.

    Args:
        name: of its source, for messages.
        work: an empty folder for contents, in the file system where the root will be.
    """

    def __init__(self, name: str, work: Path) -> None:
        self.nodes: dict[str, Node] = {}
        self.layer = 0
        self.size_bytes = 0
        self.devices = 0
        self.privileged = 0
        self._name = name
        self._work = work
        self._blobs = 0
        self._names: dict[str, set[str]] = {}  # of what is in each folder

    def refuse(self, why: str) -> UserError:
        """Return an error on the source."""
        return UserError(
            f"{safe(self._name)} {why}.",
            "A root file system is a folder, a tar archive, an OCI archive or `docker save`.",
        )

    def next_layer(self) -> None:
        """Begin another layer: its entries replace those of the layers below."""
        self.layer += 1

    def add_folder(self, path: str, *, sticky: bool = False) -> None:
        """Add a folder; one that exists stays, with its content."""
        key = self._place(path)
        if not key:
            return
        here = self.nodes.get(key)
        if here is not None and here.kind == "folder":
            here.sticky, here.layer = sticky, self.layer
        elif here is None or here.kind != "link" or not self._leads_to_folder(key):
            self._put(key, Node("folder", self.layer, sticky=sticky))

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

    def remove(self, path: str) -> None:
        """Remove what the layers below have at a path: a whiteout of the OCI image specification."""
        key = self._place(path)
        node = self.nodes.get(key)
        if key and node is not None:
            self._remove((key, *self._below(key)))

    def hide(self, path: str) -> None:
        """Remove what the layers below have in a folder: an opaque whiteout."""
        self._remove(tuple(self._below(self._place(path))))

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

    def _leads_to_folder(self, key: str) -> bool:
        found = self.nodes.get(self._resolved(key))
        return found is not None and found.kind == "folder"

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
