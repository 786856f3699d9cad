# SPDX-License-Identifier: MIT OR Apache-2.0
"""Link the same code in different layouts: the addresses of functions and data are no factor, but can have larger effects than one.

A layout shuffles all functions of a program and the order of its objects with their data, and adds padding before both. Each
function has its own section, renamed so that the linker sorts it. Code of libraries keeps its order.
"""

from __future__ import annotations

import hashlib
import random
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.factors import Recipe
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.build import Build

SECTIONS_FLAG = "-ffunction-sections"

MOST_PADDING_BYTES = 4096
"""Padding shifts addresses by up to a page, because caches and branch predictors are indexed or hashed by those bits."""


def environment_padding(seed: str) -> tuple[str, str]:
    """Return a variable (name, value) whose length depends on the seed, and shifts the stack by up to a page."""
    source = random.Random(hashlib.sha256(f"environment {seed}".encode()).digest())  # noqa: S311 - a layout, not a secret
    return "SWAPSTONE_LAYOUT", "x" * source.randrange(MOST_PADDING_BYTES)


_WRAPPER = """#!/bin/sh
# Runs {real}, with each function in its own section. Sections are renamed so that the linker sorts them for layout {seed}.
mode=link output= source= inputs= previous=
for word do
    case $word in
        -c) mode=compile ;;
        -S | -E | -M | -MM) mode=other ;;
        -o?*) output=${{word#-o}} ;;
        -*) ;;
        *)
            if [ "$previous" = -o ]; then output=$word; else inputs=yes; fi
            case $word in *.c) source=$word ;; esac
            ;;
    esac
    previous=$word
done
[ "$inputs" ] && [ $mode != other ] || exec {real} "$@"
# Compiling and linking in one step has no objects to shuffle, so nothing is changed. The comparison of layouts reports that.
[ $mode = compile ] || [ ! "$source" ] || exec {real} "$@"
[ $mode = compile ] || exec {real} -ffunction-sections "$@" {padding}
{real} -ffunction-sections "$@" || exit
if [ ! "$output" ]; then
    output=${{source##*/}}
    output=${{output%.c}}.o
fi
key=$(printf %s "$output" | cksum | cut -d ' ' -f 1)
objdump -h "$output" | awk -v "seed=$((({number} + key) % 2147483647))" '
    BEGIN {{ srand(seed) }}
    $2 ~ /^\\.text\\./ {{ printf "--rename-section=%s=.text.sorted.1%09d%05d\\n", $2, int(rand() * 1e9), count++ }}
' > "$output.sections"
objcopy "@$output.sections" "$output"
status=$?
rm -f "$output.sections"
exit $status
"""


def with_layout_compiler(recipe: Recipe, seed: str, cache: Path) -> Recipe:
    """Return a recipe whose compiler applies a layout to everything it builds, for builds by the user's command.

    The functions of all objects compiled with ``-c`` are shuffled across the program. The order of objects and their data stays
    that of the build.

    Args:
        recipe: resolved.
        seed: of the order and the padding.
        cache: the cache folder.

    Raises:
        UnavailableError: the compiler is not installed.
        UserError: it can't compile the padding.
    """
    real = shlex.join(recipe.of(Build).command)
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:7], 16)
    described = hashlib.sha256(f"{_WRAPPER}{real}{seed}".encode()).hexdigest()[:16]
    home = cache / "layouts" / described
    script = home / "cc"
    if not script.is_file():
        with new_folder(home, ".making-") as made:
            make_padding(
                made, seed, lambda arguments: run_tool([*recipe.of(Build).command, *arguments], "Compiling the padding")
            )
            padding = shlex.quote(str(home / "padding.o"))
            text = _WRAPPER.format(real=real, seed=seed, number=number, padding=padding)
            (made / "cc").write_text(text)
            (made / "cc").chmod(0o755)
    return recipe.changed(Build, command=(str(script),))


def shuffle_objects(
    objects: Sequence[str], folder: Path, seed: str, compiler: Callable[[Sequence[str]], object]
) -> list[str]:
    """Shuffle functions and objects.

    Args:
        objects: paths of compiled objects; they are not modified.
        folder: for the shuffled copies.
        seed: of the order and the padding.
        compiler: called with arguments to compile the padding.

    Returns:
        Paths to link, in order.

    Raises:
        UnavailableError: objcopy is not installed.
        UserError: objcopy failed.
    """
    source = random.Random(hashlib.sha256(seed.encode()).digest())  # noqa: S311 - a layout, not a secret
    copies = [str(_sorted_copy(Path(path), folder, seed)) for path in objects]
    source.shuffle(copies)
    return [str(make_padding(folder, seed, compiler)), *copies]


def make_padding(folder: Path, seed: str, compiler: Callable[[Sequence[str]], object]) -> Path:
    """Build an unused object that shifts the addresses of what follows it.

    Args:
        folder: for the object.
        seed: of the sizes of its sections.
        compiler: runs the compiler with arguments.

    Returns:
        Its path.
    """
    source = random.Random(hashlib.sha256(f"padding {seed}".encode()).digest())  # noqa: S311 - a layout, not a secret
    text, data = (source.randrange(16, MOST_PADDING_BYTES, 16) for _ in range(2))
    padding = folder / "padding.c"
    # Its name sorts before those of all other sections.
    padding.write_text(
        f'__asm__(".section .text.sorted.0,\\"ax\\"\\n.space {text}\\n.previous");\n'
        f"__attribute__((used)) static const char constant[{data}] = {{1}};\n"
        f"__attribute__((used)) static char variable[{data}] = {{1}};\n"
    )
    compiler(["-c", str(padding), "-o", str(folder / "padding.o")])
    return folder / "padding.o"


def _sorted_copy(path: Path, folder: Path, seed: str) -> Path:
    """Copy an object, with each function's section renamed for the linker's sorting."""
    with path.open("rb") as handle:
        names = [section.name for section in ELFFile(handle).iter_sections() if section.name.startswith(".text.")]
    made = folder / f"shuffled-{path.name}"
    renamed = [f"--rename-section={name}=.text.sorted.{_rank(seed, path.name, name)}" for name in names]
    what = f"Renaming the sections of {path.name}"
    run_tool([require_command("objcopy", what), *renamed, str(path), str(made)], what)
    return made


def _rank(seed: str, *names: str) -> str:
    return "1" + hashlib.sha256("\0".join((seed, *names)).encode()).hexdigest()[:15]
