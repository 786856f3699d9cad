# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a board prints is decoded strictly; and boards that can't run trials are refused with the next step."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError, WireError
from swapstone.parts.boards.targets.board import (
    MOST_ANSWER_BYTES,
    BoardAnswer,
    BoardFolder,
    check_answer,
    check_machine,
    cpus_of,
    decode_board_answer,
    machine_of,
    mirror,
    sensor_facts,
    uname_of,
)
from swapstone.parts.boards.targets.board_scripts import is_board_path, open_script

W = "swapstone-0"
STATUS = "/proc/self/status"


def answer(*parts: bytes) -> BoardAnswer:
    return decode_board_answer(b"".join(b"\n" + W.encode() + b" " + part for part in (*parts, b"end\n")), W)


def test_parts_and_files_are_kept_as_they_are_and_a_greeting_is_ignored() -> None:
    found = decode_board_answer(f"Welcome\n\n{W} folder\n/a b\n\n{W} file /proc/stat\ncpu 1\n\n{W} end\n".encode(), W)
    assert found.parts == {"folder": b"/a b\n"}
    assert found.files == {"/proc/stat": b"cpu 1\n"}
    assert found.text("folder") == "/a b"
    assert answer(b"folder\na\x1b[31m\n").text("folder") == r"a\x1b[31m"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * (MOST_ANSWER_BYTES + 1),
        f"\n{W} folder\n/a\n".encode(),
        f"\n{W} end\nmore".encode(),
        f"\n{W} Folder\n\n{W} end\n".encode(),
        f"\n{W} a\n\n{W} a\n\n{W} end\n".encode(),
        f"\n{W} file /proc/../etc/shadow\n\n{W} end\n".encode(),
        f"\n{W} file /root/x\n\n{W} end\n".encode(),
        f"\n{W} file /proc/a b\n\n{W} end\n".encode(),
        f"\n{W} file /proc/a\n\n{W} file /proc/a\n\n{W} end\n".encode(),
        f"\n{W} file /proc/\xff\n\n{W} end\n".encode("latin-1"),
        b"".join(f"\n{W} p{number}\n".encode() for number in range(4097)) + f"\n{W} end\n".encode(),
    ],
)
def test_other_answers_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_board_answer(data, W)


@pytest.mark.parametrize(("text", "cpus"), [("0-3", (0, 1, 2, 3)), ("0,2-3,8", (0, 2, 3, 8)), ("4095", (4095,))])
def test_processors(text: str, cpus: tuple[int, ...]) -> None:
    assert cpus_of(BoardAnswer({}, {STATUS: f"Name:\tcat\nCpus_allowed_list:\t{text}\n".encode()})) == cpus


@pytest.mark.parametrize("text", ["", "0-99999999", "4096", "1-", "-1", "3-2", "1,3-2", "0,,1", "x"])
def test_wrong_lists_of_processors(text: str) -> None:
    with pytest.raises(WireError):
        cpus_of(BoardAnswer({}, {STATUS: f"Cpus_allowed_list:\t{text}\n".encode()}))


