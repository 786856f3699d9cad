# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build memory allocators: once per C library, from pinned sources, as one object for dynamic and static programs.

A shared object of the user is preloaded if the C library and the processor that it was built for are those of the program.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, sha256_of
from swapstone.core.artifacts.tool_versions import compiler_identity
from swapstone.core.factors import ProgramFacts, Recipe, read_facts
from swapstone.core.model import UnavailableError, UserError, refuse
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.build_command import link_kernel_headers, run_build
from swapstone.parts.build.artifacts.cross_compilers import cross_command, cross_compiler
from swapstone.parts.build.artifacts.upstream_sources import Source, fetch, read_lock, unpack
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.allocator import DEFAULT
from swapstone.parts.build.factors.build_facts import BuildFacts


def object_libc(facts: ProgramFacts) -> str | None:
    """Return the C library that a shared object was built for; None if unknown."""
    names = [name.rsplit("/", 1)[-1] for name in facts.needed]
    if "libc.so.6" in names or any(version.startswith("GLIBC_") for version in facts.of(BuildFacts).versions):
        return "glibc"
    if any(name == "libc.so" or name.startswith(("libc.musl-", "ld-musl-")) for name in names):
        return "musl"
    return None


def check_preloadable(recipe: Recipe) -> None:
    """Check that the shared object named as a recipe's allocator can be preloaded into its programs.

    Raises:
        UnavailableError: it was built for another C library or processor, or the program is static.
        UserError: it does not exist.
    """
    path = recipe.of(Build).allocator
    facts = read_facts(Path(path))
    if facts is None:
        raise UserError(f"{path} does not exist any more, or can't be read as a shared object.")
    own = read_facts(Path("/proc/self/exe").resolve())
    assert own is not None
    libc, machine, made_for = recipe.of(Build).libc, _processor(own), object_libc(facts)
    builder = {"glibc": "cc", "musl": "musl-gcc"}.get(libc, "that library's compiler")
    refuse(
        (
            recipe.of(Build).linking == "static",
            f"{path} can't be preloaded into a static program.",
            "Compare it with linking=dynamic.",
        ),
        (
            _processor(facts) != machine,
            f"{path} is for {_processor(facts)}-bit; programs on this machine are {machine}-bit.",
            "Build it for this processor.",
        ),
        (
            made_for not in {None, libc},
            f"{path} was built for {made_for}, so a program on {libc} can't load it.",
            f"Build it with {builder}, or compare with libc={made_for}.",
        ),
        kind=UnavailableError,
    )


def _processor(facts: ProgramFacts) -> str:
    return f"{facts.machine} {facts.of(BuildFacts).bits}"


SHARED = "allocator.so"
OBJECT = "allocator.o"
LOG = "build.log"
BUILD_TIMEOUT_S = 1200

Command = tuple[str, ...]
Notify = Callable[[str], None]
"""Called with a line of text for the user."""

# (C compiler, C++ compiler) by C library. They don't depend on the compiler of the programs, so that the allocator stays the same.
_COMPILERS: dict[str, tuple[Command, Command]] = {
    "glibc": (("cc",), ("g++",)),
    "musl": (("musl-gcc",), ("env", "REALGCC=g++", "musl-gcc")),
}

_IN_CXX = frozenset({"tcmalloc", "snmalloc"})

EXCLUDED: dict[tuple[str, str], str] = {
    (
        "tcmalloc",
        "musl",
    ): "gperftools needs the C++ standard library, and there is none for musl here (its build ends with "
    "`fatal error: string: No such file or directory`)",
}
"""Combinations (allocator, C library) that can't be built, with the reason."""


