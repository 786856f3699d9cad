# SPDX-License-Identifier: MIT OR Apache-2.0
"""`compare --fit-memory`: the smallest memory in which a program survives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.model.temporary_folder import is_left_over
from swapstone.core.targets.memory_cgroup import usable_place
from swapstone.core.targets.memory_phases import sampling_trouble
from tests.e2e.cli import swapstone

MIB = 1 << 20

# Touches so many MiB, half of them in a child at the same time.
PROGRAM = r"""
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static int touch(size_t bytes) {
        char *memory = malloc(bytes);
        if (!memory) return 1;
        memset(memory, 1, bytes);
        size_t sum = 0;
        for (size_t at = 0; at < bytes; at += 4096) sum += memory[at];
        return sum != bytes / 4096;
    }
    int main(int argc, char **argv) {
        size_t bytes = (size_t)atoi(argv[argc - 1]) << 19;
        int status = touch(bytes);
        fflush(stdout);
        if (fork() == 0) _exit(touch(bytes));
        int child = 1;
        wait(&child);
        if (child) return 3;
        puts(status ? "failed" : "touched");
        return 0;
    }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-static", "-o", folder / "prog", folder / "p.c"], check=True)
    return folder / "prog"


def test_the_memory_of_a_program_and_its_child_is_found(tmp_path: Path, program: Path) -> None:
    try:
        place = usable_place()
    except UnavailableError as error:
        pytest.skip(error.message)
    before = {path.name for path in place.path.iterdir()}
    command = ["compare", "--vary", "size=24,12", "--fit-memory", "--fit-resolution", "2M", "--out", "fit.json"]
    ended = swapstone(tmp_path, *command, "--", str(program), "{size}")
    found = json.loads((tmp_path / "fit.json").read_text())
    large, small = found["variants"]
    for variant, touched in ((large, 24), (small, 12)):
        assert touched * MIB <= variant["smallest_bytes"] <= (touched + 6) * MIB
        assert 0 < variant["smallest_bytes"] - variant["failed_bytes"] <= 2 * MIB
        assert "OOM kill" in variant["how_failed"]
        assert variant["complete"]
        assert all(size["runs"] == 3 for size in variant["sizes"] if size["survived"])
    text = " ".join(ended.stdout.split())
    assert f"survives in {small['smallest_bytes'] // MIB} MiB" in text
    assert f"needs {large['smallest_bytes'] // MIB} MiB" in text
    assert "each of 3 runs" in text
    assert "left" in ended.stderr
    new = {path.name for path in place.path.iterdir()} - before
    assert not [name for name in new if is_left_over(name) or not name.startswith("swapstone-")]  # others may be in use


MARKS = """
import os, time
def mark(text):
    with open(os.environ["SWAPSTONE_PHASES"], "w") as fifo:
        fifo.write(text + "\\n")
    time.sleep(0.3)
mark("load live=1048576")
block = bytearray({size} << 20)
mark("spike")
del block
mark("quiet live=2097152")
print("done")
"""


@pytest.mark.slow
def test_phases_are_shown_where_the_program_marks_them(tmp_path: Path) -> None:
    try:
        usable_place()
    except UnavailableError as error:
        pytest.skip(error.message)
    if trouble := sampling_trouble():
        pytest.skip(trouble)
    program = MARKS.replace("{", "{{").replace("}", "}}").replace("{{size}}", "{size}")
    command = ["compare", "--vary", "size=48,24", "--fit-memory", "--fit-resolution", "16M", "--out", "fit.json"]
    ended = swapstone(tmp_path, *command, "--", sys.executable, "-c", program)
    large, small = json.loads((tmp_path / "fit.json").read_text())["variants"]
    for variant, size in ((large, 48), (small, 24)):
        *_, load, spike, quiet = variant["phases"]  # the start is left out where it has no sample
        assert [phase["name"] for phase in (load, spike, quiet)] == ["load", "spike", "quiet"]
        assert spike["peak_bytes"] > spike["retained_bytes"] - MIB > size * MIB - MIB
        assert 0 < quiet["retained_bytes"] < size * MIB
        assert (load["live_bytes"], spike["live_bytes"], quiet["live_bytes"]) == (MIB, None, 2 * MIB)
        assert max(size for _, size in variant["series"]["samples"]) >= size * MIB
        assert ", in the phase " in variant["how_failed"]
    assert f"{quiet['retained_bytes'] / (2 * MIB):.2f}" in ended.stdout


def test_a_file_that_can_not_be_written_is_named_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, reason in (("folder", "Is a directory"), ("none/fit.json", "No such file or directory")):
        command = ["compare", "--vary", "n=1,2", "--fit-memory", "--out", name, "--", "/bin/echo", "{n}"]
        ended = swapstone(tmp_path, *command, expect=2)
        assert reason in ended.stderr
        assert "building" not in ended.stderr


def test_what_fails_without_a_limit_has_exit_status_4(tmp_path: Path) -> None:
    try:
        usable_place()
    except UnavailableError as error:
        pytest.skip(error.message)
    ended = swapstone(
        tmp_path, "compare", "--vary", "status=0,3", "--fit-memory", "--", "/bin/sh", "-c", "exit {status}", expect=4
    )
    assert "it ended with status 3" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "n=1,2", "--fit-memory", "--blocks", "4", "--", "/bin/echo", "{n}"], "it takes no --blocks"),
        (["libc=glibc,musl", "--fit-memory"], "--fit-memory needs a program of yours"),
        (["--vary", "n=1,2", "--fit-memory", "--fit-resolution", "1", "--", "/bin/echo", "{n}"], "is no size from 64K"),
        (["--vary", "n=1,2", "--fit-resolution", "1M", "--", "/bin/echo", "{n}"], "is an option of --fit-memory"),
        (["--vary", "n=1,2", "--json", "--", "/bin/echo", "{n}"], "is an option of --fit-memory"),
        (
            ["--vary", "n=1,2", "--fit-memory", "--target", "vm", "--fit-resolution", "100K", "--", "/bin/echo", "{n}"],
            "has whole MiB",
        ),
        (
            [
                "allocator=default,mimalloc",
                "--fit-memory",
                "--server",
                "/bin/echo {port}",
                "--load-generator",
                "swapstone-pace --port {port}",
            ],
            "--fit-memory takes a program that ends",
        ),
    ],
)
def test_what_it_does_not_take_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in " ".join(swapstone(tmp_path, "compare", *arguments, expect=2).stderr.split())


@pytest.mark.slow
@pytest.mark.exhaustive  # each size is a boot; the memory of this host's processes is found above
def test_the_memory_of_a_virtual_machine_is_found(tmp_path: Path, program: Path) -> None:
    command = [
        "compare",
        "--vary",
        "size=150,40",
        "--target",
        "vm",
        "--fit-memory",
        "--fit-resolution",
        "128M",
        "--output",
        "null",
        "--json",
    ]
    found = json.loads(swapstone(tmp_path, *command, "--", str(program), "{size}").stdout)
    large, small = found["variants"]
    assert (large["smallest_bytes"], large["failed_bytes"]) == (256 * MIB, 128 * MIB)
    assert "OOM kill" in large["how_failed"]
    assert (small["smallest_bytes"], small["failed_bytes"]) == (128 * MIB, 0)
    assert {size["runs"] for size in large["sizes"] + small["sizes"]} == {1}
