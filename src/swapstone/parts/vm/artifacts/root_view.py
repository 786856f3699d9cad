# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks up files in an unpacked root file system as a process does whose root it is. Nothing is executed, and no link leaves the root."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import msgspec

from swapstone.core.factors import ProgramFacts, read_facts
from swapstone.core.model import ROOT_FILES, UserError
from swapstone.core.model.safe_text import safe
from swapstone.parts.build.artifacts.loader_cache import CACHE_PATH, decode_cache
from swapstone.parts.build.artifacts.program_closure import FileTree, resolve_closure
from swapstone.parts.vm.artifacts.root_file_systems import resolve_inside

_MOST_BYTES = 1 << 30
_LINE_BYTES = 256
_MOST_SCRIPTS = 4
"""Limits of the kernel: links in a path, bytes of a script's first line, and scripts that run scripts (fs/namei.c, fs/exec.c)."""

_MACHINES = {
    "x86_64": ("EM_X86_64", "EM_386"),
    "aarch64": ("EM_AARCH64", "EM_ARM"),
    "armv7l": ("EM_ARM",),
    "arm": ("EM_ARM",),
    "riscv64": ("EM_RISCV",),
}
"""The programs that the kernel of a machine runs, by the name in ELF."""


class RootView(msgspec.Struct, frozen=True):
    """A root file system, and the user's folder in it.

    Attributes:
        source: the folder or archive of the user, for messages.
        folder: the unpacked root.
        files: the folder that appears as `ROOT_FILES`; empty for none.
    """

    source: str
    folder: str
    files: str = ""

    def place(self, path: str) -> Path | None:
        """Return the file of this machine that a path leads to; None if there is none.

        Args:
            path: absolute, in the root.
        """
        real = self.real(path)
        return self._host(real) if real else None

    def real(self, path: str) -> str:
        """Return the path of a regular file without links; empty if there is none."""
        inside = resolve_inside(path, self._target)
        try:
            return f"/{inside}" if inside is not None and stat.S_ISREG(self._host(f"/{inside}").lstat().st_mode) else ""
        except OSError:
            return ""

    def _target(self, path: str) -> str | None:
        here = self._host(f"/{path}")
        return os.readlink(here) if os.path.islink(here) else None  # noqa: PTH114, PTH115 - texts of archives

    def _host(self, path: str) -> Path:
        if self.files and (path == ROOT_FILES or path.startswith(f"{ROOT_FILES}/")):
            return Path(self.files + path[len(ROOT_FILES) :])
        return Path(self.folder + path)

    def facts(self, path: str) -> ProgramFacts | None:
        """Return the facts of a program or shared object, with its path in the root."""
        place = self.place(path)
        facts = read_facts(place) if place is not None else None
        return msgspec.structs.replace(facts, path=self.real(path)) if facts is not None else None

    def find_program(self, name: str, path_variable: str) -> str:
        """Return the path of a program, as execvp(3) finds it in the root.

        Args:
            name: as typed: a path in the root, a path that begins in the user's folder, or a name that is searched.
            path_variable: the value of PATH.

        Raises:
            UserError: it is missing, or can't be executed.
        """
        if name.startswith("/"):
            return self._executable(name, name)
        if "/" in name:
            return self._executable(f"{ROOT_FILES}/{name.removeprefix('./')}", name)
        for part in path_variable.split(":"):
            if part.startswith("/") and self._is_executable(f"{part.rstrip('/')}/{name}"):
                return f"{part.rstrip('/')}/{name}"
        raise UserError(
            f"The root file system {safe(self.source)} has no program {safe(name)} in {safe(path_variable)}.",
            f"Name it by its path in the root, or a program of the current folder by ./{safe(name)}",
        )

    def _executable(self, path: str, name: str) -> str:
        if not self.real(path):
            inside = f"in the root file system {safe(self.source)}"
            raise UserError(
                f"There is no program {safe(name)} {inside if name.startswith('/') else 'in the current folder'}.",
                "A program is a path in the root, a name, or a path in the current folder that begins with ./",
            )
        if not self._is_executable(path):
            raise UserError(f"{safe(name)} can't be executed: its file has no permission for it.", "chmod +x it.")
        return path

    def _is_executable(self, path: str) -> bool:
        place = self.place(path)
        return place is not None and bool(place.stat().st_mode & 0o111)

    def check(self, program: str, architecture: str, environment: dict[str, str]) -> ProgramFacts:
        """Check that a program can start: interpreter, architecture, loader and libraries.

        Returns:
            The facts of the ELF file that the kernel starts: of a script, its interpreter.

        Args:
            program: a path that `find_program` returned.
            architecture: of the machine, as ``uname -m`` prints it.
            environment: of the process.

        Raises:
            UserError: something is missing in the root; the message names it.
        """
        binary = self._binary(program, environment.get("PATH", ""))
        facts = self.facts(binary)
        if facts is None:
            raise UserError(f"{safe(binary)} of {safe(self.source)} is a damaged ELF file.")
        known = _MACHINES.get(architecture)
        if known is not None and facts.machine not in known:
            raise UserError(
                f"{safe(binary)} of {safe(self.source)} is a program for {safe(facts.machine.removeprefix('EM_'))}, and the machine is "
                f"{architecture}.",
                "Take a root file system of the machine's architecture, or another machine: --target vm --arch NAME",
            )
        if facts.interp is None:
            return facts
        if not self.real(facts.interp):
            raise UserError(
                f"{safe(binary)} needs the loader {safe(facts.interp)}, which is not in the root file system {safe(self.source)}.",
                "Was it built for another system? Add its C library to the root, or link it statically.",
            )
        cache = self.place(CACHE_PATH)
        entries = decode_cache(cache.read_bytes()) if cache is not None and cache.stat().st_size < _MOST_BYTES else {}
        closure = resolve_closure(
            binary,
            FileTree(self._read, self.real, entries),
            library_path=environment.get("LD_LIBRARY_PATH", ""),
            folder=ROOT_FILES if self.files else "/",
        )
        if closure.missing:
            name, needed_by = closure.missing[0]
            raise UserError(
                f"{safe(needed_by)} needs {safe(name)}, which is not in the root file system {safe(self.source)}.",
                "Install its package in the root, or name its folder: --env LD_LIBRARY_PATH=DIR",
            )
        return facts

    def _binary(self, program: str, path_variable: str) -> str:
        """Return the ELF file that the kernel starts for a program: of a script, its interpreter."""
        for _ in range(_MOST_SCRIPTS + 1):
            head = self._head(program)
            if head.startswith(b"\x7fELF"):
                return program
            words = re.split("[ \t]+", head[2:].partition(b"\n")[0].decode(errors="surrogateescape").strip(" \t"))
            if not head.startswith(b"#!") or not words[0].startswith("/"):
                raise UserError(f"{safe(program)} is neither an ELF program nor a script with #! and a path.")
            if not self._is_executable(words[0]):
                raise UserError(
                    f"The script {safe(program)} needs {safe(words[0])}, which is not in the root file system {safe(self.source)}.",
                    "Name another interpreter in its first line, or install it in the root.",
                )
            if words[0].endswith("/env") and len(words) > 1 and not words[1].startswith("-"):
                self.find_program(words[1], path_variable)
            program = words[0]
        raise UserError(f"{safe(program)} is a script of a script of a script.")

    def _head(self, path: str) -> bytes:
        place = self.place(path)
        if place is None:
            return b""
        with place.open("rb") as handle:
            return handle.read(_LINE_BYTES)

    def _read(self, path: str) -> bytes:
        place = self.place(path)
        if place is None or place.stat().st_size > _MOST_BYTES:
            raise UserError(f"{safe(path)} of {safe(self.source)} is missing or too large.")
        return place.read_bytes()
