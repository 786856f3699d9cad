# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record of another user, of another machine, or that was edited: its commands are listed and not run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import swapstone
from swapstone.core.model import (
    CommandLine,
    Experiment,
    FactorLevels,
    LoadGenerator,
    OwnProgram,
    RecordError,
    UserError,
)
from swapstone.core.record import Manifest, RecordWriter, load
from swapstone.core.session import experiment, study, trust
from swapstone.core.session import experiment as experiments
from swapstone.core.session.run_options import RunOptions
from swapstone.core.session.study_file import decode_study
from swapstone.core.session.trust import UntrustedRecordError, distrust_reason, planned_commands, planned_study_commands
from swapstone.parts.explain.session import explain
from tests.e2e.cli import fake
from tests.e2e.cli import swapstone as command
from tests.small_records import compared
from tests.unit import builders

EVIL = "touch '/tmp/x y'; \x1b]52;c;ZXZpbA==\x07\nrm -rf ~"

OWN = OwnProgram(
    name="prog",
    arguments=("./prog", "{N}", "a b"),
    source="/src/of prog",
    build="make CC={cc}",
    parameters=(("N", ("1", "$(evil)")),),
    directory="/work",
    environment=(("LD_PRELOAD", "/evil.so"),),
    setup="setup-command",
    prepare=EVIL,
    conclude="conclude-command",
    stdin="/etc/shadow",
    output="/home/me/.bashrc",
    libraries=("zlib",),
    artifacts=("out.txt",),
)


def _experiment(own: OwnProgram = OWN, **changes: object) -> Experiment:
    return builders.experiment(own=own, workloads=(("own", "prog"),), **changes)


def _made(path: Path, subject: Experiment, *, seal: bool = False) -> Path:
    with RecordWriter.create(path, subject) as writer:
        writer.write_manifest(Manifest(machine=(), tools=(), artifacts=(), passes=()))
        if seal:
            writer.seal("interrupted", "the user stopped it", "")
    return path


def _edit(record: Path) -> None:
    """Edit the experiment, and leave marks and seal."""
    path = record / "experiment.json"
    content = json.loads(path.read_text())
    content["own"]["prepare"] = "another command"
    path.write_text(json.dumps(content))


def _foreign(record: Path) -> None:
    (record / "origin.json").unlink()


