# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of an SDK that are text: gcc's specs, the commands, and what CMake, Meson and shells read.

Each finds the SDK by its own place, so the folder can be moved. Sources: "Spec Files" of gcc's manual (``%R`` is the system root);
cmake-toolchains(7); "Cross compilation" of Meson's manual; qemu-user's option ``-L``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.model import FrozenStruct, UnavailableError
from swapstone.core.model.architectures import find_architecture
from swapstone.parts.build.artifacts.cross_compilers import CrossCompiler, musl_specs

SPECS = "lib/gcc.specs"
SHIM = "libgetauxval.a"
"""A library that an SDK of musl may have in usr/lib: a name of glibc that libgcc calls; see
`swapstone.parts.build.artifacts.cross_compilers`."""

TOOLS = ("ar", "ld", "nm", "objcopy", "objdump", "ranlib", "readelf", "strip")
_LICENCE = "# SPDX-License-Identifier: MIT OR Apache-2.0\n"

_HERE = """\
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P) || exit 1
"""

_REQUIRE = """\
command -v {command} >/dev/null || {{
    echo "${{0##*/}} needs {command}, which is not installed. Install it: apt-get install {package}" >&2
    exit 127
}}
"""


class SdkNames(FrozenStruct, frozen=True, kw_only=True):
    """What the files of an SDK name.

    Attributes:
        libc: ``glibc`` or ``musl``.
        cross: the distribution's compiler.
        triple: prefix of the SDK's commands.
        shim: whether usr/lib has `SHIM`.
        native: whether the build machine runs the programs.
    """

    libc: str
    cross: CrossCompiler
    triple: str
    shim: bool
    native: bool


def text_files(names: SdkNames) -> dict[str, tuple[str, bool]]:
    """Return the text of each file, and whether it is executable, by its path in the SDK."""
    made = {
        SPECS: (_specs(names), False),
        f"bin/{names.triple}-gcc": (_gcc(names), True),
        f"bin/{names.triple}-clang": (_clang(names), True),
        f"bin/{names.triple}-run": (_run(names), True),
        "toolchain.cmake": (_cmake(names), False),
        "cross.meson": (_meson(names), False),
        f"environment-setup-{names.triple}": (_environment(names), False),
    }
    for tool in TOOLS:
        made[f"bin/{names.triple}-{tool}"] = (_tool(f"{names.cross.prefix}{tool}", names.cross.package), True)
    return made


def _specs(names: SdkNames) -> str:
    """Return specs that replace the folders of the distribution's C library by the SDK's, in which nothing else is found."""
    ours, theirs = "-isystem %R/usr/include", "-isystem include%s"
    headers = f"-nostdinc {ours} {theirs}" if names.libc == "musl" else f"-nostdinc {theirs} {ours}"
    begin = "%{shared:;static-pie:%R/usr/lib/rcrt1.o;static|no-pie:%R/usr/lib/crt1.o;:%R/usr/lib/Scrt1.o}"
    shared = "%{static:crtbeginT.o%s;shared|static-pie|!no-pie:crtbeginS.o%s;:crtbegin.o%s}"
    ended = "%{static:crtend.o%s;shared|static-pie|!no-pie:crtendS.o%s;:crtend.o%s}"
    if names.libc == "musl":  # its start-up objects run the initializers of shared and static programs alike
        shared, ended = "crtbeginS.o%s", "crtendS.o%s"
    fast = "%{Ofast|ffast-math|funsafe-math-optimizations:%{!shared:crtfastmath.o%s}}"
    specs = {
        "cpp_options": f"{headers} %(swapstone_cpp_options)",
        "cc1": f"+ {headers}",
        "link_libgcc": "-L%R/usr/lib -L .%s",
        "startfile": f"{begin} %R/usr/lib/crti.o {shared}",
        "endfile": f"{fast} {ended} %R/usr/lib/crtn.o",
    }
    if names.libc == "musl":
        shim = f" %{{!static:%{{!static-pie:-l:{SHIM}}}}}" if names.shim else ""
        specs["libgcc"] = f"libgcc.a%s %:if-exists(libgcc_eh.a%s){shim}"
        specs["link"] = (
            f"+ %{{!static:%{{!static-pie:%{{!shared:-dynamic-linker {loader_of(names.cross, names.libc)}}}}}}}"
        )
    stanzas = "".join(f"*{name}:\n{text}\n\n" for name, text in specs.items())
    return f"%rename cpp_options swapstone_cpp_options\n\n{stanzas}"


def _gcc(names: SdkNames) -> str:
    require = _REQUIRE.format(command=f"{names.cross.prefix}gcc", package=names.cross.package)
    return (
        f"#!/bin/sh\n{_LICENCE}# gcc for {names.libc} of {names.cross.name}.\n{_HERE}{require}"
        f'exec {names.cross.prefix}gcc -specs="$here/{SPECS}" --sysroot="$here/sysroot" "$@"\n'
    )


def _clang(names: SdkNames) -> str:
    """Return clang's command. Its own default is functions of mathematics that don't set errno; gcc has no such default."""
    require = _REQUIRE.format(command="clang", package="clang")
    require += _REQUIRE.format(command=f"{names.cross.prefix}ld", package=names.cross.package)
    target = names.cross.clang[0].replace("-gnu", "-musl") if names.libc == "musl" else names.cross.clang[0]
    options = " ".join((target, *names.cross.clang[1:]))
    return (
        f"#!/bin/sh\n{_LICENCE}# clang for {names.libc} of {names.cross.name}, with gcc's start-up objects and libgcc.\n{_HERE}{require}"
        f'exec clang {options} --sysroot="$here/sysroot" --gcc-toolchain="$here/sysroot/usr" --start-no-unused-arguments \\\n'
        f'    -fmath-errno --ld-path="$(command -v {names.cross.prefix}ld)" --end-no-unused-arguments "$@"\n'
    )


