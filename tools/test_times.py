# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print how long the tests of each folder took, of one run or of several side by side.

Usage: tools/test-times REPORT...     (files that `./test --junit-xml REPORT` writes)

Times are durations, summed over the workers: compare those of one run with each other, and those of two runs on an idle machine only.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree


def times(report: Path) -> tuple[Mapping[str, int], Mapping[str, float]]:
    """Return the number of tests that ran, and their durations in seconds, by folder; `all` is the sum.

    Raises:
        OSError: the report can't be read.
        ElementTree.ParseError: it is not XML.
    """
    number: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - a report of this user's own run
        names = case.get("classname", "").split(".")[1:-1] or ["other"]
        for kind in ("/".join(names[:2] if names[0] == "unit" else names[:1]), "all"):
            number[kind] += case.find("skipped") is None
            seconds[kind] += float(case.get("time", "0"))
    return number, seconds


def table(reports: list[Path]) -> str:
    """Return the table as text, a column pair for each report; the slowest folders of the first report come first."""
    columns = [times(report) for report in reports]
    kinds = sorted({kind for _, seconds in columns for kind in seconds}, key=lambda kind: -columns[0][1][kind])
    lines = [f"{'folder':24}" + "  tests  seconds share" * len(columns)]
    for kind in kinds:
        cells = [
            f"{number[kind]:7} {seconds[kind]:8.0f} {seconds[kind] / (seconds['all'] or 1):5.0%}"
            for number, seconds in columns
        ]
        lines.append(f"{kind:24}" + "".join(cells))
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if "--help" in sys.argv else 2)
    print(table([Path(name) for name in sys.argv[1:]]))


if __name__ == "__main__":
    main()
