# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `os`: what the operating system's services cost, after the rows of lmbench, under the names of its programs.

docs/os-suite.md describes what one operation of each does: system calls, bytes and iterations.
"""

from __future__ import annotations

import functools

from swapstone.core.model import Metric, Source, Suite, Workload
from swapstone.core.workloads.metrics import BANDWIDTH, COMPUTING, MESSAGES, WAITING

_KIB, _MIB = 1 << 10, 1 << 20
_BLOCK, _MESSAGE = 64 * _KIB, 10 * _MIB


def _work(
    name: str,
    file: str,
    description: str,
    *,
    argument: str = "",
    parameters: tuple[tuple[str, str], ...] = (),
    metrics: tuple[Metric, ...] = COMPUTING,
    operation_bytes: int = 0,
) -> Workload:
    return Workload(
        name=name,
        origin=Source(file=file),
        arguments=(argument,) if argument else (),
        parameters=parameters,
        description=description,
        metrics=(*metrics, *((BANDWIDTH,) if operation_bytes else ())),
        operation_bytes=operation_bytes,
        waits=metrics is not COMPUTING,
    )


def _part(program: str, key: str, value: str, description: str, metrics: tuple[Metric, ...] = COMPUTING) -> Workload:
    name, file = f"{program}({value})", f"{program}.c"
    return _work(name, file, description, argument=value, parameters=((key, value),), metrics=metrics)


_call = functools.partial(_part, "lat_syscall", "call")
_signal = functools.partial(_part, "lat_sig", "what")
_process = functools.partial(_part, "lat_proc", "what", metrics=WAITING)


def _select(kind: str, what: str) -> Workload:
    return _work(
        f"lat_select({kind},100)",
        "lat_select.c",
        f"select() of 100 {what} for writing, all of them ready; those below 100 are examined",
        argument=f"{kind}:100",
        parameters=(("kind", kind), ("descriptors", "100")),
    )


def _ring(processes: int, kib: int) -> Workload:
    what = f"a ring of {processes} processes" if processes > 1 else "one process's own 96 pipes in turn"
    return _work(
        f"lat_ctx({processes},{kib})",
        "lat_ctx.c",
        f"pass a token on through {what}, and sum {kib} KiB before",
        argument=f"{processes}:{kib}",
        parameters=(("processes", str(processes)), ("array_bytes", str(kib * _KIB))),
        metrics=COMPUTING if processes == 1 else MESSAGES,
    )


def _round_trip(channel: str, what: str, size: int) -> Workload:
    return _work(
        f"lat_{channel}",
        "lat_ipc.c",
        f"send {size} byte{'s' if size > 1 else ''} to another process and back {what}",
        argument=channel,
        parameters=(("message_bytes", str(size)),),
        metrics=MESSAGES,
    )


def _files(what: str, description: str, size: int) -> Workload:
    return _work(
        f"lat_fs({what},{size})",
        "lat_fs.c",
        f"{description} of {size} bytes",
        argument=f"{what}:{size}",
        parameters=(("what", what), ("file_bytes", str(size))),
    )


def _pages(name: str, part: str, description: str) -> Workload:
    return _work(name, "lat_pagefault.c", description, argument=part, parameters=(("part", part),))


def _stream(channel: str, what: str, block: int = _BLOCK) -> Workload:
    return _work(
        f"bw_{channel}",
        "bw_ipc.c",
        f"receive {f'{block // _MIB} MiB' if block >= _MIB else f'{block // _KIB} KiB'} from another process {what}",
        argument=channel,
        parameters=(("block_bytes", str(block)),),
        metrics=MESSAGES,
        operation_bytes=block,
    )


def _file(name: str, argument: str, description: str) -> Workload:
    parameters = (("file_bytes", str(4 * _MIB)),)
    return _work(name, "bw_file.c", description, argument=argument, parameters=parameters, operation_bytes=4 * _MIB)


def _memory(size: str, size_bytes: int) -> tuple[Workload, ...]:
    ways = (
        ("frd", "sum every word of an array"),
        ("fwr", "store to every word of an array"),
        ("fcp", "copy an array word by word"),
        ("bcopy", "copy an array with the C library's bcopy()"),
    )
    return tuple(
        _work(
            f"bw_mem({size},{way})",
            "bw_mem.c",
            f"{what}, {size_bytes // _KIB} KiB",
            argument=f"{size}:{way}",
            parameters=(("array_bytes", str(size_bytes)), ("way", way)),
            operation_bytes=size_bytes,
        )
        for way, what in ways
    )


def _chase(size: str, size_bytes: int) -> Workload:
    return _work(
        f"lat_mem_rd({size})",
        "lat_mem_rd.c",
        f"load a pointer from the address that the load before it gave, in {size_bytes // _KIB} KiB",
        argument=size,
        parameters=(("array_bytes", str(size_bytes)), ("stride_bytes", "128")),
    )


SUITE = Suite(
    name="os",
    description="the operating system's services, after lmbench: calls, signals, processes, pipes, sockets, files, memory",
    factors_unbooted=("kernel", "rootfs"),
    workloads=(
        _call("null", "getppid()"),
        _call("read", "read() of one byte of /dev/zero"),
        _call("write", "write() of one byte to /dev/null"),
        _call("io", "read() or write() of one byte, in turn"),
        _call("stat", "stat() of a file by its name"),
        _call("fstat", "fstat() of an open file"),
        _call("open", "open() a file and close() it"),
        _select("file", "descriptors of a regular file"),
        _select("tcp", "descriptors of a TCP connection"),
        _signal("install", "sigaction() of a handler"),
        _signal("send", "kill() of the own process with signal 0, which sends nothing"),
        _signal("catch", "kill() of the own process, whose handler runs"),
        _signal("prot", "a write to a page that is mapped read-only, whose handler runs"),
        _process("fork", "fork() a process that ends at once, and wait for it"),
        _process("exec", "fork(), execute a program that writes one line to a closed file, and wait for it"),
        _process("shell", "fork(), execute a shell that executes that program, and wait for it"),
        *(_ring(1, kib) for kib in (0, 16, 64)),
        *(_ring(processes, kib) for processes, kib in ((2, 0), (2, 16), (2, 64))),
        *(_ring(processes, kib) for processes, kib in ((8, 16), (8, 64), (16, 16), (16, 64))),
        _round_trip("pipe", "through pipes", 1),
        _round_trip("unix", "through a pair of stream sockets", 1),
        _round_trip("udp", "over UDP on the loopback device", 4),
        _round_trip("tcp", "over TCP on the loopback device", 1),
        _work(
            "lat_connect",
            "lat_connect.c",
            "open a TCP connection to a server on the loopback device, which reads its end, and close it",
            metrics=MESSAGES,
        ),
        *(_files(what, f"{what} a file", size) for size in (0, 10240) for what in ("create", "delete")),
        _work(
            "lat_mmap", "lat_mmap.c", "map a file of 8 MiB, write a byte in every 16 KiB of its first tenth, unmap it"
        ),
        _pages("lat_pagefault", "read", "read a byte of a page of a mapped file for the first time"),
        _pages("lat_pagefault(mmap)", "mmap", "a page of a file that is mapped and unmapped, and not read"),
        _stream("pipe", "through a pipe"),
        _stream("unix", "through a pair of stream sockets"),
        _stream("tcp", "over TCP on the loopback device", _MESSAGE),
        _file("bw_file_rd", "read", "read a cached file of 4 MiB, 64 KiB at a time, and sum its words"),
        _file("bw_mmap_rd", "mmap", "sum the words of a mapped, cached file of 4 MiB"),
        *_memory("16k", 16 * _KIB),
        *_memory("8m", 8 * _MIB),
        _chase("1k", _KIB),
        _chase("128k", 128 * _KIB),
        _chase("8m", 8 * _MIB),
    ),
)
