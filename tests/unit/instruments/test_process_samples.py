# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an ordinary user gets: threads sampled in /proc, user code alone, and partial counts of strace."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.explanation.profile_formats import waiting_stack
from swapstone.parts.explain.instruments import (
    offcpu,
    oncpu,
    perf,
    requirements,
    syscalls,
    traced_run,
)
from swapstone.parts.explain.instruments.offcpu import (
    ThreadSample,
    Timeline,
    events_of,
    read_threads,
    sampled_recording,
)
from swapstone.parts.explain.instruments.perf import (
    BRIEF_TIMES,
    Event,
    MeasuredWindows,
    ProfileBuilder,
    RecordedRuns,
    Recording,
    RunPlan,
    Symbolizer,
    planned_runs,
)
from swapstone.parts.explain.instruments.requirements import MissingRequirement
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, TracedRun, Tracee
from swapstone.parts.explain.model.explanation import UNSAMPLED
from tests.programs import needs

REFUSED = MissingRequirement("the kernel refuses samples of the kernel", "a remedy")
NO_TRACING = MissingRequirement("tracefs needs root", "")


def tracee(*arguments: str, region: Region = Region.PROGRAM) -> Tracee:
    return Tracee("v", TrialRequest(id="x", arguments=arguments, cwd="/", timeout_ms=60_000), region, 5.0)


def thread(folder: Path, state: str, spent: str = "5 6 7", call: str = "", channel: str = "0") -> None:
    folder.mkdir(parents=True)
    for name, text in (("stat", f"7 (a) R) {state} 1 2"), ("schedstat", spent), ("syscall", call), ("wchan", channel)):
        (folder / name).write_text(text)


def test_threads_are_read_with_what_they_wait_for(tmp_path: Path) -> None:
    tasks = tmp_path / "7" / "task"
    thread(tasks / "7", "S", call="35 0x1 0x2 0x7ff 0x4", channel="hrtimer_nanosleep")
    thread(tasks / "8", "R", call="running")
    thread(tasks / "9", "D", call="-1 0x1 0x2")
    thread(tasks / "10", "S", call="", channel="a b;")
    thread(tasks / "11", "S", spent="x")
    found = read_threads((7, 99), {35: "nanosleep"}, tmp_path)
    assert {tid: (each.running, each.waits) for tid, each in found.items()} == {
        7: (False, ("__x64_sys_nanosleep", "hrtimer_nanosleep")),
        8: (True, ()),
        9: (False, ("asm_exc_page_fault",)),
        10: (False, ()),
    }
    assert found[7][3:] == (5, 6, 7)
    assert read_threads((7,), {}, tmp_path)[7].waits[0] == "__x64_sys_35"


def at(running: bool, ran: int, ready: int = 0, turns: int = 1, waits: tuple[str, ...] = ()) -> ThreadSample:
    return ThreadSample(7, running, waits, ran, ready, turns)


def test_the_time_between_samples_belongs_to_what_a_thread_did() -> None:
    sleep = ("__x64_sys_nanosleep", "hrtimer_nanosleep")
    samples = [
        (1000, {7: at(True, 0)}),  # of the next 100 ns it was ready for 25 %
        (1100, {7: at(False, 30, 10, waits=sleep)}),
        (1300, {7: at(False, 30, 10, waits=sleep), 8: at(False, 0, waits=("__x64_sys_futex",))}),
        (1400, {7: at(True, 30, 10, 2), 8: at(False, 0, waits=("__x64_sys_futex",))}),
        (1500, {7: at(True, 130, 10, 2)}),
    ]
    timeline = Timeline(Symbolizer(tracee("/bin/true")), callers=False)
    ended = TracedRun("", 0, 0)
    timeline.follow(Recording([*events_of(samples)], MeasuredWindows(((1000, 1500),)), ended, 0, ""))
    found = timeline.elapsed(1.0, ())
    waits = {waiting_stack(frames): ns for frames, ns in found.waits.weighted()}
    assert waits == {(Frame(symbol="__x64_sys_nanosleep", object=KERNEL),): 300.0}, "the thread that goes on ends it"
    assert (found.ready_ns, found.running_ns, found.most_threads) == (25.0, 175.0, 1)


