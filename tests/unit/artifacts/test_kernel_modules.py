# SPDX-License-Identifier: MIT OR Apache-2.0
"""Modules come with what they need, in an order in which a plain loader can load them."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts.kernel_modules import Modules
from tests.unit.artifacts.archive import module

Made = Callable[..., Modules]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Make modules from name to (depends, softdep)."""

    def make(built_in: str = "", **modinfo: tuple[str, str]) -> Modules:
        files = {f"kernel/{name}.ko": module(tmp_path, name, *words) for name, words in modinfo.items()}
        return over({**files, "modules.builtin": built_in.encode()})

    return make


def over(files: dict[str, bytes]) -> Modules:
    return Modules(files, files.__getitem__)


def names(modules: Modules, *wanted: str) -> list[str]:
    return [module.name for module in modules.load_order(wanted)]


def test_modules_are_ordered_after_their_dependencies(made: Made) -> None:
    modules = made(
        zram=("zsmalloc", ""), zsmalloc=("", ""), ext4=("jbd2,mbcache", ""), jbd2=("", ""), mbcache=("jbd2", "")
    )
    assert names(modules, "ext4", "zram", "jbd2") == ["jbd2", "mbcache", "ext4", "zsmalloc", "zram"]
    assert names(modules) == []


def test_hyphens_are_underscores(made: Made) -> None:
    modules = made(built_in="kernel/lib/crc-ccitt.ko\n", null_blk=("crc-ccitt", ""))
    assert names(modules, "null-blk") == ["null_blk"]


def test_what_is_built_in_is_left_out(made: Made) -> None:
    modules = made(built_in="kernel/fs/ext4/ext4.ko\nkernel/lib/crc16.ko\n", top=("crc16", ""))
    assert names(modules, "ext4", "top") == ["top"]


def test_soft_dependencies_are_added_if_they_exist(made: Made) -> None:
    modules = made(
        ext4=("", "pre: crypto-crc32c absent post: later"),
        crc32c_generic=("", ""),
        later=("", ""),
        other=("", "pre: later"),
    )
    assert names(modules, "ext4") == ["crc32c_generic", "ext4"]
    assert names(modules, "other") == ["later", "other"]


def test_compressed_modules_are_unpacked(tmp_path: Path) -> None:
    plain = module(tmp_path, "one")
    for suffix, packed in ((".xz", lzma.compress(plain)), (".gz", gzip.compress(plain)), ("", plain)):
        assert over({f"one.ko{suffix}": packed}).load_order(["one"])[0].content == plain
    for suffix in (".xz", ".gz"):
        with pytest.raises(UserError, match=rf"one\.ko\{suffix} is damaged"):
            over({f"one.ko{suffix}": b"odd"}).load_order(["one"])
    with pytest.raises(UserError, match="compressed with zstd"):
        over({"one.ko.zst": b"odd"}).load_order(["one"])


def test_a_missing_module_is_named_with_the_module_that_needs_it(made: Made) -> None:
    modules = made(top=("middle", ""), middle=("bottom", ""))
    with pytest.raises(UserError, match="no module bottom, which middle needs, and") as caught:
        modules.load_order(["top"])
    assert "--modules" in caught.value.hint
    with pytest.raises(UserError, match="no module absent and does not list"):
        modules.load_order(["absent"])


def test_a_damaged_module(tmp_path: Path) -> None:
    for damaged in (b"no ELF file", b"\x7fELF", module(tmp_path, "one").replace(b".modinfo", b".modinfx")):
        with pytest.raises(UserError, match=r"The module one\.ko is damaged"):
            over({"one.ko": damaged}).load_order(["one"])


def test_a_circle_ends(made: Made) -> None:
    assert names(made(one=("two", ""), two=("one", "")), "one") == ["two", "one"]


def test_modules_of_two_kernels_are_refused(tmp_path: Path) -> None:
    files = {"a.ko": module(tmp_path, "a", release="6.1"), "b.ko": module(tmp_path, "b", release="6.2")}
    with pytest.raises(UserError, match=r"different kernels: 6\.1, 6\.2"):
        over(files).load_order(["a", "b"])
