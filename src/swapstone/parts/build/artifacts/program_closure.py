# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files that a program needs to start: its loader and its shared objects, found as the loader finds them on this machine.

Nothing is executed, because the program and the loader that it names may be hostile. The order of the search is that of ld.so(8) for
glibc, and that of ldso/dynlink.c for musl. Not searched: folders ``glibc-hwcaps``, which depend on the processor.

glibc's list of shared objects, /etc/ld.so.cache, is read, and written for another root. The format is that of glibc since 2.2,
``glibc-ld.so.cache1.1`` (sysdeps/generic/dl-cache.h of glibc). Entries for certain processors (``hwcap``) are left out: which of them a
loader chooses depends on the processor.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.safe_text import safe
from swapstone.parts.build.artifacts.loader_files import DynamicEntries, read_dependencies

CACHE_PATH = "/etc/ld.so.cache"

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sIIB3xI12x")  # magic, entries, bytes of texts, flags, offset of extensions
_ENTRY = struct.Struct("<iIIIQ")  # flags, name, path, version of the system, hwcap
_LITTLE_ENDIAN = 2
_MOST_BYTES = 64 << 20
_MOST_ENTRIES = 1 << 18
_MOST_TEXT_BYTES = 4096


class CachedObject(FrozenStruct, frozen=True, kw_only=True):
    """An entry: a soname, the path of its file, and the kind of object, which a loader compares with its own."""

    name: str
    path: str
    flags: int


def read_cache(path: Path = Path(CACHE_PATH)) -> dict[str, tuple[CachedObject, ...]]:
    """Read a cache.

    Returns:
        The entries by name, in the order of the file; empty if there is no cache, or it is damaged or of another format. A loader ignores
        such a file too.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return {}
        content = path.read_bytes()
    except OSError:
        return {}
    return decode_cache(content)


def decode_cache(content: bytes) -> dict[str, tuple[CachedObject, ...]]:
    """Decode a cache; see `read_cache`."""
    start = content.find(_MAGIC)  # the format of glibc before 2.2 may come first
    if start < 0 or len(content) < start + _HEADER.size:
        return {}
    content = content[start:]
    _, count, _, _, _ = _HEADER.unpack_from(content)
    if count > _MOST_ENTRIES or _HEADER.size + count * _ENTRY.size > len(content):
        return {}
    found: dict[str, list[CachedObject]] = {}
    for number in range(count):
        flags, name_at, path_at, _, hwcap = _ENTRY.unpack_from(content, _HEADER.size + number * _ENTRY.size)
        name, where = _text(content, name_at), _text(content, path_at)
        if name and where and not hwcap:
            found.setdefault(name, []).append(CachedObject(name=name, path=where, flags=flags))
    return {name: tuple(entries) for name, entries in found.items()}


def encode_cache(entries: Iterable[CachedObject]) -> bytes:
    """Write a cache with these entries. Equal entries give equal bytes."""
    by_key: Mapping[tuple[str, str], CachedObject] = {(each.name, each.path): each for each in entries}
    ordered = sorted(by_key.values(), key=lambda each: (_order(each.name), each.path), reverse=True)
    texts, at = b"", _HEADER.size + len(ordered) * _ENTRY.size
    table = b""
    for each in ordered:
        name, path = (text.encode(errors="surrogateescape") + b"\0" for text in (each.name, each.path))
        table += _ENTRY.pack(each.flags, at + len(texts), at + len(texts) + len(name), 0, 0)
        texts += name + path
    return _HEADER.pack(_MAGIC, len(ordered), len(texts), _LITTLE_ENDIAN, 0) + table + texts


def _text(content: bytes, at: int) -> str:
    end = content.find(b"\0", at, at + _MOST_TEXT_BYTES)
    return content[at:end].decode(errors="surrogateescape") if 0 <= at < end else ""


def _order(name: str) -> list[tuple[bool, int]]:
    """Return the key of a name in the order of _dl_cache_libcmp, by which a loader searches: numbers by value, above other characters."""
    return [(bool(number), int(number or ord(other))) for number, other in re.findall(r"([0-9]+)|([^0-9])", name)]


MOST_OBJECTS = 1000
"""A program with more shared objects is refused: hostile ones could name each other without end."""

_MUSL_SELF = re.compile(r"lib(c|pthread|rt|m|dl|util|xnet)\.")  # names that musl's loader resolves to itself
_TRIPLETS = {
    ("EM_X86_64", 64): "x86_64-linux-gnu",
    ("EM_AARCH64", 64): "aarch64-linux-gnu",
    ("EM_ARM", 32): "arm-linux-gnueabihf",
    ("EM_RISCV", 64): "riscv64-linux-gnu",
    ("EM_386", 32): "i386-linux-gnu",
}
_PLACEHOLDER = re.compile(r"\$(?:(ORIGIN|PLATFORM|LIB)|\{(ORIGIN|PLATFORM|LIB)\})")
_LIB = re.compile(r"\$(?:LIB|\{LIB\})")
_GLIBC_CANCELS_WITH = "libgcc_s.so.1"
"""glibc loads it by name when a thread is cancelled or exits."""


class FileTree(msgspec.Struct, frozen=True):
    """The file system that is searched; tests use another one.

    Attributes:
        read: returns the content of a file, following links. Raises a `UserError` if it is too large, not readable or no regular file.
        real: returns the path of a file without links; empty if there is no regular file.
        cache: the entries of ld.so.cache.
    """

    read: Callable[[str], bytes]
    real: Callable[[str], str]
    cache: Mapping[str, tuple[CachedObject, ...]]


class Closure(msgspec.Struct, frozen=True):
    """What a program needs.

    Attributes:
        files: the path of each file as the loader opens it, and its path without links.
        cached: the entries of ld.so.cache that were used.
        missing: pairs (soname or loader, path of the object that needs it) of what was not found.
        musl_path: the file with the search path of musl's loader, if it was used; else empty.
    """

    files: Mapping[str, str]
    cached: tuple[CachedObject, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    musl_path: str = ""


class _Loaded(msgspec.Struct, frozen=True):
    """An object that the loader has mapped."""

    path: str
    entries: DynamicEntries
    parent: _Loaded | None

    def chain(self) -> Iterator[_Loaded]:
        """Yield the object, the one that needs it, and so on up to the program."""
        each: _Loaded | None = self
        while each is not None:
            yield each
            each = each.parent


def host_tree(read: Callable[[str], bytes]) -> FileTree:
    """Return this machine's file system, read by `read`."""
    return FileTree(read, _real, read_cache())


