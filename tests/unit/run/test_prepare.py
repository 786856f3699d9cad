# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is checked and refused before the first trial: levels, machines, workloads of which one side can't be built."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
import pytest

from swapstone.core.model import Experiment, FactorLevels, UnavailableError, UserError, Variant
from swapstone.core.run import prepare as module
from swapstone.core.targets import Target
from swapstone.parts.build.artifacts import builder
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.build.build import Build
from tests.unit import builders

BASE: Any = BASE_RECIPE
prepare: Any = module  # stand-ins are passed to it

GLIBC, MUSL, OTHER, AGAIN = "libc=glibc", "libc=musl", "libc=other", "libc=glibc (again)"


def variants(*labels: str) -> dict[str, Variant]:
    return {label: builders.variant(label) for label in labels}


def refused_after(
    *broken: str, labels: tuple[str, ...] = (GLIBC, AGAIN, MUSL, OTHER)
) -> tuple[dict[str, str], set[str]]:
    """Return why each variant of one workload is refused if some can't be built, and the variants that keep their program."""
    programs: dict[Any, Any] = {("s", "w", label): object() for label in labels if label not in broken}
    programs[("s", "v", GLIBC)] = object()
    refused = {("s", "w", label): f"why {label}" for label in broken}
    prepare.refuse_incomparable([("s", "w")], variants(*labels), programs, refused)
    assert programs.pop(("s", "v", GLIBC))
    return {label: why for (_, _, label), why in refused.items()}, {label for _, _, label in programs}


def test_a_workload_without_its_baseline_is_refused_on_all_variants() -> None:
    refused, left = refused_after(GLIBC)
    because = f"the baseline {GLIBC} can't be built: why {GLIBC}"
    assert refused == {GLIBC: f"why {GLIBC}", AGAIN: because, MUSL: because, OTHER: because}
    assert left == set()


def test_a_workload_without_any_candidate_is_refused_on_all_variants() -> None:
    refused, left = refused_after(MUSL, OTHER)
    because = f"no candidate can be built: {MUSL}: why {MUSL}"
    assert refused == {MUSL: f"why {MUSL}", OTHER: f"why {OTHER}", GLIBC: because, AGAIN: because}
    assert left == set()


def test_a_workload_without_any_side_is_refused_because_of_its_baseline() -> None:
    refused, left = refused_after(GLIBC, MUSL, OTHER)
    because = f"the baseline {GLIBC} can't be built: why {GLIBC}"
    assert refused == {**{label: f"why {label}" for label in (GLIBC, MUSL, OTHER)}, AGAIN: because}
    assert left == set()


@pytest.mark.parametrize("broken", [(), (MUSL,), (OTHER,), (AGAIN,)])
def test_a_workload_with_a_baseline_and_a_candidate_is_kept(broken: tuple[str, ...]) -> None:
    refused, left = refused_after(*broken)
    assert refused == {label: f"why {label}" for label in broken}
    assert left == {GLIBC, AGAIN, MUSL, OTHER} - {*broken}


def test_a_baseline_alone_is_kept() -> None:
    assert refused_after(labels=(GLIBC, AGAIN)) == ({}, {GLIBC, AGAIN})


def test_the_baseline_decides_whether_a_workload_runs() -> None:
    made = prepare.Prepared({}, variants(GLIBC, MUSL), {}, {("s", "w", GLIBC): "why", ("s", "v", MUSL): "why"})
    assert [made.runs("s", name) for name in ("w", "v", "u")] == [False, True, True]


@pytest.mark.parametrize(
    ("varied", "linking", "names"),
    [
        (False, "dynamic", ["empty (dynamic)", "empty (static)"]),
        (True, "dynamic", ["empty"]),
        (False, "static", ["empty"]),
        (True, "static", ["empty"]),
    ],
)
def test_empty_programs_are_linked_as_the_variants_are(
    monkeypatch: pytest.MonkeyPatch, *, varied: bool, linking: str, names: list[str]
) -> None:
    label = "libc=glibc,linking=dynamic" if varied else GLIBC
    monkeypatch.setattr(builder, "build_empty", lambda program, recipe: (program.name, recipe.of(Build).linking))
    monkeypatch.setattr(builder, "artifact_of", lambda suite, program, variant, built: (suite, variant.label, built))
    known = {label: BASE.changed(Build, linking=linking), f"{label} (again)": BASE}
    every = [builders.variant(each) for each in (label, f"{label} (again)", "libc=unresolved")]
    assert list(builder.BUILDER.empty_programs(every, known)) == [("size", label, (name, linking)) for name in names]  # type: ignore[comparison-overlap]


