# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build a program from sources by a build command: for each variant in its own copy of the sources.

The build gets its tools as placeholders, as environment variables, and as files for CMake and Meson.
make, configure scripts, CMake, Meson, cargo and go read their compilers from the environment, so a plain command needs no placeholder.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.cache_folder import new_folder, read_description, take_lock
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.placeholders import fill
from swapstone.core.artifacts.program_size import stripped_sizes
from swapstone.core.artifacts.source_tree import copy_sources, digest_tree, sha256_of
from swapstone.core.artifacts.tool_versions import compiler_identity, header_folders, tool_of_compiler
from swapstone.core.factors import Recipe, read_facts
from swapstone.core.model import FrozenStruct, OwnProgram, UserError, placeholders_in, refuse
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.parts.build.artifacts.build_command import build_environment, run_build
from swapstone.parts.build.artifacts.cxx_compiler import CXX_SUFFIXES, cxx_command
from swapstone.parts.build.artifacts.libraries import library_environment
from swapstone.parts.build.artifacts.library_table import (
    missing_hint,
    missing_library,
    missing_rust_target,
    needs_cxx_library,
)
from swapstone.parts.build.artifacts.own_toolchain import libc_kind
from swapstone.parts.build.artifacts.toolchain import tool_prefix
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.sdk import sdk_of_level

_C_ONLY = re.compile(r"-std=(c|gnu|iso9899).*|-Wstrict-prototypes|-Wmissing-prototypes|-Wimplicit-.*")
_OPTIMIZATION = re.compile(r"-O\w*")
_OPT_LEVELS = {"-O0": "0", "-O": "1", "-O1": "1", "-O2": "2", "-O3": "3", "-Os": "s", "-Og": "1"}
_BINUTILS = ("ar", "ranlib", "nm", "strip")

CMAKE_FILE = "toolchain.cmake"
MESON_FILE = "cross.ini"


class BuildTools(FrozenStruct, frozen=True, kw_only=True):
    """The commands, flags and files that a build of one variant needs.

    Attributes:
        words: by the names of placeholders, the commands ``cc``, ``cxx``, which may be empty, ``ld``, ``ar``, ``ranlib``, ``nm``, ``strip``
            and ``pkg_config``, and the flags ``cflags``, ``cxxflags`` and ``ldflags``.
        machine: of the programs, as ``uname -m`` prints it.
        libc: kind of the C library: ``glibc``, ``musl`` or ``uclibc``.
        linking: ``dynamic`` or ``static``.
        roots: folders in which CMake searches libraries and headers; empty for the system's.
        variables: further variables of the build, such as those of an SDK.
        unwinder: archive that Rust programs are linked with; empty for the one that rustc takes by itself.
    """

    words: Mapping[str, tuple[str, ...]]
    machine: str
    libc: str
    linking: str
    roots: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    unwinder: str = ""

    @property
    def rust_target(self) -> str:
        """Return the target triple by which rustc and cargo name the machine and the C library."""
        name = {"armv7l": "armv7", "riscv64": "riscv64gc"}.get(self.machine, self.machine)
        return f"{name}-unknown-linux-{self._system}"

    @property
    def host(self) -> str:
        """Return the triple by which configure scripts name the machine and the C library."""
        return f"{'arm' if self.machine == 'armv7l' else self.machine}-linux-{self._system}"

    @property
    def _system(self) -> str:
        suffix = "eabihf" if self.machine in {"arm", "armv7l"} else ""
        return f"{'musl' if self.libc == 'musl' else 'gnu'}{suffix}"


def build_tools(recipe: Recipe, cxx: tuple[str, ...] = ()) -> BuildTools:
    """Return the tools of a resolved recipe.

    Args:
        recipe: resolved.
        cxx: the command of the C++ compiler; empty if there is none.
    """
    build, sdk = recipe.of(Build), sdk_of_level(recipe.of(Build).compiler)
    given = dict(sdk.tools) if sdk else {}

    def tool(name: str) -> tuple[str, ...]:
        if name.upper() in given:
            return given[name.upper()]
        return tool_of_compiler(build.command, name) if "/" in build.compiler else (f"{tool_prefix(recipe)}{name}",)

    foreign = build.libc != "glibc" or bool(recipe.architecture)
    return BuildTools(
        words={
            "cc": build.command,
            "cxx": cxx,
            **{name: tool(name) for name in ("ld", *_BINUTILS)},
            # Archives do not name what they need; pkg-config prints it with --static only.
            "pkg_config": ("pkg-config", *(["--static"] if build.linking == "static" else [])),
            "cflags": build.cflags,
            "cxxflags": tuple(flag for flag in build.cflags if not _C_ONLY.fullmatch(flag)),
            "ldflags": build.ldflags,
        },
        machine=recipe.architecture or os.uname().machine,
        libc=libc_kind(recipe),
        linking=build.linking,
        roots=tuple(map(str, header_folders(build.command) if foreign else ())),
        # pkg-config would print the folders of the system's libraries, which are built for another C library or machine.
        variables=sdk.variables if sdk else (("PKG_CONFIG_LIBDIR", "/nonexistent"),) if foreign else (),
    )


