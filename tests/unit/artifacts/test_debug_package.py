# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of glibc's internal functions: from a package that no image contains, and that is fetched when they are needed."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.parts.build.artifacts.packages import Lock, Package, package_file, read_lock
from swapstone.parts.explain.instruments.plugin_file import (
    Block,
    CodeFile,
    DebugFiles,
    KernelSymbols,
    names_of,
    read_code,
)
from swapstone.parts.explain.instruments.symbol_tables import Table, companion_of, debug_name, missing_symbols, table_of
from swapstone.parts.vm.artifacts import debug_package
from swapstone.parts.vm.artifacts.image_catalog import MACHINE_ARCHITECTURES
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image, plan_image
from tests.unit.artifacts.archive import RELEASE, Archive, kernel_files, lock_of

SOURCE = """\
__attribute__((noinline)) static int inner(int a) { __asm__ volatile(""); return a * 3; }
int outer(int a) { return inner(a) + 1; }
"""


def library(folder: Path, source: str = SOURCE) -> tuple[Path, bytes, str]:
    """Return a stripped library, its debug file, and its build ID."""
    folder.mkdir()
    (folder / "a.c").write_text(source)
    whole, stripped, debug = folder / "whole", folder / "libc.so.6", folder / "symbols"
    command = ["cc", "-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id=sha1", "a.c", "-o", "whole"]
    subprocess.run(command, check=True, cwd=folder)
    subprocess.run(["objcopy", "--only-keep-debug", str(whole), str(debug)], check=True)
    subprocess.run(["strip", "-o", str(stripped), str(whole)], check=True)
    return stripped, debug.read_bytes(), missing_symbols(stripped)


def code_file(path: Path) -> CodeFile:
    code = read_code(path)
    assert code is not None
    return CodeFile(path.name, "C library", *code, path)


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[Package]:
    """The packages of the lock that is read."""
    packages: list[Package] = []

    def read() -> Lock:
        return lock_of(*packages)

    monkeypatch.setattr(debug_package, "read_lock", read)
    return packages


def with_symbols(archive: Archive, files: dict[str, bytes]) -> Package:
    paths = {f"usr/lib/debug/{debug_name(build)}": content for build, content in files.items()}
    return msgspec.structs.replace(archive.add("libc6-dbg", paths), debug="libc6")


def test_internal_functions_have_names(archive: Archive, locked: list[Package], tmp_path: Path) -> None:
    path, debug, build = library(tmp_path / "made")
    assert re.fullmatch("[0-9a-f]{40}", build)
    package = with_symbols(archive, {build: debug})
    locked += [archive.add("libc6", {}), package]
    found = DebugFiles(functools.partial(debug_package.read_debug_file, "x86_64"), tmp_path, lambda _: None)
    other = tmp_path / "prog"
    other.write_bytes(path.read_bytes())
    table = found.table(code_file(other))
    assert table is not None and {one.name for one in table} == {"outer"}
    assert (found.notes(), package_file(package.sha256).exists()) == ((), False), "not fetched: it is no file of glibc"
    table = found.table(code_file(path))
    assert table is not None and {one.name for one in table} == {"outer", "inner"}
    assert found.notes() == ("Names of glibc's internal functions are from libc6-dbg 1.0-1.",)
    assert not package_file(locked[0].sha256).exists()
    (inner,) = (one.address for one in table if one.name == "inner")
    assert table.name_at(inner + 1) == "inner"


def address_of(table: Table, name: str) -> int:
    return next(one.address for one in table if one.name == name)