class Plan(msgspec.Struct, frozen=True):
    """The build steps of an allocator.

    In commands, ``{source}`` is the folder of the sources, ``{jobs}`` the number of processors, and ``{kernel}`` a folder with only the
    kernel's headers. Of several words, or none, are ``{cc}`` and ``{cxx}``, the compilers, ``{wide}``, the option for atomic operations on
    two words, and ``{cross}``, options of a configure script for another architecture.

    Attributes:
        steps: run in sequence; the commands of a step run in parallel. They create the files of `objects`.
        objects: object files and archives that make up the allocator; archives are linked as a whole.
        files: pairs (path, text) to create before the first step.
        shared: options for linking the shared object.
        static: libraries that a static program needs after the allocator.
    """

    steps: tuple[tuple[Command, ...], ...]
    objects: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()
    shared: Command = ("-pthread",)
    static: Command = ()


# Without fortified functions: musl has none, and the default of gcc depends on the distribution.
# Without build paths, so that two builds are equal byte by byte.
_COMMON = ("-DNDEBUG", "-fPIC", "-U_FORTIFY_SOURCE", "-pthread", "-ffile-prefix-map={source}=source")


# The sources of libtcmalloc_minimal, and the results of its configure script on Linux with glibc.
_TCMALLOC_SOURCES = (
    *("common", "internal_logging", "system-alloc", "memfs_malloc", "central_freelist", "page_heap", "sampler", "span"),
    *(
        "stack_trace_table",
        "static_vars",
        "symbolize",
        "thread_cache",
        "malloc_hook",
        "malloc_extension",
        "maybe_threads",
    ),
    *(
        "base/spinlock",
        "base/spinlock_internal",
        "base/atomicops-internals-x86",
        "base/logging",
        "base/sysinfo",
        "tcmalloc",
    ),
)
_TCMALLOC_HAS = (
    *(
        "DECL_MEMALIGN",
        "DECL_POSIX_MEMALIGN",
        "DECL_PVALLOC",
        "DECL_VALLOC",
        "FCNTL_H",
        "FEATURES_H",
        "FORK",
        "INTTYPES_H",
    ),
    *(
        "MALLOC_H",
        "MMAP",
        "POLL_H",
        "PTHREAD",
        "SBRK",
        "SCHED_H",
        "STDINT_H",
        "STRUCT_MALLINFO",
        "SYS_CDEFS_H",
        "SYS_SOCKET_H",
    ),
    *("SYS_SYSCALL_H", "SYS_TYPES_H", "SYS_WAIT_H", "TLS", "UNISTD_H", "__ATTRIBUTE__", "__ENVIRON"),
)
_TCMALLOC_CONFIG = (
    "#define GPERFTOOLS_CONFIG_H_\n"
    + "".join(f"#define HAVE_{name} 1\n" for name in _TCMALLOC_HAS)
    + '#define HAVE_DECL_CFREE 0\n#define PERFTOOLS_DLL_DECL\n#define PACKAGE_STRING "gperftools"\n'
    + "#define __STDC_FORMAT_MACROS 1\n"
)
_TCMALLOC_HEADER = (  # fills in the header that the configure script would write
    *("sed", "-e", "s/@TC_VERSION_M[AI][JN]OR@/0/g; s/@TC_VERSION_PATCH@//g; s/@ac_cv_have_[a-z_]*@/1/g"),
    *("-e", "wgperftools/tcmalloc.h", "-n", "{source}/src/gperftools/tcmalloc.h.in"),
)


_TCMALLOC_FLAGS = (
    *("-std=gnu++17", "-O2", "-fsized-deallocation", "-w", *_COMMON),
    *("-DNO_FRAME_POINTER", "-DNO_TCMALLOC_SAMPLES", "-DNO_HEAP_CHECK", "-I.", "-I{source}/src"),
)
_TCMALLOC_OBJECTS = {name: f"{name.replace('/', '-')}.o" for name in _TCMALLOC_SOURCES}

