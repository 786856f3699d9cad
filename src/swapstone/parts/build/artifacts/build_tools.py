# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tools of an own program's build: as placeholders, as environment variables, and as files for CMake and Meson.

make, configure scripts, CMake, Meson, cargo and go read their compilers from the environment, so a plain command needs no placeholder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.tool_versions import header_folders, tool_of_compiler
from swapstone.core.factors import Recipe
from swapstone.core.model import FrozenStruct
from swapstone.core.model.directories import cache_dir
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
    """

    words: Mapping[str, tuple[str, ...]]
    machine: str
    libc: str
    linking: str
    roots: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]

    @property
    def rust_target(self) -> str:
        """Return the target triple by which rustc and cargo name the machine and the C library."""
        suffix = {"arm": "eabihf", "armv7l": "eabihf"}.get(self.machine, "")
        name = {"armv7l": "armv7", "i686": "i686", "riscv64": "riscv64gc"}.get(self.machine, self.machine)
        return f"{name}-unknown-linux-{'musl' if self.libc == 'musl' else 'gnu'}{suffix}"


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
    return {**words, **files, "rust_target": tools.rust_target, "jobs": str(os.cpu_count() or 1)}


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
