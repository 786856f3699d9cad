# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linking, compiler and optimization: changes of the recipe, and levels observed in process and file."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.factors import Evidence, ProgramFacts, Recipe, find_level
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.build.factors.compiler import COMPILER
from swapstone.parts.build.factors.libc import LIBC
from swapstone.parts.build.factors.linking import LINKING
from swapstone.parts.build.factors.optimization import OPTIMIZATION

LOADER = "/lib64/ld-linux-x86-64.so.2"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libc.so.6"
PROGRAM = "/x/prog"
MUSL_ENTRY = "4831ed4889e7488d35c0efbfff4883e4f0e8070000000f1f80000000008b3748"
GLIBC_ENTRY = "31ed4989d15e4889e24883e4f050544531c031c948c7c7f014400067e88f1200"
GCC_COMMENT, CLANG_COMMENT = "GCC: (Debian 12.2.0-14) 12.2.0", "Debian clang version 14.0.6"
GCC_LINE = "GNU C17 12.2.0 -mtune=generic -march=x86-64 -O2 -std=gnu11"
CLANG_LINE = "/usr/lib/llvm-14/bin/clang -std=gnu11 -O2 -frecord-command-line -c a.c -o a.o"


def process(program: ProgramFacts | None = None, *others: str, interp: str | None = None) -> Evidence:
    """The evidence of a process with these program facts and mapped objects."""
    return Evidence(interp=interp, objects=(PROGRAM, *others), program=program)


def facts(*, machine: str = "", interp: str | None = None, needed: tuple[str, ...] = (), **of: object) -> ProgramFacts:
    built = msgspec.structs.replace(BuildFacts(), **of)
    return ProgramFacts(path=PROGRAM, machine=machine, interp=interp, needed=needed, pieces=(built,))


@pytest.mark.parametrize(
    ("evidence", "seen"),
    [
        (process(facts(interp=LOADER, needed=("libc.so.6",)), LOADER, LIBRARY, interp=LOADER), "dynamic"),
        (process(None, LOADER, LIBRARY, interp=LOADER), "dynamic"),
        (process(facts()), "static"),
        (process(facts(sections=(".dynamic",))), "static"),  # static-pie
        (process(None), "static"),
        (process(facts(), LIBRARY), "static with loaded objects"),
        (process(facts(), LIBRARY, interp=LOADER), "dynamic"),  # the started program executed another one
        (process(facts(needed=("libc.so.6",))), "dynamic"),
        (Evidence(interp=None, objects=(), program=facts()), None),  # the agent could not read the objects
    ],
)
def test_linking_is_identified_by_loader_and_objects(evidence: Evidence, seen: str | None) -> None:
    assert LINKING.observe(evidence) == seen


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        (facts(symbols=("__libc_setup_tls", "malloc")), "glibc"),
        (facts(symbols=("__init_libc", "malloc")), "musl"),
        (facts(symbols=("__init_libc", "__libc_setup_tls")), "glibc+musl"),
        (facts(sections=(".text", ".note.ABI-tag")), "glibc"),
        (facts(sections=("__libc_freeres_fn", "__libc_IO_vtables")), "glibc"),
        (facts(sections=(".text", ".note.gnu.build-id", ".comment")), None),
        (facts(machine="EM_X86_64", entry=MUSL_ENTRY), "musl"),
        (facts(machine="EM_X86_64", entry=MUSL_ENTRY, symbols=("__libc_setup_tls",)), "glibc+musl"),
        (facts(machine="EM_X86_64", entry=GLIBC_ENTRY), None),
        (facts(machine="EM_AARCH64", entry=MUSL_ENTRY), None),
        (facts(symbols=("malloc",)), None),
        (facts(), None),
    ],
)
def test_the_c_library_of_a_static_program_is_identified_by_its_file(program: ProgramFacts, seen: str | None) -> None:
    assert LIBC.observe(process(program)) == seen


def test_contradicting_loader_and_file_are_both_named() -> None:
    program = facts(interp=LOADER, symbols=("__init_libc",))
    assert LIBC.observe(process(program, LIBRARY, interp=LOADER)) == "glibc+musl"


@pytest.mark.parametrize(
    ("comments", "switches", "seen"),
    [
        ((GCC_COMMENT,), (), "gcc"),
        ((GCC_COMMENT, CLANG_COMMENT), (), "clang"),  # the start-up objects are gcc's
        ((CLANG_COMMENT,), (), "clang"),
        ((GCC_COMMENT,), (GCC_LINE,), "gcc"),
        ((GCC_COMMENT, CLANG_COMMENT), (CLANG_LINE,), "clang"),
        ((GCC_COMMENT, CLANG_COMMENT), (CLANG_LINE, GCC_LINE), "clang+gcc"),
        ((GCC_COMMENT, CLANG_COMMENT), (GCC_LINE,), "gcc"),  # clang compiled a library
        ((), ("clang -c -O1 a.c",), "clang"),
        (("Linker: LLD 14", "rustc version 1.63"), (), None),
        ((), (), None),
    ],
)
def test_the_compiler_is_identified_by_comments_and_switches(
    comments: tuple[str, ...], switches: tuple[str, ...], seen: str | None
) -> None:
    assert COMPILER.observe(process(facts(comments=comments, switches=switches))) == seen