PLANS: dict[str, Plan] = {
    "mimalloc": Plan(
        steps=(
            (
                (
                    *(
                        "{cc}",
                        "-std=gnu11",
                        "-O3",
                        "-fvisibility=hidden",
                        "-ftls-model=initial-exec",
                        "-fno-builtin-malloc",
                    ),
                    *(
                        *_COMMON,
                        "-DMI_MALLOC_OVERRIDE=1",
                        "-DMI_SHARED_LIB",
                        "-DMI_SHARED_LIB_EXPORT",
                        "-I{source}/include",
                    ),
                    *("-c", "{source}/src/static.c", "-o", "mimalloc.o"),
                ),
            ),
        ),
        objects=("mimalloc.o",),
    ),
    "jemalloc": Plan(
        steps=(
            (
                (
                    *("{source}/configure", "CC={cc}", "--disable-cxx", "--with-jemalloc-prefix="),
                    *("CPPFLAGS=-U_FORTIFY_SOURCE", "EXTRA_CFLAGS=-g0", "{cross}"),
                ),
            ),
            (("make", "-j{jobs}", "lib/libjemalloc_pic.a"),),
        ),
        objects=("lib/libjemalloc_pic.a",),
        shared=("-pthread", "-lm"),
        static=("-lm",),
    ),
    "tcmalloc": Plan(
        steps=(
            (_TCMALLOC_HEADER,),
            (
                (
                    *("{cc}", "-O2", *_COMMON, "-I.", "-I{source}/src"),
                    *("-c", "{source}/src/base/dynamic_annotations.c", "-o", "annotations.o"),
                ),
                *(
                    ("{cxx}", *_TCMALLOC_FLAGS, "-c", f"{{source}}/src/{name}.cc", "-o", target)
                    for name, target in _TCMALLOC_OBJECTS.items()
                ),
            ),
        ),
        objects=(*_TCMALLOC_OBJECTS.values(), "annotations.o"),
        files=(("config.h", _TCMALLOC_CONFIG), ("gperftools/tcmalloc.h", "")),
        # The C++ library is linked statically and hidden: a C program would otherwise map it because of the allocator.
        shared=(
            "-pthread",
            "-static-libgcc",
            "-Wl,--exclude-libs,ALL",
            "-Wl,-Bstatic",
            "-lstdc++",
            "-Wl,-Bdynamic",
            "-lm",
        ),
        static=("-lstdc++", "-lm"),
    ),
    "snmalloc": Plan(
        steps=(
            (
                (
                    *("{cxx}", "-std=c++20", "-O3", "-fno-exceptions", "-fno-rtti", "-ftls-model=initial-exec"),
                    *("-fvisibility=hidden", "{wide}", *_COMMON, "-DSNMALLOC_USE_SELF_VENDORED_STL=1"),
                    *("-DSNMALLOC_PLATFORM_HAS_GETENTROPY=1", "-DSNMALLOC_USE_PTHREAD_DESTRUCTORS=1"),
                    *("-DSNMALLOC_USE_WAIT_ON_ADDRESS=1", "-DSNMALLOC_HAS_LINUX_FUTEX_H=1"),
                    *('-DSNMALLOC_EXPORT=__attribute__((visibility("default")))', "-I{source}/upstream/src"),
                    *("-idirafter", "{kernel}", "-c", "{source}/upstream/src/snmalloc/override/malloc.cc"),
                    *("-o", "snmalloc.o"),
                ),
            ),
        ),
        objects=("snmalloc.o",),
    ),
}
"""By name."""


def with_allocator(recipe: Recipe, notify: Notify) -> Recipe:
    """Build or find a recipe's allocator for its C library and linking.

    Args:
        recipe: checked by `check_allocator`. `libc` selects the build; for a program that is not built here it is that of its
            loader.
        notify: called before a build.

    Returns:
        The recipe with the object in `preload`, or in `ldflags` for static linking.

    Raises:
        UnavailableError: the combination does not exist, or the allocator can't be built here.
        UserError: the user's object is not compatible.
    """
    if recipe.of(Build).allocator == DEFAULT:
        return recipe
    if "/" in recipe.of(Build).allocator:
        check_preloadable(recipe)
        return msgspec.structs.replace(
            recipe, preload=(*recipe.preload, recipe.of(Build).allocator), preload_keeps_path=True
        )
    made = _built(recipe.of(Build).allocator, recipe.of(Build).libc, notify, recipe.architecture)
    if recipe.of(Build).linking == "static":
        # An object is always linked, so its malloc is resolved before the C library's archive is searched.
        return recipe.changed(Build, ldflags=(*recipe.of(Build).ldflags, str(made.home / OBJECT), *made.plan.static))
    return msgspec.structs.replace(recipe, preload=(*recipe.preload, str(_loadable(made.home / SHARED))))


