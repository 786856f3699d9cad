# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of the published pages: every figure is in one, and beside it is the number of the records that has its place."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from tests.unit.report.test_published_differences import MAX, libc, record
from tests.unit.report.test_throughput import comparison

from swapstone.core.model import Comparison, Direction, Metric, Quantity, TimeSeries, Verdict
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import BulletList, Section, Table
from swapstone.core.report.study_index import PartOfStudy
from swapstone.core.workloads import find_workload
from swapstone.parts.published import data
from swapstone.parts.published.data import absent_reason, further, joined, measured_rows, page_tables
from swapstone.parts.published.report.measured import Analysed
from swapstone.parts.published.report.page_tables import sections
from swapstone.parts.published.session.published_list import COVERAGE

LOOPS = tuple(("float", find_workload("float", f"float_loops({number})")) for number in (100, 200))
STUDIES = ("musl-vs-glibc", "preempt-rt", "musl-malloc", "lwip-vs-smoltcp", "zram-vs-flash", "float-abi")
RES = Metric(name="res", unit="B", quantity=Quantity.MEMORY, better=Direction.LOWER, meaning="resident")
COPIES = Metric(name="copies", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="copies")


def parts(study: str, *records: Analysed) -> list[PartOfStudy]:
    return [
        PartOfStudy(
            each.name,
            ReportContext(experiment=each.experiment, record_id="r", record_path="r", published=study, workloads=LOOPS),
            each.analysis,
        )
        for each in records
    ]


def made(study: str, *comparisons: Comparison, factor: str = "libc") -> tuple[Section, ...]:
    return sections(study, parts(study, record(*comparisons, factor=factor)))


def cells(found: tuple[Section, ...], title: str) -> dict[tuple[object, object], dict[str, object]]:
    """Return the data of a table by row and column."""
    (section,) = (each for each in found if each.title.startswith(title))
    return {(each["row"], each["column"]): dict(each) for each in section.data}


def test_every_figure_is_in_one_table() -> None:
    found = Counter(
        figure.encoded()
        for study in STUDIES
        for table in page_tables(study)
        if table.columns
        for row in table.cells().values()
        for figure in row.values()
    )
    assert found == Counter(each.encoded() for each in (*data.figures(), *further()))


def test_each_table_has_a_figure_in_each_cell_and_its_ratios_have_columns() -> None:
    for table in (each for study in STUDIES for each in page_tables(study) if each.columns):
        rows = table.cells()
        assert all(list(row) for row in rows.values()) and {len(row) for row in rows.values()} == {len(table.columns)}
        assert {name for ratio in table.ratios for name in (ratio.of, ratio.over)} <= set(table.columns), table.title
        assert table.base in {"", *rows}


def test_the_tables_and_their_rows_and_columns_are_in_the_order_of_the_page() -> None:
    found = made("musl-vs-glibc", libc("b_malloc_sparse", 1.3, Verdict.WORSE))
    assert [each.title.partition(":")[0] for each in found] == [
        "The published page",
        *("libc-bench 1", *["libc-bench 2"] * 3, "CoreMark 1 and 2"),
        *(f"lmbench {number}" for number in range(1, 6)),
        "UnixBench",
    ]
    (table,) = (each for each in found[1].blocks if isinstance(each, Table))
    assert [each.name for each in table.columns] == ["", "glibc, s", "musl, s", "glibc / musl - 1"]
    assert [row[0].text for row in table.rows][:2] == ["b_malloc_sparse", "b_malloc_bubble"]
    assert [cell.text for cell in table.rows[0]] == ["b_malloc_sparse", "0.133191926", "0.155694333", "-14 %"]
    wrk = [row for row, column in cells(made("musl-malloc"), "wrk -c10") if column == "musl"]
    assert (len(wrk), wrk[0], wrk[8], wrk[-1]) == (17, "latency mean", "latency p50", "read")


def test_ratios_are_judged_and_values_are_not() -> None:
    """The page: sparse 1.169, bubble 1.211, strchr 1.574, tiny1 1.512, big1 2.828 times the time."""
    found = cells(
        made(
            "musl-vs-glibc",
            libc("b_malloc_sparse", 1.3, Verdict.WORSE),
            libc("b_string_strchr", 0.8, Verdict.BETTER),
            libc("b_malloc_bubble", 1.0, Verdict.EQUIVALENT, low=0.999, high=1.001),
            libc("b_malloc_tiny1", 1.3, Verdict.INCONCLUSIVE),
        ),
        "libc-bench 1",
    )
    ratios = {row: each["verdict"] for (row, column), each in found.items() if column == "glibc / musl - 1"}
    assert ratios["b_malloc_sparse"] == "agrees"
    assert ratios["b_string_strchr"] == "differs"
    assert ratios["b_malloc_bubble"] == "one-sided"
    assert ratios["b_malloc_tiny1"] == "undecided"
    assert ratios["b_malloc_big1"] == "not in the records"
    assert found["b_malloc_sparse", "glibc / musl - 1"]["here"] == "-23.1 %"
    assert found["b_malloc_sparse", "glibc"] == {
        **{"row": "b_malloc_sparse", "column": "glibc", "page": "0.133191926", "here": "0.0000001"},
        **{"interval": "", "verdict": "", "reason": ""},
    }
    assert found["b_malloc_big1", "musl"]["here"] == ""


