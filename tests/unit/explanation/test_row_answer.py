# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer about a row: the functions that lead, the counts that obey them, and what is not known."""

from __future__ import annotations

import random

import msgspec
import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.core.report.render import terminal
from swapstone.parts.explain.explanation.by_function import function_text
from swapstone.parts.explain.explanation.count_costs import count_rows
from swapstone.parts.explain.explanation.profile_formats import FAULTING
from swapstone.parts.explain.explanation.row_answer import explain_measurements as explain
from swapstone.parts.explain.explanation.row_answer import named
from swapstone.parts.explain.explanation.surroundings import NEITHER, READY, SYSTEM, USER
from swapstone.parts.explain.model.explanation import (
    DELAYED_ACK,
    UNSAMPLED,
    EndedWaits,
    Explanation,
    InstrumentResult,
    MissingInstrument,
    ProcessorTaken,
    RowMeasurements,
    SourceLine,
)
from swapstone.parts.explain.report.explanation_document import document_of, function_table, summary_of
from tests.unit.explanation.rows import (
    BASE,
    CANDIDATE,
    FREE,
    OWN,
    READ,
    SLEEP,
    Amounts,
    Counts,
    Stack,
    counted,
    drawn,
    elapsed,
    noisy,
    reference,
    result,
    row,
)

FAULT = (*OWN, FAULTING, Frame(symbol="handle_mm_fault", object=KERNEL))
STRLEN = (*OWN, Frame(symbol="__strlen_avx2", object="libc.so.6"))


def test_the_function_that_leads_is_named_with_its_caller_share_and_interval() -> None:
    chance = random.Random(1)
    base, candidate = (drawn(chance, {OWN: 1.0}), [1e6] * 10), (drawn(chance, {OWN: 0.5, FREE: 0.5}), [2e6] * 10)
    found = explain(row(base, candidate))
    start = "w takes 2 ms (cpu) with musl instead of 1 ms with glibc: free (C library), called by work, takes "
    assert found.sentence.startswith(start)
    assert " more, 9" in found.sentence or " more, 10" in found.sentence
    assert found.sentence.endswith("%).") and found.time is not None and found.time.leading == 1
    turned = explain(row(candidate, base)).sentence
    assert "w takes 1 ms (cpu) with musl instead of 2 ms with glibc" in turned and " less, " in turned


def test_a_function_has_the_line_of_the_slower_variant_on_a_processor() -> None:
    chance = random.Random(1)
    seen = row((drawn(chance, {OWN: 1.0}), [1e6] * 10), (drawn(chance, {OWN: 0.5, FREE: 0.5}), [2e6] * 10))

    def line(variant: str, symbol: str, where: str, text: str, instrument: str = "on-cpu") -> InstrumentResult:
        found = next((run for run in seen.runs if (run.variant, run.instrument) == (variant, instrument)), None)
        made = SourceLine(symbol=symbol, object=where, line=text)
        return msgspec.structs.replace(found or result(instrument, variant), lines=(made,))

    runs = (
        line(CANDIDATE, "__libc_free", "libc.so", "fr\x1bee.c:3"),
        line(CANDIDATE, "free", "libc.so", "wait.c:3", "off-cpu"),
        line(BASE, "free", "libc.so", "malloc.c:9"),
    )
    without = msgspec.structs.replace(runs[0], lines=())
    found = explain(msgspec.structs.replace(seen, runs=(without, runs[2])))
    assert found.time is not None and {one.line for one in found.time.functions} == {""}, "a line of the other variant"
    found = explain(msgspec.structs.replace(seen, runs=runs))
    assert found.time is not None
    assert [(one.symbol, one.line) for one in found.time.functions] == [("free", "fr\x1bee.c:3")]
    assert function_table(found)[1][0] == "free (C library) at fr\\x1bee.c:3"
    text = " ".join(terminal.render(document_of(found), terminal.Terminal(width=200)).split())
    assert "free (C library) at fr\\x1bee.c:3, called by work, takes" in text and "\x1b" not in text


