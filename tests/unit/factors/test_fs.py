# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor fs: the level in force by mounts and superblock, and images that are equal to the byte."""

from __future__ import annotations

import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import swapstone
from swapstone.core.artifacts.distribution_packages import packages_of
from swapstone.core.factors import Evidence, Recipe, find_level, parse_choice
from swapstone.core.factors.factor import reboots
from swapstone.core.factors.mounts import MOUNTS
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.cpio import Entry, file, folder, link
from swapstone.parts.fs.fs_factor import COMPRESSIONS, FS, STARTS, UUIDS, RootImage
from swapstone.parts.fs.fs_images import IMAGE, RootTree, make_image, tool_version
from tests.programs import require

ROOT = "25 1 0:2 / / rw - rootfs rootfs rw\n"
MOUNTED = "31 25 252:0 / /mnt ro,relatime - {} /dev/fs-root ro\n"


def seen(kind: str, image: bytes, mounts: str | None = None) -> str | None:
    """Return what is observed of an image that is mounted as a type."""
    blocks = tuple((name, image[at : at + 128].hex()) for name, at in STARTS.items())
    text = ROOT + MOUNTED.format(kind) if mounts is None else mounts
    return FS.observe(Evidence(interp=None, objects=(), observed=((MOUNTS, text),), seen=blocks))


def squashfs(number: int) -> bytes:
    return struct.pack("<4s16xH", b"hsqs", number).ljust(2048, b"\0")


def ext4(magic: int = 0xEF53) -> bytes:
    return (bytes(1024 + 56) + struct.pack("<H", magic)).ljust(2048, b"\0")


def erofs(level: str, features: int, algorithms: int = 0) -> bytes:
    uuid = bytes.fromhex(UUIDS[level].replace("-", ""))
    return (bytes(1024) + struct.pack("<I44x16s16xIH", 0xE0F5E1E2, uuid, features, algorithms)).ljust(2048, b"\0")


def test_squashfs_is_identified_by_the_compression_in_its_superblock() -> None:
    assert seen("squashfs", squashfs(6)) == "squashfs:zstd"
    assert seen("squashfs", squashfs(4)) == "squashfs:xz"
    assert seen("squashfs", squashfs(99)) == "squashfs:99"


def test_erofs_is_identified_by_its_features_and_its_uuid() -> None:
    assert seen("erofs", erofs("erofs", 0)) == "erofs"
    assert seen("erofs", erofs("erofs:lz4", 1, 0xFFFF)) == "erofs:lz4"
    assert seen("erofs", erofs("erofs:lz4hc", 3, 1)) == "erofs:lz4hc"
    for other in (erofs("erofs", 1), erofs("erofs:lz4", 0), erofs("erofs:lz4hc", 3, 2)):
        assert str(seen("erofs", other)).startswith("erofs with the features ")


def test_ext4_and_what_fits_no_type() -> None:
    assert seen("ext4", ext4()) == "ext4"
    assert seen("ext4", ext4(0)) == "ext4 with another superblock"
    assert seen("squashfs", ext4()) == "squashfs with another superblock"
    assert seen("tmpfs", ext4()) == "tmpfs"


def test_the_last_mount_counts_and_none_is_named() -> None:
    both = ROOT + MOUNTED.format("ext4") + MOUNTED.format("squashfs")
    assert seen("", squashfs(6), both) == "squashfs:zstd"
    assert seen("", squashfs(6), ROOT) == "nothing at /mnt"


def test_evidence_that_is_missing_or_damaged_shows_no_level() -> None:
    assert FS.observe(Evidence(interp=None, objects=())) is None
    mounts = ((MOUNTS, ROOT + MOUNTED.format("squashfs")),)
    for text in ("", "6", "zz", "68737173"):
        blocks = tuple((name, text) for name in STARTS)
        assert FS.observe(Evidence(interp=None, objects=(), observed=mounts, seen=blocks)) is None
    assert FS.observe(Evidence(interp=None, objects=(), observed=mounts)) is None


