# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of test times by folder."""

from __future__ import annotations

from pathlib import Path

from tools.test_times import table

CASES = """
<testcase classname="tests.e2e.test_a" name="one" time="6.0" />
<testcase classname="tests.unit.stats.test_b.TestC" name="two" time="1.5" />
<testcase classname="tests.unit.stats.test_b" name="three" time="0.5"><skipped /></testcase>
"""


def test_times_are_summed_by_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    first.write_text(f"<testsuites><testsuite>{CASES}</testsuite></testsuites>")
    second.write_text("<testsuites />")
    assert table([first, second]).splitlines() == [
        "folder                    tests  seconds share  tests  seconds share",
        "all                           2        8  100%      0        0    0%",
        "e2e                           1        6   75%      0        0    0%",
        "unit/stats                    1        2   25%      0        0    0%",
    ]
