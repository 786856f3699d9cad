# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor allocator: which file serves malloc, which allocator it contains, and which paths can be levels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Evidence, ProgramFacts, Recipe, parse_choice, read_facts
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.allocator import ALLOCATOR
from swapstone.parts.build.factors.build_facts import BuildFacts

LOADER = "/lib64/ld-linux-x86-64.so.2"


def facts(path: str, *names: str, needed: tuple[str, ...] = (), soname: str = "") -> ProgramFacts:
    return ProgramFacts(path=path, needed=needed, pieces=(BuildFacts(symbols=names, exports=names, soname=soname),))


PROGRAM = facts("/prog", needed=("libc.so.6",))
LIBC = facts("/lib/libc.so.6", "__libc_start_main", "_int_malloc", "malloc")
OLD_LOADER = facts("/lib/ld-2.28.so", "_rtld_global", "malloc")
MIMALLOC = facts("/cache/a.so", "malloc", "mi_malloc", needed=("libc.so.6",))
JEMALLOC = facts(
    "/usr/lib/libjemalloc.so.2", "malloc", "mallctlbymib", needed=("libc.so.6",), soname="libjemalloc.so.2"
)
HELPER = facts("/lib/libm.so.6")
NAMELESS = facts("/home/me/libfoo.so", "malloc")


def evidence(*libraries: ProgramFacts, program: ProgramFacts = PROGRAM, **more: object) -> Evidence:
    paths = (program.path, *(one.path for one in libraries))
    given = {"interp": LOADER, "objects": paths, "program": program, "libraries": libraries, **more}
    return Evidence(**given)  # type: ignore[arg-type] # fields by name


@pytest.mark.parametrize(
    ("seen", "level"),
    [
        (evidence(LIBC, OLD_LOADER), "default"),
        (evidence(OLD_LOADER, HELPER, LIBC), "default"),
        (evidence(LIBC, MIMALLOC, preload=(MIMALLOC.path,)), "mimalloc"),
        # The loader ignored the preload: the object isn't mapped.
        (evidence(LIBC, preload=(MIMALLOC.path,)), "default"),
        # Linked to the program: it comes before the C library in the search order.
        (evidence(LIBC, JEMALLOC, program=facts("/prog", needed=("libjemalloc.so.2", "libc.so.6"))), "jemalloc"),
        (
            evidence(LIBC, NAMELESS, preload=(NAMELESS.path,), path_levels=(("allocator", NAMELESS.path),)),
            NAMELESS.path,
        ),
        # A path was requested, but another file serves malloc.
        (evidence(LIBC, MIMALLOC, preload=(MIMALLOC.path,), path_levels=(("allocator", NAMELESS.path),)), "mimalloc"),
        (evidence(LIBC, NAMELESS, preload=(NAMELESS.path,)), f"an unknown allocator in {NAMELESS.path}"),
        # A malloc in the program precedes preloaded objects.
        (
            evidence(LIBC, MIMALLOC, preload=(MIMALLOC.path,), program=facts("/prog", "malloc", "tc_malloc")),
            "tcmalloc beside mimalloc",
        ),
        (
            evidence(
                LIBC, JEMALLOC, MIMALLOC, preload=(MIMALLOC.path,), program=facts("/prog", needed=("libjemalloc.so.2",))
            ),
            "mimalloc beside jemalloc",
        ),
        (evidence(HELPER), None),
        (Evidence(interp=None, objects=()), None),
    ],
)
def test_the_first_malloc_in_the_search_order_is_observed(seen: Evidence, level: str | None) -> None:
    assert ALLOCATOR.observe(seen) == level


def test_a_contradiction_between_report_and_mapped_objects_is_named() -> None:
    both = evidence(LIBC, MIMALLOC, preload=(MIMALLOC.path,))
    assert ALLOCATOR.observe(msgspec.structs.replace(both, malloc=MIMALLOC.path)) == "mimalloc"
    seen = ALLOCATOR.observe(msgspec.structs.replace(both, malloc=LIBC.path))
    assert seen == "malloc of /lib/libc.so.6 (as the process reports) or of /cache/a.so (by the mapped objects)"
    seen = ALLOCATOR.observe(msgspec.structs.replace(both, malloc="/memfd:x (deleted)"))
    assert seen == "an allocator in /memfd:x (deleted), which can't be read,"


