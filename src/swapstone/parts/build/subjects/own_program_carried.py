# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of an own program that a machine gets: the program, its loader and libraries, and what ``--files`` names.

Each file is read once, as a regular file, and its bytes go into the machine's image: nothing else of this machine is there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import OwnProgram, UserError, refuse
from swapstone.core.model.cpio import Entry, file, link
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.carried_files import CarriedFiles, check_place, check_room, room_bytes
from swapstone.parts.build.artifacts.loader_files import read_dependencies
from swapstone.parts.build.artifacts.program_closure import (
    CACHE_PATH,
    CachedObject,
    Closure,
    encode_cache,
    host_tree,
    read_cache,
    resolve_closure,
)
from swapstone.parts.build.subjects.script_files import commands_of, is_plain, is_shell, library_files, text_of

MOST_FILES = 20_000
MOST_INTERPRETERS = 4
"""Limit of the kernel for scripts that run scripts (fs/exec.c, BINPRM_BUF_SIZE of 256 bytes for the line)."""

_LINE_BYTES = 256
_MOST_COMMANDS = 200
_SHELL = "/bin/sh"
_TEXT = re.compile("-[A-Za-z]*[ce]")
"""Options whose argument is a script, of shells and other interpreters; some of them have none, such as ``sh -e``."""

_PACKAGES = "/usr/"
"""Where packages of a distribution install links, such as that of python3.11 to a file in /etc."""

_ROOTFS = "Give it a root file system with all that it needs: --hold rootfs=DIR"
_MACHINES = {
    "x86_64": ("EM_X86_64", 64),
    "aarch64": ("EM_AARCH64", 64),
    "arm": ("EM_ARM", 32),
    "armv7l": ("EM_ARM", 32),
    "riscv64": ("EM_RISCV", 64),
}
_NAMES = {"EM_X86_64": "x86_64", "EM_AARCH64": "arm64", "EM_ARM": "armhf", "EM_RISCV": "riscv64"}


def carried_files(
    own: OwnProgram,
    program: str,
    folder: str,
    architecture: str,
    *,
    environment: Sequence[tuple[str, str]] = (),
    preload: Sequence[str] = (),
) -> CarriedFiles:
    """Return the files of an own program.

    Args:
        own: `as_run`.
        program: absolute path of what is executed.
        folder: the working folder.
        architecture: of the machine, as ``uname -m`` prints it.
        environment: of the process.
        preload: objects that are preloaded.

    Raises:
        UserError: a file is missing, of another architecture, no plain file, or too large; the message names it.
    """
    found = _Files(own.memory_bytes, folder)
    variables = {**dict(SOURCE_RECIPE.environment), **dict(environment)}
    binary = found.add_program(program, variables.get("PATH", ""))
    found.add_named(own.stdin, (*own.files, *_named_by_arguments(own.arguments[1:], folder)))
    if architecture == os.uname().machine:
        found.add_imports(binary, program, own.arguments[1:], variables.get("PATH", ""))
    found.add_closure(binary, architecture, variables.get("LD_LIBRARY_PATH", ""), preload)
    return found.carried()


def folder_files(own: OwnProgram, names: Sequence[str]) -> CarriedFiles:
    """Return files of the working folder, and the standard input: all that a program in a root file system gets beside it.

    Args:
        own: `as_run`.
        names: of files and folders.

    Raises:
        UserError: as `carried_files`.
    """
    found = _Files(own.memory_bytes, own.directory)
    found.add_named(own.stdin, names)
    return found.carried()


def _named_by_arguments(arguments: Sequence[str], folder: str) -> Iterator[str]:
    """Yield the files that arguments name, and folders below the working folder."""
    for word in arguments:
        path = os.path.join(folder, word)  # noqa: PTH118 - a word may be any text
        if word and "\0" not in word and _has_place(path):
            inside = os.path.realpath(path).startswith(f"{os.path.realpath(folder).rstrip('/')}/")
            if is_plain(path) or (inside and os.path.isdir(path)):  # noqa: PTH112
                yield word


def _has_place(path: str) -> bool:
    """Whether a machine has no file of its own there."""
    try:
        check_place(os.path.realpath(path))
    except UserError:
        return False
    return True


_MENTIONED = re.compile(r"/[\w.+@/-]+|[\w.+-]+\.so(?:\.\w+)*", re.ASCII)
"""A path, or the name of a shared object, in a message."""
_MOST_MESSAGE_BYTES = 4096


