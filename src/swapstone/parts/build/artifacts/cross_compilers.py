# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compilers for other architectures: the distribution's cross gcc, clang with its files, and what each C library needs beside it."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from swapstone.core.artifacts.cache_folder import locked, new_folder, writable_folder
from swapstone.core.artifacts.distribution_packages import install_command, packages_of, require_command
from swapstone.core.artifacts.tool_versions import preprocesses
from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.artifacts.own_toolchain import compiler_script
from swapstone.parts.build.artifacts.packages import Contents, Package, fetch, package_file, read_lock

SPECS = "musl-gcc.specs"
MUSL = "musl"
SHIM = "libgetauxval.a"
_LAYOUT = "2"
"""Changes with the content of the folder that is made from the same packages."""

_SHIM_SOURCE = """\
/* libgcc's choice of atomic instructions on arm64 (lse-init.c) calls this name, under which only glibc exports the function.
   Weak: musl's archive has the name too, for a build that links statically by options of its own. */
unsigned long getauxval(unsigned long);
__attribute__((weak, visibility("hidden"))) unsigned long __getauxval(unsigned long type) { return getauxval(type); }
"""
_SHIM_FOR = frozenset({"aarch64-linux-musl"})

_LOADER = re.compile(r"-dynamic-linker (/lib/ld-musl-[A-Za-z0-9_]+\.so\.1)(?= )")
_PLAIN = re.compile(r"[^A-Za-z0-9_./+:@=-]")


def musl_specs(name: str, triple: str, prefix: str, notify: Callable[[str], None]) -> Path:
    """Return the gcc specs for musl of an architecture; its packages are fetched and unpacked if necessary.

    Args:
        name: of the architecture in the image catalog.
        triple: name of musl's folders in the packages.
        prefix: of the names of the cross compiler's tools.
        notify: called before a download.

    Returns:
        The path of the specs, in a folder with ``include/TRIPLE`` and ``lib/TRIPLE``.

    Raises:
        UnavailableError: the lock has no package of it, or apt-get is missing.
        UserError: a package can't be fetched or is damaged, or the cache can't be written.
    """
    packages = _packages(name)
    named = "\n".join((_LAYOUT, triple, *(package.sha256 for package in packages)))
    root = cache_dir().resolve() / "toolchains"
    home = root / f"musl-{hashlib.sha256(named.encode()).hexdigest()[:16]}"
    if not (home / SPECS).is_file():
        with writable_folder(root), locked(root / "lock"):
            if not (home / SPECS).is_file():
                _unpack(packages, triple, prefix, home, notify)
    return home / SPECS


def _packages(name: str) -> tuple[Package, ...]:
    """Return musl itself, as the images contain it, and its headers and objects."""
    architecture = find_architecture(name)
    found = tuple(package for package in read_lock().of(architecture.debian) if MUSL in {package.builds, package.name})
    if {bool(package.builds) for package in found} != {True, False}:
        raise UnavailableError(
            f"There is no musl to build programs for {name} with: the lock has no package of its headers.",
            "Update the lock from the archive: swapstone image lock",
        )
    return found


def _unpack(packages: tuple[Package, ...], triple: str, prefix: str, home: Path, notify: Callable[[str], None]) -> None:
    """Copy the packages' headers and objects into a folder, and write the specs."""
    fetch(packages, notify)
    folders = (f"include/{triple}", f"lib/{triple}")
    what = f"Preparing musl for {triple}"
    with new_folder(home, ".making-") as made:
        work = made.parent
        for package in packages:
            with Contents(package_file(package.sha256), work) as contents:
                for name in contents.names():
                    if name.startswith(tuple(f"{folder}/" for folder in folders)) and contents.resolve(name):
                        target = made / name
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(contents.read(name)[0])
        given = made / folders[1] / SPECS
        if not given.is_file() or not (made / folders[1] / "libc.so").is_file():
            raise UserError(
                f"The packages of musl for {triple} have no {SPECS} or no libc.so.",
                "Update the lock from the archive: swapstone image lock",
            )
        (made / SPECS).write_text(rewritten_specs(given.read_text(), triple, home))
        # The debug information of a newer release than the linker's has relocations that the linker can't read.
        objects = sorted(path for path in (made / folders[1]).iterdir() if path.suffix in {".o", ".a"})
        for path in objects:
            run_tool(
                [f"{prefix}objcopy", "--strip-debug", "--enable-deterministic-archives", str(path)], what, folder=work
            )
        if triple in _SHIM_FOR:
            (work / "shim.c").write_text(_SHIM_SOURCE)
            run_tool([f"{prefix}gcc", "-O2", "-fPIC", "-c", "shim.c", "-o", "shim.o"], what, folder=work)
            run_tool([f"{prefix}ar", "rcD", str(made / folders[1] / SHIM), "shim.o"], what, folder=work)