def test_a_level_changes_the_recipe_and_nothing_else() -> None:
    assert FS.apply("erofs:lz4hc", Recipe()) == Recipe(pieces=(RootImage(level="erofs:lz4hc"),))
    assert packages_of(find_level(FS, "squashfs:xz").needs) == "squashfs-tools"
    assert not reboots(FS)


@pytest.mark.parametrize(
    "settings",
    [
        (swapstone.Program(commands=["/bin/sh -c :"]),),
        (swapstone.Workloads(suites=["libc"]),),
    ],
)
def test_work_that_mounts_no_image_is_refused_before_anything_is_built(
    settings: tuple[Any, ...], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="The factor fs is for the suite fs") as caught:
        swapstone.compare(*settings, fs=["erofs", "ext4"], out=tmp_path / "r")
    assert caught.value.hint.endswith("swapstone compare fs=erofs,ext4")
    assert not (tmp_path / "r").exists()


def test_other_compressions_are_levels_and_unknown_ones_are_named() -> None:
    assert parse_choice("fs=ext4,squashfs:lzo,erofs,erofs:lz4").levels == ("ext4", "squashfs:lzo", "erofs", "erofs:lz4")
    assert find_level(FS, "squashfs:lzo").needs == ("mksquashfs",)
    for text, known in (("squashfs:zst", "squashfs:zstd"), ("squashfs", "squashfs:xz"), ("erofs:zstd", "erofs:lz4hc")):
        with pytest.raises(UserError) as caught:
            parse_choice(f"fs={text},ext4")
        assert caught.value.message == f"'{text}' is no compression of {text.partition(':')[0]}."
        assert known in caught.value.hint
    with pytest.raises(UserError, match="There is no level named 'btrfs'"):
        parse_choice("fs=btrfs,ext4")


def small_tree(names: tuple[str, ...] = ("b", "a/x", "a")) -> RootTree:
    content = b"".join(b"line %d\n" % number for number in range(4000))
    entries: dict[str, Entry] = {"a": folder(), "a/x": file(content, executable=True), "b": link("a/x")}
    return RootTree({name: entries[name] for name in names})


def test_the_content_of_a_tree_is_counted_in_the_order_of_its_paths() -> None:
    tree = RootTree({"a-": file(b"2"), "a": folder(), "a/z": file(b"1"), "c": link("a/z")})
    assert tree.content == ("2", "2", str(zlib.adler32(b"12")))


@pytest.mark.parametrize("level", [*(f"squashfs:{name}" for name in COMPRESSIONS.values()), *UUIDS, "ext4"])
def test_images_of_equal_trees_are_equal_and_of_their_level(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a tree that is written at another time, in another order, with another umask."""
    require({"squashfs": "mksquashfs", "erofs": "mkfs.erofs"}.get(level.partition(":")[0], "cc"))
    images = []
    for number, names in enumerate((("a", "a/x", "b"), ("b", "a", "a/x"))):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
        before = os.umask(0o077 if number else 0o022)
        try:
            made = make_image(level, small_tree(names))
        finally:
            os.umask(before)
        images.append(made.path.read_bytes())
        assert make_image(level, small_tree(names)) == made
    assert images[0] == images[1]
    assert seen(level.partition(":")[0], images[0]) == level
    assert str(tmp_path) not in made.command and made.path.name == IMAGE
    assert made.command.endswith(f" ({tool_version(level)})")
    assert stat.S_ISREG(made.path.stat().st_mode)


def test_a_compression_that_the_tool_lacks_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "mksquashfs"
    tool.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && exit\necho \'FATAL ERROR: Compressor "zstd" is not supported!\' >&2\nexit 1\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(UnavailableError) as caught:
        make_image("squashfs:zstd", small_tree())
    assert caught.value.message == (
        'mksquashfs can\'t make an image of squashfs:zstd: FATAL ERROR: Compressor "zstd" is not supported!'
    )
    assert not list((tmp_path / "cache" / "swapstone" / "root-images").glob(f"*/{IMAGE}"))


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"needs the command 'mkfs\.erofs', which is not installed") as caught:
        make_image("erofs", small_tree())
    assert "erofs-utils" in caught.value.hint
