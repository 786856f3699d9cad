# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C libraries that go to a board, and programs that are linked to use them from a folder there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Recipe, read_facts
from swapstone.core.model import UnavailableError
from swapstone.core.targets.agent_target import digest_of_files
from swapstone.parts.build.artifacts.builder import carried_c_library, linked_for_folder, needs_c_library
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.build.build import Build


def resolved(libc: str, architecture: str = "") -> Recipe:
    return resolve_recipe(msgspec.structs.replace(BASE_RECIPE, architecture=architecture).changed(Build, libc=libc))


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_a_program_runs_with_the_copies_in_a_folder(tmp_path: Path, libc: str) -> None:
    recipe = resolved(libc)
    loader, files = carried_c_library(recipe, lambda _: None)
    folder = tmp_path / "there"
    folder.mkdir()
    for name, path in files.items():
        shutil.copy(path, folder / name)
        (folder / name).chmod(0o700)
    linked = linked_for_folder(recipe, loader, str(folder))
    (tmp_path / "p.c").write_text(
        '#include <stdio.h>\nint main(void){int c;FILE*f=fopen("/proc/self/maps","r");while((c=getc(f))!=EOF)putchar(c);}'
    )
    command = [*linked.of(Build).command, str(tmp_path / "p.c"), "-o", str(tmp_path / "p"), *linked.of(Build).ldflags]
    subprocess.run(command, check=True)
    maps = subprocess.run([tmp_path / "p"], env={}, capture_output=True, text=True, check=True).stdout
    mapped = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert mapped and all(Path(path).parent == folder for path in mapped)
    facts = read_facts(folder / loader)
    assert facts is not None and facts.machine


def test_the_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    _, files = carried_c_library(resolved("glibc"), lambda _: None)
    other = tmp_path / "libc.so.6"
    other.write_bytes(b"other")
    changed = {**files, "libc.so.6": other}
    renamed = {f"{name}x": path for name, path in files.items()}
    assert len({digest_of_files(files), digest_of_files(changed), digest_of_files(renamed)}) == 3


def test_what_can_t_be_carried_is_unavailable() -> None:
    recipe = resolved("glibc")
    others = (
        recipe.changed(Build, libc="/a/folder"),
        recipe.changed(Build, float_abi="soft"),
        Recipe(architecture="sparc"),
    )
    for other in others:
        with pytest.raises(UnavailableError, match="can't be carried"):
            carried_c_library(other, lambda _: None)


def test_static_programs_and_those_that_are_not_built_need_none() -> None:
    recipe = resolved("glibc")
    assert needs_c_library(recipe)
    assert not needs_c_library(recipe.changed(Build, linking="static"))
    assert not needs_c_library(recipe.changed(Build, command=()))
