# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ledger and its findings."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, Stack
from swapstone.parts.explain.explanation.cost_classes import load_classes, wait_class
from swapstone.parts.explain.explanation.findings import counts_of, explain
from swapstone.parts.explain.explanation.ledger import ledger
from swapstone.parts.explain.model.explanation import (
    Amount,
    ElapsedTime,
    InstrumentResult,
    MissingInstrument,
    Reference,
    RowKey,
    RowMeasurements,
)

CLASSES = load_classes()
BASE, CANDIDATE = "libc=glibc", "libc=musl"
PLACE = RowKey(suite="libc", workload="w", load="idle", metric="wall", baseline=BASE, candidate=CANDIDATE)
OWN = (Frame(symbol="pass", object=OWN_OBJECT),)
FREE = (*OWN, Frame(symbol="free", object="libc.so"))
UNMAP = (*FREE, Frame(symbol="__x64_sys_munmap", object=KERNEL))
SLEEP = (*OWN, Frame(symbol="__x64_sys_clock_nanosleep", object=KERNEL))
LOCK = (*OWN, Frame(symbol="__x64_sys_futex", object=KERNEL))
NAMELESS = (Frame(symbol="[unknown]", object="libc.so"),)


def profile(kind: str, weights: dict[tuple[Frame, ...], float]) -> Profile:
    frames = list(dict.fromkeys(frame for stack in weights for frame in stack))
    stacks = tuple(Stack(frames=tuple(map(frames.index, stack)), weight=weight) for stack, weight in weights.items())
    return Profile(kind=kind, unit="ns", operations=10.0, frames=tuple(frames), stacks=stacks)


def run(instrument: str, variant: str, **given: object) -> InstrumentResult:
    plain = {"tool": "t", "command": "c", "operations": 10.0, "overhead": 1.5}
    return InstrumentResult(instrument=instrument, variant=variant, **{**plain, **given})  # type: ignore[arg-type]


def elapsed(
    waits: dict[tuple[Frame, ...], float], running: float, ready: float = 0.0, threads: int = 1, cpu: float = 0.0
) -> ElapsedTime:
    return ElapsedTime(
        wall_ns=1000.0,
        running_ns=running,
        ready_ns=ready,
        waits=profile("off-cpu", waits),
        most_threads=threads,
        cpu_ns=cpu,
    )


def reference(variant: str, recorded: float, wall: float, cpu: float) -> Reference:
    return Reference(
        variant=variant,
        program_sha256="",
        recorded=recorded,
        time_ns=recorded,
        metrics=(("wall", wall), ("cpu", cpu)),
        runs=5,
    )


def seen(
    *runs: InstrumentResult,
    base: Reference,
    candidate: Reference,
    metric: str = "wall",
    missing: tuple[MissingInstrument, ...] = (),
) -> RowMeasurements:
    return RowMeasurements(
        place=PLACE, unit="ns", ledger_metric=metric, references=(base, candidate), runs=runs, missing=missing
    )


ONE_THREAD = seen(
    run("on-cpu", BASE, profile=profile("on-cpu", {OWN: 100.0})),
    run("on-cpu", CANDIDATE, profile=profile("on-cpu", {OWN: 50.0, UNMAP: 40.0, NAMELESS: 10.0})),
    run("off-cpu", BASE, elapsed=elapsed({SLEEP: 5.0}, 95.0)),
    run("off-cpu", CANDIDATE, elapsed=elapsed({SLEEP: 30.0}, 60.0, 10.0)),
    base=reference(BASE, 1000.0, 1000.0, 900.0),
    candidate=reference(CANDIDATE, 3100.0, 3000.0, 2000.0),
)


