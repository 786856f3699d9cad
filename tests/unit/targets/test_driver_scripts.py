# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scripts on the load generators' machine: arguments arrive as they are, and nothing outlives the connection, the time or the file."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swapstone.parts.boards.targets.board import decode_board_answer
from swapstone.parts.boards.targets.driver_host import FIND, RUN, TAKE, keeper_script, octal
from tests.processes import ends

HOSTILE = (
    "",
    "a b",
    "$(touch broken)",
    "`touch broken`",
    "'; touch broken; '",
    '"',
    "\\",
    "\\0101",
    "%s%n",
    "line\nbreak\n",
    "-n",
    "*",
    "\u00e9\udcff",
    "\x1b[31m",
)
PRINTER = """import os, sys
os.write(1, b"\\0".join(map(os.fsencode, sys.argv[1:])))
"""


def script(folder: Path, content: str) -> Path:
    path = folder / "script"
    path.write_text(content)
    return path


def run(
    folder: Path, *words: str, digest: str | None = None, seconds: int = 60, stdin: int | None = None
) -> subprocess.Popen[bytes]:
    """Start RUN as it is started there. Its standard input stays open as long as the connection, which is this process's pipe."""
    found = digest or hashlib.sha256(Path(words[0]).read_bytes()).hexdigest()
    arguments = ["/bin/sh", str(script(folder, RUN)), found, str(seconds), *map(octal, words)]
    return subprocess.Popen(
        arguments,
        cwd=folder,
        stdin=subprocess.PIPE if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for the end, while standard input stays open."""
    assert process.stdout and process.stderr and process.stdin
    output, errors = process.stdout.read(), process.stderr.read()
    status = process.wait(30)
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()
    return status, output, errors


def test_every_argument_arrives_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "print.py").write_text(PRINTER)
    python = os.path.realpath(sys.executable)
    status, output, errors = ended(run(tmp_path, python, str(tmp_path / "print.py"), *HOSTILE))
    assert (status, errors) == (0, b"")
    assert output == b"\0".join(map(os.fsencode, HOSTILE))
    assert not (tmp_path / "broken").exists()


def test_the_words_have_no_character_that_a_shell_interprets() -> None:
    for word in HOSTILE:
        assert octal(word).isalnum()
    assert octal("a") == "w141"


def test_a_changed_file_is_not_executed(tmp_path: Path) -> None:
    status, output, errors = ended(run(tmp_path, "/bin/echo", "x", digest="0" * 64))
    assert (status, output) == (97, b"")
    assert b"has changed" in errors


def test_the_status_is_the_load_generators(tmp_path: Path) -> None:
    sh = os.path.realpath("/bin/sh")
    assert ended(run(tmp_path, sh, "-c", "echo out; echo err >&2; exit 7")) == (7, b"out\n", b"err\n")


def _waits_until_gone(marker: Path) -> None:
    """Wait until the process whose number is in a file is gone, or a zombie that its parent has not awaited yet."""
    number = int(marker.read_text())
    if not ends(number):
        os.kill(number, signal.SIGKILL)
        pytest.fail("the load generator still runs")


def _sleeper(tmp_path: Path, seconds: int = 60) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a load generator that writes its number and never ends."""
    marker = tmp_path / "number"
    process = run(tmp_path, os.path.realpath("/bin/sh"), "-c", f"echo $$ >{marker}; exec sleep 1000", seconds=seconds)
    deadline = time.monotonic() + 30
    while not (marker.exists() and marker.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, marker


def test_the_end_of_the_connection_kills_the_load_generator(tmp_path: Path) -> None:
    process, marker = _sleeper(tmp_path)
    assert process.stdin
    process.stdin.close()
    _waits_until_gone(marker)
    assert process.wait(30) == 128 + signal.SIGKILL
    assert process.stdout and process.stderr
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
def test_the_time_limit_kills_the_load_generator(tmp_path: Path) -> None:
    process, marker = _sleeper(tmp_path, seconds=1)
    assert ended(process)[0] == 128 + signal.SIGKILL
    _waits_until_gone(marker)


def test_a_program_is_found_by_name_and_by_path_and_its_absence_is_known(tmp_path: Path) -> None:
    def found(name: str) -> tuple[str, str] | None:
        words = ["/bin/sh", str(script(tmp_path, FIND.replace("@WORD@", "word"))), octal(name)]
        answer = subprocess.run(words, capture_output=True, check=True, cwd=tmp_path).stdout
        parts = decode_board_answer(answer, "word")
        return (parts.text("path"), parts.text("sha256")) if parts.parts else None

    cat = found("cat")
    assert cat is not None
    assert cat[0].endswith(("/cat", "/busybox", "/coreutils"))
    assert cat[1] == hashlib.sha256(Path(cat[0]).read_bytes()).hexdigest()
    assert found(cat[0]) == cat
    assert found("no-such-program-here") is None
    assert found("$(touch broken)") is None
    assert not (tmp_path / "broken").exists()


def test_a_program_is_stored_and_the_folder_vanishes_with_its_session(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    session = subprocess.Popen(["/bin/sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert session.stdin and session.stdout
    session.stdin.write(keeper_script(str(folder), "word").encode())
    session.stdin.flush()
    while session.stdout.readline() not in {b"word end\n", b""}:
        pass
    assert {each.name: each.read_text() for each in folder.iterdir()} == {
        "run": RUN,
        "find": FIND.replace("@WORD@", "word"),
        "take": TAKE,
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    subprocess.run(["/bin/sh", str(folder / "take"), "ab12"], input=b"\0\xffprogram", check=True)
    stored = folder / "driver-ab12"
    assert (stored.read_bytes(), stored.stat().st_mode & 0o777) == (b"\0\xffprogram", 0o700)
    session.stdin.close()
    assert session.wait(30) == 0
    session.stdout.close()
    assert not folder.exists()
