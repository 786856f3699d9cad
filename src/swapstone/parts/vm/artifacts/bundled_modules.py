# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build kernel modules, those that Swapstone ships and those of the user, for a packaged kernel and with its packaged headers.

Headers are unpacked to a temporary folder. Modules are stored in the cache under the digest of all inputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import new_folder, writable_folder
from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.regular_file import read_regular_file, readable
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.artifacts.packages import Lock, Package, Progress, fetch, package_file
from swapstone.parts.build.artifacts.toolchain import cross_prefix
from swapstone.parts.vm.artifacts.image_catalog import KERNELS, MACHINE_ARCHITECTURES, MachineArchitecture
from swapstone.parts.vm.artifacts.kernel_modules import Module, ModuleFile, read_module_file

OWN_MODULES: tuple[str, ...] = ("planted",)
"""Names of the modules; the source is ``native/NAME/NAME.c``."""

BUILD_TIMEOUT_S = 300
_BUILT_WITH = re.compile(rb"^CONFIG_GCC_VERSION=(\d+)$", re.MULTILINE)
_KBUILD = "linux-kbuild-"
_FLAGS = ("KCFLAGS=-g0",)  # debug information would contain the path of the build folder
_KEY_DIGITS = 32
_LARGEST_SOURCE = 4 << 20


def build_module(name: str, architecture: MachineArchitecture, kernel: str, lock: Lock, progress: Progress) -> Module:
    """Build one of Swapstone's modules for a packaged kernel, or return it from the cache.

    Args:
        name: one of `OWN_MODULES`.
        architecture: of the machine that loads it.
        kernel: one of `KERNELS`, or another kernel, which is refused.
        lock: names the packages of the kernel's headers.
        progress: called before downloads and the build.

    Raises:
        UnavailableError, UserError: as for `build_module_source`; or the kernel is no packaged one.
    """
    if kernel not in KERNELS:
        raise UnavailableError(
            f"The module {name} is unavailable for the kernel {kernel}: it is built with the headers of a packaged kernel."
        )
    kernel = KERNELS[kernel][0]
    return build_module_source(share_dir() / "native" / name / f"{name}.c", architecture, kernel, lock, progress).module


def build_module_source(
    source: Path, architecture: MachineArchitecture, kernel: str, lock: Lock, progress: Progress
) -> ModuleFile:
    """Build a module of one C file for a packaged kernel, or return it from the cache.

    Args:
        source: the file; its name without the suffix is the module's.
        architecture: of the machine that loads it. This machine needs a compiler for it.
        kernel: ``generic`` or ``rt``.
        lock: names the packages of the kernel's headers.
        progress: called before downloads and the build.

    Raises:
        UnavailableError: the lock has no headers for this kernel, or the compiler or make is missing.
        UserError: the headers can't be fetched or are damaged, or the compilation fails.
    """
    name = module_source_name(source)
    try:
        with readable(f"The file {source}"):
            text = read_regular_file(source, _LARGEST_SOURCE).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"The file {source} is no C file: it is not UTF-8.") from error
    packages = _header_packages(name, architecture, kernel, lock)
    prefix = cross_prefix(architecture.machine)
    given = (name, text, Path(__file__).read_text(), *(package.sha256 for package in packages))
    described = "\0".join((*given, *(f"{tool} {compiler_version((tool,))}" for tool in _compilers(prefix))))
    home = cache_dir() / "modules" / hashlib.sha256(described.encode()).hexdigest()[:_KEY_DIGITS]
    file = home / f"{name}.ko"
    if not file.is_file():
        for one in {package.architecture for package in packages}:
            fetch([package for package in packages if package.architecture == one], progress)
        progress(f"building the module {name} for the kernel {kernel} for {architecture.name}")
        with writable_folder(home.parent), new_folder(home) as done:
            _build(name, text, packages, prefix, done)
    with contextlib.suppress(OSError):  # a read-only cache can be used
        os.utime(home)  # `swapstone image gc` uses the time of the last use
    return read_module_file(file)


