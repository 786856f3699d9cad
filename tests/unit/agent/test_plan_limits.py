# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent has the limits of `swapstone.core.wire.agent_request`: what Python encodes, the agent accepts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from swapstone.core.wire import AgentRefusedError, AnswerReader, decode_answers, encode_plan_header, encode_request
from tests.unit.wire.test_request_limits import HOUR_MS, LIMITS, YEAR_MS, request

# A plan without a server's lines, and a server's lines.
TRIAL = ("trial t", "arg /nonexistent", "cwd /", "cpus all", "timeout-ms 9", "output-bytes 9", "disk-bytes 9")
SERVER = ("port 1", "ready-ms 9", "warm-ms 0", "drain-ms 0", "stop-ms 9", "driver-arg /nonexistent", "driver-cpus all")


def sent(agent: Path, plan: bytes) -> bytes:
    return subprocess.run(
        [agent, "-"], process_group=0, input=plan, stdout=subprocess.PIPE, timeout=60, check=False
    ).stdout


def test_the_agent_accepts_every_last_value(agent: Path) -> None:
    asked = [request(field, last) for field, last, _ in LIMITS]
    answers = decode_answers(sent(agent, encode_plan_header() + b"".join(map(encode_request, asked))))
    assert [answer.id for answer in answers] == [each.id for each in asked]


def test_the_agent_accepts_the_longest_line(agent: Path) -> None:
    longest = request("arguments", ("/" + "a" * ((400 << 10) - 1 - len("arg /")),))
    (answer,) = decode_answers(sent(agent, encode_plan_header() + encode_request(longest)))
    assert answer.id == "t"


@pytest.mark.parametrize(
    "line",
    [
        f"timeout-ms {YEAR_MS + 1}",
        "output-bytes 0",
        "disk-bytes 0",
        "cpus 0,4096",
        *(f"{name}-ms {HOUR_MS + 1}" for name in ("ready", "warm", "drain", "stop")),
        "ready-ms 0",
        "stop-ms 0",
        "driver-cpus 4096",
        "port 65536",
        "trial a/b",
        "trial a`",
        "trial a{",
        "trial a@",
        "trial a[",
        "trial a:",
        "trial /a",
        "trial a!",
        "cpus 0;1",
        "cpus 0,",
        "cpus x",
        "driver-cpus 0;1",
        "output-bytes 16777217",
        "disk-bytes 9223372036854775808",
        "timeout-ms 9x",
        "warm-ms 9x",
        "cwd x",
    ],
)
def test_the_agent_refuses_the_first_value_beyond(agent: Path, line: str) -> None:
    word = line.split(" ", maxsplit=1)[0]
    lines = [line if old.split(" ")[0] == word else old for old in (*TRIAL, *SERVER)]
    assert line in lines
    number = lines.index(line) + 2  # after the header
    plan = encode_plan_header() + "".join(f"{each}\n" for each in (*lines, "run")).encode()
    with pytest.raises(AgentRefusedError, match=f"refuses line {number} of its plan"):
        AnswerReader().feed(sent(agent, plan))


@pytest.mark.parametrize("word", [line.split(" ")[0] for line in (*TRIAL[1:], *SERVER)])
def test_a_trial_without_one_of_its_lines_is_refused(agent: Path, word: str) -> None:
    lines = [line for line in (*TRIAL, *SERVER) if line.split(" ")[0] != word]
    plan = encode_plan_header() + "".join(f"{each}\n" for each in (*lines, "run")).encode()
    text = "the server lacks one of" if word in {line.split(" ")[0] for line in SERVER} else "the trial lacks one of"
    with pytest.raises(AgentRefusedError, match=f"refuses line {len(lines) + 2} of its plan: {text}"):
        AnswerReader().feed(sent(agent, plan))


def test_lines_that_repeat_are_refused_unless_they_are_lists(agent: Path) -> None:
    lists = {"arg", "env", "observe", "driver-arg", "driver-env"}
    further = ("nice 1", "stdin /dev/null", "stdout /dev/null", "env A=b", "observe env A", "driver-env A=b")
    lines = [*TRIAL, *further, *SERVER]
    for place, line in enumerate(lines):
        again = [*lines[: place + 1], line if line != "observe env A" else "observe env B", *lines[place + 1 :], "run"]
        plan = encode_plan_header() + "".join(f"{each}\n" for each in again).encode()
        reader = AnswerReader()
        if line.split(" ")[0] in lists:
            assert [answer.id for answer in reader.feed(sent(agent, plan))] == ["t"], line
        else:
            with pytest.raises(AgentRefusedError, match=f"line {place + 3} .*the trial has such a line already"):
                reader.feed(sent(agent, plan))