def placeholder_values(tools: BuildTools) -> dict[str, str]:
    """Return the values of the placeholders. make and other shells parse them again, so words are quoted."""
    words = {name: shlex.join(words) for name, words in tools.words.items()}
    folder = _files(tools)
    files = {"cmake_toolchain": str(folder / CMAKE_FILE), "meson_cross": str(folder / MESON_FILE)}
    return {**words, **files, "rust_target": tools.rust_target, "host": tools.host, "jobs": str(os.cpu_count() or 1)}


def tool_variables(tools: BuildTools) -> dict[str, str]:
    """Return the environment variables by which build tools find the compilers and flags.

    ``LD`` is not among them: makefiles commonly use it as the name of the compiler's driver.
    """
    folder = _files(tools)
    name, *options = tools.words["pkg_config"]
    variables = {
        **{name.upper(): shlex.join(words) for name, words in tools.words.items() if name != "ld"},
        "PKG_CONFIG": str(folder / "pkg-config") if options else name,  # CMake accepts one word
        "CMAKE_TOOLCHAIN_FILE": str(folder / CMAKE_FILE),
        **_cargo_variables(tools, folder),
        **_go_variables(tools),
        **dict(tools.variables),
    }
    return {name: value for name, value in variables.items() if value}


def _cargo_variables(tools: BuildTools, folder: Path) -> dict[str, str]:
    """Return the variables of cargo and of the crate ``cc``.

    Source: The Cargo Book, "Environment variables" and "Configuration"; the documentation of the crate cc.
    """
    static = tools.linking == "static"
    rustflags = [f"-Ctarget-feature={'+' if static else '-'}crt-static"]
    if tools.libc == "musl":
        # rustc brings a musl of its own. It is not linked, so that programs contain the one that is compared.
        rustflags += ["-Clink-self-contained=no", *(["-Crelocation-model=static"] if static else [])]
    rustflags += [f"-Lnative={folder}"] if tools.unwinder else []
    rustflags += [f"-Clink-arg={flag}" for flag in tools.words["ldflags"] if flag != "-static"]
    target = tools.rust_target
    key = target.upper().replace("-", "_")
    switch = next((flag for flag in reversed(tools.words["cflags"]) if _OPTIMIZATION.fullmatch(flag)), "")
    return {
        "CARGO_BUILD_TARGET": target,
        f"CARGO_TARGET_{key}_LINKER": str(folder / "cc"),
        f"CARGO_TARGET_{key}_RUSTFLAGS": " ".join(rustflags),
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": _OPT_LEVELS.get(switch, ""),
    }


def _go_variables(tools: BuildTools) -> dict[str, str]:
    """Return the variables of go: C code is compiled by the C compiler, and the program is linked by it.

    Without external linking, go links a program that uses C only in its standard library by itself, for glibc's loader.
    Source: ``go help environment``; the documentation of the command cgo.
    """
    return {
        "CGO_ENABLED": "1",
        "CGO_CFLAGS": shlex.join(tools.words["cflags"]),
        "CGO_CXXFLAGS": shlex.join(tools.words["cxxflags"]),
        "CGO_LDFLAGS": shlex.join(tools.words["ldflags"]),
        "GOFLAGS": "-ldflags=-linkmode=external",
    }


