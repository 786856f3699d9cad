# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `libc-extra`: smaller workloads beyond the published comparison. docs/workloads-libc.md describes each."""

from __future__ import annotations

from swapstone.core.model import Cpus, Source, Suite, Workload
from swapstone.core.workloads.metrics import COMPUTING, WAITING

_SIZES = (8, 64, 512, 4096, 65536, 1048576)
_FUNCTIONS = ("exp", "log", "pow", "sin")


def _work(name: str, description: str) -> Workload:
    return Workload(
        name=name,
        origin=Source(file=f"{name}.c"),
        description=description,
        metrics=COMPUTING,
    )


def _sized(function: str, description: str) -> tuple[Workload, ...]:
    return tuple(
        Workload(
            name=f"{function}({size})",
            origin=Source(file=f"{function}.c"),
            arguments=(str(size),),
            parameters=(("block_bytes", str(size)),),
            description=f"{description} of {size} bytes",
            metrics=COMPUTING,
        )
        for size in _SIZES
    )


def _math(function: str) -> Workload:
    return Workload(
        name=f"math_{function}",
        origin=Source(file="math.c"),
        arguments=(function,),
        parameters=(("function", function),),
        description=f"{function} of 1000 numbers, 100 times over",
        metrics=COMPUTING,
    )


def _threads(name: str, description: str) -> Workload:
    return Workload(
        name=name,
        origin=Source(file=f"{name}.c"),
        description=description,
        metrics=WAITING,
        cpus=Cpus.ALL,
        threads=2,
        waits=True,
    )


SUITE = Suite(
    name="libc-extra",
    description="beyond the published comparison: blocks of memory, numbers, text, files, objects, threads",
    workloads=(
        *_sized("memcpy", "copy a block"),
        *_sized("memmove", "move an overlapping block"),
        *_sized("memset", "set a block"),
        *_sized("memchr", "find the last byte of a block"),
        _work("printf_float", "print 500 numbers in four formats"),
        _work("scanf_float", "read 500 numbers with sscanf, ten times over"),
        _work("strtod", "read 500 numbers with strtod, ten times over"),
        _work("qsort", "sort 10000 random numbers"),
        *(_math(function) for function in _FUNCTIONS),
        _work("utf8_bigbuf", "convert a text of 150000 characters at once, 50 times"),
        _work("utf8_onebyone", "convert 150000 characters one by one"),
        _work("getline", "read 10000 lines of a file"),
        _work("readdir", "list a directory of 1000 files, four times"),
        _work("dlopen", "load, use and unload 16 shared objects"),
        _work("startup", "start a program that does nothing and wait for its end, 20 times"),
        _threads("mutex_contended", "two threads add to one number 100000 times each under one mutex"),
        _threads("condvar_pingpong", "two threads hand a turn to and fro 2000 times"),
        _work("tls_access", "add 200000 times to a thread-local variable of a loaded object"),
    ),
)
