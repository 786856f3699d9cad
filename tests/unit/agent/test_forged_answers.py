# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that write an answer of their own, or read the agent's files in /proc: what is refused, and what is forbidden."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.targets import TargetError
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import (
    AgentAnswer,
    AnswerReader,
    ProcessOutcome,
    encode_answer,
    encode_plan_header,
    encode_request,
)
from tests.programs import require
from tests.unit.agent.harness import agents, alive, finish, request, until

TOP = Path(__file__).parents[3]
FORGED = AgentAnswer(id="t", facts=(("wall_ns", 1000),), outcome=ProcessOutcome.EXITED, code=0)
NONCE = "0123456789abcdef" * 2
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can open the agent's pipes")


@needs_root
@pytest.mark.parametrize("nonce", ["", NONCE])
@pytest.mark.parametrize("trial", [1, 2])
def test_an_answer_that_a_program_of_root_writes_is_refused(
    agent: Path, tmp_path: Path, nonce: str, trial: int
) -> None:
    forged = tmp_path / "forged"
    forged.write_bytes(encode_answer(FORGED, nonce))
    with HostTarget(agent) as target:
        for _ in range(trial - 1):
            assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED
        with pytest.raises(TargetError, match="does not have the nonce of its request") as caught:
            target.run(request(tmp_path, "/bin/sh", "-c", f"cat {forged} >/proc/$PPID/fd/1; sleep 60"))
        assert "`swapstone docs wire`" in caught.value.hint
        assert not alive(tmp_path)
        after = target.run(request(tmp_path, "/bin/true"))
        assert after.outcome is ProcessOutcome.EXITED
        assert dict(after.facts)["wall_ns"] > 1000


@needs_root
def test_a_trial_that_a_program_of_root_adds_to_the_plan_is_refused(agent: Path, tmp_path: Path) -> None:
    """The pipe of the plan can be opened for writing too."""
    added = tmp_path / "added"
    added.write_bytes(encode_request(request(tmp_path, "/bin/true"), NONCE))
    with HostTarget(agent) as target:
        with pytest.raises(TargetError):
            for _ in range(2):  # its answer comes after that of the program: at once, or before the next request
                target.run(request(tmp_path, "/bin/sh", "-c", f"cat {added} >/proc/$PPID/fd/0"))
                time.sleep(0.5)
        assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED


FAKE_AGENT = """#!{python}
import sys, time
sys.path.insert(0, {source!r})
from swapstone.core.wire import AgentAnswer, ProcessOutcome, encode_answer, encode_answer_header
out = sys.stdout.buffer
out.write(encode_answer_header())
nonce = ""
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "nonce":
        nonce = rest
    if word != "run":
        continue
    answer = encode_answer(AgentAnswer(id="t", outcome=ProcessOutcome.EXITED, code=0), nonce)
    out.write({output})
    out.flush()
    {after}
"""


def fake_agent(folder: Path, output: str, after: str = "") -> Path:
    """Write an agent that repeats the nonce. `output` is an expression for what it writes, `after` a statement."""
    path = folder / "agent"
    path.write_text(
        FAKE_AGENT.format(python=sys.executable, source=str(TOP / "src"), output=output, after=after or "pass")
    )
    path.chmod(0o755)
    return path


def test_an_answer_with_the_nonce_is_accepted(tmp_path: Path) -> None:
    with HostTarget(fake_agent(tmp_path, "answer"), stop_timeout_s=5) as target:
        for _ in range(2):
            assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("answer + answer", "more than one answer to one trial"),
        ("answer + b'begin t'", "goes on after its answer"),
        ("answer + b'begin t\\n'", "goes on after its answer"),
        ("answer.replace(nonce.encode(), b'f' * 32)", "checksum is wrong"),
        ("answer.replace(b'nonce ' + nonce.encode() + b'\\n', b'')", "lines were lost"),
        ("encode_answer(AgentAnswer(id='t', outcome=ProcessOutcome.EXITED, code=0))", "does not have the nonce"),
        (
            "encode_answer(AgentAnswer(id='other', outcome=ProcessOutcome.EXITED, code=0), nonce)",
            "answered trial other",
        ),
    ],
)
def test_other_answers_are_refused(tmp_path: Path, output: str, text: str) -> None:
    with (
        HostTarget(fake_agent(tmp_path, output), stop_timeout_s=5) as target,
        pytest.raises(TargetError, match=text),
    ):
        target.run(request(tmp_path, "/bin/true"))


def test_the_nonce_of_another_trial_is_refused(tmp_path: Path) -> None:
    answer = "encode_answer(AgentAnswer(id='t', outcome=ProcessOutcome.EXITED, code=0), first)"
    agent = fake_agent(tmp_path, answer, "pass")
    agent.write_text(
        agent.read_text().replace("    answer = ", "    first = globals().get('first', nonce)\n    answer = ")
    )
    with HostTarget(agent, stop_timeout_s=5) as target:
        target.run(request(tmp_path, "/bin/true"))
        with pytest.raises(TargetError, match="does not have the nonce"):
            target.run(request(tmp_path, "/bin/true"))