def test_an_empty_program_that_can_not_be_linked_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(program: Any, _: object) -> str:
        if "static" in program.name:
            raise UserError("no static library", "")
        return str(program.name)

    monkeypatch.setattr(builder, "build_empty", build)
    monkeypatch.setattr(builder, "artifact_of", lambda *parts: parts[3])
    assert list(builder.BUILDER.empty_programs([builders.variant(GLIBC)], {GLIBC: BASE})) == ["empty (dynamic)"]  # type: ignore[comparison-overlap]


# Machines and levels


def target(*offers: str) -> Any:
    return SimpleNamespace(name="host", offers=frozenset(offers), check_experiment=lambda *_: None)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({}, None),
        ({"loads": ("idle", "cpu")}, "the load cpu"),
        ({"factors": (FactorLevels(factor="kernel", levels=("a", "b")),), "loads": ("cpu",)}, "the factor kernel"),
        ({"held": (("kernel", "a"),)}, "the factor kernel"),
    ],
)
def test_a_target_that_boots_nothing_has_no_factor_of_the_boot_and_no_load(
    changes: dict[str, object], needs: str | None
) -> None:
    asked = builders.experiment(**changes)
    prepare.check_machine(asked, target("boots"))
    if needs is None:
        prepare.check_machine(asked, target())
        return
    with pytest.raises(UnavailableError) as caught:
        prepare.check_machine(asked, target())
    assert caught.value.message == f"The target host starts no machine of its own, and {needs} needs one."
    other = ", or on a board of a lab whose strategy boots kernels: --target labgrid:PLACE"
    assert caught.value.hint == "Measure on --target vm" + (other if "kernel" in needs else ".")


def test_a_shared_machine_runs_loads_and_a_board_of_a_lab_boots_kernels() -> None:
    loaded = builders.experiment(loads=("idle", "cpu"))
    prepare.check_machine(loaded, target("runs_loads"))
    other = builders.experiment(loads=("idle", "nonsense"))
    with pytest.raises(UnavailableError, match="the load nonsense needs one"):
        prepare.check_machine(other, target("runs_loads"))
    kernels = builders.experiment(factors=(FactorLevels(factor="kernel", levels=("./a", "./b")),))
    prepare.check_machine(kernels, target("reboots"))
    named = builders.experiment(factors=(FactorLevels(factor="kernel", levels=("generic", "rt")),))
    prepare.check_machine(named, target("reboots"))  # images of a lab's environment
    for level, why in (("none", "can't boot none: it needs boot"), ("./a+quiet", "its boot loader has its own")):
        named = builders.experiment(factors=(FactorLevels(factor="kernel", levels=("./a", level)),))
        with pytest.raises(UnavailableError, match=why):
            prepare.check_machine(named, target("reboots"))


def test_a_board_of_a_lab_boots_roots_that_are_files(tmp_path: Path) -> None:
    (tmp_path / "root.img").write_text("")
    roots = builders.experiment(factors=(FactorLevels(factor="rootfs", levels=("musl", f"{tmp_path}/root.img")),))
    prepare.check_machine(roots, target("reboots"))
    folder = builders.experiment(factors=(FactorLevels(factor="rootfs", levels=("musl", str(tmp_path))),))
    with pytest.raises(UnavailableError, match="it is a folder, and a strategy deploys files"):
        prepare.check_machine(folder, target("reboots"))


def _swaps(*levels: str) -> Experiment:
    return builders.experiment(factors=(FactorLevels(factor="swap", levels=levels),))


