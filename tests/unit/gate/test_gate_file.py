# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.targets.agent_build import agent_sources
from swapstone.parts.gate.gate_file import UNITS, data_paths, decode_gate, parse_limit

WHOLE = """\
build = "./configure && make -s -j{jobs}"
programs = ["minigzip64"]
paths = ["*.c", "*.h", "*.in", "configure"]
data = "bench"
fail = { instructions = "1%", syscalls = "0", size = "2KiB" }

[run.deflate]
command = "./minigzip64 -6 -c {data}/text"

[run.inflate]
command = "./minigzip64 -d -c {data}/text.gz"
fail = { instructions = "0.3%|5000000" }
timeout = "10s"

[[accept]]
run = "deflate"
metric = "instructions"
size = "3%"
reason = "checks its input"
"""


def test_a_whole_file() -> None:
    file = decode_gate(WHOLE.encode())
    assert set(file.run) == {"deflate", "inflate"}
    assert {name: limit.text for name, limit in file.limits("inflate").items()} == {
        "instructions": "0.3%|5000000",
        "syscalls": "0",
        "size": "2KiB",
    }
    assert file.limits("deflate") == file.limits("minigzip64")
    assert data_paths(file.run["deflate"]) == ("/text",)
    assert file.accept[0].reason == "checks its input"
    assert file.machine() == {}


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('data = "bench"', 'dota = "bench"', 4, "unknown field `dota`"),
        ('syscalls = "0"', 'syscalls = "x"', 5, "'x' is no limit of syscalls"),
        ('size = "2KiB"', 'sise = "2KiB"', 5, "there is no metric 'sise'"),
        ('"0.3%|5000000"', '"1%|2%"', 12, "two terms of one kind"),
        ('"0.3%|5000000"', '"2KiB"', 12, "'2KiB' is no limit of instructions"),
        ('command = "./minigzip64 -d', 'comand = "./minigzip64 -d', 11, "unknown field `comand`"),
        ("[run.inflate]", "[run.Inflate]", 10, "no name of a run"),
        ('"checks its input"', '" "', 19, "has no reason"),
        ('data = "bench"\n', "", 7, "{data} needs the key data"),
        ("{jobs}", "{cc}", 1, "its only placeholders are {jobs} and {flags}"),
        ("{data}/text.gz", "{data}/{other}", 11, "its only placeholder is {data}"),
        ('"10s"', '"10 s x"', 13, "is not a duration"),
        ('build = "', 'clock = "sun"\nbuild = "', 1, "'sun' is none of wall, virtual"),
        ('build = "', 'clock = "wall"\nbuild = "', 6, "instructions is not measured on this clock: time, size are"),
        ('syscalls = "0"', 'time = "5%"', 5, "time is not measured on this clock: instructions, own_code,"),
        ('syscalls = "0"', 'time = "5"', 5, "'5' is no limit of time, which is a share"),
        ('timeout = "10s"', "hold = 3", 13, "hold"),
        ('programs = ["minigzip64"]', 'programs = ["../minigzip64"]', 2, "no path below"),
        ("./minigzip64 -6", "./other -6", 8, "./other is not among the programs"),
        ("./minigzip64 -6", "./minigzip64 '", 8, "its quotes do not match"),
        ('size = "3%"', 'size = "3"\nsum = 1', 19, "field `sum`"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(old: str, new: str, line: int, text: str) -> None:
    assert old in WHOLE
    with pytest.raises(UserError) as caught:
        decode_gate(WHOLE.replace(old, new).encode())
    assert text in caught.value.message
    assert caught.value.message.startswith(f"swapstone.toml, line {line}: ")
    assert "swapstone docs gate" in caught.value.hint


@pytest.mark.parametrize("missing", ["build", "programs", "fail"])
def test_a_key_that_is_needed(missing: str) -> None:
    without = "\n".join(line for line in WHOLE.splitlines() if not line.startswith(missing))
    with pytest.raises(UserError, match=missing):
        decode_gate(without.encode())
    with pytest.raises(UserError, match="run: it is empty"):
        decode_gate((WHOLE.partition("[run")[0] + "[run]\n").encode())


def test_no_toml() -> None:
    with pytest.raises(UserError, match=r"swapstone.toml is not TOML: .*line 1"):
        decode_gate(b"[run.a\n")


def test_limits() -> None:
    assert parse_limit("instructions", "1%").of(500.0) == 5.0
    assert parse_limit("instructions", "1%|3").of(500.0) == 3.0
    assert parse_limit("instructions", "1%|30").of(500.0) == 5.0
    assert parse_limit("size", "2KiB").of(1.0) == 2048.0
    assert parse_limit("syscalls", "0").of(500.0) == 0.0
    assert set(UNITS.values()) == {"1", "B", "ns"}
    for text in ("", "-1%", "1%%", "1 TiB", "1%|", "1e3"):
        with pytest.raises(ValueError, match="no limit"):
            parse_limit("memory", text)


def test_the_gate_of_this_repository_builds_the_agent_from_all_its_sources() -> None:
    top = Path(__file__).parents[3]
    file = decode_gate((top / "swapstone.toml").read_bytes())
    words = file.build.split()
    named = {path for word in words for path in top.glob(word) if word.startswith("native/") and word.endswith(".c")}
    agent = {path for path in agent_sources(top) if path.suffix == ".c"}
    assert agent <= named and {path.name for path in named - agent} == {"harness.c"}
    assert all((top / path).is_dir() for path in (*file.paths, file.data))
    assert {run.command.split()[0].removeprefix("./") for run in file.run.values()} == set(file.programs)
