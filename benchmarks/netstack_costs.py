# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions and CPU time of network stacks by class of work.

Instructions: one stack on an in-memory link with a virtual clock, under callgrind, which counts the work of the measured stack's side only.
Each run is repeated and must give the same total. The results don't depend on the machine's load. They depend a little on its C library,
which selects its copy functions by the processor.

--fixes counts each stack without each of its fixes too, and prints what the fix adds or saves.

Time (--perf): samples of the server under wrk over a TAP in a network namespace, in user and system. A write to a TAP runs the client's
receive path in the server's system call. Without frame pointers the user part of stacks may be truncated; the innermost function is
right. --out writes folded stacks and flame graphs.

--bulk measures bulk data the same way, the kernel's stack too: processor time of the server for each megabyte, and where it goes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import netstack_lab
from benchmarks.netstack import build as build_bench
from benchmarks.netstack import no_rust
from benchmarks.netstack_lab import SERVER, Lab, UnavailableError
from benchmarks.netstack_link import build
from benchmarks.netstack_profile import (
    TABLE,
    Classes,
    Cost,
    functions,
    keep,
    read_callgrind,
    read_perf,
    split,
)
from benchmarks.netstack_tables import number, table

from swapstone.factors.netstack_fixes import FIXES
from swapstone.instruments.callgrind_output import total
from swapstone.instruments.perf import read as read_recording
from swapstone.model import UserError

STACKS = ("lwip", "smoltcp")
SUBJECT = "swapstone_net_virtual_subject"
BULK_BUFFER = "1048576"
BULK = {"out": ("source", ("sink",)), "in": ("sink", ("--abandon", "source"))}
"""Bulk data out of the server and into it: the server's role, and the client's."""
_DEPTH = 24
_TIMEOUT_S = 900.0


@dataclasses.dataclass(frozen=True)
class Work:
    """A kind of work under callgrind.

    Attributes:
        name: in tables.
        unit: the divisor of its cost.
        arguments: of swapstone-net-virtual, for a number of units.
    """

    name: str
    unit: str
    arguments: Callable[[int], tuple[str, ...]]


WORKS = (
    Work("bulk out", "byte", lambda size: ("--bytes", str(size), "out")),
    Work("bulk in", "byte", lambda size: ("--bytes", str(size), "in")),
    Work("small requests", "request", lambda count: ("-n", str(count), "requests")),
)


def callgrind(binary: Path, arguments: Sequence[str], stack: str, folder: Path) -> list[Cost]:
    """Count a run's instructions, twice.

    Args:
        binary: swapstone-net-virtual.
        arguments: of the work.
        stack: the measured one; its peer is smoltcp.
        folder: for callgrind's output.

    Raises:
        RuntimeError: callgrind failed, its total is not the sum of its lines, or the second run differs from the first.
    """
    found: list[list[Cost]] = []
    for turn in range(2):
        out = folder / f"callgrind.{turn}"
        command = (
            *("valgrind", "--tool=callgrind", f"--toggle-collect={SUBJECT}", f"--separate-callers={_DEPTH}"),
            *(f"--callgrind-out-file={out}", str(binary), "--stack", stack, "--peer", "smoltcp"),
            *("--no-check", "--no-digest", *arguments),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"{stack}: {done.stderr.strip()[-1000:]}")
        if not json.loads(done.stdout)["whole"]:
            raise RuntimeError(f"{stack}: the run under callgrind did not end")
        text = out.read_text(encoding="utf-8", errors="replace")
        costs = list(read_callgrind(text.splitlines()))
        counted = sum(cost.weight for cost in costs)
        if counted == 0 or counted != total(text):
            raise RuntimeError(f"{stack}: the lines have {counted} instructions, callgrind's total is {total(text)}")
        found.append(costs)
    first, second = (sum(cost.weight for cost in costs) for costs in found)
    if first != second:
        raise RuntimeError(f"{stack}: {first} instructions, then {second}")
    return found[0]


