# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs of images of one C library. Another one is an entry here, and one in ``native/image-programs.toml``."""

from __future__ import annotations

import dataclasses

from swapstone.parts.build.artifacts.companion_programs import LOCK as COMPANIONS
from swapstone.parts.build.artifacts.libraries import LOCK as LIBRARIES

LOCK = "native/image-programs.toml"


@dataclasses.dataclass(frozen=True)
class ImageProgram:
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
        build_tools: pairs (command, package) of what runs on this machine while it is built, beside a compiler and make.
    """

    name: str
    lock: tuple[str, str]
    command: str
    needs: tuple[str, ...] = ()
    folder: str = "."
    version: str = ""
    build_tools: tuple[tuple[str, str], ...] = ()


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
            build_tools=(("tclsh", "tcl"),),
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
