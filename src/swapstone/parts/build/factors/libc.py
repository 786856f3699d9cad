# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library: glibc, musl, or a C library of the user in a folder."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.factors.elf_file import read_facts
from swapstone.core.factors.factor import Evidence, Level, ProgramFacts, Recipe, Stage
from swapstone.core.model import FrozenStruct, UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts

INSTALLED = ("glibc", "musl")
"""The C libraries of the distribution's packages."""

PINNED = (
    Level(
        name="musl:1.2.5",
        description="musl 1.2.5, built by cc from its pinned source, with the options of its configure script",
    ),
)
"""C libraries by version, NAME:VERSION; ``native/libraries.toml`` has their sources."""

_FORMS = "It must have include/stdio.h, lib/crt1.o and lib/libc.so or lib/libc.a, in the folder itself or in its usr."


class CLibraryTree(FrozenStruct, frozen=True, kw_only=True):
    """A C library's files.

    Attributes:
        kind: ``glibc``, ``musl`` or ``uclibc``.
        headers: folders of its headers, in order.
        objects: folder of its start-up objects.
        libraries: folders of its libraries, in order.
        loader: absolute path of its dynamic loader; empty if it has none.
        rpath: whether programs must search its libraries in `libraries`: the loader does not search them by itself.
        root: the folder of the user; empty for an installed library.
        machine: of its objects, by the name in ELF.
        library: its main file, whose digest identifies it.
    """

    kind: str
    headers: tuple[str, ...]
    objects: str
    libraries: tuple[str, ...]
    loader: str = ""
    rpath: bool = False
    root: str = ""
    machine: str = ""
    library: str = ""

    def digest(self) -> str:
        """Return the SHA-256 of the main file."""
        return hashlib.sha256(Path(self.library).read_bytes()).hexdigest() if self.library else ""

    def mark(self) -> str:
        """Return the text in `MARK`."""
        return f"{self.root} {self.digest()}"


@functools.cache
def read_tree(root: Path) -> CLibraryTree:
    """Find a C library's files below a folder. Symbolic links are followed inside the folder only.

    Raises:
        UserError: it is no folder, or a part is missing.
    """
    if not root.is_dir():
        raise UserError(f"There is no folder {root} with a C library.", f"libc=FOLDER names a sysroot. {_FORMS}")
    headers = tuple(_header_folders(root))
    libraries = tuple(_library_folders(root))
    objects = next((folder for folder in libraries if (folder / "crt1.o").is_file()), None)
    missing = (
        "stdio.h"
        if not headers
        else "crt1.o"
        if objects is None
        else ""
        if _main(root, libraries)
        else "libc.so or libc.a"
    )
    if missing or objects is None:
        raise UserError(f"The folder {root} has no {missing}: it holds no C library to build with.", _FORMS)
    facts = read_facts(_inside(root, objects / "crt1.o"))
    return CLibraryTree(
        kind=_kind(root, headers),
        headers=tuple(map(str, headers)),
        objects=str(objects),
        libraries=tuple(map(str, libraries)),
        loader=str(_loader(root, libraries) or ""),
        rpath=True,
        root=str(root),
        machine=facts.machine if facts else "",
        library=str(_main(root, libraries) or ""),
    )


def _header_folders(root: Path) -> Iterator[Path]:
    for folder in (root / "include", root / "usr" / "include", *sorted((root / "usr" / "include").glob("*-linux-*"))):
        if any((folder / name).is_file() for name in ("stdio.h", "gnu/stubs.h")):
            yield folder


def _library_folders(root: Path) -> Iterator[Path]:
    seen = set()
    for folder in (root / "lib", root / "lib64", root / "usr" / "lib", root / "usr" / "lib64"):
        for each in (folder, *sorted(folder.glob("*-linux-*"))):
            real = each.resolve()
            if each.is_dir() and real.is_relative_to(root) and real not in seen:
                seen.add(real)
                yield real


