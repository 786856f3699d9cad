# SPDX-License-Identifier: MIT OR Apache-2.0
"""The libraries that ``--with`` builds, and C libraries. Another one is one entry here, and one in ``native/libraries.toml``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

_MAKE = ("make", "command -v make")
_PERL = ("perl", "perl -MIPC::Cmd -e 1")


class Library(msgspec.Struct, frozen=True):
    """How a library is built, and by which names builds look for it.

    In the command, ``{cc}``, ``{cflags}``, ``{ldflags}``, ``{jobs}`` and ``{prefix}`` are replaced. ``/bin/sh -e`` runs it in a copy of the
    sources. It installs headers, a static and a shared library below ``{prefix}``, with the same flags for both.

    Attributes:
        command: builds and installs it.
        links: names of its libraries as in ``-lNAME``, those of other libraries last.
        headers: regular expression of the headers that it provides.
        packages: names of its pkg-config files.
        find: names by which CMake, meson or configure scripts report it, beside `packages`.
        description: for the list of known libraries.
        needs: libraries that are built before it.
        tools: Debian packages that its build needs beside compiler and binutils, each with a shell command that succeeds with it.
        version: of the library, where the package that carries it has another one.
        pkg_config: Libs and Libs.private of a pkg-config file for a library that brings none, for the first name in `packages`.
        folder: of the sources inside the archive.
    """

    command: str
    links: tuple[str, ...]
    headers: str
    packages: tuple[str, ...]
    find: tuple[str, ...]
    description: str
    needs: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = (_MAKE,)
    version: str = ""
    pkg_config: tuple[str, str] = ("", "")
    folder: str = "."


def _configured(*options: str) -> str:
    """Return the command for sources with a configure script by autoconf."""
    return (
        'export CPPFLAGS="-I$SWAPSTONE_NEEDS/include"; ./configure CC={cc} CFLAGS={cflags} LDFLAGS={ldflags} --prefix={prefix} '
        f"--libdir={{prefix}}/lib --enable-shared --enable-static --disable-dependency-tracking {' '.join(options)}\n"
        "make -j{jobs}\nmake install"
    )


def compile_command(sources: str, name: str, number: str, headers: str, *, flags: str = "", libraries: str = "") -> str:
    """Return the command for sources that need no configuration.

    Args:
        sources: C files, with patterns of the shell.
        name: as in ``-lNAME``.
        number: after ``.so.`` in the soname.
        headers: files to install.
        flags: for compiling.
        libraries: that the shared library needs.
    """
    shared = f"lib{name}.so.{number}"
    return (
        f"printf '%s\\n' {sources} | xargs -P {{jobs}} -n 1 {{cc}} {{cflags}} -fPIC {flags} -c\n"
        f"ar rcs lib{name}.a *.o\n"
        f"{{cc}} -shared {{ldflags}} -Wl,-soname,{shared} -o {shared} *.o {libraries}\n"
        f"mkdir -p {{prefix}}/include {{prefix}}/lib\ncp {headers} {{prefix}}/include\n"
        f"cp lib{name}.a {shared} {{prefix}}/lib\nln -s {shared} {{prefix}}/lib/lib{name}.so"
    )


LIBRARIES: dict[str, Library] = {
    "bzip2": Library(
        command=compile_command(
            "blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c",
            *("bz2", "1.0", "bzlib.h"),
            flags="-D_FILE_OFFSET_BITS=64",
        ),
        links=("bz2",),
        headers=r"bzlib\.h",
        packages=("bzip2",),
        find=("BZip2", "bz2", "libbz2"),
        description="compression",
        tools=(),
        pkg_config=("-lbz2", ""),
    ),
    "cjson": Library(
        command=compile_command("cJSON.c cJSON_Utils.c", "cjson", "1", "cJSON.h cJSON_Utils.h", libraries="-lm")
        + "\nmkdir {prefix}/include/cjson\ncp cJSON.h cJSON_Utils.h {prefix}/include/cjson",
        links=("cjson",),
        headers=r"(cjson/)?cJSON(_Utils)?\.h",
        packages=("libcjson",),
        find=("cJSON", "cjson"),
        description="JSON",
        tools=(),
        pkg_config=("-lcjson", "-lm"),
    ),
    "curl": Library(
        command=_configured(
            *("--with-openssl=$SWAPSTONE_NEEDS", "--with-zlib=$SWAPSTONE_NEEDS", "--disable-ldap", "--disable-manual"),
            *("--without-libpsl", "--without-brotli", "--without-zstd", "--without-libidn2", "--without-nghttp2"),
            *("--without-librtmp", "--without-libssh2", "--with-ca-bundle=/etc/ssl/certs/ca-certificates.crt"),
        ),
        links=("curl",),
        headers=r"curl/\w+\.h",
        packages=("libcurl",),
        find=("CURL", "curl"),
        description="HTTP and other transfers",
        needs=("openssl", "zlib"),
    ),
    "expat": Library(
        command="touch expat_config.h\n"
        + compile_command(
            "xmlparse.c xmlrole.c xmltok.c",
            *("expat", "1", "expat.h expat_external.h"),
            flags="-I. -DXML_ENABLE_VISIBILITY=1 -DXML_NS -DXML_DTD -DXML_CONTEXT_BYTES=1024 -DHAVE_GETRANDOM "
            "-DXML_DEV_URANDOM -DBYTEORDER=__BYTE_ORDER__",
        ),
        links=("expat",),
        headers=r"expat(_external)?\.h",
        packages=("expat",),
        find=("EXPAT",),
        description="XML",
        tools=(),
        pkg_config=("-lexpat", ""),
        folder="expat/lib",
    ),
    "libffi": Library(
        command=_configured("--disable-docs", "--disable-multi-os-directory", "--disable-exec-static-tramp"),
        links=("ffi",),
        headers=r"ffi(target)?\.h",
        packages=("libffi",),
        find=("FFI", "ffi"),
        description="calls of functions by a description at run time",
    ),
    "lz4": Library(
        command="make -j{jobs} -C lib install CC={cc} CFLAGS={cflags} LDFLAGS={ldflags} PREFIX={prefix}",
        links=("lz4",),
        headers=r"lz4(hc|frame|frame_static)?\.h",
        packages=("liblz4",),
        find=("LZ4", "lz4"),
        description="compression",
    ),
    "mbedtls": Library(
        command="make -j{jobs} -C library static CC={cc} CFLAGS={cflags}' -fPIC' LDFLAGS={ldflags}\n"
        "make -j{jobs} -C library shared SHARED=1 CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}\n"
        "mkdir -p {prefix}/include {prefix}/lib\ncp -r include/mbedtls include/psa {prefix}/include\n"
        "cp -P library/libmbed*.a library/libmbed*.so* {prefix}/lib",
        links=("mbedtls", "mbedx509", "mbedcrypto"),
        headers=r"(mbedtls|psa)/\w+\.h",
        packages=("mbedtls",),
        find=("MbedTLS",),
        description="TLS and cryptography",
        tools=(_MAKE, _PERL),
        pkg_config=("-lmbedtls -lmbedx509 -lmbedcrypto", ""),
    ),
    "ncurses": Library(
        command="./configure CC={cc} CFLAGS={cflags} LDFLAGS={ldflags} --prefix={prefix} --libdir={prefix}/lib "
        "--with-shared --without-debug --without-ada --without-cxx --without-cxx-binding --without-manpages --without-progs "
        "--without-tests --disable-db-install --enable-widec --enable-overwrite --enable-pc-files "
        "--with-pkg-config-libdir={prefix}/lib/pkgconfig "
        "--with-default-terminfo-dir=/usr/share/terminfo --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo\n"
        "make -j{jobs}\nmake install.libs install.includes\ncd {prefix}/lib\n"
        "for name in ncurses form menu panel; do for end in a so; do ln -sf lib${name}w.$end lib$name.$end; done; "
        "ln -sf ${name}w.pc pkgconfig/$name.pc; done",
        links=("ncursesw", "ncurses", "formw", "menuw", "panelw"),
        headers=r"(ncurses|curses|term|form|menu|panel|unctrl|eti|ncurses_dll|termcap)\.h",
        packages=("ncursesw", "ncurses", "formw", "menuw", "panelw"),
        find=("Curses", "curses", "tinfo"),
        description="text terminals",
    ),
    "openssl": Library(
        command="./config CC={cc} CFLAGS={cflags} LDFLAGS={ldflags} --prefix={prefix} --libdir=lib --openssldir=/etc/ssl "
        "no-tests no-module no-afalgeng\nmake -j{jobs} build_libs\nmake install_dev",
        links=("ssl", "crypto"),
        headers=r"openssl/\w+\.h",
        packages=("openssl", "libssl", "libcrypto"),
        find=("OpenSSL", "OpenSSL::SSL", "OpenSSL::Crypto"),
        description="TLS and cryptography",
        tools=(_MAKE, _PERL),
    ),
    "pcre2": Library(
        command=_configured("--enable-jit", "--enable-pcre2-16", "--enable-pcre2-32"),
        links=("pcre2-8", "pcre2-16", "pcre2-32", "pcre2-posix"),
        headers=r"pcre2(posix)?\.h",
        packages=("libpcre2-8", "libpcre2-16", "libpcre2-32", "libpcre2-posix"),
        find=("PCRE2",),
        description="regular expressions",
    ),
    "sqlite3": Library(
        command=compile_command(
            "sqlite3.c",
            *("sqlite3", "0", "sqlite3.h sqlite3ext.h"),
            flags="-DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE "
            "-DSQLITE_ENABLE_MATH_FUNCTIONS",
            libraries="-lm",
        ),
        links=("sqlite3",),
        headers=r"sqlite3(ext)?\.h",
        packages=("sqlite3",),
        find=("SQLite3", "sqlite"),
        description="database",
        tools=(),
        version="3.54.1",
        pkg_config=("-lsqlite3", "-lm"),
        folder="sqlite3",
    ),
    "xz": Library(
        command=_configured(
            *("--disable-xz", "--disable-xzdec", "--disable-lzmadec", "--disable-lzmainfo", "--disable-scripts"),
            *("--disable-doc", "--disable-nls"),
        ),
        links=("lzma",),
        headers=r"lzma(/\w+)?\.h",
        packages=("liblzma",),
        find=("LibLZMA", "lzma"),
        description="compression",
    ),
    "zlib": Library(
        command="CC={cc} CFLAGS={cflags} LDFLAGS={ldflags} ./configure --prefix={prefix}\nmake -j{jobs} install",
        links=("z",),
        headers=r"z(lib|conf)\.h",
        packages=("zlib",),
        find=("ZLIB", "z"),
        description="compression",
    ),
    "zstd": Library(
        command="CC={cc} CFLAGS={cflags} LDFLAGS={ldflags} make -j{jobs} -C lib install PREFIX={prefix}",
        links=("zstd",),
        headers=r"(zstd|zdict|zstd_errors)\.h",
        packages=("libzstd",),
        find=("zstd", "ZSTD"),
        description="compression",
    ),
}
"""By the name that ``--with`` accepts."""

C_LIBRARIES: dict[str, Library] = {
    "musl:1.2.5": Library(
        # Its dynamic loader is the library itself, which programs name by its path.
        command="CFLAGS={cflags} ./configure CC={cc} --prefix={prefix} --syslibdir={prefix}/lib\nmake -j{jobs} install",
        links=("c",),
        headers="",
        packages=(),
        find=(),
        description="C library",
    ),
}
"""The C libraries of `swapstone.parts.build.factors.libc.PINNED`, by level."""


_HEADER = re.compile(r"fatal error: ['\"]?([\w./+-]+\.h\w*)['\"]?(?:: No such file or directory| file not found)")
_LIBRARY = re.compile(r"(?:cannot find|unable to find library|library not found for) -l([\w.+-]+)")
_PACKAGE = re.compile(
    r"(?:No package|Package) '?([\w.+-]+)'? (?:was not )?found"
    r"|Package '([\w.+-]+)', required by|Dependency \"([\w.+-]+)\" not found|Could NOT find ([\w.+-]+)"
    r"|C(?:\+\+)? (?:shared or static )?library '([\w.+-]+)' not found"
)


_NO_CRATE, _TARGET = re.compile(r"can't find crate for `(?:core|std)`"), re.compile(r"rustup target add ([\w-]+)")


_CXX = re.compile(
    r"fatal error: '?[a-z_]+'?(?:: No such file or directory| file not found)"
    r"|(?:cannot find|unable to find library|library not found for) -lstdc\+\+"
    r"|C\+\+ compiler cannot create executables"
)
"""The headers of the C++ library, such as ``iostream``, have no ending."""


def needs_cxx_library(output: str) -> bool:
    """Return whether a build did not find the headers or the files of the C++ library."""
    return _CXX.search(output) is not None


def missing_rust_target(output: str) -> str:
    """Return the target whose Rust standard library a build did not find; empty if its output does not report that."""
    crate = _NO_CRATE.search(output)
    found = _TARGET.search(output, crate.end()) if crate else None
    return found[1] if found else ""


_MISSING: tuple[tuple[str, re.Pattern[str], Callable[[Library, str, str], bool]], ...] = (
    ("the header ", _HEADER, lambda library, _, name: re.fullmatch(library.headers, name) is not None),
    ("the library -l", _LIBRARY, lambda library, _, name: name in library.links),
    (
        "the package ",
        _PACKAGE,
        lambda library, known, name: name.lower() in {known, *map(str.lower, (*library.packages, *library.find))},
    ),
)
"""What a build may miss, the output that reports it, and whether a library with its name in the table provides it."""


def missing_library(output: str) -> tuple[str, str] | None:
    """Return what a build did not find.

    Args:
        output: of a build that failed.

    Returns:
        What was missing, e.g. ``the header zlib.h``, and the name of the library for ``--with`` that provides it; an empty name if no
        known library does. None if the output reports nothing missing.
    """
    found = [
        (f"{what}{name}", next((known for known, library in LIBRARIES.items() if provides(library, known, name)), ""))
        for what, pattern, provides in _MISSING
        for names in pattern.findall(output)
        for name in ([names] if isinstance(names, str) else filter(None, names))
    ]
    return next((each for each in found if each[1]), found[0] if found else None)


def missing_hint(library: str, given: Sequence[str], libc: str) -> str:
    """Return what to do about a missing library.

    Args:
        library: the entry of the table that provides it; empty for none.
        given: the libraries that ``--with`` names already.
        libc: the C library that the program is built for.
    """
    if library in given:
        return (
            f"{library} was built. Does the build command use {{cflags}} and {{ldflags}}, or replace PKG_CONFIG_PATH?"
        )
    if library:
        return f"Build it for each variant: --with {','.join((*given, library))}"
    known = f"--with builds libraries for each variant: {', '.join(LIBRARIES)}."
    if libc == "glibc":
        return f"Install its development package. {known}"
    return f"This machine's libraries are for its own C library, not for {libc}. {known}"