@needs("sleep")
def test_an_ordinary_users_waits_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "missing_perf", lambda: REFUSED)
    reference = ReferenceRuns({"wall": 1e8, "cpu": 1e6}, (), tmp_path, 0.2, brief=True)
    sleep = tracee("/bin/sleep", "0.2")
    found = offcpu.measure(sleep, reference)
    assert found.elapsed is not None and found.amounts == ()
    most = max(found.elapsed.waits.weighted(), key=lambda each: each[1])[0]
    assert waiting_stack(most)[0].symbol in {"__x64_sys_clock_nanosleep", "__x64_sys_nanosleep"}
    assert len(found.elapsed.runs) >= perf.RUNS
    assert any("sampled in /proc every 5 ms" in note and REFUSED.reason in note for note in found.notes)
    monkeypatch.setattr(offcpu, "INTERVAL_S", 30.0)
    with pytest.raises(UnavailableError, match="the run was too short for two samples of /proc, 30000 ms apart"):
        sampled_recording(tracee("/bin/true"), reference)


def test_time_in_the_kernel_is_that_of_the_kernels_own_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    stack = ((0, "work", "/bin/x"),)

    def recordings(
        each: Tracee, make: functools.partial[Recording], _: object, **more: object
    ) -> Iterator[tuple[int, Recording]]:
        given.extend((each.region, each.operations, make.args[1], make.keywords["kernel"]))
        runs = more["runs"]
        assert isinstance(runs, RecordedRuns)
        events = [Event("cpu-clock", "x", 7, 7, 5, stack=stack)] * 3
        recording = Recording(events, MeasuredWindows(((0, 10),)), TracedRun("", 0, 0), 0, "")
        runs.add(recording, each, [])
        yield 0, recording

    monkeypatch.setattr(requirements, "missing_perf", lambda: REFUSED)
    monkeypatch.setattr(requirements, "missing_tracepoints", lambda: NO_TRACING)
    monkeypatch.setattr(oncpu, "recordings", recordings)
    passes = dataclasses.replace(tracee("/bin/x", "3", region=Region.PASSES))
    metrics = {"wall": 1e9, "cpu": 1e9, "user": 3e6, "system": 1e6}
    found = oncpu.measure(passes, ReferenceRuns(metrics, (), tmp_path, 1.0))
    assert found.profile is not None
    shares = {frames: weight / found.profile.total for frames, weight in found.profile.weighted()}
    assert shares == {(Frame(symbol="work", object="x"),): pytest.approx(0.75), (UNSAMPLED,): pytest.approx(0.25)}
    assert given[0] is Region.PROGRAM and given[1] == 5.0 and given[3] is False
    assert any("/u" in str(option) for option in given[2])  # type: ignore[attr-defined]
    assert f"{REFUSED.reason}: time in the kernel is that of wait4(2), without functions" in found.notes
    few = ReferenceRuns({"wall": 1e9, "cpu": 1e9}, (), tmp_path, 1.0)
    ended = TracedRun("", 0, 0, user_s=1.0, system_s=3.0)
    monkeypatch.setattr(oncpu, "run", lambda *_: ended)
    whole = oncpu.measure(passes, few).profile
    assert whole is not None and dict(whole.weighted())[UNSAMPLED,] / whole.total == pytest.approx(0.75)
    monkeypatch.setattr(oncpu, "run", lambda *_: dataclasses.replace(ended, user_s=0.0, system_s=0.0))
    with pytest.raises(UnavailableError, match="and the time in the kernel is not known"):
        oncpu.measure(passes, few)


