# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build and run workloads in tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Container
from pathlib import Path
from typing import TypeVar

import pytest

from swapstone.core.factors import Recipe, recipe_of
from swapstone.core.model import Variant, Workload
from swapstone.core.model.directories import share_dir
from swapstone.core.workloads import all_suites
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, inputs_of
from swapstone.parts.build.build import Build

_Item = TypeVar("_Item")
SOURCES = share_dir() / "native" / "workloads"
LEVELS = ("glibc", "musl")
ENVIRONMENT = dict(BASE_RECIPE.environment)
REPORT = re.compile(
    r"swapstone-workload 2\n"
    r"name (?P<name>[!-~]+)\n"
    r"ops (?P<ops>[1-9]\d*)\n"
    r"passes (?P<passes>\d+)\n"
    r"(?P<lines>(?:pass [1-9]\d*(?: \d+){6}\n)+)"
    r"memory (?P<virt>\d+) (?P<res>\d+) (?P<dirty>\d+)\n"
    r"malloc (?P<malloc>[!-~]+)\n"
    r"(?P<mapped>(?:mapped [!-~]+\n)+)"
    r"check (?P<check>[0-9a-f]{16})\n"
    r"end\n"
)


def sampled(items: Collection[_Item], kind: Callable[[_Item], object], quick: Container[_Item]) -> list[object]:
    """Return parameters of a test: `./test` runs the first one of each kind, `--exhaustive` all.

    Args:
        items: names or workloads.
        kind: what makes one item stand for another.
        quick: those of the short tests; each stands for its kind.
    """
    seen = {kind(item) for item in items if item in quick}
    parameters: list[object] = []
    for item in items:
        marks = [] if item in quick else [pytest.mark.slow]
        if item not in quick and kind(item) in seen:
            marks.append(pytest.mark.exhaustive)
        seen.add(kind(item))
        parameters.append(pytest.param(item, marks=marks))
    return parameters


def kind_of_program(workload: Workload) -> object:
    """Return what decides how a workload is built and prepared; its suite decides what it does."""
    suite = next(suite.name for suite in all_suites() if workload in suite.workloads)
    return (suite, inputs_of(workload))


class Programs:
    """Programs built into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def compile(self, level: str, *arguments: str | Path) -> None:
        """Call a level's compiler with the flags of every program."""
        recipe = recipe_for(level)
        subprocess.run(
            [*recipe.of(Build).command, *recipe.of(Build).cflags, *map(str, arguments)], check=True, timeout=60
        )

    def build_text(self, level: str, text: str) -> Path:
        """Build a workload whose source is given, with the harness."""
        harness, source, target = self._folder / f"{level}.o", self._folder / "text.c", self._folder / "text"
        if not harness.exists():
            self.compile(level, "-c", SOURCES / "harness.c", "-o", harness)
        source.write_text('#include "harness.h"\n' + text)
        self.compile(level, "-I", SOURCES, source, harness, "-o", target, *recipe_for(level).of(Build).ldflags)
        return target


def recipe_for(level: str, **levels: str) -> Recipe:
    """Return the recipe of a C library, and of levels of other factors."""
    return resolve_recipe(recipe_of(Variant(levels=(("libc", level), *levels.items())), BASE_RECIPE))


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(program), *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