def test_several_functions_lead_together() -> None:
    more = {OWN: 10.0, FREE: 4.0, READ: 6.0}
    found = explain(row(([{OWN: 10.0}], [100.0]), ([more], [200.0])))
    assert found.sentence == (
        "w takes 200 ns (cpu) with musl instead of 100 ns with glibc: read (system call), called by work, takes 60 ns more, 60 % of the "
        "difference; free (C library), called by work, takes 40 ns more, 40 % of the difference; together 100 %."
    )


def test_a_function_of_the_kernel_has_its_system_call_or_fault() -> None:
    names = ("__x64_sys_mmap", "__mm_populate", "alloc_pages", "clear_page")
    clear = (*OWN, *(Frame(symbol=name, object=KERNEL) for name in names))
    found = explain(row(([{clear: 1.0, clear[:-1]: 1.0}], [100.0]), ([{clear: 3.0, clear[:-1]: 1.0}], [200.0])))
    assert found.sentence.endswith(
        ": clear_page (kernel), called by alloc_pages (kernel), in mmap (system call), below work, takes 100 ns more, 100 % of the "
        "difference."
    )
    (*_, handled) = explain(
        row(([{FAULT[:-1]: 9.0}], [100.0]), ([{FAULT: 10.0, FAULT[:-1]: 9.0}], [211.0]))
    ).sentence.split(": ")
    assert handled.startswith("handle_mm_fault (kernel), called by page faults (kernel), below work, takes 1")


def test_the_function_below_that_has_most_of_it_is_named() -> None:
    tally, get = (
        (*OWN, Frame(symbol="tally", object="libtls.so")),
        Frame(symbol="__tls_get_addr", object="ld-linux-x86-64.so.2"),
    )
    before, after = {tally: 10.0, OWN: 10.0}, {tally: 4.0, (*tally, get): 16.0, OWN: 10.0}
    found = explain(row(([before], [200.0]), ([after], [300.0])))
    assert found.sentence.endswith(
        ": tally (libtls.so), called by work, with what it calls, mostly tls_get_addr (C library), takes 100 ns more, 100 % of the "
        "difference."
    )
    # Of what the kernel does for a program it is the system call or the fault.
    faults = {(*FREE, FAULTING, Frame(symbol="do_anonymous_page", object=KERNEL)): 10.0, FREE: 12.0, OWN: 10.0}
    found = explain(row(([{FREE: 4.0, OWN: 10.0}], [140.0]), ([faults], [320.0])))
    assert (
        ": free (C library), called by work, with what it calls, mostly page faults (kernel), takes 1" in found.sentence
    )


@pytest.mark.parametrize(
    ("symbol", "printed"),
    [
        (
            "std::__detail::_Executor<std::__normal_iterator<char const*>, std::allocator<std::sub_match<x> >, true>::_M_dfs",
            "std::__detail::_Executor<...>::_M_dfs",
        ),
        ("std::vector<int>::push_back", "std::vector<int>::push_back"),
        ("a" * 70 + "<<<", "a" * 70 + "<<<"),
    ],
)
def test_long_template_arguments_are_not_printed(symbol: str, printed: str) -> None:
    assert function_text(symbol, OWN_OBJECT) == printed


def test_what_stands_for_callers_that_were_left_out_does_not_lead() -> None:
    alone = Frame(symbol="[unknown]", object="libc.so.6")
    calls = [(alone, Frame(symbol=f"__x64_sys_{name}", object=KERNEL)) for name in ("mmap", "brk")]
    before: dict[Stack, float] = {OWN: 10.0, calls[0]: 1.0}
    found = explain(row(([before], [110.0]), ([{**before, calls[0]: 6.0, calls[1]: 5.0}], [210.0])))
    assert any("without callers" in text for text in found.unknown)
    assert "glibc: brk (system call)" in found.sentence and "; mmap (system call)" in found.sentence


def test_files_that_one_variant_alone_has_are_the_same_if_their_functions_are() -> None:
    def of(file: str, names: str) -> Counts:
        return [{(*OWN, Frame(symbol=name, object=file)): 10.0 for name in names}]

    found = explain(row((of("libz.so.1.2", "abc"), [300.0]), (of("libz.so.1.3", "abcd"), [400.0])))
    assert ": d (libz.so.1.3), called by work, takes 100 ns more, 100 % of the difference." in found.sentence
    assert "Functions of libz.so.1.2 count as those of the same names in libz.so.1.3." in found.unknown
    unlike = explain(row((of("liba.so", "abc"), [300.0]), (of("libb.so", "xyzd"), [400.0])))
    assert not [each for each in unlike.unknown if "same names" in each]


