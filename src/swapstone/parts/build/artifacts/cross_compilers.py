# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compilers for other architectures: the distribution's cross gcc, clang with its files, and what each C library needs beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from swapstone.core.artifacts.distribution_packages import install_command, require_command
from swapstone.core.artifacts.tool_versions import preprocesses
from swapstone.core.model import FrozenStruct, UnavailableError
from swapstone.parts.build.artifacts.c_library_tree import compiler_script
from swapstone.parts.build.artifacts.cross_musl import check_musl, musl_specs


class CrossCompiler(FrozenStruct, frozen=True, kw_only=True):
    """The distribution's compiler for one architecture.

    Attributes:
        name: of the architecture in the image catalog.
        machine: as ``uname -m`` prints it, or as in recipes.
        triple: prefix of the tools' names.
        package: that contains gcc.
        headers: package of glibc's headers and objects.
        musl: name of musl's folders in its packages.
        clang: clang's target, and options that make it generate code for the processor that the distribution's gcc has as its default.
    """

    name: str
    machine: str
    triple: str
    package: str
    headers: str
    musl: str
    clang: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """The prefix of the tools' names."""
        return f"{self.triple}-"


CROSS_COMPILERS: dict[str, CrossCompiler] = {
    cross.machine: cross
    for cross in (
        CrossCompiler(
            name="x86_64",
            machine="x86_64",
            triple="x86_64-linux-gnu",
            package="gcc-x86-64-linux-gnu",
            headers="libc6-dev-amd64-cross",
            musl="x86_64-linux-musl",
            clang=("--target=x86_64-linux-gnu",),
        ),
        CrossCompiler(
            name="arm64",
            machine="aarch64",
            triple="aarch64-linux-gnu",
            package="gcc-aarch64-linux-gnu",
            headers="libc6-dev-arm64-cross",
            musl="aarch64-linux-musl",
            clang=("--target=aarch64-linux-gnu",),
        ),
        CrossCompiler(
            name="armhf",
            machine="arm",
            triple="arm-linux-gnueabihf",
            package="gcc-arm-linux-gnueabihf",
            headers="libc6-dev-armhf-cross",
            musl="arm-linux-musleabihf",
            # `arm-linux-gnueabihf-gcc -v`: --with-arch=armv7-a+fp --with-mode=thumb --with-float=hard
            clang=("--target=armv7-linux-gnueabihf", "-mthumb", "-mfpu=vfpv3-d16", "-mfloat-abi=hard"),
        ),
        CrossCompiler(
            name="riscv64",
            machine="riscv64",
            triple="riscv64-linux-gnu",
            package="gcc-riscv64-linux-gnu",
            headers="libc6-dev-riscv64-cross",
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


def check_cross(architecture: str, compiler: str, libc: str) -> None:
    """Check that programs can be built for another architecture; nothing is fetched.

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
    gcc = require_command(f"{cross.prefix}gcc", what, cross.package)
    if compiler == "clang":
        require_command("clang", f"{what} with clang", "clang")
    if libc == "musl":
        check_musl(cross.name)
    elif not preprocesses((gcc,), "stdio.h"):
        raise UnavailableError(
            f"The C library's headers for {cross.prefix}gcc are not installed.",
            f"Install them: {install_command(cross.headers)}",
        )


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
    check_cross(architecture, compiler, libc)
    cross = cross_compiler(architecture)
    gcc = shutil.which(f"{cross.prefix}gcc") or f"{cross.prefix}gcc"
    if libc == "musl":
        specs = musl_specs(cross.name, cross.musl, cross.prefix, notify)
        return (str(compiler_script(f"{cross.musl}-gcc", (gcc, "-specs", str(specs)))),)
    if compiler == "clang":
        linker = shutil.which(f"{cross.prefix}ld") or f"{cross.prefix}ld"
        options = ("--start-no-unused-arguments", f"--ld-path={linker}", "--end-no-unused-arguments")
        return (str(compiler_script(f"clang-{cross.name}", ("clang", *cross.clang, *options))),)
    return (gcc,)
