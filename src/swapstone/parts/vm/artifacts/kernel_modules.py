# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel modules: their dependencies, and the order in which they are loaded.

A package does not contain modules.dep, which depmod creates on installation. So dependencies are read from the section ``.modinfo``
of the modules: ``depends`` and ``softdep``.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import new_folder, writable_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.factors.elf_file import DamagedElfError, content_of, open_elf
from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.compression import CompressionError, decompress
from swapstone.core.model.directories import cache_dir, mark_used, share_dir
from swapstone.core.model.regular_file import read_regular_file, readable
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.artifacts.packages import Lock, Package, Progress, fetch, package_file
from swapstone.parts.build.artifacts.toolchain import cross_prefix
from swapstone.parts.vm.artifacts.image_catalog import KERNELS, MACHINE_ARCHITECTURES, MachineArchitecture
from swapstone.parts.vm.artifacts.kernels import ELF_MACHINES

_MODULE = re.compile(r"(?P<name>[^/]+)\.ko(?P<compressed>\.(?:xz|gz|zst))?\Z")
_BUILT_IN = "modules.builtin"


class Module(FrozenStruct, frozen=True, kw_only=True):
    """A kernel module.

    Attributes:
        path: of its file.
        name: with underscores, as in ``/proc/modules``.
        content: the uncompressed ELF file.
        release: of the kernel that it was built for; empty if unknown.
        architecture: as ``uname -m`` prints it; empty if unknown.
        needs: names of the modules on which it depends.
        wishes: names that are loaded before it where there are such modules.
    """

    path: str
    name: str
    content: bytes
    release: str
    architecture: str
    needs: tuple[str, ...]
    wishes: tuple[str, ...]


class Modules:
    """The modules of a kernel.

    Args:
        paths: of all files of the kernel, relative; modules and ``modules.builtin`` are selected.
        read: returns the content of a file.
    """

    def __init__(self, paths: Iterable[str], read: Callable[[str], bytes]) -> None:
        self._read = read
        self._paths: dict[str, str] = {}
        self._built_in: set[str] = set()
        for path in sorted(paths):
            match = _MODULE.search(path)
            if match:
                self._paths[_plain(match["name"])] = path
            elif posixpath.basename(path) == _BUILT_IN:
                lines = read(path).decode(errors="replace").splitlines()
                self._built_in |= {_plain(posixpath.basename(line).removesuffix(".ko")) for line in lines}

    def load_order(self, wanted: Sequence[str]) -> tuple[Module, ...]:
        """Return modules with all their dependencies, each after its dependencies.

        Args:
            wanted: names, with hyphens or underscores. Modules built into the kernel are left out.

        Raises:
            UserError: a module does not exist or is damaged, or modules are of different kernels.
        """
        found: dict[str, Module | None] = {}
        for name in wanted:
            self._visit(_plain(name), found, "")
        modules = tuple(module for module in found.values() if module is not None)
        releases = sorted({module.release for module in modules})
        if len(releases) > 1:
            raise UserError(
                f"The modules belong to different kernels: {', '.join(releases)}.",
                "Name the folder of one kernel, such as lib/modules/6.1.0.",
            )
        return modules

    def _visit(self, name: str, found: dict[str, Module | None], asker: str) -> None:
        if name in found or name in self._built_in:
            return
        path = self._paths.get(name)
        if path is None:
            needed = f", which {asker} needs," if asker else ""
            raise UserError(
                f"The kernel has no module {name}{needed} and does not list it as built in.",
                "Build the kernel with it, or build the image without it (--modules).",
            )
        found[name] = None  # being visited; a cycle is possible in damaged modules only
        module = _module(path, self._read(path), name)
        for before in (*module.needs, *filter(self._paths.__contains__, module.wishes)):
            self._visit(before, found, name)
        del found[name]
        found[name] = module


_LARGEST_MODULE = 64 << 20


def read_module_file(path: Path) -> Module:
    """Read a module of the user, which may be compressed.

    Raises:
        UserError: it can't be read, or is no module.
    """
    with readable(f"The module {path}"):
        data = read_regular_file(path, _LARGEST_MODULE)
    module = _module(str(path), data)
    if not re.fullmatch(r"[A-Za-z0-9_]{1,60}", module.name, re.ASCII) or not module.release:
        raise UserError(f"The file {path} is no kernel module: its .modinfo has no name or no vermagic.")
    return module


