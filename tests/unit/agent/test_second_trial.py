# SPDX-License-Identifier: MIT OR Apache-2.0
"""A trial by a script after another one: nothing of the first is in the second answer. How answers are written, and limits of values."""

from __future__ import annotations

import pytest

from swapstone.core.wire import AgentAnswer, ProcessOutcome, decode_answers
from tests.unit.agent.harness import Printed
from tests.unit.agent.test_fake_trial import ENDS, EXIT_STOP, EXITED, GROUP_STOP, PROC, SERVER, SIGNALED

NEXT = f"next 200 event 100 {EXIT_STOP} 0\nnext 200 event 100 {EXITED} 4\n"
HARD = f"at 2500 event 100 {EXIT_STOP} 0\nat 2900 event 100 {EXITED} 9\n"


def both(printed: Printed, *parts: str) -> tuple[AgentAnswer, AgentAnswer, list[str]]:
    output, calls = printed("set trials 2", *parts)
    first, second = decode_answers(output)
    return first, second, calls


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        (("child 300 10", f"at 10 event 100 {GROUP_STOP} 19", "at 20 signal 18", HARD), ProcessOutcome.ORPHANS),
        (("set timeout_ms 900",), ProcessOutcome.TIMEOUT),
        (("at 30 out 0 5000", "at 30 out 1 5000"), ProcessOutcome.OVERFLOW),
        ((f"at 200 event 100 {SIGNALED} 25",), ProcessOutcome.DISK),
        ((f"at 200 event 100 {SIGNALED} 6",), ProcessOutcome.SIGNALED),
        (("at 30 signal 15",), ProcessOutcome.TIMEOUT),
        (("at 50 out 0 30", ENDS), ProcessOutcome.EXITED),
    ],
)
def test_nothing_of_a_trial_is_in_the_next_answer(
    printed: Printed, first: tuple[str, ...], outcome: ProcessOutcome
) -> None:
    settings = (PROC, "set late_ns 7", "set cpu_ns 7000", "set suspended 5", "file /slow abc", "observe file /slow")
    timeout = [part for part in first if part.startswith("set")]
    (alone,) = decode_answers(printed(*settings, *timeout, ENDS)[0])
    one, two, calls = both(printed, *settings, *first, NEXT)
    assert one.outcome is outcome
    assert two == alone
    assert calls[-1].split()[1:] == ["state", "0"]


def test_nothing_of_a_server_is_in_the_next_answer(printed: Printed) -> None:
    generator = ("at 0 accept", "at 20 out 2 10", "at 20 out 3 10", f"at 50 event 200 {EXITED} 0")
    (alone,) = decode_answers(printed(PROC, ENDS)[0])
    one, two, _ = both(printed, PROC, SERVER, "set warm_ms 0", "set second_port 0", *generator, NEXT)
    assert one.outcome is ProcessOutcome.DRIVEN and one.driver_stdout
    assert two == alone


def test_free_space_of_a_trial_is_not_that_of_the_root_of_the_next(printed: Printed) -> None:
    """The folder of a trial with a root is in that root, so its free space is not compared."""
    script = ("next 100 free 0", f"next 2500 event 100 {EXIT_STOP} 0", f"next 2500 event 100 {EXITED} 4")
    _, two, _ = both(printed, PROC, ENDS, "set second_root 1", *script)
    assert two.outcome is ProcessOutcome.EXITED
    _, two, _ = both(printed, PROC, ENDS, *script)
    assert two.outcome is ProcessOutcome.DISK


def test_a_server_after_another_one_is_measured_alike(printed: Printed) -> None:
    script = (PROC, SERVER, "set warm_ms 0", "at 2 accept", f"at 50 event 200 {EXITED} 0")
    one, two, _ = both(printed, *script, f"next 50 event 201 {EXITED} 0")
    assert one == two and one.outcome is ProcessOutcome.DRIVEN


