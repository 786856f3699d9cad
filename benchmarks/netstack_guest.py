# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTTP server of crates/swapstone-net-apps on a machine without an operating system, served to ab.

It builds crates/swapstone-net-guest for riscv64 and boots it under `qemu-system-riscv64 -M virt -bios none`, on a TAP in a network
namespace. It waits until the server answers, runs ab, and prints ab's output. The machine is emulated, so the figures do not describe
a stack on real hardware.

--profile samples the machine under ab instead: QEMU stops it at random times, and its stack is read. It prints the share of each class of
work and the functions and stacks with the most samples. The guest is then built with frame pointers.
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
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from benchmarks import netstack_guest_report, riscv_image
from benchmarks.netstack import no_rust
from benchmarks.netstack_guest_profile import Load, Profile, sample
from benchmarks.netstack_lab import SERVER, TAP, Lab, UnavailableError, sweep, why_not
from benchmarks.netstack_output import UnreadableError, read_ab
from benchmarks.netstack_profile import TABLE, Classes, keep

from swapstone.artifacts.guest import GUEST_EMULATOR, GUEST_TARGET, build_guest, guest_compiler, guest_library
from swapstone.model import UserError

STACKS = ("lwip", "smoltcp")
_MEMORY = "256M"  # as crates/swapstone-net-guest/virt.ld has it
REQUESTS = 1000
PROFILE_REQUESTS = 10_000
SAMPLES = 500
MOST_SAMPLES = 100_000
_READY_S = 30.0
_END_S = 20.0
_AB_S = 600.0

Work = TypeVar("Work")


def main() -> int:
    """Run the benchmark for each selected stack.

    Returns:
        0 if no request was lost, 1 if some were, 3 if it is unavailable on this machine, 130 if it was interrupted.
    """
    signal.signal(signal.SIGTERM, _interrupted)
    options = _arguments()
    reason = why_no_guest(options.stacks, build_std=options.build_std, profile=options.profile)
    if reason is not None:
        print(f"unavailable: {reason}", file=sys.stderr)
        return 3
    sweep()
    try:
        return _profile(options) if options.profile else _serve(options)
    except (UnavailableError, UserError) as error:
        print(f"unavailable: {error}", file=sys.stderr)
        return 3
    except UnreadableError as error:
        print(f"ab gave up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _serve(options: argparse.Namespace) -> int:
    lost = 0
    for stack in options.stacks:
        guest = build(stack, build_std=options.build_std)
        found = measure(guest, stack, options.requests or REQUESTS, options.concurrency)
        print(
            f"== {stack} on bare riscv64, emulated\n{found['ab']}\nguest: {json.dumps(found['guest'])}\n",
            flush=True,
        )
        lost += found["failed"]
        _append(options.json, found)
    return 1 if lost else 0


def _profile(options: argparse.Namespace) -> int:
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    classes = Classes(TABLE.read_text())
    profiles = []
    for stack in options.stacks:
        guest = build(stack, build_std=options.build_std, frame_pointers=True)
        requests = options.requests or PROFILE_REQUESTS
        profile, account = measure_profile(guest, stack, options.samples or SAMPLES, requests, options.concurrency)
        profiles.append(profile)
        keep(options.out, f"bare {stack} sampled", profile.costs)
        _append(options.json, {**netstack_guest_report.data(profile, classes), "guest": account})
    print(netstack_guest_report.text(profiles, classes), flush=True)
    return 1 if any(profile.failed or profile.samples < profile.wanted for profile in profiles) else 0


def _append(path: Path | None, found: Mapping[str, Any]) -> None:
    if path is not None:
        with path.open("a") as out:
            print(json.dumps(found), file=out)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/netstack-guest", description=__doc__)
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument(
        "-n", dest="requests", type=int, help=f"requests of a run of ab (default {REQUESTS}, or {PROFILE_REQUESTS})"
    )
    parser.add_argument("-c", dest="concurrency", type=int, default=10, help="at once (default 10)")
    parser.add_argument(
        "--build-std", action="store_true", help="compile core and alloc too, from the component rust-src"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="append a line for each stack to this file")
    parser.add_argument("--profile", action="store_true", help="sample the machine under ab")
    parser.add_argument("--samples", type=_samples, help=f"of each stack (default {SAMPLES})")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write folded stacks and flame graphs of a profile to this folder"
    )
    options = parser.parse_args()
    for name in ("samples", "out"):
        if getattr(options, name) is not None and not options.profile:
            parser.error(f"--{name} needs --profile")
    return options


