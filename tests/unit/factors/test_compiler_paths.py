# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compilers, C libraries and SDKs by path: what is accepted, what they report, what a program shows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Evidence, find_level, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.build.artifacts.library_table import C_LIBRARIES
from swapstone.parts.build.artifacts.own_toolchain import own_tools
from swapstone.parts.build.artifacts.program_closure import needs_newer_musl
from swapstone.parts.build.artifacts.recipe_resolution import check_recipe, resolve_recipe
from swapstone.parts.build.artifacts.source_build import build_tools, tool_variables
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.build.factors.compiler import COMPILER
from swapstone.parts.build.factors.compiler_probe import probe_compiler
from swapstone.parts.build.factors.libc import LIBC, PINNED, read_tree
from swapstone.parts.build.factors.sdk import command_of_level, read_sdk
from tests.programs import needs

GCC = shutil.which("gcc") or "/usr/bin/gcc"
needs_clang = needs("clang")
needs_musl = needs("musl-gcc")
needs_arm = needs("arm-linux-gnueabihf-gcc")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def program(folder: Path, *command: str) -> Path:
    source = folder / "a.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run([*command, "-frecord-gcc-switches", str(source), "-o", str(folder / "a")], check=True)
    return folder / "a"


def evidence(path: Path, factor: str, level: str, **more: object) -> Evidence:
    facts = read_facts(path)
    fields = {"interp": facts.interp if facts else None, "objects": (), "program": facts, **more}
    return Evidence(path_levels=((factor, level),), **fields)  # type: ignore[arg-type] # one at a time


# Compilers


def test_a_compiler_by_path_reports_kind_version_and_target() -> None:
    facts = probe_compiler((GCC,))
    assert facts.kind == "gcc" and facts.name.startswith("GCC: (") and facts.version in facts.title
    assert facts.machine and len(facts.sha256) == 64
    assert find_level(COMPILER, GCC).name == GCC


@pytest.mark.slow
def test_the_program_shows_the_compilers_name_and_options(tmp_path: Path) -> None:
    level = f"{GCC} -mtune=generic -fno-plt"
    assert "-fno-plt" in probe_compiler(command_of_level(level)).switches
    plain, special = program(tmp_path, GCC), tmp_path / "with"
    shutil.copy(program(tmp_path, GCC, "-fno-plt"), special)
    assert COMPILER.observe(evidence(special, "compiler", level)) == level
    program(tmp_path, GCC)
    assert COMPILER.observe(evidence(plain, "compiler", level)) != level
    assert COMPILER.observe(evidence(plain, "compiler", GCC)) == GCC


@needs_clang
def test_another_compilers_program_is_not_taken_for_it(tmp_path: Path) -> None:
    seen = COMPILER.observe(evidence(program(tmp_path, "clang"), "compiler", GCC))
    assert seen is not None and seen.startswith("clang (") and "clang version" in seen


def test_another_version_of_the_same_compiler_is_not_taken_for_it(tmp_path: Path) -> None:
    whole = evidence(program(tmp_path, GCC), "compiler", GCC)
    assert whole.program is not None
    built = msgspec.structs.replace(whole.program.of(BuildFacts), comments=("GCC: (x) 4.9.1",))
    other = msgspec.structs.replace(whole.program, pieces=(built,))
    assert COMPILER.observe(msgspec.structs.replace(whole, program=other)) == "gcc (GCC: (x) 4.9.1)"


def test_compilers_that_programs_do_not_distinguish_are_refused(tmp_path: Path) -> None:
    link = tmp_path / "gcc"
    link.symlink_to(GCC)
    with pytest.raises(UserError, match="write the same name into programs") as caught:
        COMPILER.check_levels((GCC, str(link)))
    assert "options that differ" in caught.value.hint
    COMPILER.check_levels((GCC, f"{GCC} -fno-plt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/nonexistent/gcc", "There is no compiler /nonexistent/gcc"),
        ("{plain}", "is not executable"),
        ("{liar}", "does not behave like gcc or clang"),
        ("{liar} 'unclosed", "can't be split into words"),
        ("sdk:/nonexistent/environment", "There is no environment script /nonexistent/environment"),
    ],
)
def test_what_is_no_compiler_is_refused_early(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "plain").write_text("no program")
    liar = script(tmp_path / "liar", "echo I compile everything")
    with pytest.raises(UserError, match=message) as caught:
        find_level(COMPILER, text.format(plain=tmp_path / "plain", liar=liar))
    assert caught.value.hint


