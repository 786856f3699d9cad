# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every kind of hostile record against the commands that read records: a message and a status; no traceback, no escape, no hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import swapstone
from swapstone.core.model import RecordError
from tests.e2e.cli import swapstone as command_line
from tests.hostile.commands import COMMANDS, Cell, copy_record, decode, make_records
from tests.hostile.forgery import Kind
from tests.hostile.inputs import GROUPS as INPUT_GROUPS
from tests.hostile.inputs import Input
from tests.hostile.kinds import GROUPS, KINDS
from tests.hostile.surroundings import AROUND
from tests.shared import Shared

TOP = Path(__file__).parents[2]
MAIN = ("show", "report --html", "query comparisons", "rerun")
PROCESSES = 2
"""The start of one takes as long as ten commands. So each runs half of the groups."""
OTHERS = tuple(name for name in COMMANDS if name not in {"verify", *MAIN})


def test_there_are_kinds_and_no_name_twice() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) == len(set(names)) >= 40


def test_the_documentation_has_each_group_with_the_number_of_its_kinds() -> None:
    text = (TOP / "docs/testing.md").read_text().partition("\n## Hostile records\n")[2].partition("\n## ")[0]
    tables = re.findall(r"\| kinds \| what is hostile \|\n\|---\|---:\|---\|\n((?:\|.*\|\n)+)", text)
    written = [dict(re.findall(r"^\| (.+?) \| (\d+) \|", table, re.MULTILINE)) for table in tables]
    assert written == [_counted(GROUPS), _counted(INPUT_GROUPS)]


def _counted(groups: Mapping[str, Sequence[Kind | Input]]) -> dict[str, str]:
    """Return how many kinds each group has for every user: root can read files that have no read permission."""
    counts = {name: sum(not kind.name.endswith("is not readable") for kind in kinds) for name, kinds in groups.items()}
    return {name: str(count) for name, count in {**counts, "all": sum(counts.values())}.items()}


@pytest.mark.slow
@pytest.mark.parametrize("groups", [list(GROUPS)[first::PROCESSES] for first in range(PROCESSES)], ids=", ".join)
def test_each_kind_ends_with_a_message_and_is_named(
    groups: list[str], records: Path, tmp_path: Path, exhaustive: bool
) -> None:
    """Each 48th kind with `verify` and one of the main commands; with --exhaustive each kind with all of them."""
    every, always, in_turn = (1, ("verify", *MAIN), ()) if exhaustive else (48, ("verify",), MAIN)
    found = _table(groups, always, records, tmp_path, every=every, in_turn=in_turn)
    assert not _faulty(found)
    for kind in (kind for group in groups for kind in GROUPS[group][::every]):
        (cell,) = (cell for cell in found if (cell.kind, cell.command) == (kind.name, "verify"))
        assert re.search(kind.named, cell.text), f"{kind.name}: nothing of {kind.named!r} in\n{cell.text[:2000]}"


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("group", list(GROUPS))
def test_each_other_command_ends_with_a_message(group: str, records: Path, tmp_path: Path) -> None:
    assert not _faulty(_table([group], OTHERS, records, tmp_path))


def _table(
    groups: Sequence[str],
    commands: Sequence[str],
    records: Path,
    folder: Path,
    *,
    every: int = 1,
    in_turn: Sequence[str] = (),
) -> list[Cell]:
    """Run the table in a process of its own, which forks for each cell: forks of a test's worker would lack its other threads."""
    words = [word for group in groups for word in ("--group", group)]
    words += [word for command in commands for word in ("--command", command)]
    words += [word for command in in_turn for word in ("--in-turn", command)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWAPSTONE_")}
    environment = {**kept, "PYTHONPATH": f"{TOP / 'src'}:{TOP}", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(folder)}
    result = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "tests.hostile", "--json", "--records", str(records)),
            *("--every", str(every), *words),
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert result.returncode in {0, 1}, result.stderr.decode(errors="replace")
    found = decode(result.stdout)
    kinds = sum(len(GROUPS[group][::every]) for group in groups)
    assert len(found) == kinds * (len(commands) + bool(in_turn))
    return found


def _faulty(found: Sequence[Cell]) -> list[str]:
    return [
        f"{cell.kind}, {cell.command}: {', '.join(cell.faults)}\n{cell.text[-600:]}" for cell in found if cell.faults
    ]


@pytest.fixture
def records(shared: Shared) -> Path:
    """The folder of the records ``whole`` and ``other``."""
    return shared.folder("hostile-records", make_records)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["runs.jsonl is a FIFO", "a run of an unknown workload", "10^8 combinations of levels"]
)
def test_the_installed_command_and_the_python_api_end_alike(records: Path, name: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    copy_record(records / "whole", record)
    kind = next(kind for kind in KINDS if kind.name == name)
    kind.harm(record)
    result = command_line(tmp_path, "verify", "record", expect=2)
    assert re.search(kind.named, result.stdout + result.stderr)
    try:
        problems = "\n".join(swapstone.load(record).verify().problems)
    except RecordError as error:
        problems = str(error)
    assert re.search(kind.named, problems)


@pytest.mark.slow
def test_all_hostile_records_together_take_nothing_from_a_whole_one(
    records: Path, tmp_path: Path, exhaustive: bool
) -> None:
    """Each query reads every record of the folder: those of each twelfth kind, or of all kinds."""
    kinds = [kind for name, group in GROUPS.items() if name not in AROUND for kind in group]
    kinds = kinds[:: 1 if exhaustive else 12]
    copy_record(records / "other", tmp_path / "other")
    for number, kind in enumerate(kinds):
        copy_record(records / "whole", tmp_path / "all" / f"r{number}")
        kind.harm(tmp_path / "all" / f"r{number}")
    cache = str(tmp_path / "cache")
    for table in ("comparisons", "runs", "samples"):
        query = f"SELECT record, count(*) FROM {table} GROUP BY ALL ORDER BY ALL"
        lines = command_line(tmp_path, "query", query, "--csv", XDG_CACHE_HOME=cache).stdout.splitlines()
        counts = dict(line.rsplit(",", 1) for line in lines)
        assert int(counts["other"]) > 20
    started = command_line(
        tmp_path, "query", "SELECT count(started) FROM runs", "--csv", XDG_CACHE_HOME=str(tmp_path / "none")
    ).stdout
    assert int(started.splitlines()[-1]) > 20
    listed = command_line(tmp_path, "list", "records").stdout
    assert all(f"all/r{number} " in listed for number, kind in enumerate(kinds) if kind.name != "record.json is absent")