ACTIONS: dict[str, Callable[[Path, bool], object]] = {
    "rerun": lambda path, trust: experiment.rerun(load(path), path.parent / "again", trust=trust),
    "resume": lambda path, trust: experiments.resume(path, options=RunOptions(trust=trust)),
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of what would have been run: opening a target is the first step of all of it."""
    found: list[str] = []

    def opened(subject: Experiment, *_: object, **__: object) -> object:
        assert subject.own is not None
        found.append(subject.own.prepare)
        raise UserError("the target was opened")

    monkeypatch.setattr(experiments, "open_experiment_target", opened)
    monkeypatch.setattr(experiments, "check_levels", lambda *_: None)
    return found


@pytest.mark.parametrize("change", [_edit, _foreign])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_edited_or_foreign_record_runs_only_by_the_users_word(
    tmp_path: Path, started: list[str], action: str, change: Callable[[Path], None]
) -> None:
    record = _made(tmp_path / "r", _experiment())
    change(record)
    before = {path.name: path.read_bytes() for path in record.iterdir() if path.is_file()}
    with pytest.raises(UntrustedRecordError) as caught:
        ACTIONS[action](record, False)
    assert not started
    assert {path.name: path.read_bytes() for path in record.iterdir() if path.is_file()} == before
    assert "Nothing was run." in caught.value.message and "--trust" in caught.value.hint
    assert any("conclude-command" in line for line in caught.value.commands)
    with pytest.raises(UserError, match="the target was opened"):
        ACTIONS[action](record, True)
    assert started == ["another command" if change is _edit else EVIL]


def test_an_experiment_that_is_exchanged_after_the_check_is_not_resumed(
    tmp_path: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _made(tmp_path / "r", _experiment())
    check = trust.require_own_record

    def exchanging(path: Path, action: str, **given: bool) -> None:
        check(path, action, trust=given["trust"])
        _edit(path)

    monkeypatch.setattr(experiments, "require_own_record", exchanging)
    with pytest.raises(UntrustedRecordError, match="another command"):
        ACTIONS["resume"](record, False)
    assert not started


def test_a_manifest_that_changed_since_it_was_read_is_not_used(tmp_path: Path) -> None:
    record = _made(tmp_path / "r", _experiment(), seal=True)
    view = load(record)
    assert view.manifest is not None and distrust_reason(view) == ""
    other = msgspec.structs.replace(view.manifest, tools=(("cc", "other"),))
    assert "manifest.json changed" in distrust_reason(msgspec.structs.replace(view, manifest=other))


@pytest.mark.parametrize("action", ACTIONS)
def test_an_own_record_runs_without_a_question(tmp_path: Path, started: list[str], action: str) -> None:
    record = _made(tmp_path / "r", _experiment())
    with pytest.raises(UserError, match="the target was opened"):
        ACTIONS[action](record, False)
    assert started == [EVIL]


def test_a_last_line_that_a_signal_cut_is_no_edit(tmp_path: Path, started: list[str]) -> None:
    record = _made(tmp_path / "r", _experiment())
    with (record / "runs.jsonl").open("ab") as file:
        file.write(b'{"number": 1, "prev')
    assert load(record).damages
    for action in ACTIONS.values():
        with pytest.raises(UserError, match="the target was opened"):
            action(record, False)
    assert len(started) == 2


def test_a_damaged_record_is_repeated_only_by_the_users_word(tmp_path: Path, started: list[str]) -> None:
    record = _made(tmp_path / "r", _experiment(), seal=True)
    (record / "runs.jsonl").write_text("no line of a record\n")
    with pytest.raises(UntrustedRecordError, match=r"damaged or was edited \(runs\.jsonl, line 1"):
        ACTIONS["rerun"](record, False)
    with pytest.raises(UserError, match="the target was opened"):
        ACTIONS["rerun"](record, True)
    assert started == [EVIL]


@pytest.mark.slow
def test_resuming_with_trust_makes_the_record_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "r"
    again = tmp_path / "again"
    compared(libc="glibc,musl", out=record, only="b_string_strlen", blocks=3, seed=1, target=fake(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    with pytest.raises(UntrustedRecordError, match="this user has no key yet"):
        swapstone.load(record).resume("1m")
    with pytest.raises(UntrustedRecordError, match="this user has no key yet"):
        swapstone.load(record).rerun(again)
    assert not again.exists()
    swapstone.load(record).resume("1m", trust=True)
    assert distrust_reason(load(record)) == ""
    assert swapstone.load(record).rerun(again).state == "complete"


def test_the_list_has_every_command_file_and_value(tmp_path: Path) -> None:
    del tmp_path
    factors = (
        FactorLevels(factor="compiler", levels=("gcc", "gcc -wrapper evil", "/evil/gcc -B/evil")),
        FactorLevels(factor="{jobs}", levels=("1", "2; evil")),
        FactorLevels(factor="env:PATH", levels=("/bin", "/evil/bin")),
    )
    held = (("allocator", "/evil/malloc.so"),)
    lines = planned_commands(_experiment(factors=factors, held=held, modules=(("/evil/bzImage", "/evil/modules"),)))
    assert lines == (
        "load the modules of the kernel /evil/bzImage from /evil/modules",
        "run: ./prog '{N}' 'a b'",
        "copy for each variant the folder: /src/of prog",
        "build for each variant, by /bin/sh -c: make CC={cc}",
        "replace the placeholder: N=1, '$(evil)'",
        "run all of these in the folder: /work",
        "set the environment variable: LD_PRELOAD=/evil.so",
        "run once for each variant, by /bin/sh -c: setup-command",
        "run before each trial, by /bin/sh -c: touch '/tmp/x y'; \\x1b]52;c;ZXZpbA==\\x07\\x0arm -rf ~",
        "run after each trial, by /bin/sh -c: conclude-command",
        "read standard input from: /etc/shadow",
        "empty, and write standard output in each trial to: /home/me/.bashrc",
        "build the library: zlib",
        "read what the program should have written to: out.txt",
        "use as the compiler, which is run or loaded: gcc -wrapper evil",
        "use as the compiler, which is run or loaded: /evil/gcc -B/evil",
        "replace {jobs} by 1, '2; evil'",
        "set the environment variable PATH to /bin, /evil/bin",
        "use as the allocator, which is run or loaded: /evil/malloc.so",
    )


def test_servers_shells_programs_and_kernels_are_in_the_list() -> None:
    generator = LoadGenerator(command=("wrk", "http://127.0.0.1:{port}/"), reader="wrk")
    server = OwnProgram(name="s", arguments=("./server", "{port}"), load_generators=(generator,))
    assert planned_commands(_experiment(server))[0:2] == (
        "run: ./server '{port}'",
        "run as the load generator: wrk 'http://127.0.0.1:{port}/'",
    )
    shell = OwnProgram(
        name="s",
        arguments=(),
        shell=True,
        commands=(CommandLine(name="a", words=("a | b",), environment=(("X", "1 2"),)),),
    )
    assert planned_commands(_experiment(shell))[:2] == ("run: 'X=1 2' 'a | b'", "run commands by /bin/sh -c: True")
    files = OwnProgram(name="s", arguments=("./p",), files=("/home/me/key",))
    assert "copy into a virtual machine: /home/me/key" in planned_commands(_experiment(files))
    programs = OwnProgram(name="s", arguments=("ARG",), programs=(("old", "/a/old"), ("new", "/a/new")))
    assert planned_commands(_experiment(programs)) == ("run: ARG", "run: old=/a/old", "run: new=/a/new")
    bundled = planned_commands(builders.experiment(target="vm:/evil/bzImage"))
    assert bundled == (
        "boot virtual machines with the kernel /evil/bzImage",
        "run Swapstone's own workloads of libc: b_malloc_tiny1, b_string_strlen",
    )


def test_every_text_of_an_own_program_is_in_the_list() -> None:
    """A field that is added later must not be left out: each text of the record's program appears."""
    not_run = {
        "name",
        "numbers",
        "cpus",
        "waits",
        "timeout_ms",
        "build_timeout_ms",
        "ignore_failure",
        "output_may_differ",
        "shell",
        "memory_bytes",
    }
    covered = {
        *(
            "arguments",
            "source",
            "build",
            "programs",
            "commands",
            "parameters",
            "directory",
            "environment",
            "inherited",
        ),
        *("setup", "prepare", "conclude", "stdin", "output", "libraries", "artifacts", "load_generators", "files"),
    }
    assert set(OwnProgram.__struct_fields__) == not_run | covered


STUDY = b"""
title = "t"
question = "q?"
[[part]]
name = "one"
title = "One"
factor = [{ name = "env:X", levels = ["1", "2"] }]
[part.program]
command = "./prog ARG"
source = "src"
build = "evil-build"
setup = "evil-setup"
prepare = "evil-prepare"
conclude = "evil-conclude"
output = "/home/me/.profile"
env = { LD_PRELOAD = "/evil.so" }
"""


def test_a_study_of_another_user_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = study.plan_study("mine", decode_study(STUDY, "mine.toml"), seed=1)
    run = msgspec.structs.replace(run, target="vm:/evil/bzImage", directory="/evil")
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "study.json").write_bytes(run.encoded())
    monkeypatch.setattr(study, "plan_parts", lambda *_: pytest.fail("names were resolved, which may run compilers"))
    with pytest.raises(UntrustedRecordError) as caught:
        study.resume_study(folder)
    lines = planned_study_commands(run.chosen, run.target, run.directory)
    assert caught.value.commands == lines
    assert {
        "relative paths start in the folder /evil",
        "one: boot virtual machines with the kernel /evil/bzImage",
    } <= set(lines)
    for text in (
        "evil-build",
        "evil-setup",
        "evil-prepare",
        "evil-conclude",
        "./prog ARG",
        "/evil.so",
        "/home/me/.profile",
    ):
        assert text in caught.value.message


