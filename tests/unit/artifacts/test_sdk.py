# SPDX-License-Identifier: MIT OR Apache-2.0
"""SDKs: their text files, and what is checked before one is made. Slow tests compile with one that was moved."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.build.artifacts import sdk as sdk_module
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS
from swapstone.parts.build.artifacts.sdk import (
    DESCRIPTION,
    BuiltSdk,
    Sdk,
    build_sdk,
    check_sdk,
    content_digest,
    copy_sdk,
)
from swapstone.parts.build.artifacts.sdk_files import SdkNames, loader_of, text_files
from swapstone.parts.build.factors.sdk import read_sdk
from tests.programs import require

HELLO = '#include <stdio.h>\nint main(void) { puts("hello from the SDK"); return 0; }\n'
NAMES = SdkNames(
    libc="musl",
    cross=CROSS_COMPILERS["aarch64"],
    triple="aarch64-linux-musl",
    shim=True,
    native=False,
)


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_no_file_names_a_folder_of_this_machine(libc: str) -> None:
    for name, (text, _) in text_files(msgspec.structs.replace(NAMES, libc=libc)).items():
        paths = set(re.findall(r"(?<![\w}R\"./])/[a-z][\w.-]*(?:/[\w.-]+)*", text)) - {
            "/bin/sh",
            "/dev/null",
            loader_of(NAMES.cross, libc),
        }
        assert not paths, (name, paths)


def test_shell_scripts_can_be_parsed() -> None:
    for name, (text, executable) in text_files(NAMES).items():
        if executable or name.startswith("environment"):
            subprocess.run(["/bin/sh", "-n"], input=text, text=True, check=True, timeout=30)
            assert executable == text.startswith("#!/bin/sh\n")


def test_musl_replaces_the_loader_and_glibc_keeps_it() -> None:
    musl, glibc = (
        text_files(msgspec.structs.replace(NAMES, libc=libc))["lib/gcc.specs"][0] for libc in ("musl", "glibc")
    )
    assert "-dynamic-linker /lib/ld-musl-aarch64.so.1" in musl and "libgetauxval.a" in musl
    assert "dynamic-linker" not in glibc and "libgcc:" not in glibc.replace("link_libgcc:", "")


@pytest.mark.parametrize(
    ("machine", "glibc", "musl"),
    [
        ("x86_64", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
        ("aarch64", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"),
        ("arm", "/lib/ld-linux-armhf.so.3", "/lib/ld-musl-armhf.so.1"),
        ("riscv64", "/lib/ld-linux-riscv64-lp64d.so.1", "/lib/ld-musl-riscv64.so.1"),
    ],
)
def test_loaders(machine: str, glibc: str, musl: str) -> None:
    cross = CROSS_COMPILERS[machine]
    assert (loader_of(cross, "glibc"), loader_of(cross, "musl")) == (glibc, musl)


@pytest.mark.parametrize(
    ("architecture", "libc", "compiler", "message"),
    [
        ("mips", "musl", "gcc", "no architecture named 'mips'"),
        ("x86_64", "dietlibc", "gcc", "no C library named 'dietlibc'"),
        ("x86_64", "musl", "tcc", "no compiler named 'tcc'"),
    ],
)
def test_an_unknown_name_is_an_error(architecture: str, libc: str, compiler: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_sdk(architecture, libc, compiler)


def test_a_missing_compiler_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match="aarch64-linux-gnu-gcc") as error:
        check_sdk("arm64", "musl")
    assert "gcc-aarch64-linux-gnu" in str(error.value.hint)


def _small_sdk(folder: Path) -> BuiltSdk:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "x-gcc").write_text("#!/bin/sh\n")
    (folder / "bin" / "x-cc").symlink_to("x-gcc")
    sdk = Sdk(
        format=1, architecture="x86_64", libc="musl", triple="x", compiler="", needs=(), packages=(), content="0" * 64
    )
    return BuiltSdk(sdk=sdk, folder=folder)


def test_an_sdk_is_not_written_over_files(tmp_path: Path) -> None:
    built = _small_sdk(tmp_path / "made")
    copy_sdk(built, tmp_path / "out")
    assert (tmp_path / "out" / "bin" / "x-cc").readlink() == Path("x-gcc")
    with pytest.raises(UserError, match="is not empty"):
        copy_sdk(built, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "out"]


def test_an_empty_folder_is_filled_and_not_replaced(tmp_path: Path) -> None:
    """It may be a mount point, or in a folder that can't be written. What a killed copy left in it is removed."""
    out = tmp_path / "out"
    left = out / "swapstone-sdk-3fffff-000000001-abcd1234"
    left.mkdir(parents=True)
    same = out.stat().st_ino
    copy_sdk(_small_sdk(tmp_path / "made"), out)
    assert out.stat().st_ino == same
    assert sorted(path.name for path in out.iterdir()) == ["bin"]
    assert (out / "bin" / "x-cc").readlink() == Path("x-gcc")


def test_a_changed_file_changes_the_digest_and_makes_the_sdk_damaged(tmp_path: Path) -> None:
    built = _small_sdk(tmp_path / "made")
    digest = content_digest(built.folder)
    description = msgspec.structs.replace(built.sdk, content=digest)
    (built.folder / DESCRIPTION).write_bytes(description.encoded())
    assert content_digest(built.folder) == digest and sdk_module.read_sdk(built.folder) == description
    (built.folder / "bin" / "x-gcc").write_text("#!/bin/bash\n")
    assert content_digest(built.folder) != digest and sdk_module.read_sdk(built.folder) is None


