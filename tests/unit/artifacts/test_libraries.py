# SPDX-License-Identifier: MIT OR Apache-2.0
"""Libraries of --with without a network: the table, the lock, a small library in place of a real one, and what a build did not find."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Evidence, Recipe, find_factor, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import OwnProgram, UnavailableError, UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts import libraries
from swapstone.parts.build.artifacts.libraries import (
    LOCK,
    library_digests,
    library_environment,
    parse_libraries,
    with_libraries,
)
from swapstone.parts.build.artifacts.library_table import (
    C_LIBRARIES,
    LIBRARIES,
    Library,
    compile_command,
    missing_hint,
    missing_library,
    missing_rust_target,
    needs_cxx_library,
)
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.source_build import SourceBuilder
from swapstone.parts.build.artifacts.upstream_sources import Source, read_lock
from swapstone.parts.build.build import Build
from swapstone.parts.own.subjects.own_program_build import wrong_library
from tests.programs import needs

TINY = Library(
    command=compile_command("tiny.c", "tiny", "1", "tiny.h"),
    links=("tiny",),
    headers=r"tiny\.h",
    packages=("tiny",),
    find=("TINY",),
    description="for tests",
    pkg_config=("-ltiny", ""),
)
LIBCS = [
    "glibc",
    pytest.param("musl", marks=needs("musl-gcc")),
]


@pytest.fixture(autouse=True)
def _tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the library `tiny` to the table, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "tiny-1.0"
    folder.mkdir()
    (folder / "tiny.h").write_text("int tiny(void);\n")
    (folder / "tiny.c").write_text('#include "tiny.h"\nint tiny(void) { return 7; }\n')
    with tarfile.open(tmp_path / "tiny.tar", "w") as opened:
        opened.add(folder, "tiny-1.0")
    digest = hashlib.sha256((tmp_path / "tiny.tar").read_bytes()).hexdigest()
    source = Source(version="1.0", kind="debian", package="tiny", file="tiny.tar", sha256=digest)
    monkeypatch.setitem(LIBRARIES, "tiny", TINY)
    monkeypatch.setattr(libraries, "_source", lambda _: source)
    monkeypatch.setattr(libraries, "fetch", lambda *_: tmp_path / "tiny.tar")


def recipe(libc: str = "glibc", linking: str = "dynamic") -> Recipe:
    return resolve_recipe(SOURCE_RECIPE.changed(Build, libc=libc, linking=linking))


def program(folder: Path, flags: Recipe) -> Path:
    """Compile a program that uses `tiny`."""
    (folder / "p.c").write_text("#include <tiny.h>\nint main(void) { return tiny(); }\n")
    command: list[str | Path] = [
        *flags.of(Build).command,
        *flags.of(Build).cflags,
        folder / "p.c",
        "-o",
        folder / "p",
        *flags.of(Build).ldflags,
        "-ltiny",
    ]
    subprocess.run(command, check=True)
    return folder / "p"


def test_every_library_has_a_locked_archive() -> None:
    lock = read_lock(share_dir() / LOCK)
    assert set(lock) == set(LIBRARIES | C_LIBRARIES) - {"tiny"}
    for name, source in lock.items():
        assert source.kind in {"debian", "crate"} and len(source.sha256) == 64 and source.version in source.file
        assert all(need in lock for need in (LIBRARIES | C_LIBRARIES)[name].needs)
        assert ":" not in name or name.endswith(f":{source.version}")


@pytest.mark.slow
@pytest.mark.parametrize("libc", LIBCS)
@pytest.mark.parametrize("linking", ["dynamic", "static"])
def test_a_program_gets_the_library_of_its_variant(libc: str, linking: str, tmp_path: Path) -> None:
    notes: list[str] = []
    with_tiny = with_libraries(recipe(libc, linking), ["tiny"], notes.append)
    assert notes[-1] == f"building tiny 1.0 with {with_tiny.of(Build).command[0]} (only once)"
    path = program(tmp_path, with_tiny)
    assert subprocess.run([path], check=False).returncode == 7
    facts = read_facts(path)
    assert facts is not None
    shared = (Path(with_tiny.of(Build).prefix) / "lib/libtiny.so").resolve()
    mapped = () if linking == "static" else (read_facts(shared),)
    assert (shared.name == "libtiny.so.1") == (linking == "dynamic")
    evidence = Evidence(interp=None, objects=(), program=facts, libraries=tuple(each for each in mapped if each))
    assert wrong_library(with_tiny, evidence) == ""
    assert find_factor("compiler").observe(evidence) == "gcc"
    assert find_factor("optimization").observe(evidence) == "O2"
    file = "libtiny.a" if linking == "static" else "libtiny.so.1"
    built = next(Path(with_tiny.of(Build).prefix, "lib").glob("libtiny*")).resolve().parent / file
    assert library_digests(with_tiny) == ((f"tiny 1.0 {file}", hashlib.sha256(built.read_bytes()).hexdigest()),)
    again: list[str] = []
    assert with_libraries(recipe(libc, linking), ["tiny"], again.append) == with_tiny
    assert not [note for note in again if "building" in note], "it is built once"


def test_another_file_of_the_library_is_refused(tmp_path: Path) -> None:
    with_tiny = with_libraries(recipe(), ["tiny"], lambda _: None)
    unused = Evidence(interp=None, objects=(), program=read_facts(Path("/bin/sh").resolve()))
    assert wrong_library(with_tiny, unused).startswith(
        "--with tiny was requested, but no file of the process contains it. Leave tiny out if the program does not use it"
    )
    other = tmp_path / "libtiny.so.1"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", other], check=True)
    facts = read_facts(other)
    assert facts is not None
    mapped = msgspec.structs.replace(unused, libraries=(facts,))
    assert wrong_library(with_tiny, mapped).startswith(
        f"--with tiny was requested, but the process had {other} mapped, which was not built for it"
    )
    assert wrong_library(recipe(), mapped) == ""


@needs("pkg-config")
def test_pkg_config_finds_only_the_library_of_the_variant() -> None:
    for libc, alone in (("glibc", False), ("musl", True)):
        with_tiny = with_libraries(recipe(), ["tiny"], lambda _: None)
        environment = library_environment(with_tiny.changed(Build, libc=libc))
        assert environment["CMAKE_PREFIX_PATH"] == with_tiny.of(Build).prefix
        assert ("PKG_CONFIG_LIBDIR" in environment) == alone
        flags = subprocess.run(
            ["pkg-config", "--libs", "tiny"],
            env={**environment, "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert flags[1] == "-ltiny" and flags[2].startswith("-Wl,-rpath,") and flags[2].endswith("/lib")
    assert library_environment(recipe()) == {}


def test_a_library_that_does_not_build_gives_the_compilers_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIBRARIES, "tiny", msgspec.structs.replace(TINY, command="{cc} {cflags} -c nothing.c"))
    with pytest.raises(UnavailableError) as caught:
        with_libraries(recipe(), ["tiny"], lambda _: None)
    assert caught.value.message.startswith("tiny 1.0 can't be built: cc1: fatal error: nothing.c: No such file")
    log = Path(caught.value.hint.removeprefix("The log: "))
    assert "nothing.c: No such file" in log.read_text()
    monkeypatch.setitem(LIBRARIES, "tiny", msgspec.structs.replace(TINY, command="true"))
    with pytest.raises(UnavailableError, match=r"its build installed no libtiny\.a"):
        with_libraries(recipe(), ["tiny"], lambda _: None)


def test_a_missing_tool_precedes_every_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "fetch", lambda *_: pytest.fail("fetched"))
    monkeypatch.setattr(libraries, "install_command", lambda packages: f"install {packages}")
    for package, test in (("make", "command -v no-make"), ("perl", "perl -MNo::Such -e 1")):
        monkeypatch.setitem(LIBRARIES, "tiny", msgspec.structs.replace(TINY, tools=((package, test),)))
        with pytest.raises(UnavailableError, match=f"Building tiny needs {package}, which is not installed") as caught:
            with_libraries(recipe(), ["tiny"], lambda _: None)
        assert caught.value.hint == f"Install it: install {package}"


def test_an_unknown_library_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"--with can't build 'zlb'\.") as caught:
        parse_libraries("openssl,zlb")
    assert caught.value.hint.startswith("Did you mean 'zlib'? Known: bzip2, cjson, curl,")
    with pytest.raises(UserError, match="--with names no library"):
        parse_libraries(" , ")
    assert parse_libraries("zlib, openssl,zlib") == ("zlib", "openssl")


def test_what_a_library_needs_is_built_before_it() -> None:
    assert libraries.in_order(["curl", "zlib"]) == ("openssl", "zlib", "curl")


@pytest.mark.parametrize(
    ("output", "missing"),
    [
        ("p.c:2:10: fatal error: zlib.h: No such file or directory", ("the header zlib.h", "zlib")),
        ("p.c:1:10: fatal error: 'openssl/evp.h' file not found", ("the header openssl/evp.h", "openssl")),
        ("/usr/bin/ld: cannot find -lssl: No such file or directory", ("the library -lssl", "openssl")),
        ("ld.lld: error: unable to find library -lz", ("the library -lz", "zlib")),
        ("Package openssl was not found in the pkg-config search path.", ("the package openssl", "openssl")),
        ("Package 'libpcre2-8', required by 'virtual:world', not found", ("the package libpcre2-8", "pcre2")),
        ("No package 'sqlite3' found", ("the package sqlite3", "sqlite3")),
        ("CMake Error: Could NOT find ZLIB (missing: ZLIB_LIBRARY)", ("the package ZLIB", "zlib")),
        ('meson.build:3:0: ERROR: Dependency "libzstd" not found, tried pkgconfig', ("the package libzstd", "zstd")),
        ("meson.build:3:0: ERROR: C shared or static library 'lzma' not found", ("the package lzma", "xz")),
        ("fatal error: sys/queue.h: No such file or directory", ("the header sys/queue.h", "")),
        ("error: expected ';'", None),
    ],
)
def test_a_missing_header_or_library_is_found_in_the_output(output: str, missing: tuple[str, str] | None) -> None:

    assert missing_library(output) == missing


def test_the_hint_offers_the_option_or_says_what_can_be_done() -> None:
    assert missing_hint("zlib", (), "musl") == "Build it for each variant: --with zlib"
    assert missing_hint("zlib", ("openssl",), "musl") == "Build it for each variant: --with openssl,zlib"
    assert missing_hint("zlib", ("zlib",), "musl").startswith("zlib was built. Does the build command use {cflags}")
    assert missing_hint("", (), "musl").startswith("This machine's libraries are for its own C library, not for musl.")
    assert missing_hint("", (), "glibc").startswith("Install its development package.")


def test_a_failed_build_starts_with_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "p.c").write_text("#include <tiny.h>\nint main(void) { return tiny(); }\n")
    own = OwnProgram(name="p", arguments=("./p",), source=str(tmp_path / "source"), build="{cc} {cflags} p.c -o p")
    with pytest.raises(UserError) as caught:
        SourceBuilder(own).build(recipe(), lambda _: "the log")
    assert str(caught.value).startswith(
        "The build failed: it did not find the header tiny.h for glibc. Build it for each variant: --with tiny\n$ cc -O2"
    )


@pytest.mark.parametrize(
    ("output", "needs"),
    [
        ("a.cc:1:10: fatal error: iostream: No such file or directory", True),
        ("a.cc:1:10: fatal error: 'string_view' file not found", True),
        ("/usr/bin/ld: cannot find -lstdc++: No such file or directory", True),
        ("configure: error: C++ compiler cannot create executables", True),
        ("a.c:1:10: fatal error: zlib.h: No such file or directory", False),
        ("/usr/bin/ld: cannot find -lz", False),
    ],
)
def test_output_of_a_build_without_a_cxx_library(output: str, needs: bool) -> None:
    assert needs_cxx_library(output) is needs


def test_a_missing_rust_target_is_named() -> None:
    output = "error[E0463]: can't find crate for `core`\n  = help: consider downloading the target with `rustup target add a-b-musl`\n"
    assert missing_rust_target(output) == "a-b-musl"
    assert missing_rust_target("error[E0463]: can't find crate for `serde`\n") == ""
