# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of images of a C library: built from pinned sources with an SDK, each once for its inputs. They contain no path or time.

A finished program stays in the cache, so an interrupted build of an image continues with the next program.

Images change third-party programs by patches for one C library and by settings. ``native/overlays`` has a folder for each program:
``PROGRAM/config`` has settings for each C library, ``PROGRAM/LIBC/*.patch`` patches for one. A patch begins with lines ``Reason: ...`` and
``Test: ...``. It is written against the pinned sources, so it must apply exactly.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, writable_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.placeholders import fill
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.parts.build.artifacts.build_command import build_environment, run_build, run_tool
from swapstone.parts.build.artifacts.libraries import LOCK as LIBRARIES
from swapstone.parts.build.artifacts.sdk import BuiltSdk
from swapstone.parts.build.artifacts.servers import COMPANIONS
from swapstone.parts.build.artifacts.upstream_sources import fetch, read_lock, unpack

_FOLDER = "native/overlays"
_FIELD = re.compile(r"^(Reason|Test): (.+)$", re.MULTILINE)


class Patch(FrozenStruct, frozen=True, kw_only=True):
    """A patch of a program.

    Attributes:
        name: of its file.
        sha256: of its file.
        reason: why the program needs it with this C library.
        test: that shows its effect.
    """

    name: str
    sha256: str
    reason: str
    test: str


def config_of(program: str) -> str:
    """Return the settings of a program, one a line; empty if it has none."""
    path = share_dir() / _FOLDER / program / "config"
    return path.read_text() if path.is_file() else ""


def patches_of(program: str, libc: str) -> tuple[Patch, ...]:
    """Return the patches of a program for a C library, in the order in which they are applied.

    Raises:
        UserError: one has no reason, or names no test.
    """
    return tuple(_read(path) for path in _paths(program, libc))


def apply_patches(program: str, libc: str, tree: Path) -> None:
    """Apply the patches of a program to a copy of its sources.

    Raises:
        UnavailableError: the command patch is not installed.
        UserError: one does not apply.
    """
    for path in _paths(program, libc):
        require_command("patch", f"Building {program} with {libc}")
        command = ["patch", "-p1", "--fuzz=0", "--forward", "--silent", "--no-backup-if-mismatch", "-i", str(path)]
        hint = "A patch belongs to the sources that the lock pins. Write it again for other ones."
        run_tool(command, f"Applying {path.name} to the sources of {program}", hint=hint, folder=tree)


def _paths(program: str, libc: str) -> list[Path]:
    return sorted((share_dir() / _FOLDER / program / libc).glob("*.patch"))


def _read(path: Path) -> Patch:
    content = path.read_bytes()
    fields = dict(_FIELD.findall(content.decode().partition("\n--- ")[0]))
    if fields.keys() != {"Reason", "Test"}:
        raise UserError(f"{path} does not begin with a reason and a test.", "Add lines: Reason: ... and Test: ...")
    return Patch(
        name=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        reason=fields["Reason"],
        test=fields["Test"],
    )


LOCK = "native/image-programs.toml"


class ImageProgram(msgspec.Struct, frozen=True):
    """How a program is built for an image.

    In the command, which ``/bin/sh -e`` runs in a copy of the sources, the placeholders ``{cc}``, ``{ar}``, ``{ld}``, ``{nm}``,
    ``{objcopy}``, ``{ranlib}``, ``{strip}``, ``{cflags}``, ``{ldflags}``, ``{jobs}``, ``{triple}``, ``{config}`` (a file with the settings
    of the overlay), ``{needs}`` (a folder with what the needed programs install) and ``{out}`` (the root to install to) are replaced.

    Attributes:
        name: for the user.
        lock: path of the lock of its sources, and its name there.
        command: builds and installs it.
        needs: programs that are built before it.
        folder: of the sources in the archive.
        version: where the lock's version is of the package that carries it.
        build_tools: commands that run on this machine while it is built, beside a compiler and make.
    """

    name: str
    lock: tuple[str, str]
    command: str
    needs: tuple[str, ...] = ()
    folder: str = "."
    version: str = ""
    build_tools: tuple[str, ...] = ()


_SETTINGS = (
    "for option in $(sed -n 's/^\\(CONFIG_[A-Z0-9_]*\\)=.*/\\1/p' {config}); do "
    'sed -i "/^$option=/d;/^# $option is not set/d" .config; done\n'
    "cat {config} >>.config\n"
)
_BUSYBOX = (
    "HOSTCC=cc SKIP_STRIP=y CC={cc} LD={ld} AR={ar} NM={nm} OBJCOPY={objcopy} STRIP={strip} "
    "EXTRA_CFLAGS={cflags} EXTRA_LDFLAGS={ldflags}"
)

