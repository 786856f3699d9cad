# SPDX-License-Identifier: MIT OR Apache-2.0
"""Archives for the kernel: the same bytes for the same content, and all that a file system needs."""

from __future__ import annotations

import gzip
import itertools
import lzma
import os
from pathlib import Path

import pytest

from swapstone.core.model import UserError, cpio


def read(data: bytes) -> dict[str, tuple[int, int, int, bytes]]:
    """Read an archive as the kernel's documentation describes it: path to (mode, major, minor, content)."""
    found: dict[str, tuple[int, int, int, bytes]] = {}
    numbers: set[int] = set()
    at = 0
    while True:
        assert data[at : at + 6] == b"070701" and at % 4 == 0
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        assert data[at + 109 + fields[11]] == 0
        start = at + (110 + fields[11] + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert start == len(data)
            return found
        assert fields[0] not in numbers
        numbers.add(fields[0])
        assert fields[2:4] == [0, 0] and fields[5] == 0
        found[name] = (fields[1], fields[9], fields[10], data[start : start + fields[6]])
        at = (start + fields[6] + 3) // 4 * 4


def test_files_folders_links_and_devices_come_back() -> None:
    entries = {
        "dev/console": cpio.device(5, 1),
        "bin/sh": cpio.link("busybox"),
        "bin/busybox": cpio.file(b"odd", executable=True),
        "etc/empty": cpio.file(b""),
    }
    found = read(cpio.archive(entries))
    assert list(found) == ["bin", "bin/busybox", "bin/sh", "dev", "dev/console", "etc", "etc/empty"]
    assert found["dev/console"] == (0o020600, 5, 1, b"")
    assert found["bin/sh"] == (0o120777, 0, 0, b"busybox")
    assert found["bin/busybox"] == (0o100755, 0, 0, b"odd")
    assert found["bin"][0] == 0o040755 and found["etc/empty"] == (0o100644, 0, 0, b"")


def test_the_bytes_depend_on_nothing_but_the_content(tmp_path: Path) -> None:
    for name, moment in (("one", 0), ("two", 10**9)):
        top = tmp_path / name / "top"
        top.mkdir(parents=True)
        (top / "b").write_bytes(b"2")
        (top / "a").mkdir()
        (top / "a" / "x").symlink_to("../b")
        os.utime(top / "b", (moment, moment))
    first, second = (cpio.archive(cpio.tree(tmp_path / name / "top")) for name in ("one", "two"))
    assert first == second
    (tmp_path / "two" / "top" / "b").chmod(0o755)
    assert cpio.archive(cpio.tree(tmp_path / "two" / "top")) != first


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../b", "a//b", "./a", ""])
def test_a_path_that_leaves_the_root_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="is no valid path in an image"):
        cpio.archive({name: cpio.file(b"")})


def test_what_is_wanted_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "m.ko").write_bytes(b"m")
    (tmp_path / "other").write_bytes(b"o")
    assert sorted(cpio.tree(tmp_path, ["lib"])) == ["lib", "lib/m.ko"]
    with pytest.raises(UserError, match=r"none\.ko is not in"):
        cpio.tree(tmp_path, ["lib/none.ko"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="neither a file nor a folder nor a link"):
        cpio.tree(tmp_path)


def test_archives_are_read_as_a_kernel_reads_them() -> None:
    first = {"a": cpio.file(b"1"), "d/l": cpio.link("a"), "dev/null": cpio.device(1, 3)}
    second = {"a": cpio.file(b"22", executable=True)}
    plain, later = cpio.archive(first), cpio.archive(second)
    for one, other in itertools.product(
        (plain, gzip.compress(plain), lzma.compress(plain)), (later, gzip.compress(later))
    ):
        found = cpio.unpack(one + bytes(-len(one) % 4) + other)
        assert found is not None
        assert found["a"] == second["a"]
        assert found["dev/null"] == first["dev/null"]
        assert found["d/l"] == first["d/l"]
        assert found["d"] == cpio.folder()
    assert cpio.unpack(b"") == {}
    assert cpio.unpack(plain + b"\x28\xb5\x2f\xfd anything") is None


@pytest.mark.parametrize(
    "data", [b"garbage", cpio.archive({"a": cpio.file(b"1" * 99)})[:150], b"\x1f\x8bgarbage", b"070701"]
)
def test_what_is_no_archive_is_an_error(data: bytes) -> None:
    with pytest.raises(UserError, match="The initrd can't be read"):
        cpio.unpack(data)


def test_an_initrd_that_is_too_large_decompressed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpio, "MOST_UNPACKED_BYTES", 100_000)
    large = cpio.archive({"a": cpio.file(bytes(200_000))})
    for packed in (gzip.compress(large), lzma.compress(large)):
        with pytest.raises(UserError, match="more than 100000 bytes decompressed"):
            cpio.unpack(packed)


def test_an_initrd_of_very_many_archives_is_refused() -> None:
    with pytest.raises(UserError, match="more than 100 archives"):
        cpio.unpack(cpio.archive({}) * 101)


@pytest.mark.parametrize("field", [b"+0000001", b"0x000001", b" 0000001", b"1_000000"])
def test_a_field_that_is_no_hexadecimal_number_is_an_error(field: bytes) -> None:
    whole = cpio.archive({"a": cpio.file(b"1")})
    with pytest.raises(UserError, match="no hexadecimal number"):
        cpio.unpack(whole[:6] + field + whole[14:])


def test_a_truncated_compressed_initrd_is_an_error() -> None:
    with pytest.raises(UserError, match="its end is missing"):
        cpio.unpack(gzip.compress(cpio.archive({}))[:-4])
