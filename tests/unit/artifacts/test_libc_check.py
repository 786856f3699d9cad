# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of an image's binaries: one of another C library or compiler is refused, and so is one that lacks what it loads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.core.model import UserError, cpio
from swapstone.parts.vm.artifacts.libc_files import observe_files
from tests.programs import require

LOADERS = {"glibc": "lib64/ld-linux-x86-64.so.2", "musl": "lib/ld-musl-x86_64.so.1"}
COMPILERS = {"glibc": "gcc", "musl": "musl-gcc"}


def _program(folder: Path, libc: str, *options: str) -> bytes:
    require(COMPILERS[libc])
    (folder / "x.c").write_text('#include <stdio.h>\nint main(void) { return puts("x") == EOF; }\n')
    command = [COMPILERS[libc], *options, "-o", f"{libc}.out", "x.c"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return (folder / f"{libc}.out").read_bytes()


def _entries(folder: Path, libc: str, program: bytes) -> tuple[dict[str, cpio.Entry], frozenset[str]]:
    """Return an image with a program, and files that stand for the C library's own."""
    of_library = _program(folder, libc)
    own = {LOADERS[libc]: cpio.file(of_library)}
    if libc == "glibc":
        own["lib/x86_64-linux-gnu/libc.so.6"] = cpio.file(of_library)
    return {**own, "bin/x": cpio.file(program), "bin/script": cpio.file(b"#!/bin/sh\n")}, frozenset(own)


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_binaries_of_the_requested_library_are_listed(tmp_path: Path, libc: str) -> None:
    entries, own = _entries(tmp_path, libc, _program(tmp_path, libc))
    found = observe_files(entries, own, libc, "gcc")
    assert found.keys() == {*own, "bin/x"}
    program = found["bin/x"]
    assert (program.libc, program.compiler, program.loader) == (libc, "gcc", f"/{LOADERS[libc]}")
    assert program.needed == (("libc.so.6",) if libc == "glibc" else ("libc.so",))
    assert program.size_bytes == len(entries["bin/x"].content)


@pytest.mark.slow
@pytest.mark.parametrize(("libc", "other"), [("glibc", "musl"), ("musl", "glibc")])
@pytest.mark.parametrize("options", [(), ("-static",)])
def test_a_binary_of_the_other_library_is_refused(
    tmp_path: Path, libc: str, other: str, options: tuple[str, ...]
) -> None:
    entries, own = _entries(tmp_path, libc, _program(tmp_path, other, *options))
    with pytest.raises(UserError, match=f"bin/x is of the C library {other}; the image is for {libc}"):
        observe_files(entries, own, libc, "gcc")


def test_a_binary_of_another_compiler_is_refused(tmp_path: Path) -> None:
    entries, own = _entries(tmp_path, "glibc", _program(tmp_path, "glibc"))
    with pytest.raises(UserError, match="bin/x is of the compiler gcc; the image is for clang"):
        observe_files(entries, own, "glibc", "clang")


def test_a_binary_that_does_not_show_its_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("void _start(void) {}\n")
    require("gcc")
    subprocess.run(
        ["gcc", "-nostdlib", "-static", "-o", "bare", "x.c"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    entries, own = _entries(tmp_path, "glibc", (tmp_path / "bare").read_bytes())
    with pytest.raises(UserError, match="bin/x does not show its C library"):
        observe_files(entries, own, "glibc", "gcc")


def test_a_binary_whose_loader_is_not_in_the_image_is_refused(tmp_path: Path) -> None:
    entries, own = _entries(tmp_path, "glibc", _program(tmp_path, "glibc"))
    del entries[LOADERS["glibc"]]
    with pytest.raises(UserError, match=r"bin/x needs /lib64/ld-linux-x86-64.so.2, which the image does not have"):
        observe_files(entries, own - {LOADERS["glibc"]}, "glibc", "gcc")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    entries, own = _entries(tmp_path, "glibc", _program(tmp_path, "glibc")[:100])
    with pytest.raises(UserError, match="bin/x is a damaged ELF file"):
        observe_files(entries, own, "glibc", "gcc")