def rewritten_specs(specs: str, triple: str, home: Path) -> str:
    """Return the specs of a musl package for a copy of its files.

    A static program gets no loader: GNU ld ignores the option for one, and other linkers do not.

    Args:
        specs: of the package, with paths below ``/usr``.
        triple: name of its folders.
        home: folder with ``include/TRIPLE`` and ``lib/TRIPLE``.

    Raises:
        UserError: they have another form.
    """
    for kind in ("include", "lib"):
        specs = specs.replace(f"/usr/{kind}/{triple}", _quoted(home / kind / triple))
    if triple in _SHIM_FOR:
        shim = f"%{{!static:%{{!static-pie:{_quoted(home / 'lib' / triple / SHIM)}}}}}"
        specs = re.sub(r"(?<=^\*libgcc:\n)(.+)$", lambda found: f"{found[1]} {shim}", specs, flags=re.MULTILINE)
    specs, loaders = _LOADER.subn(r"%{!static:%{!static-pie:-dynamic-linker \1}}", specs)
    if loaders != 1 or re.search(r"(?<!\S)(-L|-isystem )?/usr/", specs) or _quoted(home) not in specs:
        raise UserError(
            f"{SPECS} of the package of musl for {triple} has an unknown form.",
            "Compare with the musl level left out, or report the version of the package.",
        )
    return specs


def _quoted(path: Path) -> str:
    """Return a path for specs: a backslash makes the next character an ordinary one ("Spec Files" of gcc's manual, `do_spec_1`)."""
    return _PLAIN.sub(lambda found: f"\\{found[0]}", str(path))


class CrossCompiler(FrozenStruct, frozen=True, kw_only=True):
    """The distribution's compiler for one architecture.

    Attributes:
        name: of the architecture in the image catalog.
        machine: as ``uname -m`` prints it, or as in recipes.
        triple: prefix of the tools' names.
        musl: name of musl's folders in its packages.
        clang: clang's target, and options that make it generate code for the processor that the distribution's gcc has as its default.
    """

    name: str
    machine: str
    triple: str
    musl: str
    clang: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """The prefix of the tools' names."""
        return f"{self.triple}-"

    @property
    def package(self) -> str:
        """The package that contains its gcc."""
        return packages_of((f"{self.prefix}gcc",))


CROSS_COMPILERS: dict[str, CrossCompiler] = {
    cross.machine: cross
    for cross in (
        CrossCompiler(
            name="x86_64",
            machine="x86_64",
            triple="x86_64-linux-gnu",
            musl="x86_64-linux-musl",
            clang=("--target=x86_64-linux-gnu",),
        ),
        CrossCompiler(
            name="arm64",
            machine="aarch64",
            triple="aarch64-linux-gnu",
            musl="aarch64-linux-musl",
            clang=("--target=aarch64-linux-gnu",),
        ),
        CrossCompiler(
            name="armhf",
            machine="arm",
            triple="arm-linux-gnueabihf",
            musl="arm-linux-musleabihf",
            # `arm-linux-gnueabihf-gcc -v`: --with-arch=armv7-a+fp --with-mode=thumb --with-float=hard
            clang=("--target=armv7-linux-gnueabihf", "-mthumb", "-mfpu=vfpv3-d16", "-mfloat-abi=hard"),
        ),
        CrossCompiler(
            name="riscv64",
            machine="riscv64",
            triple="riscv64-linux-gnu",
            musl="riscv64-linux-musl",
            # `riscv64-linux-gnu-gcc -v`: --with-arch=rv64gc --with-abi=lp64d
            clang=("--target=riscv64-linux-gnu", "-march=rv64gc", "-mabi=lp64d"),
        ),
    )
}
"""By the machine's name in recipes."""


