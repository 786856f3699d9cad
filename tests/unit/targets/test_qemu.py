# SPDX-License-Identifier: MIT OR Apache-2.0
"""QEMU's arguments, and the interpretation of its end."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError, check_scale
from swapstone.parts.vm.artifacts.image_catalog import MACHINE_ARCHITECTURES
from swapstone.parts.vm.machine.emulator import CHANNEL_BYTES, MACHINE_MODELS, EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.qemu import (
    Guest,
    GuestEnd,
    Limits,
    arguments,
    boot,
    judge_end,
    last_lines,
)
from tests.processes import ends
from tests.unit.targets.fake_emulator import WHOLE, emulator, setup

FILES = {"kernel": "K", "initrd": "I", "order": "O", "console": "CON", "channel": "CH"}
PC = MACHINE_MODELS["x86_64"]


def after(words: tuple[str, ...], option: str) -> str:
    return words[words.index(option) + 1]


def test_the_command_line_has_the_options_of_a_deterministic_machine() -> None:
    words = arguments(EmulatedMachine(memory_bytes=512 << 20, options=("a=b", "c")), FILES)
    assert after(words, "-icount") == "shift=0,sleep=off,rr=record,rrfile=/dev/null"
    assert after(words, "-rtc").endswith("clock=vm")
    assert after(words, "-smp") == "1"
    assert "-m 512M" in " ".join(words)
    assert after(words, "-append").endswith(" a=b c")
    assert after(words, "-sandbox").startswith("on,")
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(words)
    assert not [word for word in words if "net" in word]
    assert (after(words, "-kernel"), after(words, "-initrd")) == ("K", "I")
    assert after(words, "-serial") == "file:CON" and ",mem-path=CH,size=67108864," in after(words, "-object")
    assert after(words, "-fw_cfg") == "name=opt/swapstone/order,file=O"


def test_saving_a_machine_changes_only_the_option_icount() -> None:
    usual, saving = arguments(EmulatedMachine(), FILES), arguments(EmulatedMachine(), FILES, saving=True)
    assert [pair for pair in zip(usual, saving, strict=True) if pair[0] != pair[1]] == [
        ("shift=0,sleep=off,rr=record,rrfile=/dev/null", "shift=0,sleep=off")
    ]
    assert arguments(EmulatedMachine(wall=True), FILES, saving=True) == arguments(EmulatedMachine(wall=True), FILES)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (2, 1), (4, 2), (1024, 10)])
def test_the_time_of_an_instruction_is_a_power_of_two(scale: int, shift: int) -> None:
    machine = EmulatedMachine(ns_per_instruction=scale)
    assert after(arguments(machine, FILES), "-icount").startswith(f"shift={shift},")
    assert after(arguments(machine, FILES, saving=True), "-icount") == f"shift={shift},sleep=off"
    assert check_scale(scale) == scale


@pytest.mark.parametrize("scale", [-1, 0, 3, 2048])
def test_a_time_that_the_emulator_does_not_offer_is_refused(scale: int) -> None:
    with pytest.raises(UserError, match=f"can't count {scale} ns for an instruction"):
        check_scale(scale)


def test_a_machine_has_the_policy_that_saves_switches(tmp_path: Path) -> None:
    """Its threads inherit it. It changes no result: the processor time of the emulator only."""
    with Guest(setup(tmp_path, "sleep 60"), Limits()) as guest:
        assert os.sched_getscheduler(guest.process.pid) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_commas_in_paths_are_escaped() -> None:
    files = {**FILES, "order": "/a,b/order", "channel": "/a,b/channel"}
    words = arguments(EmulatedMachine(), files)
    assert after(words, "-fw_cfg").endswith(",file=/a,,b/order")
    assert ",mem-path=/a,,b/channel," in after(words, "-object")


def test_every_architecture_has_a_command_line() -> None:
    assert MACHINE_MODELS.keys() == {architecture.machine for architecture in MACHINE_ARCHITECTURES}
    for architecture, family in MACHINE_MODELS.items():
        words = arguments(EmulatedMachine(architecture=architecture), FILES)
        assert after(words, "-M") == family.machine
        assert (
            f"console={'ttyAMA0' if architecture in {'aarch64', 'arm'} else 'ttyS0'}" in after(words, "-append").split()
        )
        assert "CH" in " ".join(words)
        assert not [word for word in words if "{" in word]
    with pytest.raises(UserError, match="no architecture named 'vax'"):
        arguments(EmulatedMachine(architecture="vax"), FILES)


@pytest.mark.parametrize(
    ("status", "console", "complaints", "how", "reason"),
    [
        (65, "", "", GuestEnd.FINISHED, ""),
        (
            0,
            "[    0.8] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n[    0.8] CPU: 0",
            "",
            GuestEnd.PANICKED,
            "its kernel panicked: VFS: Unable to mount root fs on unknown-block(0,0)",
        ),
        (
            67,
            "\nswapstone-init: can't mount /proc: error 19\n",
            "",
            GuestEnd.INIT_FAILED,
            "its first process reports: can't mount /proc: error 19 (No such device)",
        ),
        (
            0,
            "swapstone-init: can't mount /x: error 2\n[ 1.2] Kernel panic - not syncing: Attempted to kill init!\n",
            "",
            GuestEnd.INIT_FAILED,
            "its first process reports: can't mount /x: error 2 (No such file or directory)",
        ),
        (
            0,
            "[ 1.2] Kernel panic - not syncing: sysrq\nswapstone-init: forged after it\n",
            "",
            GuestEnd.PANICKED,
            "its kernel panicked: sysrq",
        ),
        (
            67,
            "[    1.0] Initramfs unpacking failed: write error\nswapstone-init: can't mount /scratch: error 2\n",
            "",
            GuestEnd.INIT_FAILED,
            "its files did not fit into its memory; add memory (--memory)",
        ),
        (0, "[    1.0] reboot: Power down\n", "", GuestEnd.SILENT, "it ended without a reason"),
        (67, "", "", GuestEnd.SILENT, "it ended without a reason"),
        (
            1,
            "",
            "qemu: warning: x\nqemu: could not load kernel 'k'\n",
            GuestEnd.EMULATOR,
            "QEMU could not run it: qemu: could not load kernel 'k'",
        ),
        (127, "", "", GuestEnd.EMULATOR, "QEMU could not run it: status 127"),
        (-11, "", "", GuestEnd.EMULATOR, "QEMU was ended by signal 11"),
    ],
)
def test_the_end_of_a_machine_is_classified(
    status: int, console: str, complaints: str, how: GuestEnd, reason: str
) -> None:
    assert judge_end(status, console, complaints, PC) == (how, reason)


def test_without_an_exit_device_status_0_means_finished() -> None:
    assert judge_end(0, "", "", MACHINE_MODELS["aarch64"])[0] is GuestEnd.FINISHED


def test_last_lines_skips_blank_lines() -> None:
    text = "\n".join([*(f"{n}  " for n in range(30)), "", " "])
    assert last_lines(text).splitlines() == [str(n) for n in range(18, 30)]


def test_the_output_of_the_channel_is_kept(tmp_path: Path) -> None:
    run = boot(setup(tmp_path / "q", ""), Limits())
    assert (run.end, run.output) == (GuestEnd.FINISHED, WHOLE)


def test_a_channel_in_memory_is_read_up_to_its_byte_count(tmp_path: Path) -> None:
    """A length, and the output from the second page on."""
    for size in (0, 1, len(WHOLE) - 1, len(WHOLE)):
        (tmp_path / "memory").write_bytes(size.to_bytes(8, "little").ljust(4096, b"?") + WHOLE + b"??")
        acts = f'cat {tmp_path}/memory >"$memory"; echo words >"$console"'
        run = boot(setup(tmp_path / "q", acts, EmulatedMachine(architecture="aarch64")), Limits())
        if size == len(WHOLE):
            assert (run.end, run.output) == (GuestEnd.FINISHED, WHOLE)
        else:  # the exit status is that of a clean power-off in either case
            assert (run.end, run.reason) == (GuestEnd.SILENT, "it ended without a reason")
        assert run.console == "words"


def test_the_order_of_a_machine_without_fw_cfg_is_in_its_channel(tmp_path: Path) -> None:
    acts = "exec sleep 100"
    machine = EmulatedMachine(architecture="riscv64")
    start = machine.model.order_start
    given = dataclasses.replace(setup(tmp_path / "q", acts, machine), order=b"the order\n")
    with Guest(given, Limits(host_s=60)) as guest:
        channel = guest._channel.read_bytes()
        assert guest.output_bytes() == 0
    assert len(channel) == CHANNEL_BYTES
    assert channel[start : start + 8] == (10).to_bytes(8, "little")
    assert channel[start + 4096 :].rstrip(b"\0") == b"the order\n"
    assert not channel[:start].strip(b"\0")


@pytest.mark.parametrize(("architecture", "room"), [("x86_64", 64), ("aarch64", 64), ("riscv64", 60)])
def test_output_that_does_not_fit_into_the_channel_is_the_reason(architecture: str, room: int) -> None:
    report = "\nswapstone-init: can't write to the channel: error 28\n"
    assert judge_end(67, report, "", MACHINE_MODELS[architecture]) == (
        GuestEnd.FLOODED,
        f"what it printed does not fit into the {room} MiB of its channel, where a byte that is no visible ASCII character takes three",
    )


def test_a_length_beyond_the_channel_is_cut(tmp_path: Path) -> None:
    (tmp_path / "memory").write_bytes((1 << 62).to_bytes(8, "little").ljust(4096) + WHOLE)
    run = boot(setup(tmp_path / "q", f'cat {tmp_path}/memory >"$memory"; exit 65'), Limits())
    assert (run.end, run.output) == (GuestEnd.FINISHED, WHOLE)


def test_output_beyond_its_limit_ends_the_machine(tmp_path: Path) -> None:
    run = boot(setup(tmp_path / "q", 'while :; do echo yyyyyyyyyyyy >>"$console"; done'), Limits(console_bytes=5000))
    assert run.end is GuestEnd.FLOODED
    assert run.reason == "it wrote more than 5000 bytes to its console"
    assert run.console.startswith("yyyyyyyyyyyy\n")


def test_a_machine_that_hangs_is_stopped(tmp_path: Path) -> None:
    run = boot(setup(tmp_path / "q", 'echo "last words" >"$console"; exec sleep 100'), Limits(host_s=0.3))
    assert run.end is GuestEnd.HOST_TIME
    assert run.reason == "it ran for more than 0.3 s of this machine's time (--guest-timeout)"
    assert run.console == "last words"


def test_boot_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    for acts in ("", "kill -9 $$", "exit 1"):
        boot(setup(tmp_path / "q", acts), Limits())
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
def test_an_emulator_ends_with_its_parent_process(tmp_path: Path) -> None:
    setup(tmp_path / "q", f"echo $$ >{tmp_path}/pid; exec sleep 100")
    code = (
        "import sys; from pathlib import Path; from tests.unit.targets.fake_emulator import setup\n"
        "from swapstone.parts.vm.machine.qemu import Limits, boot\n"
        f"boot(setup(Path({str(tmp_path / 'q')!r}), 'echo $$ >{tmp_path}/pid; exec sleep 100'), Limits())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3], env=environment)
    until = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < until
        time.sleep(0.02)
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 0)  # it runs
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    if not ends(pid):
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the emulator outlived its parent process")


def test_a_missing_emulator_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="needs the command 'no-such-qemu'") as caught:
        find_emulator(EmulatedMachine(), "no-such-qemu")
    assert caught.value.hint == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="needs the command 'qemu-system-x86_64'") as caught:
        find_emulator(EmulatedMachine())
    assert caught.value.hint == "Install it: sudo apt-get install qemu-system-x86"


@pytest.mark.parametrize(
    ("version", "probe", "text"),
    [
        ("QEMU emulator version 6.2.0", "exit 0", "too old: QEMU emulator version 6.2.0"),
        ("something else", "exit 0", "names no version of QEMU: 'something else'"),
        ("QEMU emulator version 8.0.0", "echo no -sandbox >&2; exit 1", "on the virtual clock: no -sandbox"),
        (
            "QEMU emulator version 8.0.0",
            'case "$*" in *,rr=record,*) echo no replay >&2; exit 1 ;; esac',
            "on the virtual clock: no replay",
        ),
        (
            "QEMU emulator version 8.0.0",
            'case "$*" in *" -M pc,i8042=off "*" -device ivshmem-plain,"*) echo no ivshmem >&2; exit 1 ;; esac',
            "on the virtual clock: no ivshmem",
        ),
        ("QEMU emulator version 8.0.0", "exit 3", "on the virtual clock: status 3"),
    ],
)
def test_an_emulator_without_a_needed_feature_is_unavailable(
    tmp_path: Path, version: str, probe: str, text: str
) -> None:
    with pytest.raises(UnavailableError, match=text):
        find_emulator(EmulatedMachine(), emulator(tmp_path / "q", version=version, probe=probe))


def test_a_missing_setpriv_makes_the_emulator_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = emulator(tmp_path / "q")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="needs the command 'setpriv'"):
        find_emulator(EmulatedMachine(), path)


def test_another_emulator_has_another_build_digest(tmp_path: Path) -> None:
    first = find_emulator(EmulatedMachine(), emulator(tmp_path / "q"))
    again = find_emulator(EmulatedMachine(), emulator(tmp_path / "q", channel=b"other"))
    other = find_emulator(EmulatedMachine(), emulator(tmp_path / "q", acts="exit 0"))
    assert first.build == again.build != other.build