def test_instructions_are_counted_by_these_names(archive: Archive, locked: list[Package], tmp_path: Path) -> None:
    path, debug, build = library(tmp_path / "made")
    locked.append(with_symbols(archive, {build: debug}))
    file = code_file(path)
    ((start, code),) = file.pieces
    base = 0x7F0000000000
    symbols = DebugFiles(functools.partial(debug_package.read_debug_file, "x86_64"), tmp_path, lambda _: None)
    table = symbols.table(file)
    assert table is not None
    inner = address_of(table, "inner")
    assert inner is not None
    at = inner - start
    blocks = [Block(base + inner, code[at : at + 3], b"\x01\x02", (5, 4)), Block(base + start, code, b"", ())]
    blocks.append(Block(base + start + 1, code[1:], b"", ()))
    name_at = names_of(blocks, [file], KernelSymbols([]), 1 << 63, table=symbols.table)(blocks[0])
    assert [name_at(each) for each in blocks[0].addresses] == [("inner", "libc.so.6", "C library")] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("not in the lock", "The lock has no package with glibc's symbols for amd64"),
        ("gone", "The archive no longer has, for amd64: libc6-dbg 1.0-1"),
        ("altered", "the lock has 000"),
        ("another version", "libc6-dbg 1.0-1 has no symbols of build ID "),
    ],
)
def test_without_the_package_the_output_has_the_reason(
    archive: Archive, locked: list[Package], tmp_path: Path, case: str, reason: str
) -> None:
    path, debug, build = library(tmp_path / "made")
    package = with_symbols(archive, {"0" * 40 if case == "another version" else build: debug})
    if case == "gone":
        archive.remove("libc6-dbg", "1.0-1")
    if case == "altered":
        package = msgspec.structs.replace(package, sha256="0" * 64)
    locked += [archive.add("libc6", {}), *([] if case == "not in the lock" else [package])]
    downloads: list[str] = []
    found = DebugFiles(functools.partial(debug_package.read_debug_file, "x86_64"), tmp_path, downloads.append)
    for name in ("libc.so.6", "libm.so.6"):
        copy = tmp_path / name
        copy.write_bytes(path.read_bytes())
        table = found.table(code_file(copy))
        assert table is not None and {one.name for one in table} == {"outer"}
    notes = found.notes()
    assert [note.partition(":")[0] for note in notes] == [
        f"Internal functions of {name} have no names" for name in ("libc.so.6", "libm.so.6")
    ]
    assert all(reason in note for note in notes)
    assert sum("downloading" in line for line in downloads) <= 1, "what failed is not tried for each file"


def test_a_debug_file_of_another_library_is_not_used(tmp_path: Path) -> None:
    path, debug, build = library(tmp_path / "made")
    _, other, other_build = library(tmp_path / "other", SOURCE.replace("inner", "false_name"))
    assert build != other_build
    for content, names in (
        (other, {"outer"}),
        (b"\x7fELF", {"outer"}),
        (debug[: len(debug) // 2], {"outer"}),
        (debug, {"outer", "inner"}),
    ):
        copy = tmp_path / f"copy-{len(content)}"
        copy.write_bytes(path.read_bytes())
        companion_of(copy).write_bytes(content)
        table = table_of(copy)
        assert table is not None and {one.name for one in table} == names


def test_bit_0_of_a_function_of_arm_is_no_part_of_its_address(tmp_path: Path) -> None:
    library(tmp_path / "made")
    whole = bytearray((tmp_path / "made" / "whole").read_bytes())
    plain = table_of(tmp_path / "made" / "whole")
    assert plain is not None
    subprocess.run(
        ["objcopy", "--add-symbol", "thumb=.text:1,global,function", "whole", "odd"], check=True, cwd=tmp_path / "made"
    )
    whole = bytearray((tmp_path / "made" / "odd").read_bytes())
    before = table_of(tmp_path / "made" / "odd")
    struct.pack_into("<H", whole, 18, 40)  # e_machine: EM_ARM
    (tmp_path / "arm").write_bytes(whole)
    after = table_of(tmp_path / "arm")
    assert before is not None and after is not None
    address = address_of(before, "thumb")
    assert address is not None and address % 2 == 1
    assert address_of(after, "thumb") == address - 1


def test_no_image_contains_or_fetches_it(archive: Archive, tmp_path: Path) -> None:
    kernel = msgspec.structs.replace(archive.add(f"linux-image-{RELEASE}", kernel_files(tmp_path)), kernel="generic")
    busybox = archive.add("busybox-static", {"bin/busybox": b"#!"})
    package = with_symbols(archive, {"0" * 40: b"x"})
    request = ImageRequest(architecture="x86_64", modules=(), parts=("busybox",))
    without = build_image(request, lock=lock_of(kernel, busybox))
    beside = build_image(request, lock=lock_of(kernel, busybox, package))
    assert (beside.initrd, beside.image) == (without.initrd, without.image)
    assert not package_file(package.sha256).exists()


def test_the_locks_images_have_the_names_that_they_have_without_it() -> None:
    lock = read_lock()
    less = msgspec.structs.replace(lock, packages=tuple(one for one in lock.packages if not one.debug))
    assert len(less.packages) < len(lock.packages)
    for architecture in MACHINE_ARCHITECTURES:
        for kernel in architecture.kernels:
            if f"{architecture.debian}/{kernel}" not in lock.unavailable:
                request = ImageRequest(
                    architecture=architecture.name, kernel=kernel, parts=("busybox", "glibc", "musl")
                )
                assert plan_image(request, lock).key() == plan_image(request, less).key()


def test_the_symbols_are_of_the_locked_version_of_glibc() -> None:
    packages = {(one.architecture, one.name): one for one in read_lock().packages}
    symbols = [one for one in packages.values() if one.debug]
    assert {one.architecture for one in symbols} == {one.debian for one in MACHINE_ARCHITECTURES}
    for one in symbols:
        assert one.version == packages[one.architecture, one.debug].version and not one.in_images
