# SPDX-License-Identifier: MIT OR Apache-2.0
"""Untrusted root file systems: what is unpacked, what is left out, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.root_archives import docker_image, oci_image, sha256, tar

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts import root_archives, root_file_systems
from swapstone.parts.vm.artifacts.root_file_systems import RootFileSystem, sizes_of_root, unpack_root
from tests.programs import require

SMALL = (("etc", "folder", ""), ("etc/name", "file", "small"), ("bin/sh", "file", "program"), ("sh", "link", "bin/sh"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache/swapstone"


def unpack(tmp_path: Path, data: bytes, name: str = "root.tar") -> RootFileSystem:
    (tmp_path / name).write_bytes(data)
    return unpack_root(str(tmp_path / name), "x86_64")


def files_of(folder: Path) -> dict[str, str]:
    """Return the files of a folder: the content of a file, ``-> target`` of a link, ``/`` of a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = (
            f"-> {path.readlink()}" if path.is_symlink() else "/" if path.is_dir() else path.read_text(errors="replace")
        )
    return found


def unpacked(tmp_path: Path, data: bytes) -> dict[str, str]:
    return files_of(Path(unpack(tmp_path, data).folder))


def refused(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        unpack(tmp_path, data)
    assert not any((tmp_path / "cache/swapstone/roots").glob(".unpacking-*"))
    return caught.value.message


def compress_zstd(data: bytes) -> bytes:
    require("zstd")
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


def test_equal_content_has_one_digest_in_each_form(tmp_path: Path, cache: Path) -> None:
    plain = tar(*SMALL, modes={"bin/sh": 0o755})
    (tmp_path / "folder/bin").mkdir(parents=True)
    (tmp_path / "folder/etc").mkdir()
    (tmp_path / "folder/etc/name").write_text("small")
    (tmp_path / "folder/bin/sh").write_text("program")
    (tmp_path / "folder/bin/sh").chmod(0o700)
    (tmp_path / "folder/sh").symlink_to("bin/sh")
    forms = [
        unpack(tmp_path, plain, "plain.tar"),
        unpack(tmp_path, gzip.compress(plain), "root.tar.gz"),
        unpack(tmp_path, gzip.compress(plain[:700]) + gzip.compress(plain[700:]), "two-members.tar.gz"),
        unpack(tmp_path, lzma.compress(plain), "root.tar.xz"),
        unpack(tmp_path, bz2.compress(plain), "root.tar.bz2"),
        unpack(tmp_path, oci_image([plain]), "oci.tar"),
        unpack(tmp_path, gzip.compress(docker_image([plain])), "docker.tar.gz"),
        unpack_root(str(tmp_path / "folder")),
    ]
    assert len({root.sha256 for root in forms}) == 1
    assert len({root.folder for root in forms}) == 1
    assert files_of(Path(forms[0].folder)) == {
        "bin": "/",
        "bin/sh": "program",
        "etc": "/",
        "etc/name": "small",
        "sh": "-> bin/sh",
    }
    assert stat.S_IMODE((Path(forms[0].folder) / "bin/sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((Path(forms[0].folder) / "etc/name").stat().st_mode) == 0o644
    assert sorted(path.name for path in (cache / "roots").iterdir()) == sorted([forms[0].sha256, "lock"])


def test_zstd_is_read_by_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress_zstd(tar(*SMALL))
    assert unpacked(tmp_path, packed)["etc/name"] == "small"
    assert "can't be decompressed by zstd" in refused(tmp_path, packed[:-20])
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "other.tar").write_bytes(packed + packed)  # what is in the cache is not unpacked again
    with pytest.raises(UserError, match="needs the command 'zstd', which is not installed") as caught:
        unpack_root(str(tmp_path / "other.tar"))
    assert "apt-get install zstd" in caught.value.hint


def test_an_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = unpack(tmp_path, tar(*SMALL))
    monkeypatch.setattr(root_file_systems, "read_tree", None)
    assert unpack(tmp_path, tar(*SMALL), "same.tar").folder == first.folder


def test_a_root_that_was_removed_from_the_cache_is_unpacked_again(tmp_path: Path) -> None:
    first = unpack(tmp_path, tar(*SMALL))
    shutil.rmtree(Path(first.folder).parent)
    assert "etc/name" in unpacked(tmp_path, tar(*SMALL))


def test_devices_are_left_out_and_privileged_bits_are_removed(tmp_path: Path) -> None:
    data = tar(
        ("bin/su", "file", "x"),
        ("dev/sda", "block", ""),
        ("dev/tty", "char", ""),
        ("run/pipe", "fifo", ""),
        ("tmp", "folder", ""),
        modes={"bin/su": 0o6755, "tmp": 0o1777},
    )
    root = unpack(tmp_path, data)
    assert set(files_of(Path(root.folder))) == {"bin", "bin/su", "tmp"}
    assert (Path(root.folder) / "bin/su").stat().st_mode == stat.S_IFREG | 0o755
    assert (Path(root.folder) / "tmp").stat().st_mode == stat.S_IFDIR | 0o1777


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([("../evil", "file", "x")], "leads out of it"),
        ([("a/../../evil", "file", "x")], "leads out of it"),
        ([("a/..", "folder", "")], "leads out of it"),
        ([("a", "file", "x"), ("a/b", "file", "x")], "below a file"),
        ([("b", "hard", "../../etc/passwd")], "leads out of it"),
        ([("b", "hard", "/etc/passwd")], "which is no file in it"),
        ([("d", "folder", ""), ("b", "hard", "d")], "which is no file in it"),
        ([("a", "link", "b"), ("b", "link", "a"), ("a/x", "file", "x")], "links that lead to each other"),
        ([("/".join("d" * 101), "file", "x")], "too long or too deep"),
        ([("n" * 256, "file", "x")], "a name of more than 255 bytes"),
        ([("a", "file", "x"), ("dev", "link", "/etc")], "has a link at /dev, where a folder must be"),
        ([("a", "file", "x"), ("proc", "file", "y")], "has a file at /proc, where a folder must be"),
        ([("a", "folder", "")], "has no files"),
        ([(".", "file", "x")], "a file in place of its root folder"),
    ],
)
def test_an_entry_that_can_do_harm_is_refused(tmp_path: Path, entries: list[tuple[str, str, str]], reason: str) -> None:
    assert reason in refused(tmp_path, tar(*entries))


