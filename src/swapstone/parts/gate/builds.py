# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds both sides of a change in one folder, one after the other: paths and times in their programs are then the same."""

from __future__ import annotations

import os
import re
import shutil
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from swapstone.core.artifacts.placeholders import fill
from swapstone.core.artifacts.program_size import sizes_of
from swapstone.core.artifacts.source_tree import sha256_of
from swapstone.core.factors import read_facts
from swapstone.core.model import UserError
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.session.option_values import duration_seconds
from swapstone.parts.build.artifacts.build_command import build_environment, run_build
from swapstone.parts.build.artifacts.loader_files import read_dependencies
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.gate.gate_file import GateFile
from swapstone.parts.gate.revisions import Repository

SIDES = ("base", "head")
"""Names of both sides, of equal length: their programs have equally long paths."""

TREE = "tree"
"""The folder in which both sides are built, beside those to which they are moved."""


FLAGS = "-O2"
"""What ``{flags}`` of a build stands for where no flags are bisected."""


class BuiltSide(NamedTuple):
    """One side of a change.

    Attributes:
        folder: of its built tree.
        data: a copy of the folder of the runs' inputs, as it was before the build.
        error: why it does not build, as a clause; empty if it does.
        loadable: SHA-256 by path of each ELF file in the tree that can be executed or loaded: a program may use any of them.
        sizes: bytes of code and data of each program, by its path; of a file that is not ELF its size.
    """

    folder: Path
    data: Path
    error: str
    loadable: dict[str, str]
    sizes: dict[str, int]

    @property
    def programs(self) -> str:
        """Return a digest of all that a run may load; empty if a program is a script, which may import any file."""
        if not self.sizes.keys() <= self.loadable.keys():
            return ""
        return sha256(
            "\0".join(f"{path}\0{digest}" for path, digest in sorted(self.loadable.items())).encode()
        ).hexdigest()

    def is_equal_to(self, other: BuiltSide) -> bool:
        """Return whether no run can differ: what it may load is equal."""
        return self.programs == other.programs != ""


def build_side(
    repository: Repository, commit: str, file: GateFile, work: Path, name: str, *, flags: str = ""
) -> BuiltSide:
    """Export a commit, build it, and move its tree.

    The build finds PATH, HOME and TMPDIR of this process in its environment, and no token.

    Args:
        repository: of the commit.
        commit: of the side.
        file: of the side: its build and its programs.
        work: the tree is built in its folder `TREE`.
        name: of the folder in `work` to which the tree is moved, as long as that of the other side.
        flags: what ``{flags}`` stands for, and the values of CFLAGS and CXXFLAGS; empty for `FLAGS`, and none of these.

    Raises:
        UserError: the files can't be exported.
    """
    tree, folder, data = work / TREE, work / name, work / f"data-{name}"
    for old in (tree, folder, data):
        shutil.rmtree(old, ignore_errors=True)
    repository.export(commit, tree)
    if file.data and (tree / file.data).is_dir():
        shutil.copytree(tree / file.data, data, symlinks=True)
    command = fill(file.build, {"jobs": str(os.cpu_count() or 1), "flags": flags or FLAGS})
    limit_s = duration_seconds(file.machine().get("build_timeout", "1h"))  # type: ignore[arg-type] # checked when it was decoded
    variables = dict.fromkeys(("CFLAGS", "CXXFLAGS"), flags) if flags else {}
    environment = {**build_environment(), "GIT_CEILING_DIRECTORIES": str(work), **variables}
    status, output = run_build(command, tree, limit_s, environment)
    tree.rename(folder)
    paths = {each: folder / each for each in file.programs}
    wrong = (f"{each} {why}" for each, path in paths.items() if (why := _bound(path, tree)))
    if error := failure_of(status, output) or next(wrong, ""):
        return BuiltSide(folder, data, error, {}, {})
    loadable = {each: sha256_of(folder / each) for each in loadable_files(folder)}
    return BuiltSide(folder, data, "", loadable, {each: _size(path) for each, path in paths.items()})


def compilers_of(side: BuiltSide) -> tuple[str, ...]:
    """Return the compilers that name themselves in the programs of a side."""
    facts = (read_facts(side.folder / path) for path in sorted(side.sizes))
    return tuple(dict.fromkeys(name for each in facts if each for name in each.of(BuildFacts).comments))


def loadable_files(folder: Path) -> list[str]:
    """Return the paths below a folder of its ELF files that can be executed or loaded, sorted."""
    plain = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return [str(path.relative_to(folder)) for path in plain if _LOADABLE.match(_start(path))]


def _start(path: Path) -> bytes:
    with readable(str(path)), path.open("rb") as file:
        return file.read(18)


def failure_of(status: int | None, output: bytes) -> str:
    """Return why a build failed, as a clause with the first line of its output that has an error; empty if it did not.

    Args:
        status: its exit status, None after a time-out.
        output: of it.
    """
    if not status:
        return "" if status == 0 else "the build does not end in time"
    lines = output.decode(errors="replace").strip().splitlines()
    text = safe_excerpt(next(filter(_ERROR.search, lines), lines[-1] if lines else "no output"))
    return f"the build ends with status {status}: {text}"


def _size(path: Path) -> int:
    try:
        found = dict(sizes_of(path))
    except UserError:  # a script
        return path.stat().st_size
    return found["text"] + found["data"]


_ERROR = re.compile(r"\berror\b", re.IGNORECASE)  # and no advice about errors
_LOADABLE = re.compile(rb"\x7fELF.{12}(?:[\2\3]\0|\0[\2\3])", re.DOTALL)
"""The header of an ELF file up to its type: ET_EXEC or ET_DYN, in either byte order."""
_WRAPPER = b"temporary wrapper script for"
"""In the first lines of what libtool makes in place of a program that needs shared objects of the same build."""


def _bound(path: Path, tree: Path) -> str:
    """Return why a program does not run outside the folder in which it was built, with the next step; empty if it does."""
    if not path.is_file():
        return "is not made by the build"
    content = path.read_bytes()
    if _WRAPPER in content[:512]:
        return "is a wrapper script of libtool: configure with --disable-shared"
    entries = read_dependencies(path.name, content)
    if any(each.startswith(str(tree)) for each in (*f"{entries.rpath}:{entries.runpath}".split(":"), *entries.needed)):
        return (
            f"searches its libraries in {TREE}, the folder of the build, and not beside itself: link with -Wl,-rpath,'$ORIGIN' "
            "(CMake: -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON), or statically"
        )
    return ""