def uncarried_files(carried: CarriedFiles, message: bytes) -> tuple[str, ...]:
    """Return the files of this machine that an error message names and the machine of a trial does not have.

    Args:
        carried: what the machine has.
        message: the program's standard error, of which the end is read.
    """
    mentioned = _MENTIONED.findall(message[-_MOST_MESSAGE_BYTES:].decode(errors="replace"))
    cache = read_cache() if any("/" not in name for name in mentioned) else {}
    objects = [each.path for name in mentioned for each in cache.get(name, ())[:1]]
    paths = dict.fromkeys((*(name for name in mentioned if "/" in name), *objects))
    return tuple(path for path in paths if _has_place(path) and _is_uncarried(os.path.realpath(path), carried))


def _is_uncarried(path: str, carried: CarriedFiles) -> bool:
    return os.path.isfile(path) and path not in carried.files  # noqa: PTH113


class _Files:
    """Collects files up to the size that fits into a machine.

    Args:
        memory_bytes: of the machine.
        folder: the working folder, from which relative paths start.
    """

    def __init__(self, memory_bytes: int, folder: str) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._room = room_bytes(memory_bytes)
        self._files: dict[str, Entry] = {}
        self._aliases: dict[str, str] = {}
        self._folders: dict[str, None] = {}
        self._cached: list[CachedObject] = []
        self._from_image: list[str] = []
        self._read: dict[str, tuple[bytes, int]] = {}
        self._outside: dict[str, str] = {}
        self._names: list[str] = []
        self._started = ""  # by env(1)
        self._bytes = 0
        self.add_folder(folder)

    def add_named(self, stdin: str, names: Sequence[str]) -> None:
        """Add the standard input, if it is a file, and the named files and folders.

        Raises:
            UserError: a link in a folder leads to what is not named.
        """
        if stdin:
            self.add(stdin)
        self._names = [os.path.join(self._folder, name) for name in names]  # noqa: PTH118 - ".." is kept
        for name in self._names:
            self.add_tree(name)
        targets = dict.fromkeys(self._outside.values())
        if unnamed := [target for target in targets if not {target} & (self._files.keys() | self._folders.keys())]:
            path = next(path for path, target in self._outside.items() if target == unnamed[0])
            raise UserError(
                f"--files: the link {safe(path)} leads out of the folder, to {safe(unnamed[0])}, which --files does not name.",
                f"Add {' '.join(f'--files {shlex.quote(safe(target))}' for target in unnamed)}",
            )

    def carried(self) -> CarriedFiles:
        """Return what was collected."""
        files = dict(self._files)
        if self._cached:
            files[CACHE_PATH] = file(encode_cache(self._cached))
        return CarriedFiles(files, self._aliases, tuple(self._folders), tuple(self._from_image), self._memory_bytes)

    def add_folder(self, path: str) -> None:
        """Add a folder without its content."""
        real = os.path.realpath(path)
        check_place(real)
        self._folders[real] = None
        if path != real:
            self._aliases[path] = real

    def add(self, path: str) -> str:
        """Add a file, and return its path without links."""
        real = os.path.realpath(path)
        for place in (real, path):
            check_place(place)
        if real not in self._files:
            content, mode = self._content(real, path)
            self._bytes += len(content)
            self._check_room(path)
            self._files[real] = file(content, executable=bool(mode & stat.S_IXUSR))
            if len(self._files) > MOST_FILES:
                raise UserError(
                    f"--files names more than {MOST_FILES} files.", "Name the files that the program reads."
                )
        if path != real:
            self._aliases[path] = real
            parts = path.split("/")
            for at, part in enumerate(parts):
                if part == "..":  # a kernel needs the folder before it
                    self._folders[os.path.realpath("/".join(parts[:at]))] = None
        return real

    def add_program(self, program: str, path_variable: str) -> str:
        """Add a program; of a script, also its interpreter. Return the path of the ELF file that is executed."""
        for _ in range(MOST_INTERPRETERS + 1):
            head = self._content(self.add(program), program)[0]
            if head.startswith(b"\x7fELF"):
                return program
            words = _interpreter(head)
            if not words or not words[0].startswith("/"):
                raise UserError(f"{safe(program)} is neither an ELF program nor a script with #! and a path.", _ROOTFS)
            script, program = program, words[0]
            if not os.path.isfile(program):  # noqa: PTH113
                raise UserError(f"The script {safe(script)} needs {safe(program)}, which is not there.", _ROOTFS)
            if os.path.basename(program) == "env":  # noqa: PTH119
                named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
                self._add_found(named, script, path_variable)
        raise UserError(f"{safe(program)} is a script of a script of a script.", _ROOTFS)

    def _add_found(self, name: str, script: str, path_variable: str) -> None:
        """Add the program that env(1) executes, with its libraries."""
        places = [os.path.join(self._folder, part, name) for part in path_variable.split(":")]  # noqa: PTH118
        path = next((place for place in places if name and os.path.isfile(place) and os.access(place, os.X_OK)), None)  # noqa: PTH113
        if path is None:
            raise UserError(
                f"The script {safe(script)} needs {safe(name)}, which is not in {safe(path_variable)}.", _ROOTFS
            )
        content = self._content(self.add(path), path)[0]
        if not content.startswith(b"\x7fELF"):
            raise UserError(f"The script {safe(script)} needs {safe(path)}, which is no ELF program.", _ROOTFS)
        self._take(resolve_closure(path, host_tree(self._reader), folder=self._folder), path, native=True)
        self._started = path

    def add_imports(self, binary: str, program: str, arguments: Sequence[str], path_variable: str) -> None:
        """Add what a script or an interpreter needs beside the program: a shell, commands, libraries and modules.

        What their objects need comes with `add_closure`.
        """
        named = next((word for word in arguments if not word.startswith("-")), "")
        script = os.path.join(self._folder, named) if program == binary else program  # noqa: PTH118
        interpreter = self._started or binary
        texts = [(self._folder, after) for word, after in itertools.pairwise(arguments) if _TEXT.fullmatch(word)]
        texts.append((os.path.dirname(script), text_of(script)))  # noqa: PTH120
        files = list(library_files(interpreter, texts))
        for each in files:
            self.add(str(each))
        wanted = [_SHELL] if files or program != binary or is_shell(binary) else []
        wanted += commands_of(interpreter, [text for _, text in texts])
        for name in wanted:  # grows in the loop
            path = shutil.which(name if "/" not in name else os.path.join(self._folder, name), path=path_variable)  # noqa: PTH118
            known = path is None or os.path.realpath(path) in self._files or not _has_place(path)
            if path is None or known or len(wanted) > _MOST_COMMANDS:
                continue
            with contextlib.suppress(UserError):  # a word may only seem to be a command: it refuses nothing
                started = self.add_program(path, path_variable)
                closure = resolve_closure(started, host_tree(self._reader), folder=self._folder)
                self._take(closure, started, native=True)
                wanted += commands_of(started, [text_of(path)]) if started != path else ()

    def add_closure(self, program: str, architecture: str, library_path: str, preload: Sequence[str]) -> None:
        """Add the loader and the shared objects of an ELF program."""
        entries = read_dependencies(program, self._reader(program))
        machine = (entries.machine, entries.bits)
        if (expected := _MACHINES.get(architecture)) is not None and machine != expected:
            name = _NAMES.get(machine[0], machine[0])
            raise UserError(
                f"{safe(program)} is a {machine[1]}-bit program for {safe(name)}; the machine is {safe(architecture)}.",
                f"Add --arch {name}" if name in _NAMES.values() else "Build it for the machine.",
            )
        closure = resolve_closure(
            program,
            host_tree(self._reader),
            library_path=library_path,
            preload=preload,
            loadable=[path for path, entry in self._files.items() if _is_elf(path, entry.content)],
            folder=self._folder,
        )
        self._take(closure, program, native=architecture == os.uname().machine)

    def _take(self, closure: Closure, program: str, *, native: bool) -> None:
        if closure.missing and native:
            name, needed_by = closure.missing[0]
            raise UserError(
                f"{safe(needed_by)} needs {safe(name)}, which is not found on this machine.",
                f"See where the loader searches: ldd {safe(program)}; add a folder: --env LD_LIBRARY_PATH=DIR",
            )
        self._from_image += [name for name, _ in closure.missing]
        for path in (*closure.files, *filter(None, (closure.musl_path,))):
            self.add(path)
        self._cached += closure.cached

    def add_tree(self, path: str) -> None:
        """Add a file, or a folder with all that is in it."""
        real = os.path.realpath(path)
        if not os.path.lexists(real):
            raise UserError(f"--files: {safe(path)} is not there.", "Name files and folders that the program reads.")
        if not os.path.isdir(real):  # noqa: PTH112
            self.add(path)
            return
        self.add_folder(path)
        for above, folders, names in os.walk(real, onerror=_refuse_folder):
            folders.sort()
            for name in sorted((*folders, *names)):
                each = f"{above.rstrip('/')}/{name}"
                mode = os.lstat(each).st_mode
                if stat.S_ISLNK(mode):
                    self._add_link(each, real)
                elif stat.S_ISDIR(mode):
                    self.add_folder(each)
                else:
                    self.add(each)

    def _add_link(self, path: str, top: str) -> None:
        target = os.path.realpath(path)
        check_place(path)
        if not Path(target).exists():
            self._files[path] = link(os.readlink(path))  # noqa: PTH115 - a text
            return
        if top.startswith(_PACKAGES) and os.path.isfile(target):  # noqa: PTH113
            self.add(target)
        elif not target.startswith(f"{top.rstrip('/')}/") and target != top:
            self._outside[path] = target
        self._aliases[path] = target

    def _reader(self, path: str) -> bytes:
        return self._content(os.path.realpath(path), path)[0]

    def _content(self, real: str, shown: str) -> tuple[bytes, int]:
        if real not in self._read:
            self._read[real] = self._read_plain(real, shown)
        return self._read[real]

    def _read_plain(self, real: str, shown: str) -> tuple[bytes, int]:
        """Read a regular file without following a link, and without waiting for a FIFO or a device."""
        try:
            if not stat.S_ISREG(os.lstat(real).st_mode):
                raise UserError(
                    f"{safe(shown)} is no regular file: a virtual machine can't get it.",
                    "Name files and folders; devices, sockets and FIFOs can't be copied.",
                )
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as opened:
                status = os.fstat(opened.fileno())
                refuse(
                    (
                        not stat.S_ISREG(status.st_mode),
                        f"{safe(shown)} is no regular file: a virtual machine can't get it.",
                        "",
                    ),
                    (
                        status.st_mode & (stat.S_ISUID | stat.S_ISGID),
                        f"{safe(shown)} has a set-user-ID or set-group-ID bit, which has no effect in a machine where all is root's.",
                        f"Use a copy without it: cp {safe(shown)} COPY && chmod ug-s COPY",
                    ),
                )
                content = opened.read(self._room + 1)
        except OSError as error:
            raise UserError(f"{safe(shown)} can't be read: {error.strerror}.") from error
        if len(content) > self._room:
            self._bytes += max(len(content), status.st_size)
            self._check_room(shown)
        return content, status.st_mode

    def _check_room(self, path: str) -> None:
        """Refuse more than a machine has room for; the message names a memory with room for what is not read yet, too."""
        if self._bytes > self._room:
            left = {os.path.realpath(each) for name in self._names for each in _files_below(name)}
            left -= {*self._files, os.path.realpath(path)}
            check_room(self._bytes + sum(map(os.path.getsize, left)), self._memory_bytes, path)


