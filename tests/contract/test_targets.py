# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of a target, tested on each kind of target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UserError, WireError, environment_variable
from swapstone.core.model.executed_counts import COUNT_FACTS
from swapstone.core.targets import Target, target_kinds
from swapstone.core.targets.memory_cgroup import CHILDREN, TREE_CPU_US, TREE_MEMORY_BYTES
from swapstone.core.wire import FACTS, ProcessOutcome, TrialRequest
from tests.contract.programs import contract_programs
from tests.contract.target_openers import EXHAUSTIVE, OF_AN_EMULATOR, SLOW, open_kind
from tests.shared import Shared

KINDS = [
    pytest.param(
        kind.name,
        marks=[pytest.mark.slow] * (kind.name in SLOW | EXHAUSTIVE)
        + [pytest.mark.exhaustive] * (kind.name in EXHAUSTIVE),
    )
    for kind in target_kinds()
    if kind.name not in OF_AN_EMULATOR
]


@pytest.fixture(scope="module", params=KINDS)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared: Shared
) -> Iterator[Target]:
    with open_kind(request.param, tmp_path_factory.mktemp(request.param), shared) as opened:
        yield opened


@pytest.fixture(scope="module")
def program(target: Target, shared: Shared) -> Callable[[str], str]:
    """Return the path on the target of a program that succeeds (`empty`), crashes (`crash`), or is missing (any other name)."""
    if "runs_programs" not in target.offers:
        return lambda name: target.path_of("libc=glibc", name)
    musl = target.name.startswith("virtual-board")  # its image has no other C library
    programs = contract_programs(shared, "musl-gcc" if musl else "cc")
    return lambda name: target.put(programs[name]) if name in programs else f"/nonexistent/{name}"


def asked(target: Target, program: str, trial: str = "1-0", **changed: object) -> TrialRequest:
    fields: dict[str, object] = {
        "id": trial,
        "arguments": (program, "3"),
        "environment": (("LC_ALL", "C"),),
        "cwd": target.scratch(),
        "timeout_ms": 10_000,
        **changed,
    }
    return TrialRequest(**fields)  # type: ignore[arg-type] # one of its fields at a time


def test_the_description_is_complete_and_stable(target: Target) -> None:
    description = target.describe()
    assert description.cpus
    assert description.kernel
    facts = dict(description.facts())
    assert facts["cpus"] == ",".join(map(str, description.cpus))
    assert all(facts.values())
    assert target.describe() == description
    assert all(name and version for name, version in target.tools())


def test_a_trial_returns_an_answer_with_facts(target: Target, program: Callable[[str], str]) -> None:
    answer = target.run(asked(target, program("empty")))
    assert (answer.id, answer.outcome, answer.code) == ("1-0", ProcessOutcome.EXITED, 0)
    facts = dict(answer.facts)
    of_target = {CHILDREN, TREE_CPU_US, TREE_MEMORY_BYTES, *COUNT_FACTS, "uncertain_instructions"}
    assert {name for name in facts if not name.startswith(("board_", "calls.", "kernel."))} <= {*FACTS, *of_target}
    assert facts["wall_ns"] > 0
    assert facts["maxrss_bytes"] > 0
    assert answer.interp is not None
    assert answer.interp.startswith("/lib")
    assert len(answer.objects) >= 2


def test_a_crash_and_a_missing_program_are_answers(target: Target, program: Callable[[str], str]) -> None:
    answer = target.run(asked(target, program("crash"), "1-1"))
    assert (answer.id, answer.outcome, answer.code) == ("1-1", ProcessOutcome.SIGNALED, 11)
    answer = target.run(asked(target, program("absent"), "1-2"))
    assert (answer.id, answer.outcome, answer.code) == ("1-2", ProcessOutcome.UNSTARTED, 2)
    assert target.run(asked(target, program("empty"), "1-3")).outcome is ProcessOutcome.EXITED


def test_an_invalid_request_is_refused_and_the_next_one_runs(target: Target, program: Callable[[str], str]) -> None:
    with pytest.raises(WireError):
        target.run(asked(target, program("empty"), nice=99))
    with pytest.raises(WireError):
        target.run(asked(target, program("empty"), "no identifier"))
    assert target.run(asked(target, program("empty"))).outcome is ProcessOutcome.EXITED


def test_pinning_and_priority_are_observed(target: Target, program: Callable[[str], str]) -> None:
    cpu = target.describe().cpus[-1]
    facts = dict(target.run(asked(target, program("empty"), cpus=(cpu,), nice=3)).facts)
    assert facts["cpus_allowed"] == 1
    assert facts["nice"] == 3


def test_standard_input_and_output_may_be_files(target: Target, program: Callable[[str], str], tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.write_bytes(b"")
    path = str(given) if "shares_files" in target.offers else "/dev/null"
    answer = target.run(asked(target, program("empty"), stdin=path, stdout="/dev/null"))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
    with pytest.raises(WireError, match="a path is not absolute"):
        target.run(asked(target, program("empty"), stdin="in"))


def test_only_regular_files_that_a_trial_wrote_are_opened(target: Target, tmp_path: Path) -> None:
    """The words are the end of a sentence about the file."""
    (tmp_path / "file").write_bytes(b"content")
    if "shares_files" not in target.offers:
        with pytest.raises(UserError, match=r"is on the target .*, whose files can't be read"):
            target.open_file(str(tmp_path / "file"))
        return
    with target.open_file(str(tmp_path / "file")) as file:
        assert file.read() == b"content"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "fifo")
    for name, words in (
        ("absent", "is missing"),
        ("file/below", "is missing"),
        (".", "is a folder, no regular file"),
        ("link", "is a symbolic link, no regular file"),
        ("fifo", "is a FIFO, no regular file"),
        ("/dev/null", "is a device, no regular file"),
        ("a\0b", "can't be read: its name has a zero byte"),
        ("x" * 300, "can't be read: File name too long"),
    ):
        with pytest.raises(UserError, match=f"^{words}"):
            target.open_file(str(tmp_path / name) if name != "." else str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_all_program_paths_have_the_same_length(kind: str, tmp_path: Path, shared: Shared) -> None:
    paths = []
    with open_kind(kind, tmp_path, shared) as target:
        if "runs_programs" not in target.offers:
            pytest.skip("nothing is put there")
        for name in ("one", "two"):
            (tmp_path / name).write_bytes(b"")
            (tmp_path / name).chmod(0o755)
            paths.append(target.put(tmp_path / name))
    assert len(set(map(len, paths))) == 1
    assert all(os.path.isabs(path) for path in paths)  # noqa: PTH117 # a path of the target, not of this machine


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_can_be_closed_twice(kind: str, tmp_path: Path, shared: Shared) -> None:
    opened = open_kind(kind, tmp_path, shared)
    opened.close()
    opened.close()


def test_the_environment_is_observed(target: Target, program: Callable[[str], str]) -> None:
    what = (environment_variable("SET"), environment_variable("UNSET"))
    request = asked(target, program("empty"), environment=(("SET", "a b%"),), observe=what)
    answer = target.run(request)
    assert answer.observed == ((what[0], "a b%"),)
    assert answer.absent == (what[1],)
