# SPDX-License-Identifier: MIT OR Apache-2.0
"""The compilers of the factor float: which combinations exist, and what is missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Evidence, Recipe
from swapstone.core.model import UnavailableError
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts import cross_compilers
from swapstone.parts.build.artifacts.recipe_resolution import check_recipe, resolve_recipe
from swapstone.parts.build.artifacts.toolchain import compiler_command, float_compiler, tool_prefix
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.build.factors.float_abi import FLOAT
from tests.programs import needs

GCC = ("arm-linux-gnueabi-gcc", "arm-linux-gnueabihf-gcc")
needs_gcc = needs(*GCC)


def recipe_of(level: str, architecture: str = "arm", **changes: str) -> Recipe:
    base = msgspec.structs.replace(BASE_RECIPE, architecture=architecture)
    return FLOAT.apply(level, base).changed(Build, **changes)


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"architecture": "aarch64"}, "for 32-bit ARM, not for aarch64", "--arch armhf"),
        ({"compiler": "clang"}, "gcc and glibc only, not clang and glibc", "Leave"),
        ({"libc": "musl"}, "gcc and glibc only, not cc and musl", "Leave"),
        ({"linking": "dynamic"}, "images have no loader of soft", "linking=static"),
        ({"allocator": "mimalloc"}, "built for one floating-point ABI only", "allocator"),
    ],
)
def test_a_combination_that_does_not_exist_is_refused(changes: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UnavailableError, match=message) as caught:
        check_recipe(recipe_of("soft", **changes))
    assert hint in caught.value.hint


def test_a_missing_compiler_is_named_with_its_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="'arm-linux-gnueabi-gcc'") as caught:
        float_compiler(recipe_of("softfp"))
    assert caught.value.hint.endswith("apt-get install gcc-arm-linux-gnueabi")


@pytest.mark.slow
@needs_gcc
def test_a_compiler_without_the_c_library_s_headers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_compilers, "preprocesses", lambda compiler, header: False)
    with pytest.raises(UnavailableError, match="headers for arm-linux-gnueabi-gcc are not installed") as caught:
        float_compiler(recipe_of("soft"))
    assert "libc6-dev-armel-cross" in caught.value.hint


@needs_gcc
def test_each_level_has_its_own_tools() -> None:
    for level in ("soft", "softfp", "hard"):
        recipe = recipe_of(level)
        prefix = "arm-linux-gnueabihf-" if level == "hard" else "arm-linux-gnueabi-"
        assert Path(compiler_command(recipe)[0]).name == f"{prefix}gcc"
        assert tool_prefix(recipe) == prefix


@pytest.mark.slow  # compiles a workload three times
@needs_gcc
def test_the_level_is_observed_in_what_the_compilers_build() -> None:
    for level in ("soft", "softfp", "hard"):
        built = build_workload(find_workload("float", "float_calls(exact)"), resolve_recipe(recipe_of(level)))
        assert built.facts is not None
        assert FLOAT.observe(Evidence(interp=None, objects=(), program=built.facts)) == level
        found = built.facts.of(BuildFacts).float_abi
        assert found is not None
        assert (found.arithmetic == 0, found.helpers == 0) == (level == "soft", level != "soft")


@pytest.mark.slow  # compiles a workload
@needs_gcc
def test_another_switch_in_the_flags_is_another_level() -> None:
    recipe = recipe_of("softfp")
    cflags = (
        *recipe.of(Build).cflags,
        "-mfloat-abi=soft",
    )  # the last one counts, as in a build that adds its own flags
    built = build_workload(
        find_workload("float", "float_dot(exact)"), resolve_recipe(recipe.changed(Build, cflags=cflags))
    )
    assert FLOAT.observe(Evidence(interp=None, objects=(), program=built.facts)) == "soft"
