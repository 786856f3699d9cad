# SPDX-License-Identifier: MIT OR Apache-2.0
"""SDKs: a system root of one C library and commands that compile for it with the distribution's compilers. A folder that can be moved.

An SDK is stored in the cache under the digest of its inputs. Images of a C library are built with it
(`swapstone.parts.vm.artifacts.libc_image`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, read_description, writable_folder
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.model import FrozenStruct, UnavailableError, UserError, cpio, find_named
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.temporary_folder import TemporaryFolder, is_left_over
from swapstone.parts.build.artifacts import cross_compilers, sdk_files
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, CrossCompiler, check_cross
from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.build.artifacts.sdk_files import SdkNames, fill_sysroot, installed_packages, text_files

DESCRIPTION = "sdk.json"
LIBCS = ("glibc", "musl")
SDK_COMPILERS = ("gcc", "clang")
_KEY_DIGITS = 32
_TRIAL = '#include <stdio.h>\nint main(void) { return puts("") == EOF; }\n'


class Sdk(FrozenStruct, frozen=True, kw_only=True):
    """The description of an SDK, as `DESCRIPTION` in it.

    Attributes:
        format: version of this description.
        architecture: name in the image catalog.
        libc: ``glibc`` or ``musl``.
        triple: prefix of its commands.
        compiler: version line of the distribution's gcc.
        needs: commands of the distribution that its commands start.
        packages: of the distribution and the lock, whose files it contains, as ``NAME VERSION``.
        content: SHA-256 of all other files: paths, modes and contents.
    """

    format: int
    architecture: str
    libc: str
    triple: str
    compiler: str
    needs: tuple[str, ...]
    packages: tuple[str, ...]
    content: str


class BuiltSdk(msgspec.Struct, frozen=True):
    """An SDK in the cache: its description and its folder."""

    sdk: Sdk
    folder: Path

    def command(self, name: str) -> Path:
        """Return the path of a command, such as ``gcc``."""
        return self.folder / "bin" / f"{self.sdk.triple}-{name}"


def check_sdk(architecture: str, libc: str, compiler: str = "gcc") -> CrossCompiler:
    """Check that an SDK can be made here; nothing is fetched. Return the distribution's compiler for it.

    Raises:
        UserError: there is no such architecture, C library or compiler.
        UnavailableError: a package is missing; the hint names it.
    """
    find_named("C library", libc, dict.fromkeys(LIBCS))
    find_named("compiler", compiler, dict.fromkeys(SDK_COMPILERS))
    name = find_architecture(architecture).name
    cross = next(each for each in CROSS_COMPILERS.values() if each.name == name)
    check_cross(cross.machine, compiler, libc)
    installed_packages(cross, libc)
    return cross


def build_sdk(architecture: str, libc: str, notify: Callable[[str], None]) -> BuiltSdk:
    """Make an SDK, or return it from the cache.

    Args:
        architecture: a name of the image catalog.
        libc: ``glibc`` or ``musl``.
        notify: called with a line for the user before a download and before the SDK is made.

    Raises:
        UserError: a name is unknown, musl can't be fetched, the cache can't be written, or the SDK does not compile a program.
        UnavailableError: a package of the distribution is missing; the hint names it.
    """
    cross = check_sdk(architecture, libc)
    inputs = (*_code(), cross.name, libc, compiler_version((f"{cross.prefix}gcc",)), *_packages(cross, libc))
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:_KEY_DIGITS]
    home = cache_dir().resolve() / "sdks" / key
    with writable_folder(home.parent), locked(home.parent / "lock"):
        if read_sdk(home) is None:
            shutil.rmtree(home, ignore_errors=True)
            notify(f"making the SDK of {libc} for {cross.name}")
            with new_folder(home, ".making-") as made:
                _make(made, cross, libc, notify)
        os.utime(home)  # `swapstone image gc` uses the time of the last use
    found = read_sdk(home)
    assert found is not None
    return BuiltSdk(sdk=found, folder=home)


def check_sdk_folder(folder: Path) -> None:
    """Check that a folder does not exist, or is empty.

    Raises:
        UserError: it has files, or is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is no folder.", "Name a new folder: --out DIR")
    try:
        if folder.exists() and not all(is_left_over(path.name) for path in folder.iterdir()):
            raise UserError(f"{folder} exists and is not empty.", "Name a new folder: --out DIR")
    except OSError as error:
        raise UserError(
            f"{folder} can't be read: {error.strerror or error}.", "Name a new folder: --out DIR"
        ) from error


