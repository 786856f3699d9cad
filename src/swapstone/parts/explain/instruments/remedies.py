# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remedies: changes of a program's surroundings that take a cause away, if the cause is what explain named. `explain --confirm` tries them.

None changes the program's file. Each run with a remedy is judged as a trial is: by its status, its output and its levels.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import UserError
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.acquisition import Change, RowVariant, unchanged
from swapstone.parts.explain.instruments.traced_run import compile_c
from swapstone.parts.explain.model.explanation import RemedyRuns

NO_DELAY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
static int set(int fd) {
    int on = 1;
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}
int socket(int domain, int type, int protocol) {
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    return set(next(domain, type, protocol));
}
int accept(int fd, struct sockaddr *name, socklen_t *length) {
    int (*next)(int, struct sockaddr *, socklen_t *) =
        (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "accept");
    return set(next(fd, name, length));
}
int accept4(int fd, struct sockaddr *name, socklen_t *length, int flags) {
    int (*next)(int, struct sockaddr *, socklen_t *, int) =
        (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    return set(next(fd, name, length, flags));
}
"""

BUFFERS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static int (*next)(FILE *, char *, int, size_t);
static void find(void) { next = (int (*)(FILE *, char *, int, size_t))dlsym(RTLD_NEXT, "setvbuf"); }
int setvbuf(FILE *file, char *buffer, int mode, size_t size) {
    (void)buffer, (void)mode, (void)size;
    if (!next) find();
    return next(file, NULL, _IOFBF, 1 << 16);
}
void setbuf(FILE *file, char *buffer) { setvbuf(file, buffer, _IOFBF, 0); }
__attribute__((constructor)) static void begin(void) { setvbuf(stdout, NULL, _IOFBF, 0); }
"""

NO_SYNC = """
int fsync(int fd) { (void)fd; return 0; }
int fdatasync(int fd) { (void)fd; return 0; }
int syncfs(int fd) { (void)fd; return 0; }
void sync(void) {}
"""

PAGE_CACHE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#define CACHED(flags) ((flags) & ~(O_DIRECT | O_SYNC | O_DSYNC))
#define OPEN(name) \\
    int name(const char *path, int flags, ...) { \\
        int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \\
        va_list more; \\
        va_start(more, flags); \\
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; \\
        va_end(more); \\
        return next(path, CACHED(flags), mode); \\
    }
#define OPENAT(name) \\
    int name(int at, const char *path, int flags, ...) { \\
        int (*next)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name); \\
        va_list more; \\
        va_start(more, flags); \\
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; \\
        va_end(more); \\
        return next(at, path, CACHED(flags), mode); \\
    }
