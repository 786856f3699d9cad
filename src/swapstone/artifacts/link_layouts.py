"""Other layouts of the same code: where functions and data lie in memory is part of no factor, and can matter more than one.

A layout shuffles the order of all functions of a program (each in a section of its own, renamed so that the linker sorts them), the
order of its objects, and with that of its data, and puts padding of another size before both. Code that comes out of libraries
stays as the library has it.
"""

from __future__ import annotations

import hashlib
import random
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from elftools.elf.elffile import ELFFile

from swapstone.factors import Recipe
from swapstone.model import UnavailableError, UserError

SECTIONS_FLAG = "-ffunction-sections"

MOST_PADDING_BYTES = 4096
"""Padding moves what follows it by up to a page: caches and branch predictors are indexed by bits below that, or hash those above."""


def with_sections(recipe: Recipe) -> Recipe:
    """Return a recipe that puts every function in a section of its own."""
    return msgspec.structs.replace(recipe, cflags=(*recipe.cflags, SECTIONS_FLAG))


def environment_padding(seed: str) -> tuple[str, str]:
    """Return a variable (name, value) whose length, drawn by a layout's seed, moves the stack by up to a page."""
    source = random.Random(hashlib.sha256(f"environment {seed}".encode()).digest())  # noqa: S311 - a layout, not a secret
    return "SWAPSTONE_LAYOUT", "x" * source.randrange(MOST_PADDING_BYTES)


_WRAPPER = """#!/bin/sh
# The compiler {real}, with each function in a section of its own, renamed so that the linker puts them in the order of layout {seed}.
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
# Compiling and linking at once leaves no objects to shuffle: nothing is changed then, and whoever compares the layouts will notice.
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


def wrapped(recipe: Recipe, seed: str, cache: Path) -> Recipe:
    """Return a recipe whose compiler makes one layout of whatever is built with it: for builds that are not ours.

    The functions of every object that is compiled with ``-c`` are shuffled, over all objects of a program; the order of the objects
    stays the build's own, and with it that of their data.

    Args:
        recipe: provided.
        seed: of the order and of the padding.
        cache: the folder of what was built.

    Raises:
        UnavailableError: the compiler is not there.
        UserError: it can't compile the padding.
    """
    real = shlex.join(recipe.command)
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:7], 16)
    described = hashlib.sha256(f"{_WRAPPER}{real}{seed}".encode()).hexdigest()[:16]
    home = cache / "layouts" / described
    script = home / "cc"
    if not script.is_file():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".making-") as temporary:
            made = Path(temporary) / "made"
            made.mkdir()
            _make_padding(made, seed, lambda arguments: _compile([*recipe.command, *arguments]))
            padding = shlex.quote(str(home / "padding.o"))
            text = _WRAPPER.format(real=real, seed=seed, number=number, padding=padding)
            (made / "cc").write_text(text)
            (made / "cc").chmod(0o755)
            if not script.is_file():
                made.rename(home)
    return msgspec.structs.replace(recipe, command=(str(script),))


def _compile(command: Sequence[str]) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except OSError as error:
        raise UnavailableError(f"The compiler {command[0]!r} can't be run: {error.strerror}.") from error
    if result.returncode != 0:
        raise UserError(f"{shlex.join(command)} failed: {result.stderr.strip()}")


def shuffled(objects: Sequence[str], folder: Path, seed: str, compiler: Callable[[Sequence[str]], object]) -> list[str]:
    """Shuffle functions and objects.

    Args:
        objects: paths of compiled objects; they are not changed.
        folder: where the shuffled copies go.
        seed: of the order and of the padding.
        compiler: called with arguments to compile the padding.

    Returns:
        Paths to link, in order.

    Raises:
        UnavailableError: there is no objcopy.
        UserError: it fails.
    """
    source = random.Random(hashlib.sha256(seed.encode()).digest())  # noqa: S311 - a layout, not a secret
    copies = [str(_sorted_copy(Path(path), folder, seed)) for path in objects]
    source.shuffle(copies)
    return [str(_make_padding(folder, seed, compiler)), *copies]


def _make_padding(folder: Path, seed: str, compiler: Callable[[Sequence[str]], object]) -> Path:
    """Make an object that nothing uses and that moves what follows it; return its path."""
    source = random.Random(hashlib.sha256(f"padding {seed}".encode()).digest())  # noqa: S311 - a layout, not a secret
    text, data = (source.randrange(16, MOST_PADDING_BYTES, 16) for _ in range(2))
    padding = folder / "padding.c"
    # It is named so that it comes first among the sorted sections.
    padding.write_text(
        f'__asm__(".section .text.sorted.0,\\"ax\\"\\n.space {text}\\n.previous");\n'
        f"__attribute__((used)) static const char constant[{data}] = {{1}};\n"
        f"__attribute__((used)) static char variable[{data}] = {{1}};\n"
    )
    compiler(["-c", str(padding), "-o", str(folder / "padding.o")])
    return folder / "padding.o"


def _sorted_copy(path: Path, folder: Path, seed: str) -> Path:
    """Copy an object with each function's section renamed to one that the linker puts in the order of its name."""
    with path.open("rb") as handle:
        names = [section.name for section in ELFFile(handle).iter_sections() if section.name.startswith(".text.")]
    made = folder / f"shuffled-{path.name}"
    renamed = [f"--rename-section={name}=.text.sorted.{_rank(seed, path.name, name)}" for name in names]
    try:
        result = subprocess.run(
            ["objcopy", *renamed, str(path), str(made)], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise UnavailableError(
            f"objcopy can't be run: {error.strerror}.", "Install it: sudo apt-get install binutils"
        ) from error
    if result.returncode != 0:
        raise UserError(f"objcopy could not rename the sections of {path.name}: {result.stderr.strip()}")
    return made


def _rank(seed: str, *names: str) -> str:
    return "1" + hashlib.sha256("\0".join((seed, *names)).encode()).hexdigest()[:15]
