# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C++ library for a C library without one: which parts of the source are used, and what a failure reports."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import UnavailableError
from swapstone.parts.build.artifacts import cxx_compiler as libstdcxx_module
from swapstone.parts.build.artifacts.cxx_compiler import (
    cxx_beside,
    cxx_command,
    libstdcxx,
    unpack_parts,
    unwinder_folder,
)
from swapstone.parts.build.artifacts.own_toolchain import installed_musl, tree_options
from swapstone.parts.build.artifacts.upstream_sources import Source
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.libc import CLibraryTree
from tests.programs import needs, require
from tests.unit.workloads.programs import recipe_for

needs_musl = needs("musl-gcc")


def _archive(path: Path, files: dict[str, bytes], mode: str, permissions: int = 0o644) -> bytes:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload] # the mode is a parameter
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), permissions
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
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "make" else f"/usr/bin/{name}")
    with pytest.raises(UnavailableError, match="built once, needs the command 'make'") as caught:
        libstdcxx(CLibraryTree(kind="musl", headers=(), objects="/x", libraries=()))
    assert caught.value.hint == "Install it: sudo apt-get install make"


def test_a_missing_cxx_compiler_is_named_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
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


CONFIGURE = """\
#!/bin/sh -e
top=$(cd "$(dirname "$0")" && pwd)
for word; do
    case $word in --prefix=*) prefix=${word#*=} ;; --host=*) host=${word#*=} ;; CXX=*) cxx=${word#*=} ;; esac
done
for part in include libsupc++ src; do
    mkdir $part
    sed "s|@prefix@|$prefix|g;s|@host@|$host|g;s|@cxx@|$cxx|g;s|@top@|$top|g" "$top/$part.mk" >$part/Makefile
done
"""
MAKEFILES = {
    "include": """\
all:
install:
\tmkdir -p @prefix@/include/c++/12
\tcp @top@/twice @prefix@/include/c++/12
\tcd @prefix@/include/c++/12 && mkdir -p @host@/bits backward && touch @host@/bits/c++config.h
""",
    "libsupc++": "all:\ninstall:\n",
    "src": """\
all:
\t@cxx@ -O2 -c @top@/src/twice.cc
\tar rcs libstdc++.a twice.o
install:
\tmkdir -p @prefix@/lib
\tcp libstdc++.a @prefix@/lib
\ttouch @prefix@/lib/libstdc++.la
""",
}
"""A library with one function, in the place of libstdc++."""


@pytest.mark.slow
@needs_musl
def test_a_library_is_built_once_and_both_compilers_link_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources are those of a small library: building libstdc++ takes minutes, and a test of `--exhaustive` does it."""
    files = {
        "gcc/BASE-VER": b"12",
        "libgcc/gthr-posix.h": b"",
        "libstdc++-v3/configure": CONFIGURE.encode(),
        **{f"libstdc++-v3/{part}.mk": text.encode() for part, text in MAKEFILES.items()},
        "libstdc++-v3/twice": b"int twice(int);\n",
        "libstdc++-v3/src/twice.cc": b"#include <stdlib.h>\nint twice(int n) { return abs(2 * n); }\n",
    }
    inner = _archive(tmp_path / "inner", {f"gcc-12/{name}": data for name, data in files.items()}, "w:xz", 0o755)
    _archive(tmp_path / "outer", {"p/gcc-12.tar.xz": inner}, "w:gz")
    fetched: list[str] = []

    def fetch(source: Source, lock: str) -> Path:
        fetched.append(lock)
        return tmp_path / "outer"

    monkeypatch.setattr(libstdcxx_module, "fetch", fetch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.cc").write_text("#include <twice>\nint main() { return twice(-21) == 42 ? 7 : 1; }\n")
    lines: list[str] = []
    require("gcc", "clang")
    for compiler in ("gcc", "clang"):
        command = cxx_command(recipe_for("musl").changed(Build, compiler=compiler), lines.append, needed=True)
        for linking in ((), ("-static",)):
            subprocess.run([*command, *linking, str(tmp_path / "a.cc"), "-o", str(tmp_path / "a")], check=True)
            assert subprocess.run([tmp_path / "a"], check=False).returncode == 7
            loader = b"/lib/ld-musl-" in (tmp_path / "a").read_bytes()
            assert loader == (not linking)
    assert fetched == ["native/cxx.toml"]  # built once
    _, unpacked, configured, *made = [line.rpartition(": ")[2] for line in lines]
    assert (unpacked, configured) == ("unpacking", "configure in objects")
    assert made and all(step.startswith("make in ") for step in made)
    assert [path.name for path in tmp_path.rglob("libstdc++.*")] == [
        "libstdc++.a"
    ]  # the .la file names the temporary folder


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