def test_a_difference_over_many_functions_is_spread() -> None:
    below: dict[Stack, float] = {(OWN[0], Frame(symbol=name, object=OWN_OBJECT)): 10.0 for name in "abcdefgh"}
    found = explain(row(([below], [100.0]), ([below], [200.0])))
    assert found.sentence.endswith(
        ": the difference is spread over 8 functions, and no three of them are shown to have 80 % of it."
    )


def test_a_function_that_waits_is_said_to_wait() -> None:
    seen = row(([{OWN: 1}], [1e6]), ([{OWN: 1}], [5e6]), metric="wall")
    sides = [reference(each.variant, [dict(each.metrics)["wall"]], [1e6]) for each in seen.references]
    waits = (
        result("off-cpu", BASE, elapsed=elapsed([{}], 1e6)),
        result("off-cpu", CANDIDATE, elapsed=elapsed([{SLEEP: 9}], 1e6)),
    )
    found = explain(msgspec.structs.replace(seen, references=(sides[0], sides[1]), runs=(*seen.runs, *waits)))
    assert found.sentence.endswith(
        ": nanosleep (system call), called by work, waits 4 ms more, 100 % of the difference."
    )


@pytest.mark.parametrize(
    ("symbol", "where", "text"),
    [
        ("main", OWN_OBJECT, "main"),
        ("deflate", "libz.so.1", "deflate (libz.so.1)"),
        ("below compress2", "libz.so.1", "libz.so.1, below compress2"),
        ("[unknown]", "libz.so.1", "libz.so.1, code without a name"),
        ("[unknown]", OWN_OBJECT, "program, code without a name"),
        ("__x64_sys_fsync", KERNEL, "fsync (system call)"),
        ("clear_page", KERNEL, "clear_page (kernel)"),
        (FAULTING.symbol, KERNEL, "page faults (kernel)"),
        ("[no stack]", "[unknown]", "code without a stack"),
    ],
)
def test_how_functions_are_named(symbol: str, where: str, text: str) -> None:
    assert function_text(symbol, where) == text


def test_the_first_screen_has_the_sentence_the_functions_what_is_not_known_and_the_next_step() -> None:
    chance = random.Random(1)
    below: dict[Stack, float] = {(*OWN, Frame(symbol=f"f{n}", object=OWN_OBJECT)): 0.05 for n in range(10)}
    base = drawn(chance, {OWN: 0.5, **below}), noisy(chance, 1e6)
    candidate = drawn(chance, {OWN: 0.2, FREE: 0.6, **dict.fromkeys(below, 0.02)}), noisy(chance, 3e6)
    missing = (MissingInstrument(instrument="syscalls", reason="no tracefs", remedy="sudo x"),)
    seen = msgspec.structs.replace(row(base, candidate), missing=missing)
    found = explain(seen)
    text = terminal.render(document_of(found, record="/r"), terminal.Terminal(width=120))
    assert text.startswith(found.sentence[:100]) and len(text.splitlines()) <= 30
    assert "- syscalls is unavailable: no tracefs. To enable it: sudo x." in text
    assert "swapstone profile /r cpu --only w --candidate libc=musl --on-cpu --open" in text
    _, *rows = function_table(found)
    assert len(rows) <= 9 and rows[0][0] == "free (C library)" and rows[-1][0] == "all of them (cpu)"
    assert "Instruments" not in text  # they are on the page
    summary = summary_of(found, ())
    assert summary.paragraph == found.sentence and len(summary.ledger) == len(rows) + 1
    assert summary.evidence == (("Not known", found.unknown),)