def test_the_answer_counts_the_verdicts() -> None:
    found = made("musl-vs-glibc", libc("b_malloc_sparse", 1.3, Verdict.WORSE))
    assert "Of 158 ratios: 1 agrees, 157 not in the records." in str(found[0].blocks)


def test_values_are_in_the_unit_of_the_page() -> None:
    res = libc(
        "b_malloc_sparse", 0.5, Verdict.BETTER, metric=RES, baseline_values=(2048.0,), candidate_values=(1024.0,)
    )
    found = made("musl-vs-glibc", res, *rows("os", "bw_pipe"), *rows("unix", "shell1 (1 copy)"))
    assert cells(found, "libc-bench 2: resident")["b_malloc_sparse", "glibc"]["here"] == "2"
    shell = cells(found, "UnixBench")["Shell Scripts (1 concurrent)", "glibc"]
    assert (shell["page"], shell["here"]) == ("1516.3 lpm", "600000000")  # 100 ns are 600 million a minute


def rows(suite: str, *works: str, ratio: float = 1.2) -> list[Comparison]:
    return [libc(work, ratio, Verdict.WORSE, suite=suite, preferred=True) for work in works]


def test_a_rate_is_the_inverse_of_a_time_and_an_index_the_mean_of_all_rows() -> None:
    works = [row.workload for row in measured_rows("unixbench")]
    found = cells(made("musl-vs-glibc", *rows("unix", *works, ratio=1.25)), "UnixBench")
    assert found["Pipe Throughput", "musl / glibc"]["here"] == "0.800"
    assert found["index", "musl / glibc"]["here"] == "0.800"
    assert found["index", "musl"]["here"] == ""
    few = cells(made("musl-vs-glibc", *rows("unix", *works[1:])), "UnixBench")
    assert few["index", "musl / glibc"]["verdict"] == "not in the records"


def test_another_program_of_the_same_kind_is_marked() -> None:
    found = made("musl-vs-glibc", *rows("unix", "integer (1 copy)", "pipe (1 copy)"))
    (section,) = (each for each in found if each.title == "UnixBench")
    table = next(each for each in section.blocks if isinstance(each, Table))
    marked = {row[0].text: row[1].effect.endswith("*") for row in table.rows if row[1].effect}
    assert marked == {"Dhrystone 2 using register variables": True, "Pipe Throughput": False}
    assert "another program of the same kind" in str(section.blocks)
    assert {each.place.kin for each in joined() if each.place.suite == "core"} == {"CoreMark"}


def test_a_row_of_several_workloads_has_its_difference() -> None:
    found = cells(
        made(
            "musl-vs-glibc",
            *rows("os", "lat_ctx(2,0)", ratio=3.0),
            libc(
                "lat_ctx(1,0)", 1.0, Verdict.EQUIVALENT, suite="os", baseline_values=(50.0,), candidate_values=(50.0,)
            ),
        ),
        "lmbench 2",
    )
    assert (found["2p/0K ctxsw", "glibc"]["here"], found["2p/0K ctxsw", "musl"]["here"]) == ("0.05", "0.25")


def test_a_ratio_of_the_page_stands_beside_ours_on_every_board() -> None:
    """The generic kernel's longest latency over RT's."""
    longest = comparison(
        "cyclictest", (300.0, 300.0), (100.0, 100.0), suite="latency", metric=MAX, verdict=Verdict.BETTER
    )
    found = cells(made("preempt-rt", longest, factor="kernel"), "Table 7")
    here = {row: (each["page"], each["here"], each["verdict"]) for (row, key), each in found.items() if key == "idle"}
    assert here["Raspberry Pi 4B"] == ("3.6", "3.000", "agrees")
    assert here["Phytium D2000 (8 cores)"] == ("22.7", "3.000", "differs")
    reasons = [each["reason"] for each in found.values() if each["verdict"] == "differs"]
    assert reasons and all(reasons)


def test_a_table_with_a_base_compares_rows() -> None:
    """10000 requests of the page: lwIP 190000 copies, smoltcp 140000; here 20 and 10 a request."""
    sides = {"baseline": "netstack=lwip", "candidate": "netstack=smoltcp"}
    suite, verdict = "netstack-counts", Verdict.BETTER
    each = comparison(
        "counts-client-plain", (20.0, 20.0), (10.0, 10.0), suite=suite, metric=COPIES, verdict=verdict, **sides
    )
    found = cells(made("lwip-vs-smoltcp", each), "Copies")
    lwip = found["lwip", "memcpy calls"]
    assert (lwip["page"], lwip["here"], lwip["verdict"]) == ("about 190000", "200000", "agrees")
    assert (found["smoltcp", "memcpy calls"]["here"], found["smoltcp", "memcpy calls"]["verdict"]) == ("100000", "")
    assert found["lwip", "memcpy bytes"]["verdict"] == "not in the records"


