# SPDX-License-Identifier: MIT OR Apache-2.0
"""A hint names a command that exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from swapstone.cli.listing import list_command
from swapstone.cli.query import query_command
from swapstone.core.model import UserError, unknown
from swapstone.core.targets import find_target_kind
from tests.e2e.cli import fake, swapstone

KINDS = [
    "factor",
    "level",
    "workload",
    "suite",
    "study",
    "record",
    "published study",
    "target",
    "fault",
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_that_a_hint_names_is_one_that_can_be_shown(kind: str) -> None:
    hint = unknown(kind, "x", ["abc", "abd"]).hint
    (what,) = [parameter for parameter in list_command.params if parameter.name == "what"]
    assert isinstance(what.type, click.Choice)
    choices = what.type.choices
    named = re.findall("swapstone list ([a-z]+)", hint)
    assert "abc, abd" in hint
    assert named == [] if kind == "fault" else named[0] in choices


def test_a_similar_name_comes_first_and_a_long_list_is_shortened() -> None:
    known = [f"b_{number:02}" for number in range(20)]
    hint = unknown("workload", "b_1", known).hint
    assert hint.startswith("Did you mean 'b_1")
    assert "? Known: b_00, b_01, b_02," in hint
    assert "b_11 and 8 more. `swapstone list workloads` lists all." in hint
    assert unknown("load", "x", known[:13]).hint.startswith(f"Known: {', '.join(known[:13])}. ")


def test_an_unknown_target_lists_every_form_of_every_target_and_what_it_is_for() -> None:
    with pytest.raises(UserError) as caught:
        find_target_kind("docker")
    lines = caught.value.hint.splitlines()
    assert lines[0] == "Known:"
    starts = [line.strip().partition("  ")[0] for line in lines[1:]]
    assert starts == [
        "host",
        "host:driver=ssh:USER@HOST",
        "fake:SPEC.toml",
        "vm",
        "vm:generic or vm:rt",
        "vm:./bzImage",
        "qemu-arm",
        "ssh:USER@HOST",
        "ssh:HOST,folder=/PATH",
        "ssh:HOST,governor=performance",
        "virtual-board",
        "virtual-board:armhf",
        "labgrid:PLACE",
        "bare-riscv64",
    ]
    assert all(len(line.strip().partition("  ")[2].strip()) > 10 for line in lines[1:])
    with pytest.raises(UserError) as caught:
        find_target_kind("hots")
    assert caught.value.hint.startswith("Did you mean 'host'? Known:\n")


@pytest.mark.slow
def test_the_examples_of_query_run_and_keep_records_apart(tmp_path: Path) -> None:
    """Two records with other candidates: each row of a result names its record, and no row mixes two."""
    for level in ("musl", "musl-static"):
        swapstone(
            *(tmp_path, "compare", f"libc=glibc,{level}" if level == "musl" else "linking=dynamic,static"),
            *("--only", "b_malloc_tiny1", "--blocks", "2", "--target", fake(tmp_path)),
        )
    examples = re.findall(r'swapstone query "(SELECT.*)"', query_command.help or "")
    assert len(examples) == 3
    for sql in examples:
        assert sql.startswith("SELECT record, ")
        rows = json.loads(swapstone(tmp_path, "query", "--json", sql).stdout)["rows"]
        assert len({row["record"] for row in rows}) == 2
        assert len({(row["record"], row.get("candidate") or row["variant"]) for row in rows}) == len(rows)
