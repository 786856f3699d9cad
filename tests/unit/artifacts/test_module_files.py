# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel modules of the user: which file belongs to which kernel."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.vm.artifacts import kernel_modules
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.kernel_modules import (
    Module,
    build_module_source,
    module_source_name,
    modules_for,
    read_module_file,
)
from tests.unit.artifacts.archive import module


def _file(folder: Path, name: str, release: str, depends: str = "") -> Module:
    path = folder / f"{name}-{release}.ko"
    path.write_bytes(module(folder, name, depends=depends, release=release))
    return read_module_file(path)


def test_a_module_is_read_also_compressed(tmp_path: Path) -> None:
    found = _file(tmp_path, "mine", "6.1.0-test", depends="configfs,null-blk")
    assert (found.name, found.release, found.architecture) == ("mine", "6.1.0-test", "x86_64")
    assert found.needs == ("configfs", "null_blk")
    (tmp_path / "packed.ko.xz").write_bytes(lzma.compress(found.content))
    assert read_module_file(tmp_path / "packed.ko.xz").content == found.content


def test_each_kernel_gets_the_file_that_was_built_for_it(tmp_path: Path) -> None:
    generic, rt = (_file(tmp_path, "mine", release) for release in ("6.1.0-test", "6.1.0-rt"))
    other = _file(tmp_path, "other", "6.1.0-rt")
    assert modules_for([generic, rt], "6.1.0-test", "generic", "x86_64") == (generic,)
    assert modules_for([other, generic, rt], "6.1.0-rt", "rt", "x86_64") == (other, rt)
    with pytest.raises(
        UserError,
        match=r"The module other does not belong to the kernel generic, which is 6\.1\.0-test: .*is for 6\.1\.0-rt\.",
    ):
        modules_for([generic, rt, other], "6.1.0-test", "generic", "x86_64")
    with pytest.raises(UserError, match="is for x86_64, not for aarch64"):
        modules_for([generic], "6.1.0-test", "generic", "aarch64")
    with pytest.raises(UserError, match="named twice for the kernel generic"):
        modules_for([generic, generic], "6.1.0-test", "generic", "x86_64")


def test_what_is_no_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.ko").write_text("no ELF file")
    (tmp_path / "empty.ko").write_bytes(module(tmp_path, "mine", release=""))
    for name, message in (
        ("text.ko", "is damaged"),
        ("empty.ko", "has no name or no vermagic"),
        ("none.ko", "can't be read"),
    ):
        with pytest.raises(UserError, match=message):
            read_module_file(tmp_path / name)


def test_the_name_of_a_c_file_is_that_of_its_module(tmp_path: Path) -> None:
    for name in ("my-module_2.c", "a b.c", "mine.mod.c", f"{'x' * 56}.c"):
        (tmp_path / name).touch()
    assert module_source_name(tmp_path / "my-module_2.c") == "my-module_2"
    for name in ("a b.c", "mine.mod.c", f"{'x' * 56}.c"):
        with pytest.raises(UserError, match="can't be a kernel module: its name becomes the module's"):
            module_source_name(tmp_path / name)
    with pytest.raises(UserError, match=r"There is no file .*none\.c"):
        module_source_name(tmp_path / "none.c")


def test_a_c_file_that_is_no_text_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "bytes.c").write_bytes(b"\xff\xfe")
    (tmp_path / "large.c").write_bytes(b" " * ((4 << 20) + 1))
    for name, message in (("bytes.c", "is no C file: it is not UTF-8"), ("large.c", "is larger than 4 MiB")):
        with pytest.raises(UserError, match=message):
            build_module_source(
                tmp_path / name,
                find_machine_architecture("x86_64"),
                "generic",
                read_lock(),
                lambda _: pytest.fail("fetched"),
            )


def test_another_text_or_name_of_a_c_file_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(name: str, text: str, _packages: object, _prefix: str, done: Path) -> None:
        built.append(f"{name}: {text}")
        (done / f"{name}.ko").write_bytes(module(tmp_path, name, release="6.1.0-test"))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_modules, "_build", build)
    monkeypatch.setattr(kernel_modules, "fetch", lambda *_: None)
    for name, text in (("one", "int a;"), ("one", "int a;"), ("one", "int b;"), ("two", "int b;")):
        (tmp_path / f"{name}.c").write_text(text)
        found = build_module_source(
            tmp_path / f"{name}.c", find_machine_architecture("x86_64"), "generic", read_lock(), lambda _: None
        )
        assert found.name == name
    assert built == ["one: int a;", "one: int b;", "two: int b;"]