@pytest.mark.parametrize(("executed", "killed"), [(3, 303), (250, 550), (400, 700)])
def test_a_warm_up_is_counted_from_the_start_of_the_load_generator(
    printed: Printed, executed: int, killed: int
) -> None:
    script = ("set generator_waits 1", "at 2 accept", f"at {executed} executed", f"at 2000 event 201 {EXITED} 0")
    _, calls = printed(PROC, SERVER, *script)
    (first, *_) = (int(call.split()[0]) for call in calls if call.endswith(" kill 200 9"))
    assert killed <= first <= killed + 2


# Writing


def test_an_answer_is_written_whole_in_pieces_of_any_size(printed: Printed) -> None:
    script = (PROC, "set output_bytes 30000", "at 30 out 0 30000", ENDS)
    whole, _ = printed(*script)
    assert len(whole) > 3 * 8192
    for size in (1, 7, 8191, 8192):
        assert printed(*script, f"set write_bytes {size}")[0] == whole
    for number in (1, 2, 4):
        found, calls = printed(*script, f"set write_again {number}")
        assert found == whole
        assert [call.split()[1:] for call in calls if "writable" in call] == [["writable", "1", "-1"]]


@pytest.mark.parametrize(
    ("script", "writes"),
    [
        (ENDS, 2),  # the header and the first part
        (f"set trials 2\n{ENDS}next 200 event 100 {EXIT_STOP} 0\nnext 200 event 100 {EXITED} 4", 4),
        ("at 30 signal 15", 1),  # the agent ends: there is no answer
    ],
)
def test_the_conditions_are_observed_while_the_first_part_of_an_answer_is_read(
    printed: Printed, script: str, writes: int
) -> None:
    output, _ = printed(PROC, script, "set policy_counts_writes 1")
    assert dict(decode_answers(output)[-1].facts)["agent_policy"] == writes


@pytest.mark.parametrize(("number", "lost"), [(1, ["no header", "no answer"]), (2, ["no answer"]), (4, ["no answer"])])
def test_a_write_that_fails_ends_the_writing(printed: Printed, number: int, lost: list[str]) -> None:
    script = (PROC, "set output_bytes 30000", "at 30 out 0 30000", ENDS, f"set write_fails {number}")
    found, calls = printed(*script)
    assert [call.split(maxsplit=1)[1] for call in calls if " no " in call] == lost
    assert len(found) <= 8192 * (number - 1)


def test_output_is_in_lines_of_512_bytes(printed: Printed) -> None:
    output, _ = printed("at 30 out 0 513", "at 30 out 1 512", ENDS)
    lengths = [
        (line.split()[0], len(line.split()[1])) for line in output.splitlines() if line.startswith((b"out", b"err"))
    ]
    assert lengths == [(b"out", 512), (b"out", 1), (b"err", 512)]


# Values


@pytest.mark.parametrize(("size", "read"), [(16384, True), (16385, False)])
def test_the_longest_value(printed: Printed, size: int, *, read: bool) -> None:
    files = (f"file /a {'v' * size}", f"file /proc/100/environ A={'e' * size}|B=1|")
    script = (PROC, *files, "observe file /a", "observe env A", "observe env B", ENDS)
    (answer,) = decode_answers(printed(*script)[0])
    assert [len(value) for _, value in answer.observed] == ([size, size, 1] if read else [1])
    text = "the value is longer than the agent reads"
    assert answer.notes == (() if read else (f"observe file /a: {text}", f"observe env A: {text}"))


def test_the_longest_values_together(printed: Printed) -> None:
    files = [f"file /{name} {'v' * 16384}\nobserve file /{name}" for name in "abcdefghijklmnop"]
    script = (PROC, *files, "file /z x", "observe file /z", ENDS)
    (answer,) = decode_answers(printed(*script)[0])
    assert len(answer.observed) == 16
    assert answer.notes == ("observe file /z: the value is longer than the agent reads",)