def test_swap_devices_of_a_board_are_not_those_of_a_virtual_machine() -> None:
    prepare.check_machine(_swaps("none", "file", "zram:842"), target("sets_swap"))
    prepare.check_machine(_swaps("none", "file", "zram:842"), target("sets_swap", "reboots"))
    prepare.check_machine(_swaps("flash", "flash:3", "zram:842"), target("boots"))
    with pytest.raises(UnavailableError, match="has no swap device flash:3") as caught:
        prepare.check_machine(_swaps("file", "flash:3"), target("sets_swap"))
    assert caught.value.hint.startswith("Name levels of boards: swap=file,zram:lzo-rle")
    for level in ("none", "file"):
        with pytest.raises(UnavailableError, match=f"has no swap device {level}") as caught:
            prepare.check_machine(_swaps("flash", level), target("boots"))
        assert caught.value.hint == "Measure on a board: --target ssh:root@BOARD"
    with pytest.raises(UnavailableError, match="the factor swap needs one"):
        prepare.check_machine(_swaps("flash", "zram:lz4"), target())


def test_an_open_board_sets_each_swap_device_before_anything_is_built() -> None:
    board = mock.create_autospec(Target, instance=True, offers=frozenset({"sets_swap"}))
    board.name = "ssh"
    prepare.check_machine(_swaps("file", "none"), board)
    board.try_levels.assert_called_once_with("swap", ("file", "none"))
    prepare.check_machine(builders.experiment(), board)
    board.try_levels.assert_called_once()


@pytest.mark.parametrize(
    ("offers", "subjects", "has"),
    [
        (("shares_files",), (False,), True),
        (("carries_files",), (True, True), True),
        (("carries_files",), (True, False), False),
        ((), (True,), False),
    ],
)
def test_files_of_the_machine_are_shared_or_carried_for_each_subject(
    offers: tuple[str, ...], subjects: tuple[bool, ...], has: bool
) -> None:
    every = [SimpleNamespace(carries_files=each) for each in subjects]
    assert prepare.has_files_for(every, target(*offers)) == has


@pytest.mark.parametrize("builds", [True, False])
def test_each_subject_and_each_recipe_is_checked_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, *, builds: bool
) -> None:
    asked: list[object] = []

    def subject(name: str) -> Any:
        return SimpleNamespace(
            check=lambda experiment, place: asked.append((name, experiment.name, place.name)),
            programs=lambda *_: (),
            needs_compiler=False,
            workload=SimpleNamespace(bare=True),
            carries_files=False,
        )

    def check(_: object, *, preloads: bool) -> None:
        asked.append(preloads)

    monkeypatch.setattr(prepare, "subjects_of", lambda _: {"a": subject("a"), "b": subject("b")})
    monkeypatch.setattr(builder.BUILDER, "check_recipe", check)
    for offers, found in (
        ((), False),
        (("takes_libraries",), True),
        (("shares_files",), True),
    ):
        asked.clear()
        prepare.check_levels(builders.experiment(), target(*offers, *(["runs_programs"] * builds)))
        assert asked == [("a", "compare", "host"), ("b", "compare", "host"), *([found] * 2 * builds)]


@pytest.mark.parametrize(
    ("impossible", "named"),
    [((), None), (("musl",), None), (("other",), None), (("musl", "other"), "libc=musl"), (("glibc",), "libc=glibc")],
)
def test_an_experiment_needs_its_baseline_and_a_candidate(
    monkeypatch: pytest.MonkeyPatch, impossible: tuple[str, ...], named: str | None
) -> None:
    asked = builders.experiment(factors=(FactorLevels(factor="libc", levels=("glibc", "musl", "other")),))

    def check(recipe: Any) -> None:
        if recipe.libc in impossible:
            raise UnavailableError("it is impossible.", "a hint")

    monkeypatch.setattr(prepare, "recipe_of", lambda variant, _: SimpleNamespace(libc=dict(variant.levels)["libc"]))
    if named is None:
        prepare.check_variants(asked, BASE, (), check)
        alone = builders.experiment(factors=(FactorLevels(factor="libc", levels=("glibc",)),))
        prepare.check_variants(alone, BASE, (), check)
        return
    with pytest.raises(UnavailableError) as caught:
        prepare.check_variants(asked, BASE, (), check)
    assert (caught.value.message, caught.value.hint) == (f"{named}: it is impossible.", "a hint")