_OWN_HEADERS = {"uclibc": "bits/uClibc_config.h", "glibc": "gnu/libc-version.h", "musl": "bits/alltypes.h"}
"""A header that no other C library has; uClibc-ng also has glibc's."""


def _kind(root: Path, headers: tuple[Path, ...]) -> str:
    """Name the C library by its headers."""
    for kind, header in _OWN_HEADERS.items():
        if any((folder / header).is_file() for folder in headers):
            return kind
    raise UserError(
        f"The C library in {root} can't be recognized by its headers.", "Known are glibc, musl and uClibc-ng."
    )


def _loader(root: Path, libraries: tuple[Path, ...]) -> Path | None:
    patterns = ("ld-musl-*.so.1", "ld-linux*.so.[0-9]*", "ld.so.[0-9]*", "ld*-uClibc*.so.[0-9]*")
    named = (path for pattern in patterns for folder in libraries for path in sorted(folder.glob(pattern)))
    found = next((real for real in (_inside(root, path) for path in named) if real.is_file()), None)
    if found is not None:
        return found
    # musl's library is its loader.
    return next((folder / "libc.so" for folder in libraries if read_facts(folder / "libc.so")), None)


def _main(root: Path, libraries: tuple[Path, ...]) -> Path | None:
    names = ("libc.so.6", "libc.so.0", "libc.so.1", "libc.so", "libc.a")
    found = (_inside(root, folder / name) for name in names for folder in libraries)
    return next((path for path in found if path.is_file()), None)


def _inside(root: Path, path: Path) -> Path:
    """Follow a symbolic link as if `root` were the root of the file system."""
    for _ in range(8):
        if not path.is_symlink():
            break
        target = path.readlink()
        path = root / target.relative_to("/") if target.is_absolute() else path.parent / target
    real = path.resolve()
    return real if real.is_relative_to(root) else root / "nonexistent"


# File names of each library: its dynamic loader and the library itself (one file in musl).
_FILE_NAMES = {
    "glibc": re.compile(r"^(ld-linux.*\.so\.\d+|ld64?\.so\.\d+|ld-\d.*\.so|libc\.so\.6|libc-2\.\d+\.so)$"),
    "musl": re.compile(r"^(ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1|libc\.so)$"),
    "uclibc": re.compile(r"^(ld(64)?-uClibc.*\.so(\.\d+)?|libuClibc-.*\.so)$"),
}

# What the file of every program contains that is linked statically with the library. Stripping removes the symbols, but not the
# sections and the code at the entry point.
_SYMBOLS = {"glibc": "__libc_setup_tls", "musl": "__init_libc"}
_SECTIONS = {"glibc": re.compile(r"^(\.note\.ABI-tag|__libc_\w+)$")}

# The code at the entry point of programs with musl's start-up objects, by the machine's name in ELF. Dots are addresses.
# Disassembled from Debian's crt1.o, Scrt1.o and rcrt1.o: clear the frame pointer, pass the stack and _DYNAMIC, align, call _start_c.
_ENTRIES = {"EM_X86_64": re.compile(r"^4831ed4889e7488d35.{8}4883e4f0e8")}


