# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile caches: files of columns and rows that an earlier command kept, damaged, forged, or something else than files.

Each command prints what it printed before the harm: such a file is ignored, and made again.
"""

from __future__ import annotations

import hmac
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.hostile.forgery import Kind, linked, sparse

_COLUMNS, _ROWS = "derived/*.columns", "derived/*.analysis"
_MAC_BYTES = 32


def _harmed(pattern: str, change: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a harm to all kept files of a pattern; the other ones are as the commands before the first harm left them."""

    def harm(path: Path) -> None:
        root = path.parents[1]
        whole, cache = root / "whole-cache", root / "swapstone"
        if not whole.exists():
            shutil.copytree(cache, whole)
        shutil.rmtree(cache)
        shutil.copytree(whole, cache)
        files = sorted(cache.glob(pattern))
        assert len(files) >= 2, f"kept of {pattern}: {files}"
        for file in files:
            change(file)

    return harm


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.unlink()
        make(file)

    return change


def _edited(place: float) -> Callable[[Path], None]:
    """Return a change of one bit, at a share of the file's length."""

    def change(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[int(place * (len(data) - 1))] ^= 1
        file.write_bytes(data)

    return change


def _link_to_true_file(file: Path) -> None:
    elsewhere = file.with_name(f"elsewhere-{file.stem}")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def _exchanged(file: Path) -> None:
    """Put the bytes of another kept file in its place."""
    other = next(each for each in sorted(file.parent.glob(f"*{file.suffix}")) if each != file)
    file.write_bytes(other.read_bytes())


def _forged_columns(change: Callable[[bytearray], None]) -> Callable[[Path], None]:
    """Return a forgery of a file of columns whose HMAC is by a key of the attacker's."""

    def forge(file: Path) -> None:
        content = bytearray(file.read_bytes()[_MAC_BYTES:])
        change(content)
        file.write_bytes(hmac.digest(bytes(32), content, "sha256") + content)

    return forge


def _endless_header(content: bytearray) -> None:
    content[:8] = b"\xff" * 8


def _other_numbers(content: bytearray) -> None:
    content[-64:] = bytes(64)


def _writable_by_all(file: Path) -> None:
    file.chmod(0o666)


_OF_BOTH: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("FIFOs", _instead(os.mkfifo)),
    ("links to /dev/zero", _instead(linked("/dev/zero"))),
    ("links to the true files", _link_to_true_file),
    ("folders", _instead(Path.mkdir)),
    ("1 TiB of nothing", _instead(sparse())),
    ("empty", _instead(Path.touch)),
    ("cut in the middle", lambda file: os.truncate(file, file.stat().st_size // 2)),
    *((f"wrong in a bit at {place:.0%}", _edited(place)) for place in (0, 0.1, 0.5, 1)),
    ("those of others", _exchanged),
)

_KEPT = [
    *(Kind(f"columns are {what}", _harmed(_COLUMNS, change), "", keeps=True) for what, change in _OF_BOTH),
    Kind("columns are writable by all users", _harmed(_COLUMNS, _writable_by_all), "", keeps=True),
    Kind("columns are forged", _harmed(_COLUMNS, _forged_columns(_other_numbers)), "", keeps=True),
    Kind("columns have a header of 2^64 bytes", _harmed(_COLUMNS, _forged_columns(_endless_header)), "", keeps=True),
    *(Kind(f"rows are {what}", _harmed(_ROWS, change), "", keeps=True) for what, change in _OF_BOTH),
]

GROUPS: dict[str, list[Kind]] = {"kept columns and rows": _KEPT}
"""Kinds of hostile caches."""
