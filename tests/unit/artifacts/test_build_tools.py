# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tools of a build: placeholders, environment variables, and files that CMake and Meson read."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.artifacts.placeholders import KNOWN
from swapstone.core.factors import Recipe, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import OwnProgram, UnavailableError, UserError
from swapstone.parts.build.artifacts import cxx_compiler
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.source_build import (
    SourceBuilder,
    build_tools,
    placeholder_values,
    program_in,
    tool_variables,
)
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import recorded
from swapstone.parts.own.subjects.own_program_build import command_names, may_read_environment
from tests.programs import needs

needs_musl = needs("musl-gcc")
needs_clang = needs("clang")
needs_pkg_config = needs("pkg-config")
needs_cmake = needs("cmake")


def recipe(**levels: object) -> Recipe:
    return resolve_recipe(SOURCE_RECIPE.changed(Build, **levels))


def test_every_placeholder_has_a_value() -> None:
    assert set(placeholder_values(build_tools(recipe(), ("c++",)))) == set(KNOWN)


def test_names_of_tools_follow_compiler_and_architecture() -> None:
    native = placeholder_values(build_tools(recipe(compiler="gcc"), ("g++",)))
    assert (native["cc"], native["cxx"], native["ar"], native["pkg_config"]) == ("gcc", "g++", "ar", "pkg-config")
    cross = placeholder_values(
        build_tools(
            msgspec.structs.replace(SOURCE_RECIPE, architecture="aarch64").changed(
                Build, command=("aarch64-linux-gnu-gcc",)
            )
        )
    )
    assert (cross["ar"], cross["strip"]) == ("aarch64-linux-gnu-ar", "aarch64-linux-gnu-strip")
    assert (cross["rust_target"], cross["host"]) == ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu")
    arm = build_tools(msgspec.structs.replace(recipe(libc="musl"), architecture="armv7l"))
    assert (arm.rust_target, arm.host) == ("armv7-unknown-linux-musleabihf", "arm-linux-musleabihf")


@needs_pkg_config
@pytest.mark.parametrize(("linking", "printed"), [("dynamic", "-la"), ("static", "-la -lprivate")])
def test_static_linking_asks_pkg_config_for_private_libraries(tmp_path: Path, linking: str, printed: str) -> None:
    (tmp_path / "a.pc").write_text("Name: a\nDescription: a\nVersion: 1\nLibs: -la\nLibs.private: -lprivate\n")
    tools = build_tools(recipe(linking=linking))
    for command in (placeholder_values(tools)["pkg_config"], f'"{tool_variables(tools)["PKG_CONFIG"]}"'):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path)}
        ran = subprocess.run(["sh", "-c", f"{command} --libs a"], env=environment, capture_output=True, check=True)
        assert ran.stdout.decode().strip() == printed


def test_flags_for_c_alone_are_no_flags_for_cxx() -> None:
    tools = build_tools(SOURCE_RECIPE.changed(Build, command=("cc",), cflags=("-std=gnu11", "-O3", "-g")))
    assert tools.words["cxxflags"] == ("-O3", "-g") and tools.words["cflags"] == ("-std=gnu11", "-O3", "-g")
    assert tool_variables(tools)["CARGO_PROFILE_RELEASE_OPT_LEVEL"] == "3"


@needs_musl
def test_cargo_and_go_get_linker_target_and_linking() -> None:
    variables = tool_variables(build_tools(recipe(libc="musl", linking="static")))
    target = f"{os.uname().machine}-unknown-linux-musl"
    key = target.upper().replace("-", "_")
    assert variables["CARGO_BUILD_TARGET"] == target
    linker = Path(variables[f"CARGO_TARGET_{key}_LINKER"])
    assert "exec musl-gcc" in linker.read_text() and os.access(linker, os.X_OK)
    assert "+crt-static" in variables[f"CARGO_TARGET_{key}_RUSTFLAGS"]
    assert (variables["CGO_ENABLED"], variables["CGO_LDFLAGS"]) == ("1", "-static")
    assert "PKG_CONFIG_LIBDIR" in variables  # the system's libraries are for another C library


