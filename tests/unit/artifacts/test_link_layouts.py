# SPDX-License-Identifier: MIT OR Apache-2.0
"""Other layouts of the same code, with real compilers and the real linker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.core.factors import recipe_of
from swapstone.core.model import Variant
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts.link_layouts import SECTIONS_FLAG, environment_padding, shuffle_objects
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_layouts
from swapstone.parts.build.build import Build

NAMES = [f"function_{number}" for number in range(12)]


def _order(folder: Path, seed: str) -> list[str]:
    """Compile twelve functions in two objects, shuffle, link, and return their names by address."""
    folder.mkdir()
    objects = []
    for half in (0, 1):
        text = "".join(
            f"__attribute__((noinline)) int {name}(int x) {{ return x * {n + 2}; }}\n"
            for n, name in enumerate(NAMES)
            if n % 2 == half
        )
        main = "int main(void) { return 0; }\n" if half else ""
        source, made = folder / f"half{half}.c", folder / f"half{half}.o"
        source.write_text(text + main)
        recipe = resolve_recipe(BASE_RECIPE.changed(Build, cflags=(*BASE_RECIPE.of(Build).cflags, SECTIONS_FLAG)))
        flags = [flag for flag in recipe.of(Build).cflags if flag not in {"-Werror"}]
        subprocess.run([*recipe.of(Build).command, *flags, "-c", str(source), "-o", str(made)], check=True)
        objects.append(str(made))
    linked = shuffle_objects(
        objects, folder, seed, lambda arguments: subprocess.run(["cc", *arguments], check=True, capture_output=True)
    )
    subprocess.run(["cc", *linked, "-o", str(folder / "program")], check=True)
    listed = subprocess.run(["nm", "-n", str(folder / "program")], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in listed.splitlines() if "function_" in line]


@pytest.mark.slow
def test_functions_of_all_objects_are_shuffled(tmp_path: Path) -> None:
    orders = [_order(tmp_path / str(turn), str(turn)) for turn in range(3)]
    assert all(sorted(order) == sorted(NAMES) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert _order(tmp_path / "again", "0") == orders[0]
    # Not object by object: functions of both halves are mixed.
    halves = ["".join(str(int(name.removeprefix("function_")) % 2) for name in order) for order in orders]
    assert any("01" in half and "10" in half for half in halves)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["glibc", "musl"])
def test_links_of_a_workload_do_the_same_work(level: str) -> None:
    workload = find_workload("libc", "b_regex_search#2")
    recipe = resolve_recipe(recipe_of(Variant(levels=(("libc", level),)), BASE_RECIPE))
    programs = build_layouts(workload, recipe, ("first", "second", "first"))
    assert programs[0].path == programs[2].path
    assert programs[0].sha256 != programs[1].sha256
    outputs = [
        subprocess.run([str(each.path), "1", "2"], capture_output=True, text=True, check=True).stdout
        for each in programs
    ]
    checks = {line for text in outputs for line in text.splitlines() if line.startswith("check ")}
    assert len(checks) == 1


def test_the_environment_is_padded_differently() -> None:
    padded = {environment_padding(str(seed)) for seed in range(20)}
    assert {name for name, _ in padded} == {"SWAPSTONE_LAYOUT"}
    lengths = {len(value) for _, value in padded}
    assert len(lengths) > 15 and max(lengths) < 4096
    assert environment_padding("1") == environment_padding("1")