def test_without_a_profile_it_is_not_known_which_function_and_what_the_counts_cost() -> None:
    missing = (MissingInstrument(instrument="on-cpu", reason="the kernel refuses perf events", remedy="sudo sysctl x"),)
    counts = counted(
        "syscalls", {("system calls", "read"): 2.0}, {("system calls", "read"): 2.0, ("system calls", "mmap"): 64.0}
    )
    seen = row(([{OWN: 1}], [1.0]), ([{OWN: 1}], [2.0]))
    seen = msgspec.structs.replace(seen, runs=counts, missing=missing)
    found = explain(seen)
    assert (found.time, found.evidence) == (None, ())
    assert found.sentence == (
        "w takes 2 ns (cpu) with musl instead of 1 ns with glibc: which function accounts for it is not known: on-cpu is unavailable: the "
        "kernel refuses perf events."
    )
    assert found.unknown == (
        "on-cpu is unavailable: the kernel refuses perf events. To enable it: sudo sysctl x.",
        "What these counts of an operation cost is not known: 64 mmap (other variant: 0).",
    )
    equal = msgspec.structs.replace(
        seen, runs=counted("syscalls", {("system calls", "read"): 2.0}, {("system calls", "read"): 2.0})
    )
    assert (
        "Of what was counted (system calls), the slower variant has nothing 20 % more often." in explain(equal).unknown
    )
    assert "Nothing was counted of both variants." in explain(msgspec.structs.replace(seen, runs=())).unknown
    screen = terminal.render(document_of(found, record="/r"), terminal.Terminal(width=120))
    assert "swapstone doctor" in screen


def test_a_row_without_a_difference_has_nothing_to_explain_or_too_few_pairs() -> None:
    chance = random.Random(4)
    sides = [(drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)) for _ in range(2)]
    found = explain(msgspec.structs.replace(row(sides[0], sides[1]), differs=False))
    assert found.sentence == (
        "There is nothing to explain: the record decides no difference between the medians of musl and glibc on w."
    )
    assert "share" not in function_table(found)[0] and found.evidence == ()
    doubled = msgspec.structs.replace(row(sides[0], (drawn(chance, {FREE: 1.0}), noisy(chance, 2e6))), differs=False)
    text = explain(doubled).sentence
    assert text.startswith(
        "Too few pairs: the record decides no difference between the medians of musl and glibc on w, but the runs now differ by +"
    )
    screen = terminal.render(document_of(explain(doubled), record="/r"), terminal.Terminal(width=120))
    assert "swapstone compare --resume /r" in screen and "free" in screen


@pytest.mark.parametrize("differs", [True, False])
def test_a_row_without_a_result_is_explained_by_the_runs_now(*, differs: bool) -> None:
    chance = random.Random(7)
    after = (
        (drawn(chance, {OWN: 0.25, FREE: 0.75}), noisy(chance, 4e6))
        if differs
        else (drawn(chance, {OWN: 1.0}), noisy(chance, 1e6))
    )
    seen = row((drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)), after)
    references = tuple(msgspec.structs.replace(each, time_ns=None, recorded=0.0) for each in seen.references)
    found = explain(msgspec.structs.replace(seen, references=references, no_result="disturbed: others ran."))
    assert found.differs is differs and found.no_result
    assert found.unknown[0].startswith(
        "The record has no result of this row: disturbed: others ran. The difference is that of"
    )
    if differs:
        assert "free (C library), called by work, takes" in found.sentence
    else:
        assert found.sentence.startswith(
            "There is nothing to explain: the record has no result, and its runs now decide"
        )


def test_runs_that_decide_no_difference_name_nothing() -> None:
    chance = random.Random(3)
    times = [chance.gauss(1e6, 2e5) for _ in range(10)], [chance.gauss(1.05e6, 2e5) for _ in range(10)]
    seen = row((drawn(chance, {OWN: 1.0}), times[0]), (drawn(chance, {OWN: 0.8, FREE: 0.2}), times[1]))
    found = explain(seen)
    assert found.sentence.endswith(
        "which function accounts for it is not known, because the runs now show no difference."
    )
    assert any(text.startswith("The runs now decide no difference") for text in found.unknown)
    assert "share" not in function_table(found)[0]


