# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each workload calls the functions that it is named for, and equally often with both C libraries.

A header can define a function inline, and a compiler can expand or drop a call. Then the same name means other work.
"""

import platform
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import ANY

import pytest

from swapstone.core.model import Source
from swapstone.core.workloads import all_suites, find_workload
from swapstone.parts.build.build import Build
from tests.shared import Shared
from tests.unit.builders import source_of
from tests.unit.workloads.counted_calls import (
    calls_of_a_pass,
    compile_object,
    compile_shared,
    plain_name,
    undefined_symbols,
)
from tests.unit.workloads.programs import LEVELS, kind_of_program, recipe_for, sampled

_THREAD = {"pthread_create": 1, "pthread_join": 1}
_TWO_THREADS = {"pthread_create": 2, "pthread_join": 2}
_EACH = {"pthread_create": 2500, "pthread_join": 2500}
_MINIMAL = {"pthread_attr_init": 1, "pthread_attr_setguardsize": 1, "pthread_attr_setstacksize": 1, "sysconf": 1}
_FROM_HEAP = {"malloc": 1, "free": 1}

# How the two threads meet decides how often they call what has no number.
CALLS: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("libc", "b_malloc_sparse"): {"malloc": 10000, "memset": 10000, "free": 9933},
    ("libc", "b_malloc_bubble"): {"malloc": 10000, "memset": 10000, "free": 9999},
    ("libc", "b_malloc_tiny1"): {"malloc": 10000, "free": 10000},
    ("libc", "b_malloc_tiny2"): {"malloc": 10000, "free": 2807},
    ("libc", "b_malloc_big1"): {"malloc": 2000, "free": 2000},
    ("libc", "b_malloc_big2"): {"malloc": 2000, "free": 807},
    ("libc", "b_malloc_thread_stress"): {
        **_TWO_THREADS,
        "malloc": ANY,
        "free": ANY,
        "pthread_mutex_init": 300,
        "pthread_mutex_lock": ANY,
        "pthread_mutex_unlock": ANY,
    },
    ("libc", "b_malloc_thread_local"): {
        **_TWO_THREADS,
        "malloc": 100079,
        "free": 300079,
        "pthread_mutex_init": 600,
        "pthread_mutex_lock": 300079,
        "pthread_mutex_unlock": 300079,
    },
    ("libc", "b_string_strstr(abcd)"): {**_FROM_HEAP, "strlen": 1, "memcpy": 10000, "strstr": 50},
    ("libc", "b_string_memset"): {**_FROM_HEAP, "memset": 100},
    ("libc", "b_string_strchr"): {**_FROM_HEAP, "memset": 1, "strchr": 100},
    ("libc", "b_string_strlen"): {**_FROM_HEAP, "memset": 1, "strlen": 100},
    ("libc", "b_pthread_createjoin_serial1"): _EACH,
    ("libc", "b_pthread_createjoin_serial2"): _EACH,
    ("libc", "b_pthread_create_serial1"): {
        "pthread_attr_init": 1,
        "pthread_attr_setstacksize": 1,
        "pthread_create": 2500,
    },
    ("libc", "b_pthread_uselesslock"): {
        **_THREAD,
        "pthread_mutex_init": 1,
        "pthread_mutex_lock": 1000000,
        "pthread_mutex_unlock": 1000000,
    },
    ("libc", "b_pthread_createjoin_minimal1"): {**_EACH, **_MINIMAL},
    ("libc", "b_pthread_createjoin_minimal2"): {**_EACH, **_MINIMAL},
    ("libc", "b_stdio_putcgetc"): {"tmpfile": 1, "putc": 5000000, "fseek": 1, "getc": 5000000, "fclose": 1},
    ("libc", "b_stdio_putcgetc_unlocked"): {
        "tmpfile": 1,
        "putc_unlocked": 5000000,
        "fseek": 1,
        "getc_unlocked": 5000000,
        "fclose": 1,
    },
    ("libc", "b_regex_compile"): {"regcomp": 1000, "regfree": 1000},
    ("libc", "b_regex_search"): {"memset": 1, "regcomp": 1, "regexec": 1, "regfree": 1},
    ("libc-extra", "memcpy(64)"): {"memcpy": 200000},
    ("libc-extra", "memmove(64)"): {"memmove": 200000},
    ("libc-extra", "memset(64)"): {"memset": 200000},
    ("libc-extra", "memchr(64)"): {"memchr": 200000},
    ("libc-extra", "printf_float"): {"snprintf": 2000},
    ("libc-extra", "scanf_float"): {"sscanf": 5000},
    ("libc-extra", "strtod"): {"strtod": 5000},
    ("libc-extra", "qsort"): {"memcpy": 1, "qsort": 1},
    ("libc-extra", "math_exp"): {"exp": 100000, "fabs": 1},
    ("libc-extra", "math_log"): {"log": 100000, "fabs": 1},
    ("libc-extra", "math_pow"): {"pow": 100000, "fabs": 1},
    ("libc-extra", "math_sin"): {"sin": 100000, "fabs": 1},
    ("libc-extra", "utf8_bigbuf"): {"mbstowcs": 50},
    ("libc-extra", "utf8_onebyone"): {"mbrtowc": 150000},
    ("libc-extra", "getline"): {"rewind": 1, "getline": 10001, "free": 1},
    ("libc-extra", "readdir"): {"opendir": 4, "readdir": 4012, "strlen": 4008, "closedir": 4},
    ("libc-extra", "dlopen"): {  # with set-up and tear-down, because each pass is a child of its own
        **_FROM_HEAP,
        "mkdtemp": 1,
        "strcpy": 1,
        "open": 17,
        "read": 1,
        "write": 16,
        "close": 17,
        "snprintf": 48,
        "dlopen": 16,
        "dlsym": 16,
        "dlclose": 16,
        "unlink": 16,
        "rmdir": 1,
    },
    ("libc-extra", "startup"): {"fork": 20, "execv": 20, "waitpid": 20},
    ("libc-extra", "mutex_contended"): {
        **_TWO_THREADS,
        "pthread_barrier_wait": 2,
        "pthread_mutex_lock": 200000,
        "pthread_mutex_unlock": 200000,
    },
    ("libc-extra", "condvar_pingpong"): {
        **_THREAD,
        "pthread_mutex_lock": 2,
        "pthread_cond_wait": ANY,
        "pthread_cond_signal": 4000,
        "pthread_mutex_unlock": 2,
    },
    ("libc-extra", "tls_access"): {},  # the companion's calls: see below
    ("throughput", "integer"): {"memset": 1, "strcpy": 16, "strcmp": 60000},
    ("throughput", "floating_point"): {
        "fabs": 90000,
        **dict.fromkeys(("sin", "cos", "atan", "sqrt", "exp", "log"), 30000),
    },
    ("throughput", "exec"): {
        "fork": 1,
        "execl": 25,
        "waitpid": 1,
        "snprintf": 75,
        "atoi": 50,
        "sscanf": 25,
        "time": 26,
    },
    ("throughput", "file_copy(1024)"): {"lseek": 2, "read": 2001, "write": 2000},
    ("throughput", "pipe"): {"pipe": 1, "write": 4000, "read": 4000, "close": 2},
    ("throughput", "context_switch"): {
        "pipe": 2,
        "fork": 1,
        "close": 6,
        "write": 4000,
        "read": 4000,
        "waitpid": 1,
        "_exit": 1,
    },
    ("throughput", "process_creation"): {"fork": 100, "_exit": 100, "waitpid": 100},
    ("throughput", "shell_scripts(1)"): {
        "snprintf": 2,
        "strcpy": 1,
        "fork": 1,
        "execv": 1,
        "waitpid": 1,
        "fopen": 1,
        "fscanf": 1,
        "fclose": 1,
        "unlink": 1,
    },
    ("float", "float_calls(exact)"): {},
    ("float", "float_loops(100)"): {},
    ("float", "float_dot(exact)"): {},
    ("float", "float_matrix(exact)"): {},
    ("float", "float_fft(exact)"): {},
    ("float", "float_mandelbrot(exact)"): {},
    ("float", "float_printf(exact)"): {"snprintf": 600},
    ("throughput", "syscall"): {"dup": 4000, "close": 4000, "getpid": 4001, "getuid": 4001, "umask": 4001},
    ("os", "lat_syscall(null)"): {"getppid": 8000},
    ("os", "lat_select(tcp,100)"): {"select": 1000},
    ("os", "lat_sig(install)"): {"sigemptyset": 1, "sigaction": 4000},
    ("os", "lat_proc(fork)"): {"fork": 40, "_exit": 40, "waitpid": 40},
    ("os", "lat_ctx(1,0)"): {"read": 1600, "write": 1600},
    ("os", "lat_tcp"): {"read": ANY, "write": 2000},  # the end of the other process cuts its last read
    ("os", "lat_udp"): {"send": 1000, "recv": 1000, "recvfrom": ANY, "sendto": 1000},
    ("os", "lat_connect"): {
        "socket": 100,
        "setsockopt": 100,
        "connect": 100,
        "accept": ANY,
        "close": 200,
        "read": 101,
        "write": 1,
    },
    ("os", "lat_fs(create,10240)"): {  # with set-up and tear-down, because each pass is a child of its own
        "mkdtemp": 1,
        "mkdir": 3,
        "snprintf": 203,
        "creat": 200,
        "write": 200,
        "close": 200,
        "stat": 1,
        "unlink": 200,
        "rmdir": 4,
    },
    ("os", "lat_mmap"): {"mmap": 20, "munmap": 20},
    ("os", "lat_pagefault"): {"mmap": 10, "msync": 10, "munmap": 10},
    ("os", "bw_pipe"): {"read": ANY, "write": ANY},
    ("os", "bw_file_rd"): {"lseek": 4, "read": 256},
    ("os", "bw_mem(8m,bcopy)"): {"bcopy": 2},
    ("os", "lat_mem_rd(1k)"): {},
    ("unix", "shell1 (1 copy)"): {
        "snprintf": 4,
        "fork": 1,
        "execve": 1,
        "waitpid": 1,
        "fopen": 1,
        "fscanf": 1,
        "fclose": 1,
        "unlink": 1,
    },
    ("core", "core_all (1 thread)"): {"calloc": 1, "memset": 1, "free": 1},
}
"""Calls of the C library in one pass, by suite and workload. Workloads that differ in a parameter call the same functions; lat_udp
calls others than lat_tcp."""

SHORT = {
    ("libc", "b_malloc_tiny1"),
    ("libc", "b_pthread_uselesslock"),
    ("libc-extra", "dlopen"),
    ("throughput", "pipe"),
}
"""Workloads of the short tests. All together take a minute."""

WITHOUT_HARNESS = {
    "fill.c": {"mmap"},
    "touch.c": {"mmap"},
    "server.c": {"malloc", "free"},
    "wakeup.c": {"clock_nanosleep"},
}
"""What the programs that print figures of their own, and the server, call."""

SOURCES = [
    (suite.name, workload, workload.origin)
    for suite in all_suites()
    for workload in suite.workloads
    if isinstance(workload.origin, Source)
]


def test_the_tables_have_every_workload() -> None:
    listed = {source_of(find_workload(*place)).file for place in CALLS}
    assert {origin.file for _, _, origin in SOURCES if origin.harness} == listed
    assert {origin.file for _, _, origin in SOURCES if not origin.harness} == set(WITHOUT_HARNESS)
    several = {workload.origin for _, workload, origin in SOURCES if origin.file == "math.c"}
    assert len(several) == 1
    assert {workload.name for _, workload, origin in SOURCES if origin.file == "math.c"} == {
        name for _, name in CALLS if name.startswith("math_")
    }


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the stubs that count calls are of x86-64")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "place",
    sampled(CALLS, lambda place: kind_of_program(find_workload(*place)), SHORT),
    ids=lambda place: place[1],
)
def test_a_pass_calls_what_its_name_promises_equally_often_with_both_c_libraries(
    place: tuple[str, str], level: str, tmp_path: Path, shared: Shared
) -> None:
    assert calls_of_a_pass(find_workload(*place), level, tmp_path, shared) == CALLS[place]


def needed(file: str) -> set[str]:
    """Return the functions that a source calls in its passes."""
    if file in WITHOUT_HARNESS:
        return WITHOUT_HARNESS[file]
    return {name for place, calls in CALLS.items() if source_of(find_workload(*place)).file == file for name in calls}


COMBINATIONS = [
    (compiler, optimization, level)
    for compiler in ("gcc", "clang")
    for optimization in ("O0", "O2", "O3", "Os")
    for level in LEVELS
]
SAMPLE = {("gcc", "O3", "glibc")}
"""The level of optimization that expands most. All combinations take minutes."""

MOST_EXPANDED = ("libc", "libc-extra")
"""Suites named for functions that compilers expand, such as memcpy(). The others call mostly the kernel."""


@pytest.mark.slow  # compiles every workload
@pytest.mark.parametrize(
    ("compiler", "optimization", "level"),
    [pytest.param(*each, marks=[] if each in SAMPLE else [pytest.mark.exhaustive]) for each in COMBINATIONS],
)
def test_no_compiler_expands_these_calls(
    compiler: str, optimization: str, level: str, tmp_path: Path, exhaustive: bool
) -> None:
    recipe = recipe_for(level, compiler=compiler, optimization=optimization)
    missing = {}
    for file in sorted({origin.file for suite, _, origin in SOURCES if exhaustive or suite in MOST_EXPANDED}):
        symbols = {plain_name(name) for name in undefined_symbols(compile_object(recipe, file, tmp_path / "object.o"))}
        if lost := needed(file) - symbols:
            missing[file] = lost
    assert missing == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have other names for it")
@pytest.mark.parametrize("level", LEVELS)
def test_the_thread_local_variable_of_tls_access_is_found_by_the_c_library(level: str, tmp_path: Path) -> None:
    companion = compile_shared(recipe_for(level), "companions/counter.c", tmp_path / "counter.so")
    assert "__tls_get_addr" in undefined_symbols(companion)


def test_calls_that_a_header_expands_are_missed(tmp_path: Path) -> None:
    """The check itself: with glibc's inline functions, a byte is no call."""
    file = source_of(find_workload("libc", "b_stdio_putcgetc_unlocked")).file
    recipe = recipe_for("glibc")
    inline = recipe.changed(Build, cflags=(*recipe.of(Build).cflags, "-include", "stdio.h"))  # before harness.h
    symbols = undefined_symbols(compile_object(inline, file, tmp_path / "object.o"))
    assert needed(file) - set(symbols) == {"putc_unlocked", "getc_unlocked"}
