# SPDX-License-Identifier: MIT OR Apache-2.0
"""Debian's snapshot service: what an archive had at a given time, for pinned files that the archive no longer has.

``native/snapshots.toml`` pins the times at which the locks were written. The files are authenticated by the digests of the locks, so
neither keys nor dates of these lists are checked.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.directories import share_dir
from swapstone.core.model.regular_file import decode_toml, read_toml

VARIABLE = "SWAPSTONE_SNAPSHOT"
"""Address of the service, for a mirror of it; ``none`` to use none."""

NONE = "none"
SERVICE = "http://snapshot.debian.org/archive"
_MOST = 4
"""Times that are kept when the locks are written again."""

_ARCHIVE = re.compile(r"\S+/(?P<archive>debian|debian-security)/? (?P<suite>\S+) (?P<component>\S+)")


class Snapshot(FrozenStruct, frozen=True, kw_only=True):
    """The state of some archives at a time.

    Attributes:
        time: in UTC, as the service writes it: ``20261122T173733Z``.
        archives: archive, suite and component, each separated by a blank.
    """

    time: str
    archives: tuple[str, ...]

    def of(self, suite: str) -> Snapshot:
        """Return the part of one release; all of it if no release is given."""
        kept = tuple(line for line in self.archives if not suite or line.split(" ")[1] == suite)
        return Snapshot(time=self.time, archives=kept)

    def sources(self, kind: str) -> str:
        """Return lines for apt's ``sources.list``.

        Args:
            kind: ``deb`` or ``deb-src``.
        """
        service = os.environ.get(VARIABLE) or SERVICE
        options = "[trusted=yes check-valid-until=no]"
        return "".join(
            f"{kind} {options} {service}/{archive}/{self.time}/ {rest}\n"
            for archive, _, rest in (line.partition(" ") for line in self.archives)
        )


class _Snapshots(msgspec.Struct, frozen=True, kw_only=True):
    snapshot: tuple[Snapshot, ...] = ()


def snapshots_path() -> Path:
    """Return the path of the pinned times."""
    return share_dir() / "native" / "snapshots.toml"


def read_snapshots(path: Path | None = None) -> tuple[Snapshot, ...]:
    """Return the pinned times, the newest first; none if ``$SWAPSTONE_SNAPSHOT`` is ``none``.

    Raises:
        UserError: the file can't be read.
    """
    if os.environ.get(VARIABLE) == NONE:
        return ()
    return read_toml(path or snapshots_path(), _Snapshots, "Write it again: swapstone image lock").snapshot


def archives_of(sources: Iterable[str]) -> tuple[str, ...]:
    """Return those of the system's archives that the service has.

    Args:
        sources: address, suite and component, each separated by a blank.
    """
    found = (_ARCHIVE.fullmatch(line) for line in sources)
    return tuple(sorted({f"{match['archive']} {match['suite']} {match['component']}" for match in found if match}))


def pin_snapshot(archives: Iterable[str], now_unix_s: float | None = None, path: Path | None = None) -> None:
    """Add the present time to the pinned ones; a lock that is written now has what the archives have now.

    Args:
        archives: see `Snapshot`; without one nothing is written. Those of the newest pinned time are kept.
        now_unix_s: the present time by default.
        path: of the file; by default the one that Swapstone ships.

    Raises:
        UserError: the file can't be read or written.
    """
    path = path or snapshots_path()
    if not (wanted := set(archives)):
        return
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_unix_s))
    text = path.read_text("utf-8") if path.is_file() else ""
    earlier = msgspec.convert(decode_toml(text.encode()), _Snapshots).snapshot
    first = Snapshot(time=now, archives=tuple(sorted(wanted.union(*(one.archives for one in earlier[:1])))))
    lines = [text.partition("\n[[")[0].rstrip("\n")]
    for one in (first, *earlier)[:_MOST]:
        listed = "".join(f'    "{archive}",\n' for archive in one.archives)
        lines.append(f'\n[[snapshot]]\ntime = "{one.time}"\narchives = [\n{listed}]')
    try:
        path.write_text("\n".join([*lines, ""]), "utf-8")
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.") from error