def board(kernel: str, machine: int = 0, *, bits: int = 64, little: bool = True, flags: int = 0) -> BoardAnswer:
    """Return the answer of a board whose own programs have this ELF header."""
    order = "<" if little else ">"
    head = (
        b"\x7fELF" + bytes([bits // 32, 1 if little else 2, 1]) + bytes(9) + struct.pack(f"{order}HHI", 3, machine, 1)
    )
    head += struct.pack(f"{order}QQQI", 0, 0, 0, 0) if bits == 64 else struct.pack(f"{order}IIII", 0, 0, 0, flags)
    uname = f"Linux\n6.1.0\n#1 SMP\n{kernel}\n".encode()
    return BoardAnswer({"uname": uname, "shell": head.ljust(64, b"\0") if machine else b""}, {})


@pytest.mark.parametrize(
    ("found", "machine"),
    [
        (board("x86_64", 62), "x86_64"),
        (board("aarch64", 183), "aarch64"),
        (board("riscv64", 243), "riscv64"),
        (board("armv7l", 40, bits=32, flags=0x5000400), "arm"),
        (board("aarch64", 40, bits=32, flags=0x5000400), "arm"),
        (board("aarch64"), "aarch64"),
        (board("armv7l"), "arm"),
    ],
)
def test_the_architecture_is_that_of_the_board_s_own_programs(found: BoardAnswer, machine: str) -> None:
    assert machine_of(found) == machine


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (board("armv6l", 40, bits=32, flags=0x5000400), "armv6l"),
        (board("armv7l", 40, bits=32, flags=0x5000200), "armel"),
        (board("mips", 8, bits=32, little=False), "32-bit big-endian"),
        (board("aarch64_be", 183, little=False), "big-endian"),
        (board("riscv32", 243, bits=32), "32-bit"),
        (board("ppc64"), "ppc64"),
    ],
)
def test_boards_that_nothing_can_be_built_for(found: BoardAnswer, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        machine_of(found)


def test_an_architecture_that_the_user_names_must_run_there() -> None:
    for kernel, wanted in (("aarch64", "arm"), ("aarch64", "aarch64"), ("armv7l", "arm"), ("x86_64", "x86_64")):
        check_machine(board(kernel), wanted)
    for kernel, wanted in (("x86_64", "arm"), ("armv7l", "aarch64"), ("armv6l", "arm")):
        with pytest.raises(UnavailableError, match=f"of {kernel}, and runs no programs of {wanted}") as raised:
            check_machine(board(kernel), wanted)
        assert "--arch" in raised.value.hint


def test_the_kernel_s_name_and_the_boot() -> None:
    assert uname_of(board("aarch64"))[1:] == ("6.1.0", "#1 SMP", "aarch64")
    for text in (b"", b"Linux\n", b"a\nb\nc\nd\ne\n"):
        with pytest.raises(WireError):
            uname_of(BoardAnswer({"uname": text}, {}))
    path, boot = "/proc/sys/kernel/random/boot_id", "12345678-1234-1234-1234-123456789abc"
    assert BoardAnswer({}, {path: f"{boot}\n".encode()}).boot == boot
    assert BoardAnswer({}, {path: b"../../x"}).boot == ""


def test_sensors() -> None:
    zone, cpu = "/sys/class/thermal/thermal_zone", "/sys/devices/system/cpu/cpu"
    files = {
        f"{zone}0/temp": b"48312\n",
        f"{zone}1/temp": b"-5000\n",
        f"{zone}2/temp": b"9" * 40,
        f"{cpu}0/cpufreq/scaling_cur_freq": b"600000\n",
        f"{cpu}1/cpufreq/scaling_cur_freq": b"1500000\n",
        f"{cpu}0/thermal_throttle/core_throttle_count": b"3\n",
        f"{cpu}1/thermal_throttle/core_throttle_count": b"4\n",
    }
    assert sensor_facts(files, "after") == {
        "board_temperature_after": 48312,
        "board_frequency_after": 1_500_000,
        "board_throttled_after": 7,
    }
    assert sensor_facts({"/sys/devices/platform/soc/soc:firmware/get_throttled": b"50005\n"}, "before") == {
        "board_throttle_bits_before": 5
    }
    assert sensor_facts({f"{zone}0/temp": b"nan"}, "before") == {}


@pytest.mark.parametrize(
    ("part", "content", "message", "hint"),
    [
        ("locked", b"123 me@\x1b[1mhost\n", r"in use by me@\\x1b\[1mhost", "ssh -p 22 pi@b kill 123"),
        ("locked", b"$(x) y\n", "in use by y", "kill unknown"),
        ("no-proc", b"no /proc/self/stat\n", "has no /proc", "mount -t proc"),
        ("no-folder", b"mkdir: can't create: Read-only file system\n", "Read-only", "ssh:pi@b:22,folder=/path"),
        ("no-exec", b"sh: Permission denied\n", "noexec", "ssh:pi@b:22,folder=/path"),
        ("missing", b"env\n", "lacks the program env", "busybox"),
    ],
)
def test_a_board_that_can_t_run_trials(part: str, content: bytes, message: str, hint: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        check_answer(BoardAnswer({part: content}, {}), BoardFolder(host="b", user="pi", port=22))
    assert hint in raised.value.hint


def test_a_file_below_a_file_is_left_out(tmp_path: Path) -> None:
    mirror({"/proc/a": b"1\0", "/proc/a/b": b"2", "/sys/c/d": b"3"}, tmp_path)
    assert (tmp_path / "proc/a").read_bytes() == b"1"
    assert (tmp_path / "sys/c/d").read_bytes() == b"3"


def test_paths_on_a_board_mean_themselves_in_a_shell() -> None:
    for path in ("/a", "/home/pi/.cache/x", "/mnt/a@b+c=d"):
        assert is_board_path(path)
    for path in ("a", "/", "/a b", "/a;b", "/$x", "/a/../b", "/a,b", "/a\n", "/'"):
        assert not is_board_path(path)
        with pytest.raises(UserError):
            open_script(W, "s", "o", path)


def test_the_owner_s_name_can_t_end_its_quotes() -> None:
    assert b"'me__id__x@host'" in open_script(W, "s", "me';id;'x@host", "")
