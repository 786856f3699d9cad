# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs are addressed by what went into them, relinked copies differ in layout alone, and tools name themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.artifacts.program_size import sizes_of
from swapstone.core.artifacts.tool_versions import loader_version
from swapstone.core.factors import ProgramFacts, read_facts, recipe_of
from swapstone.core.model import UnavailableError, UserError, Variant, Workload
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts import workload_build
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import (
    BASE_RECIPE,
    EMPTY_PROGRAMS,
    FACTS,
    build_empty,
    build_workload,
)
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts

GLIBC, MUSL = (
    resolve_recipe(recipe_of(Variant(levels=(("libc", level),)), BASE_RECIPE)) for level in ("glibc", "musl")
)
STRLEN = find_workload("libc", "b_string_strlen")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.slow
def test_equal_input_is_built_once_and_other_input_elsewhere() -> None:
    first = build_workload(STRLEN, GLIBC)
    stamp = first.path.stat().st_mtime_ns
    assert build_workload(STRLEN, GLIBC) == first
    assert first.path.stat().st_mtime_ns == stamp
    others = [
        build_workload(STRLEN, MUSL),
        build_workload(STRLEN, GLIBC, relinked=True),
        build_workload(STRLEN, GLIBC.changed(Build, cflags=(*GLIBC.of(Build).cflags, "-O3"))),
    ]
    paths = {first.path, *(built.path for built in others)}
    assert len(paths) == 4
    assert len({len(str(path)) for path in paths}) == 1  # the stack must not move with a variant's name


@pytest.mark.slow
def test_a_program_keeps_the_facts_of_its_file_before_it_was_stripped() -> None:
    variant = Variant(levels=(("libc", "glibc"), ("linking", "static")))
    for _ in range(2):  # built, and from the cache
        built = build_workload(STRLEN, resolve_recipe(recipe_of(variant, BASE_RECIPE)))
        assert built.facts is not None and built.facts.path == str(built.path.resolve())
        found = built.facts.of(BuildFacts)
        assert "malloc" in found.symbols and read_facts(built.path) != built.facts


@pytest.mark.slow
def test_versions_whose_facts_have_other_fields_share_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_workload(STRLEN, GLIBC)
    fields = {*ProgramFacts.__struct_fields__, *BuildFacts.__struct_fields__}
    assert fields < {words.partition(": ")[0] for words in workload_build.CACHE_VERSION}
    assert all(words.partition(": ")[2] for words in workload_build.CACHE_VERSION[1:]), "with their types"
    monkeypatch.setattr(workload_build, "CACHE_VERSION", (*workload_build.CACHE_VERSION, "another_field"))
    assert build_workload(STRLEN, GLIBC).path != first.path


@pytest.mark.slow
@pytest.mark.parametrize("facts", [b"", b'[{"machine":"x","another":1},{}]', b'{"path":""}', b"[" * 100_000])
def test_a_program_whose_facts_another_version_wrote_is_built_again(facts: bytes) -> None:
    first = build_workload(STRLEN, GLIBC)
    whole = (first.path.parent / FACTS).read_bytes()
    (first.path.parent / FACTS).write_bytes(facts)
    assert build_workload(STRLEN, GLIBC) == first
    assert (first.path.parent / FACTS).read_bytes() == whole


@pytest.mark.slow
def test_a_relinked_program_is_the_same_code_at_other_addresses() -> None:
    first, again = build_workload(STRLEN, GLIBC), build_workload(STRLEN, GLIBC, relinked=True)
    assert first.sha256 != again.sha256
    assert dict(again.sizes)["text"] > dict(first.sizes)["text"]
    assert first.sources == again.sources


@pytest.mark.slow
def test_the_manifest_has_every_source() -> None:
    names = {name for name, _ in build_workload(STRLEN, GLIBC).sources}
    assert {"b_string_strlen.c", "harness.c", "harness.h"} <= names


def test_a_program_that_does_not_compile_is_a_user_error_with_the_compilers_words() -> None:
    broken = GLIBC.changed(Build, cflags=(*GLIBC.of(Build).cflags, "-DWORKLOAD=nonsense"))
    with pytest.raises(UserError, match=r"(?s)Building with .* failed: ") as caught:
        build_workload(STRLEN, broken)
    assert "b_string_strlen.c" in caught.value.message


@pytest.mark.slow
def test_a_missing_compiler_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="needs the command 'no-such-cc', which is not installed"):
        build_workload(STRLEN, GLIBC.changed(Build, command=("no-such-cc",)))


@pytest.mark.slow
def test_companions_are_built_beside_the_program() -> None:
    built = build_workload(find_workload("libc-extra", "dlopen"), MUSL)
    assert (built.path.parent / "object.so").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "sign"), [(GLIBC, "GLIBC"), (MUSL, "musl libc")])
def test_the_loader_names_the_c_library_and_its_version(recipe: object, sign: str) -> None:
    found = loader_version(build_workload(STRLEN, recipe).path)  # type: ignore[arg-type] # parametrize has no types
    assert found is not None
    assert sign in found[1] and any(character.isdigit() for character in found[1])


@pytest.mark.slow
def test_static_programs_have_no_loader_and_are_larger(tmp_path: Path) -> None:
    def built(program: Workload) -> dict[str, int]:
        made = build_empty(program, GLIBC)
        assert (loader_version(made.path) is None) == ("static" in program.name)
        return dict(made.sizes)

    dynamic, static, _ = map(built, EMPTY_PROGRAMS)
    assert static["file"] > 10 * dynamic["file"]
    assert static["text"] + static["data"] <= static["file"]


def test_sizes_of_something_else_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"#!/bin/sh\n")
    with pytest.raises(UserError, match="not an ELF program"):
        sizes_of(path)
