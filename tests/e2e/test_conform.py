# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone conform`: every shipped script passes, or fails as it is known to; nothing of a script is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.artifacts.distribution_packages import is_installed
from swapstone.core.model import UserError
from swapstone.parts.net.artifacts.crates import missing_crate_requirement
from swapstone.parts.net.session.conformance import conform


@pytest.fixture(scope="module", autouse=True)
def rust() -> None:
    if not all(map(is_installed, ("cargo", "rustc"))):
        pytest.skip("unavailable: cargo or rustc is missing or too old")


@pytest.mark.slow
def test_the_scripts_pass_or_fail_as_known() -> None:
    """Status 2 means that a script outside the list failed, or one in it passed. Both stacks are exact: no load matters."""
    text, status = conform([], "lwip,smoltcp", "text")
    assert status == 0, text


@pytest.mark.slow
def test_a_stack_without_its_fixes_fails_where_the_fix_is_needed() -> None:
    script = "rfc5681/gap-filled"
    text, status = conform([script], "lwip,lwip:shipped,lwip:without-ack-filled-gap", "text")
    assert status == 2
    assert text.startswith(
        "lwIP passes 1 of 1 script, lwIP without its fixes passes 0 of 1, lwIP without ack-filled-gap passes 0 of 1.\n"
    )


@pytest.mark.slow
def test_the_kernel_runs_a_script_over_a_tap() -> None:
    if missing := missing_crate_requirement():
        pytest.skip(f"unavailable: {missing[0]}")
    text, status = conform(["rfc9293/closed-syn", "rfc9293/listen-syn"], "kernel", "text")
    assert (status, text) == (0, "The kernel passes 2 of 2 scripts.\n")


@pytest.mark.slow
def test_a_shell_command_is_refused_with_its_line(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    script = tmp_path / "shell.pkt"
    script.write_text(f"0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 `touch {touched}`\n")
    with pytest.raises(UserError, match=r"shell\.pkt:2:4: a shell command is not run"):
        conform([str(script)], "lwip", "text")
    text, status = conform([str(script)], "lwip", "text", skip_code=True)
    assert (status, text.partition("\n")[0]) == (
        0,
        "lwIP passes 1 of 1 script. Shell commands of 1 script were left out.",
    )
    assert not touched.exists()


@pytest.mark.slow
def test_a_refused_script_does_not_keep_others_from_running(tmp_path: Path) -> None:
    start = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"
    (tmp_path / "good.pkt").write_text(f"{start}+0 bind(3, ..., ...) = 0\n")
    (tmp_path / "code.pkt").write_text(f"{start}+0 %{{ assert False }}%\n")
    text, status = conform([str(tmp_path)], "lwip,smoltcp", "text")
    assert status == 2
    assert text == (
        "lwIP passes 1 of 1 script (1 could not run), smoltcp passes 1 of 1 (1 could not run).\n\n"
        "Refused scripts, which no stack ran:\n"
        f"  {tmp_path}/code.pkt:2:4: Python code (%{{ }}%) is not run: scripts are untrusted input; --skip-code runs the rest\n"
    )


@pytest.mark.slow
def test_an_own_script_that_fails_shows_both_packets(tmp_path: Path) -> None:
    script = tmp_path / "own.pkt"
    script.write_text("0 < S 0:0(0) win 1000\n+0 > S. 0:0(0) ack 1 <...>\n")
    text, status = conform([str(script)], "smoltcp", "text")
    assert status == 2
    assert text.startswith("smoltcp passes 0 of 1 script.\n")
    assert "    expected  S. 0:0(0) ack 1 <...>\n    seen      R. 0:0(0) ack 1 win 0" in text
