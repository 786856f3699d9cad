# SPDX-License-Identifier: MIT OR Apache-2.0
"""What commands print as JSON has the published schema; `tests.e2e.cli` compares the output of every other test, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from swapstone.cli.main import cli
from swapstone.core.report.printed_json import VERSIONS
from tests.e2e.cli import TOP, fake, swapstone
from tests.json_schema import check_printed
from tests.shared import Shared

pytestmark = pytest.mark.quick

PRINTED: dict[tuple[str, ...], str] = {
    ("show", "one", "--json"): "analysis",
    ("export", "crossed", "--format", "json"): "analysis",
    ("report", "one", "--format", "document-json"): "document",
    ("report", "crossed", "--format", "document-json"): "document",
    ("query", "SELECT * FROM comparisons, records", "--json"): "query",
    ("agree", "one", "two", "--json"): "side-by-side",
    ("published", "claims", "one", "--json"): "published-claims",
    ("published", "differences", "one", "--json"): "published-differences",
    ("doctor", "--json"): "doctor",
    ("image", "list", "--json"): "images",
    **{("list", what, "--json"): "list" for what in ("factors", "records", "studies", "published")},
    ("published", "list", "--json"): "list",
}


@pytest.fixture(scope="module")
def records(shared: Shared) -> Path:
    def fill(folder: Path) -> None:
        common = ("--target", fake(folder), "--blocks", "6", "--only", "b_malloc*")
        for name in ("one", "two"):
            swapstone(folder, "compare", "libc=glibc,musl", *common, "--out", str(folder / name))
        swapstone(folder, "compare", "libc=glibc,musl", "optimization=O1,O2", *common, "--out", str(folder / "crossed"))

    return shared.folder("printed-json", fill)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", PRINTED, ids=" ".join)
def test_output_has_its_schema(records: Path, arguments: tuple[str, ...]) -> None:
    assert check_printed(swapstone(records, *arguments).stdout) == f"swapstone-{PRINTED[arguments]}"


@pytest.mark.slow
def test_values_that_json_lacks_are_null_or_text(records: Path) -> None:
    sql = "SELECT 'nan'::DOUBLE AS n, [1.5, 'inf'::DOUBLE] AS l, 9223372036854775807::HUGEINT * 4 AS h, DATE '2026-01-01' AS d"
    (row,) = json.loads(swapstone(records, "query", sql, "--json").stdout)["rows"]
    assert row == {"n": None, "l": [1.5, None], "h": 36893488147419103228, "d": "2026-01-01"}


def _with_json(command: click.Command, words: str = "") -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context := click.Context(command)):
            found = command.get_command(context, name)
            assert found is not None
            yield from _with_json(found, f"{words} {name}".strip())
    if any("--json" in parameter.opts for parameter in command.params):
        yield words


def test_the_page_has_every_format_and_every_command() -> None:
    rows = re.findall(
        r"^\| `swapstone-(\S+)` \| (.*) \| \[(.*)\.json\]", (TOP / "docs" / "exports.md").read_text(), re.M
    )
    assert {name for name, _, _ in rows} == {file for _, _, file in rows} == set(VERSIONS)
    printed = [f"{command} --json" for command in _with_json(cli)]
    assert len(printed) > 10
    assert [each for each in printed if not any(f"`{each}`" in commands for _, commands, _ in rows)] == []