def test_no_file_is_written_through_a_link(tmp_path: Path) -> None:
    """A link's target is looked up in the root, as after chroot(2), and files go where it leads there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    data = tar(
        ("out", "link", str(outside)),
        ("out/file", "file", "x"),
        ("up", "link", "../../../../../.."),
        ("up/y", "file", "y"),
        ("usr/lib", "folder", ""),
        ("lib", "link", "usr/lib"),
        ("lib/z", "file", "z"),
        ("lib", "folder", ""),
    )
    found = unpacked(tmp_path, data)
    assert list(outside.iterdir()) == []
    assert found[f"{str(outside).lstrip('/')}/file"] == "x"
    assert found["y"] == "y"
    assert (found["lib"], found["usr/lib/z"]) == ("-> usr/lib", "z")


def test_the_last_of_several_entries_of_a_path_counts(tmp_path: Path) -> None:
    data = tar(
        ("a", "file", "1"),
        ("b", "hard", "a"),
        ("a", "file", "2"),
        ("d/x", "file", "x"),
        ("d", "link", "a"),
        ("./e//f", "file", "e"),
        ("/g", "file", "g"),
    )
    assert unpacked(tmp_path, data) == {"a": "2", "b": "1", "d": "-> a", "e": "/", "e/f": "e", "g": "g"}


def test_hard_links_share_their_content(tmp_path: Path) -> None:
    root = unpack(tmp_path, tar(("a", "file", "12345"), ("b", "hard", "a"), ("c", "hard", "b")))
    assert (Path(root.folder) / "a").stat().st_nlink == 3
    assert root.memory_bytes == 3 * (4096 + 1024)  # in a machine each name has its own pages
    assert (Path(root.folder) / "c").read_text() == "12345"


def test_the_sizes_of_a_root_are_those_of_its_content(tmp_path: Path) -> None:
    """Each file counts once in bytes, those of a lower layer that were replaced do not, and the paths alone give the order."""
    below, large = tar(("a", "file", "gone"), ("x", "file", "gone")), bytes(300_000)
    above = tar(("a", "file", "12345"), ("z", "hard", "a"), ("d/large", "file", large), (".wh.x", "file", ""))
    found = dict(sizes_of_root(unpack(tmp_path, oci_image([below, above]))))
    compressed = zlib.compressobj(wbits=31)
    whole = compressed.compress(b"12345" + large) + compressed.flush()
    assert found == {"root_size": 300_005, "root_gzip": len(whole), "root_files": 4}
    other = tar(("d/large", "file", large), ("z", "file", "12345"), ("a", "hard", "z"))
    assert dict(sizes_of_root(unpack(tmp_path, other, "other.tar"))) == found


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"not a tar archive" * 100, "is no tar archive, or is damaged"),
        (tar(*SMALL)[:600], "is truncated"),
        (gzip.compress(tar(*SMALL))[:-30], "can't be decompressed by gzip: it is damaged, truncated"),
        (b"\x1f\x8b" + b"\0" * 50, "can't be decompressed"),
        (b"\xfd7zXZ\0" + b"\0" * 50, "can't be decompressed by xz"),
        (b"BZh91AY", "can't be decompressed by bzip2"),
        (gzip.compress(tar(*SMALL)) + b"more", "can't be decompressed by gzip"),
        (bytes(1024), "has no files"),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    assert reason in refused(tmp_path, data)


def header(name: bytes, kind: bytes, size: bytes) -> bytes:
    """Return a header of an archive with a valid sum."""
    block = bytearray(512)
    block[: len(name)], block[156:157], block[124 : 124 + len(size)] = name, kind, size
    block[257:263] = b"ustar\0"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header(b"x", b"x", b"77777777777"), "has a header of 8589934591 bytes"),
        (header(b"x", b"L", b"00007777777"), "has a header of 2097151 bytes"),
        (header(b"x", b"0", b"\xff" * 12), "a number in a header is invalid"),
        (header(b"x", b"0", b"\x80" + b"\x7f" * 11), "a number in a header is invalid"),
        (header(b"x", b"0", b"12z"), "is no tar archive, or is damaged"),
        (header(b"x", b"0", b"00000077777"), "is truncated"),
        (header(b"x", b"S", b"0"), "has a sparse file"),
        (header(b"x", b"V", b"0"), "an entry of the unknown type b'V'"),
        (header(b"x", b"x", b"5") + b"9 a=b".ljust(512, b"\0"), "is no tar archive, or is damaged"),
        (header(b"x", b"x", b"5") + b"5 ab\n".ljust(512, b"\0"), "is no tar archive, or is damaged"),
        (b"".join(header(b"x", b"x", b"0") for _ in range(2000)), "is no tar archive, or is damaged"),
        (
            header(b"x", b"x", b"14") + b"12 size=-1a\n".ljust(512, b"\0") + header(b"f", b"0", b"1"),
            "a size in an extended",
        ),
        (
            header(b"x", b"x", b"26") + b"22 GNU.sparse.major=1\n".ljust(512, b"\0") + header(b"f", b"0", b"1"),
            "sparse",
        ),
    ],
)
def test_what_a_header_claims_has_limits(tmp_path: Path, data: bytes, reason: str) -> None:
    assert reason in refused(tmp_path, data + bytes(1024))


def test_long_names_and_large_numbers_of_gnu_tar_are_read(tmp_path: Path) -> None:
    name = "/".join(["directory" * 5] * 5)
    output = tmp_path / "gnu.tar"
    with tarfile.open(output, "w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo(name)
        info.mtime = 1 << 40
        archive.addfile(info)
        info = tarfile.TarInfo("l")
        info.type, info.linkname = tarfile.SYMTYPE, name
        archive.addfile(info)
    found = files_of(Path(unpack_root(str(output)).folder))
    assert found[name] == ""
    assert found["l"] == f"-> {name}"


def test_an_archive_of_the_system_is_read(tmp_path: Path) -> None:
    """GNU tar writes it, with a sparse file as one that is not."""
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/sub/é name").write_bytes(os.urandom(70_000))
    subprocess.run(["tar", "czf", tmp_path / "t.tgz", "--format=pax", "-C", tmp_path / "in", "."], check=True)
    root = unpack_root(str(tmp_path / "t.tgz"))
    assert (Path(root.folder) / "sub/é name").read_bytes() == (tmp_path / "in/sub/é name").read_bytes()


def test_the_number_of_files_and_their_size_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_file_systems, "MOST_ENTRIES", 3)
    assert "has more than 3 files" in refused(tmp_path, tar(*((f"f{number}", "file", "") for number in range(4))))
    monkeypatch.setattr(root_file_systems, "MOST_BYTES", 1 << 20)
    bomb = gzip.compress(tar(("zero", "file", bytes(1 << 21))))
    assert len(bomb) < 5000
    assert "GiB of files" in refused(tmp_path, bomb)


def test_an_archive_of_a_terabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "root.tar").touch()
    os.truncate(tmp_path / "root.tar", 1 << 40)
    with pytest.raises(UserError, match="has 1024 GiB, more than the 16 GiB that are read"):
        unpack_root(str(tmp_path / "root.tar"), "x86_64")


@pytest.mark.parametrize("make", [oci_image, docker_image])
def test_layers_replace_and_remove_files_of_those_below(tmp_path: Path, make: Callable[[list[bytes]], bytes]) -> None:
    below = tar(
        *(("keep", "file", "1"), ("gone", "file", "1"), ("dir/old", "file", "1"), ("opaque/old", "file", "1")),
        *(("tree/a/b", "file", "1"), ("replaced/x", "file", "1"), ("kept/x", "file", "1")),
    )
    above = tar(
        *((".wh.gone", "file", ""), ("dir/.wh.old", "file", ""), ("dir/new", "file", "2")),
        *(("opaque/new", "file", "2"), ("opaque/.wh..wh..opq", "file", ""), (".wh.tree", "file", "")),
        *((".wh.missing", "file", ""), ("replaced", "file", "2"), ("kept/y", "file", "2"), (".wh.kept", "file", "")),
    )
    assert unpacked(tmp_path, make([below, above])) == {
        "keep": "1",
        "dir": "/",
        "dir/new": "2",
        "opaque": "/",
        "opaque/new": "2",
        "replaced": "2",
        "kept": "/",
        "kept/y": "2",
    }


def test_a_whiteout_is_a_plain_file_outside_of_a_layer(tmp_path: Path) -> None:
    assert unpacked(tmp_path, tar(("a", "file", "1"), (".wh.a", "file", ""))) == {"a": "1", ".wh.a": ""}


def test_a_whiteout_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    assert "leads out of it" in refused(tmp_path, oci_image([tar(("a", "file", "1")), tar((".wh...", "file", ""))]))


LAYER = tar(*SMALL)


def changed_blob() -> bytes:
    blob = gzip.compress(LAYER, mtime=0)
    return oci_image([LAYER], changes={f"blobs/sha256/{sha256(blob)}": blob[:-1] + b"x"})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed_blob(), "does not match its digest"),
        (oci_image([LAYER], config={"rootfs": {"diff_ids": [f"sha256:{'0' * 64}"]}}), "the layer"),
        (oci_image([LAYER], config={"rootfs": {"diff_ids": []}, "x": 1}), ""),
        (oci_image([LAYER, LAYER], config={"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}), "has 2 layers, and its"),
        (oci_image([LAYER], architecture="arm64"), "has no image for amd64, but for 'arm64'"),
        (oci_image([]), "has 0 layers"),
        (oci_image([LAYER], changes={"index.json": b"[" * 100_000}), "has index.json that can't be read"),
        (oci_image([LAYER], changes={"index.json": b'{"manifests": 3}'}), "has index.json that can't be read"),
        (oci_image([LAYER], changes={"index.json": b'{"manifests": []}'}), "has no image for amd64"),
        (
            oci_image([LAYER], changes={"index.json": b'{"manifests": [{"digest": "sha256:../../etc/passwd"}]}'}),
            "which is no SHA-256 digest",
        ),
        (
            oci_image([LAYER], changes={"index.json": b'{"manifests": [{"digest": "sha256:%s"}]}' % (b"1" * 64)}),
            "which its manifest names",
        ),
        (tar(("manifest.json", "file", b'[{"Layers": ["../x"]}]')), "which its manifest names"),
        (tar(("manifest.json", "file", b'[{"Layers": ["x"]}, {"Layers": []}]')), "has 2 images"),
    ],
)
def test_damaged_images_are_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    if reason:
        assert reason in refused(tmp_path, data)
    else:
        assert "etc/name" in unpacked(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (changed_blob(), "Save or download it again"),
        (oci_image([LAYER], config={"rootfs": {"diff_ids": [f"sha256:{'0' * 64}"]}}), "Save or download it again"),
        (oci_image([LAYER], architecture="arm64"), "podman pull --platform linux/amd64 NAME"),
        (oci_image([]), "A root file system is a folder, a tar archive"),
    ],
)
def test_the_error_of_an_image_has_the_next_step(tmp_path: Path, data: bytes, step: str) -> None:
    with pytest.raises(UserError) as caught:
        unpack(tmp_path, data)
    assert step in caught.value.hint and "\n" not in str(caught.value.message)


def test_an_image_that_only_looks_like_one_is_a_root(tmp_path: Path) -> None:
    assert unpacked(tmp_path, tar(("manifest.json", "file", "{}"), ("a", "file", "1")))["a"] == "1"


def test_only_the_beginning_of_a_large_manifest_is_read(tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    assert root_archives.layers_of({"manifest.json": tmp_path / "sparse"}.get, "x86_64") is None


def test_a_folder_is_read_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder/sub").mkdir(parents=True)
    (tmp_path / "folder/sub/a").write_text("a")
    (tmp_path / "folder/link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder/out").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "folder/pipe")
    os.link(tmp_path / "folder/sub/a", tmp_path / "folder/b")
    root = unpack_root(str(tmp_path / "folder"))
    assert files_of(Path(root.folder)) == {
        "b": "a",
        "link": f"-> {tmp_path / 'secret'}",
        "out": f"-> {tmp_path}",
        "sub": "/",
        "sub/a": "a",
    }


@pytest.mark.parametrize("name", ["a:b", "a,b", "a\\b"])
def test_a_cache_that_mount_options_cannot_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    with pytest.raises(UserError, match="separates mount options") as caught:
        unpack(tmp_path, tar(*SMALL))
    assert "XDG_CACHE_HOME" in caught.value.hint


@pytest.mark.parametrize("name", ["missing.tar", "pipe"])
def test_what_is_neither_a_folder_nor_a_file_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"can't be read: No such file|is neither a folder nor an archive"):
        unpack_root(str(tmp_path / name))


@pytest.mark.slow
def test_an_archive_of_zeros_and_a_header_of_every_length_end(tmp_path: Path) -> None:
    """No part of an archive leads to an error that is not a `UserError`."""
    whole = tar(*SMALL)
    for cut in range(0, 1500, 13):
        refused(tmp_path, whole[:cut])
    for at in range(0, 512, 7):
        changed = bytearray(whole)
        changed[at] ^= 0x15
        assert refused(tmp_path, bytes(changed))


def test_pieces_of_any_size_give_the_same_entries() -> None:
    data = tar(*SMALL, ("big", "file", b"x" * 700_000))

    class Slow:
        def __init__(self) -> None:
            self.at = 0

        def read(self, size: int, /) -> bytes:
            piece = data[self.at : self.at + min(size, 1000)]
            self.at += len(piece)
            return piece

    entries = [(entry.name, sum(map(len, content))) for entry, content in root_archives.read_tar(Slow())]
    assert [name for name, _ in entries] == ["etc", "etc/name", "bin/sh", "sh", "big"]
    assert entries[-1][1] == 700_000
