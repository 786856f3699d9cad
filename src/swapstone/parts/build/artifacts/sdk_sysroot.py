# SPDX-License-Identifier: MIT OR Apache-2.0
"""The system root of an SDK: headers and objects of a C library, the kernel's headers, and the objects of gcc that programs contain.

musl is that of the lock's packages. glibc, the kernel's headers and gcc's objects are those of the installed packages of the distribution;
dpkg lists their files.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.model import UnavailableError
from swapstone.core.model.architectures import find_architecture
from swapstone.parts.build.artifacts.cross_compilers import CrossCompiler
from swapstone.parts.build.artifacts.cross_musl import musl_specs
from swapstone.parts.build.artifacts.sdk_files import SHIM

KERNEL_FOLDERS = frozenset(
    {"asm", "asm-generic", "drm", "linux", "misc", "mtd", "rdma", "scsi", "sound", "video", "xen"}
)
_SCRIPT = b"/* GNU ld script"
_SCRIPT_FOLDER = re.compile(rb"(?<=[\s(])/(?:[^/\s*()]+/)+")
_GCC_OBJECT = re.compile(r"crt.*\.o|libgcc(_eh)?\.a")
_LIBRARY = re.compile(r".*\.o|lib[^/]*\.(a|so(\.[0-9.]+)?)|ld-[^/]*\.so\.[0-9]+")

_UNWINDER = (
    "/* As musl-gcc does: gcc's static unwinder, because its shared object needs glibc. */\nINPUT ( -lgcc_eh{} )\n"
)
_SHARED_UNWINDER = "/* The unwinder that glibc's programs share. */\nINPUT ( libgcc_s.so.1 )\n"


def installed_packages(cross: CrossCompiler, libc: str) -> tuple[str, ...]:
    """Return the packages of the distribution that a system root takes files from, as pairs ``NAME VERSION``.

    Args:
        cross: the compiler.
        libc: ``glibc`` or ``musl``.

    Raises:
        UnavailableError: one is not installed, or the system has no dpkg.
    """
    return tuple(f"{name} {_version(name)}" for name in _package_names(cross, libc))


def fill_sysroot(root: Path, cross: CrossCompiler, libc: str, notify: Callable[[str], None]) -> None:
    """Copy the files of a system root into a new folder. All are below ``usr``; the loader has a link at its place.

    Args:
        root: created.
        cross: the compiler, whose objects are copied.
        libc: ``glibc`` or ``musl``.
        notify: called before a download.

    Raises:
        UnavailableError: a package of the distribution is not installed.
        UserError: musl can't be fetched.
    """
    include, lib = root / "usr" / "include", root / "usr" / "lib"
    include.mkdir(parents=True)
    lib.mkdir()
    names = _package_names(cross, libc)
    listed = [path for name in names for path in _files_of(name)]
    if libc == "musl":
        _copy_headers([path for path in listed if _below_include(path).split("/")[0] in KERNEL_FOLDERS], include)
        home = musl_specs(cross.name, cross.musl, cross.prefix, notify).parent
        shutil.copytree(home / "include" / cross.musl, include, dirs_exist_ok=True, copy_function=shutil.copyfile)
        for path in sorted((home / "lib" / cross.musl).iterdir()):
            if _LIBRARY.fullmatch(path.name):
                shutil.copyfile(path, lib / path.name)
    else:
        _copy_headers(listed, include)
        _copy_libraries(listed, lib)
    _copy_gcc_objects(cross, libc, lib)
    loader = loader_of(cross, libc).lstrip("/")
    (root / loader).parent.mkdir(exist_ok=True)
    (root / loader).symlink_to(f"../usr/lib/{'libc.so' if libc == 'musl' else Path(loader).name}")


def loader_of(cross: CrossCompiler, libc: str) -> str:
    """Return the path of the dynamic loader that programs name."""
    if libc == "musl":
        return f"/lib/ld-musl-{'armhf' if cross.machine == 'arm' else cross.machine}.so.1"
    return _GLIBC_LOADERS[cross.machine]


_GLIBC_LOADERS = {
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
    "aarch64": "/lib/ld-linux-aarch64.so.1",
    "arm": "/lib/ld-linux-armhf.so.3",
    "riscv64": "/lib/ld-linux-riscv64-lp64d.so.1",
}
"""glibc's shlib-versions, and the psABI of each processor."""