PROGRAMS: dict[str, ImageProgram] = {
    program.name: program
    for program in (
        ImageProgram(
            name="busybox",
            lock=(COMPANIONS, "busybox"),
            command="make -s defconfig HOSTCC=cc\n"
            + _SETTINGS
            + "yes '' | make -s oldconfig HOSTCC=cc\n"
            + f"make -j{{jobs}} busybox {_BUSYBOX}\n"
            + f"make -s install {_BUSYBOX} CONFIG_PREFIX={{out}}\nrm -f {{out}}/linuxrc",
        ),
        ImageProgram(
            name="zlib",
            lock=(LIBRARIES, "zlib"),
            command="CC={cc} AR={ar} RANLIB={ranlib} CFLAGS={cflags} ./configure --prefix={out}\nmake -j{jobs} install",
        ),
        ImageProgram(
            name="sqlite",
            lock=(LOCK, "sqlite"),
            # The generators of its parser run on this machine; the two generated files are the library and the shell.
            command="make -f main.mk TOP=. BCC=cc TCC=cc NAWK=awk OPTS= sqlite3.c shell.c\nmkdir -p {out}/bin\n"
            "{cc} {cflags} -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DHAVE_USLEEP=1 -o {out}/bin/sqlite3 shell.c sqlite3.c -lm",
            build_tools=("tclsh",),
        ),
        ImageProgram(
            name="lua",
            lock=(LOCK, "lua"),
            command="make -C src -j{jobs} lua CC={cc} AR={ar}' rcu' RANLIB={ranlib} MYCFLAGS={cflags} "
            "SYSCFLAGS=-DLUA_USE_LINUX SYSLIBS='-Wl,-E -ldl'\nmkdir -p {out}/bin\ncp src/lua {out}/bin",
        ),
        ImageProgram(
            name="dropbear",
            lock=(LOCK, "dropbear"),
            command="cp {config} localoptions.h\n"
            "./configure --host={triple} CC={cc} AR={ar} RANLIB={ranlib} STRIP={strip} CFLAGS={cflags} LDFLAGS={ldflags} "
            "--disable-lastlog --disable-utmp --disable-utmpx --disable-wtmp --disable-wtmpx\n"
            "make -j{jobs} MULTI=1 PROGRAMS='dropbear dbclient dropbearkey'\n"
            "mkdir -p {out}/bin {out}/sbin\ncp dropbearmulti {out}/bin\n"
            "ln -s dropbearmulti {out}/bin/dbclient\nln -s dropbearmulti {out}/bin/dropbearkey\n"
            "ln -s ../bin/dropbearmulti {out}/sbin/dropbear",
            needs=("zlib",),
        ),
    )
}
"""By name, in the order in which an image lists them."""


LOG = "build.log"
_INSTALLED, _SEAL, _LOCKS = "installed", "seal", ".locks"
_TIMEOUT_S = 1800
_KEY_DIGITS = 32
_LAST_LINES = 12
_CFLAGS = ("-Os", "-g0")
_LAYOUT = "1"
"""Changes with what is made of the same inputs."""


class BuiltProgram(FrozenStruct, frozen=True, kw_only=True):
    """A program in the cache, as an image's description names it.

    Attributes:
        name: of the program.
        version: of its sources.
        source: file name of their archive.
        source_sha256: of the archive.
        patches: that were applied.
        config_sha256: of the settings of its overlay; empty if it has none.
        key: the digest of all inputs, which names its folder in the cache.
    """

    name: str
    version: str
    source: str
    source_sha256: str
    patches: tuple[Patch, ...]
    config_sha256: str
    key: str

    @property
    def root(self) -> Path:
        """The folder of the installed files."""
        return _home(self.key) / _INSTALLED


def fetch_sources(names: tuple[str, ...], notify: Callable[[str], None]) -> None:
    """Fetch the sources of programs, so that all downloads come before the first build.

    Raises:
        UnavailableError: they can't be fetched.
    """
    for name in names:
        lock, entry = PROGRAMS[name].lock
        fetch(read_lock(share_dir() / lock)[entry], lock, notify, name)