def _files(tools: BuildTools) -> Path:
    """Write the files for CMake and Meson, and scripts for commands of several words, and return their folder."""
    words = tools.words
    commands = {"cc": words["cc"], "cxx": words["cxx"] or ("false",), "pkg-config": words["pkg_config"]}
    texts = {name: f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n' for name, command in commands.items()}
    # rustc links one of these names; gcc's unwinder needs glibc.
    texts |= {name: f"INPUT ( {tools.unwinder} )\n" for name in _UNWINDERS if tools.unwinder}
    address = sha256(
        "\n".join((repr(tools), *texts.values(), _cmake(tools, Path("/")), _meson(tools, Path("/")))).encode()
    )
    home = cache_dir().resolve() / "build-files" / address.hexdigest()[:16]
    if not (home / MESON_FILE).is_file():
        with new_folder(home, ".making-") as work:
            for name, text in {**texts, CMAKE_FILE: _cmake(tools, home), MESON_FILE: _meson(tools, home)}.items():
                (work / name).write_text(text)
            for name in commands:
                (work / name).chmod(0o755)
    return home


_UNWINDERS = ("libgcc_s.so", "libunwind.a")


def _rust_unwinder(source: Path, target: str) -> str:
    """Return the unwinder that rustc brings for musl, without the C library beside it; empty if the target is not installed."""
    command = ["rustc", "--print", "sysroot"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(
            command, cwd=source, env=build_environment(), capture_output=True, text=True, check=True, timeout=60
        )
        found = Path(printed.stdout.strip()) / "lib" / "rustlib" / target / "lib" / "self-contained" / "libunwind.a"
        return str(found) if found.is_file() else ""
    return ""


_BUILD_TYPES = (("RELEASE", "-DNDEBUG"), ("RELWITHDEBINFO", "-DNDEBUG"), ("MINSIZEREL", "-DNDEBUG"), ("DEBUG", ""))


def _cmake(tools: BuildTools, home: Path) -> str:
    """Return a toolchain file for CMake.

    A build type such as Release adds ``-O3`` after all other flags, so its -O switch is left out here: the experiment's is in force.
    Source: cmake-toolchains(7); cmake-variables(7), CMAKE_<LANG>_FLAGS_<CONFIG>.
    """
    lines = ["# A toolchain file of Swapstone. CMake reads it at the first configuration of a build folder."]
    lines += (
        []
        if tools.machine == os.uname().machine
        else ["set(CMAKE_SYSTEM_NAME Linux)", f"set(CMAKE_SYSTEM_PROCESSOR {tools.machine})"]
    )
    lines += [f'set(CMAKE_C_COMPILER "{home}/cc")', f'set(CMAKE_CXX_COMPILER "{home}/cxx")']
    for name in _BINUTILS:
        found = shutil.which(tools.words[name][0])
        lines += [f"set(CMAKE_{name.upper()} {_cmake_text(found)})"] if found else []
    lines += _cmake_flags("CFLAGS", "CMAKE_C_FLAGS_INIT", tools.words["cflags"])
    lines += _cmake_flags("CXXFLAGS", "CMAKE_CXX_FLAGS_INIT", tools.words["cxxflags"])
    lines += [
        f'set(CMAKE_{language}_FLAGS_{kind} "{flags}" CACHE STRING "without -O, which the experiment sets")'
        for language in ("C", "CXX")
        for kind, flags in _BUILD_TYPES
    ]
    for kind in ("EXE", "SHARED", "MODULE"):
        linking = [flag for flag in tools.words["ldflags"] if kind == "EXE" or flag != "-static"]
        lines += _cmake_flags("LDFLAGS", f"CMAKE_{kind}_LINKER_FLAGS_INIT", linking)
    if tools.roots:
        folders = " ".join(map(_cmake_text, tools.roots))
        lines += [
            f"set(CMAKE_FIND_ROOT_PATH {folders} $ENV{{CMAKE_PREFIX_PATH}})",
            "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)",
        ]
        lines += [f"set(CMAKE_FIND_ROOT_PATH_MODE_{what} ONLY)" for what in ("LIBRARY", "INCLUDE", "PACKAGE")]
    if tools.linking == "static":
        lines += ['set(CMAKE_FIND_LIBRARY_SUFFIXES ".a")', "set(BUILD_SHARED_LIBS OFF)"]
    return "\n".join(lines) + "\n"


def _cmake_flags(variable: str, name: str, flags: Sequence[str]) -> list[str]:
    """Return lines that set flags, unless CMake reads them from the environment."""
    return [f"if(NOT DEFINED ENV{{{variable}}})", f"  set({name} {_cmake_text(shlex.join(flags))})", "endif()"]


def _cmake_text(text: str) -> str:
    escaped = re.sub(r'([\\"$])', r"\\\1", text)
    return f'"{escaped}"'


def _meson(tools: BuildTools, home: Path) -> str:
    """Return a cross file for Meson. Source: the Meson manual, "Cross compilation" and "Machine files"."""
    cpu = {"x86_64": "x86_64", "aarch64": "aarch64", "i686": "x86"}.get(tools.machine, tools.machine)
    family = "arm" if cpu.startswith("arm") else cpu
    here = tools.machine == os.uname().machine
    link = _meson_list(tools.words["ldflags"])
    tools_of = "\n".join(f"{name} = {_meson_list(tools.words[name])}" for name in _BINUTILS)
    return f"""[binaries]
c = {_meson_text(f"{home}/cc")}
cpp = {_meson_text(f"{home}/cxx")}
{tools_of}
pkg-config = {_meson_list(tools.words["pkg_config"])}

[built-in options]
buildtype = 'plain'
c_args = {_meson_list(tools.words["cflags"])}
cpp_args = {_meson_list(tools.words["cxxflags"])}
c_link_args = {link}
cpp_link_args = {link}

[properties]
needs_exe_wrapper = {"false" if here else "true"}

[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{cpu}'
endian = 'little'
"""


def _meson_text(text: str) -> str:
    escaped = re.sub(r"(['\\])", r"\\\1", text)
    return f"'{escaped}'"


def _meson_list(words: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_meson_text, words))}]"


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
        if tools.libc == "musl" and (self._source / "Cargo.toml").is_file():
            tools = msgspec.structs.replace(tools, unwinder=_rust_unwinder(self._source, tools.rust_target))
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
