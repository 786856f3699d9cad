# SPDX-License-Identifier: MIT OR Apache-2.0
"""musl of another architecture: its headers and objects from the lock's packages, and the gcc specs that use them.

The packages are unpacked into a folder of the cache and not installed. The package of musl's headers contains the specs with which
``musl-gcc`` makes a gcc for glibc compile for musl; their paths are replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from swapstone.core.artifacts.cache_folder import locked, new_folder, writable_folder
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.artifacts.packages import Contents, Package, fetch, package_file, read_lock

SPECS = "musl-gcc.specs"
MUSL = "musl"
SHIM = "libgetauxval.a"
_LAYOUT = "1"
"""Changes with the content of the folder that is made from the same packages."""

_SHIM_SOURCE = """\
/* libgcc's choice of atomic instructions on arm64 (lse-init.c) calls this name, under which only glibc exports the function. */
unsigned long getauxval(unsigned long);
__attribute__((visibility("hidden"))) unsigned long __getauxval(unsigned long type) { return getauxval(type); }
"""
_SHIM_FOR = frozenset({"aarch64-linux-musl"})

_LOADER = re.compile(r"-dynamic-linker (/lib/ld-musl-[A-Za-z0-9_]+\.so\.1)(?= )")
_PLAIN = re.compile(r"[^A-Za-z0-9_./+:@=-]")


def check_musl(name: str) -> None:
    """Check that the lock has musl's packages for an architecture; nothing is fetched.

    Args:
        name: of the architecture in the image catalog.

    Raises:
        UnavailableError: it has none.
    """
    _packages(name)


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