def _moved(tmp_path: Path, architecture: str, libc: str) -> tuple[Path, Sdk]:
    """Return an SDK that was copied and then moved to a path with a blank."""
    try:
        built = build_sdk(architecture, libc, lambda _: None)
    except UserError as error:
        pytest.skip(error.message)
    copy_sdk(built, tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "moved sdk")
    return tmp_path / "moved sdk", built.sdk


def _outside(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a compiler's variables."""
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "LC_ALL": "C"}


def _run(tmp_path: Path, *command: object, cwd: Path) -> str:
    words = [str(word) for word in command]
    result = subprocess.run(
        words, cwd=cwd, env=_outside(tmp_path), capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, (words, result.stdout + result.stderr)
    return result.stdout


ALL = [("x86_64", "musl"), ("x86_64", "glibc"), ("arm64", "musl"), ("arm64", "glibc")]


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
@pytest.mark.parametrize(("architecture", "libc"), ALL)
def test_hello_is_compiled_and_runs(tmp_path: Path, architecture: str, libc: str, compiler: str, linking: str) -> None:
    sdk, description = _moved(tmp_path, architecture, libc)
    require(compiler)
    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / "hello.c").write_text(HELLO)
    options = ["-static"] if linking == "static" else []
    _run(tmp_path, sdk / "bin" / f"{description.triple}-{compiler}", *options, "-o", "hello", "hello.c", cwd=clean)
    if architecture == "arm64":
        require("qemu-aarch64")
    assert _run(tmp_path, sdk / "bin" / f"{description.triple}-run", "./hello", cwd=clean) == "hello from the SDK\n"


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "libc"), ALL)
def test_headers_and_objects_are_those_of_the_sdk(tmp_path: Path, architecture: str, libc: str) -> None:
    sdk, description = _moved(tmp_path, architecture, libc)
    (tmp_path / "hello.c").write_text(HELLO)
    gcc = sdk / "bin" / f"{description.triple}-gcc"
    included = _run(tmp_path, gcc, "-M", "hello.c", cwd=tmp_path).replace("\\ ", " ")
    assert f"{sdk}/sysroot/usr/include/stdio.h" in included
    assert "/usr/include/" not in included.replace(f"{sdk}/sysroot/usr/include/", "")
    traced = _run(tmp_path, gcc, "-Wl,--trace", "-o", "hello", "hello.c", cwd=tmp_path)
    used = [line for line in traced.splitlines() if re.search(r"/(libc|crt1|Scrt1|crti|crtn)[.\w]*$", line)]
    assert len(used) >= 4 and all(line.startswith(f"{sdk}/sysroot/usr/lib/") for line in used), traced


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "libc"), ALL)
def test_cmake_finds_the_sdk_by_its_toolchain_file(tmp_path: Path, architecture: str, libc: str) -> None:
    require("cmake")
    sdk, description = _moved(tmp_path, architecture, libc)
    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / "hello.c").write_text(HELLO)
    (clean / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(hello C)\nadd_executable(hello hello.c)\n"
        "enable_testing()\nadd_test(NAME hello COMMAND hello)\n"
    )
    _run(tmp_path, "cmake", f"-DCMAKE_TOOLCHAIN_FILE={sdk}/toolchain.cmake", "-B", "out", cwd=clean)
    _run(tmp_path, "cmake", "--build", "out", cwd=clean)
    if architecture == "arm64":
        require("qemu-aarch64")
    assert "100% tests passed" in _run(tmp_path, "ctest", "--test-dir", "out", cwd=clean)
    assert description.triple in (clean / "out" / "CMakeCache.txt").read_text()


@pytest.mark.slow
def test_meson_uses_the_cross_file_with_the_commands_on_path(tmp_path: Path) -> None:
    require("meson", "qemu-aarch64")
    sdk, _ = _moved(tmp_path, "arm64", "musl")
    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / "hello.c").write_text(HELLO)
    (clean / "meson.build").write_text("project('hello', 'c')\ntest('hello', executable('hello', 'hello.c'))\n")
    script = f"PATH='{sdk}/bin':$PATH; meson setup --cross-file '{sdk}/cross.meson' out && meson test -C out"
    assert re.search(r"Ok: +1\b", _run(tmp_path, "/bin/sh", "-c", script, cwd=clean))


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "sh", "zsh"])
def test_the_environment_script_finds_its_own_place(tmp_path: Path, shell: str) -> None:
    require(shell)
    sdk, description = _moved(tmp_path, "x86_64", "musl")
    (tmp_path / "hello.c").write_text(HELLO)
    first = f"SWAPSTONE_SDK='{sdk}'; " if shell == "sh" else ""
    script = f"{first}. '{sdk}/environment-setup-{description.triple}' && $CC -o hello hello.c && {description.triple}-run ./hello"
    assert _run(tmp_path, shell, "-c", script, cwd=tmp_path) == "hello from the SDK\n"


@pytest.mark.slow
def test_its_script_is_a_level_of_the_factor_compiler(tmp_path: Path) -> None:
    sdk, description = _moved(tmp_path, "x86_64", "musl")
    plain = tmp_path / "sdk"
    sdk.rename(plain)
    found = read_sdk(plain / f"environment-setup-{description.triple}")
    assert found.cc == (str(plain / "bin" / f"{description.triple}-gcc"),)
    assert found.sysroot == str(plain / "sysroot")