@pytest.mark.parametrize(
    ("environ", "value"),
    [
        ("A=1|", "1"),
        ("XA=1|A=2|", "2"),
        ("A|A=3|", "3"),
        ("AA=1|A=4|", "4"),
        ("A=|A=5|", ""),
        ("B=A=5|A=6|", "6"),
        ("A=b=c|", "b=c"),
        ("AX=1|", None),
        ("A|", None),
        ("|A=7|", "7"),
        ("A=8", "8"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 4096])
def test_the_first_variable_of_a_name_is_found(printed: Printed, environ: str, value: str | None, chunk: int) -> None:
    script = (PROC, f"file /proc/100/environ {environ}", "observe env A", f"set chunk {chunk}", ENDS)
    (answer,) = decode_answers(printed(*script)[0])
    assert [found for _, found in answer.observed] == ([] if value is None else [value])
    assert len(answer.absent) == (value is None)


@pytest.mark.parametrize(("length", "note"), [(8172, ()), (8173, ("observe cgroup name: errno 12",))])
def test_the_longest_path_of_a_cgroup(printed: Printed, length: int, note: tuple[str, ...]) -> None:
    files = ("file /sys/fs/cgroup/cgroup.controllers cpu", f"file /proc/100/cgroup 0::/{'c' * (length - 1)}\\")
    (answer,) = decode_answers(printed(PROC, *files, "observe cgroup name", ENDS)[0])
    assert answer.notes == note
    assert len(answer.absent) == (not note)


def test_notes_are_cut_after_2048_bytes(printed: Printed) -> None:
    files = [f"file /{number:03} x\nfail /{number:03} 0 5\nobserve file /{number:03}" for number in range(64)]
    (answer,) = decode_answers(printed(PROC, *files, ENDS)[0])
    assert answer.notes == tuple(f"observe file /{number:03}: errno 5" for number in range(64))  # 27 bytes each
    longer = [each.replace("/", f"/{'n' * 40}") for each in files]
    (answer,) = decode_answers(printed(PROC, *longer, ENDS)[0])
    assert sum(len(note) + 1 for note in answer.notes) == 2048
    assert all(note.endswith(": errno 5") for note in answer.notes[:-1])


# Descriptor 0 is one like others


@pytest.mark.parametrize(
    "first", ["exe none", "comm true\\", "schedstat 123 456 78\\", "maps 1-2 r-xp 0 0:0 1   /bin/true\\"]
)
def test_a_file_of_the_process_may_have_the_descriptor_0(printed: Printed, first: str) -> None:
    whole, _ = printed(PROC, ENDS)
    found, calls = printed(f"file /proc/100/{first}", PROC, "set files 0", ENDS)
    assert found == whole
    assert not [call for call in calls if " open " in call]


@pytest.mark.parametrize(
    "first",
    [
        "/a abc",
        "/proc/100/environ B=1|",
        "/proc/100/cgroup 0::/x\\",
        "/sys/fs/cgroup/cgroup.controllers c",
        "/sys/fs/cgroup/x/n 7",
    ],
)
def test_an_observed_file_may_have_the_descriptor_0(printed: Printed, first: str) -> None:
    files = ("/a abc", "/proc/100/environ B=1|", "/proc/100/cgroup 0::/x\\", "/sys/fs/cgroup/cgroup.controllers c")
    every = [f"file {each}" for each in (first, *files, "/sys/fs/cgroup/x/n 7")]
    asked = ("observe file /a", "observe env B", "observe cgroup n")
    output, calls = printed(*every, PROC, *asked, "set files 0", ENDS)
    (answer,) = decode_answers(output)
    assert [value for _, value in answer.observed] == ["abc", "1", "7"]
    assert not [call for call in calls if " open " in call]


def test_an_output_may_have_the_descriptor_0(printed: Printed) -> None:
    script = (PROC, "at 30 out 0 10", "at 30 out 1 20", ENDS)
    assert printed(*script, "set outputs 0")[0] == printed(*script)[0]
    server = (PROC, SERVER, "set warm_ms 0", "at 0 accept", "at 30 out 2 10", f"at 50 event 200 {EXITED} 0")
    assert printed(*server, "set outputs 0")[0] == printed(*server)[0]