@needs_musl
@pytest.mark.parametrize("installed", [True, False])
def test_a_rust_program_for_musl_is_linked_with_the_unwinder_of_rustc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = f"{os.uname().machine}-unknown-linux-musl"
    archive = tmp_path / "rust/lib/rustlib" / target / "lib/self-contained/libunwind.a"
    archive.parent.mkdir(parents=True)
    if installed:
        archive.touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "rustc").write_text(f"#!/bin/sh\necho {tmp_path}/rust\n")
    (tools / "rustc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    source = tmp_path / "src"
    source.mkdir()
    (source / "Cargo.toml").touch()
    variable = f"CARGO_TARGET_{target.upper().replace('-', '_')}_RUSTFLAGS"
    build = f'(echo "#!/bin/sh"; echo "# ${variable}") > p && chmod +x p'
    own = OwnProgram(name="p", arguments=("./p",), source=str(source), build=build)
    built = SourceBuilder(own).build(recipe(libc="musl"), lambda _: "log")
    words = built.path.read_text().split()
    folders = [Path(word.removeprefix("-Lnative=")) for word in words if word.startswith("-Lnative=")]
    assert len(folders) == installed
    for folder in folders:
        for name in ("libgcc_s.so", "libunwind.a"):
            assert (folder / name).read_text() == f"INPUT ( {archive} )\n"


def test_a_meson_cross_file_has_compilers_and_flags() -> None:
    values = placeholder_values(build_tools(recipe(cflags=("-O2", "-DNAME='a b'"))))
    file = configparser.ConfigParser(interpolation=None)
    file.read_string(Path(values["meson_cross"]).read_text())
    assert file["binaries"]["c"].endswith("/cc'") and file["built-in options"]["buildtype"] == "'plain'"
    assert file["built-in options"]["c_args"] == r"['-O2', '-DNAME=\'a b\'']"


CMAKE = """cmake_minimum_required(VERSION 3.13)
project(sample C)
add_executable(sample sample.c)
"""


@needs_cmake
@needs_clang
@pytest.mark.parametrize("build", ["cmake -B build {cmake}-DCMAKE_BUILD_TYPE=Release && cmake --build build"])
@pytest.mark.parametrize("named", ["", "-DCMAKE_TOOLCHAIN_FILE={cmake_toolchain} "])
def test_cmake_builds_with_compiler_and_level_in_spite_of_its_build_type(
    tmp_path: Path, build: str, named: str
) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(CMAKE)
    (source / "sample.c").write_text("int main(void) { return 0; }\n")
    own = OwnProgram(name="s", arguments=("build/sample",), source=str(source), build=build.replace("{cmake}", named))
    flags = ("-O1", "-frecord-gcc-switches")
    built = SourceBuilder(own).build(recipe(compiler="clang", cflags=flags), lambda _: "log")
    facts = read_facts(built.path)
    assert facts is not None
    ((compiler, line),) = recorded(facts)
    assert compiler == "clang" and line.split().count("-O1") == 1 and "-O3" not in line and "NDEBUG" in line


def test_cargos_folder_of_a_target_is_searched(tmp_path: Path) -> None:
    program = tmp_path / "target" / "x86_64-unknown-linux-musl" / "release" / "prog"
    program.parent.mkdir(parents=True)
    program.touch()
    assert program_in(tmp_path, "./target/release/prog") == program
    assert program_in(tmp_path, "out/release/prog") == tmp_path / "out/release/prog"


@pytest.mark.parametrize(
    ("build", "names", "reads"),
    [
        ("make", ("make",), True),
        ("cd sub && A='b c' ./configure && make -j2", ("cd", "configure", "make"), True),
        ("{cc} {cflags} -o prog src/prog.c; strip prog", ("{cc}", "strip"), False),
        ("cc -o 'a b' x.c && (cp prog x; echo make)", ("cc", "cp", "echo"), False),
        ("echo 'unclosed", ("echo 'unclosed",), True),
    ],
)
def test_programs_of_a_command(build: str, names: tuple[str, ...], reads: bool) -> None:
    assert command_names(build) == names and may_read_environment(build) is reads


def test_a_c_project_needs_no_cxx_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.c").write_text("int main(void) { return 0; }\n")
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **k: None if name == "c++" else real(name, **k))
    own = OwnProgram(name="a", arguments=("./a",), source=str(tmp_path / "src"), build="$CC -o a a.c")
    assert subprocess.run([SourceBuilder(own).build(recipe(), lambda _: "log").path], check=False).returncode == 0


@needs_musl
@pytest.mark.parametrize(
    ("files", "build", "built"),
    [
        (("a.c", "b.c", "test/c.cc"), "make", False),
        (("a.c", "b.cc"), "make", True),
        (("a.c", "b.c", "c.cc"), "make CXX={cxx}", True),
        (("a.c",), "make", False),
    ],
)
def test_a_cxx_library_is_built_if_the_sources_are_mainly_cxx(
    files: tuple[str, ...], build: str, built: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def refuse(*_: object) -> None:
        raise UnavailableError("the C++ library is built")

    monkeypatch.setattr(cxx_compiler, "libstdcxx", refuse)
    builder = SourceBuilder(OwnProgram(name="a", arguments=("./a",), source=str(tmp_path), build=build))
    with pytest.raises((UnavailableError, UserError)) as caught:
        builder.build(recipe(libc="musl"), lambda _: "log")
    assert ("the C++ library is built" in str(caught.value)) is built


@needs_musl
def test_a_build_that_lacks_the_cxx_library_is_told_how_to_get_it(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for name in ("a.c", "b.c"):
        (source / name).touch()
    (source / "c.cc").write_text("#include <iostream>\n")
    own = OwnProgram(name="a", arguments=("./a",), source=str(source), build="$CXX -c c.cc")
    with pytest.raises(UserError, match="it needs a C\\+\\+ library for musl") as caught:
        SourceBuilder(own).build(recipe(libc="musl"), lambda _: "log")
    assert "--build 'export CXX={cxx}; $CXX -c c.cc'" in str(caught.value)