def _package_names(cross: CrossCompiler, libc: str) -> tuple[str, ...]:
    """Return the packages of headers and libraries: those for cross compilers, or those of the build machine's own architecture."""
    debian = find_architecture(cross.name).debian
    ours = first_line(["dpkg", "--print-architecture"]) == debian
    kinds = ("linux-libc-dev",) if libc == "musl" else ("linux-libc-dev", "libc6-dev", "libc6", "libgcc-s1")
    return tuple(f"{kind}:{debian}" if ours else f"{kind}-{debian}-cross" for kind in kinds)


def _version(package: str) -> str:
    result = _dpkg(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package])
    status, _, version = result.stdout.partition(" ")
    if result.returncode != 0 or status != "installed":
        name = package.partition(":")[0]
        raise UnavailableError(
            f"An SDK takes files of the package {name}, which is not installed.",
            f"Install it: {install_command(name)}",
        )
    return version


def _files_of(package: str) -> list[Path]:
    """Return the files and links of an installed package."""
    _version(package)
    paths = (Path(line) for line in _dpkg(["dpkg", "-L", package]).stdout.splitlines() if line.startswith("/"))
    return [path for path in paths if path.is_symlink() or path.is_file()]


def _dpkg(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except OSError as error:
        raise UnavailableError(
            "An SDK is made of Debian's packages, and this machine has no dpkg.",
            "Make it on a Debian or Ubuntu machine.",
        ) from error


def _below_include(path: Path) -> str:
    """Return a header's path as programs include it; empty if it is none."""
    parts = path.parts
    if "include" not in parts:
        return ""
    below = parts[parts.index("include") + 1 :]
    return "/".join(below[1:] if below and re.fullmatch(r"\w+-linux-gnu\w*", below[0]) else below)


def _copy_headers(paths: Iterable[Path], include: Path) -> None:
    for path in paths:
        if name := _below_include(path):
            (include / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, include / name)


def _copy_libraries(paths: Iterable[Path], lib: Path) -> None:
    """Copy libraries and start-up objects into one folder. Linker scripts and links then name files beside them."""
    for path in paths:
        if not _LIBRARY.fullmatch(path.name) or {"gconv", "audit", "share"} & set(path.parts):
            continue
        target = path.readlink().name if path.is_symlink() else ""
        if target and target != path.name:
            (lib / path.name).unlink(missing_ok=True)
            (lib / path.name).symlink_to(target)
        elif not target:
            content = path.read_bytes()
            if content.startswith(_SCRIPT):
                content = _SCRIPT_FOLDER.sub(b"", content)
            (lib / path.name).write_bytes(content)


def _copy_gcc_objects(cross: CrossCompiler, libc: str, lib: Path) -> None:
    """Copy gcc's start-up objects and libgcc to where clang looks for them; gcc uses its own, which are the same files."""
    gcc = f"{cross.prefix}gcc"
    home = Path(first_line([gcc, "-print-libgcc-file-name"])).parent
    ours = lib / "gcc" / cross.triple / first_line([gcc, "-dumpversion"])
    ours.mkdir(parents=True)
    for path in sorted(home.iterdir()):
        if _GCC_OBJECT.fullmatch(path.name):
            shutil.copyfile(path, ours / path.name)
    shim = f" -l:{SHIM}" if (lib / SHIM).exists() else ""
    (ours / "libgcc_s.so").write_text(_UNWINDER.format(shim) if libc == "musl" else _SHARED_UNWINDER)