def cross_compiler(architecture: str) -> CrossCompiler:
    """Return the compiler for an architecture.

    Raises:
        UnavailableError: there is none.
    """
    if architecture not in CROSS_COMPILERS:
        raise UnavailableError(
            f"Swapstone has no compiler for {architecture}.",
            f"It has compilers for {', '.join(cross.name for cross in CROSS_COMPILERS.values())}.",
        )
    return CROSS_COMPILERS[architecture]


def header_of(prefix: str) -> str:
    """Return the path of a header of the C library for a compiler of the distribution.

    Args:
        prefix: of the names of its tools; empty for this machine's.
    """
    return f"/usr/{prefix.removesuffix('-')}/include/stdio.h" if prefix else "/usr/include/stdio.h"


def gcc_programs(prefix: str) -> tuple[str, ...]:
    """Return a compiler of the distribution, and the header of its C library unless it finds one elsewhere; as `header_of`."""
    gcc = f"{prefix}gcc"
    return (gcc,) if shutil.which(gcc) and preprocesses((gcc,), "stdio.h") else (gcc, header_of(prefix))


def require_headers(gcc: str, header: str) -> None:
    """Check that a gcc finds the headers of its C library.

    Args:
        gcc: its path.
        header: where the distribution has one of them.

    Raises:
        UnavailableError: they are not installed; the hint names the package.
    """
    if not preprocesses((gcc,), "stdio.h"):
        raise UnavailableError(
            f"The C library's headers for {Path(gcc).name} are not installed.",
            f"Install them: {install_command(packages_of((header,)))}",
        )


def check_cross(architecture: str, compiler: str, libc: str) -> str:
    """Check that programs can be built for another architecture, and return the path of its gcc; nothing is fetched.

    Args:
        architecture: as in recipes.
        compiler: ``cc``, ``gcc`` or ``clang``.
        libc: ``glibc`` or ``musl``.

    Raises:
        UnavailableError: a package is missing; the hint names it.
    """
    cross = cross_compiler(architecture)
    if compiler not in {"cc", "gcc", "clang"} or libc not in {"glibc", "musl"}:
        raise UnavailableError(f"Swapstone can't compile for {libc} on {cross.name} with {compiler}.")
    what = f"Compiling for {cross.name}"
    gcc = require_command(f"{cross.prefix}gcc", what)
    if compiler == "clang":
        require_command("clang", f"{what} with clang")
    if libc == "musl":
        _packages(cross.name)  # raises an error if the lock lacks them
    else:
        require_headers(gcc, header_of(cross.prefix))
    return gcc


def cross_command(architecture: str, compiler: str, libc: str, notify: Callable[[str], None]) -> tuple[str, ...]:
    """Return the command that compiles and links for another architecture; fetches musl if it is not in the cache.

    Args:
        architecture: as in recipes.
        compiler: ``cc``, ``gcc`` or ``clang``; clang for glibc only, see `swapstone.parts.build.artifacts.toolchain.compiler_command`.
        libc: ``glibc`` or ``musl``.
        notify: called with a line for the user before a download.

    Raises:
        UnavailableError: a package is missing; the hint names it.
        UserError: musl can't be fetched.
    """
    gcc = check_cross(architecture, compiler, libc)
    cross = cross_compiler(architecture)
    if libc == "musl":
        specs = musl_specs(cross.name, cross.musl, cross.prefix, notify)
        return (str(compiler_script(f"{cross.musl}-gcc", (gcc, "-specs", str(specs)))),)
    if compiler == "clang":
        linker = shutil.which(f"{cross.prefix}ld") or f"{cross.prefix}ld"
        options = ("--start-no-unused-arguments", f"--ld-path={linker}", "--end-no-unused-arguments")
        return (str(compiler_script(f"clang-{cross.name}", ("clang", *cross.clang, *options))),)
    return (gcc,)
