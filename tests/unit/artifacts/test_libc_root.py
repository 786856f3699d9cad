# SPDX-License-Identifier: MIT OR Apache-2.0
"""The root of an image of one C library: which installed files it has, where links point, and its archive."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from swapstone.core.model import cpio
from swapstone.parts.vm.artifacts.image_assembly import Overlay
from swapstone.parts.vm.artifacts.libc_files import init_entries, program_entries, root_archive


def _installed(root: Path) -> Path:
    for name in ("bin/busybox", "usr/bin/tool", "lib/libz.so.1.2", "lib/libz.a", "include/zlib.h", "usr/share/man/x.1"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "bin" / "busybox").chmod(0o755)
    for name, target in (
        ("bin/ls", "busybox"),
        ("usr/bin/awk", "../../bin/busybox"),
        ("sbin/init", "../bin/busybox"),
        ("lib/libz.so.1", "libz.so.1.2"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    return root


def test_an_image_has_what_runs_and_links_in_a_root_without_usr(tmp_path: Path) -> None:
    found = program_entries(_installed(tmp_path))
    assert {path: entry.content for path, entry in found.items()} == {
        "bin/busybox": b"bin/busybox",
        "bin/tool": b"usr/bin/tool",
        "bin/ls": b"busybox",
        "bin/awk": b"busybox",
        "sbin/init": b"../bin/busybox",
        "lib/libz.so.1": b"libz.so.1.2",
        "lib/libz.so.1.2": b"lib/libz.so.1.2",
    }
    assert found["bin/busybox"].mode & 0o111 and not found["bin/tool"].mode & 0o111


def test_the_archive_of_a_root_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    overlays = [Overlay(part="x", entries=program_entries(_installed(tmp_path)) | init_entries())]
    overlays[0].entries["dev/tty"] = cpio.device(5, 0)
    archive = root_archive(overlays)
    assert archive == root_archive(overlays)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        members = {member.name: member for member in opened}
    assert all((member.mtime, member.uid, member.uname) == (0, 0, "") for member in members.values())
    assert members["bin/ls"].linkname == "busybox" and members["init"].mode == 0o755
    assert members["srv/www"].isdir() and members["dev"].isdir()
    assert not any(member.isdev() for member in members.values()), "a level of the factor rootfs has no devices"
