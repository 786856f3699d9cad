"""Other layouts of the same code: where functions and data lie in memory is part of no factor, and can matter more than one.

A layout shuffles the order of all functions of a program (each in a section of its own, renamed so that the linker sorts them), the
order of its objects, and with that of its data, and puts padding of another size before both. Code that comes out of libraries
stays as the library has it.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
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
    text, data = (source.randrange(16, MOST_PADDING_BYTES, 16) for _ in range(2))
    padding = folder / "padding.c"
    # It is named so that it comes first among the sorted sections.
    padding.write_text(
        f'__asm__(".section .text.sorted.0,\\"ax\\"\\n.space {text}\\n.previous");\n'
        f"__attribute__((used)) static const char constant[{data}] = {{1}};\n"
        f"__attribute__((used)) static char variable[{data}] = {{1}};\n"
    )
    compiler(["-c", str(padding), "-o", str(folder / "padding.o")])
    return [str(folder / "padding.o"), *copies]


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