def test_the_compiler_is_checked_for_each_subject_that_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(recipe: Any) -> None:
        if recipe == "bad":
            raise UnavailableError("no compiler.", "install it")

    monkeypatch.setattr(prepare, "recipe_of", lambda variant, base: base)
    monkeypatch.setattr(builder.BUILDER, "check_compiler", check)
    subjects = [SimpleNamespace(base_recipe=lambda *_, each=each: each) for each in ("good", "bad")]
    variant = builders.variant(GLIBC)
    monkeypatch.setattr(prepare.plan, "run_variants", lambda _: (variant,))
    prepare.check_variants(builders.experiment(), BASE, subjects[:1], lambda _: None)
    with pytest.raises(UnavailableError) as caught:
        prepare.check_variants(builders.experiment(), BASE, subjects, lambda _: None)
    assert (caught.value.message, caught.value.hint) == (f"{GLIBC}: no compiler.", "install it")


# Recipes


def test_the_recipe_of_this_machine_is_the_plain_one() -> None:
    assert builder.base_recipe("") is BASE
    other = "arm64" if os.uname().machine == "x86_64" else "x86_64"
    assert builder.base_recipe(other) == msgspec.structs.replace(
        BASE, architecture={"arm64": "aarch64"}.get(other, other)
    )


def test_lists_of_preloaded_objects_have_equally_much_room() -> None:
    one, two = (msgspec.structs.replace(BASE, preload=each) for each in (("/a", "/bc"), ()))
    found = module.equally_large({"one": one, "two": two})
    assert {name: each.preload_bytes for name, each in found.items()} == {"one": 6, "two": 6}
    assert module.equally_large({}) == {}


def resolved(*, has_files: bool = True) -> tuple[Any, list[str]]:
    """Return the recipes of three variants, of which one can't be resolved, and the notes."""
    notes: list[str] = []
    labels = ("libc=glibc", "libc=musl", "libc=musl (again)")

    def resolve(recipe: Any) -> Any:
        if recipe.of(Build).libc == "musl":
            raise UserError("no musl.", "install it")
        return msgspec.structs.replace(recipe, preload=("/lib/a.so",))

    made = module.VariantRecipes(
        BASE,
        [builders.variant(label) for label in labels],
        SimpleNamespace(put_library=lambda path, keep_path: f"{Path(path).name} {keep_path}", offers=frozenset()),  # type: ignore[arg-type]
        resolve,
        notes.append,
        has_files=has_files,
    )
    return made, notes


def test_a_variant_that_can_not_be_resolved_is_noted_once() -> None:
    made, notes = resolved()
    subject: Any = SimpleNamespace(base_recipe=lambda variant, base: base)
    for _ in range(2):
        made.resolve([subject], with_default=False)
    assert notes == ["left out: libc=musl: no musl. install it"]
    assert set(made.by_label(subject)) == set(made.default()) == {"libc=glibc"}
    assert made.impossible(subject, builders.variant("libc=musl")) == "no musl. install it"


@pytest.mark.parametrize("has_files", [True, False])
def test_a_target_without_the_files_gets_the_preloaded_objects(*, has_files: bool) -> None:
    made, _ = resolved(has_files=has_files)
    made.resolve([], with_default=True)
    (recipe,) = made.default().values()
    assert recipe.preload == (("/lib/a.so",) if has_files else ("a.so False",))


def test_recipes_of_other_bases_are_not_the_default_ones() -> None:
    made, notes = resolved()
    other = BASE.changed(Build, command=("other",))
    subject: Any = SimpleNamespace(base_recipe=lambda variant, base: other)
    made.resolve([subject], with_default=False)
    assert made.default() == {} and set(made.by_label(subject)) == {"libc=glibc"}
    made.resolve([subject], with_default=True)
    assert set(made.default()) == {"libc=glibc"}
    assert len(notes) == 1
