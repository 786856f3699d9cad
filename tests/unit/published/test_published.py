# SPDX-License-Identifier: MIT OR Apache-2.0
"""The published figures, and what can be checked about them."""

from collections.abc import Callable
from decimal import Decimal
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone import published
from swapstone.model import UserError
from swapstone.published import claim_checks, data, derived_figures

REPORT = published.check()


def test_there_are_489_figures_each_of_a_known_page_and_study() -> None:
    figures = published.figures()
    assert len(figures) == 489
    assert {f.source for f in figures} == {s.name for s in published.sources()}
    assert {f.study for f in figures} == {s.name for s in published.studies()}
    assert {s.source for s in published.studies()} <= {s.name for s in published.sources()}


def test_figures_narrow_by_study_and_suite() -> None:
    libc = published.figures("musl-vs-glibc", "libc")
    assert len(libc) == 2 * (23 + 3 * 27)
    assert {f.suite for f in published.figures("preempt-rt")} == {"cyclictest", "unixbench"}


@pytest.mark.parametrize("wrong", [{"study": "musl-vs-glib"}, {"study": "musl-vs-glibc", "suite": "lmbanch"}])
def test_an_unknown_study_or_suite_is_the_users_error(wrong: dict[str, str]) -> None:
    with pytest.raises(UserError, match="There is no published"):
        published.figures(**wrong)


def test_time_is_found_under_wall_and_memory_under_its_metric() -> None:
    time = published.find("musl-vs-glibc", "libc", "b_malloc_sparse", "wall")
    assert time is not None
    assert (time.baseline_level, time.baseline, time.candidate_level, time.candidate) == (
        "glibc",
        0.133191926,
        "musl",
        0.155694333,
    )
    assert time.unit == "s"
    assert time.ratio == pytest.approx(1.168947, rel=1e-6)
    memory = published.find("musl-vs-glibc", "libc", "b_malloc_sparse", "virt")
    assert memory is not None
    assert (memory.baseline, memory.candidate, memory.unit) == (38992, 8480, "KiB")


def test_a_needle_that_the_memory_tables_misname_is_found() -> None:
    for metric in ("virt", "res", "dirty"):
        pair = published.find("musl-vs-glibc", "libc", "b_string_strstr(abcd)", metric)
        assert pair is not None
        assert pair.figure == f"b_string_strstr(abc):{metric}"


def test_times_and_rates_of_one_name_do_not_collide() -> None:
    """The page has a latency in us and a bandwidth in MB/s under the same name."""
    for name, time, rate in (("Pipe", 84.3, 303), ("AF UNIX", 81.9, 592), ("TCP", 199.1, 373)):
        slow, fast = (published.find("musl-vs-glibc", "lmbench", name, metric) for metric in ("wall", "rate"))
        assert slow is not None and fast is not None
        assert (slow.unit, slow.baseline) == ("us", time)
        assert (fast.unit, fast.baseline) == ("MB/s", rate)
        assert published.find("musl-vs-glibc", "lmbench", name, "wall", unit="MB/s") is None


def test_figures_of_several_conditions_need_one() -> None:
    assert published.find("preempt-rt", "unixbench", "Pipe Throughput", "rate") is None
    pair = published.find("preempt-rt", "unixbench", "Pipe Throughput", "rate", condition="multi task")
    assert pair is not None and (pair.baseline, pair.candidate) == (4848867.9, 3771186.3)
    machine = "Pentium T4500"
    pair = published.find("musl-malloc", "http", "requests", "rate", platform=machine)
    assert pair is not None and pair.candidate == 16432.60
    assert published.find("musl-malloc", "http", "requests", "rate") is None


def test_numbers_keep_the_precision_of_the_page() -> None:
    by = {f.printed: f for f in published.figures()}
    assert (by["21.8K"].value, by["21.8K"].rounding, by["21.8K"].qualified) == (21800, 50, "")
    assert (by["about 190000"].value, by["about 190000"].rounding, by["about 190000"].qualified) == (
        190000,
        None,
        "about",
    )
    assert (by["8000+"].value, by["8000+"].qualified) == (8000, "at least")
    assert (by["nearly 1.6"].value, by["nearly 1.6"].qualified) == (1.6, "nearly")
    assert by["16432.60"].rounding == pytest.approx(0.005)