def module_source_name(source: Path) -> str:
    """Return the name of the module of a C file.

    Raises:
        UserError: there is no such file, or a module can't have its name.
    """
    if not source.is_file():
        raise UserError(f"There is no file {source}.", "Name the C file of a kernel module, or a built module: mine.ko")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,55}", source.stem, re.ASCII):
        raise UserError(
            f"The file {source} can't be a kernel module: its name becomes the module's.",
            "Use letters, digits, hyphens and underscores.",
        )
    return source.stem


def _compilers(prefix: str) -> tuple[str, ...]:
    """Return all candidate compilers, so that the digest changes with the version of each of them."""
    found = {
        Path(path).name: None
        for folder in os.get_exec_path()
        for path in sorted(Path(folder).glob(f"{prefix}gcc-[0-9]*"))
    }
    return tuple(name for name in found if re.fullmatch(rf"{prefix}gcc-\d+", name))


def _header_packages(name: str, architecture: MachineArchitecture, kernel: str, lock: Lock) -> tuple[Package, ...]:
    """Return the header packages of a kernel: its own, and the build programs for this machine's processor."""
    here = next((known.debian for known in MACHINE_ARCHITECTURES if known.machine == os.uname().machine), "")
    found = [package for package in lock.of(architecture.debian) if kernel in package.headers]
    needed = {package.name for package in found if package.name.startswith(_KBUILD)}
    found = [package for package in found if package.name not in needed]
    programs = [package for package in lock.packages if package.architecture == here and package.name in needed]
    if not found or not programs:
        raise UnavailableError(
            f"The module {name} is unavailable for the kernel {kernel} for {architecture.name}: the lock has no package of its headers"
            f"{'' if not found else ' whose programs run on this machine'}.",
            "Update the lock from the archive: swapstone image lock",
        )
    return (*found, *programs)


def _build(name: str, text: str, packages: Sequence[Package], prefix: str, done: Path) -> None:
    """Unpack the headers, and build the module from its source text."""
    tree, copy = done.parent / "tree", done.parent / "copy"
    for package in packages:
        _run(["dpkg-deb", "-x", str(package_file(package.sha256)), str(tree)], "unpacking the kernel's headers")
    top = next((found.parent for found in sorted(tree.glob("usr/src/*/Module.symvers"))), None)
    if top is None:
        raise UserError(
            "The packages of the kernel's headers have no Module.symvers.", "Update the lock: swapstone image lock"
        )
    makefile = top / "Makefile"  # it includes the common Makefile by its installed path
    makefile.write_text(makefile.read_text().replace("include /usr/src/", f"include {tree}/usr/src/"))
    copy.mkdir()
    (copy / f"{name}.c").write_text(text)
    (copy / "Kbuild").write_text(f"obj-m := {name}.o\n")
    compiler = _compiler(prefix, top / ".config")
    tools = [f"CC={compiler}", f"CROSS_COMPILE={prefix}"]
    _run(["make", "-C", str(top), f"M={copy}", *tools, *_FLAGS, "modules"], f"building the module {name}")
    built = copy / f"{name}.ko"
    _run([f"{prefix}strip", "--strip-debug", str(built)], f"building the module {name}")
    built.rename(done / built.name)


def _compiler(prefix: str, config: Path) -> str:
    """Return the compiler with the major version that built the kernel.

    Raises:
        UnavailableError: it is not installed.
    """
    version = _BUILT_WITH.search(config.read_bytes())
    major = int(version[1]) // 10000 if version else 0
    command = f"{prefix}gcc-{major}"
    if shutil.which(command) is None:
        raise UnavailableError(
            f"A module for this kernel needs {command}, the compiler that built the kernel; it is not installed.",
            "Install it: " + install_command(f"gcc-{major}{'-' + prefix.strip('-') if prefix else ''}"),
        )
    return command


def _run(command: list[str], what: str) -> None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TMPDIR": tempfile.gettempdir()}
    run_tool(command, f"{what[0].upper()}{what[1:]}", environment=environment, timeout_s=BUILD_TIMEOUT_S)