def _loadable(path: Path) -> Path:
    """Return the resolved path, checked to be usable in ``LD_PRELOAD``.

    Raises:
        UnavailableError: it has a separator of that list.
    """
    resolved = path.resolve()
    if re.search(r"[\s:]", str(resolved)):
        raise UnavailableError(
            f"{resolved} can't be preloaded: the path has a blank or a colon, which separate entries of LD_PRELOAD.",
            "Set XDG_CACHE_HOME to another folder.",
        )
    return resolved


def _built(name: str, libc: str, notify: Notify, architecture: str = "") -> _Inputs:
    """Build an allocator for a C library, or return it from the cache.

    Args:
        name: of the allocator.
        libc: of the programs.
        notify: called before a build.
        architecture: as in recipes; empty for this machine's.

    Raises:
        UnavailableError: it can't be built; gives the reason.
    """
    inputs = _inputs(name, libc, architecture, notify)
    if not (inputs.home / SHARED).is_file():
        with locked(cache_dir() / "allocators" / f"{name}-{libc}.lock"):
            if not (inputs.home / SHARED).is_file():
                where = f" on {cross_compiler(architecture).name}" if architecture else ""
                _build(f"{name} {inputs.source.version} for {libc}{where}", inputs, notify)
    return inputs


def check_allocator(name: str, libc: str, architecture: str = "") -> None:
    """Refuse, before anything is fetched, what can't be built.

    Args:
        name: of the allocator.
        libc: of the programs.
        architecture: as in recipes; empty for this machine's.

    Raises:
        UnavailableError: the combination does not exist.
    """
    where = cross_compiler(architecture).name if architecture else ""
    reason = EXCLUDED.get((name, libc), "")
    refuse(
        (
            where and name in _IN_CXX,
            f"{name} is written in C++, and Swapstone builds allocators in C only for {where}.",
            "mimalloc and jemalloc are in C.",
        ),
        (reason, f"{name} can't be built for {libc}: {reason}.", ""),
        (name not in PLANS or libc not in _COMPILERS, f"Swapstone can't build {name} for {libc}.", ""),
        kind=UnavailableError,
    )


def cached_libcs(name: str) -> tuple[str, ...]:
    """Return the C libraries for which the cache has an allocator."""
    return tuple(
        libc for libc in _COMPILERS if (name, libc) not in EXCLUDED and (_inputs(name, libc).home / SHARED).is_file()
    )


def allocator_tools(recipes: Iterable[Recipe]) -> tuple[tuple[str, str], ...]:
    """Return pairs (name, version and digest) of the recipes' allocators, for the manifest."""
    found: dict[str, str] = {}
    for recipe in recipes:
        if recipe.of(Build).allocator == DEFAULT:
            continue
        if "/" in recipe.of(Build).allocator:
            found[f"allocator {recipe.of(Build).allocator}"] = f"SHA-256 {sha256_of(Path(recipe.of(Build).allocator))}"
            continue
        inputs = _inputs(recipe.of(Build).allocator, recipe.of(Build).libc, recipe.architecture)
        name = OBJECT if recipe.of(Build).linking == "static" else SHARED
        digest = f"SHA-256 {sha256_of(inputs.home / name)}, sources {inputs.source.file}"
        found[f"allocator {recipe.of(Build).allocator} ({recipe.of(Build).libc}, {recipe.of(Build).linking})"] = (
            f"{inputs.source.version}, {digest}"
        )
    return tuple(sorted(found.items()))


