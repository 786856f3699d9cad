# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several boards in one command line: how they are separated, and what can't be combined with them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swapstone.core.model import UserError
from swapstone.core.session.compare_options import parse_boards, run_options
from swapstone.core.session.progress import NO_PROGRESS


@pytest.mark.parametrize(
    ("text", "boards"),
    [
        ("", ()),
        ("ssh:a", ("ssh:a",)),
        ("ssh:a,ssh:b,ssh:c", ("ssh:a", "ssh:b", "ssh:c")),
        ("ssh:a,folder=/x,governor=performance,ssh:b", ("ssh:a,folder=/x,governor=performance", "ssh:b")),
        ("virtual-board,virtual-board:armhf,ssh:b", ("virtual-board", "virtual-board:armhf", "ssh:b")),
        ("fake:a,b.toml,fake:c.toml", ("fake:a,b.toml", "fake:c.toml")),
        ("ssh:a,sshd", ("ssh:a,sshd",)),
    ],
)
def test_a_comma_before_a_kind_of_target_separates_boards(text: str, boards: tuple[str, ...]) -> None:
    assert parse_boards(text) == boards


def test_a_board_that_is_named_twice_is_refused() -> None:
    with pytest.raises(UserError, match="--target names ssh:a twice"):
        parse_boards("ssh:a,ssh:b,ssh:a")


@pytest.mark.parametrize("more", [{"architecture": "arm64,armhf"}, {"ns_per_instruction": "1,2"}])
def test_boards_are_not_combined_with_several_machines_or_clocks(more: Mapping[str, object]) -> None:
    options = {"target": "ssh:a,ssh:b", "architecture": None, "ns_per_instruction": None, "out": None, **more}
    with pytest.raises(UserError, match="one architecture and one clock"):
        next(run_options(options, None, NO_PROGRESS))
