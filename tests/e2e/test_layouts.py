"""`--layouts`: links take turns, all are in the record, and the report says how far they differ."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cli import fake, runs_of, swapstone


def test_every_link_is_in_the_record_and_takes_its_turn(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--layouts", "3", "--blocks", "6", "--null", "--seed", "5")
    shown = swapstone(tmp_path, "compare", *asked, "--out", str(record))
    artifacts = [
        each
        for each in json.loads((record / "manifest.json").read_text())["artifacts"]
        if each["workload"] == "b_string_strlen"
    ]
    links = {(each["variant"], each["layout"]): each["sha256"] for each in artifacts}
    assert len(links) == 4 * 4  # as it comes, and three layouts, of baseline, two copies, and candidate
    for variant in ("libc=glibc", "libc=musl"):
        assert len({links[variant, number] for number in range(4)}) == 4
    assert [links["libc=glibc (again)", n] for n in (1, 2, 3)] == [links["libc=glibc", n] for n in (1, 2, 3)]
    relinked = {links["libc=glibc (relinked)", number] for number in (1, 2, 3)}
    assert not relinked & {links["libc=glibc", number] for number in (1, 2, 3)}
    assert {run["status"] for run in runs_of(record)} == {"ok"}
    assert "3 links of each variant took turns" in shown.stdout
    assert "the slowest of 3 links takes" in shown.stdout
    for format_ in ("--markdown", "--html"):
        out = tmp_path / f"report{format_}"
        swapstone(tmp_path, "report", str(record), format_, "--out", str(out))
        assert "3 links of each variant took turns" in out.read_text()
    swapstone(tmp_path, "verify", str(record))


def test_a_target_without_programs_has_nothing_to_link(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "libc=glibc,musl", "--layouts", "3", "--target", fake(tmp_path), expect=2)
    assert "--layouts has nothing to link" in result.stderr
    assert not list(tmp_path.glob("*/record.json"))