@pytest.mark.parametrize(
    ("symbols", "aliases", "level"),
    [
        (("malloc", "_int_malloc", "__libc_setup_tls"), (), "default"),
        (("malloc", "default_malloc", "__init_libc"), ("default_malloc",), "default"),
        (("malloc", "mi_malloc", "__libc_setup_tls"), ("mi_malloc",), "mimalloc"),
        # musl's malloc is linked for internal use; the program calls another one.
        (("malloc", "mallctlbymib", "default_malloc"), (), "jemalloc"),
        (("malloc", "__malloc_end_pointer"), (), "snmalloc"),
        # mimalloc is there, but the malloc is glibc's.
        (("malloc", "mi_malloc", "_int_malloc"), (), "default"),
        (("malloc", "mi_malloc", "default_malloc"), ("default_malloc",), "default"),
        (("malloc",), (), "an unknown allocator in /prog"),
        (("__libc_setup_tls",), (), None),
    ],
)
def test_the_allocator_of_a_static_program_is_identified_by_its_symbols(
    symbols: tuple[str, ...], aliases: tuple[str, ...], level: str | None
) -> None:
    program = ProgramFacts(path="/prog", pieces=(BuildFacts(symbols=symbols, aliases=aliases),))
    seen = Evidence(interp=None, objects=("/prog",), program=program)
    assert ALLOCATOR.observe(seen) == level
    if level is not None:
        assert ALLOCATOR.observe(msgspec.structs.replace(seen, malloc="/prog")) == level


def test_applying_a_level_changes_only_the_allocator() -> None:
    base = Recipe(environment=(("A", "b"),), pieces=(Build(cflags=("-O2",)),))
    assert ALLOCATOR.apply("mimalloc", base) == base.changed(Build, allocator="mimalloc")


def compiled(folder: Path, name: str, text: str, *options: str, compiler: str = "cc") -> Path:
    source, target = folder / f"{name}.c", folder / name
    source.write_text(text)
    subprocess.run([compiler, "-w", *options, "-o", target, source], check=True, timeout=60)
    return target


MALLOC = "#include <stddef.h>\nvoid *malloc(size_t n) { return 0; }\n"

COMPILED = {
    "program": ("int main(void) { return 0; }\n",),
    "object.o": (MALLOC, "-c"),
    "empty.so": ("int nothing;\n", "-shared", "-fPIC"),
    "hidden.so": (MALLOC, "-shared", "-fPIC", "-fvisibility=hidden"),
}


def test_facts_are_read_from_compiled_objects(tmp_path: Path) -> None:
    alias = 'extern void *mi_malloc(size_t n) __attribute__((alias("malloc")));\n'
    path = compiled(tmp_path, "a.so", MALLOC + alias, "-shared", "-fPIC", "-Wl,-soname,a.so.1")
    found = read_facts(path)
    assert found is not None
    built = found.of(BuildFacts)
    assert (built.kind, built.soname, found.interp, built.aliases) == ("ET_DYN", "a.so.1", None, ("mi_malloc",))
    assert built.exports == ("malloc", "mi_malloc")
    assert found.machine.startswith("EM_") and built.bits in {32, 64}
    hidden = '__attribute__((visibility("hidden"))) void *malloc(unsigned long n) { return 0; }\n'
    found = read_facts(compiled(tmp_path, "b.so", hidden, "-shared", "-fPIC"))
    assert found is not None
    built = found.of(BuildFacts)
    assert (built.symbols, built.exports) == (("malloc",), ())
    found = read_facts(compiled(tmp_path, "c", 'int main(void) { return puts("x"); }\n'))
    assert found is not None
    assert found.interp and any(version.startswith("GLIBC_2.") for version in found.of(BuildFacts).versions)


def test_a_path_level_is_named_by_its_real_path(tmp_path: Path) -> None:
    path = compiled(tmp_path, "libfoo.so", MALLOC, "-shared", "-fPIC")
    (tmp_path / "link.so").symlink_to(path)
    assert parse_choice(f"allocator=default,{tmp_path}/link.so").levels == ("default", str(path.resolve()))
    with pytest.raises(UserError, match="twice"):
        parse_choice(f"allocator={path},{tmp_path}/link.so")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("absent.so", "There is no file", "A comma separates levels"),
        ("a,b.so", "There is no file", "A comma separates levels"),
        ("a=b.so", "a path with '=' in it", "Copy the object"),
        ("a b.so", "a path with ' ' in it", "Copy the object"),
        ("a:b.so", "a path with ':' in it", "Copy the object"),
        ("text.so", "not an ELF shared object", "cc -shared -fPIC"),
        ("program", "not an ELF shared object", "cc -shared -fPIC"),
        ("object.o", "not an ELF shared object", "cc -shared -fPIC"),
        ("empty.so", "does not export malloc", "nm -D --defined-only"),
        ("hidden.so", "does not export malloc", "nm -D --defined-only"),
    ],
)
def test_an_invalid_path_level_is_an_error_with_a_hint(name: str, message: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("malloc\n")
    if name in COMPILED:
        compiled(tmp_path, name, *COMPILED[name])
    with pytest.raises(UserError) as caught:
        parse_choice(f"allocator=default,{tmp_path}/{name}")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_other_factors_refuse_paths() -> None:
    with pytest.raises(UserError, match="no level named"):
        parse_choice("linking=static,./libc.so")
