# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build a program from sources by a build command: for each variant in its own copy of the sources."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.cache_folder import read_description, take_lock
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.placeholders import fill
from swapstone.core.artifacts.program_size import stripped_sizes
from swapstone.core.artifacts.source_tree import copy_sources, digest_tree, sha256_of
from swapstone.core.artifacts.tool_versions import compiler_identity
from swapstone.core.factors import Recipe, read_facts
from swapstone.core.model import FrozenStruct, OwnProgram, UserError, placeholders_in, refuse
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.parts.build.artifacts.build_command import build_environment, run_build
from swapstone.parts.build.artifacts.build_tools import build_tools, placeholder_values, tool_variables
from swapstone.parts.build.artifacts.cxx_compiler import CXX_SUFFIXES, cxx_command
from swapstone.parts.build.artifacts.libraries import library_environment
from swapstone.parts.build.artifacts.library_table import (
    missing_hint,
    missing_library,
    missing_rust_target,
    needs_cxx_library,
)
from swapstone.parts.build.build import Build

LAST_LINES = 15
_PROMPT = "\n$ "
_NAMED = 8  # maximum number of programs that an error message lists

KeepLog = Callable[[bytes], str]
"""Stores the log of a build and returns its path."""


class FinishedBuild(FrozenStruct, frozen=True, kw_only=True):
    """The description of a finished build in the cache.

    Attributes:
        tree: digest of the copy after the build.
        log: output of the build.
    """

    tree: str
    log: str


class SourceBuilder:
    """Builds a program for each variant.

    Args:
        own: gives the sources, the build command and the program's path.
        rebuild: whether to ignore the cache.

    Raises:
        UserError: a source can't be read.
    """

    def __init__(self, own: OwnProgram, *, rebuild: bool = False) -> None:
        self._own = own
        self._source = Path(own.source)
        self._rebuild = rebuild
        self._sources = digest_tree(self._source)

    def with_program(self, own: OwnProgram) -> SourceBuilder:
        """Return a builder of the same sources whose build makes another program."""
        other = copy.copy(self)
        other._own = own
        return other

    def build(self, recipe: Recipe, keep_log: KeepLog, notify: Callable[[str], None] = lambda _: None) -> Built:
        """Build the program for one variant, or return it from the cache.

        A copy that was modified after its build (e.g. by a program that writes to its folder) is restored.

        Args:
            recipe: resolved; gives compiler and flags.
            keep_log: called with the build's output, also when the build fails.
            notify: called with a line for the user before a long step.

        Raises:
            UnavailableError: the compiler is not installed.
            UserError: the build failed or timed out; the message ends with the last lines of its log.
        """
        require_command(recipe.of(Build).command[0], "Compiling")
        # A C++ library is built if the sources are mainly C++, or the command uses `{cxx}`.
        needs_cxx = "cxx" in placeholders_in(self._own.build) or self._is_cxx
        tools = build_tools(recipe, cxx_command(recipe, notify, needed=needs_cxx))
        command = fill(self._own.build, placeholder_values(tools), dict(recipe.values))
        environment = build_environment() | tool_variables(tools) | library_environment(recipe)
        parts = ("own 1", self._sources, command, self._own.command[0], *sorted(map("=".join, environment.items())))
        address = "\n".join((*parts, compiler_identity(recipe.of(Build).command)))
        home = cache_dir().resolve() / "own" / sha256(address.encode(errors="surrogateescape")).hexdigest()[:32]
        with lock_copy(home) as alone:
            made = None if self._rebuild and alone else read_description(home / "made.json", FinishedBuild)
            if made is not None:
                keep_log(made.log.encode())
            intact = made is not None and digest_tree(home / "tree", everything=True) == made.tree
            if not (alone or intact):
                raise UserError(
                    f"Another comparison uses {home}, with the same sources and flags.", "Wait for it to end."
                )
            if made is None:
                self._build(home, command, recipe, environment, keep_log)
            elif not intact:
                shutil.rmtree(home / "tree")
                copy_sources(home / "built", home / "tree", everything=True)
        program = program_in(home / "tree", self._own.command[0]).resolve()
        inputs, sizes = (("sources", self._sources),), stripped_sizes(program)
        return Built(program, sha256_of(program), command, inputs, sizes, read_facts(program), home / "tree")

    @functools.cached_property
    def _is_cxx(self) -> bool:
        """Whether at least as many sources are C++ as C. A few C++ files in a C project are mostly tests or for another system."""
        suffixes = [path.suffix for path in self._source.rglob("*")]
        cxx = sum(suffix in CXX_SUFFIXES for suffix in suffixes)
        return cxx > 0 and cxx >= suffixes.count(".c")

    def _build(
        self, home: Path, command: str, recipe: Recipe, environment: Mapping[str, str], keep_log: KeepLog
    ) -> None:
        """Build at the final path, because many builds store their path in their output."""
        shutil.rmtree(home, ignore_errors=True)
        tree = home / "tree"
        copy_sources(self._source, tree)
        status, output = run_build(command, tree, self._own.build_timeout_ms / 1000, environment)
        log = f"in {tree}\n$ {command}\n".encode() + output
        kept = keep_log(log)
        if status != 0:
            what, hint = _failure(self._own, recipe, status, output)
            lines = output.decode(errors="replace").rstrip().splitlines()[-LAST_LINES:] or ["(it printed nothing)"]
            raise UserError(
                "\n".join((f"The build {what}{': ' if hint else _PROMPT}{command}", *lines, f"The log: {kept}")), hint
            )
        self._check(tree, kept)
        copy_sources(tree, home / "built", everything=True)
        made = FinishedBuild(tree=digest_tree(tree, everything=True), log=log.decode(errors="replace"))
        write_whole(home / "made.json", made.encoded())

    def _check(self, tree: Path, log: str) -> None:
        """Check that the build created the program."""
        typed = self._own.command[0]
        program = program_in(tree, typed)
        if not program.is_file():
            there = ", ".join(_programs_in(tree)) or "none"
            raise UserError(
                f"The build created no program {typed}. Programs in its copy: {there}.\nThe log: {log}",
                "After --, name the program by its path inside the sources; name a program of the system by its absolute path.",
            )
        before = self._source / typed
        same = before.is_file() and before.stat().st_mtime_ns == program.stat().st_mtime_ns
        refuse(
            (
                not os.access(program, os.X_OK),
                f"{typed}, created by the build, is not executable.\nThe log: {log}",
                f"Make it executable: --build '... && chmod +x {shlex.quote(typed)}'",
            ),
            (
                same and program.is_relative_to(tree) and read_facts(program) is not None,
                f"The build did not change {typed}, which was built before in the sources.\nThe log: {log}",
                "Make the build start from scratch: --build 'make clean && make ...'",
            ),
        )