class _Inputs(msgspec.Struct, frozen=True):
    """What an allocator is built from, with the words in its commands, and its cache folder, named by the digest of all that."""

    source: Source
    plan: Plan
    words: dict[str, Command]
    home: Path


def _inputs(name: str, libc: str, architecture: str = "", notify: Notify = lambda _: None) -> _Inputs:
    source, plan, machine = read_lock()[name], PLANS[name], architecture or platform.machine()
    compilers = _COMPILERS[libc]
    words: dict[str, Command] = {"{wide}": ("-mcx16",) if machine == "x86_64" else (), "{cross}": ()}
    if architecture:
        compilers = cross_command(architecture, "cc", libc, notify), ()
        # A page has 4096 bytes, as in these kernels: its configure script can't run a program that reads the size.
        words["{cross}"] = (f"--host={cross_compiler(architecture).triple}", "--with-lg-page=12")
    words |= dict(zip(("{cc}", "{cxx}"), compilers, strict=True))
    parts = (name, source.sha256, libc, machine, repr((plan, words)), *map(compiler_identity, filter(None, compilers)))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    return _Inputs(source, plan, words, cache_dir() / "allocators" / digest)


def _build(what: str, inputs: _Inputs, notify: Notify) -> None:
    """Build in a temporary folder and rename it, so that the result is complete."""
    source, plan, home = inputs.source, inputs.plan, inputs.home
    archive = fetch(source, notify=notify, what=what)
    notify(f"building {what} (only once)")
    with new_folder(home) as done:
        work = done.parent

        def run(command: Command) -> tuple[int | None, bytes]:
            return run_build(shlex.join(command), work, BUILD_TIMEOUT_S, {**os.environ, "LC_ALL": "C"})

        for name, text in plan.files:
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)
        (work / "kernel").mkdir()
        link_kernel_headers(work / "kernel")
        (work / "source").mkdir()
        places = inputs.words | {
            "{source}": (str(unpack(archive, work / "source")),),
            "{jobs}": (str(len(os.sched_getaffinity(0))),),
            "{kernel}": (str(work / "kernel"),),
        }
        whole = ("{cc}", "-nostdlib", "-r", "-o", f"{done}/{OBJECT}", "-Wl,--whole-archive", *plan.objects)
        shared = ("{cc}", "-shared", "-Wl,-z,defs", "-o", f"{done}/{SHARED}", f"{done}/{OBJECT}", *plan.shared)
        with (done / LOG).open("wb") as log:
            for step in (*plan.steps, (whole,), (shared,)):
                commands = [tuple(_filled(command, places)) for command in step]
                with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                    results = list(pool.map(run, commands))
                for command, (status, output) in zip(commands, results, strict=True):
                    log.write(f"$ {' '.join(command)}\n".encode() + output)
                    if status != 0:
                        log.flush()
                        raise _failed(what, command, output, done, home)


def _filled(command: Command, places: dict[str, Command]) -> Iterator[str]:
    """Yield the words of a command: those of a place that is a word of its own, and in other words each place as a text."""
    texts = {place: " ".join(words) for place, words in places.items()}
    for word in command:
        filled = functools.reduce(lambda text, place: text.replace(*place), texts.items(), word)
        yield from places.get(word, (filled,))


def _failed(what: str, command: Sequence[str], output: bytes, done: Path, home: Path) -> UnavailableError:
    """Store the log of a failed build; return the error."""
    kept = home.with_suffix(".failed.log")
    (done / LOG).replace(kept)
    lines = (
        re.sub(rf"{re.escape(str(done.parent))}/(source/[^/]+/)?", "", output.decode(errors="replace"))
        .strip()
        .splitlines()
    )
    error_lines = [line for line in lines if "error" in line.lower()] or lines or ["it printed nothing"]
    return UnavailableError(f"{what} can't be built: {command[0]}: {error_lines[0].strip()}", f"The log: {kept}")