@pytest.mark.parametrize("last", ["arg a", "env A=b", "observe env A"])
@pytest.mark.parametrize(("room", "accepted"), [(0, True), (-1, False)])
def test_the_texts_of_a_trial_have_1_mib_together(agent: Path, last: str, room: int, *, accepted: bool) -> None:
    """Each text takes its bytes and a zero byte; those of `TRIAL` and the last line take the rest."""
    rest = len("/nonexistent\0/\0") + len(last.rpartition(" ")[2]) + 1
    size = (1 << 20) - rest - room - 2 * 400_000
    lines = [*TRIAL[:2], *(f"arg {'a' * (each - 1)}" for each in (400_000, 400_000, size)), *TRIAL[2:], last, "run"]
    reader, plan = AnswerReader(), encode_plan_header() + "".join(f"{each}\n" for each in lines).encode()
    if accepted:
        assert [answer.id for answer in reader.feed(sent(agent, plan))] == ["t"]
    else:
        with pytest.raises(AgentRefusedError, match=f"line {len(lines)} .*longer than 1 MiB together"):
            reader.feed(sent(agent, plan))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("nonce /" + "0" * 31, "a nonce has 32 lower-case hexadecimal digits"),
        ("nonce g" + "0" * 31, "a nonce has 32 lower-case hexadecimal digits"),
        ("nonce " + "0" * 31 + ":", "a nonce has 32 lower-case hexadecimal digits"),
        ("nonce " + "0" * 31 + "`", "a nonce has 32 lower-case hexadecimal digits"),
        ("nice 5x", "nice is a whole number from -20 to 19"),
        ("nice -", "nice is a whole number from -20 to 19"),
        ("nice", "the line begins with no known word"),
        ("observe env A\nobserve env B\nobserve env A", "the trial has this observation already"),
        ("root /r\nroot-layer /l\nroot-layer /l", "the trial has such a line already"),
        ("root /r\nroot-files /l\nroot-files /l", "the trial has such a line already"),
        ("root /r\\s", "the path of a root has a comma, a colon or a backslash"),
        ("root /r:s", "the path of a root has a comma, a colon or a backslash"),
        ("root /r\nroot-files f", "the path is not absolute"),
        ("\n".join(f"env A{number}=b" for number in range(4097)), "there are more than 4096 environment variables"),
    ],
)
def test_the_agent_refuses_optional_lines(agent: Path, line: str, text: str) -> None:
    lines = [*TRIAL, *line.split("\n"), "run"]
    plan = encode_plan_header() + "".join(f"{each}\n" for each in lines).encode()
    with pytest.raises(AgentRefusedError, match=f"refuses line {len(lines)} of its plan: {text}"):
        AnswerReader().feed(sent(agent, plan))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("driver-env A", "an environment variable is NAME=VALUE"),
        ("\n".join(["driver-arg a"] * 4096), "there are more than 4096 arguments"),
        (
            "\n".join(f"driver-env A{number}=b" for number in range(4097)),
            "there are more than 4096 environment variables",
        ),
    ],
)
def test_the_agent_refuses_lines_of_a_load_generator(agent: Path, line: str, text: str) -> None:
    lines = [*TRIAL, *SERVER, *line.split("\n"), "run"]
    plan = encode_plan_header() + "".join(f"{each}\n" for each in lines).encode()
    with pytest.raises(AgentRefusedError, match=f"refuses line {len(lines)} of its plan: {text}"):
        AnswerReader().feed(sent(agent, plan))


def test_identifiers_and_nonces_have_all_their_characters(agent: Path) -> None:
    """Each trial's identifier is shorter than that before it, and the first character of a range and the last one are in it."""
    identifiers = ("a" * 64, "azAZ09._-", "z", "-")
    plan = encode_plan_header()
    nonces = ("0123456789abcdef" * 2, "f" * 32, "9" * 32, "")
    for nonce, identifier in zip(nonces, identifiers, strict=True):
        lines = [f"trial {identifier}", *([f"nonce {nonce}"] if nonce else []), *TRIAL[1:], "run"]
        plan += "".join(f"{each}\n" for each in lines).encode()
    header, *written = re.split(rb"^(?=begin )", sent(agent, plan), flags=re.MULTILINE)
    reader = AnswerReader()
    reader.feed(header)
    answers = [reader.feed(each, nonce) for nonce, each in zip(nonces, written, strict=True)]
    assert [answer.id for (answer,) in answers] == list(identifiers)


def test_the_same_name_of_another_kind_is_another_observation(agent: Path) -> None:
    lines = [*TRIAL, "observe env /a", "observe file /a", "run"]
    plan = encode_plan_header() + "".join(f"{each}\n" for each in lines).encode()
    assert [answer.id for answer in AnswerReader().feed(sent(agent, plan))] == ["t"]


def test_a_server_in_a_root_needs_all_its_lines(agent: Path) -> None:
    lines = [*TRIAL, "root /r", "port 1", "run"]
    plan = encode_plan_header() + "".join(f"{each}\n" for each in lines).encode()
    with pytest.raises(AgentRefusedError, match=f"refuses line {len(lines) + 1} of its plan: the server lacks one of"):
        AnswerReader().feed(sent(agent, plan))
