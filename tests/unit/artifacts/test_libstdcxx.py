# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C++ library for a C library without one: which parts of the source are used, and what a failure reports."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from swapstone.artifacts.c_library_tree import installed_musl, tree_options
from swapstone.artifacts.cxx_compiler import cxx_beside, cxx_command
from swapstone.artifacts.libstdcxx import libstdcxx, unpack_parts, unwinder_folder
from swapstone.artifacts.source_build import SOURCE_RECIPE
from swapstone.factors.c_library_files import CLibraryTree
from swapstone.model import UnavailableError

needs_musl = pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="musl-gcc is not installed (musl-tools)")


def _archive(path: Path, files: dict[str, bytes], mode: str) -> bytes:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload] # the mode is a parameter
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path.read_bytes()


def test_only_the_needed_parts_are_unpacked(tmp_path: Path) -> None:
    inside = ("configure", "gcc/BASE-VER", "gcc/tree.c", "libgcc/gthr-posix.h", "libstdc++-v3/src/x.cc", "libgo/go.c")
    names = [*inside, "libstdc++-v3/testsuite/a.cc", "libstdc++-v3/doc/xsl/c.xsl.in"]
    inner = _archive(tmp_path / "inner", {f"gcc-12.2.0/{name}": b"x" for name in names}, "w:xz")
    _archive(tmp_path / "outer", {"p/newlib-4.tar.xz": b"no", "p/gcc-12.2.0-dfsg.tar.xz": inner}, "w:gz")
    top = unpack_parts(tmp_path / "outer", tmp_path / "source")
    found = {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}
    assert found == {
        *("configure", "gcc/BASE-VER", "libgcc/gthr-posix.h", "libgcc/gthr-default.h", "libstdc++-v3/src/x.cc"),
        *("libstdc++-v3/doc/xsl/c.xsl.in", "libstdc++-v3/testsuite/Makefile.in"),
    }


def test_a_missing_tool_is_named_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "make" else f"/usr/bin/{name}")
    with pytest.raises(UnavailableError, match="built once, which needs the command 'make'") as caught:
        libstdcxx(CLibraryTree(kind="musl", headers=(), objects="/x", libraries=()))
    assert caught.value.hint == "Install it: sudo apt-get install make"


def test_a_missing_cxx_compiler_is_named_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert cxx_command(SOURCE_RECIPE, needed=False) == ()
    with pytest.raises(UnavailableError, match=r"Compiling C\+\+ needs the command 'c\+\+'") as caught:
        cxx_command(SOURCE_RECIPE, needed=True)
    assert caught.value.hint == "Install it: sudo apt-get install g++"


@pytest.mark.parametrize(
    ("compiler", "beside"),
    [
        ("/opt/bin/arm-linux-gnueabihf-gcc", "/opt/bin/arm-linux-gnueabihf-g++"),
        ("/usr/bin/gcc-13", "/usr/bin/g++-13"),
        ("/usr/bin/clang-16", "/usr/bin/clang++-16"),
        ("/usr/bin/cc", "/usr/bin/c++"),
    ],
)
def test_the_cxx_compiler_beside_a_c_compiler(compiler: str, beside: str) -> None:
    assert cxx_beside(compiler) == beside


def test_a_compiler_with_another_name_has_no_known_cxx_compiler() -> None:
    with pytest.raises(UnavailableError, match="is not known"):
        cxx_beside("/opt/bin/compile")


UNWINDS = r"""
#include <unwind.h>
static _Unwind_Reason_Code count(struct _Unwind_Context *context, void *data) {
    (void)context;
    return ++*(int *)data, _URC_NO_REASON;
}
static int __attribute__((noinline)) depth(int n) {
    int frames = 0;
    if (n) frames = depth(n - 1); else _Unwind_Backtrace(count, &frames);
    __asm__ volatile("" : "+r"(frames));
    return frames;
}
int main(void) { return depth(5) >= 7 ? 0 : 1; }
"""


@needs_musl
@pytest.mark.parametrize("linking", [(), ("-static",)])
def test_gccs_unwinder_walks_the_stack_on_musl(tmp_path: Path, linking: tuple[str, ...]) -> None:
    tree = installed_musl()
    options = tree_options(tree, ("gcc",), clang=False, libraries=(str(unwinder_folder(tree)),))
    (tmp_path / "a.c").write_text(UNWINDS)
    made = ["gcc", *options, "-fasynchronous-unwind-tables", str(tmp_path / "a.c"), "-o", str(tmp_path / "a"), *linking]
    subprocess.run(made, check=True)
    assert subprocess.run([tmp_path / "a"], check=False).returncode == 0