@pytest.mark.parametrize(
    ("switches", "seen"),
    [
        ((GCC_LINE,), "O2"),
        ((GCC_LINE, CLANG_LINE), "O2"),
        (("GNU C17 12 -O2 -O0 -g",), "O0"),  # the last one counts
        (("GNU C17 12 -g",), "O0"),  # none: the compilers' default
        (("GNU C17 12 -O",), "O1"),
        (("GNU C17 12 -Os", "GNU C17 12 -O2"), "O2+Os"),
        (("GNU C17 12 -Ofast",), "Ofast"),
        (("/usr/bin/clang -Oz a.c",), "Oz"),
        (("-O2", "-g", "a.c"), None),  # gcc before 11: switches without their command
        ((), None),
    ],
)
def test_the_optimization_is_identified_by_recorded_command_lines(switches: tuple[str, ...], seen: str | None) -> None:
    assert OPTIMIZATION.observe(process(facts(comments=(GCC_COMMENT,), switches=switches))) == seen


@pytest.mark.parametrize("factor", [COMPILER, OPTIMIZATION])
def test_an_unreadable_program_file_leaves_the_level_unknown(factor: object) -> None:
    assert factor.observe(process(None, LIBRARY, interp=LOADER)) is None  # type: ignore[attr-defined] # both are factors


@pytest.mark.parametrize(
    ("cflags", "changed"),
    [
        (("-g", "-O2", "-Wall"), ("-g", "-Os", "-Wall", "-frecord-gcc-switches")),
        (("-O1", "-O2"), ("-Os", "-frecord-gcc-switches")),
        (("-g", "-O", "-x"), ("-g", "-Os", "-x", "-frecord-gcc-switches")),
        ((), ("-Os", "-frecord-gcc-switches")),
        (("-Wall", "-frecord-gcc-switches"), ("-Wall", "-frecord-gcc-switches", "-Os")),
    ],
)
def test_the_level_replaces_the_optimization_switches_of_the_recipe(
    cflags: tuple[str, ...], changed: tuple[str, ...]
) -> None:
    base = Recipe(nice=3, pieces=(Build(cflags=cflags),))
    assert OPTIMIZATION.apply("Os", base) == base.changed(Build, cflags=changed)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("-O3 -march=native", "-O3 -march=native"),
        ("-funroll-loops   --param=max-unroll-times=4", "-funroll-loops --param=max-unroll-times=4"),
        ("-O2", "O2"),
        ("-Ofast", "-Ofast"),
        ("-flto", "-flto"),
    ],
)
def test_flags_are_a_level(text: str, level: str) -> None:
    assert find_level(OPTIMIZATION, text).name == level
    assert find_level(OPTIMIZATION, level).name == level


@pytest.mark.parametrize(
    "text",
    ["-O2 -DA=1", "-o x", "-O2 x", "-wrapper", "-B.", "-O2 -fplugin=../x.so", "-f'", "-O2 -f\x1b", "-L/x", "-Wl"],
)
def test_what_no_program_records_is_no_level(text: str) -> None:
    with pytest.raises(UserError, match="can't be a part of a level"):
        find_level(OPTIMIZATION, text)


def test_flags_replace_the_switch_only_if_they_have_one() -> None:
    base = Recipe(pieces=(Build(cflags=("-g", "-O2", "-Wall")),))
    for level, changed in (
        ("-O3 -mavx2", ("-g", "-O3", "-mavx2", "-Wall", "-frecord-gcc-switches")),
        ("-mavx2", ("-g", "-O2", "-mavx2", "-Wall", "-frecord-gcc-switches")),
    ):
        assert OPTIMIZATION.apply(level, base) == base.changed(Build, cflags=changed)


@pytest.mark.parametrize(
    ("flags", "lines", "seen"),
    [
        ("-O2 -mtune=native", (GCC_LINE,), "-O2 -mtune=native"),
        ("-march=x86-64", (GCC_LINE,), "-march=x86-64"),
        ("-O3 -march=x86-64", (GCC_LINE,), "O2"),
        ("-O2 -mavx2", (GCC_LINE,), "O2"),
        ("-O2 -funroll-loops", (f"{GCC_LINE} -funroll-loops", GCC_LINE), "O2"),
        ("-O2 -funroll-loops", (f"{GCC_LINE} -funroll-loops", f"{CLANG_LINE} -funroll-loops"), "-O2 -funroll-loops"),
        ("-O2 -funroll-loops", (f"{GCC_LINE} -funroll-loops -O1",), "O1"),
        ("-O2", (), None),
    ],
)
def test_flags_are_in_force_if_each_command_line_has_them(flags: str, lines: tuple[str, ...], seen: str | None) -> None:
    evidence = process(facts(comments=(GCC_COMMENT,), switches=lines))
    evidence = msgspec.structs.replace(evidence, path_levels=(("optimization", flags),))
    assert OPTIMIZATION.observe(evidence) == seen


def test_compiler_and_linking_change_only_their_own_fields() -> None:
    base = Recipe(pieces=(Build(cflags=("-O2",), ldflags=("-pthread",), libc="musl"),))
    assert LINKING.apply("static", base) == base.changed(Build, linking="static")
    recording = ("-O2", "-frecord-gcc-switches")
    assert COMPILER.apply("clang", base) == base.changed(Build, compiler="clang", cflags=recording)


def test_the_order_of_factors_does_not_change_the_recipe() -> None:
    base = Recipe(pieces=(Build(cflags=("-Wall", "-O2", "-g")),))
    steps = [(LIBC, "musl"), (LINKING, "static"), (COMPILER, "clang"), (OPTIMIZATION, "O3")]

    def applied(order: list[tuple[object, str]]) -> Recipe:
        recipe = base
        for factor, level in order:
            recipe = factor.apply(level, recipe)  # type: ignore[attr-defined] # each is a factor
        return recipe

    assert applied([*steps]) == applied([*reversed(steps)])