def _samples(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MOST_SAMPLES:
        raise argparse.ArgumentTypeError(f"{value} is not a number from 1 to {MOST_SAMPLES}")
    return int(value)


def why_no_guest(stacks: list[str], *, build_std: bool = False, profile: bool = False) -> str | None:
    """Return why the benchmark can't run on this machine; None if it can.

    Args:
        stacks: the selected stacks; lwIP needs a C compiler for riscv64.
        build_std: whether to compile core and alloc even if they are installed.
        profile: whether to profile, which needs the programs that name functions.
    """
    reason = why_not(stacks) or no_rust()
    if reason is not None:
        return reason.removesuffix("; --stacks kernel needs none")
    programs = ((GUEST_EMULATOR, "qemu-system-misc"), ("ab", "apache2-utils"), ("setpriv", "util-linux"))
    for program, package in (*programs, *(riscv_image.TOOLS if profile else ())):
        if shutil.which(program) is None:
            return f"there is no {program}; Debian's {package} has it"
    if guest_library(build_std=build_std) is None:
        return f"there is no Rust library for {GUEST_TARGET}: rustup target add {GUEST_TARGET}, or rustup component add rust-src"
    if "lwip" in stacks and guest_compiler() is None:
        return "there is no C compiler for riscv64; Debian's gcc-riscv64-linux-gnu has one, and clang is one"
    return None


def build(stack: str, *, build_std: bool = False, frame_pointers: bool = False) -> Path:
    """Build the guest, and return it.

    Args:
        stack: which one is in it.
        build_std: compile core and alloc even if they are installed.
        frame_pointers: whether all compiled functions keep a frame pointer, for a profile. Installed ones of core and alloc need not.

    Raises:
        UserError: it does not build, and the message ends with the compiler's; or lwIP's source can't be fetched.
    """
    return build_guest(
        stack,
        lambda line: print(line, file=sys.stderr),
        build_std=build_std,
        frame_pointers=frame_pointers,
    )


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
    command = ("ab", "-q", "-n", str(requests), "-c", str(concurrency), f"http://{SERVER}/")
    (output, _), probes, account = _served(guest, stack, (), lambda lab: lab.run(command, _AB_S))
    return {"stack": stack, "probes": probes, **read_ab(output, requests), "ab": output.strip(), "guest": account}


def measure_profile(
    guest: Path, stack: str, samples: int, requests: int, concurrency: int
) -> tuple[Profile, Mapping[str, Any]]:
    """Boot the guest, sample it under ab, and shut it down.

    Args:
        guest: the program, built with frame pointers.
        stack: its stack.
        samples: number of samples.
        requests: ab's -n; ab is started again until the samples are taken.
        concurrency: ab's -c.

    Returns:
        The samples, and the guest's statistics.

    Raises:
        UnavailableError: the guest does not become ready, can't be sampled, or does not shut down properly.
        UnreadableError: ab made no request.
    """
    with tempfile.TemporaryDirectory(prefix="swapstone-gdb-") as folder:
        gdbstub = Path(folder) / "gdb"
        options = ("-gdb", f"unix:{gdbstub},server=on,wait=off")
        profile, _, account = _served(
            guest, stack, options, lambda lab: sample(lab, gdbstub, guest, samples, Load(lab, requests, concurrency))
        )
    return profile, account


def _served(
    guest: Path, stack: str, options: tuple[str, ...], work: Callable[[Lab], Work]
) -> tuple[Work, int, Mapping[str, Any]]:
    """Do work while the guest serves; return its result, the number of earlier requests, and the guest's statistics."""
    with Lab(stack, offload=True) as lab, lab.beside([*_machine(guest), *options]) as machine:
        ready = _line(machine, "ready", _READY_S)
        if ready.get("stack") != stack:
            raise UnavailableError(f"the guest has another stack: {ready}")
        probes = _probe(lab)
        done = work(lab)
        assert machine.stdin is not None
        machine.stdin.write("q")
        machine.stdin.flush()
        account = _line(machine, "end", _END_S)
        account = {name: value for name, value in account.items() if name != "instructions"}  # ticks, without -icount
        if machine.wait(_END_S) != 0:
            raise UnavailableError(f"QEMU ended with status {machine.returncode}")
    return done, probes, account


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