def modules_for(files: Sequence[Module], release: str, kernel: str, architecture: str) -> tuple[Module, ...]:
    """Choose those of the user's modules that belong to a kernel. Each module must have a file for each kernel.

    Args:
        files: in the order of loading.
        release: of the kernel; empty if it is unknown, and the modules must be of one release.
        kernel: for the message.
        architecture: of the machine.

    Raises:
        UserError: a module has no file for this kernel or machine, or several.
    """
    found = []
    for name in dict.fromkeys(each.name for each in files):
        same = [each for each in files if each.name == name]
        fit = [each for each in same if each.release == release or not release]
        if not fit:
            others = ", ".join(f"{each.path} is for {each.release}" for each in same)
            raise UserError(
                f"The module {name} does not belong to the kernel {kernel}, which is {release}: {others}.",
                f"Build it with that kernel's headers, and name both files: --module {same[0].path} --module OTHER."
                f" Or name its C file, which is built for each packaged kernel: --module {name}.c",
            )
        if len(fit) > 1:
            raise UserError(
                f"The module {name} is named twice for the kernel {kernel}: {fit[0].path} and {fit[1].path}."
            )
        if fit[0].architecture != architecture:
            raise UserError(
                f"The module {fit[0].path} is for {fit[0].architecture or 'another machine'}, not for {architecture}."
            )
        found.append(fit[0])
    return tuple(found)


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _wished(values: Iterable[str]) -> list[str]:
    """Return the soft dependencies of a module. ``crypto-X`` is any module of the algorithm X, such as the generic one."""
    found = []
    for value in values:
        before, _, _ = value.partition("post:")
        for name in map(_plain, before.replace("pre:", " ").split()):
            algorithm = name.removeprefix("crypto_")
            found += [name, algorithm, f"{algorithm}_generic"]
    return found


def _unpacked(path: str, data: bytes) -> bytes:
    """Decompress a module: busybox's insmod loads uncompressed modules only."""
    try:
        if path.endswith(".xz"):
            return decompress(data, "xz")
        if path.endswith(".gz"):
            return decompress(data, "gzip")
    except CompressionError as error:
        raise UserError(f"The module {path} is damaged: {error}.") from error
    if path.endswith(".zst"):
        raise UserError(
            f"The module {path} is compressed with zstd, which Swapstone can't decompress.",
            "Decompress the modules first: find FOLDER -name '*.ko.zst' -exec unzstd --rm {} +",
        )
    return data


def _module(path: str, data: bytes, name: str = "") -> Module:
    """Read a module by the pairs ``name=value`` of its ``.modinfo``; `name` is its name if that is known."""
    content = _unpacked(path, data)
    try:
        with open_elf(content) as elf:
            pairs = content_of(elf.get_section_by_name(".modinfo"))
            architecture = ELF_MACHINES.get(elf["e_machine"], "")
    except DamagedElfError as error:
        raise UserError(f"The module {path} is damaged: {error}.") from error
    if not pairs:
        raise UserError(f"The module {path} is damaged: it has no .modinfo.")
    facts: dict[str, list[str]] = {}
    for pair in pairs.split(b"\0"):
        key, equals, value = pair.decode(errors="replace").partition("=")
        if equals:
            facts.setdefault(key, []).append(value)
    match = _MODULE.search(path)
    return Module(
        path=path,
        name=name or _plain((facts.get("name") or [match["name"] if match else ""])[0]),
        content=content,
        release=facts.get("vermagic", [""])[0].partition(" ")[0],
        architecture=architecture,
        needs=tuple(_plain(name) for value in facts.get("depends", []) for name in value.split(",") if name),
        wishes=tuple(_wished(facts.get("softdep", []))),
    )


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
    return build_module_source(share_dir() / "native" / name / f"{name}.c", architecture, kernel, lock, progress)


def build_module_source(
    source: Path, architecture: MachineArchitecture, kernel: str, lock: Lock, progress: Progress
) -> Module:
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
    mark_used(home)
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


KERNEL_COMPILER = "gcc-12"
"""The compiler that built the packaged kernels of the lock."""


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
    return Path(require_command(f"{prefix}gcc-{major}", "A module for a kernel that this compiler built")).name


def _run(command: list[str], what: str) -> None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TMPDIR": tempfile.gettempdir()}
    run_tool(command, f"{what[0].upper()}{what[1:]}", environment=environment, timeout_s=BUILD_TIMEOUT_S)