def perf(stack: str, binary: Path, seconds: int, folder: Path) -> list[tuple[Cost, bool]]:
    """Sample a server over a TAP under wrk.

    Args:
        stack: its stack.
        binary: swapstone-net-bench.
        seconds: duration of wrk's run.
        folder: for perf's output.

    Returns:
        The samples, and whether each was in the kernel.

    Raises:
        UnavailableError: a tool or permission is missing.
    """
    data = folder / "perf.data"
    wrapper = _recorded(binary, data)
    results: list[str] = []
    with Lab(stack, offload=True) as lab, lab.serving(wrapper, ("http",), results):
        output, in_time = lab.run(("wrk", "-t1", "-c64", f"-d{seconds}s", f"http://{SERVER}/"), seconds + 60.0)
    if not in_time or "Requests/sec" not in output:
        raise UnavailableError(f"wrk output: {output.strip()[-300:]}")
    return _samples(data)


def _recorded(binary: Path, data: Path) -> Path:
    """Return a program that runs another one and records its samples."""
    wrapper = data.with_name("recorded")
    wrapper.write_text(f'#!/bin/sh\nexec perf record -q -F 499 -g -e cpu-clock -o "{data}" -- "{binary}" "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def _samples(data: Path) -> list[tuple[Cost, bool]]:
    try:
        samples = list(read_perf(read_recording(data)))
    except UserError as error:
        raise UnavailableError(str(error)) from error
    if not samples:
        raise UnavailableError("perf has recorded no samples")
    return samples


def bulk(stack: str, way: str, server: Path, client: Path, seconds: int) -> dict[str, Any]:
    """Transfer bulk data on one connection between a server and the kernel's client.

    Args:
        stack: the server's.
        way: of `BULK`.
        server: swapstone-net-bench, or a program that runs it.
        client: swapstone-net-bench.
        seconds: duration.

    Returns:
        `bytes` that were received and for how long (`active_s`), and the last line of the `server`, if it printed one.

    Raises:
        UnavailableError: a requirement is missing, or the transfer failed.
    """
    role, others = BULK[way]
    buffers = ("--send-buffer", BULK_BUFFER, "--receive-buffer", BULK_BUFFER)
    results: list[str] = []
    command = (str(client), "--stack", "kernel", "--connect", f"{SERVER}:80", "--seconds", str(seconds), *others)
    with Lab(stack, offload=True) as lab, lab.serving(server, (*buffers, role), results):
        output, in_time = lab.run(command, seconds + 60.0)
    try:
        own = json.loads(output.strip().splitlines()[-1])
        lines = results[0].strip().splitlines()
        found = json.loads(lines[-1]) if lines else {}
        receiver = own if way == "out" else found
        bytes_in, active_s = receiver.get("bytes_in", 0), receiver.get("active_s", 0.0)
    except (ValueError, AttributeError, IndexError) as error:
        raise UnavailableError(f"bulk {way} on {stack}: {output.strip()[-300:]}") from error
    if not in_time:
        raise UnavailableError(f"bulk {way} on {stack} did not end")
    return {"server": found, "bytes": bytes_in, "active_s": active_s}


KERNEL_PLACES = (
    ("copy", ("copy_from_iter", "copy_to_iter", "copy_user", "rep_movs", "copy_page_from", "copy_page_to", "skb_copy")),
    ("TCP of the receiver", ("tcp_v4_rcv", "__netif_receive_skb", "ip_rcv")),
    ("device", ("tun_", "veth_", "netif_", "dev_hard_start_xmit", "__dev_queue_xmit", "alloc_skb", "sock_alloc")),
    ("own TCP", ("tcp_sendmsg", "tcp_recvmsg", "tcp_", "inet_", "sock_")),
    ("wait", ("poll", "schedule", "epoll", "futex")),
)
"""Where a sample in the kernel is counted: the first place of which a function of the stack contains one of the texts."""
REST = "other system call"


def place(stack: Sequence[str]) -> str:
    """Return the place of a sample in the kernel; of copies the innermost function decides, of the others any."""
    for name, texts in KERNEL_PLACES:
        searched = stack[-1:] if name == "copy" else stack
        if any(text in function for function in searched for text in texts):
            return name
    return REST


def _transfer(asked: argparse.Namespace) -> list[dict[str, Any]]:
    if shutil.which("perf") is None or (reason := netstack_lab.why_not(("kernel", *STACKS))) is not None:
        raise UnavailableError("there is no perf" if shutil.which("perf") is None else str(reason))
    netstack_lab.sweep()
    binary = build_bench(count=False)
    found = []
    for way in BULK:
        for stack in ("kernel", *STACKS):
            print(f"bulk {way} on {stack}", file=sys.stderr)
            plain = bulk(stack, way, binary, binary, asked.seconds)
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder) / "perf.data"
                bulk(stack, way, _recorded(binary, data), binary, asked.seconds)
                samples = _samples(data)
            keep(asked.out, f"bulk {way} {stack} sampled", [cost for cost, _ in samples])
            places = dict.fromkeys((*(name for name, _ in KERNEL_PLACES), REST), 0)
            for cost, inside in samples:
                if inside:
                    places[place(cost.stack)] += 1
            user = sum(not inside for _, inside in samples)
            found.append({"way": way, "stack": stack, **plain, "samples": len(samples), "user": user, "places": places})
    return found


