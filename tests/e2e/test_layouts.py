# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--layouts`: links take turns, the record has all of them, and the report prints their spread."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli import fake, runs_of, swapstone


@pytest.mark.slow
def test_every_layout_is_recorded_and_reported(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--layouts", "3", "--blocks", "6", "--null", "--seed", "5")
    shown = swapstone(tmp_path, "compare", *asked, "--out", str(record))
    artifacts = [
        each
        for each in json.loads((record / "manifest.json").read_text())["artifacts"]
        if each["workload"] == "b_string_strlen"
    ]
    links = {(each["variant"], each["layout"]): each["sha256"] for each in artifacts}
    assert len(links) == 4 * 4  # the default layout and three more, of baseline, two copies and candidate
    for variant in ("libc=glibc", "libc=musl"):
        assert len({links[variant, number] for number in range(4)}) == 4
    assert [links["libc=glibc (again)", n] for n in (1, 2, 3)] == [links["libc=glibc", n] for n in (1, 2, 3)]
    relinked = {links["libc=glibc (relinked)", number] for number in (1, 2, 3)}
    assert not relinked & {links["libc=glibc", number] for number in (1, 2, 3)}
    assert {run["status"] for run in runs_of(record)} == {"ok"}
    assert "Each variant was linked 3 times" in shown.stdout
    assert "two links of the same code, glibc, in" in swapstone(tmp_path, "show", str(record), "--all").stdout
    for format_ in ("--markdown", "--html"):
        out = tmp_path / f"report{format_}"
        swapstone(tmp_path, "report", str(record), format_, "--out", str(out))
        assert "Each variant was linked 3 times" in out.read_text()
    swapstone(tmp_path, "verify", str(record))


def test_layouts_are_refused_on_the_fake_target(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "libc=glibc,musl", "--layouts", "3", "--target", fake(tmp_path), expect=2)
    assert "--layouts has nothing to link" in result.stderr
    assert not list(tmp_path.glob("*/record.json"))


SUM = "__attribute__((noinline)) long sum_{0}(long x) {{ return x * {0} + 1; }}\n"
MAIN = """
#include <stdio.h>
{declared}
int main(void) {{ long x = 1; for (int i = 0; i < 100000; i++) x = ({called}) % 1000003; printf("%ld\\n", x); return 0; }}
"""
SEPARATE = """
prog: one.o two.o main.o
\t$(CC) -o $@ one.o two.o main.o $(LDFLAGS)
%.o: %.c
\t$(CC) $(CFLAGS) -c $<
"""
AT_ONCE = """
prog: one.c two.c main.c
\t$(CC) $(CFLAGS) -o $@ one.c two.c main.c $(LDFLAGS)
"""
BUILD = "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}"


def _sources(folder: Path, makefile: str) -> Path:
    folder.mkdir()
    (folder / "one.c").write_text("".join(SUM.format(n) for n in range(2, 8)))
    (folder / "two.c").write_text("".join(SUM.format(n) for n in range(8, 14)))
    declared = "".join(f"long sum_{n}(long);\n" for n in range(2, 14))
    called = "".join(f"sum_{n}(" for n in range(2, 14)) + "x" + ")" * 12
    (folder / "main.c").write_text(MAIN.format(declared=declared, called=called))
    (folder / "Makefile").write_text(makefile)
    return folder


@pytest.mark.slow
def test_layouts_relink_an_own_program_through_its_build(tmp_path: Path) -> None:
    source = _sources(tmp_path / "src", SEPARATE)
    record = tmp_path / "r"
    asked = ("optimization=O1,O2", "--build", BUILD, "--source", str(source), "--layouts", "3", "--blocks", "3")
    shown = swapstone(tmp_path, "compare", *asked, "--out", str(record), "--", "./prog")
    assert {run["status"] for run in runs_of(record)} == {"ok"}
    artifacts = json.loads((record / "manifest.json").read_text())["artifacts"]
    assert sorted((each["variant"], each["layout"]) for each in artifacts) == [
        (variant, number) for variant in ("optimization=O1", "optimization=O2") for number in range(4)
    ]
    assert len({each["sha256"] for each in artifacts}) == 8
    orders = []
    for each in artifacts:
        listed = subprocess.run(["nm", "-n", each["path"]], check=True, capture_output=True, text=True).stdout
        orders.append(tuple(line.split()[-1] for line in listed.splitlines() if " sum_" in line))
        assert len(orders[-1]) == 12
    assert orders[0] == tuple(f"sum_{n}" for n in range(2, 14))  # the order of the build
    shuffled = orders[1:4]
    assert len({*shuffled, orders[0]}) == 4
    # Functions of both objects are mixed.
    assert any({int(name[4:]) < 8 for name in order[:6]} == {True, False} for order in shuffled)
    assert "Each variant was linked 3 times" in shown.stdout


def test_layouts_refuse_a_build_without_object_files(tmp_path: Path) -> None:
    source = _sources(tmp_path / "src", AT_ONCE)
    asked = ("libc=glibc,musl", "--build", BUILD, "--source", str(source), "--layouts", "3", "--blocks", "3")
    result = swapstone(tmp_path, "compare", *asked, "--", "./prog", expect=4)
    assert "the order of functions is shuffled in the objects that {cc} compiles with -c" in result.stderr


def test_layouts_refuse_a_prebuilt_program(tmp_path: Path) -> None:
    programs = ("--program", "a=/bin/true", "--program", "b=/bin/false")
    result = swapstone(tmp_path, "compare", *programs, "--layouts", "3", "--", "x", expect=2)
    assert "--layouts links a program anew, and yours is not built here" in result.stderr