def test_runs_that_differ_from_the_record_are_a_limit() -> None:
    seen = row(([{OWN: 1}], [1000.0]), ([{FREE: 1}], [3000.0]))
    drifted = (seen.references[0], msgspec.structs.replace(seen.references[1], time_ns=9000.0))
    found = explain(msgspec.structs.replace(seen, references=drifted))
    assert any(text.startswith("The runs now differ by 2 us, those of the record by 8 us") for text in found.unknown)
    assert not any("those of the record" in text for text in explain(seen).unknown)


def test_code_without_a_name_is_a_limit() -> None:
    nameless = (*OWN, Frame(symbol="[unknown]", object="libz.so.1"))
    found = explain(row(([{OWN: 1}], [100.0]), ([{OWN: 1, nameless: 1}], [200.0])))
    assert ": libz.so.1, below work takes 100 ns more" in found.sentence
    assert "100 % of the difference is in code without a name." in found.unknown
    named = (*nameless, Frame(symbol="call", object="libz.so.1"))
    found = explain(row(([{OWN: 1}], [100.0]), ([{OWN: 1, named: 1}], [200.0])))
    assert ": call (libz.so.1), called by libz.so.1, below work, takes 100 ns more" in found.sentence
    inner = (*OWN, Frame(symbol="[unknown]", object=OWN_OBJECT), Frame(symbol="mid", object="libz.so.1"), named[-1])
    found = explain(row(([{OWN: 1}], [100.0]), ([{OWN: 1, inner: 1}], [200.0])))
    assert ": call (libz.so.1), called by mid (libz.so.1), below work, takes 100 ns more" in found.sentence


def waited(reason: str, whose: str, waits: float, total_ns: float) -> EndedWaits:
    return EndedWaits(reason=reason, whose=whose, waits=waits, total_ns=total_ns, short_ns=1e6, long_ns=2e6)


def test_what_ended_the_waits_is_evidence_if_it_has_a_tenth_of_the_difference() -> None:
    for total_ns, named_there in ((200.0, True), (9.0, False)):
        seen = row(
            ([{OWN: 1}], [100.0]),
            ([{FREE: 1}], [200.0]),
            result("waits", BASE),
            result("waits", CANDIDATE, waits=(waited(DELAYED_ACK, "", 20.0, total_ns),)),
        )
        texts = explain(seen).evidence
        assert any("Nagle's algorithm had held back (other variant: none)" in text for text in texts) is named_there


@pytest.mark.parametrize("also_without_an_instrument", [True, False])
def test_time_without_a_processor_leads_where_each_run_shows_it(also_without_an_instrument: bool) -> None:
    """As of a program that makes a control group with a quota, and leaves it before its end."""
    seen = row(([{OWN: 1}], [100.0]), ([{OWN: 1}], [300.0]), metric="wall")
    values = [[base + number for number in range(8)] for base in (100.0, 300.0)]
    ready = (0.0, 200.0 if also_without_an_instrument else 0.0)
    sides = [
        reference(name, of, [100.0] * 8, **{USER: 100.0, SYSTEM: 0.0, NEITHER: late, READY: counted})
        for name, of, late, counted in zip((BASE, CANDIDATE), values, (0.0, 200.0), ready, strict=True)
    ]
    more = (
        result("off-cpu", BASE, elapsed=elapsed([{}], 1.0)),
        result("off-cpu", CANDIDATE, elapsed=elapsed([{}], 1.0, 9.0)),
        result("waits", BASE),
        result("waits", CANDIDATE, taken=(ProcessorTaken(whose="cc1", total_ns=150.0),)),
    )
    found = explain(msgspec.structs.replace(seen, references=(sides[0], sides[1]), runs=(*seen.runs, *more)))
    leads = " % of the difference is time ready without a processor. The variants took turns" in found.sentence
    assert leads == also_without_an_instrument
    assert any("cc1" in line for line in found.unknown) != leads, "who had it is stated where load may be the cause"
    assert (found.sentence in named(found)) == leads, "remedies that undo limits are tried"


