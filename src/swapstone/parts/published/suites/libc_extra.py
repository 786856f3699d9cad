# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `libc-extra`: smaller workloads beyond the published comparison. docs/workloads-libc.md describes each."""

from __future__ import annotations

from swapstone.core.model import Suite, Workload
from swapstone.parts.published.suites.libc import program, threaded

_SIZES = (8, 64, 512, 4096, 65536, 1048576)
_FUNCTIONS = ("exp", "log", "pow", "sin")


def _sized(function: str, description: str) -> tuple[Workload, ...]:
    return tuple(
        program(
            f"{function}({size})",
            f"{description} of {size} bytes",
            source=f"{function}.c",
            argument=str(size),
            parameter="block_bytes",
        )
        for size in _SIZES
    )


SUITE = Suite(
    name="libc-extra",
    description="beyond the published comparison: blocks of memory, numbers, text, files, objects, threads",
    workloads=(
        *_sized("memcpy", "copy a block"),
        *_sized("memmove", "move an overlapping block"),
        *_sized("memset", "set a block"),
        *_sized("memchr", "find the last byte of a block"),
        program("printf_float", "print 500 numbers in four formats"),
        program("scanf_float", "read 500 numbers with sscanf, ten times over"),
        program("strtod", "read 500 numbers with strtod, ten times over"),
        program("qsort", "sort 10000 random numbers"),
        *(
            program(
                f"math_{function}",
                f"{function} of 1000 numbers, 100 times over",
                source="math.c",
                argument=function,
                parameter="function",
            )
            for function in _FUNCTIONS
        ),
        program("utf8_bigbuf", "convert a text of 150000 characters at once, 50 times"),
        program("utf8_onebyone", "convert 150000 characters one by one"),
        program("getline", "read 10000 lines of a file"),
        program("readdir", "list a directory of 1000 files, four times"),
        program("dlopen", "load, use and unload 16 shared objects"),
        program("startup", "start a program that does nothing and wait for its end, 20 times"),
        threaded("mutex_contended", "two threads add to one number 100000 times each under one mutex"),
        threaded("condvar_pingpong", "two threads hand a turn to and fro 2000 times"),
        program("tls_access", "add 200000 times to a thread-local variable of a loaded object"),
    ),
)