class Libc:
    """The C library that a program is compiled and run with."""

    name = "libc"
    stage = Stage.COMPILE
    tools_are_of_this_machine = True
    description = "the C library; a folder with headers, objects and a loader is a level too"
    unseen = (
        "The C library of a stripped static program may not be recognizable: build it without -s, and don't strip it."
    )
    of_built = (
        "A script or a built program has the C library of its system. Compare two systems: "
        "rootfs=docker:debian:bookworm-slim,docker:alpine:3.20, with two images that have the program, "
        "or image=glibc,musl --target vm, for scripts of sh and lua."
    )
    levels: tuple[Level, ...] = (
        Level(name="glibc", description="the GNU C library", needs=("cc",)),
        Level(
            name="musl",
            description="musl, with musl-gcc or clang",
            needs=("musl-gcc",),
        ),
    )

    forms: tuple[Level, ...] = (
        *PINNED,
        Level(
            name="FOLDER",
            description="a musl, glibc or uClibc-ng with headers, objects and loader, with a slash in its path",
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return recipe.changed(Build, libc=level)

    def level_of_path(self, text: str) -> Level:
        """Return the level of a folder with a C library; see `TakesPaths`.

        Raises:
            UserError: it is no folder, or holds no C library.
        """
        root = Path(text).expanduser().resolve()
        if re.search(r"[\s,:%]", str(root)):
            raise UserError(
                f"{str(root)!r} can't be a level: linkers and loaders separate folders by some of its characters.",
                "Move the C library to a folder whose path has letters, digits and ._/+- only.",
            )
        tree = read_tree(root)
        return Level(name=str(root), description=f"{tree.kind} in a folder of the user")

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a C library with its version, NAME:VERSION; see `TakesTexts`.

        Raises:
            UserError: no source of this version is pinned.
        """
        if ":" not in text:
            return None
        if (found := next((each for each in PINNED if each.name == text), None)) is None:
            raise UserError(
                f"{text[:80]!a} can't be a level of libc: no source of it is pinned.",
                f"Known: {', '.join((*INSTALLED, *(each.name for each in PINNED)))}. "
                "A folder with another one is a level, too: libc=glibc,./FOLDER",
            )
        return found

    def observe(self, evidence: Evidence) -> str | None:
        """Name the C library by its folder if the user named one and all evidence lies in it; else by its kind, or as NAME:VERSION."""
        kind = self._kind(evidence)
        if kind is None:
            return None
        files = [path for path in _paths(evidence) if any(each.match(_name(path)) for each in _FILE_NAMES.values())]
        marks = evidence.program.of(BuildFacts).marks if evidence.program else ()
        root = evidence.path_of(self.name) if evidence.path_levels else ""
        if not root:
            return "+".join(sorted({level_of_file(each) or kind for each in files or marks})) or kind
        outside = [path for path in files if not Path(path).is_relative_to(root)]
        if outside:
            return f"{kind} of {outside[0]}"
        try:
            tree = read_tree(Path(root))
        except UserError:
            return kind  # the folder is gone: nothing can be observed of it
        return root if kind == tree.kind and (files or tree.mark() in marks) else kind

    def _kind(self, evidence: Evidence) -> str | None:
        """Name the C library by the program's loader, by its mapped objects, and by what is linked into its file.

        Returns:
            ``glibc`` or ``musl`` if all evidence agrees; both names joined by ``+`` if the process contains both; None if it shows
            neither.
        """
        names = set(map(_name, _paths(evidence)))
        found = {level for level, pattern in _FILE_NAMES.items() if any(map(pattern.match, names))}
        if evidence.program is not None:
            found |= _linked_in(evidence.program)
        return "+".join(sorted(found)) or None


def folder_name(library: str) -> str:
    """Return the name of the folder in the cache with a library's builds. Linkers and loaders separate folders by colons."""
    return library.replace(":", "-")


def level_of_file(path: str) -> str:
    """Return the level, NAME:VERSION, of which a file in a cache is; empty for others. A record may be of another machine's cache."""
    return next((each.name for each in PINNED if f"/libraries/{folder_name(each.name)}/" in path), "")


def _paths(evidence: Evidence) -> tuple[str, ...]:
    return (*((evidence.interp,) if evidence.interp else ()), *evidence.objects, *evidence.mapped)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(" (deleted)")


def _linked_in(program: ProgramFacts) -> set[str]:
    """Return the C libraries whose start-up objects and code a program's file contains."""
    facts, entry = program.of(BuildFacts), _ENTRIES.get(program.machine)
    found = {level for level, symbol in _SYMBOLS.items() if symbol in facts.symbols}
    found |= {level for level, pattern in _SECTIONS.items() if any(map(pattern.match, facts.sections))}
    return found | ({"musl"} if entry is not None and entry.match(facts.entry) else set())


LIBC = Libc()
