# SPDX-License-Identifier: MIT OR Apache-2.0
"""The paths of an image: links are followed as a kernel does, and files of this machine are added at their own paths."""

from __future__ import annotations

import stat
from collections.abc import Mapping

from swapstone.core.model import UserError
from swapstone.core.model.cpio import Entry, folder, link
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.parts.vm.artifacts.root_tree import resolve_inside


def resolve(tree: Mapping[str, Entry], path: str) -> str:
    """Return a path of an image without links, relative to the root; parts that don't exist stay as they are."""

    def target(here: str) -> str | None:
        entry = tree.get(here)
        if entry is None or not stat.S_ISLNK(entry.mode):
            return None
        return entry.content.decode(errors="surrogateescape")

    return resolve_inside(path, target) or ""


def find(tree: Mapping[str, Entry], path: str) -> Entry | None:
    """Return the file at a path of an image, following links; None if there is none."""
    found = tree.get(resolve(tree, path))
    return found if found is not None and stat.S_ISREG(found.mode) else None


def placed(image: Mapping[str, Entry], carried: CarriedFiles) -> dict[str, Entry]:
    """Return the entries that put files into an image.

    Folders of their paths may be links in the image, such as ``/usr``, and are followed. A file that the image has already is left out;
    another file at that path is replaced.

    Args:
        image: its entries by path.
        carried: to add.

    Raises:
        UserError: a file would replace a folder of the image, or lie below a file of it.
    """
    tree, added = dict(image), dict[str, Entry]()

    def put(path: str, entry: Entry) -> None:
        parent, _, name = path.rpartition("/")
        above = resolve(tree, parent)
        key = f"{above}/{name}".lstrip("/")
        parts = key.split("/")
        for depth in range(1, len(parts)):
            here = tree.setdefault("/".join(parts[:depth]), folder())
            if not stat.S_ISDIR(here.mode):
                raise UserError(
                    f"{safe(path)} can't be put into the machine: /{'/'.join(parts[:depth])} is no folder there."
                )
        before = tree.get(key)
        if before == entry:
            return
        if before is not None and stat.S_ISDIR(before.mode):
            raise UserError(f"{safe(path)} can't be put into the machine: it is a folder there.")
        tree[key] = added[key] = entry

    for path in sorted(carried.files):
        put(path, carried.files[path])
    for path, real in sorted(carried.aliases.items()):
        if resolve(tree, path) != resolve(tree, real):
            put(path, link(real))
    for path in sorted(carried.folders):
        key = resolve(tree, path)
        if key and key not in tree:
            put(f"/{key}", folder())
    return added
