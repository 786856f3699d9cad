# SPDX-License-Identifier: MIT OR Apache-2.0
"""musl for another architecture: the specs of its package, and what they link."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Evidence, find_factor, read_facts
from swapstone.core.model import UserError
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts import cross_compilers
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, rewritten_specs
from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.toolchain import compiler_command
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from swapstone.parts.build.build import Build
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from tests.programs import require

SPECS = """%rename cpp_options old_cpp_options

*cpp_options:
-nostdinc -isystem /usr/include/aarch64-linux-musl -isystem include%s %(old_cpp_options)

*link_libgcc:
-L/usr/lib/aarch64-linux-musl -L .%s

*libgcc:
libgcc.a%s %:if-exists(libgcc_eh.a%s)

*startfile:
%{!shared: /usr/lib/aarch64-linux-musl/Scrt1.o} /usr/lib/aarch64-linux-musl/crti.o crtbeginS.o%s

*link:
-dynamic-linker /lib/ld-musl-aarch64.so.1 -nostdlib %{shared:-shared} %{static:-static}
"""


def test_paths_are_replaced_and_static_programs_get_no_loader() -> None:
    specs = rewritten_specs(SPECS, "aarch64-linux-musl", Path("/cache/m"))
    assert "/usr/" not in specs
    assert "-isystem /cache/m/include/aarch64-linux-musl -isystem include%s" in specs
    assert "%{!shared: /cache/m/lib/aarch64-linux-musl/Scrt1.o} /cache/m/lib/aarch64-linux-musl/crti.o" in specs
    assert "%{!static:%{!static-pie:-dynamic-linker /lib/ld-musl-aarch64.so.1}} -nostdlib" in specs
    shim = "/cache/m/lib/aarch64-linux-musl/libgetauxval.a"
    assert f"libgcc.a%s %:if-exists(libgcc_eh.a%s) %{{!static:%{{!static-pie:{shim}}}}}\n" in specs


def test_other_architectures_need_no_substitute_of_getauxval() -> None:
    specs = SPECS.replace("aarch64-linux-musl", "arm-linux-musleabihf").replace("musl-aarch64.so", "musl-armhf.so")
    assert "getauxval" not in rewritten_specs(specs, "arm-linux-musleabihf", Path("/cache/m"))


def test_a_blank_in_the_cache_path_is_quoted() -> None:
    assert "-L/my\\ cache/lib/aarch64-linux-musl -L" in rewritten_specs(SPECS, "aarch64-linux-musl", Path("/my cache"))


@pytest.mark.parametrize(
    "specs",
    [
        SPECS.replace("-dynamic-linker /lib/ld-musl-aarch64.so.1", ""),
        SPECS.replace("/usr/lib/aarch64-linux-musl", "/usr/lib/musl/lib"),
        "",
    ],
)
def test_specs_of_another_form_are_refused(specs: str) -> None:
    with pytest.raises(UserError, match="has an unknown form"):
        rewritten_specs(specs, "aarch64-linux-musl", Path("/cache/m"))


def test_programs_are_built_with_the_musl_that_images_contain() -> None:
    for name in ("x86_64", "arm64", "armhf", "riscv64"):
        packages = read_lock().of(find_machine_architecture(name).debian)
        versions = {package.version for package in packages if "musl" in {package.builds, package.name}}
        assert len(versions) == 1
        assert [package.name for package in packages if package.builds] == ["musl-dev"]
        assert not any(package.in_images for package in packages if package.builds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "linking"),
    [
        ("gcc", "dynamic"),
        ("clang", "static"),
        pytest.param("gcc", "static", marks=pytest.mark.exhaustive),
        pytest.param("clang", "dynamic", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("machine", ["aarch64", "arm", "riscv64"])
def test_a_workload_contains_musl_and_nothing_of_glibc(machine: str, compiler: str, linking: str) -> None:
    cross = CROSS_COMPILERS[machine]
    if os.uname().machine == machine:
        pytest.skip("this machine is the architecture")
    require(f"{cross.prefix}gcc", compiler)
    recipe = msgspec.structs.replace(BASE_RECIPE, architecture=machine).changed(
        Build, libc="musl", compiler=compiler, linking=linking
    )
    try:
        resolved = resolve_recipe(recipe)
    except UserError as error:
        pytest.skip(f"musl can't be fetched: {error.message}")
    facts = build_workload(find_workload("libc", "b_pthread_create_serial1"), resolved).facts
    assert facts is not None
    assert facts.machine == {"aarch64": "EM_AARCH64", "arm": "EM_ARM", "riscv64": "EM_RISCV"}[machine]
    assert facts.needed == (("libc.so",) if linking == "dynamic" else ())
    evidence = Evidence(interp=facts.interp, objects=(), program=facts)
    assert find_factor("libc").observe(evidence) == "musl"
    assert (facts.interp is None) == (linking == "static")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-static",), ("-static-pie", "-fPIE")])
def test_a_build_may_link_statically_by_options_of_its_own(options: tuple[str, ...], tmp_path: Path) -> None:
    """The substitute of a function of glibc, which dynamic programs get on arm64, is no second definition of musl's own."""
    require("aarch64-linux-gnu-gcc", "clang")
    recipe = msgspec.structs.replace(BASE_RECIPE, architecture="aarch64").changed(Build, libc="musl", compiler="clang")
    try:
        command = compiler_command(recipe)
    except UserError as error:
        pytest.skip(f"musl can't be fetched: {error.message}")
    (tmp_path / "x.c").write_text("#include <sys/auxv.h>\nint main(void) { return getauxval(16) == 0; }\n")
    subprocess.run([*command, *options, "x.c", "-o", "x"], cwd=tmp_path, check=True, timeout=60)
    facts = read_facts(tmp_path / "x")
    assert facts is not None and (facts.interp is None) == bool(options)