def program_in(tree: Path, typed: str) -> Path:
    """Return the path of a program in a copy of the sources.

    cargo puts the programs of a target triple into a folder of that name: ``target/TRIPLE/release`` in place of ``target/release``.
    """
    program = tree / typed
    if not program.exists() and program.parent.parent.name == "target":
        built = program.parent.parent.glob(f"*/{program.parent.name}/{program.name}")
        return next((path for path in sorted(built) if path.is_file()), program)
    return program


def _failure(own: OwnProgram, recipe: Recipe, status: int | None, output: bytes) -> tuple[str, str]:
    """Return what happened to a build that failed, starting with what was missing if the output reports that, and a hint."""
    if status is None:
        return f"did not end within {own.build_timeout_ms / 1000:g} s", "Raise its time-out with --build-timeout."
    text = output.decode(errors="replace")
    if target := missing_rust_target(text):
        return (
            f"failed: Rust's standard library for {target} is not installed. Install it: rustup target add {target}",
            "",
        )
    if recipe.of(Build).libc != "glibc" and "cxx" not in placeholders_in(own.build) and needs_cxx_library(text):
        again = shlex.quote(f"export CXX={{cxx}}; {own.build}")
        return (
            f"failed: it needs a C++ library for {recipe.of(Build).libc}, which is built if the command names {{cxx}}: --build {again}",
            "",
        )
    missing = missing_library(text)
    if missing is None:
        return "failed", "Try the command in a copy of the sources."
    name, library = missing
    return (
        f"failed: it did not find {name} for {recipe.of(Build).libc}. {missing_hint(library, own.libraries, recipe.of(Build).libc)}",
        "",
    )


def _programs_in(tree: Path) -> list[str]:
    found = [path for path in sorted(tree.rglob("*")) if path.is_file() and os.access(path, os.X_OK)]
    programs = [path for path in found if read_facts(path) is not None] or found
    names = [f"./{path.relative_to(tree)}" for path in programs]
    return [*names[:_NAMED], *(["..."] if len(names) > _NAMED else [])]


_held: dict[Path, int] = {}
"""Open lock files of the copies that this process uses; released at its end."""


@contextlib.contextmanager
def lock_copy(home: Path) -> Iterator[bool]:
    """Lock a copy while this process lives, so that no other process builds or restores it. Yields whether no other process uses it.

    Raises:
        UserError: the cache can't be written.
    """
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        lock = _held.setdefault(home, -1)
        if lock < 0:
            lock = _held[home] = os.open(f"{home}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(
            f"The copy {home} can't be made: {error.strerror}.",
            "Free some space there, or set XDG_CACHE_HOME to a writable folder.",
        ) from error
    path = Path(f"{home}.lock")
    alone = take_lock(lock, path, wait=False)
    if not alone:
        take_lock(lock, path, shared=True)  # waits while another process builds it
    try:
        yield alone
    finally:
        take_lock(lock, path, shared=True)
