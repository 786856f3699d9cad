# SPDX-License-Identifier: MIT OR Apache-2.0
"""The roots in which an own program runs: those of the user, by their paths, and those of images of one C library."""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.factors import Evidence, ProgramFacts, find_factor, is_root_factor
from swapstone.core.model import Experiment, UserError
from swapstone.core.model.safe_text import safe
from swapstone.parts.build.artifacts.sdk import SDK_COMPILERS
from swapstone.parts.vm.artifacts.libc_files import check_libc_files, image_architecture, libc_root
from swapstone.parts.vm.artifacts.root_file_systems import RootFileSystem, unpack_root
from swapstone.parts.vm.factors.image import IMAGE

_FOLDERS = ("bin", "sbin")
_BUSYBOX = "busybox"
_WELL_KNOWN = ("awk", "bc", "find", "grep", "gzip", "httpd", "sed", "sh", "sort", "tar", "vi", "wget")
"""Commands of busybox that a message names as examples, where the image has them."""


@dataclasses.dataclass(frozen=True)
class RootLevel:
    """A level of a factor whose levels are roots: `factor` is its name."""

    factor: str
    level: str

    @property
    def is_image(self) -> bool:
        """Whether Swapstone builds the root."""
        return self.factor == IMAGE.name


def root_levels(experiment: Experiment) -> tuple[RootLevel, ...]:
    """Return the roots of an experiment; none if its program runs in that of the target.

    Raises:
        UserError: two factors name the root.
    """
    choices = [choice for choice in experiment.applied_factors if is_root_factor(choice.factor)]
    if len(choices) > 1:
        raise UserError(
            f"The factors {' and '.join(choice.factor for choice in choices)} both name the root of the program.",
            "Leave one of them out.",
        )
    return tuple(RootLevel(choice.factor, level) for choice in choices for level in choice.levels)


def level_of_recipe(root: str) -> RootLevel:
    """Return the level that a recipe names: a path, or an image."""
    return RootLevel("rootfs" if "/" in root else IMAGE.name, root)


def check_image(architecture: str, level: RootLevel) -> None:
    """Check that an image can be built here; nothing is fetched.

    Args:
        architecture: as ``uname -m`` prints it.
        level: of the factor ``image``.

    Raises:
        UnavailableError: a tool is missing; the hint names its package.
    """
    check_libc_files(image_architecture(architecture), level.level, SDK_COMPILERS[0])


def root_of(
    level: RootLevel, architecture: str, notify: Callable[[str], None] = lambda _: None
) -> tuple[RootFileSystem, tuple[tuple[str, str], ...]]:
    """Return a root, unpacked in the cache, with pairs (name, SHA-256) of what it was made from.

    Args:
        level: its image is built if the cache does not have it.
        architecture: of the machine, as ``uname -m`` prints it.
        notify: called with a line before a build.

    Raises:
        UserError: it can't be unpacked or built.
    """
    if not level.is_image:
        root = unpack_root(level.level, architecture)
        return root, ((f"{level.factor} {level.level}", root.sha256),)
    made = libc_root(level.level, architecture, notify)
    root = msgspec.structs.replace(unpack_root(str(made.archive), architecture), source=f"{level.factor}={level.level}")
    return root, ((f"{level.factor} {level.level}", root.sha256), *made.sources)


def check_library(level: RootLevel, program: str, facts: ProgramFacts) -> None:
    """Check that a program that runs in an image uses its C library.

    Raises:
        UserError: it contains another one, such as a static program of the user.
    """
    found = find_factor("libc").observe(Evidence(interp=facts.interp, objects=facts.needed, program=facts))
    if found is not None and found != level.level:
        raise UserError(
            f"{safe(program)} is of {found}, and the image is of {level.level}: the program does not use the image's C library."
        )


def contents_of(root: RootFileSystem) -> str:
    """Return a sentence that names the programs of an image."""
    names: dict[str, str] = {}
    for folder in _FOLDERS:
        top = Path(root.folder) / folder
        for path in sorted(top.iterdir()) if top.is_dir() else ():
            real = Path(path.readlink()).name if path.is_symlink() else path.name
            if path.is_symlink() or stat.S_IMODE(path.lstat().st_mode) & 0o111:
                names[path.name] = real
    applets = [name for name, real in names.items() if real == _BUSYBOX != name]
    own = sorted(name for name in names if name not in applets)
    examples = ", ".join(name for name in _WELL_KNOWN if name in applets)
    return f"The image has {', '.join(own)}, and {len(applets)} commands of busybox, such as {examples}."
