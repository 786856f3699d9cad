# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTTP server of crates/swapstone-net-apps on a machine without an operating system, served to ab.

It builds crates/swapstone-net-guest for riscv64 and boots it under `qemu-system-riscv64 -M virt -bios none`, on a TAP in a network
namespace. It waits until the server answers, runs ab, and prints ab's output. The machine is emulated, so the figures do not describe
a stack on real hardware.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from benchmarks.netstack import no_rust
from benchmarks.netstack_lab import SERVER, TAP, Lab, UnavailableError, sweep, why_not
from benchmarks.netstack_output import UnreadableError, read_ab

from swapstone.artifacts.guest import GUEST_EMULATOR, GUEST_TARGET, build_guest, guest_compiler, guest_library
from swapstone.model import UserError

STACKS = ("lwip", "smoltcp")
_MEMORY = "256M"  # as crates/swapstone-net-guest/virt.ld has it
_READY_S = 30.0
_END_S = 20.0
_AB_S = 600.0


def main() -> int:
    """Run the benchmark for each selected stack.

    Returns:
        0 if no request was lost, 1 if some were, 3 if it is unavailable on this machine, 130 if it was interrupted.
    """
    signal.signal(signal.SIGTERM, _interrupted)
    options = _arguments()
    reason = why_no_guest(options.stacks, build_std=options.build_std)
    if reason is not None:
        print(f"unavailable: {reason}", file=sys.stderr)
        return 3
    sweep()
    lost = 0
    try:
        for stack in options.stacks:
            found = measure(build(stack, build_std=options.build_std), stack, options.requests, options.concurrency)
            print(
                f"== {stack} on bare riscv64, emulated\n{found['ab']}\nguest: {json.dumps(found['guest'])}\n",
                flush=True,
            )
            lost += found["failed"]
            if options.json is not None:
                with options.json.open("a") as out:
                    print(json.dumps(found), file=out)
    except (UnavailableError, UserError) as error:
        print(f"unavailable: {error}", file=sys.stderr)
        return 3
    except UnreadableError as error:
        print(f"ab gave up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 1 if lost else 0


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/netstack-guest", description=__doc__)
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("-n", dest="requests", type=int, default=1000, help="requests (default 1000)")
    parser.add_argument("-c", dest="concurrency", type=int, default=10, help="at once (default 10)")
    parser.add_argument(
        "--build-std", action="store_true", help="compile core and alloc too, from the component rust-src"
    )
    parser.add_argument("--json", type=Path, help="append a line for each stack to this file")
    return parser.parse_args()


def why_no_guest(stacks: list[str], *, build_std: bool = False) -> str | None:
    """Return why the benchmark can't run on this machine; None if it can.

    Args:
        stacks: the selected stacks; lwIP needs a C compiler for riscv64.
        build_std: whether to compile core and alloc even if they are installed.
    """
    reason = why_not(stacks) or no_rust()
    if reason is not None:
        return reason.removesuffix("; --stacks kernel needs none")
    for program, package in ((GUEST_EMULATOR, "qemu-system-misc"), ("ab", "apache2-utils"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            return f"there is no {program}; Debian's {package} has it"
    if guest_library(build_std=build_std) is None:
        return f"there is no Rust library for {GUEST_TARGET}: rustup target add {GUEST_TARGET}, or rustup component add rust-src"
    if "lwip" in stacks and guest_compiler() is None:
        return "there is no C compiler for riscv64; Debian's gcc-riscv64-linux-gnu has one, and clang is one"
    return None


def build(stack: str, *, build_std: bool = False) -> Path:
    """Build the guest, and return it.

    Args:
        stack: which one is in it.
        build_std: compile core and alloc even if they are installed.

    Raises:
        UserError: it does not build, and the message ends with the compiler's; or lwIP's source can't be fetched.
    """
    return build_guest(stack, lambda line: print(line, file=sys.stderr), build_std=build_std)


def _machine(guest: Path) -> list[str]:
    # setpriv: if this process is killed, the machine ends too.
    return [
        *("setpriv", "--pdeathsig", "KILL", GUEST_EMULATOR, "-M", "virt", "-smp", "1", "-m", _MEMORY, "-bios", "none"),
        *("-kernel", str(guest), "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot"),
        *("-global", "virtio-mmio.force-legacy=false", "-device", "virtio-rng-device"),
        *("-netdev", f"tap,id=net,ifname={TAP},script=no,downscript=no", "-device", "virtio-net-device,netdev=net"),
    ]


def measure(guest: Path, stack: str, requests: int, concurrency: int) -> dict[str, Any]:
    """Boot the guest, send it ab's requests, and shut it down.

    Args:
        guest: the program.
        stack: its stack.
        requests: ab's -n.
        concurrency: ab's -c.

    Returns:
        `ab`: its output; `requests`, `failed` and `rate`, read from it; `probes`: number of earlier requests; `guest`: the guest's
        statistics.

    Raises:
        UnavailableError: the guest does not become ready, or does not shut down properly.
        UnreadableError: ab made no request.
    """
    with Lab(stack, offload=True) as lab, lab.beside(_machine(guest)) as machine:
        ready = _line(machine, "ready", _READY_S)
        if ready.get("stack") != stack:
            raise UnavailableError(f"the guest has another stack: {ready}")
        probes = _probe(lab)
        command = ("ab", "-q", "-n", str(requests), "-c", str(concurrency), f"http://{SERVER}/")
        output, _ = lab.run(command, _AB_S)
        assert machine.stdin is not None
        machine.stdin.write("q")
        machine.stdin.flush()
        account = _line(machine, "end", _END_S)
        account = {name: value for name, value in account.items() if name != "instructions"}  # ticks, without -icount
        if machine.wait(_END_S) != 0:
            raise UnavailableError(f"QEMU ended with status {machine.returncode}")
    return {"stack": stack, "probes": probes, **read_ab(output, requests), "ab": output.strip(), "guest": account}


def _probe(lab: Lab) -> int:
    """Wait until the guest answers a request; return how many requests it answered."""
    until = time.monotonic() + _READY_S
    while time.monotonic() < until:
        output, whole = lab.run(("ab", "-q", "-n", "1", "-s", "5", f"http://{SERVER}/"), 10.0)
        if whole and re.search(r"^Complete requests: +1$", output, re.MULTILINE):
            return 1
        time.sleep(0.2)
    raise UnavailableError(f"the guest answers no request in {_READY_S:.0f} s")


def _line(machine: subprocess.Popen[str], event: str, timeout_s: float) -> Mapping[str, Any]:
    """Wait for a line of the guest."""
    out: IO[str] | None = machine.stdout
    assert out is not None
    until = time.monotonic() + timeout_s
    output = b""
    while time.monotonic() < until:
        if not select.select([out], [], [], 0.1)[0]:
            continue
        piece = os.read(out.fileno(), 4096)  # not readline(): select can't poll data in its buffer
        if not piece:
            break  # QEMU has ended
        output += piece
        for line in output.decode(errors="replace").splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("event") == event:
                return found
    raise UnavailableError(
        f"the guest printed no line {event}; its output: {output.decode(errors='replace').strip() or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main())
