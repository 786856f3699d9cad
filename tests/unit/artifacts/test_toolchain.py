# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each compiler with each C library, linked either way, makes programs in which nothing of another level is left."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from swapstone.core.artifacts.tool_versions import header_folders, link_inputs
from swapstone.core.factors import Evidence, Recipe, find_factor, read_facts, recipe_of
from swapstone.core.model import UnavailableError, Variant
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.toolchain import compiler_command
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts

MAPS = """
#include <stdio.h>
int main(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        fputs(line, stdout);
    return 0;
}
"""


MUSL = Recipe(pieces=(Build(compiler="clang", libc="musl"),))


@pytest.fixture(scope="module")
def compiler() -> str:
    return compiler_command(MUSL)[0]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command to its good end without a word of complaint; return what it prints."""
    result = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def mapped(text: str, folder: Path) -> set[str]:
    paths = {line.split(maxsplit=5)[5] for line in text.splitlines() if "/" in line}
    return {path for path in paths if not path.startswith(str(folder))}


def test_a_dynamic_program_maps_only_musl(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "maps.c").write_text(MAPS)
    run(compiler, "-Werror", "-O2", "maps.c", "-o", "maps", cwd=tmp_path)
    (library,) = mapped(run("./maps", cwd=tmp_path), tmp_path)
    assert Path(library).samefile(next(path for path in link_inputs((compiler,)) if path.name == "libc.so"))
    facts = read_facts(tmp_path / "maps")
    assert facts is not None
    ours = next(path for path in link_inputs(("musl-gcc",)) if path.name == "libc.so")
    assert Path(library).samefile(ours)
    assert facts.interp is not None and "ld-musl" in facts.interp
    assert facts.needed == ("libc.so",)


@pytest.mark.parametrize("way", ["-static", "-static-pie"])
def test_a_static_program_maps_no_object(compiler: str, tmp_path: Path, way: str) -> None:
    (tmp_path / "maps.c").write_text(MAPS)
    run(compiler, "-Werror", way, "maps.c", "-o", "maps", cwd=tmp_path)
    assert mapped(run("./maps", cwd=tmp_path), tmp_path) == set()
    facts = read_facts(tmp_path / "maps")
    assert facts is not None and facts.interp is None and not facts.needed
    symbols = facts.of(BuildFacts).symbols
    assert "__init_libc" in symbols and "__libc_setup_tls" not in symbols


@pytest.mark.slow
def test_the_compiler_options_of_usual_makefiles_work(compiler: str, tmp_path: Path) -> None:
    """Several sources at once, dependencies, preprocessing, assembly, archives, a shared object with an rpath; all without a warning."""
    (tmp_path / "one.c").write_text('int two(void);\nint main(void) { return two() - 2; }\n#include "one.h"\n')
    (tmp_path / "one.h").write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <pthread.h>\n#include <math.h>\n"
    )
    (tmp_path / "two.c").write_text("int two(void) { return 2; }\n")
    (tmp_path / "start.S").write_text("nop\n")
    strict = ("-Werror", "-Wall", "-Wextra")
    run(compiler, *strict, "one.c", "two.c", "-o", "both", cwd=tmp_path)
    run("./both", cwd=tmp_path)
    run(compiler, *strict, "-c", "one.c", "two.c", cwd=tmp_path)
    run(compiler, *strict, "-c", "start.S", cwd=tmp_path)
    run(compiler, *strict, "one.o", "two.o", "-o", "linked", "-lm", "-lpthread", "-ldl", "-lrt", cwd=tmp_path)
    run("./linked", cwd=tmp_path)
    run(compiler, *strict, "-shared", "-fPIC", "two.c", "-o", "libtwo.so", cwd=tmp_path)
    run(compiler, *strict, "one.c", "-L.", "-ltwo", "-Wl,-rpath,$ORIGIN", "-o", "shared", cwd=tmp_path)
    run("./shared", cwd=tmp_path)
    assert "int two" in run(compiler, *strict, "-E", "two.c", cwd=tmp_path)
    assert "two:" in run(compiler, *strict, "-S", "two.c", "-o", "-", cwd=tmp_path)
    depends = run(compiler, *strict, "-M", "one.c", cwd=tmp_path).replace("\\\n", " ").replace("\\ ", "%20").split()[1:]
    outside = {Path(name.replace("%20", " ")).resolve() for name in depends if "/" in name}
    musl, *own = (folder.resolve() for folder in header_folders((compiler,)))
    assert musl == header_folders(("musl-gcc",))[0].resolve()
    assert {path.is_relative_to(musl) or any(path.is_relative_to(one) for one in own) for path in outside} == {True}
    assert not any("gcc" in str(folder) or folder == Path("/usr/include") for folder in own)
    assert "clang" in run(compiler, "--version", cwd=tmp_path)


def test_what_only_glibc_has_is_not_found(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "y.c").write_text("#include <linux/version.h>\nint main(void) { return 0; }\n")
    for arguments, complaint in ((("x.c", "-lmvec"), "cannot find -lmvec"), (("y.c",), "file not found")):
        result = subprocess.run([compiler, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode != 0
        assert complaint in result.stderr


def test_clang_compiles_alike_for_both_c_libraries(compiler: str, tmp_path: Path) -> None:
    """The same instructions but for the addresses of what differs: none in code that calls nothing."""
    (tmp_path / "f.c").write_text(
        "double sqrt(double);\ndouble f(double x) { return sqrt(x) * 3; }\n"
        "int g(int x) { int s = 0; for (int i = 0; i < x; i++) s += i ^ x; return s; }\n"
    )
    plain, ours = (run(command, "-O2", "-S", "f.c", "-o", "-", cwd=tmp_path) for command in ("clang", compiler))
    assert plain == ours


def test_the_script_is_created_once(compiler: str) -> None:
    stamp = Path(compiler).stat().st_mtime_ns
    assert compiler_command(MUSL) == (compiler,)
    assert Path(compiler).stat().st_mtime_ns == stamp


@pytest.mark.parametrize(("missing", "package"), [("clang", "clang"), ("musl-gcc", "musl-tools")])
def test_a_missing_tool_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, package: str
) -> None:
    (tmp_path / "bin").mkdir()
    other = {"clang": "musl-gcc", "musl-gcc": "clang"}[missing]
    (tmp_path / "bin" / other).symlink_to(shutil.which(other) or "/nonexistent")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(UnavailableError, match=f"needs the command '{missing}'") as caught:
        compiler_command(MUSL)
    assert caught.value.hint.endswith(f"apt-get install {package}")


def test_a_musl_gcc_that_prints_nothing_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "musl-gcc").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "musl-gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    link_inputs.cache_clear()
    try:
        with pytest.raises(UnavailableError, match="does not print the location"):
            compiler_command(MUSL)
    finally:
        link_inputs.cache_clear()


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(pieces=(Build(compiler="tcc"),)), "can't compile for glibc with tcc"),
        (Recipe(pieces=(Build(libc="newlib"),)), "can't compile for newlib with cc"),
    ],
)
def test_an_unknown_level_is_unavailable(recipe: Recipe, message: str) -> None:
    with pytest.raises(UnavailableError, match=message):
        resolve_recipe(recipe)


def test_without_the_factors_the_commands_are_what_they_were() -> None:
    assert compiler_command(Recipe()) == ("cc",)
    assert compiler_command(Recipe(pieces=(Build(libc="musl"),))) == ("musl-gcc",)
    assert resolve_recipe(BASE_RECIPE).of(Build).ldflags == BASE_RECIPE.of(Build).ldflags
    assert "-frecord-gcc-switches" not in BASE_RECIPE.of(Build).cflags


def test_a_link_takes_in_the_c_library_that_it_is_for() -> None:
    """The cache's addresses hang on these files: with another version of musl, programs for musl are built anew."""
    found = {command: link_inputs((command,)) for command in ("musl-gcc", "gcc")}
    for inputs in found.values():
        assert {"Scrt1.o", "libc.so", "libc.a", "libgcc.a"} <= {path.name for path in inputs}
    for path in found["musl-gcc"]:
        assert ("musl" in str(path)) == (path.name not in {"libgcc.a", "libgcc_eh.a", "crtbeginS.o", "crtendS.o"})
    assert not any("musl" in str(path) for path in found["gcc"])