def copy_sdk(built: BuiltSdk, folder: Path) -> None:
    """Copy an SDK to a folder that does not exist yet, or is empty.

    An empty folder stays the same one: it may be a mount point, or its parent may not be writable. Its description comes last.
    The next copy to the same place removes what a killed one left in the folder or beside it.

    Raises:
        UserError: the folder has files, or can't be written.
    """
    check_sdk_folder(folder)
    try:
        inside = folder.is_dir()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFolder("sdk", folder if inside else folder.parent) as work:
            shutil.copytree(built.folder, work / "sdk", symlinks=True)
            if inside:
                for path in sorted((work / "sdk").iterdir(), key=lambda path: path.name == DESCRIPTION):
                    path.rename(folder / path.name)
            else:
                (work / "sdk").chmod(0o755)
                (work / "sdk").rename(folder)
    except OSError as error:
        raise UserError(
            f"{folder} can't be written: {error.strerror or error}.", "Name another folder: --out DIR"
        ) from error


def content_digest(folder: Path) -> str:
    """Return the SHA-256 of an SDK's files, without its description."""
    entries = {name: entry for name, entry in cpio.tree(folder).items() if name != DESCRIPTION}
    return hashlib.sha256(cpio.archive(entries)).hexdigest()


def _make(folder: Path, cross: CrossCompiler, libc: str, notify: Callable[[str], None]) -> None:
    fill_sysroot(folder / "sysroot", cross, libc, notify)
    triple = cross.musl if libc == "musl" else cross.triple
    names = SdkNames(
        libc=libc,
        cross=cross,
        triple=triple,
        shim=(folder / "sysroot" / "usr" / "lib" / sdk_files.SHIM).exists(),
        native=os.uname().machine == cross.machine,
    )
    for name, (text, executable) in text_files(names).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if executable else 0o644)
    (folder / "bin" / f"{triple}-cc").symlink_to(f"{triple}-gcc")
    _try(folder / "bin" / f"{triple}-gcc")
    description = Sdk(
        format=1,
        architecture=cross.name,
        libc=libc,
        triple=triple,
        compiler=compiler_version((f"{cross.prefix}gcc",)),
        needs=(f"{cross.prefix}gcc", *(f"{cross.prefix}{tool}" for tool in sdk_files.TOOLS)),
        packages=_packages(cross, libc),
        content=content_digest(folder),
    )
    (folder / DESCRIPTION).write_bytes(msgspec.json.format(description.encoded(), indent=1) + b"\n")


def _try(compiler: Path) -> None:
    """Compile a program, so that an SDK that can't is an error here."""
    with TemporaryFolder("trial") as work:
        (work / "trial.c").write_text(_TRIAL)
        for options in ((), ("-static",)):
            result = subprocess.run(
                [str(compiler), *options, "-o", "trial", "trial.c"],
                cwd=work,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if result.returncode != 0:
                raise UnavailableError(
                    f"The SDK can't compile a program: {result.stderr.strip()[:500]}",
                    "Install the distribution's compiler and its C library again, or report this error.",
                )


def _packages(cross: CrossCompiler, libc: str) -> tuple[str, ...]:
    """Return the packages whose files an SDK contains: of the lock with their digests."""
    found = list(installed_packages(cross, libc))
    if libc == "musl":
        locked_ones = read_lock().of(find_architecture(cross.name).debian)
        found += [
            f"{package.name} {package.version} {package.sha256}"
            for package in locked_ones
            if cross_compilers.MUSL in {package.name, package.builds}
        ]
    return tuple(found)


def _code() -> tuple[str, ...]:
    """Return digests of the code that makes an SDK."""
    files = (Path(str(module.__file__)) for module in (sdk_files, cross_compilers))
    return tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in (*files, Path(__file__)))


def read_sdk(home: Path) -> Sdk | None:
    """Return the description of an SDK in the cache; None if there is none, or it is damaged."""
    found = read_description(home / DESCRIPTION, Sdk)
    return found if found is not None and content_digest(home) == found.content else None