def test_elapsed_time_is_split_into_running_and_waiting() -> None:
    found = ledger(ONE_THREAD, CLASSES)
    assert found is not None
    lines = {(line.cause, line.detail): (line.baseline, line.candidate) for line in found.lines}
    expected = {
        ("own code", ""): (900.0, 1000.0),
        ("system calls", "munmap"): (0.0, 800.0),
        ("waiting", "in nanosleep"): (100.0, 750.0),
        ("no processor", ""): (0.0, 250.0),
    }
    assert lines.keys() == expected.keys()
    for key, pair in expected.items():
        assert lines[key] == pytest.approx(pair)
    # 200 ns of functions without a name, and 100 ns that the record has beyond the runs now
    assert found.residual == pytest.approx(300.0)
    assert found.drift == pytest.approx(100.0)
    assert found.difference == 2100.0
    assert sum(line.difference for line in found.lines) + found.residual == pytest.approx(found.difference)
    assert (found.lines[0].cause, found.lines[0].detail) == ("system calls", "munmap")


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (
            ("__x64_sys_munmap", "__vm_munmap", "rwsem_down_write_slowpath"),
            ("locks", "of the address space, in munmap"),
        ),
        (
            ("vm_mmap_pgoff", "down_write_killable", "rwsem_down_write_slowpath"),
            ("locks", "of the address space, in mmap"),
        ),
        (
            ("asm_exc_page_fault", "exc_page_fault", "lock_mm_and_find_vma", "rwsem_down_read_slowpath"),
            ("locks", "of the address space, in page faults"),
        ),
        (
            ("__x64_sys_write", "ext4_file_write_iter", "rwsem_down_write_slowpath"),
            ("locks", "of the kernel, in write"),
        ),
        (("__x64_sys_epoll_pwait", "do_epoll_wait", "schedule"), ("waiting", "in epoll_wait")),
        (("__x64_sys_epoll_wait", "do_epoll_wait", "schedule"), ("waiting", "in epoll_wait")),
        (("asm_exc_page_fault", "exc_page_fault", "folio_wait_bit_common"), ("waiting", "in page faults")),
        (("__x64_sys_futex", "futex_wait"), ("locks", "futex")),
    ],
)
def test_what_a_wait_was_for(symbols: tuple[str, ...], expected: tuple[str, str]) -> None:
    frames = [Frame(symbol=name, object=KERNEL) for name in ("do_syscall_64", *symbols)]
    assert wait_class(frames, CLASSES) == expected


def test_with_several_threads_the_recording_divides_the_time() -> None:
    runs = (
        run("on-cpu", BASE, profile=profile("on-cpu", {OWN: 1.0})),
        run("on-cpu", CANDIDATE, profile=profile("on-cpu", {OWN: 1.0})),
        run("off-cpu", BASE, elapsed=elapsed({}, 1000.0, threads=2)),
        run("off-cpu", CANDIDATE, elapsed=elapsed({LOCK: 500.0}, 500.0, threads=2)),
    )
    both = seen(*runs, base=reference(BASE, 10.0, 10.0, 20.0), candidate=reference(CANDIDATE, 20.0, 20.0, 20.0))
    found = ledger(both, CLASSES)
    assert found is not None
    lines = {line.cause: (line.baseline, line.candidate) for line in found.lines}
    assert lines.keys() == {"own code", "locks"}
    assert lines["own code"] == pytest.approx((10.0, 10.0))
    assert lines["locks"] == pytest.approx((0.0, 10.0))
    assert found.residual == pytest.approx(0.0)
    assert explain(both, CLASSES).findings[0].cause == "locks"


def test_an_instrument_that_stretches_the_running_time_does_not_stretch_the_ledgers() -> None:
    # Two threads: without an instrument 30 ns of processor time in 20 ns; under it 1200 in 1000, of which 800 are elapsed time too.
    runs = (
        run("on-cpu", BASE, profile=profile("on-cpu", {OWN: 1.0})),
        run("on-cpu", CANDIDATE, profile=profile("on-cpu", {OWN: 2.0, FREE: 1.0})),
        run("off-cpu", BASE, elapsed=elapsed({}, 1000.0, threads=2, cpu=2000.0)),
        run("off-cpu", CANDIDATE, elapsed=elapsed({LOCK: 150.0, SLEEP: 50.0}, 800.0, threads=2, cpu=1600.0)),
    )
    both = seen(*runs, base=reference(BASE, 10.0, 10.0, 20.0), candidate=reference(CANDIDATE, 26.0, 20.0, 24.0))
    found = ledger(both, CLASSES)
    assert found is not None
    lines = {line.cause: (line.baseline, line.candidate) for line in found.lines}
    # 24 ns of processor time, half of it one thread's alone: 12 ns running, 8 ns not, each split once
    assert lines["own code"] == pytest.approx((10.0, 8.0))
    assert lines["allocator"] == pytest.approx((0.0, 4.0))
    assert lines["locks"] == pytest.approx((0.0, 6.0))
    assert lines["waiting"] == pytest.approx((0.0, 2.0))
    assert (found.residual, found.drift) == pytest.approx((6.0, 6.0))


