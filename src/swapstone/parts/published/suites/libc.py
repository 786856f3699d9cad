# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `libc`: the workloads of the published comparison of C libraries, under the same names.

Each pass is a new child process. docs/workloads-libc.md describes each, and its differences to the musl project's libc-bench.
"""

from __future__ import annotations

from swapstone.core.model import Cpus, Source, Suite, Workload
from swapstone.core.workloads.metrics import COMPUTING, WAITING


def program(name: str, description: str, *, source: str = "", argument: str = "", parameter: str = "") -> Workload:
    """Return a workload that computes; `parameter` is the name of its `argument`."""
    return Workload(
        name=name,
        origin=Source(file=source or f"{name}.c"),
        arguments=(argument,) if argument else (),
        parameters=((parameter, argument),) if parameter else (),
        description=description,
        metrics=COMPUTING,
    )


def threaded(name: str, description: str, *, threads: int = 2, waits: bool = True) -> Workload:
    """Return a workload of threads on all processors."""
    return Workload(
        name=name,
        origin=Source(file=f"{name}.c"),
        description=description,
        metrics=WAITING if waits else COMPUTING,
        cpus=Cpus.ALL,
        threads=threads,
        waits=waits,
    )


def _strstr(label: str) -> Workload:
    description = f"find a needle of pattern {label} 50 times in 10000 copies of it of which only the last is whole"
    return program(
        f"b_string_strstr({label})", description, source="b_string_strstr.c", argument=label, parameter="pattern"
    )


def _regex_search(name: str, argument: str, expression: str) -> Workload:
    description = f"search 260000 bytes for the expression {expression}"
    return program(name, description, source="b_regex_search.c", argument=argument, parameter="expression")


SUITE = Suite(
    name="libc",
    is_default=True,
    description="what the published comparison of glibc with musl measured: malloc, strings, threads, stdio, regex",
    workloads=(
        program("b_malloc_sparse", "take 10000 zeroed blocks of 4000 bytes, give back all but every 150th"),
        program("b_malloc_bubble", "take 10000 zeroed blocks of 4000 bytes, give back all but the last"),
        program("b_malloc_tiny1", "take 10000 blocks of 16 to 64 bytes, give them back in order"),
        program("b_malloc_tiny2", "take 10000 blocks of 16 to 64 bytes, give them back scattered"),
        program("b_malloc_big1", "take 2000 blocks of 16 to 64 KiB, give them back in order"),
        program("b_malloc_big2", "take 2000 blocks of 16 to 64 KiB, give them back scattered"),
        threaded("b_malloc_thread_stress", "two threads take and give back blocks in 300 slots that they share"),
        threaded("b_malloc_thread_local", "two threads take and give back blocks in 300 slots each"),
        _strstr("abcd"),
        _strstr("azby"),
        _strstr("ac"),
        _strstr("aaac"),
        _strstr("aaaaac"),
        program("b_string_memset", "set 500000 bytes 100 times"),
        program("b_string_strchr", "find the last of 499999 letters 100 times"),
        program("b_string_strlen", "measure a text of 499999 bytes 100 times"),
        threaded("b_pthread_createjoin_serial1", "create a thread and join it, 2500 times"),
        threaded("b_pthread_createjoin_serial2", "create 50 threads, then join them, 50 times"),
        threaded("b_pthread_create_serial1", "create 2500 threads without joining them"),
        threaded("b_pthread_uselesslock", "lock and unlock an uncontended mutex 1000000 times", threads=1, waits=False),
        threaded("b_pthread_createjoin_minimal1", "as serial1, with the smallest stack and no guard"),
        threaded("b_pthread_createjoin_minimal2", "as serial2, with the smallest stack and no guard"),
        program("b_stdio_putcgetc", "write 5000000 bytes to a temporary file with putc, read them back with getc"),
        program("b_stdio_putcgetc_unlocked", "the same with putc_unlocked and getc_unlocked"),
        program("b_regex_compile", "compile the expression (a|b|c)*d*b 1000 times"),
        _regex_search("b_regex_search", "1", "(a|b|c)*d*b"),
        _regex_search("b_regex_search#2", "2", "a{25}b"),
    ),
)
