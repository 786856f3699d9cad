# SPDX-License-Identifier: MIT OR Apache-2.0
"""The order of the tests, and which are left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems, pytest_ignore_collect


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


@pytest.mark.parametrize(
    ("name", "text", "left_out"),
    [
        ("unit/test_a.py", "pytestmark = pytest.mark.slow  # boots machines", True),
        ("unit/test_a.py", "import pytest\n\npytestmark = [\n    pytest.mark.slow,\n]", True),
        ("unit/test_a.py", "@pytest.mark.slow\ndef test_one(): ...\ndef test_two(): ...", False),
        ("unit/test_a.py", "pytestmark = pytest.mark.skipif(True, reason='')", False),
        ("e2e/test_a.py", "def test_one(): ...", True),
        ("e2e/test_a.py", "pytestmark = pytest.mark.quick", False),
        ("e2e/cli.py", "", False),
    ],
)
def test_modules_of_slow_tests_alone_are_not_imported_for_the_short_ones(
    tmp_path: Path, name: str, text: str, left_out: bool
) -> None:
    module = tmp_path / name
    module.parent.mkdir()
    module.write_text(text)

    def ignored(selected: str, *arguments: str) -> bool | None:
        config: Any = SimpleNamespace(getoption={"markexpr": selected}.get, args=arguments)
        return pytest_ignore_collect(module, config)

    assert ignored("not slow", "tests") is (left_out or None)
    assert ignored("slow", "tests") is ignored("", "tests") is None
    assert ignored("not slow", f"{module}::test_one") is None, "it is named"