def test_a_static_program_that_would_load_objects_is_unavailable() -> None:
    static = resolve_recipe(recipe_of(Variant(levels=(("linking", "static"),)), BASE_RECIPE))
    for name in ("dlopen", "tls_access"):
        with pytest.raises(UnavailableError, match="loads shared objects"):
            build_workload(find_workload("libc-extra", name), static)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("libc", "linking", "compiler"), [*itertools.product(("glibc", "musl"), ("dynamic", "static"), ("gcc", "clang"))]
)
def test_every_level_is_observed_before_and_after_stripping(
    libc: str, linking: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own program may be stripped; we look at ours before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    asked = {"libc": libc, "linking": linking, "compiler": compiler, "optimization": "Os"}
    recipe = resolve_recipe(recipe_of(Variant(levels=tuple(asked.items())), Recipe(pieces=(Build(cflags=("-g",)),))))
    run(*recipe.of(Build).command, *recipe.of(Build).cflags, "x.c", "-o", "x", *recipe.of(Build).ldflags, cwd=tmp_path)
    run("strip", "--strip-all", "x", "-o", "stripped", cwd=tmp_path)
    for name in ("x", "stripped"):
        facts = read_facts(tmp_path / name)
        assert facts is not None
        evidence = Evidence(interp=facts.interp, objects=(facts.path,), program=facts)
        seen = {factor: find_factor(factor).observe(evidence) for factor in asked}
        if (name, libc, linking) == ("stripped", "musl", "static") and facts.machine != "EM_X86_64":
            assert seen.pop("libc") is None  # docs/factors.md
        assert seen.items() <= asked.items()


@pytest.mark.slow
def test_the_recorded_command_line_is_not_in_the_program_that_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    strlen = find_workload("libc", "b_string_strlen")
    asked = resolve_recipe(recipe_of(Variant(levels=(("optimization", "O2"),)), BASE_RECIPE))
    plain, recorded = (
        build_workload(strlen, resolve_recipe(BASE_RECIPE)),
        build_workload(strlen, asked),
    )
    assert plain.path != recorded.path
    assert plain.facts is not None and recorded.facts is not None
    assert [len(each.facts.of(BuildFacts).switches) for each in (plain, recorded) if each.facts] == [0, 1]
    assert plain.sizes == recorded.sizes
    assert _sections(plain.path) == _sections(recorded.path)


def _sections(program: Path) -> dict[str, bytes]:
    """Return what is in each section, but for the digest of the whole file as it was before it was stripped."""
    with program.open("rb") as handle:
        sections = {section.name: section.data() for section in ELFFile(handle).iter_sections()}
    del sections[".note.gnu.build-id"]
    return sections
