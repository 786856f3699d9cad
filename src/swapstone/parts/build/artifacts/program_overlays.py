# SPDX-License-Identifier: MIT OR Apache-2.0
"""What images change of third-party programs: patches for one C library, and settings. ``native/overlays`` has a folder for each program.

``PROGRAM/config`` has settings for each C library, ``PROGRAM/LIBC/*.patch`` patches for one. A patch begins with lines ``Reason: ...`` and
``Test: ...``. It is written against the pinned sources, so it must apply exactly.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts.build_command import run_tool

_FOLDER = "native/overlays"
_FIELD = re.compile(r"^(Reason|Test): (.+)$", re.MULTILINE)


class Patch(FrozenStruct, frozen=True, kw_only=True):
    """A patch of a program.

    Attributes:
        name: of its file.
        sha256: of its file.
        reason: why the program needs it with this C library.
        test: that shows its effect.
    """

    name: str
    sha256: str
    reason: str
    test: str


def config_of(program: str) -> str:
    """Return the settings of a program, one a line; empty if it has none."""
    path = share_dir() / _FOLDER / program / "config"
    return path.read_text() if path.is_file() else ""


def patches_of(program: str, libc: str) -> tuple[Patch, ...]:
    """Return the patches of a program for a C library, in the order in which they are applied.

    Raises:
        UserError: one has no reason, or names no test.
    """
    return tuple(_read(path) for path in _paths(program, libc))


def apply_patches(program: str, libc: str, tree: Path) -> None:
    """Apply the patches of a program to a copy of its sources.

    Raises:
        UnavailableError: the command patch is not installed.
        UserError: one does not apply.
    """
    for path in _paths(program, libc):
        require_command("patch", f"Building {program} with {libc}")
        command = ["patch", "-p1", "--fuzz=0", "--forward", "--silent", "--no-backup-if-mismatch", "-i", str(path)]
        hint = "A patch belongs to the sources that the lock pins. Write it again for other ones."
        run_tool(command, f"Applying {path.name} to the sources of {program}", hint=hint, folder=tree)


def _paths(program: str, libc: str) -> list[Path]:
    return sorted((share_dir() / _FOLDER / program / libc).glob("*.patch"))


def _read(path: Path) -> Patch:
    content = path.read_bytes()
    fields = dict(_FIELD.findall(content.decode().partition("\n--- ")[0]))
    if fields.keys() != {"Reason", "Test"}:
        raise UserError(f"{path} does not begin with a reason and a test.", "Add lines: Reason: ... and Test: ...")
    return Patch(
        name=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        reason=fields["Reason"],
        test=fields["Test"],
    )
