# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recipes of docs/build-recipes.md with a library of --with: each build finds the library of its variant, and the run is not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import Status
from swapstone.core.record import load
from tests.e2e.cli import swapstone
from tests.programs import needs, require

PROGRAM = """
#include <stdio.h>
#include <zlib.h>
int main(void) { printf("%lu %s\\n", crc32(0, (const Bytef *)"abc", 3), zlibVersion()); return 0; }
"""
FILES = {
    "p.c": PROGRAM,
    "Makefile": "p: p.c\n\t$(CC) $(CFLAGS) -o $@ p.c $(LDFLAGS) -lz\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(p C)\nfind_package(ZLIB REQUIRED)\nadd_executable(p p.c)\n"
    "target_link_libraries(p ZLIB::ZLIB)\n",
    "meson.build": "project('p', 'c')\nexecutable('p', 'p.c', dependencies: dependency('zlib', method: 'pkg-config'))\n",
}
RECIPES = {
    "make": ("make", "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}", "./p"),
    "pkg-config": ("pkg-config", "$CC $CFLAGS p.c -o p $(pkg-config --cflags --libs zlib)", "./p"),
    "cmake": ("cmake", "cmake -B out && cmake --build out", "out/p"),
    "meson": ("meson", "meson setup --cross-file {meson_cross} out && ninja -C out", "out/p"),
}


@pytest.mark.slow  # builds zlib for two C libraries, once for all cases
@needs("musl-gcc")
@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_finds_the_library_of_its_variant(recipe: str, tmp_path: Path) -> None:
    tool, build, program = RECIPES[recipe]
    require(tool)
    source = tmp_path / "source"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    options = (
        "--with",
        "zlib",
        "--source",
        str(source),
        "--build",
        build,
        "--blocks",
        "1",
        "--out",
        str(tmp_path / "r"),
    )
    swapstone(tmp_path, "compare", "libc=glibc,musl", *options, "--", program)
    view = load(tmp_path / "r")
    assert {(run.trial.variant, run.status) for run in view.runs if run.trial.block} == {
        ("libc=glibc", Status.OK),
        ("libc=musl", Status.OK),
    }
    assert view.manifest is not None
    libraries = {name for artifact in view.manifest.artifacts for name, _ in artifact.sources if "libz.so" in name}
    assert libraries == {"zlib 1.2.13 libz.so.1.2.13"}
    assert len({digest for each in view.manifest.artifacts for name, digest in each.sources if "libz.so" in name}) == 2


def test_an_unknown_library_is_an_error_at_once(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "p.c").write_text("int main(void) { return 0; }\n")
    options = ("--with", "zlb", "--source", str(source), "--build", "{cc} {cflags} {ldflags} p.c -o p", "--blocks", "1")
    done = swapstone(tmp_path, "compare", "libc=glibc,musl", *options, "--", "./p", expect=2)
    assert done.stderr.splitlines()[:2] == [
        "error: --with can't build 'zlb'.",
        "Did you mean 'zlib'? Known: bzip2, cjson, curl, expat, libffi, lz4, mbedtls, ncurses, openssl, pcre2, sqlite3, xz, zlib, zstd.",
    ]