@needs_arm
def test_a_compiler_for_another_machine_is_unavailable() -> None:
    level = find_level(COMPILER, shutil.which("arm-linux-gnueabihf-gcc") or "").name
    with pytest.raises(UnavailableError, match="is for arm, and the programs would run on"):
        resolve_recipe(COMPILER.apply(level, SOURCE_RECIPE))


def test_the_manifest_names_version_and_digest() -> None:
    ((what, version),) = own_tools([COMPILER.apply(GCC, SOURCE_RECIPE)])
    assert what == f"compiler {GCC}" and "SHA-256" in version and probe_compiler((GCC,)).title in version


# C libraries


@pytest.fixture(scope="module")
def musl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the installed musl."""
    from swapstone.parts.build.artifacts.own_toolchain import installed_musl

    installed, root = installed_musl(), tmp_path_factory.mktemp("sysroot")
    shutil.copytree(installed.headers[0], root / "include")
    shutil.copytree(installed.objects, root / "lib", symlinks=True)
    return root


@pytest.mark.slow
@needs_musl
@pytest.mark.parametrize("linking", ["dynamic", "static"])
@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=needs_clang), GCC])
def test_a_program_uses_the_trees_own_files(musl: Path, tmp_path: Path, linking: str, compiler: str) -> None:
    level = find_level(LIBC, str(musl)).name
    recipe = resolve_recipe(SOURCE_RECIPE.changed(Build, libc=level, compiler=compiler, linking=linking))
    path = program(tmp_path, *recipe.of(Build).command, *recipe.of(Build).ldflags)
    assert subprocess.run([path], check=False).returncode == 0
    facts = read_facts(path)
    assert facts is not None and facts.interp == (f"{musl}/lib/libc.so" if linking == "dynamic" else None)
    assert LIBC.observe(evidence(path, "libc", level)) == level
    assert LIBC.observe(evidence(path, "libc", "/another")) != "/another"


@pytest.mark.slow
@needs_musl
def test_the_installed_library_is_not_taken_for_the_tree(musl: Path, tmp_path: Path) -> None:
    for flags in ((), ("-static",)):
        path = program(tmp_path, "musl-gcc", *flags)
        seen = LIBC.observe(evidence(path, "libc", str(musl)))
        assert seen is not None and seen.startswith("musl") and str(musl) not in seen
    path = program(tmp_path, GCC)
    assert LIBC.observe(evidence(path, "libc", str(musl))) != str(musl)


def _tree(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return root


@pytest.mark.parametrize(
    ("files", "kind", "loader"),
    [
        (("include/bits/uClibc_config.h", "lib/ld64-uClibc.so.1"), "uclibc", "lib/ld64-uClibc.so.1"),
        (("include/gnu/libc-version.h", "lib64/ld-linux-x86-64.so.2"), "glibc", "lib64/ld-linux-x86-64.so.2"),
        (("include/bits/alltypes.h", "lib/ld-musl-x86_64.so.1"), "musl", "lib/ld-musl-x86_64.so.1"),
    ],
)
def test_kind_and_loader_come_from_the_tree(tmp_path: Path, files: tuple[str, ...], kind: str, loader: str) -> None:
    tree = read_tree(_tree(tmp_path, "include/stdio.h", "lib/crt1.o", "lib/libc.a", *files))
    assert (tree.kind, tree.loader, tree.rpath) == (kind, str(tmp_path / loader), True)


def test_an_absolute_link_is_followed_inside_the_tree(tmp_path: Path) -> None:
    _tree(tmp_path, "include/stdio.h", "include/bits/alltypes.h", "lib/crt1.o", "lib/libc.so", "etc/passwd")
    (tmp_path / "lib" / "ld-musl-x86_64.so.1").symlink_to("/lib/libc.so")
    assert read_tree(tmp_path).loader == str(tmp_path / "lib" / "libc.so")
    (tmp_path / "lib" / "libc.a").symlink_to("../../../../../../etc/passwd")
    assert "/etc/passwd" not in read_tree.__wrapped__(tmp_path).library.removeprefix(str(tmp_path))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "has no stdio.h"),
        (("usr/include/stdio.h",), "has no crt1.o"),
        (("include/stdio.h", "lib/crt1.o"), "has no libc.so or libc.a"),
        (("include/stdio.h", "lib/crt1.o", "lib/libc.a"), "can't be recognized by its headers"),
    ],
)
def test_an_incomplete_tree_is_refused_with_what_is_missing(
    tmp_path: Path, files: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        find_level(LIBC, str(_tree(tmp_path, *files)))
    assert caught.value.hint


@pytest.mark.slow
@needs_arm
@needs_musl
def test_a_tree_for_another_machine_is_unavailable(musl: Path, tmp_path: Path) -> None:
    root = tmp_path / "arm"
    shutil.copytree(musl, root, symlinks=True)
    source = tmp_path / "a.c"
    source.write_text("int x;\n")
    subprocess.run(["arm-linux-gnueabihf-gcc", "-c", source, "-o", root / "lib" / "crt1.o"], check=True)
    with pytest.raises(UnavailableError, match="is for arm, and the programs would run on"):
        resolve_recipe(LIBC.apply(find_level(LIBC, str(root)).name, SOURCE_RECIPE))


def test_an_allocator_is_unavailable_with_a_tree(tmp_path: Path) -> None:
    recipe = SOURCE_RECIPE.changed(Build, libc=str(tmp_path), allocator="mimalloc")
    with pytest.raises(UnavailableError, match="is built for the installed C libraries only"):
        resolve_recipe(recipe)


# C libraries by version


@pytest.mark.parametrize("text", ["musl:1.2.4", "glibc:2.36", "musl:", "musl:1.2.5:"])
def test_a_version_that_is_not_pinned_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(UserError, match=f"'{text}' can't be a level of libc: no source of it is pinned") as caught:
        find_level(LIBC, text)
    assert "glibc, musl, musl:1.2.5" in caught.value.hint


def test_each_pinned_version_can_be_built_and_is_recognized_in_any_cache() -> None:
    assert set(C_LIBRARIES) == {each.name for each in PINNED}
    for place in ("/home/me/.cache/swapstone", "/other"):
        loader = f"{place}/libraries/musl-1.2.5/0123456789abcdef/lib/libc.so"
        assert LIBC.observe(Evidence(interp=loader, objects=(loader,))) == "musl:1.2.5"
    assert LIBC.observe(Evidence(interp="/opt/musl-1.2.5/lib/libc.so", objects=())) == "musl"


def test_a_pinned_version_is_for_this_machine_alone() -> None:
    recipe = msgspec.structs.replace(SOURCE_RECIPE.changed(Build, libc="musl:1.2.5"), architecture="aarch64")
    with pytest.raises(UnavailableError, match="is built for this machine's architecture only, not for aarch64"):
        check_recipe(recipe)


@pytest.mark.slow
@pytest.mark.parametrize("linking", ["dynamic", "static"])
def test_a_program_shows_the_version_that_it_uses(tmp_path: Path, linking: str) -> None:
    level = find_level(LIBC, "musl:1.2.5").name
    recipe = resolve_recipe(LIBC.apply(level, SOURCE_RECIPE).changed(Build, linking=linking))
    path = program(tmp_path, *recipe.of(Build).command, *recipe.of(Build).ldflags)
    assert subprocess.run([path], check=False).returncode == 0
    facts = read_facts(path)
    assert facts is not None
    seen = Evidence(interp=facts.interp, objects=(facts.interp,) if facts.interp else (), program=facts)
    assert LIBC.observe(seen) == level
    ((what, version),) = own_tools([recipe])
    assert what == "C library musl:1.2.5" and version.startswith("musl, libc.so with SHA-256")
    if linking == "dynamic":
        assert needs_newer_musl(str(path)) == ""
        other = msgspec.structs.replace(seen, objects=("/lib/ld-musl-x86_64.so.1",))
        assert LIBC.observe(other) == "musl+musl:1.2.5"


@pytest.mark.slow
@needs_musl
def test_the_installed_musl_is_not_taken_for_a_version(tmp_path: Path) -> None:
    for flags in ((), ("-static",)):
        facts = read_facts(program(tmp_path, "musl-gcc", *flags))
        assert facts is not None and LIBC.observe(Evidence(interp=facts.interp, objects=(), program=facts)) == "musl"


# SDKs

YOCTO = """if [ ! -z "${LD_LIBRARY_PATH:-}" ]; then
    echo "Your environment is misconfigured, you probably need to 'unset LD_LIBRARY_PATH'"
    return 1