def test_seconds_of_vmstat_are_counted_from_the_first_with_swap_out() -> None:
    """On the page that is second 6 with flash."""
    place = next(each.place for each in joined("swap-seconds") if "50 %" in each.place.workload)
    side = record().analysis
    series = TimeSeries(
        suite="swap",
        workload=place.workload,
        load="idle",
        variant=comparison("x", (1.0,), (1.0,), baseline="swap=flash", candidate="swap=zram:lz4").baseline,
        block=0,
        series=(("so", (0.0, 7.0, 8.0)), ("us", (91.0, 92.0, 93.0))),
    )
    analysed = msgspec.structs.replace(record(), analysis=msgspec.structs.replace(side, time_series=(series,)))
    found = cells(sections("zram-vs-flash", parts("zram-vs-flash", analysed)), "vmstat, flash")
    so = {row: each["here"] for (row, column), each in found.items() if column == "swap out" and each["here"]}
    assert so == {"5": "0", "6": "7", "7": "8"}
    assert found["6", "us"]["here"] == "92"


def test_a_reason_is_printed_once() -> None:
    longest = [
        comparison("cyclictest", (300.0,), (100.0,), suite="latency", metric=MAX, load=load, verdict=Verdict.BETTER)
        for load in ("idle", "cpu", "io")
    ]
    items = [
        item.text
        for section in made("preempt-rt", *longest, factor="kernel")
        for block in section.blocks
        if isinstance(block, BulletList)
        for item in block.items
    ]
    assert len(items) > 3 and len(items) == len(set(items))


def test_a_study_without_a_page_and_records_of_another_have_none() -> None:
    assert sections("", []) == () and sections("netstack-link", []) == ()
    other = sections("musl-vs-glibc", parts("preempt-rt", record(libc("b_malloc_sparse", 1.3, Verdict.WORSE))))
    assert "Of 158 ratios: 158 not in the records." in str(other[0].blocks)


@pytest.mark.parametrize("study", STUDIES)
def test_without_records_every_table_says_so(study: str) -> None:
    found = sections(study, [])
    assert len(found) == 1 + len(page_tables(study))
    texts = ("ot in the records", "have none of these rows", "because", "Not measurable here", "swapstone explain")
    shown = [str((each.blocks, each.data)) for each in found[1:]]
    assert all(any(text in each for text in texts) or "Code" in each or "code" in each for each in shown)


def float_record() -> Analysed:
    """Return a record of the page's program with two numbers of loops."""
    sides = {"baseline": "float=soft", "candidate": "float=hard"}
    names = ("float_loops(100)", "float_loops(200)")
    return record(*(comparison(name, (2.0,), (1.0,), suite="float", preferred=True, **sides) for name in names))


def test_a_picture_of_the_page_has_the_section_of_a_part_or_code() -> None:
    found = {each.title: each for each in sections("float-abi", parts("float-abi", float_record()))}
    assert "Drawing" in {type(each).__name__ for each in found["Time against loops in an emulator"].blocks}
    codes = [found[f"The code of the sum: {each}"].blocks[0] for each in ("soft and softfp", "softfp and hard")]
    soft, softfp, again, hard = (
        [row[at].text for row in code.rows] for code in codes if isinstance(code, Table) for at in (0, 1)
    )
    assert "bl __aeabi_fadd" in soft and "vmov r3, s15" in softfp and softfp == again and "vmov r3, s15" not in hard
    assert "Not in the records." in str(sections("float-abi", []))


def test_a_number_without_a_row_has_a_reason() -> None:
    named = {each.figure for each in joined()}
    without = [each for each in (*data.figures(), *further()) if each not in named]
    assert len(without) == 64 and all(map(absent_reason, without))
    found = cells(made("musl-malloc"), "wrk -c10")
    assert found["duration", "mimalloc / musl"]["verdict"] == "not measurable here"
    assert "wrk's option" in str(found["duration", "mimalloc / musl"]["reason"])
    assert absent_reason(next(iter(named))) == ""


def test_the_coverage_counts_each_number_once_and_another_program_as_kin() -> None:
    rows = {tuple(row[:2]): tuple(row[2:]) for row in COVERAGE.rows()}
    assert sum(int(str(row[0])) for row in rows.values()) == len(data.figures()) + len(further())
    assert all(row[0] == sum(map(int, map(str, row[1:]))) for row in rows.values())
    assert rows["openeuler-musl", "coremark"] == (4, 0, 4, 0)
    assert rows["openeuler-musl", "unixbench"] == (26, 22, 4, 0)
    assert rows["openeuler-preempt-rt", "unixbench"] == (78, 33, 45, 0)
    assert rows["musl-malloc-slow", "http"] == (68, 0, 24, 44)
    assert rows["zram-and-float", "vmstat"] == (418, 418, 0, 0)
