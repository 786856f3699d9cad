# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles the agent and other programs from their C sources, and caches them; finds the agent that a wheel carries.

One is the plugin of QEMU's code generator (native/plugin), which observes the instructions of a virtual machine.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, mark_used, share_dir, write_whole
from swapstone.core.model.errors import remedy
from swapstone.core.model.regular_file import readable, text_of

FREESTANDING = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra"),
    *("-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    *("-fno-pie", "-no-pie", "-static", "-nostdlib", "-Wl,--build-id=none"),
)
"""Flags for a program without a C library: the agent must contain none of the compared factors."""

AGENT = "swapstone-agent"
_LIBRARIES = ("-lgcc",)  # helpers of the compiler, e.g. for division on 32-bit processors
_COMPILER_TIMEOUT_S = 120
_OTHER_PROGRAMS = frozenset({"virtual_machine"})
"""Files there that the agent is not linked with."""


def agent_programs() -> tuple[str, ...]:
    """Return the programs of this machine that build its agent, by their names in `packages`; none if the wheel carries it."""
    return (
        ()
        if os.access(share_dir() / "agents" / os.uname().machine / AGENT, os.X_OK)
        else (os.environ.get("CC") or "cc", "/usr/include/stdio.h")
    )


def agent_sources(top: Path | None = None) -> tuple[Path, ...]:
    """Return the agent's C files and headers, sorted.

    Args:
        top: the folder with ``native/``, by default `share_dir`.
    """
    native = (top or share_dir()) / "native"
    return tuple(
        sorted(
            path
            for part in ("agent", "port", "wire")
            for path in (native / part).glob("*.[ch]")
            if path.stem not in _OTHER_PROGRAMS
        )
    )


def find_agent(machine: str, compiler: str) -> Path:
    """Return the agent for a processor: the file that the wheel carries, or else a compiled one; see `build_agent`.

    Args:
        machine: as ``uname -m`` prints it.
        compiler: for the processor.
    """
    carried = share_dir() / "agents" / machine / AGENT
    if os.access(carried, os.X_OK) and is_whole(carried):
        return carried
    return build_agent(cache_dir() / "agents", compiler)


def describe_agent(agent: Path, compiler: str) -> str:
    """Return a line about an agent for the record: its folder, digest and origin.

    Args:
        agent: of `find_agent`, or another one that the compiler made.
        compiler: as in `find_agent`.
    """
    origin = "of the wheel" if agent.is_relative_to(share_dir() / "agents") else f"built by {_version_of(compiler)}"
    return f"{agent.parent.name}, SHA-256 {sha256_of(agent)}, {origin}"


def build_agent(directory: Path, compiler: str = "cc", *flags: str) -> Path:
    """Compile the agent, or return it from the cache.

    A file of the cache that is not the one that was compiled, because it is truncated or altered, is compiled again.

    Args:
        directory: the cache: one folder for each digest of sources, flags and compiler.
        compiler: a C compiler for the target's processor.
        flags: further ones of it.

    Returns:
        The program.

    Raises:
        UnavailableError: there is no such compiler.
        UserError: compilation failed.
    """
    return build_native(AGENT, agent_sources(), directory, (compiler, *FREESTANDING, *flags))


def build_native(name: str, sources: Sequence[Path], directory: Path, command: Sequence[str]) -> Path:
    """Compile C sources, or return the result from the cache; as `build_agent`.

    Args:
        name: of the result.
        sources: C files and headers.
        directory: the cache.
        command: the compiler and its flags.
    """
    digest = hashlib.sha256("\0".join((_version_of(command[0]), *command, *_LIBRARIES)).encode())
    for source in sources:
        digest.update(f"\0{source.name}\0".encode() + source.read_bytes())
    built = directory / digest.hexdigest()[:16] / name
    if os.access(built, os.X_OK) and is_whole(built):
        mark_used(built.parent)
        return built
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as work:
            made = Path(work) / built.name
            result = _run([*command, *(str(s) for s in sources if s.suffix == ".c"), *_LIBRARIES, "-o", str(made)])
            if result.returncode != 0:
                errors = "\n".join(result.stderr.splitlines()[:20])
                raise UserError(
                    f"{command[0]} can't compile the agent:\n{errors}", "Try another compiler by setting CC."
                )
            write_whole(_mark_of(built), sha256_of(made).encode())
            made.replace(built)
    except OSError as error:
        if remedy(error) and error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise UserError(
            f"The agent can't be written to {directory}: {error.strerror}.",
            "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
        ) from error
    return built