@pytest.mark.slow
def test_clang_generates_code_for_the_processor_of_gcc(tmp_path: Path) -> None:
    """Both compilers generate Thumb code for ARMv7 with the same floating-point unit."""
    require("arm-linux-gnueabihf-gcc", "clang")
    (tmp_path / "x.c").write_text("double f(double x) { return x * 2; }\n")
    found = []
    for command in (["arm-linux-gnueabihf-gcc"], ["clang", *CROSS_COMPILERS["arm"].clang]):
        subprocess.run([*command, "-O2", "-c", "x.c", "-o", "x.o"], cwd=tmp_path, check=True, timeout=60)
        shown = subprocess.run(
            ["arm-linux-gnueabihf-readelf", "-A", "x.o"], cwd=tmp_path, check=True, timeout=60, capture_output=True
        ).stdout.decode()
        wanted = ("Tag_CPU_arch:", "Tag_FP_arch:", "Tag_ABI_VFP_args:", "Tag_THUMB_ISA_use:")
        found.append([line.strip() for line in shown.splitlines() if line.strip().startswith(wanted)])
    assert found[0] == found[1]


class FilesOfMusl:
    """Stands in for the contents of musl's packages: an object and an archive with debug information."""

    def __init__(self, folder: Path) -> None:
        (folder / "x.c").write_text("int x(void) { return 1; }\n")
        subprocess.run(["cc", "-g", "-c", "x.c", "-o", "crt1.o"], cwd=folder, check=True, timeout=60)
        subprocess.run(["ar", "rc", "libc.a", "crt1.o"], cwd=folder, check=True, timeout=60)
        top = "lib/arm-linux-musleabihf"
        self.files = {f"{top}/{name}": (folder / name).read_bytes() for name in ("crt1.o", "libc.a")}
        specs = SPECS.replace("aarch64-linux-musl", "arm-linux-musleabihf").replace("musl-aarch64.so", "musl-armhf.so")
        self.files |= {f"{top}/libc.so": b"so", f"{top}/musl-gcc.specs": specs.encode()}

    def __call__(self, *_: object) -> FilesOfMusl:
        return self

    def __enter__(self) -> FilesOfMusl:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def names(self) -> tuple[str, ...]:
        return tuple(self.files)

    def resolve(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str) -> tuple[bytes, int]:
        return self.files[name], 0o644


def test_objects_of_musl_lose_their_debug_information(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a newer release has relocations that the linker of the cross compiler can't read."""
    contents = FilesOfMusl(tmp_path)
    assert b".debug_info" in contents.files["lib/arm-linux-musleabihf/libc.a"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in (("fetch", lambda *_: None), ("package_file", str), ("Contents", contents)):
        monkeypatch.setattr(cross_compilers, name, value)
    specs = cross_compilers.musl_specs("armhf", "arm-linux-musleabihf", "", lambda _: None)
    for name in ("crt1.o", "libc.a"):
        stripped = (specs.parent / "lib" / "arm-linux-musleabihf" / name).read_bytes()
        assert b".debug_info" not in stripped
        assert b".symtab" in stripped
