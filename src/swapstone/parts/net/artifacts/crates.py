# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build the crates of the workspace with cargo, and check the requirements of their trials."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.cache_folder import locked, new_folder
from swapstone.core.artifacts.distribution_packages import is_installed, missing_programs
from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.factors import read_facts
from swapstone.core.model import UnavailableError, UserError, refuse
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.targets.health import trouble_of
from swapstone.parts.build.artifacts.lwip_source import LWIP_VARIABLE, lwip_source
from swapstone.parts.build.artifacts.upstream_sources import failure_cause
from swapstone.parts.build.artifacts.workload_build import PROGRAM
from swapstone.parts.net.factors.netstack import BUILD_VARIABLES
from swapstone.parts.net.model.crate import Crate

OLDEST_RUST = (1, 91)  # crates/swapstone-net-bench/Cargo.toml
_BUILD_TIMEOUT_S = 3600
_COUNT = "count"
_COUNT_FLAGS = "-fno-builtin-memcpy -fno-builtin-memmove"  # makes every copy in C a call; see src/count.rs there


def crate_programs(commands: Sequence[str] = (), *, bare: bool = False) -> tuple[str, ...]:
    """Return the programs of this machine by which crates are built and trials run; those that no package brings by what to type.

    Args:
        commands: that the program of the crate starts.
        bare: whether its servers run on the emulated machine.
    """
    programs = ["ip", "cargo", "rustc", *commands]
    if bare:
        rust = shutil.which("rustc") is not None
        programs.append(GUEST_EMULATOR)
        if not rust or not guest_library():
            own = rust and rust_library() != Path("/usr/lib/rustlib")
            programs.append(f"rustup target add {GUEST_TARGET}" if own else "rust-source")
        if not rust or guest_linker() is None or guest_compiler() is None:
            programs.append(f"{_CROSS}gcc")
    return tuple(programs)


@functools.cache
def require_crate(programs: tuple[str, ...], root: Path = Path("/")) -> None:
    """Check that trials of a crate can run on this machine.

    Args:
        programs: of `crate_programs`.
        root: root of the file system in which ``dev/net/tun`` is expected.

    Raises:
        MissingProgramsError: packages bring what is missing.
        UnavailableError: another requirement is missing.
    """
    refuse(
        (
            os.geteuid() != 0,
            "The trial creates network namespaces, which needs root.",
            "Start swapstone as root.",
        ),
        (
            not (root / "dev/net/tun").exists(),
            "/dev/net/tun does not exist, so no TAP device can be created.",
            "Load the module: modprobe tun",
        ),
        kind=UnavailableError,
    )
    if missing := missing_programs(programs):
        raise missing
    wanted = f"Rust {OLDEST_RUST[0]}.{OLDEST_RUST[1]} or newer"
    hint = f"Install {wanted} as https://rustup.rs describes; where it is a package: sudo apt-get install rustup && rustup default stable"
    refuse(
        *((not is_installed(each), f"The network stacks need {each}, of {wanted}.", hint) for each in programs),
        kind=UnavailableError,
    )


def missing_crate_requirement(*, bare: bool = False) -> tuple[str, str] | None:
    """Return why trials of crates can't run on this machine, and what to do; None if they can; as `crate_programs`."""
    return trouble_of(lambda: require_crate(crate_programs(bare=bare)))


def build_crate(
    crate: Crate, notify: Callable[[str], None] = lambda _: None, variables: tuple[tuple[str, str], ...] = ()
) -> Built:
    """Build the program of a crate, or return it from the cache.

    Args:
        crate: names package and feature.
        notify: called with a line for the user before a long build.
        variables: pairs (name, value) of environment variables that set options of the network stacks.

    Raises:
        UnavailableError: a command that the program starts is not installed.
        UserError: the build fails; the message ends with cargo's output.
    """
    return build_package(crate.package, crate.feature, notify, variables)


@functools.cache
def build_package(
    package: str,
    feature: str = "",
    notify: Callable[[str], None] = lambda _: None,
    variables: tuple[tuple[str, str], ...] = (),
) -> Built:
    """Build the program of a workspace package, or return it from the cache. All callers share cargo's target folder.

    Args:
        package: its name.
        feature: feature to enable; ``count`` also makes every copy in C a call. Empty for none.
        notify: called with a line for the user before a long build.
        variables: pairs (name, value) of environment variables that set options of the network stacks.

    Raises:
        UnavailableError: the source of lwIP can't be fetched.
        UserError: the build fails; the message ends with cargo's output.
    """
    sources = tree_digest(share_dir() / "crates")
    more = ("--features", feature) if feature else ()
    command = ("cargo", "build", "--release", "--locked", "--package", package, *more)
    settings = "".join(f"{name}={value} " for name, value in variables)
    shown = f"{settings}{' '.join(command)}, by {first_line(['rustc', '--version'])}"
    flags = " ".join(filter(None, (os.environ.get("CFLAGS", ""), _COUNT_FLAGS if feature == _COUNT else "")))
    home = home_of(shown, sources, flags)
    program = home / PROGRAM
    if not program.is_file():
        notify(
            f"building {package} with cargo{', feature count' if feature else ''}"
            f"{f', {settings.strip()}' if settings else ''}: the first build takes some minutes"
        )
        target = target_folder(feature)
        build_with_cargo(home, command, package, {**dict(variables), "CFLAGS": flags}, target=target, sources=sources)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    # No sizes: the program contains all stacks.
    return Built(program, digest, shown, (("crates", sources),), (), read_facts(program))


