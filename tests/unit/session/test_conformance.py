# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packetdrill scripts: the shipped ones and their list of failures are whole, the page is current, and the answer is as counted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.net.session import conformance
from swapstone.parts.net.session.conformance import (
    STACKS,
    Conformance,
    ScriptOutcome,
    answer,
    conform,
    decode_script_outcome,
    documented_table,
    known_failures,
    rfc_table,
    shipped_scripts,
    text_of,
)
from tests.json_schema import check_printed

_HEAD = re.compile(r"// RFC (\d+), [0-9.]+: \S")
_RFCS = {"1122", "2018", "4821", "5681", "5961", "6298", "6582", "6675", "6691", "7323", "8200", "9293"}


def _outcome(name: str, stack: str, outcome: str, **more: object) -> ScriptOutcome:
    line = json.dumps({"script": name, "stack": stack, "outcome": outcome, **more})
    return decode_script_outcome(line.encode())


def _found(*outcomes: ScriptOutcome, known: Mapping[str, Mapping[str, str]]) -> Conformance:
    return Conformance(outcomes=outcomes, known=known, names={})


def test_each_script_names_its_rfc_and_section() -> None:
    names = shipped_scripts()
    assert len(names) >= 120
    for path, name in names.items():
        first = Path(path).read_text(encoding="utf-8").partition("\n")[0]
        head = _HEAD.match(first)
        assert head is not None, name
        assert name.startswith(f"rfc{head[1]}/"), name
    assert {name.partition("/")[0].removeprefix("rfc") for name in names.values()} == _RFCS


def test_the_page_has_the_current_table() -> None:
    """`swapstone conform --markdown` prints what the end of docs/netstack-conform.md has to be."""
    page = (share_dir() / "docs" / "netstack-conform.md").read_text(encoding="utf-8")
    assert page.endswith(documented_table())
    counted = {stack: len(shipped_scripts()) - len(reasons) for stack, reasons in known_failures().items()}
    scripts = len(shipped_scripts())
    assert (
        f"lwIP passes {counted['lwip']} of {scripts} scripts, smoltcp passes {counted['smoltcp']} of {scripts}" in page
    )
    assert f"the kernel passes {counted['kernel']} of {scripts}" in page


def test_the_table_counts_by_rfc() -> None:
    table = rfc_table(["rfc9293/b", "rfc9293/a", "rfc826/c"], {"lwip": {"rfc9293/a": "why"}})
    assert table.splitlines() == [
        "| RFC | scripts | lwIP | smoltcp | kernel |",
        "|---|--:|--:|--:|--:|",
        "| 826 | 1 | 1 | 1 | 1 |",
        "| 9293 | 2 | 1 | 2 | 2 |",
        "| all | 3 | 2 | 3 | 3 |",
        "",
        "| script | stack | why it fails |",
        "|---|---|---|",
        "| `rfc9293/a` | lwip | why |",
    ]


def test_the_answer_counts_what_ran() -> None:
    found = _found(
        _outcome("a", "lwip", "passed"),
        _outcome("b", "lwip", "failed"),
        _outcome("c", "lwip", "unsupported"),
        _outcome("a", "kernel", "unavailable"),
        known={},
    )
    assert answer(found) == "lwIP passes 1 of 2 scripts (1 could not run), the kernel ran none."


def test_a_refused_script_is_printed_once_with_its_place() -> None:
    found = _found(
        _outcome("a", "lwip", "bad-script", line=3, column=12, reason="the call sendfile is not supported"),
        _outcome("a", "smoltcp", "bad-script", line=3, column=12, reason="the call sendfile is not supported"),
        _outcome("b", "lwip", "unsupported", line=4, column=2, reason="no such option"),
        _outcome("b", "smoltcp", "passed"),
        known={},
    )
    assert text_of(found) == (
        "lwIP ran none, smoltcp passes 1 of 1 (1 could not run).\n\n"
        "Refused scripts, which no stack ran:\n  a:3:12: the call sendfile is not supported\n\n"
        "Failures that are not known:\n  b:4:2 on lwip: unsupported: no such option\n"
    )