def test_a_part_of_a_study_that_was_edited_or_replaced_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = study.plan_study("mine", decode_study(STUDY, "mine.toml"), seed=1)
    folder = tmp_path / "s"
    folder.mkdir()
    study._write_run(run, folder)
    monkeypatch.setattr(study, "plan_parts", lambda *_: pytest.fail("names were resolved"))
    record = _made(folder / "one", _experiment())
    _edit(record)
    with pytest.raises(UntrustedRecordError, match="another command"):
        study.resume_study(folder)
    shutil.move(record, tmp_path / "elsewhere")
    record.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError, match="is a symbolic link"):
        study.resume_study(folder, options=RunOptions(trust=True))


def test_explain_runs_nothing_of_an_untrusted_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = fake(tmp_path)
    record = compared(libc="glibc,musl", out=tmp_path / "r", only="b_string_strlen", blocks=6, seed=1, target=target)
    _foreign(record.path)
    monkeypatch.setattr(explain, "require_host_record", lambda *_: pytest.fail("it went on"))
    with pytest.raises(UntrustedRecordError, match="run all of it under: ") as caught:
        record.explain("b_string_strlen")
    assert not (record.path / "explain").exists()
    assert "explain the row" in caught.value.message


def test_trials_are_recomputed_only_of_a_trusted_record(tmp_path: Path) -> None:
    record = _made(tmp_path / "r", builders.experiment(clock="virtual", target="vm"))
    _foreign(record)
    with pytest.raises(UntrustedRecordError, match="boot virtual machines"):
        swapstone.load(record).verify(2)


