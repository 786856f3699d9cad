"""The archives of `swapstone.model.cpio`, by the name that image building has for them."""

from __future__ import annotations

from swapstone.model.cpio import Entry, archive, device, file, folder, link, tree

__all__ = ["Entry", "archive", "device", "file", "folder", "link", "tree"]