def test_code_that_was_left_out_is_in_the_answer() -> None:
    found = _found(
        _outcome("a", "lwip", "passed", skipped=2, unevaluated=1),
        _outcome("a", "smoltcp", "failed", line=3, reason="no packet came", skipped=2),
        _outcome("b", "lwip", "passed", skipped=0),
        known={},
    )
    assert text_of(found) == (
        "lwIP passes 2 of 2 scripts (1 without the assertions of their code), smoltcp passes 0 of 1. "
        "Shell commands of 1 script were left out.\n\n"
        "Shell commands and pieces of Python code that were left out:\n  a: 2\n\n"
        "Failures that are not known:\n  a:3 on smoltcp: failed: no packet came\n"
    )
    assert check_printed(conformance.to_json(found)) == "swapstone-conformance"
    assert json.loads(conformance.to_json(found))["outcomes"][0]["skipped"] == 2
    with pytest.raises(ValueError, match="skipped"):
        _outcome("a", "lwip", "passed", skipped=-1)


def test_failures_are_compared_with_the_list_in_both_directions() -> None:
    known = {"lwip": {"a": "as it is", "b": "mended"}}
    found = _found(
        _outcome("a", "lwip", "failed", line=3, reason="the flags differ", expected="R 1:1(0)", seen="R. 1:1(0)"),
        _outcome("b", "lwip", "passed"),
        _outcome("a", "smoltcp", "failed", line=4, reason="no packet came"),
        known=known,
    )
    assert [one.stack for one in found.unexpected] == ["smoltcp"]
    assert [one.script for one in found.outdated] == ["b"]
    text = text_of(found)
    assert text.startswith(
        "lwIP passes 1 of 2 scripts, smoltcp passes 0 of 1.\n\nFailures that are not known:\n  a:4 on smoltcp"
    )
    assert "b passes on lwip, but its failure is known: remove it from the list.\n" in text
    assert text.endswith(
        "  a:3 on lwip: failed: the flags differ\n    expected  R 1:1(0)\n    seen      R. 1:1(0)\n    known     as it is\n"
    )


def test_the_known_failures_are_of_stacks_and_shipped_scripts_and_have_reasons() -> None:
    known = known_failures()
    assert set(known) <= set(STACKS)
    assert all(set(reasons) <= set(shipped_scripts().values()) for reasons in known.values())
    assert all(reason.strip() for reasons in known.values() for reason in reasons.values())


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"script":"a"}', b'{"script":"a","stack":"other","outcome":"passed"}', b" " * 70_000]
)
def test_a_line_that_is_no_outcome_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_script_outcome(line)


def test_text_of_a_script_can_not_steer_the_terminal() -> None:
    found = _found(_outcome("\x1b[2J", "lwip", "failed", reason="\x1b[31m"), known={})
    assert "\x1b" not in text_of(found)
    assert "\x1b" not in conformance.to_json(found)


def test_wrong_names_are_refused_before_anything_is_built() -> None:
    with pytest.raises(UserError, match="no script 'rfc1/none'"):
        conform(["rfc1/none"], "lwip", "text")
    with pytest.raises(UserError, match="no stack 'linux'"):
        conform([], "linux", "text")
    with pytest.raises(UserError, match="no stack 'kernel:reno'"):
        conform([], "kernel:reno", "text")
    with pytest.raises(UserError, match="early-finn"):
        conform([], "smoltcp:without-early-finn", "text")


def test_a_stack_without_its_fixes_has_a_title_and_no_known_failures() -> None:
    found = _found(
        _outcome("a", "smoltcp:shipped", "failed", reason="no packet came"),
        _outcome("a", "lwip:without-least-mss", "passed"),
        _outcome("a", "smoltcp", "failed"),
        known={"smoltcp": {"a": "as it is"}},
    )
    assert answer(found) == (
        "lwIP without least-mss passes 1 of 1 script, smoltcp without its fixes passes 0 of 1, smoltcp passes 0 of 1."
    )
    assert [one.stack for one in found.unexpected] == ["smoltcp:shipped"]
    passed = json.loads(conformance.to_json(found))["passed"]
    assert passed == {"lwip": 0, "lwip:without-least-mss": 1, "smoltcp": 0, "smoltcp:shipped": 0, "kernel": 0}


def test_the_answer_groups_the_reasons_of_what_could_not_run_and_of_what_failed() -> None:
    refused = [
        _outcome(f"r{n}", "kernel", "bad-script", reason=f"no constant SO_{'A' if n < 3 else 'B'}") for n in range(5)
    ]
    failed = [_outcome(f"f{n}", "kernel", "failed", reason=f"no packet came until 0.{n} s") for n in range(3)]
    assert answer(_found(*refused, *failed, known={})) == (
        "The kernel passes 0 of 3 scripts (5 could not run). "
        "Could not run: 3 because no constant SO_A; 2 because no constant SO_B. Failed: 3 because no packet came until N s."
    )