def test_what_the_pages_do_not_state_is_not_stated() -> None:
    assert {f.platform for f in published.figures("lwip-vs-smoltcp")} == {"not stated"}
    assert {f.platform for f in published.figures("zram-vs-flash")} == {"BeagleBone Black"}
    (longest,) = (f for f in published.figures("preempt-rt") if f.metric == "max latency")
    assert (longest.value, longest.level) == (58, "not stated")
    assert {f.level for f in published.figures("lwip-vs-smoltcp", "allocations")} == {
        "lwip zero-copy rx",
        "lwip pools",
        "lwip pools + preallocated queues",
        "smoltcp",
    }


def test_further_numbers_are_of_the_same_pages_and_fit_the_figures() -> None:
    more = published.further()
    runs = {(f.platform, f.level) for f in more if f.suite == "http"}
    assert len(runs) == 4 and sum(f.suite == "http" for f in more) == 4 * 14
    assert sum(f.suite == "vmstat" for f in more) == (17 + 9) * 15
    samples = {f.metric: f.value for f in more if f.suite == "stack samples"}
    assert samples["innermost frame axnet::lwip_impl::driver::ethif_output"] == 491
    assert sum(samples.values()) == 1001
    assert not {f.encoded() for f in more} & {f.encoded() for f in published.figures()}
    for level in ("flash", "zram"):
        column = {f.metric: f.value for f in more if f.suite == "vmstat" and f.level == level}
        used, system = (
            [
                column[f"{name}, second {second}"]
                for second in range(len(column) // 15)
                if column[f"swpd, second {second}"]
            ]
            for name in ("swpd", "sy")
        )
        assert list(map(float, data.facts()["zram-and-float", f"swpd with {level}"])) == used
        assert list(map(float, data.facts()["zram-and-float", f"system time with {level}"])) == system


def test_a_pair_missing_on_the_page_is_none() -> None:
    assert published.find("musl-vs-glibc", "libc", "b_regex_compile", "wall") is None
    assert published.find("musl-vs-glibc", "libc", "b_malloc_sparse", "minflt") is None
    assert published.find("musl-vs-glibc", "libc", "b_unheard_of", "wall") is None
    with pytest.raises(UserError):
        published.find("no-such-study", "libc", "b_malloc_sparse", "wall")


def test_a_pair_turns_round() -> None:
    pair = published.find("musl-vs-glibc", "libc", "b_malloc_sparse", "wall")
    assert pair is not None
    turned = pair.oriented("musl", "glibc")
    assert turned is not None
    assert turned.ratio == pytest.approx(1 / pair.ratio)
    assert pair.oriented("glibc", "musl") is pair
    assert pair.oriented("glibc", "dietlibc") is None


def test_every_index_is_reproduced_to_the_printed_digit() -> None:
    indices = {(r.row, r.printed): r.computed for r in REPORT.recomputed if r.formula.startswith("geometric mean")}
    assert sorted(printed for _, printed in indices) == sorted(
        ["161.6", "146.5", "773.4", "626.4", "618.5", "3406.4", "1525.8", "1494.4"]
    )
    assert all(printed == computed for (_, printed), computed in indices.items())


def test_the_derived_numbers_that_do_not_reproduce_are_these_and_no_others() -> None:
    off = {
        (r.place, r.row): (r.printed, r.computed)
        for r in REPORT.recomputed
        if not r.agrees and r.place != "tables 7 and 8"
    }
    assert off == {
        ("UnixBench", "Shell Scripts (8 concurrent) (musl)"): ("990.6", "990.7"),
        ("CoreMark, 1 thread", "CoreMark per MHz (glibc)"): ("5.45", "5.44"),
        ("CoreMark, 4 threads", "CoreMark per MHz (glibc)"): ("21.74", "21.71"),
        ("CoreMark, 4 threads", "CoreMark per MHz (musl)"): ("21.75", "21.71"),
    }
    assert len(REPORT.recomputed) == 229 + 8 + 12


def test_inputs_of_derived_numbers_are_published_figures() -> None:
    known = {f.printed for f in published.figures()} | {f"{f.value:g}" for f in published.figures()}
    for row in data.derived():
        if row.place.startswith("libc-bench"):
            assert {row.a, row.b} <= known, row


def test_the_latency_tables_contradict_each_other_in_five_cells() -> None:
    off = [r.row for r in REPORT.recomputed if r.place == "tables 7 and 8" and not r.agrees]
    assert len(off) == 5
    assert not any("D2000" in row for row in off)


def test_words_against_numbers() -> None:
    by = {(d.source, d.words): d for d in REPORT.disagreements}
    swap = next(d for key, d in by.items() if "bytes a second" in key[1])
    assert "KiB" in swap.numbers
    assert "23.3 MiB" in swap.numbers
    score = next(d for key, d in by.items() if "per MHz" in key[1])
    assert "599 MHz" in score.numbers
    cpu = next(d for key, d in by.items() if "some CPU time" in key[1])
    assert "18 %" in cpu.numbers
    stack = next(d for key, d in by.items() if "0x4000" in key[1])
    assert "0x40000" in stack.numbers
    assert {d.source for d in REPORT.disagreements} == {s.name for s in published.sources()}
    assert len(REPORT.disagreements) + len(REPORT.borne_out) == len(claim_checks.claims())


def test_a_claim_can_go_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    (claim,) = (c for c in claim_checks.claims() if "over ten times" in c.words)
    assert claim.judge().borne_out is True
    monkeypatch.setattr(claim_checks, "_http", lambda level, platform: {"musl": 1.0, "mimalloc": 9.0}[level])
    assert claim.judge().borne_out is False


@pytest.mark.parametrize(
    ("value", "printed", "text"),
    [("17.625", "17.63", "17.63"), ("-0.004", "0.00", "0.00"), ("95.98", "96", "96"), ("-14.5", "-14", "-15")],
)
def test_rounding_is_half_up_to_the_printed_decimals(value: str, printed: str, text: str) -> None:
    assert derived_figures.as_printed(Decimal(value), printed) == text


HEADER = ",".join(data.FIGURE_COLUMNS) + "\n"
ROW = "s,p,board,,suite,metric,s,lower,glibc,1.5\n"


def test_a_good_line_decodes() -> None:
    (figure,) = data.decode_figures(HEADER + ROW)
    assert (figure.value, figure.printed, figure.level) == (1.5, "1.5", "glibc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the columns"),
        ("a,b\n", "line 1: the columns"),
        (HEADER + ROW + ROW, "line 3: the same figure as line 2"),
        (HEADER + ROW.replace("1.5", "nan"), "'nan' is not a decimal number"),
        (HEADER + ROW.replace("1.5", "1e5"), "'1e5' is not a decimal number"),
        (HEADER + ROW.replace("1.5", "about"), "'about' is not a decimal number"),
        (HEADER + ROW.replace("1.5", "1.5k"), "'1.5k' is not a decimal number"),
        (HEADER + ROW.replace("1.5", "\u0661"), "is not a decimal number"),
        (HEADER + ROW.replace("lower", "smaller"), "is not a direction"),
        (HEADER + ROW.replace("glibc", ""), "level is empty"),
        (HEADER + ROW.replace("glibc", "gl\x1b[31mibc"), "level is empty or not printable"),
        (HEADER + ROW.replace(",1.5", ""), "9 columns instead of 10"),
        (HEADER + 's,p,"board\n', "line 2"),
        (HEADER + ROW.rstrip(), "line 2: truncated"),
    ],
)
def test_a_bad_line_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=r"published\.csv") as caught:
        data.decode_figures(text)
    assert message in caught.value.message