def _real(path: str) -> str:
    try:
        found = os.path.realpath(path, strict=True)
        return found if stat.S_ISREG(os.stat(found).st_mode) else ""  # noqa: PTH116 - texts as the loader opens them
    except (OSError, ValueError):
        return ""


def resolve_closure(
    program: str,
    tree: FileTree,
    *,
    library_path: str = "",
    preload: Sequence[str] = (),
    loadable: Sequence[str] = (),
    folder: str = "/",
) -> Closure:
    """Return what a program needs, itself included.

    Args:
        program: absolute path of an ELF file.
        tree: where to search.
        library_path: value of LD_LIBRARY_PATH.
        preload: absolute paths of objects that are preloaded.
        loadable: absolute paths of objects that it may load with dlopen(3). What they need is in the closure, but never missing: whether
            they are loaded is not known.
        folder: from which relative paths start.

    Raises:
        UserError: a file is damaged or can't be read, or there are too many.
    """
    search = _Search(tree, [part for part in re.split("[:;]", library_path) if part], folder)
    search.start(program, preload, loadable)
    return search.closure()


class _Search:
    def __init__(self, tree: FileTree, library_path: Sequence[str], folder: str) -> None:
        self._tree = tree
        self._library_path = library_path
        self._folder = folder
        self._files: dict[str, str] = {}
        self._names: set[str] = set()
        self._cached: list[CachedObject] = []
        self._missing: dict[str, str] = {}
        self._entries: dict[str, DynamicEntries] = {}
        self._musl_path = ""
        self._system: tuple[str, ...] = ()

    def closure(self) -> Closure:
        return Closure(self._files, tuple(self._cached), tuple(self._missing.items()), self._musl_path)

    def start(self, program: str, preload: Sequence[str], loadable: Sequence[str]) -> None:
        entries = self._read(program)
        if entries is None or not entries.machine:
            raise UserError(f"{safe(program)} is no ELF file.")
        self._files[program] = self._tree.real(program)
        loader = entries.loader
        if not loader:
            return  # static: no loader searches anything
        if not loader.startswith("/"):
            raise UserError(f"{safe(program)} names the loader {safe(loader)}, which is no absolute path.")
        if self._matches(loader, entries):
            self._add(loader)
            self._names |= {PurePosixPath(loader).name, self._entries[self._files[loader]].soname}
        else:
            self._missing[loader] = program
        self._system = self._system_folders(loader, entries)
        main = _Loaded(program, entries, None)
        waiting = [main]
        for path in preload:
            if not self._matches(path, entries):
                self._missing[path] = program
                continue
            self._add(path)
            waiting.append(_Loaded(path, self._entries[self._files[path]], main))
        self._load(waiting, loader)
        missing = dict(self._missing)
        real = {path: self._tree.real(path) for path in loadable if self._matches(path, entries)}
        self._load([_Loaded(path, self._entries[file], main) for path, file in real.items()], loader)
        if "libc.so.6" in self._names:
            self._needed(_GLIBC_CANCELS_WITH, main, loader)
        self._missing = missing

    def _load(self, waiting: list[_Loaded], loader: str) -> None:
        """Find what objects need, breadth first, as a loader does."""
        for loaded in waiting:  # grows in the loop
            for name in loaded.entries.needed:
                found = self._needed(name, loaded, loader)
                if found is not None:
                    waiting.append(found)
                if len(self._files) > MOST_OBJECTS:
                    program = list(loaded.chain())[-1].path
                    raise UserError(f"{safe(program)} needs more than {MOST_OBJECTS} shared objects.")

    def _needed(self, name: str, parent: _Loaded, loader: str) -> _Loaded | None:
        """Find a needed object that is not loaded yet."""
        musl = is_musl(loader)
        if name in self._names or (musl and _MUSL_SELF.match(name)):
            return None
        self._names.add(name)
        path = self._find(name, parent, musl=musl)
        if path is None:
            self._missing[name] = parent.path
            return None
        self._missing.pop(name, None)
        self._add(path)
        entries = self._entries[self._files[path]]
        self._names.add(entries.soname)
        return _Loaded(path, entries, parent)

    def _find(self, name: str, parent: _Loaded, *, musl: bool) -> str | None:
        if "/" in name:
            path = os.path.join(self._folder, name)  # noqa: PTH118 - texts as the loader opens them
            return path if self._matches(path, parent.entries) else None
        for folder in (self._musl_folders if musl else self._glibc_folders)(parent):
            path = os.path.join(folder, name)  # noqa: PTH118
            if self._matches(path, parent.entries):
                return path
        if not musl:
            for cached in self._tree.cache.get(name, ()):
                if self._matches(cached.path, parent.entries):
                    self._cached.append(cached)
                    return cached.path
        paths = (os.path.join(folder, name) for folder in self._system)  # noqa: PTH118
        return next((path for path in paths if self._matches(path, parent.entries)), None)

    def _glibc_folders(self, parent: _Loaded) -> Iterator[str]:
        """Yield what ld.so searches before its cache: DT_RPATH of the object and its parents, LD_LIBRARY_PATH, DT_RUNPATH."""
        if not parent.entries.runpath:
            for each in parent.chain():
                if not each.entries.runpath:
                    yield from self._expanded(each.entries.rpath, each)
        program = list(parent.chain())[-1]
        for folder in self._library_path:
            yield from self._expanded(folder, program)
        yield from self._expanded(parent.entries.runpath, parent)

    def _musl_folders(self, parent: _Loaded) -> Iterator[str]:
        """Yield what musl's loader searches first: LD_LIBRARY_PATH, then the paths of the object and its parents."""
        for folder in self._library_path:
            yield os.path.join(self._folder, folder)  # noqa: PTH118
        for each in parent.chain():
            yield from self._expanded(each.entries.runpath or each.entries.rpath, each)

    def _expanded(self, text: str, holder: _Loaded) -> Iterator[str]:
        """Yield the folders of a search path; of ``$LIB``, each value that distributions give it."""
        # Of the program, loaders read /proc/self/exe, which has no links; of an object they take the path that they opened.
        origin = os.path.dirname(holder.path if holder.parent else self._tree.real(holder.path))  # noqa: PTH120
        triplet = _TRIPLETS.get((holder.entries.machine, holder.entries.bits), "")
        for part in filter(None, text.split(":")):
            for lib in (f"lib/{triplet}", "lib64", "lib") if _LIB.search(part) else ("",):
                values = {"ORIGIN": origin, "PLATFORM": triplet.partition("-")[0], "LIB": lib}
                folder = _PLACEHOLDER.sub(lambda found: values[found[1] or found[2]], part)  # noqa: B023 - used at once
                yield os.path.join(self._folder, folder)  # noqa: PTH118

    def _system_folders(self, loader: str, entries: DynamicEntries) -> tuple[str, ...]:
        """Return the folders that a loader searches last."""
        if is_musl(loader):
            prefix = loader.rpartition("/lib/")[0]
            machine = PurePosixPath(loader).name.removeprefix("ld-musl-").removesuffix(".so.1")
            path = f"{prefix}/etc/ld-musl-{machine}.path"
            if self._tree.real(path):
                self._musl_path = path
                text = self._tree.read(path)[: 1 << 16].decode(errors="surrogateescape")
                return tuple(part for part in re.split("[:\n]", text) if part.startswith("/"))
            return ("/lib", "/usr/local/lib", "/usr/lib")
        triplet = _TRIPLETS.get((entries.machine, entries.bits))
        several = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if triplet else ()
        wide = ("/lib64", "/usr/lib64") if entries.bits == 64 else ()
        beside = os.path.dirname(self._tree.real(loader))  # noqa: PTH120 - of a C library in a folder of its own
        return tuple(filter(None, (*several, *wide, "/lib", "/usr/lib", beside)))

    def _matches(self, path: str, program: DynamicEntries) -> bool:
        """Return whether a file can be loaded into a program: loaders go on past objects for other processors."""
        entries = self._read(path)
        return entries is not None and (entries.machine, entries.bits) == (program.machine, program.bits)

    def _read(self, path: str) -> DynamicEntries | None:
        real = self._tree.real(path)
        if real and real not in self._entries:
            self._entries[real] = read_dependencies(path, self._tree.read(real))
        return self._entries.get(real)

    def _add(self, path: str) -> None:
        self._files[path] = self._tree.real(path)