def _files_below(name: str) -> Iterator[str]:
    """Yield a file, or the files in a folder that can be read, without those behind links."""
    if os.path.isfile(name):  # noqa: PTH113
        yield name
    for above, _, names in os.walk(name):
        paths = (os.path.join(above, each) for each in names)  # noqa: PTH118
        yield from (path for path in paths if os.path.isfile(path) and not os.path.islink(path))  # noqa: PTH113, PTH114


def _refuse_folder(error: OSError) -> None:
    raise UserError(f"--files: {safe(str(error.filename))} can't be read: {error.strerror}.") from error


def _interpreter(head: bytes) -> list[str]:
    """Return the words of a script's first line; none if there is no ``#!``."""
    if not head.startswith(b"#!"):
        return []
    line = head[2:_LINE_BYTES].partition(b"\n")[0]
    return re.split("[ \t]+", line.decode(errors="surrogateescape").strip(" \t"))


def _is_elf(name: str, content: bytes) -> bool:
    """Return whether a file is an ELF file that is not damaged: else it is data of the program."""
    try:
        return content.startswith(b"\x7fELF") and bool(read_dependencies(name, content).machine)
    except UserError:
        return False


def check_files(own: OwnProgram) -> None:
    """Check before anything is built what ``--files`` names by absolute paths.

    Raises:
        UserError: one does not exist.
    """
    for name in own.files:
        if Path(name).is_absolute() and not os.path.lexists(name):
            raise UserError(f"--files: {safe(name)} is not there.", "Name files and folders that the program reads.")
