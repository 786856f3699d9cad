# SPDX-License-Identifier: MIT OR Apache-2.0
"""The root file system in which the user's program runs (docs/rootfs.md), or that of a board of a lab (docs/boards.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors.factor import BOOTED_ROOT, Evidence, Level, Recipe, Stage
from swapstone.core.factors.mounts import MOUNTS, mounted_root
from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.vm.factors.container_image import is_image, parse_image

_IMAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", re.ASCII)
_INVALID = re.compile(r"[\s,=:()%*?\[\]{}\\]")
_EXAMPLE = "For example: swapstone compare rootfs=./alpine.tar,./debian.tar -- /bin/sh bench.sh"


class Rootfs:
    """The root file system of an own program: a folder or an archive of the user. Of a board: an image that a lab's strategy deploys."""

    name = "rootfs"
    stage = Stage.LAUNCH
    reboots = True
    is_root = True
    description = "the root file system of your program: a folder, a tar archive or a container image"
    levels: tuple[Level, ...] = ()
    forms: tuple[Level, ...] = (
        Level(name="FOLDER", description="of Buildroot, Yocto or debootstrap, for example"),
        Level(name="ARCHIVE", description="a tar, plain or compressed; an OCI archive; the output of docker save"),
        Level(
            name="docker:NAME",
            description="a container image, through docker, podman or skopeo, e.g. docker:alpine:3.20",
        ),
        Level(name="IMAGE", description="on --target labgrid:PLACE, an image of the lab's environment, or its file"),
    )
    observes = (MOUNTS,)
    unseen = "The mounts of the process could not be read, or are more than the agent keeps."

    def acts_on(self, target: str, offers: frozenset[str], levels: Sequence[str]) -> bool:
        """Return True: a target has the root, or boots it; see `ChecksPlace`.

        Raises:
            UnavailableError: of a board, a level is a folder or a container image; a strategy deploys files.
        """
        boots = "reboots" in offers and "boots" not in offers
        whats = ((level, "container image" if is_image(level) else "folder") for level in levels if boots)
        level, what = next(
            ((each, what) for each, what in whats if is_image(each) or ("/" in each and Path(each).is_dir())), ("", "")
        )
        if level:
            raise UnavailableError(
                f"The target {target} can't boot {level}: it is a {what}, and a strategy deploys files.",
                "Name files that the board boots, or images of labgrid's environment: rootfs=./root-a.img,./root-b.img",
            )
        return True

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the root in the recipe."""
        return msgspec.structs.replace(recipe, root=level)

    def level_of_text(self, text: str) -> Level:
        """Return the level of a path without a slash, of a container image, or of the name of a lab's image; see `TakesTexts`.

        Raises:
            UserError: as `level_of_path`.
        """
        if _IMAGE.fullmatch(text) and not os.path.lexists(text):
            return Level(name=text, description="an image of a lab's environment, which its strategy deploys")
        return self.level_of_path(text)

    def level_of_path(self, text: str) -> Level:
        """Return the level of a folder, an archive or a container image, whose name may have a slash; see `TakesPaths`.

        Raises:
            UserError: it does not exist, its path can't be a part of a variant's name, or it is no name of an image.
        """
        if is_image(text):
            return Level(name=parse_image(text).level, description="a container image")
        path = Path(text).expanduser().resolve()
        invalid = _INVALID.search(str(path))
        if invalid is not None or not str(path).isprintable():
            what = f"with {invalid[0]!r} in it" if invalid else "that is not printable"
            raise UserError(
                f"{str(path)!r} can't be a level: a path {what} can't be part of a variant's name.",
                "Rename it, with letters, digits and ._/+- only.",
            )
        if not path.is_dir() and not path.is_file():
            raise no_root(str(path))
        return Level(name=str(path), description="a root file system of the user")

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level whose root is mounted at / of the process, as the kernel lists it in /proc/PID/mountinfo.

        A target that boots root file systems reports the level that it found on its machine.

        Returns:
            The requested level if its unpacked folder is mounted there, itself or below a layer; another text if something else is;
            None if the mounts are unknown.
        """
        if booted := evidence.machine_text(BOOTED_ROOT):
            return booted
        mounted = mounted_root(evidence)
        if mounted is None:
            return None
        level = evidence.path_of(self.name)
        return level if level and mounted == evidence.root else f"the root {mounted}"


def no_root(path: str) -> UserError:
    """Return the error for a level that is no root file system of this machine."""
    return UserError(f"There is no folder or archive {path} to use as a root file system.", _EXAMPLE)


ROOTFS = Rootfs()