def transfers(found: Sequence[dict[str, Any]]) -> str:
    """Return the table of bulk data: processor time in microseconds for each megabyte, split by the shares of samples."""
    places = list(found[0]["places"])
    rows = []
    for one in found:
        server, megabytes = one["server"], one["bytes"] / 1e6
        each = {part: server[f"{part}_s"] * 1e6 / megabytes for part in ("user", "system")}
        kernel = max(1, sum(one["places"].values()))
        frames = server["statistics"]["frames_in"] + server["statistics"]["frames_out"]
        rows.append(
            [
                f"{one['way']}, {one['stack']}",
                number(megabytes * 8 / one["active_s"]),
                number(each["user"] + each["system"]),
                number(each["user"]),
                *(number(each["system"] * one["places"][name] / kernel) for name in places),
                number(frames / megabytes) if frames else "-",
                str(one["samples"]),
            ]
        )
    return table(["", "Mbit/s", "us/MB", "user", *places, "frames/MB", "samples"], rows)


def in_kernel(costs: Sequence[Cost], classes: Classes) -> dict[str, int]:
    """Classify kernel samples as copy, checksum or system call."""
    found = dict.fromkeys(classes.names(), 0)
    for cost in costs:
        name = classes.of(Cost(cost.stack[-1:], "", 1))
        found[name if name in {"copy", "checksum"} else "system call"] += cost.weight
    return found


