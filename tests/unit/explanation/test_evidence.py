# SPDX-License-Identifier: MIT OR Apache-2.0
"""Evidence: what covers most of the difference comes first, and nothing equal or impossible is quoted."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, Stack
from swapstone.parts.explain.explanation.call_names import plain_name
from swapstone.parts.explain.explanation.cost_classes import load_classes
from swapstone.parts.explain.explanation.evidence import Sides
from swapstone.parts.explain.explanation.findings import counts_of, explain
from swapstone.parts.explain.explanation.instruction_work import instruction_work
from swapstone.parts.explain.instruments.perf import MeasuredWindows
from swapstone.parts.explain.instruments.waits import WaitChains
from swapstone.parts.explain.model.explanation import (
    LISTED_FUNCTIONS,
    Amount,
    ElapsedTime,
    Explanation,
    InstrumentResult,
    MissingInstrument,
    Reference,
    RowKey,
    RowMeasurements,
)
from swapstone.parts.explain.report import row_explanation

CLASSES = load_classes()
OWN = (Frame(symbol="work", object=OWN_OBJECT),)
STRLEN = (*OWN, Frame(symbol="__strlen_avx2", object="libc.so.6"))
FUTEX = (*OWN, Frame(symbol="__x64_sys_futex", object=KERNEL))
Amounts = tuple[tuple[str, str, float], ...]


def profile(kind: str, weights: dict[tuple[Frame, ...], float]) -> Profile:
    frames = tuple(dict.fromkeys(frame for stack in weights for frame in stack))
    stacks = tuple(Stack(frames=tuple(map(frames.index, stack)), weight=weight) for stack, weight in weights.items())
    return Profile(kind=kind, unit="ns", operations=1.0, frames=frames, stacks=stacks)


def result(instrument: str, variant: str, amounts: Amounts = (), **given: object) -> InstrumentResult:
    counted = tuple(Amount(group=group, name=name, value=value) for group, name, value in amounts)
    plain = {"tool": "t", "command": "c", "operations": 1.0, "overhead": 1.0}
    return InstrumentResult(instrument=instrument, variant=variant, amounts=counted, **{**plain, **given})  # type: ignore[arg-type]


def row(
    times: tuple[float, float],
    stacks: tuple[dict[tuple[Frame, ...], float], dict[tuple[Frame, ...], float]],
    *counted: tuple[str, Amounts, Amounts],
    threads: int = 1,
) -> RowMeasurements:
    runs = [result("on-cpu", name, profile=profile("on-cpu", each)) for name, each in zip("ab", stacks, strict=True)]
    for instrument, base, candidate in counted:
        runs += [result(instrument, "a", base), result(instrument, "b", candidate)]
    if threads > 1:
        elapsed = ElapsedTime(
            wall_ns=1.0, running_ns=1.0, ready_ns=0.0, waits=profile("off-cpu", {}), most_threads=threads
        )
        runs.append(result("off-cpu", "b", elapsed=elapsed))
    sides = [
        Reference(variant=name, program_sha256="", recorded=time, time_ns=time, metrics=(("cpu", time),), runs=8)
        for name, time in zip("ab", times, strict=True)
    ]
    place = RowKey(suite="", workload="w", load="idle", metric="cpu", baseline="a", candidate="b")
    return RowMeasurements(
        place=place, unit="ns", ledger_metric="cpu", references=(sides[0], sides[1]), runs=tuple(runs), missing=()
    )


def explained(seen: RowMeasurements) -> Explanation:
    return explain(seen, CLASSES)


def test_calls_of_functions_of_the_class_are_evidence_and_equal_counts_are_not() -> None:
    found = explained(
        row(
            (1e6, 9e6),
            ({OWN: 1.0}, {OWN: 1.0, STRLEN: 8.0}),
            (
                "instructions",
                (("instructions", "all", 1e6), ("calls", "memset (libc.so.6)", 5.0)),
                (
                    ("instructions", "all", 9e6),
                    ("calls", "strlen (libc.so.6)", 300_005.0),
                    ("calls", "memset (libc.so.6)", 5.0),
                    ("calls", "write (libc.so.6)", 77.0),
                ),
            ),
            ("allocations", (("copies", "bytes copied", 294.2),), (("copies", "bytes copied", 294.4),)),
        )
    )
    (finding,) = found.findings
    assert finding.cause == "copies and strings"
    texts = " | ".join(finding.evidence)
    assert "300 k calls of strlen per operation (other variant: 0)" in texts
    assert "300 k calls of strlen" in found.paragraph
    assert "memset" not in texts and "294" not in texts and "write" not in texts


def test_evidence_is_in_the_direction_of_the_difference_and_ranked_by_what_it_covers() -> None:
    calls = {
        name: (*OWN, Frame(symbol=f"__x64_sys_{name}", object=KERNEL)) for name in ("read", "mmap", "brk", "close")
    }
    found = explained(
        row(
            (10e6, 100e6),
            (
                {OWN: 5.0, calls["brk"]: 5.0},
                {OWN: 5.0, calls["read"]: 60.0, calls["mmap"]: 30.0, calls["close"]: 5.0},
            ),
            (
                "syscalls",
                (("system calls", "brk", 501.0), ("system calls", "read", 1.0)),
                (
                    ("system calls", "brk", 2.0),
                    ("system calls", "read", 10.0),
                    ("system calls", "mmap", 9000.0),
                    ("system calls", "close", 20000.0),
                ),
            ),
        )
    )
    finding = found.findings[0]
    assert finding.cause == "system calls"
    assert not any("brk" in text for text in finding.evidence)
    order = [next(name for name in calls if name in text) for text in finding.evidence]
    assert order == ["read", "read", "mmap", "mmap", "close", "close"]


@pytest.mark.parametrize(("recorded", "quoted"), [((0.9, 2.1), True), ((1.0, 400.0), False)])
def test_switches_that_the_recording_contradicts_are_not_quoted(recorded: tuple[float, float], *, quoted: bool) -> None:
    found = explained(
        row(
            (1e6, 5e6),
            ({OWN: 1.0}, {OWN: 1.0, FUTEX: 4.0}),
            ("reference", (("switches", "voluntary switches", 1.0),), (("switches", "voluntary switches", 2.0),)),
            (
                "off-cpu",
                (("recorded switches", "voluntary switches", recorded[0]),),
                (("recorded switches", "voluntary switches", recorded[1]),),
            ),
        )
    )
    (finding,) = found.findings
    assert finding.cause == "locks"
    assert any("voluntary switches" in text for text in finding.evidence) == quoted
    assert not any(each[0] == "recorded switches" for each in row_explanation.count_rows(found))


def test_one_function_with_two_names_is_called_equally_often() -> None:
    found = explained(
        row(
            (1e6, 9e6),
            ({OWN: 1.0}, {OWN: 1.0, STRLEN: 8.0}),
            (
                "instructions",
                (
                    ("calls", "__strlen_avx2 (libc.so.6)", 2000.0),
                    ("calls", "__memmove_avx_unaligned_erms (libc.so.6)", 7.0),
                ),
                (
                    ("calls", "strlen (libc.so)", 2000.0),
                    ("calls", "memcpy (libc.so)", 7.0),
                    ("calls", "strnlen (libc.so)", 9000.0),
                ),
            ),
        )
    )
    (finding,) = found.findings
    assert [text for text in finding.evidence if "calls of" in text] == [
        "9000 calls of strnlen per operation (other variant: 0)"
    ]


def test_a_function_beyond_the_end_of_a_list_was_not_called_never() -> None:
    others = tuple(("calls", f"function{number} (libc.so.6)", 100.0 + number) for number in range(LISTED_FUNCTIONS))
    found = explained(
        row(
            (1e6, 9e6),
            ({OWN: 1.0}, {OWN: 1.0, STRLEN: 8.0}),
            (
                "instructions",
                others,
                (("calls", "strlen (libc.so.6)", 9000.0), ("calls", "strcmp (libc.so.6)", 90.0)),
            ),
        )
    )
    assert [text for text in found.findings[0].evidence if "calls of" in text] == [
        "9000 calls of strlen per operation (other variant: at most 100)"
    ]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("__strlen_avx2", "strlen"),
        ("__memcpy_avx_unaligned_erms", "memcpy"),
        ("__memset_evex_unaligned_erms", "memset"),
        ("__libc_malloc_impl", "malloc"),
        ("_int_malloc", "_int_malloc"),
        ("alloc_slot", "alloc_slot"),
        ("memmove", "memcpy"),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
        ("0x0000000000072a10", "0x0000000000072a10"),
    ],
)
def test_names_of_the_variants_of_a_function(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


WORK = "instructions"
UNSEEN = (
    "misses of the TLB (sizes of pages), prefetching, aliasing of addresses, dependent instructions, loads of what was just stored in "
    "parts, atomic instructions, subnormal numbers"
)
FEW: Amounts = (
    ("instructions", "all", 346e6),
    ("simulated", "mispredicted branches", 4956.0),
    ("simulated", "misses of the first-level data cache", 2.1e6),
)


def slower(
    *candidate: tuple[str, float], instructions: float = 346e6, threads: int = 1, ns: float = 580e6
) -> Explanation:
    after: Amounts = (
        ("instructions", "all", instructions),
        *(("simulated", name, value) for name, value in {**{n: v for _, n, v in FEW[1:]}, **dict(candidate)}.items()),
    )
    return explained(row((100e6, ns), ({OWN: 1.0}, {OWN: 1.0}), (WORK, FEW, after), threads=threads))


def test_the_same_instructions_that_take_longer_are_called_so_with_the_simulated_event() -> None:
    found = slower(("mispredicted branches", 22.8e6))
    (finding,) = found.findings
    assert (finding.cause, finding.how) == ("own code", "same instructions, slower")
    assert "22.8 M mispredicted branches per operation (other variant: 4956)" in finding.sentence
    assert "cache per operation" not in finding.sentence
    assert row_explanation.sentence(found).endswith("100 % of the difference is own code (same instructions, slower).")
    misses = slower(("misses of the first-level data cache", 336e6)).findings[0]
    assert "336 M misses of the first-level data cache per operation (other variant: 2.10 M)" in misses.sentence
    assert "mispredicted" not in misses.sentence


def test_an_event_that_can_not_account_for_the_difference_is_not_named() -> None:
    (finding,) = slower(("mispredicted branches", 50_000.0)).findings  # ten times as many, and 0.1 ms of 480 ms
    assert "mispredicted" not in finding.sentence
    assert "a simulation of caches and branch prediction shows no reason" in finding.sentence
    assert finding.sentence.endswith("possible, but can't be shown here: " + UNSEEN)
    (threads,) = slower(threads=2).findings
    assert threads.sentence.endswith(f"{UNSEEN}, and cache lines that several threads write (false sharing)")


@pytest.mark.parametrize(
    ("instructions", "ns", "how", "words"),
    [
        (346e6 * 6, 580e6, "more instructions", "more instructions: 2.08 G per operation"),
        (
            *(346e6 * 1.5, 580e6, "more instructions, and slower ones"),
            "more instructions, and they take longer than their number explains: 519 M per operation",
        ),
        (
            346e6 * 0.5,
            580e6,
            "fewer instructions, slower",
            "fewer instructions, and they take longer: 173 M per operation",
        ),
        (346e6, 580e6, "same instructions, slower", "as many instructions, and they take longer: 346 M per operation"),
        (346e6, 104e6, "", ""),
    ],
)
def test_instructions_are_compared_with_the_time_that_they_take(
    instructions: float, ns: float, how: str, words: str
) -> None:
    (finding,) = slower(instructions=instructions, ns=ns).findings
    assert finding.how == how
    assert not words or f": it executes {words} (other variant: 346 M)" in finding.sentence


def test_without_counted_instructions_they_are_not_compared() -> None:
    seen = row((1e6, 5e6), ({OWN: 1.0}, {OWN: 1.0}))
    pair = Sides(seen.references[1], seen.references[0], swapped=False)
    assert instruction_work(seen, counts_of(seen), pair) is None
    assert explained(seen).findings[0].how == ""


COUNTERS: Amounts = (
    ("hardware", "cycles", 100e6),
    ("hardware", "instructions", 200e6),
    ("hardware", "slots", 400e6),
    ("hardware", "slots lost to bad speculation", 20e6),
    ("hardware", "slots lost at the back end", 40e6),
    ("hardware", "misses of the TLB", 1000.0),
)


def _counters(*changed: tuple[str, float]) -> Amounts:
    return tuple((group, name, dict(changed).get(name, value)) for group, name, value in COUNTERS)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            (("cycles", 400e6), ("slots", 1600e6), ("slots lost to bad speculation", 960e6)),
            "the processor's counters show 0.50 instructions per cycle (other variant: 2.00), 60 % of its slots are lost to bad "
            "speculation: mispredicted branches (other variant: 5 %)",
        ),
        (
            (
                ("cycles", 400e6),
                ("slots", 1600e6),
                ("slots lost at the back end", 160e6),
                ("misses of the TLB", 5.12e6),
            ),
            "the processor's counters show 0.50 instructions per cycle (other variant: 2.00), 5.12 M misses of the TLB per operation "
            "(other variant: 1000)",
        ),
    ],
)
def test_the_processors_counters_come_before_the_simulation(
    changed: tuple[tuple[str, float], ...], expected: str
) -> None:
    found = explained(
        row((100e6, 580e6), ({OWN: 1.0}, {OWN: 1.0}), (WORK, FEW, FEW), ("hardware", COUNTERS, _counters(*changed)))
    )
    (finding,) = found.findings
    assert finding.how == "same instructions, slower"
    assert f"(other variant: 346 M); {expected}; a simulation" in finding.sentence
    assert finding.sentence.endswith(f"; possible: {UNSEEN}")  # counters may show some of it


@pytest.mark.parametrize(
    ("slow", "fast", "named"),
    [
        ((0.0, 130e6), (128e6, 130e6), True),
        ((126e6, 130e6), (128e6, 130e6), False),
        ((128e6, 130e6), (0.0, 130e6), False),
    ],
)
def test_memory_that_only_the_faster_variant_has_in_huge_pages(
    slow: tuple[float, float], fast: tuple[float, float], *, named: bool
) -> None:
    sizes = [
        (("memory", "bytes in huge pages", huge), ("memory", "resident bytes", all_of_it))
        for huge, all_of_it in (fast, slow)
    ]
    found = explained(row((100e6, 580e6), ({OWN: 1.0}, {OWN: 1.0}), (WORK, FEW, FEW), ("pages", sizes[0], sizes[1])))
    (finding,) = found.findings
    assert ("are in huge pages (other variant: 122 MiB of 124 MiB), which is consistent" in finding.sentence) == named
    assert not any("huge" in each[1] for each in row_explanation.count_rows(found))


def test_missing_counters_are_mentioned_where_they_would_explain_something() -> None:
    missing = (MissingInstrument(instrument="hardware", reason="no cycles", remedy="a PMU"),)
    slow = row((100e6, 580e6), ({OWN: 1.0}, {OWN: 1.0}), (WORK, FEW, FEW))
    more: Amounts = (("instructions", "all", 2000e6), *FEW[1:])
    clear = row((100e6, 580e6), ({OWN: 1.0}, {OWN: 1.0}), (WORK, FEW, more))
    for seen, mentioned in ((slow, True), (clear, False)):
        caveats = explained(msgspec.structs.replace(seen, missing=missing)).caveats
        assert any(text.startswith("hardware is unavailable: no cycles") for text in caveats) == mentioned


def test_without_a_profile_what_enters_the_kernel_most_often_comes_first() -> None:
    """150 calls against none have the larger ratio, and 38,000 faults take more time."""
    counted = (
        ("syscalls", (("system calls", "madvise", 0.0),), (("system calls", "madvise", 150.0),)),
        ("reference", (("faults", "minor faults", 318.0),), (("faults", "minor faults", 38_500.0),)),
    )
    whole = row((1e6, 9e6), ({OWN: 1.0}, {OWN: 1.0}), *counted)
    counts_alone = msgspec.structs.replace(
        whole, runs=tuple(each for each in whole.runs if each.instrument != "on-cpu")
    )
    assert [finding.cause for finding in explained(counts_alone).findings] == ["page faults", "system calls"]


def test_a_class_with_a_fiftieth_of_the_difference_is_not_named_though_nothing_else_is() -> None:
    unnamed = (Frame(symbol="", object=""),)
    found = explained(row((1e6, 9e6), ({OWN: 1.0}, {OWN: 1.0, STRLEN: 0.16, unnamed: 7.84})))
    assert found.ledger is not None
    assert 0 < next(line.difference for line in found.ledger.lines if line.cause == "copies and strings") < 0.03 * 8e6
    assert found.findings == ()


LIBC_START = Frame(symbol="__libc_start_call_main", object="libc.so.6")


@pytest.mark.parametrize(
    ("symbol", "shared", "cause"),
    [
        ("parse_expression", True, "own code"),
        ("parse_expression", False, "regular expressions"),
        ("start", True, "own code"),
        ("pad", True, "own code"),
        ("log_error_write", False, "own code"),  # of lighttpd, and not of a mathematical library
        ("re_render", False, "own code"),
        ("mi_malloc", True, "allocator"),  # a program may contain its allocator
        ("pthread_mutex_lock", True, "locks"),
    ],
)
def test_functions_of_a_program_with_a_shared_c_library_are_not_those_of_the_library(
    symbol: str, cause: str, *, shared: bool
) -> None:
    library = "libc.so.6" if shared else OWN_OBJECT
    start = Frame(symbol="__libc_start_call_main", object=library)
    own = (start, Frame(symbol=symbol, object=OWN_OBJECT))
    libc = (start, Frame(symbol="parse_bracket_exp", object=library))
    found = explained(row((1e6, 9e6), ({libc: 1.0}, {own: 8.0, libc: 1.0})))
    assert found.findings[0].cause == cause
    assert found.ledger is not None and "regular expressions" in {line.cause for line in found.ledger.lines}


def test_one_static_program_is_enough_for_functions_of_the_c_library_in_it() -> None:
    static = (Frame(symbol="main", object=OWN_OBJECT), Frame(symbol="parse_expression", object=OWN_OBJECT))
    found = explained(row((1e6, 9e6), ({(LIBC_START, *OWN): 1.0}, {static: 8.0, OWN: 1.0})))
    assert found.findings[0].cause == "regular expressions"


def test_a_lock_without_a_system_call_is_named_by_its_function() -> None:
    spinning = (*OWN, Frame(symbol="pthread_spin_lock", object="libc.so.6"))
    found = explained(row((1e6, 9e6), ({OWN: 1.0}, {OWN: 1.0, spinning: 8.0})))
    assert found.findings[0].sentence == "b spends more time at locks (pthread_spin_lock)"


def test_calls_of_the_same_work_under_two_names_are_no_evidence() -> None:
    openat, opened = ((*OWN, Frame(symbol=f"__x64_sys_{name}", object=KERNEL)) for name in ("openat", "open"))
    read = (*OWN, Frame(symbol="__x64_sys_read", object=KERNEL))
    found = explained(
        row(
            (10e6, 30e6),
            ({OWN: 5.0, openat: 5.0}, {OWN: 5.0, opened: 6.0, read: 19.0}),
            (
                "syscalls",
                (("system calls", "openat", 500.0), ("system calls", "read", 9.0)),
                (("system calls", "open", 500.0), ("system calls", "read", 900.0)),
            ),
        )
    )
    (finding,) = found.findings
    counted = [text for text in finding.evidence if "other variant" in text and "system calls" not in text]
    assert counted == ["900 read per operation (other variant: 9)"]
    lines = {line.detail: (line.baseline, line.candidate) for line in found.ledger.lines} if found.ledger else {}
    assert lines["open"] == pytest.approx((5e6, 6e6))


def test_waits_without_a_recorded_end_are_a_caveat() -> None:
    chains = WaitChains(MeasuredWindows(((0, 10),), 0), 1, "", lambda _: ())
    chains.unrecorded = 3
    seen = row((1e6, 9e6), ({OWN: 1.0}, {OWN: 9.0}))
    runs = (
        *seen.runs,
        result("waits", "a", notes=("callers are unknown",)),
        result("waits", "b", notes=chains.notes()),
    )
    found = [caveat for caveat in explained(msgspec.structs.replace(seen, runs=runs)).caveats if "waits" in caveat]
    assert found == [
        "waits on b: the kernel recorded no event for the end of 3 of 3 waits of the program's threads: their time is in no line of "
        "the waits."
    ]
