# SPDX-License-Identifier: MIT OR Apache-2.0
"""An own program in a root file system of the user: what is checked, and how it is started there (docs/rootfs.md).

`RootView` looks up files in an unpacked root file system as a process does whose root it is. Nothing is executed, and no link leaves the
root.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.program_size import stripped_sizes
from swapstone.core.artifacts.source_tree import sha256_of
from swapstone.core.factors import Evidence, ProgramFacts, Recipe, Stage, find_factor, is_root_factor, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import ROOT_FILES, USUAL_MEMORY_BYTES, Experiment, OwnProgram, UnavailableError, UserError
from swapstone.core.model.architectures import machine_of
from swapstone.core.model.safe_text import safe
from swapstone.core.record import Artifact
from swapstone.core.run.own_program import check_preload
from swapstone.core.run.variant_program import Program, ProgramRoot, ProgramRoots, stamp_of
from swapstone.core.targets import Capabilities, Target
from swapstone.core.targets.carried_files import CarriedFiles, memory_for, room_bytes
from swapstone.core.wire import ProcessOutcome, TrialRequest
from swapstone.parts.build.artifacts.program_closure import CACHE_PATH, FileTree, decode_cache, resolve_closure
from swapstone.parts.build.artifacts.sdk import SDK_COMPILERS
from swapstone.parts.build.factors.libc import LIBC
from swapstone.parts.build.subjects.own_program_carried import folder_files
from swapstone.parts.vm.artifacts.libc_files import check_libc_files, image_architecture, libc_root
from swapstone.parts.vm.artifacts.root_file_systems import (
    ROOT_SIZES,
    RootFileSystem,
    resolve_inside,
    root_with,
    sizes_of_root,
    unpack_root,
)
from swapstone.parts.vm.factors.image import IMAGE
from swapstone.parts.vm.factors.rootfs import ROOTFS

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

    def check(
        self, program: str, architecture: str, environment: dict[str, str], preload: Sequence[str] = ()
    ) -> ProgramFacts:
        """Check that a program can start: interpreter, architecture, loader and libraries.

        Returns:
            The facts of the ELF file that the kernel starts: of a script, its interpreter.

        Args:
            program: a path that `find_program` returned.
            architecture: of the machine, as ``uname -m`` prints it.
            environment: of the process.
            preload: paths of objects that are preloaded.

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
            preload=preload,
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


_FOLDERS = ("bin", "sbin")
_BUSYBOX = "busybox"
_WELL_KNOWN = ("awk", "bc", "find", "grep", "gzip", "httpd", "sed", "sh", "sort", "tar", "vi", "wget")
"""Commands of busybox that a message names as examples, where the image has them."""


class RootLevel(msgspec.Struct, frozen=True):
    """A level of a factor whose levels are roots: `factor` is its name."""

    factor: str
    level: str

    @property
    def is_image(self) -> bool:
        """Whether Swapstone builds the root."""
        return self.factor == IMAGE.name


def root_levels(experiment: Experiment) -> tuple[RootLevel, ...]:
    """Return the roots of an experiment; none if its program runs in that of the target.

    Raises:
        UserError: two factors name the root.
    """
    choices = [choice for choice in experiment.applied_factors if is_root_factor(choice.factor)]
    if len(choices) > 1:
        raise UserError(
            f"The factors {' and '.join(choice.factor for choice in choices)} both name the root of the program.",
            "Leave one of them out.",
        )
    return tuple(RootLevel(choice.factor, level) for choice in choices for level in choice.levels)


def level_of_recipe(root: str) -> RootLevel:
    """Return the level that a recipe names: a path, or an image."""
    return RootLevel("rootfs" if "/" in root else IMAGE.name, root)


def root_of(
    level: RootLevel, architecture: str, notify: Callable[[str], None] = lambda _: None
) -> tuple[RootFileSystem, tuple[tuple[str, str], ...]]:
    """Return a root, unpacked in the cache, with pairs (name, SHA-256) of what it was made from.

    Args:
        level: its image is built if the cache does not have it.
        architecture: of the machine, as ``uname -m`` prints it.
        notify: called with a line before a build.

    Raises:
        UserError: it can't be unpacked or built.
    """
    if not level.is_image:
        root = unpack_root(level.level, architecture)
        return root, ((f"{level.factor} {level.level}", root.sha256),)
    made = libc_root(level.level, architecture, notify)
    root = msgspec.structs.replace(unpack_root(str(made.archive), architecture), source=f"{level.factor}={level.level}")
    return root, ((f"{level.factor} {level.level}", root.sha256), *made.sources)


def check_library(level: RootLevel, program: str, facts: ProgramFacts) -> None:
    """Check that a program that runs in an image uses its C library.

    Raises:
        UserError: it contains another one, such as a static program of the user.
    """
    found = find_factor("libc").observe(Evidence(interp=facts.interp, objects=facts.needed, program=facts))
    if found is not None and found != level.level:
        raise UserError(
            f"{safe(program)} is of {found}, and the image is of {level.level}: the program does not use the image's C library."
        )


