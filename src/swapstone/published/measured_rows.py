# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which workload does the work of a published row of lmbench, UnixBench and CoreMark."""

from __future__ import annotations

from swapstone.model import FrozenStruct


class MeasuredRow(FrozenStruct, frozen=True, kw_only=True):
    """A published row and the workload with the same work.

    Attributes:
        suite, metric, unit, condition: of the published figures; they name one row of the page.
        own_suite, workload: measured here.
        less: the workload whose time is subtracted, as the published program subtracts it; empty for none.
        plus: the workload whose time was subtracted from that of `less` before, so that it is added here; empty for none.
        same_kind: whether the workload is other work of the same kind: then ratios can be compared and values can't.
    """

    suite: str
    metric: str
    unit: str
    own_suite: str
    workload: str
    condition: str = ""
    less: str = ""
    plus: str = ""
    same_kind: bool = False


def _lmbench(metric: str, workload: str, unit: str = "us", less: str = "", plus: str = "") -> MeasuredRow:
    return MeasuredRow(
        suite="lmbench", metric=metric, unit=unit, own_suite="os", workload=workload, less=less, plus=plus
    )


def _unixbench(metric: str, test: str, unit: str = "lps", *, same_kind: bool = False) -> MeasuredRow:
    return MeasuredRow(
        suite="unixbench", metric=metric, unit=unit, own_suite="unix", workload=f"{test} (1 copy)", same_kind=same_kind
    )


def _coremark(condition: str, workload: str) -> MeasuredRow:
    return MeasuredRow(
        suite="coremark",
        metric="iterations",
        unit="1/s",
        condition=condition,
        own_suite="core",
        workload=workload,
        same_kind=True,
    )


_RINGS = ((2, 0), (2, 16), (2, 64), (8, 16), (8, 64), (16, 16), (16, 64))

LMBENCH: tuple[MeasuredRow, ...] = (
    _lmbench("null call", "lat_syscall(null)"),
    _lmbench("null I/O", "lat_syscall(io)"),
    _lmbench("stat", "lat_syscall(stat)"),
    _lmbench("open clos", "lat_syscall(open)"),
    _lmbench("slct TCP", "lat_select(tcp,100)"),
    _lmbench("sig inst", "lat_sig(install)"),
    _lmbench("sig hndl", "lat_sig(catch)", less="lat_sig(send)"),
    _lmbench("fork proc", "lat_proc(fork)"),
    _lmbench("exec proc", "lat_proc(exec)"),
    _lmbench("sh proc", "lat_proc(shell)"),
    *(_lmbench(f"{count}p/{kib}K ctxsw", f"lat_ctx({count},{kib})", less=f"lat_ctx(1,{kib})") for count, kib in _RINGS),
    _lmbench("Pipe", "lat_pipe"),
    _lmbench("AF UNIX", "lat_unix"),
    _lmbench("UDP", "lat_udp"),
    _lmbench("TCP", "lat_tcp"),
    _lmbench("TCP conn", "lat_connect"),
    _lmbench("0K File Create", "lat_fs(create,0)"),
    _lmbench("0K File Delete", "lat_fs(delete,0)"),
    _lmbench("10K File Create", "lat_fs(create,10240)"),
    _lmbench("10K File Delete", "lat_fs(delete,10240)"),
    _lmbench("Mmap Latency", "lat_mmap"),
    _lmbench("Prot Fault", "lat_sig(prot)", less="lat_sig(catch)", plus="lat_sig(send)"),
    _lmbench("Page Fault", "lat_pagefault", less="lat_pagefault(mmap)"),
    _lmbench("100fd selct", "lat_select(file,100)"),
    _lmbench("Pipe", "bw_pipe", "MB/s"),
    _lmbench("AF UNIX", "bw_unix", "MB/s"),
    _lmbench("TCP", "bw_tcp", "MB/s"),
    _lmbench("File reread", "bw_file_rd", "MB/s"),
    _lmbench("Mmap reread", "bw_mmap_rd", "MB/s"),
    _lmbench("Bcopy (libc)", "bw_mem(8m,bcopy)", "MB/s"),
    _lmbench("Bcopy(hand)", "bw_mem(8m,fcp)", "MB/s"),
    _lmbench("Mem read", "bw_mem(8m,frd)", "MB/s"),
    _lmbench("Mem write", "bw_mem(8m,fwr)", "MB/s"),
)
"""In the order of the page's tables."""

UNIXBENCH: tuple[MeasuredRow, ...] = (
    _unixbench("Dhrystone 2 using register variables", "integer", same_kind=True),
    _unixbench("Double-Precision Whetstone", "floating_point", "MWIPS", same_kind=True),
    _unixbench("Execl Throughput", "execl"),
    _unixbench("File Copy 1024 bufsize 2000 maxblocks", "fstime", "KBps"),
    _unixbench("File Copy 256 bufsize 500 maxblocks", "fsbuffer", "KBps"),
    _unixbench("File Copy 4096 bufsize 8000 maxblocks", "fsdisk", "KBps"),
    _unixbench("Pipe Throughput", "pipe"),
    _unixbench("Pipe-based Context Switching", "context1"),
    _unixbench("Process Creation", "spawn"),
    _unixbench("Shell Scripts (1 concurrent)", "shell1", "lpm"),
    _unixbench("Shell Scripts (8 concurrent)", "shell8", "lpm"),
    _unixbench("System Call Overhead", "syscall"),
)

COREMARK: tuple[MeasuredRow, ...] = (
    _coremark("1 thread", "core_all (1 thread)"),
    _coremark("4 threads", "core_all (n threads)"),
)

MEASURED_ROWS: tuple[MeasuredRow, ...] = (*LMBENCH, *UNIXBENCH, *COREMARK)
"""Every row. UnixBench's index is computed from its rows."""
