# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a board reports of its root file system: two roots differ if one thing that was read does, and the rest is ignored."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swapstone.core.model import UserError
from swapstone.parts.boards.targets.board import BoardAnswer
from swapstone.parts.boards.targets.labgrid_target import RootIdentity, RootLevels, root_identity_of

SYSTEM = "/etc/os-release"
RELEASE = b'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
MOUNTS = b"rootfs rootfs\n/dev/mmcblk0p2 ext4\n"
FILES = b"a" * 64 + b" /lib/libc.so.6\n1234567 /sbin/init\n"


def identity(
    system: bytes = RELEASE, mounts: bytes = MOUNTS, files: bytes = FILES, more: Mapping[str, bytes] | None = None
) -> RootIdentity:
    parts = {"root-mounts": mounts, "root-files": files, **(more or {})}
    return root_identity_of(BoardAnswer(parts, {SYSTEM: system} if system else {}))


def test_a_root_is_named_by_its_system_c_library_and_mount() -> None:
    assert identity().shown == "Debian GNU/Linux 12 (bookworm), /lib/libc.so.6 aaaaaaaaaaaa, ext4 from /dev/mmcblk0p2"
    assert identity() == identity(more={"folder": b"/x"})
    assert identity(b"", b"", b"") == RootIdentity(
        sha256="", shown="no /etc/os-release, no C library, an unknown mount"
    )


@pytest.mark.parametrize(
    "other",
    [
        identity(system=RELEASE + b"BUILD_ID=2\n"),
        identity(mounts=b"/dev/mmcblk0p3 ext4\n"),
        identity(mounts=b"/dev/mmcblk0p2 squashfs\n"),
        identity(files=FILES.replace(b"a", b"b")),
        identity(files=FILES.replace(b"1234567", b"7654321")),
        identity(files=FILES + b"1 /bin/sh\n"),
    ],
)
def test_one_difference_makes_another_root(other: RootIdentity) -> None:
    assert other.sha256 != identity().sha256
    levels = RootLevels()
    levels.learn("one", identity())
    levels.learn("other", other)
    assert (levels.level_of(identity()), levels.level_of(other)) == ("one", "other")


def test_the_order_of_files_and_repetitions_make_no_difference() -> None:
    one, two = FILES.splitlines(keepends=True)
    assert identity(files=two + one + one).sha256 == identity().sha256


@pytest.mark.parametrize(
    "files",
    [
        b"\x1b[31m" * 1000,
        b"x" * (1 << 20),
        b"g" * 64 + b" /lib/libc.so.6\n",
        b"1 /lib/a b\n",
        b"1 lib\n",
        "1 /lib/\u00e9\n".encode(),
        b"12345678901 /sbin/init\n",
    ],
)
def test_lines_of_another_form_are_ignored(files: bytes) -> None:
    assert identity(files=files).sha256 == identity(files=b"").sha256
    assert identity(b"", b"", files).sha256 == ""


def test_a_hostile_board_prints_nothing_that_steers_a_terminal() -> None:
    found = identity(system=b"PRETTY_NAME=\x1b]0;x\x07" + b"y" * 5000, mounts=b"\x1b[31m ext4\n")
    assert found.shown.isprintable() and len(found.shown) < 400
    assert "an unknown mount" in found.shown
    assert len(identity(files=b"1 /bin/sh\n" * 100_000).shown) < 400


def test_a_level_stays_what_it_was_first() -> None:
    levels = RootLevels()
    levels.learn("one", identity())
    levels.learn("one", identity(system=b"other"))
    assert levels.level_of(identity()) == "one"
    assert levels.level_of(identity(system=b"other")).startswith("another root: no /etc/os-release, /lib/libc.so.6")
    assert levels.level_of(identity(b"", b"", b"")).startswith("another root: ")
    with pytest.raises(UserError, match="shows the same root file system with one and with two"):
        levels.learn("two", identity())
    with pytest.raises(UserError, match="shows neither"):
        levels.learn("two", identity(b"", b"", b""))
