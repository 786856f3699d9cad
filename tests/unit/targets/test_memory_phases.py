# SPDX-License-Identifier: MIT OR Apache-2.0
"""Phases that a program marks, and samples of its resident memory."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.targets.memory_cgroup import MemoryCgroup
from swapstone.core.targets.memory_phases import (
    MOST_PHASES,
    MOST_SAMPLES,
    Mark,
    PhaseLog,
    PhaseWatch,
    parse_mark,
    resident_bytes,
    sampling_trouble,
    thinned,
    with_phases,
)
from swapstone.core.wire import TrialRequest

MIB = 1 << 20
MS = 1_000_000


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        (b"spike", Mark("spike")),
        (b"  quiet-2.a_b  live=20971520 ", Mark("quiet-2.a_b", 20971520)),
        (b"live=0", Mark("", 0)),
        (b"", None),
        (b"spike now", None),
        (b"spike live=1 live=2", None),
        (b"spike live=-1", None),
        (b"live=1 spike", None),
        (b"live=1e3", None),
        (b"live=9999999999999999999", None),
        (b"-spike", None),
        (b"\x1b[31mspike", None),
        (b"\xff\xfe", None),
        (b"a" * 32, Mark("a" * 32)),
        (b"a" * 33, None),
    ],
)
def test_a_mark_is_a_name_or_the_live_bytes_or_both(line: bytes, mark: Mark | None) -> None:
    assert parse_mark(line) == mark


def test_samples_belong_to_the_phase_in_which_they_were_taken() -> None:
    log = PhaseLog()
    log.sample(1000 * MS, 5)
    assert log.line(1010 * MS, b"spike")
    for at, size in ((1011, 10), (1020, 90), (1030, 40), (1040, 42), (1049, 41)):
        log.sample(at * MS, size)
    assert log.line(1050 * MS, b"quiet live=8")
    log.sample(1060 * MS, 20)
    assert not log.line(1065 * MS, b"live=10")
    assert not log.line(1066 * MS, b"no mark")
    start, spike, quiet = log.series().phases
    assert (start.name, start.began_ns, start.ended_ns, start.peak_bytes) == ("start", 0, 10 * MS, 5)
    assert (spike.name, spike.began_ns, spike.ended_ns, spike.samples) == ("spike", 10 * MS, 50 * MS, 5)
    assert (spike.peak_bytes, spike.retained_bytes, spike.retained_over_live) == (90, 41, None)
    assert (quiet.live_bytes, quiet.retained_bytes, quiet.retained_over_live) == (10, 20, 2.0)
    assert quiet.ended_ns == 60 * MS
    assert log.series().ignored == 1
    assert log.series().samples[:2] == ((0, 5), (11 * MS, 10))
    assert log.series().marked


def test_what_the_end_of_the_program_frees_does_not_count() -> None:
    log = PhaseLog()
    for at in range(20):
        log.sample(at * MS, 100 if at < 18 else 3)
    assert log.series().phases[0].retained_bytes == 100
    assert not log.series().marked


def test_a_phase_without_a_sample_has_none() -> None:
    log = PhaseLog()
    log.line(0, b"first live=1")
    log.line(5, b"second")
    log.sample(6, 7)
    start, first, second = log.series().phases
    assert (start.samples, start.ended_ns) == (0, 0)
    assert (first.name, first.samples, first.retained_bytes, first.retained_over_live) == ("first", 0, 0, None)
    assert (second.name, second.retained_bytes) == ("second", 7)


def test_a_phase_whose_only_sample_is_at_its_beginning_has_that_one() -> None:
    log = PhaseLog()
    log.line(0, b"short")
    log.sample(0, 7)
    log.line(100, b"next")
    assert log.series().phases[1].retained_bytes == 7


def test_too_many_phases_are_counted_and_not_kept() -> None:
    log = PhaseLog()
    for number in range(MOST_PHASES + 5):
        log.line(number, b"phase%d" % number)
    log.sample(1000, 1)
    assert len(log.series().phases) == MOST_PHASES + 1
    assert log.series().ignored == 5


def test_a_long_series_stays_short_and_keeps_its_peak_and_its_order() -> None:
    count = 10 * MOST_SAMPLES + 3
    pairs = thinned([(at, 9 if at == 4567 else 1) for at in range(count)])
    assert MOST_SAMPLES // 2 <= len(pairs) <= MOST_SAMPLES
    assert [size for _, size in pairs].count(9) == 1
    times = [at for at, _ in pairs]
    assert times == sorted(set(times))
    step = times[1]
    assert max(at for at, size in pairs if size == 9) == 4567 // step * step
    assert times[-1] > count - 2 * step
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {step}


def test_a_program_finds_the_fifo_except_in_another_root_file_system() -> None:
    variables = (("SWAPSTONE_PHASES", "/etc/passwd"), ("A", "1"))
    request = TrialRequest(id="a", arguments=("/bin/true",), cwd="/", timeout_ms=1, environment=variables)
    assert with_phases(request, Path("/f")) == (("A", "1"), ("SWAPSTONE_PHASES", "/f"))
    assert with_phases(msgspec.structs.replace(request, root="/r"), Path("/f")) == (("A", "1"),)


def test_a_kernel_without_the_figures_is_named(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("Rss: 4 kB\nPss: 4 kB\n")
    assert "has no Pss_Anon" in sampling_trouble(tmp_path / "old")
    assert "No such file" in sampling_trouble(tmp_path / "none")


def group_of(folder: Path, *processes: int) -> Path:
    """Make a folder that lists processes, as a cgroup does."""
    (folder / "cgroup.procs").write_text("".join(f"{process}\n" for process in processes))
    return folder


@pytest.mark.skipif(bool(sampling_trouble()), reason=sampling_trouble())
def test_shared_pages_count_once_and_the_agent_does_not(tmp_path: Path) -> None:
    script = (
        "import os, sys\nblock = bytearray(64 << 20)\nchild = os.fork()\n"
        "if child: print(child, flush=True)\nsys.stdin.read(1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        both = resident_bytes(group_of(tmp_path, process.pid, child), 0)
        assert both is not None
        assert 64 * MIB <= both < 100 * MIB
        assert resident_bytes(group_of(tmp_path, process.pid), process.pid) is None
        assert resident_bytes(group_of(tmp_path, process.pid, child), process.pid) is None  # its worker
        one = resident_bytes(group_of(tmp_path, process.pid, child), os.getpid())
        assert one is not None
        assert 30 * MIB < one < 50 * MIB  # half of what two processes share
        process.kill()
        os.kill(child, 9)
    assert resident_bytes(group_of(tmp_path, process.pid), 0) is None


@pytest.mark.skipif(bool(sampling_trouble()), reason=sampling_trouble())
def test_a_process_that_ends_while_it_is_read_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> bytes:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    group = group_of(tmp_path, os.getpid())
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: gone(path) if path.name == "smaps_rollup" else real(path))
    assert resident_bytes(group, -1) is None


def test_a_writer_that_floods_the_fifo_with_one_long_line_is_ignored(tmp_path: Path) -> None:
    group = group_of(tmp_path)
    with PhaseWatch(tmp_path / "fifo", group, lambda: -1, samples=False) as watch, watch.path.open("wb") as fifo:
        fifo.write(b"spike" + b" " * 300_000 + b"live=1\n" + b"\n" * 5 + b"quiet\n" + b"idle live=3")
    series = watch.result()
    assert [phase.name for phase in series.phases] == ["start", "quiet", "idle"]
    assert series.phases[2].live_bytes == 3
    assert series.ignored == 1
    assert "only runs without a limit" in series.unavailable
    assert not watch.path.exists()


def test_a_fifo_that_the_program_removed_is_no_error(tmp_path: Path) -> None:
    with PhaseWatch(tmp_path / "fifo", group_of(tmp_path), lambda: -1, samples=True) as watch:
        watch.path.unlink()
    assert watch.result().phases[0].samples == 0


def test_a_group_that_can_not_be_read_is_unavailable(tmp_path: Path) -> None:
    with PhaseWatch(tmp_path / "fifo", tmp_path / "none", lambda: -1, samples=True) as watch:
        watch._thread.join(0.2)
    assert os.strerror(errno.ENOENT) in watch.result().unavailable or sampling_trouble()


@pytest.mark.skipif(bool(sampling_trouble()), reason=sampling_trouble())
def test_nothing_is_sampled_without_an_agent(tmp_path: Path) -> None:
    agents: list[int | None] = [None]
    with PhaseWatch(tmp_path / "fifo", group_of(tmp_path, os.getpid()), lambda: agents[0], samples=True) as watch:
        time.sleep(0.05)
        agents[0] = os.getpid()
        time.sleep(0.05)
        agents[0] = None
        time.sleep(0.05)
    assert watch.result().samples == ()


DENIED = PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("results", "sizes", "unavailable"),
    [
        ([DENIED, DENIED, 5, 6], [5, 6], ""),  # the agent's child, before it executes the program
        ([DENIED, 5, DENIED, 6], [5], "can't be read: Permission denied"),  # a child of the program
        ([DENIED, DENIED], [], "can't be read: Permission denied"),
        ([None, 5, None], [5], ""),
        ([FileNotFoundError(errno.ENOENT, "No such file"), 5], [], "can't be read: No such file"),
    ],
)
def test_a_process_that_may_not_be_read_is_unavailable_once_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: list[object], sizes: list[int], unavailable: str
) -> None:
    left = list(results)

    def next_result(group: Path, agent: int) -> int | None:
        result = left.pop(0) if left else None
        if isinstance(result, OSError):
            raise result
        assert result is None or isinstance(result, int)
        return result

    monkeypatch.setattr("swapstone.core.targets.memory_phases.resident_bytes", next_result)
    monkeypatch.setattr("swapstone.core.targets.memory_phases.sampling_trouble", lambda: "")
    with PhaseWatch(tmp_path / "fifo", tmp_path, lambda: -1, samples=True) as watch:
        while left and not watch._unavailable:
            time.sleep(0.001)
    series = watch.result()
    assert [size for _, size in series.samples] == sizes
    assert unavailable in series.unavailable
    assert bool(series.unavailable) == bool(unavailable)


@pytest.mark.slow
@pytest.mark.skipif(bool(sampling_trouble()), reason=sampling_trouble())
def test_a_program_in_a_group_is_sampled_by_phase(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "def mark(text):\n    with open(sys.argv[1], 'w') as fifo: fifo.write(text + '\\n')\n"
        "mark('spike'); block = bytearray(48 << 20); print('ready', flush=True); sys.stdin.read(1)\n"
        "del block; mark('quiet live=1048576'); print('ready', flush=True); sys.stdin.read(1)\n"
    )
    try:
        group = MemoryCgroup()
    except UnavailableError as error:
        pytest.skip(error.message)
    with group, PhaseWatch(tmp_path / "fifo", group.path, lambda: -1, samples=True) as watch:
        command = group.command(Path(sys.executable), "-c", script, str(watch.path))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(2):
                assert process.stdout.readline() == b"ready\n"
                before = watch.result().phases[-1].samples
                while watch.result().phases[-1].samples < 2 * before + 5:
                    time.sleep(0.001)
                process.stdin.write(b"x")
                process.stdin.flush()
    spike, quiet = watch.result().phases[-2:]
    assert (spike.name, quiet.name) == ("spike", "quiet")
    assert spike.peak_bytes > 48 * MIB > quiet.retained_bytes
    assert quiet.retained_over_live == quiet.retained_bytes / MIB > 1