@pytest.mark.slow
def test_the_command_line_prints_the_list_and_trust_needs_a_resumed_record(tmp_path: Path) -> None:
    record = _made(tmp_path / "r", _experiment())
    _foreign(record)
    for arguments in (("rerun", "r"), ("compare", "--resume", "r"), ("study", "--resume", "r")):
        refused = command(tmp_path, *arguments, expect=2)
        assert "error: r is not trusted: it has no origin.json" in refused.stderr
        assert "\\x1b]52;c;ZXZpbA==\\x07\\x0arm -rf ~\n" in refused.stderr and "\x1b" not in refused.stderr
        assert "add --trust" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]
    assert "--resume RECORD" in command(tmp_path, "compare", "libc=glibc,musl", "--trust", expect=2).stderr
    assert "Leave --trust out" in command(tmp_path, "study", "musl-vs-glibc", "--trust", expect=2).stderr


def test_a_record_made_where_no_key_can_be_is_complete_and_then_needs_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    record = swapstone.compare(
        swapstone.Workloads(only=["b_string_strlen"]),
        swapstone.Measuring(blocks=2),
        swapstone.Place(target=fake(tmp_path)),
        libc=["glibc", "musl"],
        out=tmp_path / "r",
    )
    assert record.state == "complete" and record.verify().ok
    with pytest.raises(UntrustedRecordError):
        record.rerun(tmp_path / "again")


def test_experiments_of_stored_records_are_what_is_marked(tmp_path: Path) -> None:
    """The marks are of the bytes on disk: an encoding that changes between versions must not make own records foreign."""
    record = _made(tmp_path / "r", _experiment())
    content = msgspec.json.decode((record / "experiment.json").read_bytes())
    (record / "experiment.json").write_bytes(msgspec.json.encode(content))  # the same experiment, other bytes
    assert "experiment.json" in distrust_reason(load(record))