_NOT_FETCHED = re.compile(r"^error: failed to (get|download|fetch|query)|spurious network error", re.MULTILINE)
_DECIDING = ("RUSTFLAGS", "CC", LWIP_VARIABLE)
_TUNING = BUILD_VARIABLES
"""Set by a level alone: a variable of the user would change every level."""


def tree_digest(folder: Path) -> str:
    """Return a digest of all files of a workspace and their paths, without cargo's output.

    Args:
        folder: of the workspace.
    """
    digest = hashlib.sha256()
    for path in _sources(folder):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(folder)}\0{content}\n".encode())
    return digest.hexdigest()


def _sources(folder: Path, depth: int = 0) -> list[Path]:
    """Return the files of a workspace. A crate outside the workspace has a ``target`` folder of its own."""
    found = []
    for entry in sorted(folder.iterdir()):
        if (entry.name == "target" and depth < 2) or (entry.name.startswith(".") and depth == 0):
            continue
        found += _sources(entry, depth + 1) if entry.is_dir() else [entry] if entry.is_file() else []
    return found


def target_folder(feature: str) -> Path:
    """Return cargo's target folder, which all builds of a kind share.

    Args:
        feature: of the build; empty for none.
    """
    return cache_dir() / "crates" / f"target-{feature or 'plain'}"


def home_of(shown: str, sources: str, flags: str = "") -> Path:
    """Return the folder in the cache of what a build makes. Paths of all builds have the same length.

    Args:
        shown: the command and the compilers.
        sources: digest of the sources.
        flags: of the C compiler.
    """
    decides = (shown, sources, f"CFLAGS={flags}", *(f"{name}={os.environ.get(name, '')}" for name in _DECIDING))
    return cache_dir() / "crates" / hashlib.sha256("\n".join(decides).encode()).hexdigest()[:32]


def forget_other_sources(target: Path, sources: str) -> None:
    """Make cargo compile the workspace's crates again if the last build in a target folder was of other sources.

    Cargo names what it built after the paths of crates relative to the workspace, and compares times of files. So it would take a
    crate of another checkout for this one's if that was built after this one's files were written.

    Args:
        target: cargo's target folder, locked.
        sources: digest of the workspace.
    """
    last = target / ".swapstone-sources"
    if last.is_file() and last.read_text() == sources:
        return
    for pattern in ("*/.fingerprint/swapstone-*", "*/*/.fingerprint/swapstone-*"):  # the latter for another machine
        for folder in target.glob(pattern):
            shutil.rmtree(folder)
    last.write_text(sources)


_FAILED: dict[Path, UserError] = {}
"""What did not build in this process: each program of a suite asks for the same build."""


def build_with_cargo(
    home: Path,
    command: tuple[str, ...],
    package: str,
    variables: dict[str, str],
    *,
    target: Path,
    sources: str,
    folder: Path | None = None,
    made: Path | None = None,
) -> None:
    """Build in a persistent target folder, and move the complete program to its place.

    Args:
        home: folder for the program, which gets the name `PROGRAM`.
        command: of cargo.
        package: for messages.
        variables: of the environment.
        target: cargo's target folder.
        sources: digest of the sources.
        folder: in which cargo is started; None for the workspace.
        made: the program that cargo makes; None for that of the package.

    Raises:
        UnavailableError: a crate or the source of lwIP can't be fetched.
        UserError: the build fails.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if name not in _TUNING},
        **variables,
        "CARGO_TARGET_DIR": str(target),
        LWIP_VARIABLE: str(lwip_source()),
    }
    with locked(target / ".swapstone-lock"):
        # Cargo locks its folder during a build; this lock also covers the copy of the program.
        if home in _FAILED:
            raise _FAILED[home]
        forget_other_sources(target, sources)
        try:
            done = subprocess.run(
                command,
                cwd=folder or share_dir() / "crates",
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_BUILD_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UserError(f"cargo did not build {package} within {_BUILD_TIMEOUT_S} s.") from error
        if done.returncode != 0 and _NOT_FETCHED.search(done.stderr):
            raise UnavailableError(
                f"The crates that {package} needs can't be fetched: {failure_cause(done.stderr)}.",
                "A network is needed once; downloads are cached.",
            )
        if done.returncode != 0:
            message = f"{package} does not build:\n{done.stderr.strip()[-2000:]}"
            _FAILED[home] = UserError(message, "`swapstone doctor` reports missing tools.")
            raise _FAILED[home]
        with new_folder(home) as whole:
            shutil.copy2(made or target / "release" / package, whole / PROGRAM)


GUEST_TARGET = "riscv64gc-unknown-none-elf"
"""Rust's name of the machine."""
GUEST_EMULATOR = "qemu-system-riscv64"
GUEST = "guest"
"""The file beside the program of a trial."""

_PACKAGE = "swapstone-net-guest"
_CROSS = "riscv64-linux-gnu-"


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
    return msgspec.structs.replace(
        program,
        path=home / PROGRAM,
        sources=(*program.sources, (f"{GUEST}-{stack}", digest)),
        facts=read_facts(home / PROGRAM),
        beside=(home / GUEST,),
    )
