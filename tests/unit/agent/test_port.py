# SPDX-License-Identifier: MIT OR Apache-2.0
"""System call numbers, and the processors for which the agent and init can be built."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.targets.agent_build import agent_sources, build_agent
from swapstone.parts.vm.machine.qemu import build_init, guest_sources
from tests.programs import require
from tests.shared import Shared

ARCH = next(path for path in agent_sources() if path.name == "arch.h").read_text()
PORT = next(path for path in agent_sources() if path.name == "port.h").parent


def numbers(condition: str) -> dict[str, int]:
    """Return the NR_ table after a processor's condition in arch.h."""
    table = ARCH[ARCH.index(condition) :]
    table = table[: table.index("};")]
    return {name.lower(): int(value) for name, value in re.findall(r"NR_(\w+) = (\d+)", table)}


def kernel_numbers(header: str, *options: str) -> dict[str, int]:
    """Return the numbers of a kernel header, read with the preprocessor."""
    command = ["cc", "-E", "-dM", *options, "-include", header, "-x", "c", "/dev/null"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)\n", text))
    return {name: int(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("condition", "header"),
    [("defined(__x86_64__)", "asm/unistd_64.h"), ("defined(__aarch64__)", "asm-generic/unistd.h")],
)
def test_system_call_numbers_are_those_of_the_kernel_header(condition: str, header: str) -> None:
    try:
        kernel = kernel_numbers(header)
    except subprocess.CalledProcessError:
        pytest.skip(f"this machine has no {header} (linux-libc-dev)")
    ours = numbers(condition)
    assert len(ours) >= 30
    assert {name: kernel.get(name) for name in ours} == ours


def test_the_number_of_ioperm_is_that_of_the_kernel_header() -> None:
    (number,) = re.findall(r"NR_IOPERM = (\d+)", ARCH)
    try:
        assert kernel_numbers("asm/unistd_64.h")["ioperm"] == int(number)
    except subprocess.CalledProcessError:
        pytest.skip("this machine has no asm/unistd_64.h (linux-libc-dev)")


def test_all_processors_have_the_same_system_calls() -> None:
    names = [set(numbers(f"defined(__{name}__)")) for name in ("x86_64", "aarch64", "arm")]
    assert names[0] == names[1] == names[2]


def test_only_port_depends_on_the_system_or_the_processor() -> None:
    named = re.compile(
        r"__linux__|__x86_64__|__aarch64__|__arm__|__riscv|syscall|#include <(?!std(arg|bool|def|int)\.h>)"
    )
    for path in {*agent_sources(), *guest_sources()}:
        if path.parent != PORT:
            assert not named.search(path.read_text()), path


def test_the_agent_is_linked_without_a_library(agent: Path) -> None:
    dynamic = subprocess.run(["readelf", "-Wld", agent], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in dynamic
    assert "NEEDED" not in dynamic
    symbols = subprocess.run(["nm", agent], capture_output=True, text=True, check=True).stdout
    assert " T port_main" in symbols
    assert "U " not in symbols
    assert "__libc" not in symbols


@pytest.mark.slow
def test_init_is_linked_without_a_library(tmp_path: Path) -> None:
    init = build_init(tmp_path)
    dynamic = subprocess.run(["readelf", "-Wld", init], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in dynamic
    assert "NEEDED" not in dynamic
    assert build_init(tmp_path) == init
    assert not {path.stem for path in agent_sources()} & {"virtual_machine", "init"}
    assert {"virtual_machine", "init", "text", "linux"} <= {path.stem for path in guest_sources()}


def test_an_unchanged_agent_is_not_built_again(shared: Shared) -> None:
    agents = shared.folder("agents", build_agent)
    first = build_agent(agents)
    made = first.stat().st_mtime_ns
    assert build_agent(agents) == first
    assert first.stat().st_mtime_ns == made
    assert [path.name for path in agents.iterdir()] == [first.parent.name]  # nothing half made is left


def test_a_missing_compiler_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no C compiler named 'no-such-cc'") as caught:
        build_agent(tmp_path, "no-such-cc")
    assert "apt-get install gcc" in caught.value.hint


def test_a_compiler_error_is_quoted(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\n[ $1 = --version ] && echo broken 1 && exit 0\necho out of luck >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(UserError, match="can't compile the agent:\nout of luck"):
        build_agent(tmp_path / "agents", str(broken))


def test_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be written to"):
        build_agent(tmp_path / "file" / "agents")


@pytest.mark.slow
def test_clang_builds_the_agent(tmp_path: Path) -> None:
    require("clang")
    agent = build_agent(tmp_path, "clang")
    result = subprocess.run([agent, "-"], process_group=0, input=b"swapstone-plan 6\n", capture_output=True, check=True)
    assert result.stdout == b"swapstone-agent 7\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "package"),
    [
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
        ("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"),
    ],
)
def test_agent_and_init_are_built_for_other_processors(tmp_path: Path, compiler: str, package: str) -> None:
    require(compiler)
    assert build_agent(tmp_path, compiler).stat().st_size > 5000
    assert build_init(tmp_path, compiler).stat().st_size > 5000


LONG = pytest.mark.exhaustive  # gcc compiles for it above


@pytest.mark.parametrize(
    "machine",
    ["aarch64-linux-gnu", *(pytest.param(name, marks=LONG) for name in ("armv7-linux-gnueabihf", "riscv64-linux-gnu"))],
)
@pytest.mark.slow
def test_each_file_compiles_for_other_processors(tmp_path: Path, machine: str) -> None:
    """Clang compiles for all processors, also without the cross tools for linking."""
    require("clang")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fno-pie", "-c"]
    for source in sorted({*agent_sources(), *guest_sources()}):
        if source.suffix == ".c":
            made = tmp_path / f"{source.stem}.o"
            result = subprocess.run(
                ["clang", f"--target={machine}", *flags, source, "-o", made],
                capture_output=True,
                text=True,
                check=False,
            )
            if "unable to create target" in result.stderr:
                pytest.skip(f"this clang has no back end for {machine}")
            assert result.returncode == 0, result.stderr