def contents_of(root: RootFileSystem) -> str:
    """Return a sentence that names the programs of an image."""
    names: dict[str, str] = {}
    for folder in _FOLDERS:
        top = Path(root.folder) / folder
        for path in sorted(top.iterdir()) if top.is_dir() else ():
            real = Path(path.readlink()).name if path.is_symlink() else path.name
            if path.is_symlink() or stat.S_IMODE(path.lstat().st_mode) & 0o111:
                names[path.name] = real
    applets = [name for name, real in names.items() if real == _BUSYBOX != name]
    own = sorted(name for name in names if name not in applets)
    examples = ", ".join(name for name in _WELL_KNOWN if name in applets)
    return f"The image has {', '.join(own)}, and {len(applets)} commands of busybox, such as {examples}."


_EXAMPLES = {
    ROOTFS.name: "swapstone compare rootfs=./one.tar,./other.tar -- /bin/sh bench.sh",
    IMAGE.name: "swapstone compare image=glibc,musl --target vm -- /bin/sh bench.sh",
}
_NO_PROGRAM = "/.swapstone-no-such-program"
_PROBE_MS = 10_000
_IMAGE_BYTES = 32 << 20
"""What the image has in the same file system: modules and tools."""


def check_rooted(own: OwnProgram, every: Sequence[OwnProgram], experiment: Experiment, target: Capabilities) -> bool:
    """Check an own program that runs in root file systems, which are unpacked for it.

    Args:
        own: with its placeholders.
        every: `as_run`, for each variant.
        experiment: names the roots.
        target: where it runs.

    Returns:
        Whether the experiment has roots.

    Raises:
        UserError: a root or the program in it can't be used; the message names what is missing.
    """
    levels = root_levels(experiment)
    if not levels:
        return False
    if target.offers.isdisjoint({"shares_files", "boots"}):
        raise UnavailableError(
            f"The factor {levels[0].factor} is unavailable on the target {target.name}, which takes no root file system.",
            "Leave --target out, or measure on --target vm",
        )
    _check_options(own, experiment, levels[0].factor)
    if not Path(own.directory).is_dir():
        raise UserError(f"The folder {own.directory}, in which the program runs, is not there any more.")
    architecture = machine_of(experiment.architecture)
    if levels[0].is_image and not isinstance(target, Target):
        for level in levels:
            check_libc_files(image_architecture(architecture), level.level, SDK_COMPILERS[0])
        return True  # images are built when the target is opened
    roots = [root_of(level, architecture)[0] for level in levels]
    for number, root in enumerate(roots):
        if same := next((each for each in roots[:number] if each.sha256 == root.sha256), None):
            raise UserError(
                f"{safe(same.source)} and {safe(root.source)} have the same content: there is nothing to compare.",
                "To learn how often a root differs from itself by chance, add --null instead.",
            )
        for each in every if not own.build else ():
            _check_program(each, levels[number], root, architecture)
    if "shares_files" in target.offers:
        if isinstance(target, Target):
            _check_mounts(roots[0], target)
    else:
        check_memory(own, roots)
        for each in every if not own.build else ():
            working_files(each)
    return True


def _check_program(
    own: OwnProgram, level: RootLevel, root: RootFileSystem, architecture: str, preload: Sequence[str] = ()
) -> ProgramFacts:
    environment = {**dict(SOURCE_RECIPE.environment), **dict(own.environment)}
    view = RootView(root.source, root.folder, own.directory)
    try:
        program = view.find_program(own.arguments[0], environment["PATH"])
        facts = view.check(program, architecture, environment, preload)
        if level.is_image:
            check_library(level, own.arguments[0], facts)
    except UserError as error:
        if not level.is_image:
            raise
        raise UserError(
            error.message, f"{contents_of(root)}\nName one of them, or a script for sh or lua: sh bench.sh"
        ) from error
    return facts


def _check_options(own: OwnProgram, experiment: Experiment, factor: str) -> None:
    for choice in experiment.applied_factors:
        if find_factor(choice.factor).stage in {Stage.COMPILE, Stage.LINK} and not own.build:
            raise UnavailableError(
                f"The factor {choice.factor} is unavailable with the factor {factor}: it acts when a program is built.",
                f"Build the program: --source DIR --build COMMAND; or make one root file system for each level of {choice.factor}.",
            )
    for given, option in (
        (experiment.layouts, "--layouts"),
        (own.programs, "--program"),
        (any(each.template for each in own.load_generators), "--template"),
        (own.artifacts, "--artifact"),
    ):
        if given:
            raise UnavailableError(
                f"{option} is unavailable with the factor {factor}: the program runs in the root, and what it writes is gone with it.",
                f"For example: {_EXAMPLES[factor]}",
            )