def test_bytes_between_two_trials_are_refused(tmp_path: Path) -> None:
    late = f"time.sleep(0.3); out.write(b'begin t\\n'); out.flush(); open({str(tmp_path / 'wrote')!r}, 'w').close()"
    with HostTarget(fake_agent(tmp_path, "answer", late), stop_timeout_s=5) as target:
        target.run(request(tmp_path, "/bin/true"))
        while not (tmp_path / "wrote").exists():
            time.sleep(0.01)
        with pytest.raises(TargetError, match="goes on after its answer"):
            target.run(request(tmp_path, "/bin/true"))


def test_the_nonce_differs_between_trials_and_is_no_argument_or_variable(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    note = f"print(nonce, sys.argv[1:], open('/proc/self/environ').read(), file=open({str(seen)!r}, 'a'))"
    with HostTarget(fake_agent(tmp_path, "answer", note), stop_timeout_s=5) as target:
        for _ in range(3):
            target.run(request(tmp_path, "/bin/true"))
    lines = seen.read_text().splitlines()
    assert len(set(lines)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32} \['-'\] ", line) for line in lines), lines


def answer_without_privileges(agent: Path, script: str) -> AgentAnswer:
    """Return the answer to a trial of an agent that is not root."""
    asked = request(Path("/"), "/bin/sh", "-c", script)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        copy = folder / "agent"
        shutil.copy(agent, copy)
        copy.chmod(0o755)
        command = [str(copy), "-"]
        if os.geteuid() == 0:
            require("setpriv")
            command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *command]
        output = _output_of(command, encode_plan_header() + encode_request(asked, NONCE))
    (answer,) = AnswerReader().feed(output, NONCE)
    return answer


def _output_of(command: list[str], plan: bytes) -> bytes:
    """Return the output of a command, whose pipes belong to its user, as if that user had made them."""
    (plan_end, plan_start), (answers_end, answers_start) = os.pipe(), os.pipe()
    if os.geteuid() == 0:
        for pipe in (plan_end, answers_start):
            os.fchown(pipe, 65534, 65534)
    with os.fdopen(plan_start, "wb") as start:
        start.write(plan)
    with os.fdopen(answers_end, "rb") as answers:
        with subprocess.Popen(command, process_group=0, stdin=plan_end, stdout=answers_start) as process:
            os.close(plan_end)
            os.close(answers_start)
            output = answers.read()
        assert process.returncode == 0
    return output


@pytest.mark.parametrize("action", [">/proc/$PPID/fd/1", "</proc/$PPID/fd/0", ">/proc/$PPID/fd/0", "</proc/$PPID/mem"])
def test_a_program_without_privileges_can_not_open_the_files_of_the_agent(agent: Path, action: str) -> None:
    answer = answer_without_privileges(agent, f"echo reached; : {action}; echo not reached")
    assert answer.outcome is ProcessOutcome.EXITED
    assert answer.code != 0
    assert answer.stdout == b"reached\n"
    assert b"denied" in answer.stderr.lower()


def test_a_program_of_an_agent_without_privileges_is_traced_and_may_be_dumped(agent: Path) -> None:
    """The agent is not dumpable, and its children are: before exec, so that it can trace them, and after it."""
    script = "cat /proc/self/oom_score_adj; : </proc/$$/environ && echo readable"
    answer = answer_without_privileges(agent, script)
    assert (answer.outcome, answer.code, answer.stdout) == (ProcessOutcome.EXITED, 0, b"500\nreadable\n")
    assert answer.interp is not None
    assert not answer.notes


@needs_root
def test_the_nonce_is_only_in_memory_that_children_do_not_have(agent: Path, tmp_path: Path) -> None:
    """After exec a child has no memory of the agent. Before, it has all of it except this page (MADV_DONTFORK: "dc")."""
    process = subprocess.Popen([agent, "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    # The first line of the second request moves in the buffer, while its nonce is still unread.
    first = encode_request(request(tmp_path, "/bin/true", "a" * 300_000, id="a"), "a" * 32)
    second = encode_request(request(tmp_path, "/bin/sh", "-c", "echo; sleep 60", id="b"), NONCE)
    process.stdin.write(encode_plan_header() + first + second)
    process.stdin.flush()
    try:
        until(lambda: alive(tmp_path))
        (worker,) = set(agents(agent)) - {process.pid}
        found = [kept for kept, content in memory_of(worker) if NONCE.encode() in content]
        assert found == [True]
        (keeper,) = set(agents(agent)) - {worker}
        assert not [kept for kept, content in memory_of(keeper) if NONCE.encode() in content]
    finally:
        finish(process)
    until(lambda: not alive(tmp_path))


def memory_of(pid: int) -> Iterator[tuple[bool, bytes]]:
    """Yield the content of each writable mapping of a process, and whether it is kept from its children."""
    text = Path(f"/proc/{pid}/smaps").read_text()
    mappings = re.findall(r"(?m)^([0-9a-f]+)-([0-9a-f]+) rw\S+ .*\n(?:[A-Z].*\n)*?VmFlags:(.*)$", text)
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end, flags in mappings:
            memory.seek(int(start, 16))
            yield "dc" in flags.split(), memory.read(int(end, 16) - int(start, 16))