def test_time_without_a_processor_does_not_lead_and_who_had_it_is_stated() -> None:
    seen = row(([{OWN: 1}], [100.0]), ([{OWN: 1}], [300.0]), metric="wall")
    sides = [reference(each.variant, [dict(each.metrics)["wall"]], [100.0]) for each in seen.references]
    more = (
        result("off-cpu", BASE, elapsed=elapsed([{}], 1.0)),
        result("off-cpu", CANDIDATE, elapsed=elapsed([{}], 1.0, 9.0)),
        result("waits", BASE),
        result("waits", CANDIDATE, taken=(ProcessorTaken(whose="cc1", total_ns=150.0),)),
    )
    seen = msgspec.structs.replace(seen, references=(sides[0], sides[1]), runs=(*seen.runs, *more))
    found = explain(seen)
    assert found.sentence.endswith("instead of 100 ns with glibc: no function accounts for it.")
    assert (
        "+200 ns is time ready without a processor, taken by cc1 for 150 ns; the shares are of the rest."
        in found.unknown
    )
    assert function_table(found)[-1][:2] == ("ready, without a processor", "+200 ns")
    unseen = explain(msgspec.structs.replace(seen, runs=seen.runs[:4]))
    assert any("and it is not known who had it" in text for text in unseen.unknown)


def evidence_of(
    before: dict[tuple[Frame, ...], float],
    after: dict[tuple[Frame, ...], float],
    *more: InstrumentResult,
    times: tuple[float, float] = (1e6, 9e6),
) -> str:
    return " | ".join(explain(row(([before], [times[0]]), ([after], [times[1]]), *more)).evidence)


def test_a_count_is_evidence_if_its_functions_have_a_tenth_of_the_difference() -> None:
    calls = counted(
        "syscalls",
        {("system calls", "read"): 1.0},
        {("system calls", "read"): 900.0, ("system calls", "getpid"): 1.0, ("faults", "minor faults"): 5.0},
    )
    text = evidence_of({OWN: 1}, {OWN: 1, READ: 8}, *calls)
    assert text == "900 read per operation (other variant: 1)"  # neither one getpid nor five faults
    assert evidence_of({OWN: 1}, {OWN: 8.5, READ: 0.5}, *calls) == ""  # reading takes 6 % of the difference
    faults = counted("reference", {("faults", "minor faults"): 5.0}, {("faults", "minor faults"): 900.0})
    assert "900 minor faults per operation (other variant: 5)" in evidence_of({OWN: 1}, {OWN: 1, FAULT: 8}, *faults)
    assert evidence_of({OWN: 1}, {OWN: 9}, *faults) == ""


def test_a_count_of_which_the_slower_variant_has_no_more_is_no_evidence() -> None:
    assert (
        evidence_of(
            {READ: 1}, {READ: 9}, *counted("syscalls", {("system calls", "read"): 9.0}, {("system calls", "read"): 9.0})
        )
        == ""
    )
    assert (
        evidence_of(
            {READ: 1}, {READ: 9}, *counted("syscalls", {("system calls", "read"): 9.0}, {("system calls", "read"): 2.0})
        )
        == ""
    )
    assert evidence_of(
        {READ: 9}, {READ: 1}, *counted("syscalls", {("system calls", "read"): 9.0}, {}), times=(9e6, 1e6)
    ) == ("9 read per operation (other variant: 0)")


def test_calls_belong_to_functions_of_their_name() -> None:
    calls = counted(
        "instructions",
        {("calls", "memset (libc.so.6)"): 5.0},
        {("calls", "strlen (libc.so.6)"): 300_005.0, ("calls", "write (libc.so.6)"): 77.0},
    )
    assert (
        evidence_of({OWN: 1}, {OWN: 1, STRLEN: 8}, *calls) == "300 k calls of strlen per operation (other variant: 0)"
    )
    other = (*OWN, Frame(symbol="strlen", object="ld-musl-x86_64.so.1"))
    mine = (*OWN, Frame(symbol="malloc", object="libc.so.6"))
    # One of two C libraries may do the work of the other's function in functions of its own: then nothing is compared.
    musl = counted(
        "instructions", {("calls", "malloc (libc.so.6)"): 1.0}, {("calls", "strlen (ld-musl-x86_64.so.1)"): 9.0}
    )
    assert evidence_of({mine: 1}, {mine: 1, other: 8}, *musl) == "9 calls of strlen per operation (other variant: 0)"
    assert evidence_of({mine: 1}, {OWN: 1, other: 8}, *musl) == ""


