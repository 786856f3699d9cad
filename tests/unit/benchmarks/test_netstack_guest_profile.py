# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles of the bare-metal guest: load, names of samples, and the report."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import netstack_guest, netstack_guest_profile
from benchmarks.netstack_guest_profile import Load, Profile, cost, sample
from benchmarks.netstack_guest_report import answer, by_class, data, share, text
from benchmarks.netstack_lab import UnavailableError
from benchmarks.netstack_output import UnreadableError
from benchmarks.netstack_profile import TABLE, Classes, Cost, keep
from benchmarks.riscv_frames import Stack
from benchmarks.riscv_image import Place

CLASSES = Classes(TABLE.read_text())
AB = "Complete requests:      10\nFailed requests:        {}\nRequests per second:    9.5 [#/sec] (mean)\n"


def costs(**counts: int) -> tuple[Cost, ...]:
    return tuple(Cost(("_start", "start", name), "", 1) for name, count in counts.items() for _ in range(count))


LWIP = Profile(
    stack="lwip",
    wanted=20,
    idle=12,
    costs=costs(lwip_standard_chksum=4, tcp_input=3, memcpy=1),
    whole=7,
    reasons={"the frame pointer is not aligned": 1},
    runs=2,
    requests=20,
    failed=0,
)


class FakeLab:
    """A lab whose ab prints a text."""

    def __init__(self, output: str) -> None:
        self.commands: list[Sequence[str]] = []
        self._output = output

    @contextlib.contextmanager
    def beside(self, command: Sequence[str], *, client: bool = False) -> Iterator[subprocess.Popen[str]]:
        assert client
        self.commands.append(command)
        program = ("printf", "%s", self._output)
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            yield process


def load(output: str) -> tuple[Load, FakeLab]:
    lab = FakeLab(output)
    typed: Any = lab
    return Load(typed, 10, 3), lab


def test_ab_is_started_again_when_it_has_ended_and_its_requests_are_counted() -> None:
    one, lab = load(AB.format(2))
    with one:
        for _ in range(3):
            one.keep_running()
            process = one._process
            assert process is not None
            process.wait()
        one.finish()
        one.finish()  # nothing runs
    assert (one.runs, one.requests, one.failed) == (3, 30, 6)
    assert lab.commands[0] == ("ab", "-q", "-n", "10", "-c", "3", "http://10.9.0.2/")


def test_an_ab_that_makes_no_request_ends_the_profile() -> None:
    one, _ = load("apr_socket_connect(): Connection refused (111)\n")
    with one, pytest.raises(UnreadableError, match="refused"):
        one.keep_running()
        one.finish()


class FakeImage:
    """A program that is not read."""

    def __init__(self, _: Path) -> None:
        pass


def test_a_gdbstub_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netstack_guest_profile, "Image", FakeImage)
    one, lab = load("")
    typed: Any = lab
    with pytest.raises(UnavailableError, match=r"QEMU's gdbstub accepts no connection: .*No such file"):
        sample(typed, tmp_path / "gdb", tmp_path / "guest", 1, one)


def test_a_gdbstub_that_breaks_the_protocol_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netstack_guest_profile, "Image", FakeImage)
    one, lab = load("")
    typed: Any = lab
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "gdb"))
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as connection:
                connection.recv(5)
                connection.sendall(b"HTTP/1.1 400")

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(UnavailableError, match=r"^QEMU's gdbstub: b'H' is no acknowledgement$"):
            sample(typed, tmp_path / "gdb", tmp_path / "guest", 1, one)
        server.join()
    assert not lab.commands


def test_a_return_address_is_named_by_its_call() -> None:
    names = {
        100: (Place("data", "ip.rs"), Place("emit", "tcp.rs")),
        199: (Place("poll", "net.rs"),),
        299: (Place("_start", ""),),
    }
    assert cost(Stack((100, 200, 300), None), names) == Cost(("_start", "poll", "emit", "data"), "ip.rs", 1)


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (("<swapstone_net_virtio::VirtioNet>::offer", "<virtio_drivers::Raw>::receive_begin"), "link or driver"),
        (("tcp_output", "<swapstone_net_virtio::VirtioNet as swapstone_net::Device>::transmit"), "link or driver"),
        (("swapstone_net_guest::server::serve", "swapstone_net_guest::machine::now"), "link or driver"),
        (("start", "swapstone_net_guest::server::serve"), "application"),
        (("<swapstone_net_apps::server::HttpServer>::event",), "application"),
        (("<linked_list_allocator::LockedHeap as core::alloc::GlobalAlloc>::alloc",), "allocator"),
        (("<smoltcp::socket::tcp::Socket>::send", "memcpy", "compiler_builtins::mem::memcpy"), "copy"),
        (("<swapstone_net_virtio::VirtioNet>::take", "memcpy"), "link or driver"),
    ],
)
def test_functions_of_the_guest_have_a_class(stack: tuple[str, ...], expected: str) -> None:
    assert CLASSES.of(Cost(stack, "", 1)) == expected


