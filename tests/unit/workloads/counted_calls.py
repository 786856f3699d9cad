# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count a workload's calls of the C library: each goes through a stub that counts it and jumps to the function."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from swapstone.core.factors import Recipe
from swapstone.core.model import Workload
from swapstone.parts.build.artifacts.workload_build import companion_programs, inputs_of
from swapstone.parts.build.build import Build
from tests.shared import Shared
from tests.unit.builders import source_of
from tests.unit.workloads.programs import ENVIRONMENT, SOURCES, recipe_for

HARNESS_SYMBOLS = frozenset(
    {"fail", "parameter", "path_beside_program", "program_path", "require", "task_count", "unnamed_file"}
)
NO_CALLS = frozenset({"__errno_location", "_GLOBAL_OFFSET_TABLE_", "stderr"})  # not called in the source
_VERSIONED = ("__isoc99_", "__isoc23_")  # glibc's names of scanf's family, by the version of ISO C

# The file is shared with children and with programs that replace this one.
_COUNTERS = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((visibility("hidden"))) unsigned long *swapstone_calls;
__attribute__((constructor)) static void map_calls(void) {
    int file = open(getenv("CALLS"), O_RDWR | O_CLOEXEC);
    swapstone_calls = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}
"""
TIMEOUT_S = 600
"""A busy machine needs more than a minute to compile a large workload."""

_STUB = """
.globl counted_{name}
.type counted_{name}, @function
counted_{name}:
    movq swapstone_calls(%rip), %r11
    lock incq {offset}(%r11)
    jmp {name}@PLT
"""
"""x86-64; r11 is free at a call (System V ABI, section 3.2.1)."""

_HEAD = """
.section .note.GNU-stack, "", @progbits
.hidden swapstone_calls
.text
"""


def compile_object(recipe: Recipe, file: str, target: Path) -> Path:
    """Compile a workload's source."""
    command = [*recipe.of(Build).command, *recipe.of(Build).cflags, "-I", str(SOURCES), "-c", str(SOURCES / file)]
    subprocess.run([*command, "-o", str(target)], check=True, timeout=TIMEOUT_S)
    return target


def undefined_symbols(compiled: Path) -> tuple[str, ...]:
    """Return the names of the symbols that an object or program needs."""
    result = subprocess.run(["nm", "-u", str(compiled)], check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return tuple(line.split()[-1].split("@")[0] for line in result.stdout.splitlines())


def plain_name(symbol: str) -> str:
    """Return the name in the source of a symbol."""
    return next((symbol.removeprefix(each) for each in _VERSIONED if symbol.startswith(each)), symbol)


def calls_of_a_pass(workload: Workload, level: str, folder: Path, shared: Shared) -> dict[str, int]:
    """Return how often one pass calls each function of the C library, in all its processes and threads.

    What all programs of a C library have in common is compiled once: the harness and the counters.
    """
    program, names = _with_stubs(workload, level, folder, shared.folder(f"counters-{level}", _common(level)))
    one, two = (_calls(program, names, passes, workload, folder) for passes in (1, 2))
    return {name: count for name, count in sorted((two - one).items()) if count}


def _common(level: str) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        (folder / "counters.c").write_text(_COUNTERS)
        for path in (folder / "counters.c", SOURCES / "harness.c"):
            _compile(recipe_for(level), "-c", str(path), "-o", str(folder / f"{path.stem}.o"))

    return fill


def _compile(recipe: Recipe, *arguments: str) -> None:
    subprocess.run([*recipe.of(Build).command, *recipe.of(Build).cflags, *arguments], check=True, timeout=TIMEOUT_S)


def _with_stubs(workload: Workload, level: str, folder: Path, common: Path) -> tuple[Path, tuple[str, ...]]:
    recipe = recipe_for(level)
    compiled = compile_object(recipe, source_of(workload).file, folder / "workload.o")
    names = tuple(name for name in undefined_symbols(compiled) if name not in HARNESS_SYMBOLS | NO_CALLS)
    renamed = [f"--redefine-sym={name}=counted_{name}" for name in names]
    subprocess.run(["objcopy", *renamed, str(compiled)], check=True, timeout=TIMEOUT_S)
    stubs = folder / "stubs.s"
    stubs.write_text(_HEAD + "".join(_STUB.format(name=name, offset=8 * i) for i, name in enumerate(names)))
    program = folder / "prog"
    inputs = map(str, (compiled, stubs, common / "counters.o", common / "harness.o"))
    _compile(recipe, *inputs, "-o", str(program), *recipe.of(Build).ldflags, *inputs_of(workload).libraries)
    for started in companion_programs(workload, recipe):
        shutil.copy2(started, folder / started.name)
    for companion in inputs_of(workload).companions:
        compile_shared(recipe, companion, folder / f"{Path(companion).stem}.so")
    return program, names


def compile_shared(recipe: Recipe, file: str, target: Path) -> Path:
    """Build a companion of a workload."""
    flags = (*recipe.of(Build).cflags, "-shared", "-fPIC", str(SOURCES / file), "-o", str(target))
    subprocess.run([*recipe.of(Build).command, *flags, *recipe.of(Build).ldflags], check=True, timeout=TIMEOUT_S)
    return target


def _calls(program: Path, names: tuple[str, ...], passes: int, workload: Workload, folder: Path) -> Counter[str]:
    counts = folder / "calls"
    counts.write_bytes(bytes(4096))
    result = subprocess.run(
        [str(program), str(passes), *workload.arguments],
        cwd=folder,
        env={**ENVIRONMENT, "CALLS": str(counts)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.stdout.endswith("end\n"), result.stdout + result.stderr
    numbers = struct.unpack_from(f"={len(names)}Q", counts.read_bytes())
    return Counter({plain_name(name): number for name, number in zip(names, numbers, strict=True)})