def test_instructions_belong_to_functions_by_their_own_time() -> None:
    both = {("instructions", "all"): 100.0, ("instructions", "work"): 1.0}
    # callgrind has the object of a function, cachegrind has not
    more = counted(
        "instructions",
        {**both, ("instructions", "__strlen_avx2 (libc.so.6)"): 9.0},
        {
            **both,
            ("instructions", "__strlen_avx2"): 900.0,
            ("instructions", "work"): 90.0,
            ("instructions", "???"): 70.0,
        },
    )
    found = evidence_of({OWN: 1}, {OWN: 1, STRLEN: 8}, *more)
    assert found.endswith("900 instructions of strlen per operation (other variant: 9)")
    assert "of work" not in found, "what it calls takes the time"


def instructions(before: float, after: float, **events: float) -> tuple[InstrumentResult, InstrumentResult]:
    simulated: Amounts = {("simulated", name.replace("_", " ")): value for name, value in events.items()}
    return counted(
        "instructions",
        {("instructions", "all"): before, ("simulated", "x"): 1.0},
        {("instructions", "all"): after, ("simulated", "x"): 1.0, **simulated},
    )


def test_instructions_are_compared_where_code_outside_the_kernel_takes_the_time() -> None:
    more = evidence_of({OWN: 1}, {OWN: 9}, *instructions(1e6, 9e6))
    assert more == "9 M instructions per operation (other variant: 1 M)"
    same = evidence_of({OWN: 1}, {OWN: 9}, *instructions(1e6, 1e6))
    assert same.startswith(
        "1 M instructions per operation (other variant: 1 M): as many, which take longer; no count shows why; possible: "
    )
    fewer = evidence_of({OWN: 1}, {OWN: 9}, *instructions(2e6, 1e6))
    assert ": fewer, which take longer" in fewer
    assert evidence_of({OWN: 1}, {OWN: 3, READ: 7}, *instructions(1.0e6, 1.3e6)) == "", (
        "they cost 5 % of the difference"
    )
    assert evidence_of({OWN: 1}, {OWN: 1, READ: 8}, *instructions(1e6, 1e6)) == ""
    assert evidence_of({OWN: 1}, {OWN: 4, READ: 6}, *instructions(1e6, 1e6)) == "", "a third of it"


def test_a_simulated_event_is_evidence_if_its_least_cost_is_a_tenth_of_the_difference() -> None:
    found = evidence_of({OWN: 1}, {OWN: 9}, *instructions(1e6, 1e6, mispredicted_branches=2e6))
    assert "2 M mispredicted branches per operation (other variant: 0)" in found
    assert "no count shows why" not in found
    assert "mispredicted" not in evidence_of({OWN: 1}, {OWN: 9}, *instructions(1e6, 1e6, mispredicted_branches=2e5))


def test_functions_with_a_tenth_of_the_difference_and_evidence_choose_remedies() -> None:
    calls = counted("syscalls", {}, {("system calls", "read"): 900.0})
    found = explain(row(([{OWN: 1}], [1e6]), ([{OWN: 1, READ: 7.8, FREE: 0.2}], [9e6]), *calls))
    assert isinstance(found, Explanation)
    texts = {"read (system call)", "900 read per operation (other variant: 0)", *found.unknown}
    assert set(named(found)) == texts and len(texts) == 3
    assert named(explain(msgspec.structs.replace(_without_profiles(), differs=False))) == ()


def _without_profiles() -> RowMeasurements:
    return msgspec.structs.replace(row(([{OWN: 1}], [1.0]), ([{OWN: 1}], [2.0])), runs=())


def test_names_from_outside_are_made_visible() -> None:
    seen = row(([{OWN: 1}], [100.0]), ([{OWN: 1, (*OWN, Frame(symbol="f\x1b[31m", object="\x1b.so")): 1}], [200.0]))
    seen = msgspec.structs.replace(seen, place=msgspec.structs.replace(seen.place, workload="a\x1b[31m"))
    found = explain(seen)
    for text in (
        terminal.render(document_of(found, record="/r")),
        " ".join(cell for each in summary_of(found, ()).ledger for cell in each),
    ):
        assert "\x1b" not in text and "f\\x1b[31m" in text