def test_the_answer_states_the_wait_the_classes_and_the_hottest_function() -> None:
    assert answer(LWIP, CLASSES) == (
        "Of lwIP's 20 samples, 60 % wait for frames. Of the 8 others, 50 % checksum, 38 % stack, 12 % copy; "
        "the function with the most, 50 %, is lwip_standard_chksum."
    )
    assert answer(dataclasses.replace(LWIP, costs=()), CLASSES) == (
        "Of lwIP's 12 samples, 100 % wait for frames; none is of work."
    )
    assert answer(dataclasses.replace(LWIP, costs=(), idle=0), CLASSES) == "lwIP: no sample was taken."


def test_a_share_has_wilsons_interval() -> None:
    assert share(4, 8) == "50 % (22 to 78)"
    assert share(0, 0) == "-"


def test_the_table_has_a_column_for_each_stack() -> None:
    other = dataclasses.replace(LWIP, stack="smoltcp", costs=costs(tcp_input=2))
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in by_class((LWIP, other), CLASSES).splitlines()
    }
    assert rows[""] == ["lwIP", "smoltcp"]
    assert rows["samples"] == ["20", "14"]
    assert rows["idle (wfi)"] == ["60 % (39 to 78)", "86 % (60 to 96)"]
    assert rows["of these: stack"] == ["38 % (14 to 69)", "100 % (34 to 100)"]
    assert rows["checksum"] == ["50 % (22 to 78)", "0 % (0 to 66)"]
    assert "allocator" not in rows


def test_the_report_names_stacks_that_end_early_missing_samples_and_limits() -> None:
    found = text((dataclasses.replace(LWIP, wanted=500),), CLASSES)
    assert found.startswith(answer(LWIP, CLASSES) + "\n")
    assert "4 samples, 50 % (22 to 78)\n    lwip_standard_chksum\n    start\n    _start\n" in found
    assert "lwIP: 7 of 8 stacks reach the entry code of the guest. ab made 20 requests in 2 runs, 0 failed." in found
    assert "lwIP: 1 stack ends early: the frame pointer is not aligned." in found
    assert "lwIP: only 20 of 500 samples were taken in the time limit." in found
    assert "\n- Shares are measured, not times" in found
    assert "only" not in text((LWIP,), CLASSES).partition("\n- ")[0]


def test_the_data_has_all_stacks() -> None:
    found = json.loads(json.dumps(data(LWIP, CLASSES)))
    assert (found["samples"], found["idle"], found["whole"], found["failed"]) == (20, 12, 7, 0)
    assert sum(one["samples"] for one in found["stacks"]) == 8
    assert found["stacks"][0] == {"stack": ["_start", "start", "lwip_standard_chksum"], "samples": 4}
    assert found["functions"][0] == {"function": "lwip_standard_chksum", "class": "checksum", "samples": 4}


def test_stacks_are_written_folded_and_as_a_flame_graph(tmp_path: Path) -> None:
    keep(None, "x", LWIP.costs)
    keep(tmp_path, "bare lwip sampled", LWIP.costs)
    assert (tmp_path / "bare-lwip-sampled.folded").read_text() == (
        "_start;start;lwip_standard_chksum 4\n_start;start;memcpy 1\n_start;start;tcp_input 3\n"
    )
    assert "lwip_standard_chksum" in (tmp_path / "bare-lwip-sampled.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "--samples", "0"), "0 is not a number from 1 to 100000"),
        (("--profile", "--samples", "-5"), "-5 is not a number from 1 to 100000"),
        (("--profile", "--samples", "many"), "many is not a number"),
        (("--out", "x"), "--out needs --profile"),
        (("--samples", "5"), "--samples needs --profile"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["netstack_guest.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        netstack_guest.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