def is_musl(loader: str) -> bool:
    """Return whether a loader is musl's, by its name: in a folder of the user, it may be the library itself."""
    return PurePosixPath(loader).name.startswith(("ld-musl-", "libc.so"))


_MUSL_VERSION = re.compile(rb"\0(1\.(\d+)\.(\d+))\0")
_MUSL_WITH_RELR = (2, 4)
"""musl 1.2.4 applies DT_RELR (its WHATSNEW)."""


def needs_newer_musl(program: str) -> str:
    """Return a sentence if musl's loader of this machine is too old for a program or one of its objects; empty if it is not, or unknown.

    Raises:
        UserError: as `resolve_closure`.
    """
    content = Path(program).read_bytes()
    loader = read_dependencies(program, content).loader
    version = _MUSL_VERSION.search(Path(loader).read_bytes()) if is_musl(loader) and Path(loader).is_file() else None
    if version is None or (int(version[2]), int(version[3])) >= _MUSL_WITH_RELR:
        return ""
    files = resolve_closure(program, host_tree(lambda path: Path(path).read_bytes())).files
    packed = next((path for path in files if read_dependencies(path, Path(path).read_bytes()).relr), "")
    return (
        f"{safe(packed)} needs musl 1.2.4 or newer (it has DT_RELR), and {loader} is musl {version[1].decode()}"
        if packed
        else ""
    )