def test_a_run_has_its_processor_time(tmp_path: Path) -> None:
    busy = tracee("/bin/sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    ended = traced_run.run(("env",), busy, ReferenceRuns({}, (), tmp_path, 5.0))
    assert ended.status == 0 and ended.user_s > 10 * ended.system_s >= 0


def test_a_share_is_that_of_each_run() -> None:
    builder, frame = ProfileBuilder(), (Frame(symbol="a", object=OWN_OBJECT),)
    builder.add(frame, 30.0, 0)
    builder.add(frame, 60.0, 1)
    builder.add_share((UNSAMPLED,), 0.0)
    builder.add_share((UNSAMPLED,), 0.25)
    profile = builder.profile("on-cpu", "ns", 1.0, parts=2)
    assert [[weight for _, weight in run.weights] for run in profile.runs] == [[30.0, 10.0], [60.0, 20.0]]


@pytest.mark.parametrize(
    ("works", "reason"), [(True, None), (False, "the kernel refuses perf events (kernel.perf_event")]
)
def test_user_code_alone_needs_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, works: bool, reason: str | None
) -> None:
    perf = tmp_path / "perf"
    perf.write_text(f"""#!/bin/sh\ncase "$*" in stat*:u*) exit {int(not works)};; stat*) exit 1;; esac\n""")
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    requirements.missing_user_samples.cache_clear()
    found = requirements.missing_user_samples()
    requirements.missing_user_samples.cache_clear()
    assert (found is None) == works
    assert found is None or (reason is not None and found.reason.startswith(reason))


def test_an_ordinary_user_gets_fewer_runs_and_shorter_limits() -> None:
    reference = ReferenceRuns({"wall": 2e9, "cpu": 2e9}, (), Path(), 2.0)
    brief = dataclasses.replace(reference, brief=True)
    assert (reference.limit_s, brief.limit_s) == (40.0, 2.0 + traced_run.BRIEF_S)
    times = (traced_run.BRIEF_S, BRIEF_TIMES * traced_run.BRIEF_S)
    assert planned_runs(tracee("/x"), brief, samples=1000, rate_hz=2000.0) == RunPlan(5, 1, *times)
    brief = dataclasses.replace(brief, longest_s=3.0)
    assert planned_runs(tracee("/x"), brief, samples=1000, rate_hz=2000.0) == RunPlan(1, 8, *times)


@needs("strace", "cc")
def test_counts_of_a_run_that_takes_too_long_under_strace_are_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "missing_tracepoints", lambda: NO_TRACING)
    monkeypatch.setattr(traced_run, "BRIEF_S", 1.0)
    endless = tracee("/bin/sh", "-c", "while cd /; do :; done")
    found = syscalls.measure(
        dataclasses.replace(endless, operations=1.0), ReferenceRuns({"wall": 1e9}, (), tmp_path, 0.5)
    )
    counted = {each.name: each.value for each in found.amounts}
    assert found.partial and counted["chdir"] > 10
    assert "strace was ended after 2 s, so its counts are partial" in found.notes
    whole = syscalls.measure(tracee("/bin/sh", "-c", "cd /"), ReferenceRuns({"wall": 1e9}, (), tmp_path, 5.0))
    assert not whole.partial and {each.name: each.value for each in whole.amounts}["chdir"] == 0.2


def test_without_tracepoints_and_strace_the_remedy_is_the_one_that_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """perf alone counts no system calls for a user who can't use tracepoints."""
    monkeypatch.setattr(requirements, "missing_tracepoints", lambda: NO_TRACING)
    monkeypatch.setattr(
        requirements, "missing_tool", lambda tool, _: MissingRequirement(f"no {tool}", f"install {tool}")
    )
    with pytest.raises(UnavailableError, match=r"^tracefs needs root; no strace\n") as caught:
        syscalls.measure(tracee("/bin/true"), ReferenceRuns({"wall": 1e9}, (), tmp_path, 0.5))
    assert caught.value.hint == "install strace"
