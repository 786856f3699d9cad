# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs for another architecture: the available compilers, and the errors for missing ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.artifacts.tool_versions import loader_version
from swapstone.core.factors import Evidence, Recipe, find_factor, read_facts
from swapstone.core.model import UnavailableError
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts.builder import base_recipe
from swapstone.parts.build.artifacts.cxx_compiler import cxx_command
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.toolchain import check_compiler, compiler_command, tool_prefix
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from swapstone.parts.build.build import Build

HERE = os.uname().machine
AARCH64 = Recipe(architecture="aarch64")
HEADERS = Path("/usr/aarch64-linux-gnu/include/stdio.h")


def with_compiler(folder: Path, status: int, patch: pytest.MonkeyPatch) -> str:
    """Put a compiler on PATH that finds every header, or none."""
    command = folder / "aarch64-linux-gnu-gcc"
    command.write_text(f"#!/bin/sh\nexit {status}\n")
    command.chmod(0o755)
    patch.setenv("PATH", str(folder))
    return str(command)


def test_a_compiler_with_a_c_library_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = with_compiler(tmp_path, 0, monkeypatch)
    assert compiler_command(AARCH64) == (command,)
    assert compiler_command(AARCH64.changed(Build, compiler="gcc")) == (command,)
    assert tool_prefix(AARCH64) == "aarch64-linux-gnu-"
    assert tool_prefix(Recipe()) == ""


def test_missing_headers_or_compiler_are_errors_with_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_compiler(tmp_path, 1, monkeypatch)
    with pytest.raises(UnavailableError, match="The C library's headers for") as caught:
        check_compiler(AARCH64)
    assert caught.value.hint == "Install them: sudo apt-get install libc6-dev-arm64-cross"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(
        UnavailableError, match="Compiling for arm64 needs the command 'aarch64-linux-gnu-gcc'"
    ) as caught:
        check_compiler(AARCH64)
    assert caught.value.hint == "Install it: sudo apt-get install gcc-aarch64-linux-gnu"


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(architecture="vax"), "Swapstone has no compiler for vax."),
        (
            Recipe(architecture="aarch64", pieces=(Build(compiler="tcc"),)),
            "Swapstone can't compile for glibc on arm64 with tcc.",
        ),
        (
            Recipe(architecture="aarch64", pieces=(Build(allocator="tcmalloc"),)),
            "tcmalloc is written in C++, and Swapstone builds allocators in C only for arm64.",
        ),
    ],
)
def test_what_there_is_not_is_unavailable(recipe: Recipe, words: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        resolve_recipe(recipe)
    assert caught.value.message == words


def test_a_missing_clang_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_compiler(tmp_path, 0, monkeypatch)
    with pytest.raises(UnavailableError, match="arm64 with clang needs the command 'clang'") as caught:
        check_compiler(AARCH64.changed(Build, compiler="clang"))
    assert caught.value.hint == "Install it: sudo apt-get install clang"


def test_cpp_for_musl_of_another_architecture_is_unavailable() -> None:
    recipe = Recipe(architecture="aarch64", pieces=(Build(libc="musl", command=("x",)),))
    with pytest.raises(UnavailableError, match="there is only g\\+\\+ for glibc"):
        cxx_command(recipe, needed=True)
    assert cxx_command(recipe, needed=False) == ()


def test_an_experiment_s_recipe_names_another_architecture_only() -> None:
    other, name = ("aarch64", "arm64") if HERE != "aarch64" else ("x86_64", "x86_64")
    assert base_recipe(name).architecture == other
    assert base_recipe("") == BASE_RECIPE
    assert base_recipe("arm64" if HERE == "aarch64" else HERE) == BASE_RECIPE


@pytest.mark.skipif(HERE != "x86_64", reason="the compiler is a foreign one on x86_64")
def test_the_loader_of_a_foreign_program_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text("int _start(void) { return 0; }\n")
    loader = "-Wl,--dynamic-linker=/lib/ld-linux-aarch64.so.1"
    flags = ("-nostdlib", "-pie", "-fPIE", loader, "-o", "p", "p.c")
    subprocess.run(["aarch64-linux-gnu-gcc", *flags], cwd=tmp_path, check=True, timeout=60)
    facts = read_facts(tmp_path / "p")
    assert facts is not None
    assert (facts.machine, facts.interp) == ("EM_AARCH64", "/lib/ld-linux-aarch64.so.1")
    assert loader_version(tmp_path / "p") is None


@pytest.mark.skipif(HERE != "x86_64" or not HEADERS.exists(), reason="libc6-dev-arm64-cross is not installed")
def test_a_workload_is_built_for_it_and_shows_its_c_library() -> None:
    recipe = resolve_recipe(msgspec.structs.replace(BASE_RECIPE, architecture="aarch64"))
    built = build_workload(find_workload("throughput", "syscall"), recipe)
    assert built.facts is not None
    assert built.facts.machine == "EM_AARCH64"
    libc = find_factor("libc")
    assert libc.observe(Evidence(interp=built.facts.interp, objects=(), program=built.facts)) == "glibc"
