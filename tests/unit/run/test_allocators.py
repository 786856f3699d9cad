# SPDX-License-Identifier: MIT OR Apache-2.0
"""Allocators in measured processes: the requested one is observed, and any other is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Recipe
from swapstone.core.model import Status, UnavailableError, Variant
from swapstone.core.run.prepare import equally_large
from swapstone.core.run.subject import Judgement, whole_environment
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.run.variant_program import Program
from swapstone.core.targets.host import HostTarget
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts.allocators import EXCLUDED
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.upstream_sources import fetch, read_lock, unpack
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from swapstone.parts.build.build import Build
from tests.programs import require
from tests.unit.builders import trial_spec
from tests.unit.factors.test_allocator import compiled

LIBCS = {"glibc": "cc", "musl": "musl-gcc"}

# A whole allocator that never gives anything back.
BUMP = """
#include <stddef.h>
#include <string.h>
#include <errno.h>
static char room[1 << 26] __attribute__((aligned(4096)));
static size_t used;
void *memalign(size_t align, size_t size) {
    size_t at, next;
    do {
        at = __atomic_load_n(&used, __ATOMIC_RELAXED);
        next = ((at + 16 + align - 1) & ~(align - 1)) + size;
        if (next > sizeof room) { errno = ENOMEM; return 0; }
    } while (!__atomic_compare_exchange_n(&used, &at, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    char *block = room + next - size;
    memcpy(block - sizeof size, &size, sizeof size);
    return block;
}
void *malloc(size_t size) { return memalign(16, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **to, size_t align, size_t size) { *to = memalign(align, size); return *to ? 0 : ENOMEM; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void free(void *block) { (void)block; }
void *realloc(void *old, size_t size) {
    size_t before = 0;
    void *block = malloc(size);
    if (old) memcpy(&before, (char *)old - sizeof before, sizeof before);
    if (old && block) memcpy(block, old, before < size ? before : size);
    return block;
}
"""
PLAIN = ("-O1", "-fno-builtin", "-shared", "-fPIC")


@pytest.fixture
def host() -> Iterator[HostTarget]:
    with HostTarget() as target:
        yield target


def ran(host: HostTarget, recipe: Recipe, level: str, name: str = "b_string_strlen") -> Judgement:
    """Build a workload by a recipe, run it once, and judge it as an experiment would that had asked for a level."""
    workload = find_workload("libc", name)
    variant = Variant(levels=(("allocator", level),))
    built = build_workload(workload, recipe)
    program = Program(host.put(built.path), recipe, None, built.facts)
    spec = trial_spec(variant, program, scratch=host.scratch(), cpus=host.describe().cpus)
    return subject_of(workload).run(spec, host).judgement


def recipe_for(libc: str, allocator: str = "default", linking: str = "dynamic") -> Recipe:
    recipe = resolve_recipe(BASE_RECIPE.changed(Build, libc=libc, allocator=allocator, linking=linking))
    if linking == "static" and "-static" not in recipe.of(Build).ldflags:
        recipe = recipe.changed(Build, ldflags=("-static", *recipe.of(Build).ldflags))
    return recipe


@pytest.mark.parametrize("libc", LIBCS)
@pytest.mark.parametrize("linking", ["dynamic", "static"])
def test_the_default_is_seen(libc: str, linking: str, host: HostTarget) -> None:
    recipe = recipe_for(libc, linking=linking)
    assert ran(host, recipe, "default").status is Status.OK
    other = ran(host, recipe, "mimalloc")
    assert (other.status, other.observed) == (Status.REFUSED, (("allocator", "default"),))
    assert other.reason == "allocator=mimalloc was requested, but default was in force in the process that ran"


@pytest.mark.parametrize("libc", LIBCS)
def test_an_object_of_the_users_is_seen_by_its_path(libc: str, host: HostTarget, tmp_path: Path) -> None:
    path = str(compiled(tmp_path, "bump.so", BUMP, *PLAIN, compiler=LIBCS[libc]))
    recipe = recipe_for(libc, path)
    outcome = ran(host, recipe, path)
    assert (outcome.status, outcome.observed) == (Status.OK, (("allocator", path),))
    other = ran(host, recipe, "default")
    assert other.status is Status.REFUSED
    assert f"an unknown allocator in {path} was in force" in other.reason


@pytest.mark.parametrize("libc", LIBCS)
def test_a_preload_that_does_not_take_is_refused(libc: str, host: HostTarget, tmp_path: Path) -> None:
    nothing = compiled(tmp_path, "nothing.so", "int nothing;\n", *PLAIN, compiler=LIBCS[libc])
    for path in (nothing, tmp_path / "absent.so"):
        recipe = msgspec.structs.replace(recipe_for(libc), preload=(str(path),))
        outcome = ran(host, recipe, "mimalloc")
        assert (outcome.status, outcome.observed) == (Status.REFUSED, (("allocator", "default"),))


def test_two_allocators_in_one_process_are_refused(host: HostTarget, tmp_path: Path) -> None:
    mine = compiled(tmp_path, "bump.so", BUMP, *PLAIN)
    sign = "void *mi_malloc(unsigned long size) { return 0; }\n"
    other = compiled(tmp_path, "other.so", BUMP + sign, *PLAIN)
    outcome = ran(host, msgspec.structs.replace(recipe_for("glibc"), preload=(str(other), str(mine))), "mimalloc")
    assert outcome.status is Status.REFUSED
    assert outcome.observed == (("allocator", f"mimalloc beside an unknown allocator in {mine}"),)


def test_environments_areequally_large_and_name_no_preload_without_one() -> None:
    base = msgspec.structs.replace(BASE_RECIPE, environment=(("A", "b"),))
    recipes = {
        "default": base,
        "short": msgspec.structs.replace(base, preload=("/a.so",)),
        "long": msgspec.structs.replace(base, preload=("/a/longer/path.so",)),
    }
    found = {label: whole_environment(recipe)[-1] for label, recipe in equally_large(recipes).items()}
    assert found == {
        "default": ("NO_PRELOAD", ":" * 17),
        "short": ("LD_PRELOAD", "/a.so" + ":" * 12),
        "long": ("LD_PRELOAD", "/a/longer/path.so"),
    }
    alone = equally_large({"default": base})
    assert whole_environment(alone["default"]) == (("A", "b"),)


SERVED = [
    # Each with glibc, and the smallest with musl: building all takes minutes.
    pytest.param(name, libc, marks=[pytest.mark.exhaustive] if libc == "musl" and name != "mimalloc" else [])
    for name in ("mimalloc", "jemalloc", "tcmalloc", "snmalloc")
    for libc in LIBCS
]


@pytest.mark.slow
@pytest.mark.parametrize(("allocator", "libc"), SERVED)
def test_every_allocator_serves_preloaded_and_linked_in(allocator: str, libc: str, host: HostTarget) -> None:
    if (allocator, libc) in EXCLUDED:
        pytest.skip(EXCLUDED[allocator, libc])
    if allocator == "snmalloc":
        require("cargo")
    for linking in ("dynamic", "static"):
        recipe = recipe_for(libc, allocator, linking)
        assert bool(recipe.preload) == (linking == "dynamic")
        for name in ("b_malloc_tiny2", "b_malloc_thread_stress", "b_malloc_big1"):
            outcome = ran(host, recipe, allocator, name)
            assert (outcome.status, outcome.observed) == (Status.OK, (("allocator", allocator),)), outcome.reason
        assert ran(host, recipe, "default").status is Status.REFUSED


@pytest.mark.slow
@pytest.mark.exhaustive  # builds as long as that goes well
@pytest.mark.parametrize(("allocator", "libc"), EXCLUDED)
def test_what_is_excluded_really_does_not_build(allocator: str, libc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = EXCLUDED[allocator, libc].split("`")[1]
    monkeypatch.delitem(EXCLUDED, (allocator, libc))
    with pytest.raises(UnavailableError, match="can't be built") as caught:
        recipe_for(libc, allocator)
    assert reason in Path(caught.value.hint.removeprefix("The log: ")).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("libc", LIBCS)
def test_an_allocator_that_is_linked_in_without_its_malloc_is_refused(
    libc: str, host: HostTarget, tmp_path: Path
) -> None:
    folder = unpack(fetch(read_lock()["mimalloc"]), tmp_path)
    target = tmp_path / "broken.o"
    flags = ("-O1", "-DNDEBUG", "-fPIC", "-ftls-model=initial-exec", "-I", folder / "include")
    subprocess.run([LIBCS[libc], *flags, "-c", folder / "src/static.c", "-o", target], check=True, timeout=300)
    plain = recipe_for(libc, linking="static")
    broken = plain.changed(Build, ldflags=(*plain.of(Build).ldflags, str(target)))
    outcome = ran(host, broken, "mimalloc")
    assert (outcome.status, outcome.observed) == (Status.REFUSED, (("allocator", "default"),))
    preloaded = recipe_for(libc, "mimalloc")
    object_ = tmp_path / "broken.so"
    subprocess.run([LIBCS[libc], "-shared", "-o", object_, target], check=True, timeout=60)
    outcome = ran(host, msgspec.structs.replace(preloaded, preload=(str(object_),)), "mimalloc")
    assert (outcome.status, outcome.observed) == (Status.REFUSED, (("allocator", "default"),))
