# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print the table of hostile records: `python -m tests.hostile`. The exit status is 1 if a command ended other than it should."""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

from tests.hostile.commands import COMMANDS, Cell, cells, decode, encode, make_records
from tests.hostile.kinds import GROUPS, KINDS
from tests.no_sync import leave_out_fsync


def main() -> int:
    """Run the chosen kinds and commands, and print a line for each kind, each fault, and the totals of the groups."""
    options = _options()
    leave_out_fsync()
    if options.table:
        kept = [cell for path in options.table for cell in decode(path.read_bytes())]
        _print_totals(kept)
        return int(any(cell.faults for cell in kept))
    groups = (GROUPS[name] for name in options.group or GROUPS)
    kinds = [
        kind
        for group in groups
        for kind in [each for each in group if fnmatch.fnmatchcase(each.name, options.kind)][:: options.every]
    ]
    commands = options.command or list(COMMANDS)
    in_turn = options.in_turn or []
    begun = time.monotonic()
    found: list[Cell] = []
    with contextlib.ExitStack() as stack:
        folder = options.records
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hostile-records-")))
            make_records(folder)
        for cell in cells(kinds, commands, folder, in_turn):
            found.append(cell)
            _print_line(found, len(commands) + bool(in_turn), sys.stderr if options.json else sys.stdout)
    if options.json:
        sys.stdout.buffer.write(encode(found))
    else:
        _print_totals(found)
        print(f"\n{time.monotonic() - begun:.0f} s")
    return int(any(cell.faults for cell in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--kind", default="*", metavar="PATTERN", help="only these kinds of records")
    parser.add_argument("--group", action="append", choices=list(GROUPS), help="only this group; repeatable")
    parser.add_argument("--command", action="append", choices=list(COMMANDS), help="only this command; repeatable")
    parser.add_argument(
        "--in-turn", action="append", choices=list(COMMANDS), help="each kind takes the next of these, too; repeatable"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="the first of each N kinds of a group")
    parser.add_argument(
        "--records", type=Path, metavar="FOLDER", help="whole records that are there; they are made otherwise"
    )
    parser.add_argument("--json", action="store_true", help="print every cell with its output as JSON")
    parser.add_argument(
        "--table", type=Path, nargs="+", metavar="FILE", help="print the table of files that --json wrote"
    )
    return parser.parse_args()


def _print_line(found: list[Cell], width: int, file: TextIO) -> None:
    """Print the line of a kind when its last command has ended."""
    if len(found) % width:
        return
    row = found[-width:]
    print(f"{row[0].kind:48} {' '.join(str(cell.status) for cell in row)}", file=file, flush=True)
    for cell in row:
        for fault in cell.faults:
            print(f"    {cell.command}: {fault}", file=file, flush=True)


def _print_totals(found: list[Cell]) -> None:
    print("\n| records with harmed | kinds | commands | status 0 | status 2 | status 4 | faults |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for group, kinds in (*GROUPS.items(), ("all", KINDS)):
        names = {kind.name for kind in kinds}
        members = [cell for cell in found if cell.kind in names]
        statuses = collections.Counter(cell.status for cell in members)
        shown = len({cell.kind for cell in members}), len(members), statuses[0], statuses[2], statuses[4]
        faults = sum(bool(cell.faults) for cell in members)
        if members:
            print(f"| {group} | {' | '.join(map(str, (*shown, faults)))} |")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # finalization would print warnings of DuckDB's bindings about frozen objects