fi
export SDKTARGETSYSROOT=%(sdk)s/sysroots/core2-64-poky-linux
export PATH=%(sdk)s/sysroots/x86_64-pokysdk-linux/usr/bin/x86_64-poky-linux:"$PATH"
export PKG_CONFIG_SYSROOT_DIR=$SDKTARGETSYSROOT
export PKG_CONFIG_PATH=$SDKTARGETSYSROOT/usr/lib/pkgconfig:$SDKTARGETSYSROOT/usr/share/pkgconfig
export OECORE_NATIVE_SYSROOT="%(sdk)s/sysroots/x86_64-pokysdk-linux"
export CC="x86_64-poky-linux-gcc -mtune=generic --sysroot=$SDKTARGETSYSROOT"
export CXX="x86_64-poky-linux-g++ -mtune=generic --sysroot=$SDKTARGETSYSROOT"
export AR=x86_64-poky-linux-ar
export CFLAGS=" -O2 -pipe -g -feliminate-unused-debug-types -fno-plt "
export LDFLAGS="-Wl,-O1 -Wl,--hash-style=gnu"
echo "printed by the script"
"""

BUILDROOT = """cat <<'EOF'
Making embedded Linux easy!
EOF
SDK_PATH=$(dirname $(realpath "${BASH_SOURCE[0]}"))
export "AR=$SDK_PATH/bin/x86_64-buildroot-linux-gnu-gcc-ar"
export "CC=$SDK_PATH/bin/x86_64-buildroot-linux-gnu-gcc"
export "CFLAGS=-D_LARGEFILE_SOURCE -Os -g0 -fno-plt"
export "LDFLAGS="
export "PATH=$SDK_PATH/bin:$SDK_PATH/sbin:$PATH"
"""


@pytest.fixture
def yocto(tmp_path: Path) -> Path:
    """Return the environment script of an SDK as Yocto makes it; its compiler is this machine's."""
    tools = tmp_path / "sysroots" / "x86_64-pokysdk-linux" / "usr" / "bin" / "x86_64-poky-linux"
    for name, real in (("gcc", GCC), ("g++", shutil.which("g++") or GCC), ("ar", "ar")):
        # The real compiler of an SDK finds its own root; this machine's has its files elsewhere.
        script(
            tools / f"x86_64-poky-linux-{name}",
            f'for w; do shift; case $w in --sysroot=*) ;; *) set -- "$@" "$w";; esac; done; exec {real} "$@"',
        )
    setup = tmp_path / "environment-setup-core2-64-poky-linux"
    setup.write_text(YOCTO % {"sdk": tmp_path})
    return setup