def _tool(command: str, package: str) -> str:
    return f'#!/bin/sh\n{_LICENCE}{_REQUIRE.format(command=command, package=package)}exec {command} "$@"\n'


def _run(names: SdkNames) -> str:
    """Return the command that runs a program of the SDK here: by this machine's loader, by the SDK's, or in a user-mode emulator."""
    if not names.native:
        command = f"qemu-{names.cross.machine}"
        return (
            f"#!/bin/sh\n{_LICENCE}# Runs a program of the SDK in a user-mode emulator, with the SDK's loader and libraries.\n{_HERE}"
            f'{_REQUIRE.format(command=command, package="qemu-user")}exec {command} -L "$here/sysroot" "$@"\n'
        )
    return (
        f"#!/bin/sh\n{_LICENCE}# Runs a program of the SDK; by the SDK's loader if this machine has none.\n{_HERE}"
        f'[ -e {loader_of(names.cross, names.libc)} ] && exec "$@"\n'
        f'exec "$here/sysroot{loader_of(names.cross, names.libc)}" "$@"\n'
    )


def _cmake(names: SdkNames) -> str:
    sdk = "${CMAKE_CURRENT_LIST_DIR}"
    tools = "".join(
        f'set(CMAKE_{tool.upper()} "{sdk}/bin/{names.triple}-{tool}" CACHE FILEPATH "")\n'
        for tool in TOOLS
        if tool != "ld"
    )
    return (
        f"{_LICENCE}# cmake -DCMAKE_TOOLCHAIN_FILE=.../toolchain.cmake: C for {names.libc} of {names.cross.name}.\n"
        f"set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR {names.cross.machine})\n"
        f'set(CMAKE_SYSROOT "{sdk}/sysroot")\nset(CMAKE_C_COMPILER "{sdk}/bin/{names.triple}-gcc")\n{tools}'
        f'set(CMAKE_CROSSCOMPILING_EMULATOR "{sdk}/bin/{names.triple}-run")\n'
        f'set(CMAKE_FIND_ROOT_PATH "{sdk}/sysroot")\nset(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)\n'
        "set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)\nset(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)\n"
        "set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)\n"
    )


def _meson(names: SdkNames) -> str:
    """Return Meson's cross file. The version in Debian 12 has no constant for its folder, so the commands are found on PATH."""
    binaries = "".join(f"{name} = '{names.triple}-{name}'\n" for name in ("ar", "nm", "objcopy", "strip", "ranlib"))
    family = "arm" if names.cross.machine == "arm" else names.cross.machine
    return (
        f"{_LICENCE}# meson setup --cross-file .../cross.meson OUT, with the SDK's bin on PATH.\n"
        f"[binaries]\nc = '{names.triple}-gcc'\n{binaries}exe_wrapper = '{names.triple}-run'\n\n"
        f"[properties]\nneeds_exe_wrapper = {'false' if names.native else 'true'}\n\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{family}'\ncpu = '{names.cross.machine}'\nendian = 'little'\n"
    )


def _environment(names: SdkNames) -> str:
    command = f'"$_swapstone_sdk/bin/{names.triple}'
    # Names on PATH: a path with a space would be two words where CC is used as a command.
    tools = "".join(f"export {tool.upper()}={names.triple}-{tool}\n" for tool in TOOLS)
    return (
        f"{_LICENCE}# . .../environment-setup-{names.triple}: C for {names.libc} of {names.cross.name}, in bash or zsh.\n"
        f"# In another shell: SWAPSTONE_SDK=FOLDER; . FOLDER/environment-setup-{names.triple}\n"
        'if [ -n "${BASH_SOURCE:-}" ]; then\n    _swapstone_sdk=$(dirname -- "$BASH_SOURCE")\n'
        'elif [ -n "${ZSH_VERSION:-}" ]; then\n    eval \'_swapstone_sdk=$(dirname -- "${(%):-%x}")\'\n'
        "else\n    _swapstone_sdk=${SWAPSTONE_SDK:-.}\nfi\n"
        "_swapstone_sdk=$(CDPATH='' cd -- \"$_swapstone_sdk\" && pwd -P)\n"
        f'if [ ! -x {command}-gcc" ]; then\n'
        '    echo "The SDK is not in $_swapstone_sdk. Set SWAPSTONE_SDK to its folder before this file is read." >&2\n'
        "    return 1\nfi\n"
        'export PATH="$_swapstone_sdk/bin:$PATH"\n'
        f"export CC={names.triple}-gcc\n{tools}"
        f"export CROSS_COMPILE={names.triple}-\n"
        'export SDKTARGETSYSROOT="$_swapstone_sdk/sysroot"\n'
        'export PKG_CONFIG_SYSROOT_DIR="$SDKTARGETSYSROOT" PKG_CONFIG_LIBDIR="$SDKTARGETSYSROOT/usr/lib/pkgconfig"\n'
        'export CMAKE_TOOLCHAIN_FILE="$_swapstone_sdk/toolchain.cmake"\nunset _swapstone_sdk\n'
    )


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
