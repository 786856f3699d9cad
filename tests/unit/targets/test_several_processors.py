# SPDX-License-Identifier: MIT OR Apache-2.0
"""Machines with several processors: QEMU's arguments, which QEMU is needed, and what the guest must report."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import MOST_PROCESSORS, UnavailableError, UserError
from swapstone.core.model.cpio import archive
from swapstone.core.model.cpio import folder as cpio_folder
from swapstone.core.targets import MachineConfigError
from swapstone.core.targets.target import MachineConfig
from swapstone.core.wire import TrialRequest
from swapstone.parts.vm.machine.emulator import (
    EMULATORS_VARIABLE,
    EmulatedMachine,
    check_awake,
    check_processors,
    find_emulator,
)
from swapstone.parts.vm.machine.guest import decode_channel
from swapstone.parts.vm.machine.qemu import VmImage, arguments, base_options
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget, counted_clock, why_other_processors
from tests.unit.targets.fake_emulator import GREETING, WHOLE, emulator

FILES = {"kernel": "K", "initrd": "I", "order": "O", "console": "CON", "channel": "CH"}
NEW = "QEMU emulator version 10.0.2 (simulated)"
ONLINE = b"file /sys/devices/system/cpu/online %s\n"


def after(words: tuple[str, ...], option: str) -> str:
    return words[words.index(option) + 1]


@pytest.mark.parametrize(
    ("architecture", "awake"), [("x86_64", ["idle=poll"]), ("aarch64", ["nohlt", "cpuidle.off=1"])]
)
def test_several_processors_take_turns_and_are_never_idle(architecture: str, awake: list[str]) -> None:
    words = arguments(EmulatedMachine(architecture=architecture, processors=4), FILES)
    assert after(words, "-smp") == "4"
    assert after(words, "-icount") == "shift=0,sleep=off"  # QEMU refuses to record such a machine
    assert after(words, "-netdev").split(",")[0] == "hubport"
    assert "filter-buffer,id=turn,netdev=turns,interval=10" in words
    assert set(awake) <= set(after(words, "-append").split())


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_one_processor_has_the_command_line_that_it_always_had(architecture: str) -> None:
    words = arguments(EmulatedMachine(architecture=architecture, processors=1), FILES)
    assert words == arguments(EmulatedMachine(architecture=architecture), FILES)
    assert "-netdev" not in words and "idle=poll" not in " ".join(words) and "nohlt" not in " ".join(words)
    assert after(words, "-icount") == "shift=0,sleep=off,rr=record,rrfile=/dev/null"


def test_the_description_of_the_clock_has_the_number_of_processors() -> None:
    assert counted_clock(EmulatedMachine()) == "one instruction a nanosecond"
    assert counted_clock(EmulatedMachine(processors=2)) == "one instruction a nanosecond of 2 processors in turn"


@pytest.mark.parametrize("number", [-1, 0, MOST_PROCESSORS + 1])
def test_a_number_of_processors_that_no_machine_has_is_refused(number: int) -> None:
    with pytest.raises(UserError, match=f"can't have {number} processors"):
        check_processors(number)
    check_processors(MOST_PROCESSORS)


def test_several_processors_need_a_new_emulator(tmp_path: Path) -> None:
    old, new = emulator(tmp_path / "old"), emulator(tmp_path / "new", version=NEW)
    machine = EmulatedMachine(processors=2)
    assert find_emulator(EmulatedMachine(), old).number == (7, 2)
    assert find_emulator(machine, new).number == (10, 0)
    with pytest.raises(UnavailableError, match=r"need QEMU 10\.0 or newer.*7\.2\.22") as caught:
        find_emulator(machine, old)
    assert "bookworm-backports" in caught.value.hint and EMULATORS_VARIABLE in caught.value.hint


@pytest.mark.parametrize("architecture", ["arm", "riscv64"])
def test_other_architectures_have_one_processor(tmp_path: Path, architecture: str) -> None:
    path = emulator(tmp_path / "new", version=NEW)
    with pytest.raises(UnavailableError, match="has one processor"):
        find_emulator(EmulatedMachine(architecture=architecture, processors=2), path)


def test_the_emulator_is_found_in_the_folder_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "usr" / "bin"
    folder.parent.mkdir()
    Path(emulator(folder, version=NEW)).rename(folder / "qemu-system-x86_64")
    monkeypatch.setenv(EMULATORS_VARIABLE, str(tmp_path))
    found = find_emulator(EmulatedMachine())
    assert (found.path, found.version, found.data) == (str(folder / "qemu-system-x86_64"), NEW, ())
    firmware = tmp_path / "usr" / "share" / "qemu"
    firmware.mkdir(parents=True)
    (firmware / "pvh.bin").write_bytes(b"firmware")
    named = find_emulator(EmulatedMachine(), "qemu-system-x86_64")
    assert named.command == (found.path, "-L", str(firmware))
    assert named.build != found.build  # the firmware is part of it
    monkeypatch.setenv(EMULATORS_VARIABLE, str(folder))
    assert find_emulator(EmulatedMachine()).path == found.path  # the folder of the programs themselves
    with pytest.raises(UnavailableError, match="no qemu-system-aarch64 in it"):
        find_emulator(EmulatedMachine(architecture="aarch64"))


@pytest.mark.parametrize("key", ["nohlt", "cpuidle.off"])
def test_a_level_can_not_let_processors_be_idle(key: str) -> None:
    machine = EmulatedMachine(architecture="aarch64", processors=2)
    with pytest.raises(UserError, match=f"changes the boot option {key}, which machines with several processors need"):
        check_awake(machine, "generic+x", ["quiet", key])
    check_awake(machine, "generic+x", ["quiet"])
    assert {"nohlt", "cpuidle.off=1"} <= set(base_options(machine))


@pytest.mark.parametrize(("online", "reason"), [(b"0-1", ""), (b"0", "0 are online"), (b"", "no list of them")])
def test_a_guest_with_another_number_of_processors_is_found(online: bytes, reason: str) -> None:
    report, _ = decode_channel(
        WHOLE.replace(b"file /sys/kernel", ONLINE % online + b"file /sys/kernel", 1) if online else WHOLE
    )
    found = why_other_processors(EmulatedMachine(processors=2), report)
    assert found.startswith(f"the processors 0-1 were requested, and {reason}" if reason else "")
    assert bool(found) == bool(reason)
    assert why_other_processors(EmulatedMachine(), report) == ""


def _target(folder: Path, online: bytes) -> VmTarget:
    for name in ("kernel", "agent", "init"):
        (folder / name).write_bytes(name.encode())
    (folder / "initrd").write_bytes(archive({"etc": cpio_folder()}))
    channel = WHOLE.replace(b"file /sys/kernel", ONLINE % online + b"file /sys/kernel", 1)
    assert channel != WHOLE and GREETING not in channel
    image = VmImage(
        folder / "kernel",
        folder / "initrd",
        EmulatedMachine(processors=2),
        agent=folder / "agent",
        init=folder / "init",
    )
    options = VmOptions(cache=folder / "cache", emulator=emulator(folder / "q", version=NEW, channel=channel))
    return VmTarget(image, options)


REQUEST = TrialRequest(id="1-0", arguments=("/bin/true",), cwd="/scratch", timeout_ms=1000)


def test_a_run_on_another_number_of_processors_is_refused(tmp_path: Path) -> None:
    with _target(tmp_path, b"0") as target, pytest.raises(MachineConfigError, match="0 are online"):
        target.run(REQUEST, MachineConfig())


def test_a_machine_with_several_processors_boots_for_each_trial(tmp_path: Path) -> None:
    """QEMU restores the processors' turns from no snapshot. The folder of snapshots stays empty."""
    with _target(tmp_path, b"0-1") as target:
        assert target.describe().cpus == (0, 1)
        answer = target.run(REQUEST, MachineConfig())
        assert dict(answer.machine)["/sys/devices/system/cpu/online"] == "0-1"
    assert not (tmp_path / "cache" / "snapshots").exists()