def tables(found: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """Return a table of instructions for each kind of work: a line for each stack, a column for each class."""
    parts = []
    for work in dict.fromkeys(one["work"] for one in found):
        mine = [one for one in found if one["work"] == work]
        used = [name for name in names if any(one["split"][name] for one in mine)]
        rows = [
            [
                one["stack"],
                str(one["instructions"]),
                number(one["instructions"] / one["units"]),
                *(number(one["split"][name] / one["units"]) for name in used),
            ]
            for one in mine
        ]
        unit = mine[0]["unit"]
        parts.append(f"Instructions a {unit}, {work}\n\n" + table(["", "in all", f"a {unit}", *used], rows))
    return "\n\n".join(parts)


def variants() -> list[str]:
    """Return the names of all stacks: with all fixes, with none, and without each of them."""
    return [
        name
        for stack in STACKS
        for name in (stack, f"{stack}:shipped", *(f"{stack}:without-{fix}" for fix in FIXES[stack]))
    ]


def fix_tables(found: Sequence[dict[str, Any]]) -> str:
    """Return a table for each stack: what its fixes together and each of them add to the instructions of each kind of work.

    Of bulk data for 1000 bytes. The difference is that of a run with all fixes and a run without this one, so fixes that depend on each
    other do not sum up.
    """
    parts = []
    counts = {(one["work"], one["stack"]): one["instructions"] / one["units"] for one in found}
    works = list(dict.fromkeys((one["work"], one["unit"]) for one in found))
    for stack in dict.fromkeys(one["stack"].partition(":")[0] for one in found):
        rows = []
        for name in dict.fromkeys(one["stack"] for one in found if one["stack"].startswith(f"{stack}:")):
            label = "all together" if name.endswith(":shipped") else f"`{name.partition(':without-')[2]}`"
            cells = []
            for work, unit in works:
                scale = 1000 if unit == "byte" else 1
                all_on = counts[work, stack] * scale
                added = all_on - counts[work, name] * scale
                cells.append(f"{added:+.1f} ({added / all_on:+.2%})" if round(added, 1) else "0")
            rows.append([label, *cells])
        head = ["fix", *(f"{work}, {'1000 bytes' if unit == 'byte' else f'a {unit}'}" for work, unit in works)]
        whole = ", ".join(
            f"{number(counts[work, stack] * (1000 if unit == 'byte' else 1))} for {work}" for work, unit in works
        )
        parts.append(f"Instructions that the fixes of {stack} add, of {whole}\n\n" + table(head, rows))
    return "\n\n".join(parts)


def shares(found: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """Return the table of samples: user and system, and the share of each class in per cent."""
    used = [name for name in names if any(one["split"][name] for one in found)]
    rows = []
    for one in found:
        whole = one["samples"]
        cells = [f"{100 * part / whole:.0f} %" for part in (one["user"], whole - one["user"])]
        rows.append([one["stack"], str(whole), *cells, *(f"{100 * one['split'][name] / whole:.0f} %" for name in used)])
    return table(["", "samples", "user", "system", *used], rows)


def _count(asked: argparse.Namespace, classes: Classes) -> list[dict[str, Any]]:
    binary = build()
    found = []
    for work in WORKS:
        units = asked.bytes if work.unit == "byte" else asked.requests
        for stack in variants() if asked.fixes else STACKS:
            print(f"{work.name} on {stack}", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                costs = callgrind(binary, work.arguments(units), stack, Path(folder))
            keep(asked.out, f"{work.name} {stack.replace(':', '-')}", costs)
            found.append(
                {
                    **{"work": work.name, "stack": stack, "unit": work.unit, "units": units},
                    "instructions": sum(cost.weight for cost in costs),
                    "split": split(costs, classes),
                    "functions": functions(costs, classes)[:40],
                }
            )
    return found


def _sample(asked: argparse.Namespace, classes: Classes) -> list[dict[str, Any]]:
    tools = [tool for tool in ("perf", "wrk") if shutil.which(tool) is None]
    reason = f"there is no {tools[0]}" if tools else netstack_lab.why_not(STACKS)
    if reason is not None:
        raise UnavailableError(reason)
    netstack_lab.sweep()
    binary = build_bench(count=False)
    found = []
    for stack in STACKS:
        print(f"wrk on {stack}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            samples = perf(stack, binary, asked.seconds, Path(folder))
        costs = [cost for cost, _ in samples]
        keep(asked.out, f"wrk {stack}", costs)
        kernel = in_kernel([cost for cost, inside in samples if inside], classes)
        user = split([cost for cost, inside in samples if not inside], classes)
        found.append(
            {
                "stack": stack,
                "samples": len(samples),
                "user": sum(user.values()),
                "split": {name: user[name] + kernel[name] for name in user},
            }
        )
    return found


def _bulk(asked: argparse.Namespace) -> int:
    try:
        found = _transfer(asked)
    except UnavailableError as error:
        print(f"unavailable: {error}", file=sys.stderr)
        return 3
    print("Bulk data: the server's processor time for each megabyte; its parts in the kernel by samples\n")
    print(transfers(found))
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def main() -> int:
    """Build, run, print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/netstack-costs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=2_000_000, help="size of bulk transfers (default 2000000)")
    parser.add_argument("--requests", type=int, default=1000, help="number of requests (default 1000)")
    parser.add_argument("--fixes", action="store_true", help="also count without each fix: 13 times as many runs")
    parser.add_argument("--perf", action="store_true", help="also sample servers over a TAP; needs root")
    parser.add_argument("--bulk", action="store_true", help="only bulk data over a TAP and veth; needs root")
    parser.add_argument("--seconds", type=int, default=5, help="duration of each of those (default 5)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write folded stacks and flame graphs to this folder"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    asked = parser.parse_args()
    reason = no_rust() or (None if shutil.which("valgrind") else "there is no valgrind; Debian's valgrind has it")
    if reason is not None:
        print(f"unavailable: {reason}", file=sys.stderr)
        return 3
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
    if asked.bulk:
        return _bulk(asked)
    classes = Classes(TABLE.read_text())
    found = _count(asked, classes)
    print(tables([one for one in found if one["stack"] in STACKS], classes.names()))
    if asked.fixes:
        print("\n" + fix_tables(found))
    sampled: list[dict[str, Any]] = []
    status = 0
    if asked.perf:
        try:
            sampled = _sample(asked, classes)
            print("\nTime of the server under wrk over a TAP, by samples\n\n" + shares(sampled, classes.names()))
        except UnavailableError as error:
            print(f"unavailable: {error}", file=sys.stderr)
            status = 3
    if asked.json is not None:
        asked.json.write_text(json.dumps({"instructions": found, "samples": sampled}, indent=1) + "\n")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