def test_yoctos_script_gives_compiler_flags_and_variables(yocto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")  # the script refuses it: the shell's environment is clean
    monkeypatch.setenv("CFLAGS", "-nonsense")
    sdk = read_sdk(yocto)
    assert Path(sdk.cc[0]).name == "x86_64-poky-linux-gcc" and Path(sdk.cc[0]).is_absolute()
    assert sdk.cc[1:] == ("-mtune=generic", f"--sysroot={yocto.parent}/sysroots/core2-64-poky-linux")
    assert sdk.cflags == ("-pipe", "-feliminate-unused-debug-types", "-fno-plt")  # without -O and -g
    assert sdk.ldflags == ("-Wl,-O1", "-Wl,--hash-style=gnu") and sdk.sysroot.endswith("core2-64-poky-linux")
    assert dict(sdk.variables)["PKG_CONFIG_SYSROOT_DIR"] == sdk.sysroot
    level = find_level(COMPILER, f"sdk:{yocto}")
    assert level.name == f"sdk:{yocto}" and "gcc" in level.description


@pytest.mark.slow
def test_a_program_of_an_sdk_is_built_and_observed(yocto: Path, tmp_path: Path) -> None:
    level = find_level(COMPILER, f"sdk:{yocto}").name
    recipe = resolve_recipe(COMPILER.apply(level, SOURCE_RECIPE).changed(Build, linking="static"))
    path = program(tmp_path, *recipe.of(Build).command, *recipe.of(Build).ldflags)
    assert COMPILER.observe(evidence(path, "compiler", level)) == level
    facts = read_facts(path)
    assert facts is not None and "-fno-plt" in facts.of(BuildFacts).switches[0]  # of the SDK's CFLAGS
    variables = tool_variables(build_tools(recipe))
    assert variables["AR"].endswith("x86_64-poky-linux-ar") and variables["SDKTARGETSYSROOT"]
    # The loader of its root is needed for dynamic programs, and this SDK has none.
    with pytest.raises(UnavailableError, match=r"The system root of .* can't be used"):
        resolve_recipe(COMPILER.apply(level, SOURCE_RECIPE))


@needs("bash")
def test_buildroots_script_is_sourced_by_bash(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "x86_64-buildroot-linux-gnu-gcc", f'exec {GCC} "$@"')
    script(tmp_path / "bin" / "x86_64-buildroot-linux-gnu-gcc-ar", 'exec ar "$@"')
    setup = tmp_path / "environment-setup"
    setup.write_text(BUILDROOT)
    sdk = read_sdk(setup)
    assert sdk.cc == (str(tmp_path / "bin" / "x86_64-buildroot-linux-gnu-gcc"),)
    assert sdk.cflags == ("-D_LARGEFILE_SOURCE", "-fno-plt") and sdk.sysroot == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("export CFLAGS=-O2", "sets no CC"),
        ("export CC=no-such-compiler", "names no-such-compiler, which is not on the PATH"),
        ('export CC="gcc \'x"', "can't be split into words"),
        ("echo broken >&2; return 3", "failed with status 3: broken"),
        (
            "export CC=gcc BIG=$(head -c 120000 /dev/zero | tr '\\0' x); for i in 1 2 3 4 5 6 7 8 9 0; do eval export B$i=$BIG; done",
            "failed with status",
        ),
    ],
)
def test_a_bad_script_is_an_error_with_its_reason(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "setup").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_sdk(tmp_path / "setup")
    assert caught.value.hint


def test_a_script_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "setup").write_text("sleep 60")
    with pytest.raises(UserError, match=r"did not end within 0.3 s"):
        read_sdk(tmp_path / "setup", timeout_s=0.3)


def test_nothing_of_a_scripts_values_is_run(tmp_path: Path) -> None:
    (tmp_path / "setup").write_text(
        f"export CC='gcc $(touch {tmp_path}/run)' PKG_CONFIG_PATH='a`touch {tmp_path}/run`'"
    )
    assert read_sdk(tmp_path / "setup").cc[1:] == ("$(touch", f"{tmp_path}/run)")
    assert not (tmp_path / "run").exists()