def reference_sources(top: Path | None = None) -> tuple[Path, ...]:
    """Return the C file and the header of the reference program.

    Args:
        top: as of `agent_sources`.
    """
    native = (top or share_dir()) / "native"
    return native / "reference" / "reference.c", native / "port" / "arch.h"


def build_reference(program: Path) -> None:
    """Compile the reference program, unless it is there: one that is there is kept, so that every session measures the same file.

    Args:
        program: its path.

    Raises:
        UserError: as `build_agent`.
    """
    if not (os.access(program, os.X_OK) and is_whole(program)):
        command = (os.environ.get("CC") or "cc", *FREESTANDING)
        built = build_native(program.name, reference_sources(), cache_dir() / "agents", command)
        program.parent.mkdir(parents=True, exist_ok=True)
        write_whole(_mark_of(program), _mark_of(built).read_bytes())
        with tempfile.TemporaryDirectory(dir=program.parent) as work:
            Path(shutil.copy(built, work)).replace(program)
    mark_used(program.parent)


def sha256_of(program: Path) -> str:
    """Return the SHA-256 of a program's file in hexadecimal digits.

    Raises:
        UserError: it can't be read.
    """
    with readable(str(program)), program.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _mark_of(built: Path) -> Path:
    return built.with_name(f"{built.name}.sha256")


def has_sha256(program: Path, sha256: str) -> bool:
    """Return whether a program's file exists and has a SHA-256.

    Raises:
        OSError: it can't be read because a resource of this machine is used up.
    """
    try:
        return sha256_of(program) == sha256
    except UserError as error:
        if isinstance(error.__cause__, OSError) and remedy(error.__cause__):
            raise error.__cause__ from None
        return False


def is_whole(path: Path) -> bool:
    """Return whether a file exists and has the SHA-256 that is in the file ``NAME.sha256`` beside it."""
    return has_sha256(path, text_of(_mark_of(path)))


def _version_of(compiler: str) -> str:
    """Return the first line of a compiler's ``--version``.

    Raises:
        UnavailableError: there is no such compiler.
    """
    return (_run([compiler, "--version"]).stdout.splitlines() or [""])[0]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=_COMPILER_TIMEOUT_S
        )
    except (FileNotFoundError, PermissionError) as error:
        raise UnavailableError(
            f"There is no C compiler named {command[0]!r} to build the agent with.",
            "On Debian: sudo apt-get install gcc libc6-dev",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{command[0]} took more than {_COMPILER_TIMEOUT_S} s to build the agent.") from error


_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")


def _sources() -> tuple[Path, ...]:
    return tuple(sorted((share_dir() / "native" / "plugin").glob("*.[ch]")))


def build_plugin(directory: Path, compiler: str = "cc") -> Path:
    """Compile the plugin for this machine, or return it from the cache; as `build_agent`."""
    return build_native("swapstone-plugin.so", _sources(), directory, (compiler, *_FLAGS))


_built = functools.cache(build_plugin)


@functools.cache
def plugin_digest() -> bytes:
    """Return a digest of the plugin's sources."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in _sources())).digest()


def plugin_option(out: Path, *words: str) -> tuple[str, ...]:
    """Return QEMU's arguments that load the plugin, which is compiled first.

    Args:
        out: the file that it writes.
        words: its other arguments (native/plugin/plugin.c).

    Raises:
        UserError: it can't be compiled.
    """
    place = cache_dir() / "agents", os.environ.get("CC") or "cc"
    plugin = _built(*place)
    if not plugin.exists():
        plugin = build_plugin(*place)
    return ("-plugin", ",".join(word.replace(",", ",,") for word in (str(plugin), f"out={out}", *words)))