#define TEMPORARY(name) \\
    int name(char *path, int flags) { \\
        int (*next)(char *, int) = (int (*)(char *, int))dlsym(RTLD_NEXT, #name); \\
        return next(path, CACHED(flags)); \\
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
TEMPORARY(mkostemp)
TEMPORARY(mkostemp64)
"""

NO_SLEEPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
int nanosleep(const struct timespec *length, struct timespec *left) { (void)length, (void)left; sched_yield(); return 0; }
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *when, struct timespec *left) {
    (void)clock, (void)flags, (void)when, (void)left;
    sched_yield();
    return 0;
}
int usleep(useconds_t length) { (void)length; sched_yield(); return 0; }
unsigned sleep(unsigned length) { (void)length; sched_yield(); return 0; }
int poll(struct pollfd *all, nfds_t count, int timeout_ms) {
    int (*next)(struct pollfd *, nfds_t, int) = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    if (timeout_ms > 0) sched_yield();
    return next(all, count, timeout_ms > 0 ? 0 : timeout_ms);
}
"""

ROOM_TO_GROW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
void *realloc(void *block, size_t size) {
    static void *(*next)(void *, size_t);
    if (!next) next = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    if (!block || !size) return next(block, size);
    if (malloc_usable_size(block) >= size) return block;
    void *found = next(block, size + size / 2);
    return found ? found : next(block, size);
}
"""

_MAPPINGS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *map(void *at, size_t size, int use, int flags, int fd, off_t from) {
    return (void *)syscall(SYS_mmap, at, size, use, flags, fd, from);
}
static int is_plain(void *at, int use, int flags) {
    return !at && use == (PROT_READ | PROT_WRITE) && flags == (MAP_PRIVATE | MAP_ANONYMOUS);
}
"""

HUGE_MAPPINGS = (
    _MAPPINGS
    + """
enum { HUGE = 2 << 20 };
void *mmap(void *at, size_t size, int use, int flags, int fd, off_t from) {
    void *found = map(at, size, use, flags, fd, from);
    if (found != MAP_FAILED && is_plain(at, use, flags) && size >= HUGE) syscall(SYS_madvise, found, size, MADV_HUGEPAGE);
    return found;
}
void *mmap64(void *at, size_t size, int use, int flags, int fd, off_t from) { return mmap(at, size, use, flags, fd, from); }
int madvise(void *at, size_t size, int advice) {
    return (int)syscall(SYS_madvise, at, size, advice == MADV_NOHUGEPAGE ? MADV_HUGEPAGE : advice);
}
"""
)

KEPT_MAPPINGS = (
    _MAPPINGS
    + """
/* What the program maps itself, whole mappings only: those that it unmaps are given to the next request of their size, cleared. */
enum { MOST = 256, LARGEST = 32 << 20 };
enum { UNUSED, MAPPED, SHARED, KEPT };
static struct { char *at; size_t size; int state; } all[MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int find(int state, char *at, size_t size) {
    for (int i = 0; i < MOST; i++)
        if (all[i].state == state && (!at || all[i].at == at) && (!size || all[i].size == size)) return i;
    return -1;
}
static void forget(char *at, size_t size) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MOST; i++)
        if (all[i].state != UNUSED && all[i].at < at + size && at < all[i].at + all[i].size)
            all[i].state = UNUSED;
    pthread_mutex_unlock(&mutex);
}
void *mmap(void *at, size_t size, int use, int flags, int fd, off_t from) {
    int plain = is_plain(at, use, flags), shared = !at && (flags & MAP_TYPE) == MAP_SHARED, i;
    if (at) forget(at, size);
    if (plain && size <= LARGEST) {
        pthread_mutex_lock(&mutex);
        i = find(KEPT, NULL, size);
        if (i >= 0) all[i].state = MAPPED;
        pthread_mutex_unlock(&mutex);
        if (i >= 0) return memset(all[i].at, 0, size);
    }
    char *found = map(at, size, use, flags, fd, from);
    if (found != MAP_FAILED && (plain || shared) && size && size <= LARGEST) {
        pthread_mutex_lock(&mutex);
        i = find(UNUSED, NULL, 0);
        if (i >= 0) all[i].at = found, all[i].size = size, all[i].state = plain ? MAPPED : SHARED;
        pthread_mutex_unlock(&mutex);
    }
    return found;
}
void *mmap64(void *at, size_t size, int use, int flags, int fd, off_t from) { return mmap(at, size, use, flags, fd, from); }
int munmap(void *at, size_t size) {
    pthread_mutex_lock(&mutex);
    int i = find(MAPPED, at, size);
    if (i >= 0) all[i].state = KEPT;
    pthread_mutex_unlock(&mutex);
    if (i >= 0) return 0;
    forget(at, size);
    return (int)syscall(SYS_munmap, at, size);
}
int mprotect(void *at, size_t size, int use) {
    forget(at, size);
    return (int)syscall(SYS_mprotect, at, size, use);
}
void *mremap(void *at, size_t size, size_t wanted, int flags, ...) {
    void *to = NULL;
    if (flags & MREMAP_FIXED) {
        __builtin_va_list more;
        __builtin_va_start(more, flags);
        to = __builtin_va_arg(more, void *);
        __builtin_va_end(more);
        forget(to, wanted);
    }
    forget(at, size);
    return (void *)syscall(SYS_mremap, at, size, wanted, flags, to);
}
int madvise(void *at, size_t size, int advice) {
    if (advice == MADV_DONTNEED) {
        pthread_mutex_lock(&mutex);
        int mine = find(MAPPED, at, size) >= 0, shared = find(SHARED, at, size) >= 0;
        pthread_mutex_unlock(&mutex);
        if (shared) return 0; /* its content would come back from the file */
        if (mine) return memset(at, 0, size), 0;
    }
    return (int)syscall(SYS_madvise, at, size, advice);
}
"""
)


LEAST_ROUNDS, MOST_ROUNDS = 8, 20
BUDGET_S = 60.0
"""Further rounds than `LEAST_ROUNDS` are made until this time is over."""

_PRELOAD = "LD_PRELOAD"


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change of a program's surroundings.

    Attributes:
        name: a word or two.
        text: what it does, as a phrase.
        suits: pattern for a function with a tenth of the difference, or for a sentence about counts, to which it belongs.
        environment: variables to set.
        preload: source in C of an object that the loader preloads; empty for none.
        one_processor: whether the program is pinned to one processor.
        of_glibc: whether only programs with a shared glibc heed it.
    """

    name: str
    text: str
    suits: str
    environment: tuple[tuple[str, str], ...] = ()
    preload: str = ""
    one_processor: bool = False
    of_glibc: bool = False


_FAULTS = r"page faults \(kernel\)"
_MEMORY = rf"{_FAULTS}|\b(?:brk|mmap|munmap|madvise|mremap) \(system call\)"
_SMALL_PAGES = rf"{_FAULTS}|sizes of pages|in huge pages"

REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        "one processor",
        "all of its threads on one processor (taskset)",
        r"false sharing|\bfutex \(system call\)",
        one_processor=True,
    ),
    Remedy(
        "kept memory",
        "glibc's malloc keeps freed memory and takes large blocks from its heap (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, "
        "MALLOC_TOP_PAD_)",
        _MEMORY,
        environment=(
            ("MALLOC_TRIM_THRESHOLD_", str(1 << 30)),
            ("MALLOC_MMAP_THRESHOLD_", str(32 << 20)),  # its largest value, DEFAULT_MMAP_THRESHOLD_MAX
            ("MALLOC_TOP_PAD_", str(64 << 20)),
        ),
        of_glibc=True,
    ),
    Remedy(
        "huge pages",
        "glibc's malloc requests huge pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1)",
        _SMALL_PAGES,
        environment=(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),),
        of_glibc=True,
    ),
    Remedy(
        "kept mappings",
        "what the program maps itself stays when it is unmapped, and MADV_DONTNEED frees nothing (a preloaded mmap, munmap, madvise)",
        _MEMORY,
        preload=KEPT_MAPPINGS,
    ),
    Remedy(
        "huge mappings",
        "what the program maps itself may be in huge pages (a preloaded mmap and madvise request MADV_HUGEPAGE)",
        _SMALL_PAGES,
        preload=HUGE_MAPPINGS,
    ),
    Remedy(
        "no forced writes",
        "written data stays in the page cache (a preloaded fsync and fdatasync do nothing)",
        r"\bf(?:data)?sync \(system call\)",
        preload=NO_SYNC,
    ),
    Remedy(
        "page cache",
        "files are opened without O_DIRECT and O_SYNC (a preloaded open, openat and mkostemp)",
        r"\bp(?:read|write)\w* \(system call\)|ended by a disk",
        preload=PAGE_CACHE,
    ),
    Remedy(
        "no sleeps",
        "sleeps and the time-outs of poll end at once (a preloaded nanosleep, clock_nanosleep, usleep, sleep and poll)",
        r"\b(?:nanosleep|poll) \(system call\)",
        preload=NO_SLEEPS,
    ),
    Remedy(
        "room to grow",
        "a block that grows gets half more than it requests (a preloaded realloc)",
        r"\brealloc \(",
        preload=ROOM_TO_GROW,
    ),
    Remedy(
        "larger buffers",
        "streams of the C library buffer 64 KiB (a preloaded setvbuf)",
        r"\bwrite \(system call\)",
        preload=BUFFERS,
    ),
    Remedy(
        "TCP_NODELAY",
        "sockets send small segments at once (a preloaded socket and accept set TCP_NODELAY)",
        r"\b(?:read|recv\w*|poll|select|epoll_wait) \(system call\)",
        preload=NO_DELAY,
    ),
)


def remedies_for(named: Sequence[str]) -> tuple[Remedy, ...]:
    """Return the remedies that belong to functions with a tenth of a difference, and to sentences about counts."""
    return tuple(remedy for remedy in REMEDIES if any(re.search(remedy.suits, text) for text in named))


def change_of(remedy: Remedy, folder: Path) -> tuple[Change, str]:
    """Return what changes a request, and the path of the object that must then be mapped; empty for none.

    Args:
        remedy: to apply.
        folder: for the compiled object; it must be readable for the program.

    Raises:
        UserError: the object can't be compiled.
    """
    path = str(_compiled(remedy, folder)) if remedy.preload else ""

    def change(request: TrialRequest) -> TrialRequest:
        variables = dict(request.environment) | dict(remedy.environment)
        if path:
            variables[_PRELOAD] = ":".join(filter(None, (variables.get(_PRELOAD, ""), path)))
        cpus = (max(os.sched_getaffinity(0)),) if remedy.one_processor else request.cpus
        return msgspec.structs.replace(request, environment=tuple(variables.items()), cpus=cpus)

    return change, path


def _compiled(remedy: Remedy, folder: Path) -> Path:
    made = folder / f"{re.sub(r'[^a-zA-Z0-9_]', '-', remedy.name)}.so"
    require_command("cc", "Compiling a preloaded object")
    try:
        compile_c(remedy.preload, made, "-shared", "-fPIC", "-ldl")
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"the preloaded object can't be compiled: {error}") from error
    return made


def try_remedies(
    remedies: Sequence[Remedy],
    sides: tuple[RowVariant, RowVariant],
    metric: str,
    folder: Path,
    notify: Callable[[str], None],
) -> tuple[RemedyRuns, ...]:
    """Measure the slower variant with each remedy, in turns with both variants without it.

    Args:
        remedies: to try.
        sides: the slower variant, and the other one.
        metric: of the reference runs, ``wall`` or ``cpu``.
        folder: for objects to preload.
        notify: called with a line before each remedy.
    """
    return tuple(_tried(remedy, sides, metric, folder, notify) for remedy in remedies)


def _tried(
    remedy: Remedy, sides: tuple[RowVariant, RowVariant], metric: str, folder: Path, notify: Callable[[str], None]
) -> RemedyRuns:
    notify(f"trying a remedy, in turns with both variants without it: {remedy.name}")
    rows: list[tuple[float, float, float]] = []
    try:
        change, path = change_of(remedy, folder)
        for number in _rounds():
            fast_ns, slow_ns = (each.run(number, unchanged).metrics.get(metric, 0.0) for each in reversed(sides))
            with_it = sides[0].run(number, change)
            if problem := _no_effect(remedy, path, with_it.objects):
                raise UserError(problem)
            rows.append((fast_ns, slow_ns, with_it.metrics.get(metric, 0.0)))
    except UserError as error:
        return RemedyRuns(name=remedy.name, text=remedy.text, problem=error.message)
    faster, slower, remedied = zip(*rows, strict=True)
    return RemedyRuns(name=remedy.name, text=remedy.text, faster=faster, slower=slower, remedied=remedied)


def _no_effect(remedy: Remedy, path: str, objects: Sequence[str]) -> str:
    """Return why a remedy can't have an effect on a program; empty if it can.

    Args:
        remedy: that was applied.
        path: of the preloaded object; empty for none.
        objects: files that the program had mapped.
    """
    if path and os.path.realpath(path) not in map(os.path.realpath, objects):
        return "the program did not load the preloaded object: it is static, or ignores LD_PRELOAD"
    if remedy.of_glibc and not any(Path(each).name in {"libc.so.6", "libc.so.6.1"} for each in objects):
        return "the slower variant has no shared glibc, which alone heeds it"
    return ""


def _rounds() -> Iterator[int]:
    start = time.monotonic()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.monotonic() - start > BUDGET_S:
            return
        yield number
