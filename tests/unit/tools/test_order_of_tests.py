# SPDX-License-Identifier: MIT OR Apache-2.0
"""The order of the tests, and which are left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems


def _item(name: str, folder: str, *markers: str) -> Any:
    known = set(markers)
    return SimpleNamespace(
        name=name,
        path=Path("tests", folder, "test_x.py"),
        get_closest_marker=lambda marker: marker in known,
        add_marker=known.add,
    )


@pytest.mark.parametrize(
    ("exhaustive", "left"),
    [(False, ["build", "lint", "boot", "add"]), (True, ["build", "lint", "boot", "soak", "add"])],
)
def test_long_builds_are_first_and_short_tests_last(exhaustive: bool, left: list[str]) -> None:
    items = [
        _item("add", "unit"),
        _item("boot", "e2e", "slow"),
        _item("soak", "e2e", "slow", "exhaustive"),
        _item("lint", "style"),
        _item("build", "e2e", "slow", "first"),
    ]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(getoption=lambda name: exhaustive, hook=hook)
    pytest_collection_modifyitems(config, items)
    assert [item.name for item in items] == left


def test_what_starts_the_command_line_is_slow_unless_its_module_is_quick() -> None:
    items = [_item("plain", "unit"), _item("walk", "e2e", "quick"), _item("command", "e2e")]
    config: Any = SimpleNamespace(getoption=lambda name: True)
    pytest_collection_modifyitems(config, items)
    assert [(item.name, item.get_closest_marker("slow")) for item in items] == [
        ("command", True),
        ("plain", False),
        ("walk", False),
    ]
