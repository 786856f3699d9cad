# SPDX-License-Identifier: MIT OR Apache-2.0
"""Archives for pinned files that those of the system lack: the releases of the locks at Debian's mirrors, and Debian's snapshot service.

``native/snapshots.toml`` pins the times at which the locks were written, and the releases that had the files then. The files are
authenticated by the digests of the locks, so neither keys nor dates of these lists are checked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.directories import share_dir
from swapstone.core.model.regular_file import decode_toml, read_toml

VARIABLE = "SWAPSTONE_SNAPSHOT"
"""Address of the service, for a mirror of it; ``none`` to use none."""

NONE = "none"
SERVICE = "http://snapshot.debian.org/archive"
_MIRROR = "http://deb.debian.org/"
"""For a system without a mirror of Debian, such as Ubuntu."""

_MOST = 4
"""Times that are kept when the locks are written again."""

_ARCHIVE = re.compile(r"(?P<address>\S+/(?P<archive>debian|debian-security)/?) (?P<suite>\S+) (?P<component>\S+)")
NO_NETWORK = re.compile(
    "Could not resolve|Temporary failure resolving|Network is unreachable|Could not connect to server"
)
"""What apt-get and cargo print without a network."""

_Result = TypeVar("_Result")


class Archives(FrozenStruct, frozen=True, kw_only=True):
    """Archives beside those of the system.

    Attributes:
        name: of the folder for their lists.
        title: for messages.
        lines: address, suite and component, each separated by a blank.
    """

    name: str
    title: str
    lines: tuple[str, ...]

    def sources(self, kind: str, suite: str = "") -> str:
        """Return lines for apt's ``sources.list``.

        Args:
            kind: ``deb`` or ``deb-src``.
            suite: the only release; all by default.
        """
        options = "[trusted=yes check-valid-until=no]"
        kept = (line for line in self.lines if not suite or line.split(" ")[1] == suite)
        return "".join(f"{kind} {options} {line}\n" for line in kept)


class Snapshot(FrozenStruct, frozen=True, kw_only=True):
    """The state of some archives at a time.

    Attributes:
        time: in UTC, as the service writes it: ``20261122T173733Z``.
        archives: archive, suite and component, each separated by a blank.
    """

    time: str
    archives: tuple[str, ...]


class _Snapshots(msgspec.Struct, frozen=True, kw_only=True):
    snapshot: tuple[Snapshot, ...] = ()


def snapshots_path() -> Path:
    """Return the path of the pinned times."""
    return share_dir() / "native" / "snapshots.toml"


def read_snapshots(path: Path | None = None) -> tuple[Snapshot, ...]:
    """Return the pinned times, the newest first.

    Raises:
        UserError: the file can't be read.
    """
    return read_toml(path or snapshots_path(), _Snapshots, "Write it again: swapstone image lock").snapshot


def system_archives() -> tuple[str, ...]:
    """Return address, release and the component ``main`` of each archive in the system's sources lists, separated by blanks."""
    if shutil.which("apt-get") is None:
        return ()
    command = ["apt-get", "update", "--print-uris"]  # needs no fetched lists
    listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^'(\S+/)dists/(\S+)/InRelease'", listed, re.MULTILINE)
    return tuple(f"{address} {release} main" for address, release in found)


def other_archives(system: Iterable[str]) -> tuple[Archives, ...]:
    """Return the archives to search for a pinned file that those of the system lack, in order.

    Args:
        system: as `system_archives` returns it.
    """
    path = snapshots_path()
    pinned = read_snapshots(path)
    own = [match for line in system if (match := _ARCHIVE.fullmatch(line))]
    usual = () if os.environ.get(VARIABLE) else ("debian", "debian-security")
    mirrors = {name: f"{_MIRROR}{name}/" for name in usual} | {match["archive"]: match["address"] for match in own}
    releases = dict.fromkeys(archive for each in pinned for archive in each.archives)
    present = {f"{match['archive']} {match['suite']} {match['component']}" for match in own}
    at_mirrors = tuple(
        f"{mirrors[archive]} {rest}"
        for archive, _, rest in (line.partition(" ") for line in releases if line not in present)
        if archive in mirrors
    )
    service = os.environ.get(VARIABLE) or SERVICE
    snapshots = tuple(
        Archives(
            name=each.time,
            title=f"the snapshot of {each.time}",
            lines=tuple(
                f"{service}/{archive}/{each.time}/ {rest}"
                for archive, _, rest in (line.partition(" ") for line in each.archives)
            ),
        )
        for each in (() if service == NONE else pinned)
    )
    releases_there = Archives(name="releases", title="the releases of the locks at Debian's mirrors", lines=at_mirrors)
    return (*((releases_there,) if at_mirrors else ()), *snapshots)


def from_other_archives(gone: UserError, act: Callable[[Archives], _Result]) -> _Result:
    """Return what the first of `other_archives` gives that has it.

    Args:
        gone: why the system's archives gave nothing; raised, with what the others reported, if none of them does.
        act: raises `UserError` if it finds nothing. A host without an address is tried once.
    """
    for archives in other_archives(system_archives()):
        try:
            return act(archives)
        except UserError as error:
            gone.message += f" {archives.title[0].upper()}{archives.title[1:]} failed: {error.message}"
            if archives.name != "releases" and NO_NETWORK.search(error.message):
                break
    raise gone


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