def check_memory(own: OwnProgram, roots: Iterable[RootFileSystem]) -> None:
    """Check that all roots fit into the memory of a machine: each has all of them, so that the machines are equal.

    Raises:
        UserError: they do not fit; the hint names a size that is enough.
    """
    memory, size = own.memory_bytes or USUAL_MEMORY_BYTES, sum(root.memory_bytes for root in roots)
    if size + _IMAGE_BYTES > room_bytes(memory):
        raise UserError(
            f"The root file systems take {size >> 20} MiB together, more than fits into a machine with {memory >> 20} MiB of memory.",
            f"Give the machine more: --memory {memory_for(size + _IMAGE_BYTES)}M",
        )


def _check_mounts(root: RootFileSystem, target: Target) -> None:
    """Try to enter a root on the target, without starting a program.

    Raises:
        UnavailableError: the target can't make the mounts.
    """
    answer = target.run(
        TrialRequest(
            id="root",
            arguments=(_NO_PROGRAM,),
            cwd="/",
            root=root.folder,
            root_layer=root.layer,
            timeout_ms=_PROBE_MS,
        )
    )
    note = answer.notes[0] if answer.notes else ""
    if answer.outcome is ProcessOutcome.UNSTARTED and note != "could not execute it":
        raise UnavailableError(
            f"The target {target.name} can't run a program in another root file system: the agent {safe(note)} "
            f"({os.strerror(answer.code)}).",
            "Run it as root, or allow mount namespaces for users: sysctl kernel.unprivileged_userns_clone, "
            "kernel.apparmor_restrict_unprivileged_userns; a container needs CAP_SYS_ADMIN. Or measure on --target vm",
        )


def rooted_program(own: OwnProgram, recipe: Recipe, artifact: Artifact, target: Target) -> Program:
    """Return a program in its root file system, which is put on the target, with the objects that are preloaded at their paths.

    Args:
        own: `as_run`; the folder of a program that is built is that of its build.
        recipe: names the root.
        artifact: to complete.
        target: where it runs.

    Raises:
        UserError: as `check_rooted`.
    """
    level = level_of_recipe(recipe.root)
    root, sources = root_of(level, target.architecture)
    if recipe.preload:
        root = root_with(root, recipe.preload)
        sources = ((f"{level.factor} {level.level}", root.sha256), *sources[1:])
    if own.build or recipe.preload:
        facts = _check_program(own, level, root, target.architecture, recipe.preload)
        check_preload(own.arguments[0], recipe, static=facts.interp is None)
    view = RootView(root.source, root.folder, own.directory)
    path = view.find_program(own.arguments[0], dict(recipe.environment).get("PATH", ""))
    file = view.place(path)
    assert file is not None  # `find_program` found it
    place = target.put_root(Path(root.folder), root.sha256)
    files = own.directory
    if "shares_files" not in target.offers:
        target.put_files(working_files(own))
        files = target.real_path(os.path.realpath(own.directory))
    return Program(
        path,
        recipe,
        msgspec.structs.replace(
            artifact,
            path=str(file),
            sha256=sha256_of(file),
            sizes=(*stripped_sizes(file), *sizes_of_root(root)),
            sources=(*artifact.sources, *sources),
        ),
        view.facts(path),
        ROOT_FILES,
        stamp_of(str(file)),
        file=str(file),
        root=ProgramRoot(place, root.layer if "shares_files" in target.offers else "", files, view),
    )


def library_of(own: OwnProgram, root: str, architecture: str) -> str | None:
    """Return the C library of a program that is not built here, in a root: what is preloaded into it is built with that.

    Args:
        own: `as_run`.
        root: as a recipe names it.
        architecture: of the machine, as ``uname -m`` prints it.

    Returns:
        ``glibc`` or ``musl``; None where the root has no such program, or it shows none.
    """
    level = level_of_recipe(root)
    if level.is_image:
        return level.level
    try:
        facts = _check_program(own, level, root_of(level, architecture)[0], architecture)
    except UserError:
        return None  # `check_rooted` states why
    return LIBC.observe(Evidence(interp=facts.interp, objects=()))


ROOTS = ProgramRoots(check_rooted, rooted_program, library_of, ROOT_SIZES)


def working_files(own: OwnProgram) -> CarriedFiles:
    """Return the files of the working folder that a machine gets: the program, and what arguments and ``--files`` name.

    Raises:
        UserError: a file is outside the folder, or can't be read.
    """
    names = [word for word in own.arguments if _is_working_file(own.directory, word)]
    outside = [name for name in own.files if not _inside(own.directory, name)]
    if outside:
        raise UserError(
            f"--files {safe(outside[0])} is not below the current folder, which the program finds at {ROOT_FILES}.",
            f"Copy it there: cp -r {shlex.quote(safe(outside[0]))} .",
        )
    return folder_files(own, (*names, *own.files))


def _inside(folder: str, name: str) -> bool:
    path, top = os.path.realpath(os.path.join(folder, name)), os.path.realpath(folder)  # noqa: PTH118 - a word may be any text
    return path == top or path.startswith(f"{top.rstrip('/')}/")


def _is_working_file(folder: str, word: str) -> bool:
    if not word or "\0" in word or word.startswith(("/", "-")) or not re.search(r"\S", word):
        return False
    return os.path.isfile(os.path.join(folder, word)) and _inside(folder, word)  # noqa: PTH113, PTH118
