# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a compiler reports of itself: kind, version, target machine, and the name that it writes into programs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from swapstone.core.factors.elf_file import read_facts
from swapstone.core.model import FrozenStruct, UserError, refuse
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.factors.build_facts import RECORD, BuildFacts

_TIMEOUT_S = 30
_EXAMPLE = "For example: compiler=gcc,/opt/toolchain/bin/x86_64-linux-gcc"


class CompilerFacts(FrozenStruct, frozen=True, kw_only=True):
    """What a compiler reports.

    Attributes:
        kind: ``gcc`` or ``clang``.
        version: such as ``12.2.0``.
        title: the first line of ``--version``.
        target: its target triple, from ``-dumpmachine``.
        name: the text that it writes into ``.comment``.
        switches: words that it records because of the command's options.
        sha256: digest of its file.
    """

    kind: str
    version: str
    title: str
    target: str
    name: str
    switches: tuple[str, ...]
    sha256: str

    @property
    def machine(self) -> str:
        """Return the machine of its target, as ``uname -m`` prints it."""
        name = self.target.partition("-")[0]
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, "i686" if re.fullmatch(r"i[3-6]86", name) else name)


@functools.cache
def probe_compiler(command: tuple[str, ...]) -> CompilerFacts:
    """Run a compiler and return what it reports.

    Args:
        command: the absolute path of the compiler, and options.

    Raises:
        UserError: there is no such file, it can't be executed, or it is no compiler; gives its answer.
    """
    path = Path(command[0])
    refuse(
        (not path.is_file(), f"There is no compiler {path}.", _EXAMPLE),
        (
            not os.access(path, os.X_OK),
            f"The compiler {path} is not executable.",
            f"Make it executable: chmod +x {shlex.quote(str(path))}",
        ),
    )
    title, target = (
        output_of([*command, option]).partition("\n")[0].strip() for option in ("--version", "-dumpmachine")
    )
    name, words = _written(command)
    kind = "clang" if "clang" in name else "gcc" if name.startswith("GCC:") else ""
    if not kind or not re.fullmatch(r"[A-Za-z0-9_.]+(-[A-Za-z0-9_.]+)+", target):
        raise UserError(
            f"{path} does not behave like gcc or clang: it compiles no empty file, or does not answer to -dumpmachine. Its answer to "
            f"--version begins with {title[:80]!r}.",
            _EXAMPLE,
        )
    plain = _written(command[:1])[1] if len(command) > 1 else words
    version = (re.findall(r"(?<![0-9])[0-9]{1,9}(?:\.[0-9]{1,9})+", name) or [""])[0 if kind == "clang" else -1]
    return CompilerFacts(
        kind=kind,
        version=version,
        title=title,
        target=target,
        name=name,
        switches=tuple(word for word in words if word not in plain),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _written(command: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Compile an empty file; return the compiler's name in ``.comment`` and the words of the command line that it records."""
    with TemporaryFolder("probe") as folder:
        made = Path(folder) / "empty.o"
        source = Path(folder) / "empty.c"
        source.write_text("int swapstone_probe;\n")
        output_of([*command, RECORD, "-c", str(source), "-o", str(made)])
        facts = read_facts(made)
    if facts is None:
        return "", ()
    built = facts.of(BuildFacts)
    words = " ".join(built.switches).split()
    return next(iter(built.comments), ""), tuple(word for word in words if not word.startswith("/"))


def output_of(command: list[str]) -> str:
    """Return what a command prints, at most 64 KiB, in an environment without the user's variables; nothing if it can't be run."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout[: 1 << 16].decode(errors="replace")


def compiler_words(text: str) -> tuple[str, ...]:
    """Return a level's command: the absolute path of the compiler, and its options.

    Raises:
        UserError: the text can't be split into words, or names no program.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"compiler={text} can't be split into words: {error}.", _EXAMPLE) from error
    if not words:
        raise UserError("The name of a compiler is empty.", _EXAMPLE)
    first = str(Path(words[0]).expanduser())
    found = first if "/" in first else shutil.which(first)
    return (os.path.abspath(found or first), *words[1:])  # noqa: PTH100 - links are kept: compilers act by their names
