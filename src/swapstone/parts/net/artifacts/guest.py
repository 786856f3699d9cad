# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build the HTTP server for a riscv64 machine without an operating system, ``crates/swapstone-net-guest``, and check what that needs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.factors import read_facts
from swapstone.core.model import Crate, UnavailableError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts.workload_build import PROGRAM
from swapstone.parts.net.artifacts.crates import (
    build_crate,
    build_with_cargo,
    home_of,
    missing_crate_requirement,
    target_folder,
    tree_digest,
)

GUEST_TARGET = "riscv64gc-unknown-none-elf"
"""Rust's name of the machine."""
GUEST_EMULATOR = "qemu-system-riscv64"
GUEST = "guest"
"""The file beside the program of a trial."""

_PACKAGE = "swapstone-net-guest"
_CROSS = "riscv64-linux-gnu-"
_C_STACK = "lwip"


def guest_folder() -> Path:
    """Return the crate's folder, which is a workspace of its own."""
    return share_dir() / "crates" / _PACKAGE


def guest_library() -> str | None:
    """Return the origin of core and alloc for the machine: `installed`, `built` from the compiler's sources, or None."""
    library = rust_library()
    if (library / GUEST_TARGET / "lib").is_dir():
        return "installed"
    return "built" if (library / "src" / "rust" / "library" / "Cargo.lock").is_file() else None


def rust_library() -> Path:
    """Return the folder of the libraries of the installed Rust."""
    done = subprocess.run(
        ("rustc", "--print", "sysroot"), cwd=guest_folder(), capture_output=True, text=True, check=False
    )
    return Path(done.stdout.strip()) / "lib" / "rustlib"


def guest_linker() -> dict[str, str] | None:
    """Return the environment variable that names the linker, none for Rust's own; None if there is no linker.

    Debian's Rust comes without ``rust-lld``, the linker of machines without an operating system.
    """
    if shutil.which("rust-lld") or any(rust_library().glob("*/bin/rust-lld")):
        return {}
    name = f"CARGO_TARGET_{GUEST_TARGET.replace('-', '_').upper()}_LINKER"
    return {name: f"{_CROSS}ld"} if shutil.which(f"{_CROSS}ld") else None


def guest_compiler() -> dict[str, str] | None:
    """Return the environment variables that name the C compiler and archiver for riscv64; None if there are none."""
    suffix = GUEST_TARGET.replace("-", "_")
    if shutil.which(f"{_CROSS}gcc") and shutil.which(f"{_CROSS}ar"):
        return {f"CC_{suffix}": f"{_CROSS}gcc", f"AR_{suffix}": f"{_CROSS}ar"}
    return {} if shutil.which("clang") else None


def missing_guest_requirement(stacks: Iterable[str] = (_C_STACK,)) -> tuple[str, str] | None:
    """Return why the guest can't be built or booted on this machine, and what to do; None if it can.

    Args:
        stacks: in the guest; lwIP needs a C compiler.
    """
    checks: tuple[tuple[Callable[[], object], str, str], ...] = (
        (
            lambda: shutil.which(GUEST_EMULATOR),
            f"The command {GUEST_EMULATOR}, which emulates the machine, is not installed.",
            f"Install it: {install_command('qemu-system-misc')}",
        ),
        (guest_library, f"There is no Rust library for {GUEST_TARGET}.", f"Install it: {_library_command()}"),
        (
            lambda: guest_linker() is not None,
            "There is no linker for riscv64: this Rust has no rust-lld.",
            f"Install one: {install_command('binutils-riscv64-linux-gnu')}",
        ),
        (
            lambda: _C_STACK not in stacks or guest_compiler() is not None,
            "There is no C compiler for riscv64, which lwIP needs.",
            f"Install one: {install_command('gcc-riscv64-linux-gnu')}",
        ),
    )
    missing = ((problem, hint) for is_there, problem, hint in checks if not is_there())
    return missing_crate_requirement() or next(missing, None)


def _library_command() -> str:
    if shutil.which("rustup") is not None:
        return f"rustup target add {GUEST_TARGET}"
    return f"{install_command('rust-web-src')} (beside rustc-web; rust-src beside rustc)"


def require_guest(stacks: Iterable[str]) -> None:
    """Check that the guest can be built and booted on this machine.

    Args:
        stacks: as of `missing_guest_requirement`.

    Raises:
        UnavailableError: a requirement is missing.
    """
    if trouble := missing_guest_requirement(stacks):
        raise UnavailableError(*trouble)


@functools.cache
def build_guest(
    stack: str,
    notify: Callable[[str], None] = lambda _: None,
    variables: tuple[tuple[str, str], ...] = (),
) -> Path:
    """Build the guest with a stack, or return it from the cache.

    Args:
        stack: ``lwip`` or ``smoltcp``.
        notify: called with a line for the user before a build.
        variables: pairs (name, value) of environment variables that set options of the stack.

    Raises:
        UnavailableError: the source of lwIP or a crate can't be fetched.
        UserError: the build fails; the message ends with cargo's output.
    """
    sources = tree_digest(share_dir() / "crates")
    command = ["cargo", "build", "--release", "--locked", "--target", GUEST_TARGET, "--features", stack]
    environment = {**dict(variables), **(guest_compiler() or {}), **(guest_linker() or {})}
    builds = guest_library() == "built"
    if builds:
        # A stable compiler builds its own library if unstable options are enabled.
        environment["RUSTC_BOOTSTRAP"] = "1"
        command += ["-Zbuild-std=core,alloc,compiler_builtins", "-Zbuild-std-features=compiler-builtins-mem"]
    compiler = next((value for name, value in environment.items() if name.startswith("CC_")), "clang")
    settings = "".join(f"{name}={value} " for name, value in variables)
    shown = f"{settings}{' '.join(command)}, by {first_line(['rustc', '--version'])} and {first_line([compiler, '--version'])}"
    home = home_of(shown, sources, os.environ.get("CFLAGS", ""))
    if not (home / PROGRAM).is_file():
        notify(f"building {_PACKAGE} with {stack}{f', {settings.strip()}' if settings else ''} for bare riscv64")
        target = target_folder(f"{GUEST}{'-std' if builds else ''}")
        build_with_cargo(
            home,
            tuple(command),
            _PACKAGE,
            environment,
            target=target,
            sources=sources,
            folder=guest_folder(),
            made=target / GUEST_TARGET / "release" / f"guest-{stack}",
        )
    return home / PROGRAM


def build_bare(
    crate: Crate,
    stack: str,
    notify: Callable[[str], None] = lambda _: None,
    variables: tuple[tuple[str, str], ...] = (),
) -> Built:
    """Build the program of a crate and, into the same folder, the guest that it boots; or return both from the cache.

    Args:
        crate: names package and feature.
        stack: as of `build_guest`.
        notify: called with a line for the user before a long build.
        variables: as of `build_guest`.

    Raises:
        UnavailableError: as `build_crate` and `build_guest`.
        UserError: as `build_crate` and `build_guest`.
    """
    program = build_crate(crate, notify)
    guest = build_guest(stack, notify, variables)
    digest = hashlib.sha256(guest.read_bytes()).hexdigest()
    home = home_of(f"{program.sha256} {digest}", "")
    if not home.exists():
        with new_folder(home) as whole:
            shutil.copy2(program.path, whole / PROGRAM)
            shutil.copy2(guest, whole / GUEST)
    return dataclasses.replace(
        program,
        path=home / PROGRAM,
        sources=(*program.sources, (f"{GUEST}-{stack}", digest)),
        facts=read_facts(home / PROGRAM),
        beside=(home / GUEST,),
    )
