# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goodput and costs of network stacks: a reader of callgrind, classes of functions, and tables."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.netstack_costs import OTHER, TABLE, Classes, Cost, fix_tables, read_callgrind, split, tables, variants
from benchmarks.netstack_link import CONDITIONS, TITLES, cell
from benchmarks.netstack_link import tables as goodput_tables

from swapstone.parts.explain.instruments.instructions import total

CALLGRIND = """# callgrind format
positions: line
events: Ir
summary: 161

ob=(1) /bin/program
fl=(1) src/main.rs
fn=(1) main
10 5
+1 6
cfi=(2) src/work.rs
cfn=(2) work'main
calls=3 20
* 150
fi=(2)
-3 7
fe=(1)
12 1

fl=(2)
fn=(2)
20 100
* 2
cfi=(3) string.c
cfn=(3) memcpy'work'main
calls=1 1
+2 40

fl=(3)
fn=(3)
1 40

fn=(4) again'2'work'main
0x5 8

totals: 169
"""


def classes() -> Classes:
    return Classes(TABLE.read_text())


def test_callgrind_costs_are_read_with_callers_and_files() -> None:
    assert list(read_callgrind(CALLGRIND.splitlines())) == [
        Cost(("main",), "src/main.rs", 5),
        Cost(("main",), "src/main.rs", 6),
        Cost(("main",), "src/work.rs", 7),
        Cost(("main",), "src/main.rs", 1),
        Cost(("main", "work"), "src/work.rs", 100),
        Cost(("main", "work"), "src/work.rs", 2),
        Cost(("main", "work", "memcpy"), "string.c", 40),
        Cost(("main", "work", "again"), "string.c", 8),
    ]
    assert total(CALLGRIND) == 169
    assert sum(cost.weight for cost in read_callgrind(CALLGRIND.splitlines())) == 169


def test_a_truncated_callgrind_file_has_no_total() -> None:
    assert total(CALLGRIND[:200]) is None


@pytest.mark.parametrize(
    ("function", "file", "expected"),
    [
        ("lwip_standard_chksum", "lwip-2.2.1/src/core/inet_chksum.c", "checksum"),
        ("swapstone_net_smoltcp::wire::Transport::fill_checksum", "", "checksum"),
        ("swapstone_net_smoltcp::wire::Payload::checksum_is_valid", "", "checksum"),
        ("__memcpy_avx_unaligned_erms", "", "copy"),
        ("_int_malloc", "./malloc/./malloc/malloc.c", "allocator"),
        ("lw_rust_malloc", "", "allocator"),
        ("tcp_input", "out/83/lwip-2.2.1/src/core/tcp_in.c", "stack"),
        ("tcp_receive", "", "stack"),
        ("smoltcp::socket::tcp::Socket::dispatch", "", "stack"),
        (
            "<swapstone_net_lwip::Lwip<D> as swapstone_net::stack::Stack>::poll",
            "crates/swapstone-net-lwip/src/lib.rs",
            "sockets",
        ),
        ("lw_tcp_input", "swapstone-net-lwip-sys/c/index.c", "sockets"),
        ("<swapstone_net_link::link::Port as swapstone_net::device::Device>::transmit", "", "link or driver"),
        ("swapstone_net_virtual::program::Side<S,P>::act", "swapstone-net-virtual/src/program.rs", "application"),
        ("something_else", "elsewhere.c", OTHER),
    ],
)
def test_each_function_has_its_class(function: str, file: str, expected: str) -> None:
    assert classes().of(Cost((function,), file, 1)) == expected


def test_a_function_without_a_rule_has_the_class_of_its_caller() -> None:
    inner = Cost(("lw_tcp_input", "core::slice::sort"), "library/core/src/slice/mod.rs", 1)
    assert classes().of(inner) == "sockets"


def test_a_copy_in_the_device_belongs_to_the_device() -> None:
    assert classes().of(Cost(("swapstone_net_link::link::Port::send", "__memcpy_avx"), "", 1)) == "link or driver"
    assert classes().of(Cost(("smoltcp::storage::RingBuffer", "__memcpy_avx"), "", 1)) == "copy"


def test_a_split_keeps_the_total() -> None:
    costs = [Cost(("memcpy",), "", 3), Cost(("tcp_input",), "lwip-2.2.1/src/core/tcp_in.c", 4), Cost(("x",), "", 5)]
    found = split(costs, classes())
    assert {name: weight for name, weight in found.items() if weight} == {"copy": 3, "stack": 4, OTHER: 5}


def test_tables_of_costs_have_costs_per_unit() -> None:
    names = ["copy", "stack", "unused"]
    one = {"work": "bulk out", "stack": "lwip", "unit": "byte", "units": 100, "instructions": 450}
    text = tables([{**one, "split": {"copy": 200, "stack": 250, "unused": 0}}], names)
    assert text.splitlines()[-1].split() == ["|", "lwip", "|", "450", "|", "4.5", "|", "2", "|", "2.5", "|"]
    assert "unused" not in text


def ran(rate: float, again: int, **more: Any) -> dict[str, Any]:
    common = {"sender": "lwip", "receiver": "smoltcp", "series": "loss", "label": "1 %", "error": None, "whole": True}
    return {**common, "goodput_mbit": rate, "stack": {"retransmitted": again}, **more}


def test_a_cell_has_the_median_the_range_and_the_failures() -> None:
    assert cell([ran(5.0, 7), ran(5.0, 7)]) == ("5", "7")
    runs = [ran(4.0, 1), ran(5.0, 2), ran(9.0, 3), ran(0.0, 0, whole=False), ran(0.0, 0, error="reset")]
    assert cell(runs) == ("5 (4 to 9), 2 did not end", "2 (1 to 3)")
    assert cell(runs[3:]) == ("none ended", "-")


def test_tables_of_goodput_have_a_row_for_each_pair() -> None:
    text = goodput_tables([ran(5.0, 7), ran(6.0, 8, sender="smoltcp")])
    assert "| lwip to smoltcp    |   5 |" in text
    assert "| smoltcp to smoltcp |   6 |" in text
    assert {condition.series for condition in CONDITIONS} == set(TITLES)


def test_what_a_fix_adds_is_the_difference_to_a_run_without_it() -> None:
    def one(work: str, unit: str, units: int, stack: str, instructions: int) -> dict[str, Any]:
        return {"work": work, "unit": unit, "units": units, "stack": stack, "instructions": instructions}

    found = [
        one("bulk out", "byte", 2000, "lwip", 9000),
        one("bulk out", "byte", 2000, "lwip:shipped", 8000),
        one("bulk out", "byte", 2000, "lwip:without-least-mss", 9100),
        one("small requests", "request", 10, "lwip", 5000),
        one("small requests", "request", 10, "lwip:shipped", 5000),
        one("small requests", "request", 10, "lwip:without-least-mss", 4500),
    ]
    text = fix_tables(found)
    assert text.startswith("Instructions that the fixes of lwip add, of 4500 for bulk out, 500 for small requests")
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines()[2:]
    }
    assert rows["fix"] == ["bulk out, 1000 bytes", "small requests, a request"]
    assert rows["all together"] == ["+500.0 (+11.11%)", "0"]
    assert rows["`least-mss`"] == ["-50.0 (-1.11%)", "+50.0 (+10.00%)"]


def test_each_fix_is_counted_alone() -> None:
    names = variants()
    assert names[:2] == ["lwip", "lwip:shipped"]
    assert "smoltcp:without-early-fin" in names and "lwip:without-simultaneous-open" in names
    assert len(names) == len(set(names)) == 4 + 14 + 16
