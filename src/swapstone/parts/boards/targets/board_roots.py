# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which root file system a board runs on: what distinguishes it, read by ssh, and the level that this shows. See docs/boards.md."""

from __future__ import annotations

import hashlib
import itertools
import re
from pathlib import Path

from swapstone.core.artifacts.cache_folder import sha256_of
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.parts.boards.targets.board_answer import BoardAnswer

MOST_ROOT_BYTES = 64 << 30
"""Of an image that a strategy deploys."""

_LIBRARIES = (
    *("/lib/libc.so.[0-9]*", "/lib64/libc.so.[0-9]*", "/lib/*/libc.so.[0-9]*"),
    *("/usr/lib/libc.so.[0-9]*", "/usr/lib64/libc.so.[0-9]*", "/usr/lib/*/libc.so.[0-9]*", "/lib/ld-musl-*.so.1"),
)
_OTHERS = (
    *("/sbin/init", "/bin/sh", "/bin/busybox", "/usr/bin/busybox"),
    *("/var/lib/dpkg/status", "/lib/apk/db/installed", "/usr/lib/opkg/status", "/var/lib/opkg/status"),
)
_SYSTEM = "/etc/os-release"

ROOT_STEP = f"""show {_SYSTEM}
part root-mounts
while read -r source point type rest; do
    [ "$point" = / ] && printf '%s %s\\n' "$source" "$type"
done </proc/mounts
part root-files
for each in {" ".join((*_LIBRARIES, *_OTHERS))}; do
    [ -f "$each" ] && [ -r "$each" ] || continue
    if sum=$(sha256sum "$each" 2>/dev/null) || sum=$(cksum "$each" 2>/dev/null); then
        printf '%s %s\\n' "${{sum%% *}}" "$each"
    fi
done
:"""
"""Step of `swapstone.parts.boards.targets.board_scripts.step_script` that describes the board's root."""

_MOST_BYTES = 64 << 10  # of each part that is compared
_MOST_LINES = 64
_MOUNT = re.compile(r"[!-~]{1,200} [A-Za-z0-9_.-]{1,40}", re.ASCII)
_FILE = re.compile(r"(?P<digest>[0-9a-f]{64}|[0-9]{1,10}) (?P<path>/[A-Za-z0-9_.+/-]{1,200})", re.ASCII)
_NAMES = re.compile(r'^(?:PRETTY_NAME|NAME)=["\']?([^"\'\n]{1,100})', re.MULTILINE)


class RootIdentity(FrozenStruct, frozen=True, kw_only=True):
    """What distinguishes a root file system.

    Attributes:
        sha256: of all that was read; empty if that was too little to distinguish two roots.
        shown: its name, C library and mount, in one line that steers no terminal.
    """

    sha256: str
    shown: str


def root_identity_of(answer: BoardAnswer) -> RootIdentity:
    """Read a board's answer to `ROOT_STEP`. Lines of another form are ignored: the board may be hostile.

    Args:
        answer: decoded.
    """
    system = answer.files.get(_SYSTEM, b"")[:_MOST_BYTES]
    mounts = [line for line in _lines(answer, "root-mounts") if _MOUNT.fullmatch(line)][
        -1:
    ]  # the last one covers the others
    files = [found for line in _lines(answer, "root-files") if (found := _FILE.fullmatch(line))]
    name = _NAMES.search(system.decode(errors="replace"))
    libraries = [found for found in files if "libc.so" in found["path"] or "ld-musl" in found["path"]]
    shown = (
        safe_excerpt(name[1], 60) if name else f"no {_SYSTEM}",
        f"{libraries[0]['path']} {libraries[0]['digest'][:12]}" if libraries else "no C library",
        f"{mounts[0].split(' ')[1]} from {mounts[0].split(' ')[0]}" if mounts else "an unknown mount",
    )
    pairs = sorted({(found["path"], found["digest"]) for found in files})
    content = repr((hashlib.sha256(system).hexdigest(), mounts, pairs))
    known = bool(system or files)
    return RootIdentity(
        sha256=hashlib.sha256(content.encode()).hexdigest() if known else "", shown=safe_excerpt(", ".join(shown), 300)
    )


def _lines(answer: BoardAnswer, part: str) -> list[str]:
    return answer.parts.get(part, b"")[:_MOST_BYTES].decode("ascii", errors="replace").splitlines()[:_MOST_LINES]


class RootLevels:
    """The roots that were seen, by the level that the strategy had deployed when each was seen first.

    An image may have any format, so its content is not read here. A level is in force if the board shows what it showed after the first
    boot with this level's image, which no other level's image has shown.
    """

    def __init__(self) -> None:
        self._seen: dict[str, RootIdentity] = {}

    def learn(self, level: str, found: RootIdentity) -> None:
        """Keep what the board shows after a boot with a level's image, if it is the first one.

        Raises:
            UserError: it shows too little, or what it showed with another level's image.
        """
        if level in self._seen:
            return
        if not found.sha256:
            raise UserError(
                f"The root file system {safe(level)} shows neither {_SYSTEM} nor a C library: no other one can be told apart from it.",
                f"Add the file {_SYSTEM} to it, with another BUILD_ID= in each root (os-release(5)).",
            )
        same = next((other for other, seen in self._seen.items() if seen.sha256 == found.sha256), None)
        if same is not None:
            raise UserError(
                f"The board shows the same root file system with {safe(same)} and with {safe(level)}: {found.shown}.",
                f"If they are different ones, give each another BUILD_ID= in {_SYSTEM} (os-release(5)). If they are not, the strategy does "
                "not deploy the image rootfs of its environment: see `swapstone docs boards`.",
            )
        self._seen[level] = found

    def level_of(self, found: RootIdentity) -> str:
        """Return the level whose root a board runs on; a description if it is of none."""
        if found.sha256:
            for level, seen in self._seen.items():
                if seen.sha256 == found.sha256:
                    return level
        return f"another root: {found.shown}"


def root_file_digest(path: str) -> str:
    """Return the SHA-256 of an image that a strategy deploys.

    Raises:
        UserError: it is no regular file, is too large, or can't be read.
    """
    file = Path(path)
    with readable(f"The root file system {safe(path)}"):
        if not file.is_file() or file.stat().st_size > MOST_ROOT_BYTES:
            raise UserError(
                f"The root file system {safe(path)} is no regular file of at most {MOST_ROOT_BYTES >> 30} GiB.",
                "Name the file that the strategy deploys, such as rootfs.ext4 or rootfs.cpio.",
            )
        return sha256_of(file)


def require_different_roots(digests: dict[str, str]) -> None:
    """Check that no two levels are the same file.

    Args:
        digests: of the files, by level.

    Raises:
        UserError: two are equal.
    """
    for first, second in itertools.combinations(digests, 2):
        if digests[first] == digests[second]:
            raise UserError(
                f"The root file systems {safe(first)} and {safe(second)} have the same content: there is nothing to compare.",
                "To learn how often a root differs from itself by chance, add --null instead.",
            )