def test_processor_time_is_split_by_the_profile_alone() -> None:
    runs = (
        run("on-cpu", BASE, profile=profile("on-cpu", {OWN: 1.0})),
        run("on-cpu", CANDIDATE, profile=profile("on-cpu", {OWN: 1.0, FREE: 3.0})),
    )
    sides = {"base": reference(BASE, 100.0, 0.0, 100.0), "candidate": reference(CANDIDATE, 400.0, 0.0, 400.0)}
    cpu = RowMeasurements(
        place=RowKey(suite="", workload="w", load="idle", metric="cpu", baseline=BASE, candidate=CANDIDATE),
        unit="ns",
        ledger_metric="cpu",
        references=(sides["base"], sides["candidate"]),
        runs=runs,
        missing=(),
    )
    found = ledger(cpu, CLASSES)
    assert found is not None
    assert {line.cause: line.difference for line in found.lines} == pytest.approx({"allocator": 300.0, "own code": 0.0})
    first = explain(cpu, CLASSES).findings[0]
    assert first.cause == "allocator"
    assert first.share == pytest.approx(1.0)
    assert "musl spends more time in its allocator (free)" in first.sentence


def test_without_a_profile_the_counts_and_the_missing_instruments_are_reported() -> None:
    counts = (
        run("syscalls", BASE, amounts=(Amount(group="system calls", name="read", value=2.0),)),
        run(
            "syscalls",
            CANDIDATE,
            amounts=(
                Amount(group="system calls", name="read", value=2.0),
                Amount(group="system calls", name="mmap", value=64.0),
            ),
        ),
    )
    missing = (MissingInstrument(instrument="on-cpu", reason="the kernel refuses perf events", remedy="sudo sysctl x"),)
    both = seen(
        *counts, base=reference(BASE, 1.0, 1.0, 1.0), candidate=reference(CANDIDATE, 2.0, 2.0, 2.0), missing=missing
    )
    found = explain(both, CLASSES)
    assert found.ledger is None
    assert [finding.cause for finding in found.findings] == ["system calls"]
    assert "musl has 64 mmap per operation (other variant: 0)" in found.paragraph
    assert "consistent with" in found.paragraph
    assert "on-cpu is unavailable: the kernel refuses perf events. To enable it: sudo sysctl x." in found.caveats


def test_counts_are_sorted_by_ratio_and_a_missing_count_is_not_zero() -> None:
    both = seen(
        run(
            "syscalls",
            BASE,
            amounts=(
                Amount(group="system calls", name="a", value=10.0),
                Amount(group="system calls", name="b", value=100.0),
            ),
        ),
        run("syscalls", CANDIDATE, amounts=(Amount(group="system calls", name="a", value=11.0),)),
        run("allocations", BASE, amounts=(Amount(group="allocations", name="free", value=5.0),)),
        base=reference(BASE, 1.0, 1.0, 1.0),
        candidate=reference(CANDIDATE, 2.0, 2.0, 2.0),
    )
    found = [(count.name, count.baseline, count.candidate) for count in counts_of(both)]
    assert found == [("b", 100.0, 0.0), ("a", 10.0, 11.0), ("free", 5.0, None)]


def test_a_missing_count_is_zero_if_its_instrument_ran() -> None:
    both = seen(
        run("syscalls", BASE),
        run("syscalls", CANDIDATE, amounts=(Amount(group="system calls", name="mmap", value=7.0),)),
        base=reference(BASE, 1.0, 1.0, 1.0),
        candidate=reference(CANDIDATE, 2.0, 2.0, 2.0),
    )
    assert [(count.name, count.baseline, count.candidate) for count in counts_of(both)] == [("mmap", 0.0, 7.0)]