DECODERS: tuple[tuple[Callable[[str], Any], tuple[str, ...]], ...] = (
    (data.decode_figures, data.FIGURE_COLUMNS),
    (data.decode_derived, data.DERIVED_COLUMNS),
    (data.decode_baselines, data.BASELINE_COLUMNS),
    (data.decode_facts, data.FACT_COLUMNS),
)
LINE = st.lists(st.text(max_size=8), min_size=1, max_size=11).map(",".join)


@given(st.sampled_from(DECODERS), st.lists(LINE, max_size=4), st.booleans())
def test_decoders_answer_or_raise_a_user_error(
    decoder: tuple[Callable[[str], Any], tuple[str, ...]], lines: list[str], headed: bool
) -> None:
    decode, columns = decoder
    try:
        decode("".join(f"{line}\n" for line in [",".join(columns)] * headed + lines))
    except UserError as error:
        assert ".csv line " in error.message


DERIVED = (resources.files("swapstone.published") / "derived.csv").read_text(encoding="utf-8")


@given(st.integers(0, len(DERIVED) - 1))
def test_a_truncated_file_never_gives_a_number_that_was_cut(cut: int) -> None:
    whole = set(data.derived())
    try:
        rows = data.decode_derived(DERIVED[:cut])
    except UserError:
        return
    assert set(rows) <= whole
