# SPDX-License-Identifier: MIT OR Apache-2.0
"""Noise of kernel and hardware: what a board needs for it, and rtla's table. A program in rtla's place prints what the real one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model import BOOT_ORDER, VIRTUAL_CLOCK
from swapstone.core.record import Manifest, manifest_differences
from swapstone.core.run.kernel_noise import with_noise
from swapstone.core.session.capabilities import State, noise_findings
from swapstone.core.targets import kernel_noise
from swapstone.core.targets.fake import FakeTarget
from swapstone.parts.boards.targets.board import BoardFolder
from swapstone.parts.boards.targets.ssh_target import SshTarget
from tests.fake_ssh import FakeSsh
from tests.unit import builders

HEAD = """\x1b[2;37;40m                                          Operating System Noise                    \x1b[0;0;0m
duration:   0 00:00:05 | time is in us
\x1b[2;30;47mCPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI\x1b[0;0;0m
"""
TABLE = (
    f"{HEAD}  0 #4           4000000         1200    99.97000          410           56           2            0         4010  30 12\n"
    "  1 #4           4000000          800    99.98000          300           21           0            0         4002           10  2\n"
)
HARDWARE = (
    HEAD + "  0 #4           3000000           10    99.99966            7            7           3            0\n"
)
EVERY = "hwlat osnoise timerlat nop"

Board = Callable[..., SshTarget]


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """Return a maker of boards: their tracers, None for no tracefs, and a script in rtla's place, None for no rtla."""

    def make(tracers: str | None, rtla: str | None, *, root: bool = True) -> SshTarget:
        monkeypatch.setenv("PATH", FakeSsh(tmp_path / "board").path)
        programs, traces = tmp_path / "programs", tmp_path / "tracing"
        programs.mkdir()
        (programs / "id").write_text(f"#!/bin/sh\necho {0 if root else 1000}\n")
        (programs / "id").chmod(0o755)
        if tracers is not None:
            traces.mkdir()
            (traces / "available_tracers").write_text(f"{tracers}\n")
        if rtla is not None:
            (programs / "rtla").write_text(f"#!/bin/sh\n{rtla}\n")
            (programs / "rtla").chmod(0o755)
        monkeypatch.setattr(kernel_noise, "FOLDERS", f"{tmp_path}/nothing {traces}")
        monkeypatch.setattr(kernel_noise, "SEARCH_PATH", f"{programs}:/usr/bin:/bin")
        return SshTarget(BoardFolder(host="board"))

    return make


def rtla(tmp_path: Path, *, commands: str = "osnoise hwnoise timerlat", status: int = 0) -> str:
    """Return a script that prints rtla's usage or a table, and writes its arguments to a file."""
    (tmp_path / "table").write_text(TABLE)
    (tmp_path / "hardware").write_text(HARDWARE)
    return (
        f'echo "$*" >>{tmp_path}/arguments; case $1 in -h) echo "commands: {commands}"; exit 1 ;; '
        f"osnoise) cat {tmp_path}/table ;; hwnoise) cat {tmp_path}/hardware ;; esac; exit {status}"
    )


def test_both_commands_are_measured_and_the_numbers_are_the_table_s(board: Board, tmp_path: Path) -> None:
    with board(EVERY, rtla(tmp_path)) as target:
        assert kernel_noise.unavailable(target) == {"osnoise": "", "hwnoise": ""}
        assert [finding.state for finding in noise_findings(target)] == [State.GOOD, State.GOOD]
        assert kernel_noise.measure(target) == {
            "osnoise": "rtla osnoise top, 5 s on 2 processors before the trials: 0.025 % of the time lost, at most 56 us at once; "
            "2 interruptions by the hardware or a hypervisor",
            "hwnoise": "rtla hwnoise, 5 s on 1 processor before the trials: 0.00033 % of the time lost, at most 7 us at once; "
            "3 interruptions by the hardware or a hypervisor",
        }
    calls = [line for line in (tmp_path / "arguments").read_text().splitlines() if line != "-h"]
    assert calls == ["osnoise top -q -d 5", "hwnoise -q -d 5"]


NO_TRACERS = "the kernel shows no tracers: it has none, or needs `mount -t tracefs none /sys/kernel/tracing`"
ALL_COMMANDS = "osnoise hwnoise timerlat"
NO_TRACER = "the kernel has no tracer osnoise (CONFIG_OSNOISE_TRACER)"
NO_HWNOISE = "this rtla has no command hwnoise; osnoise counts interruptions by the hardware too"


@pytest.mark.parametrize(
    ("machine", "osnoise", "hwnoise"),
    [
        ((None, ALL_COMMANDS, True), NO_TRACERS, None),
        ((None, ALL_COMMANDS, False), "tracefs needs root", None),
        (("blk nop", ALL_COMMANDS, True), NO_TRACER, None),
        (("hwlat nop", ALL_COMMANDS, True), NO_TRACER, None),
        ((EVERY, None, True), "rtla is not installed there", None),
        ((EVERY, "osnoise timerlat", True), "", NO_HWNOISE),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_measured(
    board: Board, tmp_path: Path, machine: tuple[str | None, str | None, bool], osnoise: str, hwnoise: str | None
) -> None:
    """`machine` has the tracers, the commands of rtla, and whether the user is root; a `hwnoise` of None is as `osnoise`."""
    tracers, commands, root = machine
    script = rtla(tmp_path, commands=commands) if commands else None
    with board(tracers, script, root=root) as target:
        expected = {"osnoise": osnoise, "hwnoise": osnoise if hwnoise is None else hwnoise}
        assert kernel_noise.unavailable(target) == expected
        for finding in noise_findings(target):
            if expected[finding.name]:
                assert (finding.state, finding.found) == (State.MISSING, f"unavailable: {expected[finding.name]}")
        measured = kernel_noise.measure(target)
        assert {name: text for name, text in measured.items() if expected[name]} == {
            name: f"unavailable: {reason}" for name, reason in expected.items() if reason
        }


@pytest.mark.parametrize(
    ("table", "status", "words"),
    [
        ("osnoise needs root permission", 1, "'osnoise needs root permission'"),
        (TABLE, 1, "printed '1 #4"),
        (HEAD, 0, "printed"),
        ("", 0, "printed 'nothing'"),
        (HEAD + "  0 #0  0  0    0.00000  0  0  0  0\n", 0, "printed '0 #0"),
        (HEAD + "  0 #4  100  200    99.00000  7  7  0  0\n", 0, "printed '0 #4"),
        ("evil \x1b[31m\x07 text", 0, "printed 'evil"),
    ],
)
def test_a_table_that_is_none_gives_no_number(
    board: Board, tmp_path: Path, table: str, status: int, words: str
) -> None:
    script = rtla(tmp_path, status=status)
    (tmp_path / "table").write_text(table)
    with board(EVERY, script) as target:
        found = kernel_noise.measure(target)["osnoise"]
    assert found.startswith("unavailable: rtla osnoise top ") and words in found
    assert "\x1b" not in found and "of the time" not in found


_COUNT = st.integers(0, 10**11 - 1)


def printed_row(cpu: int, runtime: int, noise: int, counts: Sequence[int]) -> str:
    """Return a row as `osnoise_top_print` of rtla prints it (since Linux 5.17): by its formats, and its spaces between them.

    Args:
        cpu: the number of the processor.
        runtime, noise: sums.
        counts: longest sum, longest single one, hardware, NMI; for osnoise also interrupts, softirqs and threads.
    """
    share = (runtime - noise) * 10_000_000 // runtime
    longest, single, *rest = counts
    percent = f"{share // 100_000:3d}.{share % 100_000:05d}"
    head = f"{cpu:3d} #{runtime // 10**6:<6d} {runtime:12d} {noise:12d}   {percent}{longest:12d} {single:12d}"
    return head + "".join(f"{each:12d} " for each in rest[:2]) + " ".join(f"{each:12d}" for each in rest[2:]) + "\n"


@given(
    cpus=st.lists(st.integers(0, 4095), min_size=1, max_size=5, unique=True),
    runtime=st.integers(1, 10**11),
    share=st.floats(0, 1),
    counts=st.lists(_COUNT, min_size=7, max_size=7) | st.lists(_COUNT, min_size=4, max_size=4),
    coloured=st.booleans(),
)
def test_what_rtla_s_formats_print_is_read(
    cpus: list[int], runtime: int, share: float, counts: list[int], coloured: bool
) -> None:
    noise = int(runtime * share)
    rows = [printed_row(cpu, runtime, noise, counts) for cpu in cpus]
    head = (
        HEAD if coloured else HEAD.replace("\x1b[2;37;40m", "").replace("\x1b[2;30;47m", "").replace("\x1b[0;0;0m", "")
    )
    found = kernel_noise.read_table(head + "".join(rows))
    assert found == kernel_noise.KernelNoise(
        processors=len(cpus),
        runtime_us=runtime * len(cpus),
        noise_us=noise * len(cpus),
        longest_us=counts[1],
        hardware=counts[2] * len(cpus),
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [  # the numbers of the examples in rtla-osnoise-top(1) and rtla-hwnoise(1)
        (
            (0, 53_100_000, 304_896, (6978, 56, 549, 0, 53_111, 1590, 13)),
            "99.42580        6978           56         549",
        ),
        ((1, 599_000_000, 138, (3, 3, 4, 74)), "99.99997           3            3           4           74"),
    ],
)
def test_the_rows_of_the_manual_pages_are_those_of_the_formats(
    row: tuple[int, int, int, tuple[int, ...]], expected: str
) -> None:
    assert expected in printed_row(*row)


def test_the_table_of_a_real_tracer_is_read() -> None:
    text = (Path(__file__).parents[2] / "recorded" / "rtla-osnoise-top.txt").read_text()
    found = kernel_noise.read_table(text)
    assert found == kernel_noise.KernelNoise(
        processors=1, runtime_us=4_163_941, noise_us=3_753_080, longest_us=160_936, hardware=638
    )


def test_a_board_whose_processors_are_measured_may_answer_late(board: Board, tmp_path: Path) -> None:
    """The tracer's threads leave its ssh server little time: the connection gets the limit of the command."""
    with board(EVERY, rtla(tmp_path)) as target:
        calls = (tmp_path / "board" / "called").read_text()
        assert "ServerAliveCountMax=3\n" in calls
        kernel_noise.measure(target)
        later = (tmp_path / "board" / "called").read_text()[len(calls) :]
    assert f"ServerAliveCountMax={(5 + 60 + 15) // 5}\n" in later


def test_events_that_rtla_lost_are_stated() -> None:
    for line in ("12 (3.50%) events missed, results might not be accurate", "unknown number of events missed, results"):
        found = kernel_noise.read_table(f"{TABLE}{line}\n")
        assert found is not None and "rtla lost some events" in found.text("rtla")
    found = kernel_noise.read_table(TABLE)
    assert found is not None and "lost some" not in found.text("rtla")


def test_a_session_with_the_suite_latency_measures_once_and_a_resumed_one_may_differ(
    board: Board, tmp_path: Path
) -> None:
    empty = Manifest(machine=(("cpu", "x"),), tools=(), artifacts=(), passes=())
    latency = builders.experiment(workloads=(("latency", "wakeup"),), target="ssh:board")
    with board(EVERY, rtla(tmp_path)) as target:
        found = with_noise(empty, latency, target)
        assert dict(found.machine)["osnoise"].startswith("rtla osnoise top, 5 s on 2 processors")
        for other in (
            builders.experiment(target="ssh:board"),
            msgspec.structs.replace(latency, target="vm", clock=VIRTUAL_CLOCK),
        ):
            assert with_noise(empty, other, target) == empty
        own = dict(with_noise(empty, msgspec.structs.replace(latency, order=BOOT_ORDER), target).machine)
        assert own["osnoise"] == own["hwnoise"] == "unavailable: each variant has boots of its own"
    assert manifest_differences(found, empty) == ()
    changed = msgspec.structs.replace(empty, machine=(("cpu", "y"),))
    assert len(manifest_differences(found, changed)) == 1


def test_a_target_that_runs_no_commands_measures_nothing(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("[[behaviour]]\nwall_ns = 1000\n")
    empty = Manifest(machine=(), tools=(), artifacts=(), passes=())
    latency = builders.experiment(workloads=(("latency", "wakeup"),), target="fake:x")
    with FakeTarget(tmp_path / "spec.toml") as target:
        assert with_noise(empty, latency, target) == empty
