# SPDX-License-Identifier: MIT OR Apache-2.0
"""A hint names a command that exists."""

from __future__ import annotations

import re

import click
import pytest

from swapstone.cli.listing import list_command
from swapstone.model import unknown

KINDS = [
    "factor",
    "level",
    "workload",
    "suite",
    "study",
    "record",
    "published study",
    "published suite",
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
    assert named == [] if kind in {"target", "fault"} else named[0] in choices
