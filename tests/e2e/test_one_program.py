# SPDX-License-Identifier: MIT OR Apache-2.0
"""One program alone: its values, their record, and a later session against it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Run, UserError
from swapstone.core.record import RecordView, load
from swapstone.core.report.export import EXPORTS
from swapstone.core.session.earlier_session import require_same_machine, require_same_reference, with_earlier
from tests.e2e.cli import swapstone

PROGRAM = "#!/bin/sh\necho hello $1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "prog", PROGRAM)


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def compare(tmp_path: Path, out: str, *arguments: str, expect: int = 0) -> str:
    done = swapstone(tmp_path, "compare", "--out", str(tmp_path / out), *arguments, expect=expect)
    return done.stdout + done.stderr


def text_of(tmp_path: Path, *arguments: str) -> str:
    return swapstone(tmp_path, *arguments).stdout


def test_one_program_has_values_in_every_format(tmp_path: Path) -> None:
    text = compare(tmp_path, "r", "./prog you", "--blocks", "9")
    assert re.search(
        r"^prog (takes|uses) [0-9.]+ \w+ \([0-9.]+( \w+)? to [0-9.]+( \w+)?\)( of CPU time)? and [0-9.]+ \w+\.",
        text,
        re.MULTILINE,
    )
    assert r"Output of prog: 'hello you\n' on standard output, the same in all" in text
    assert "swapstone compare --against " in text and "/prog you'" in text
    every = text_of(tmp_path, "show", "r", "--all")
    assert "\nThe reference program\n" in every and "candidate" not in every.partition("How to read")[0]
    assert "Whole and unaltered" in text_of(tmp_path, "verify", "r")
    for name in EXPORTS:
        assert text_of(tmp_path, "export", "r", "--format", name) or name == "effects", name
    found = json.loads(text_of(tmp_path, "export", "r", "--format", "json"))
    values = {(each["suite"], each["metric"]["name"]): each for each in found["analysis"]["comparisons"]}
    assert {each["verdict"] for each in values.values()} <= {"measured", "unavailable"}
    wall = values["own", "wall"]
    assert (wall["scale"], wall["baseline"], len(wall["candidate_values"])) == ("value", wall["candidate"], 9)
    assert wall["low"] <= wall["effect"] <= wall["high"]
    assert "<html" in text_of(tmp_path, "report", "r", "--html", "--out", "-")


@pytest.mark.parametrize("command", [("--", "./prog", "you"), ("./prog you", "-n", "mine"), ("--shell", "./prog you")])
def test_each_way_to_name_a_program_names_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    head, *rest = command
    arguments = ("--blocks", "1", head, *rest) if head == "--" else (*command, "--blocks", "1")
    compare(tmp_path, "r", *arguments)
    assert load(tmp_path / "r").experiment.alone


def test_one_program_alone_has_no_null(tmp_path: Path) -> None:
    message = compare(tmp_path, "r", "./prog", "--null", expect=2)
    assert "one program has no baseline" in message and "--against RECORD" in message


def test_a_program_that_fails_is_named_without_a_variant(tmp_path: Path) -> None:
    write(tmp_path / "prog", "#!/bin/sh\nexit 3\n")
    message = compare(tmp_path, "r", "./prog", "--blocks", "1", expect=4)
    assert "prog can't be measured: it ended with status 3" in message


def test_a_later_session_is_compared_with_the_runs_of_the_first(tmp_path: Path) -> None:
    compare(tmp_path, "then", "./prog you", "--blocks", "6", "--budget", "1h")
    first = load(tmp_path / "then")
    write(tmp_path / "prog", PROGRAM + "# changed\n")
    text = compare(tmp_path, "now", "--against", "then", "./prog you")
    assert "session: now against before" in text and "The two sessions are not interleaved." in text
    assert f"Before: the record {first.meta.id} of " in text and "too few runs" in text
    second = load(tmp_path / "now")
    assert second.experiment.blocks == 6 and second.experiment.seed == first.experiment.seed
    assert first.experiment.timed and not second.experiment.timed, "its blocks are as many as those of then"
    of = {
        label: [run for run in second.runs if run.trial.variant == label] for label in ("session=before", "session=now")
    }
    assert [same(run) for run in of["session=before"]] == [same(run) for run in first.runs]
    assert {run.trial.key.replace("now", "before") for run in of["session=now"]} >= {
        run.trial.key for run in of["session=before"]
    }
    programs = (
        {each.variant: each.sha256 for each in second.manifest.artifacts if each.workload == "prog"}
        if second.manifest
        else {}
    )
    assert len(set(programs.values())) == 2
    assert "Unaltered" in text_of(tmp_path, "verify", "now")


def same(run: Run) -> tuple[object, ...]:
    return run.trial.block, run.trial.prime, run.samples, run.started_unix_ns, run.output, run.answer


def test_a_session_that_was_interrupted_is_resumed_and_none_is_rerun(tmp_path: Path) -> None:
    compare(tmp_path, "then", "./prog you", "--blocks", "2")
    compare(tmp_path, "now", "--against", "then", "./prog you")
    lines = (tmp_path / "now" / "runs.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "now" / "runs.jsonl").write_text("".join(lines[:-1]))
    (tmp_path / "now" / "seal.json").unlink()
    text = swapstone(tmp_path, "compare", "--resume", "now").stdout
    assert "session: now against before" in text
    assert len(load(tmp_path / "now").runs) == len(lines)
    assert "Unaltered" in text_of(tmp_path, "verify", "now")
    assert (
        "takes no other budget" in swapstone(tmp_path, "compare", "--resume", "now", "--budget", "1m", expect=2).stderr
    )
    assert "which can't be made again" in swapstone(tmp_path, "rerun", "now", expect=2).stderr


def spoiled(folder: Path) -> None:
    runs = folder / "runs.jsonl"
    runs.write_text(runs.read_text().replace('"wall"', '"wail"', 1))


@pytest.mark.parametrize(
    ("spoil", "command", "message"),
    [
        (lambda _: None, ("./prog me",), "is of another program, or of other options of it: "),
        (lambda _: None, ("./prog you", "./prog me"), "and here something else varies"),
        (lambda _: None, ("--env", "A=1", "./prog you"), "is of another program, or of other options of it: "),
        (spoiled, ("./prog you",), "has been altered, so nothing is compared with it: "),
        (lambda folder: (folder / "manifest.json").unlink(), ("./prog you",), "has been altered"),
        (shutil.rmtree, ("./prog you",), "then"),
    ],
    ids=["arguments", "two-programs", "environment", "edited", "without-manifest", "gone"],
)
def test_another_or_a_damaged_record_is_one_error(
    tmp_path: Path, spoil: Callable[[Path], None], command: tuple[str, ...], message: str
) -> None:
    compare(tmp_path, "then", "./prog you", "--blocks", "1")
    spoil(tmp_path / "then")
    text = compare(tmp_path, "now", "--against", "then", *command, expect=2)
    assert message in text and "Traceback" not in text
    assert not (tmp_path / "now").exists()


def test_a_record_of_variants_is_refused(tmp_path: Path) -> None:
    compare(tmp_path, "then", "./prog you", "./prog me", "--output-may-differ", "--blocks", "1")
    text = compare(tmp_path, "now", "--against", "then", "./prog you", expect=2)
    assert "compares variants; --against takes the record of one program" in text and "swapstone compare" in text


@pytest.fixture
def view(tmp_path: Path) -> RecordView:
    compare(tmp_path, "then", "./prog you", "--blocks", "1")
    return load(tmp_path / "then")


def test_another_machine_is_refused_with_both_values_and_another_kernel_is_not(view: RecordView) -> None:
    assert view.manifest is not None
    machine = dict(view.manifest.machine)
    require_same_machine(view, tuple((machine | {"kernel": "Linux 9", "microcode": "0x9"}).items()))
    size = int(machine["memory_bytes"])
    require_same_machine(view, tuple((machine | {"memory_bytes": str(round(size * 0.99))}).items()))
    with pytest.raises(UserError) as error:
        others = {"governor": "powersave", "memory_bytes": str(size // 2), "cpu": "Z80", "virtualization": "kvm"}
        require_same_machine(view, tuple((machine | others).items()))
    assert "processor: " in error.value.message and "Z80 now" in error.value.message
    assert f"memory: {size} then, {size // 2} now" in error.value.message
    assert "powersave now" in error.value.message and "kvm now" in error.value.message
    assert "without --against" in error.value.hint


def test_another_reference_program_is_refused(view: RecordView) -> None:
    assert view.manifest is not None
    require_same_reference(view)
    artifacts = tuple(msgspec.structs.replace(each, sha256="0" * 64) for each in view.manifest.artifacts)
    other = msgspec.structs.replace(view, manifest=msgspec.structs.replace(view.manifest, artifacts=artifacts))
    with pytest.raises(UserError, match="another build of the reference program"):
        require_same_reference(other)


def test_another_place_is_refused(view: RecordView) -> None:
    other = msgspec.structs.replace(view.experiment, loads=("idle", "cpu"))
    with pytest.raises(UserError, match="has another loads: "):
        with_earlier(view, other)
    with pytest.raises(UserError, match="no reference program is measured there"):
        with_earlier(view, msgspec.structs.replace(view.experiment, workloads=view.experiment.workloads[:1]))