def test_partial_counts_are_lower_bounds_and_compared_as_such() -> None:
    chance = random.Random(5)
    sides = ((drawn(chance, {OWN: 1.0}), [1e6] * 10), (drawn(chance, {OWN: 0.3, READ: 0.7}), [3e6] * 10))
    name = ("system calls", "read")
    for partial, text in (
        (CANDIDATE, "at least 900 read per operation (other variant: 3)"),
        (BASE, ""),
        ("", "900 read per operation (other variant: 3)"),
    ):
        runs = [
            msgspec.structs.replace(each, partial=each.variant == partial)
            for each in counted("syscalls", {name: 3.0}, {name: 900.0})
        ]
        found = explain(row(*sides, *runs))
        assert found.evidence == ((text,) if text else ())
        (count,) = (each for each in found.counts if each.name == "read")
        assert count.least == (partial == BASE, partial == CANDIDATE)
        (line,) = (each for each in count_rows(found.counts) if each[1] == "read")
        bound = [
            f"{'at least ' if least else ''}{value}" for least, value in zip(count.least, ("3", "900"), strict=True)
        ]
        assert list(line[2:4]) == bound and (line[4] == "not counted to the end") == bool(partial)


def test_time_in_the_kernel_that_was_not_sampled_has_counts_beside_it() -> None:
    chance = random.Random(6)
    sides = ((drawn(chance, {OWN: 1.0}), [1e6] * 10), (drawn(chance, {OWN: 0.3, (UNSAMPLED,): 0.7}), [3e6] * 10))
    name = ("system calls", "getppid")
    found = explain(row(*sides, *counted("syscalls", {name: 0.0}, {name: 900.0})))
    assert ": unsampled code (kernel) takes " in found.sentence
    assert "What these counts of an operation cost is not known: 900 getppid (other variant: 0)." in found.unknown


def unprofiled(wall: float, user: float) -> RowMeasurements:
    """Return a row without perf: the kernel's counts of processor time, and waits that were sampled."""
    seen = row(([{OWN: 1}], [1e6]), ([{OWN: 1}], [wall]), metric="wall")
    times = ((BASE, 1e6, 1e6, 1), (CANDIDATE, wall, user, 9))
    sides = [reference(name, [whole] * 8, [spent] * 8, user=spent, system=0.0) for name, whole, spent, _ in times]
    more = tuple(
        result("off-cpu", name, elapsed=elapsed([{SLEEP: times_waited}] * 4, spent))
        for name, _, spent, times_waited in times
    )
    missing = (MissingInstrument(instrument="on-cpu", reason="the command 'perf' is not installed"),)
    return msgspec.structs.replace(seen, references=(sides[0], sides[1]), runs=more, missing=missing)


def test_without_perf_waits_are_named_and_processor_time_is_not() -> None:
    found = explain(unprofiled(5e6, 1e6))
    assert ": nanosleep (system call)" in found.sentence and " waits " in found.sentence
    assert found.time is not None and found.time.samples == (0, 0)
    busy = explain(unprofiled(5e6, 5e6))
    assert busy.sentence.endswith(
        ": which function accounts for it is not known: on-cpu is unavailable: the command 'perf' is not installed."
    )
    bare = unprofiled(5e6, 1e6)
    sides = [
        reference(each.variant, [time] * 8, [1e6] * 8) for each, time in zip(bare.references, (1e6, 5e6), strict=True)
    ]
    assert explain(msgspec.structs.replace(bare, references=(sides[0], sides[1]))).time is None


def test_a_limit_of_both_variants_is_one_line() -> None:
    seen = row(([{OWN: 1}], [1e6]), ([{OWN: 1}], [2e6]))
    notes = [result("syscalls", name, notes=("2 records were lost",)) for name in (BASE, CANDIDATE)]
    found = explain(msgspec.structs.replace(seen, runs=(*seen.runs, *notes)))
    assert "syscalls on glibc and musl: 2 records were lost." in found.unknown