def build_program(name: str, sdk: BuiltSdk, compiler: str, notify: Callable[[str], None]) -> BuiltProgram:
    """Build a program with an SDK, or return it from the cache; what it needs is built first.

    Args:
        name: of `PROGRAMS`.
        sdk: whose compiler and C library are used.
        compiler: ``gcc`` or ``clang``.
        notify: called with a line before a build.

    Raises:
        UnavailableError: a tool is missing.
        UserError: the build fails; the message ends with its output. The cache can't be written.
    """
    program = PROGRAMS[name]
    needs = tuple(build_program(need, sdk, compiler, notify) for need in program.needs)
    lock, entry = program.lock
    source = read_lock(share_dir() / lock)[entry]
    described = BuiltProgram(
        name=name,
        version=program.version or source.version,
        source=source.file,
        source_sha256=source.sha256,
        patches=patches_of(name, sdk.sdk.libc),
        config_sha256=hashlib.sha256(config_of(name).encode()).hexdigest() if config_of(name) else "",
        key="",
    )
    inputs = (
        _LAYOUT,
        *_CFLAGS,
        sdk.sdk.digest(),
        compiler_version((compiler,)),
        compiler,
        program.command,
        described.digest(),
    )
    key = hashlib.sha256("\0".join((*inputs, *(need.key for need in needs))).encode()).hexdigest()[:_KEY_DIGITS]
    home = _home(key)
    if re.search(r"\s", str(home)):
        raise UserError(
            f"The cache folder {home.parent} has a blank in its path, which the makefiles of programs can't have.",
            "Set XDG_CACHE_HOME to another folder.",
        )
    with locked(home.parent / _LOCKS / key), writable_folder(home.parent):  # other programs are built meanwhile
        if not (home / _SEAL).is_file():
            notify(f"building {name} {described.version} for {sdk.sdk.libc} of {sdk.sdk.architecture} with {compiler}")
            archive = fetch(source, lock)
            shutil.rmtree(home, ignore_errors=True)
            with new_folder(home) as done:
                _build(program, sdk, compiler, archive, tuple(need.root for need in needs), done=done)
        os.utime(home / _SEAL)
    return msgspec.structs.replace(described, key=key)


def _home(key: str) -> Path:
    return cache_dir().resolve() / "image-programs" / key


def _build(
    program: ImageProgram, sdk: BuiltSdk, compiler: str, archive: Path, needs: tuple[Path, ...], *, done: Path
) -> None:
    """Build a program in a temporary folder; `needs` are the roots of needed programs."""
    work, out = done.parent, done / _INSTALLED
    (work / "sources").mkdir()
    tree = unpack(archive, work / "sources") / program.folder
    apply_patches(program.name, sdk.sdk.libc, tree)
    config, below = work / "config", work / "needs"
    config.write_text(config_of(program.name))
    below.mkdir()
    for root in needs:
        shutil.copytree(root, below, symlinks=True, dirs_exist_ok=True)
    out.mkdir()
    cflags = (*_CFLAGS, f"-ffile-prefix-map={tree}=.", *((f"-I{below}/include",) if needs else ()))
    paths = {name: sdk.command(name) for name in ("ar", "ld", "nm", "objcopy", "ranlib", "strip")}
    paths |= {"cc": sdk.command(compiler), "config": config, "needs": below, "out": out}
    values = {name: shlex.quote(str(path)) for name, path in paths.items()} | {
        "cflags": shlex.join(cflags),
        "ldflags": shlex.join((f"-L{below}/lib",) if needs else ()),
        "jobs": str(len(os.sched_getaffinity(0))),
        "triple": sdk.sdk.triple,
    }
    command = fill(program.command, values)
    status, output = run_build(command, tree, _TIMEOUT_S, build_environment(), options=("-e",))
    if status != 0:
        raise _failed(program.name, command, status, output)
    _strip(out, sdk)
    (done / LOG).write_bytes(f"$ {command}\n".encode() + output)
    (done / _SEAL).touch()


def _failed(name: str, command: str, status: int | None, output: bytes) -> UserError:
    """Keep the log of a failed build; return the error."""
    kept = cache_dir().resolve() / "image-programs" / f"{name}.failed.log"
    kept.write_bytes(f"$ {command}\n".encode() + output)
    lines = output.decode(errors="replace").rstrip().splitlines()[-_LAST_LINES:] or ["(it printed nothing)"]
    what = f"did not end within {_TIMEOUT_S} s" if status is None else "failed"
    return UserError("\n".join((f"The build of {name} {what}:", *lines, f"The log: {kept}")))


def _strip(out: Path, sdk: BuiltSdk) -> None:
    """Strip programs and shared objects: symbols and build IDs go, ``.comment``, which names the compiler, stays."""
    for path in sorted(out.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        path.chmod(0o755)
        command = [str(sdk.command("strip")), "--strip-unneeded", "--remove-section=.note.gnu.build-id", str(path)]
        run_tool(command, f"Stripping {path.name}")