def test_counts_of_two_tools_are_compared_only_where_both_count_the_same() -> None:
    def amounts(*found: tuple[str, str, float]) -> tuple[Amount, ...]:
        return tuple(Amount(group=group, name=name, value=value) for group, name, value in found)

    full = amounts(
        ("instructions", "all", 100.0),
        ("instructions", "strlen (libc.so.6)", 90.0),
        ("calls", "strlen (libc.so.6)", 3.0),
        ("simulated", "mispredicted branches", 5.0),
    )
    cheap = amounts(("instructions", "all", 900.0), ("instructions", "strlen", 800.0))
    both = seen(
        run("instructions", BASE, amounts=full),
        run("instructions", CANDIDATE, amounts=cheap),
        base=reference(BASE, 1.0, 1.0, 1.0),
        candidate=reference(CANDIDATE, 2.0, 2.0, 2.0),
    )
    assert {(each.group, each.name, each.baseline, each.candidate) for each in counts_of(both)} == {
        ("instructions", "all", 100.0, 900.0),
        ("calls", "strlen (libc.so.6)", 3.0, None),
        ("simulated", "mispredicted branches", 5.0, None),
    }


def test_large_buffers_that_are_mapped_one_by_one_are_reported() -> None:
    def counts(variant: str, maps: float, faults: float) -> tuple[InstrumentResult, ...]:
        calls = tuple(Amount(group="system calls", name=name, value=maps) for name in ("mmap", "munmap"))
        large = (Amount(group="allocations", name="of 131072 B or more", value=2.0),)
        return (
            run("syscalls", variant, amounts=calls),
            run("allocations", variant, amounts=large),
            run("reference", variant, amounts=(Amount(group="faults", name="minor faults", value=faults),)),
        )

    both = seen(
        *ONE_THREAD.runs,
        *counts(BASE, 0.0, 0.0),
        *counts(CANDIDATE, 2.0, 64.0),
        base=ONE_THREAD.references[0],
        candidate=ONE_THREAD.references[1],
    )
    sentence = "with musl, 2 such buffers, 2 mmap, 2 munmap and 64 page faults per operation; with glibc, 0 mmap and 0 page faults."
    assert sentence in explain(both, CLASSES).paragraph
    assert "maps and unmaps" not in explain(ONE_THREAD, CLASSES).paragraph


def test_a_row_without_a_difference_has_no_findings() -> None:
    found = explain(msgspec.structs.replace(ONE_THREAD, differs=False), CLASSES)
    assert found.findings == ()
    assert "there are no findings" in found.paragraph
    assert found.ledger is not None and found.counts == ()


def test_runs_that_are_not_repeated_are_a_caveat() -> None:
    drifted = seen(
        *ONE_THREAD.runs,
        base=reference(BASE, 1000.0, 1000.0, 900.0),
        candidate=reference(CANDIDATE, 9000.0, 3000.0, 2000.0),
    )
    found = explain(drifted, CLASSES)
    assert any("those of the record by 8 us" in caveat for caveat in found.caveats)
    assert found.ledger is not None and found.ledger.residual == pytest.approx(8000.0 - 1800.0)
    assert not any("those of the record" in caveat for caveat in explain(ONE_THREAD, CLASSES).caveats)


def test_measurements_are_stored_under_the_field_names_of_the_format() -> None:
    missing = (MissingInstrument(instrument="on-cpu", reason="no perf", remedy="sudo sysctl x"),)
    runs = (run("off-cpu", BASE, elapsed=elapsed({SLEEP: 5.0}, 95.0)),)
    stored = seen(
        *runs, base=reference(BASE, 1.0, 1.0, 1.0), candidate=reference(CANDIDATE, 2.0, 2.0, 2.0), missing=missing
    )
    encoded = stored.encoded()
    assert b'"passing":{' in encoded and b'"mend":"sudo sysctl x"' in encoded
    assert msgspec.json.decode(encoded, type=RowMeasurements) == stored
