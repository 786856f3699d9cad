# SPDX-License-Identifier: MIT OR Apache-2.0
"""SDKs of Yocto and Buildroot: the variables that their environment script sets.

The user names the script, so it is run: a shell with a clean environment sources it. What it leaves in the environment is data.
Source: the Yocto Project's "Application Development and the Extensible SDK", environment-setup-*; Buildroot's manual, "Using the SDK",
and package/environment-setup.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
from pathlib import Path

from swapstone.core.model import FrozenStruct, UserError, refuse
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.factors.compiler_probe import compiler_words, output_of

SDK = "sdk:"
"""Prefix of the levels of the factor ``compiler`` that name an SDK's environment script."""

_TIMEOUT_S = 30
_MOST_BYTES = 1 << 20
_KEPT = ("PKG_CONFIG", "SDKTARGETSYSROOT", "OECORE_", "CONFIG_SITE", "STAGING_DIR")
_TOOLS = ("CXX", "LD", "AR", "RANLIB", "NM", "STRIP")
_EXAMPLE = "For example: compiler=gcc,sdk:/opt/poky/environment-setup-core2-64-poky-linux"


class Sdk(FrozenStruct, frozen=True, kw_only=True):
    """What an SDK's script sets.

    Attributes:
        script: its path.
        cc: the compiler's command.
        tools: pairs (variable, command) of the other tools that it sets.
        cflags: its flags for compiling, without -O and -g.
        ldflags: its flags for linking.
        sysroot: its system root; empty if it names none.
        variables: pairs (name, value) of further variables for builds.
    """

    script: str
    cc: tuple[str, ...]
    tools: tuple[tuple[str, tuple[str, ...]], ...]
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    sysroot: str
    variables: tuple[tuple[str, str], ...]


def command_of_level(level: str) -> tuple[str, ...]:
    """Return the compiler's command of a level that is a path or an SDK.

    Raises:
        UserError: the SDK's script can't be used.
    """
    return read_sdk(_script(level)).cc if level.startswith(SDK) else compiler_words(level)


def sdk_of_level(level: str) -> Sdk | None:
    """Return the SDK of a level; None if it is none."""
    return read_sdk(_script(level)) if level.startswith(SDK) else None


def _script(level: str) -> Path:
    return Path(level.removeprefix(SDK)).expanduser().resolve()


@functools.cache
def read_sdk(script: Path, *, timeout_s: float = _TIMEOUT_S) -> Sdk:
    """Source an SDK's environment script and return what it sets.

    Args:
        script: its path.
        timeout_s: how long it may take.

    Raises:
        UserError: there is no such file, it fails, takes too long, prints too much, or sets no CC.
    """
    if not script.is_file():
        raise UserError(f"There is no environment script {script}.", _EXAMPLE)
    values = _variables(script, timeout_s)
    path = values.get("PATH", "")
    if not values.get("CC", "").strip():
        raise UserError(f"{script} sets no CC: it is no environment script of an SDK.", _EXAMPLE)
    cc = _command(values["CC"], path, script)
    tools = tuple((name, _command(values[name], path, script)) for name in _TOOLS if values.get(name, "").strip())
    cflags = tuple(word for word in _words(values.get("CFLAGS", ""), script) if not word.startswith(("-O", "-g")))
    sysroot = values.get("SDKTARGETSYSROOT", "") or values.get("STAGING_DIR", "") or _sysroot(cc)
    return Sdk(
        script=str(script),
        cc=cc,
        tools=tools,
        cflags=cflags,
        ldflags=_words(values.get("LDFLAGS", ""), script),
        sysroot=sysroot,
        variables=tuple(
            sorted((name, value) for name, value in values.items() if name.startswith(_KEPT) or name == "PATH")
        ),
    )


def _variables(script: Path, timeout_s: float) -> dict[str, str]:
    shell = shutil.which("bash") or "/bin/sh"
    from swapstone.parts.build.artifacts.build_command import run_build  # noqa: PLC0415 - verify reads levels, and builds nothing

    with TemporaryFolder("sdk") as folder:
        # What the script itself prints is the reason of its failure.
        command = f'. "$0" >&2 </dev/null && exec env -0 >{shlex.quote(str(folder / "env"))}'
        status, output = run_build(
            f"ulimit -f {_MOST_BYTES // 512}; exec {shell} -c {shlex.quote(command)} {shlex.quote(str(script))}",
            Path("/"),
            timeout_s,
            {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
        )
        data = (folder / "env").read_bytes() if status == 0 else b""
    reason = output[:2000].decode(errors="replace").strip() or "it printed nothing"
    refuse(
        (status is None, f"{script} did not end within {timeout_s} s.", "Source it in a shell to find out why."),
        (status, f"{script} failed with status {status}: {reason}", f"Try: . {shlex.quote(str(script))}"),
    )
    pairs = (entry.decode(errors="replace").partition("=")[::2] for entry in data.split(b"\0") if entry)
    return {name: value for name, value in pairs if name.isidentifier()}


def _command(text: str, path: str, script: Path) -> tuple[str, ...]:
    """Return a command with the absolute path of its program, found on the script's PATH."""
    words = _words(text, script)
    found = shutil.which(words[0], path=path)
    if found is None:
        raise UserError(
            f"{script} names {words[0]}, which is not on the PATH that it sets.",
            "Is the SDK complete, and at its place?",
        )
    return (os.path.abspath(found), *words[1:])  # noqa: PTH100 - links are kept: compilers act by their names


def _words(text: str, script: Path) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"{script} sets a variable that can't be split into words: {text[:80]!r}.", _EXAMPLE) from error


def _sysroot(cc: tuple[str, ...]) -> str:
    """Return the system root of a compiler that is built with one, such as Buildroot's."""
    option = next((word.removeprefix("--sysroot=") for word in cc if word.startswith("--sysroot=")), "")
    return option or output_of([*cc, "-print-sysroot"]).strip()
