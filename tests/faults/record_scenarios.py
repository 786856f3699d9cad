# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work on records: experiments, studies, boards, reports and explanations."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from tests.e2e.cli import FAKE, runs_of
from tests.fake_ssh import FakeSsh
from tests.faults.children import Action, Ended, Place, command, reported, run_child
from tests.faults.injection import CRASH, Fault
from tests.faults.scenario import AGAIN, COMPLETE, RESUMED, SHOWN, Scenario, commands_in

FACTOR = ("libc=glibc,musl", "--only", "b_malloc_tiny1", "--seed", "11", "--target", "fake:fake.toml")
SHORT = ("--blocks", "2", "--correction", "family")
QUERY = "SELECT record, state, runs FROM records ORDER BY ALL"
STUDY = """
title = "t"
question = "q"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
[[part]]
name = "one"
title = "One"
suites = ["libc"]
only = ["b_malloc_tiny1"]
budget = "1m"
[[part]]
name = "two"
title = "Two"
suites = ["libc"]
only = ["b_string_strlen"]
budget = "1m"
"""


class Records(Scenario):
    """Work that writes a record, beside another record that is complete."""

    other: ClassVar[str] = "records/other"
    record: ClassVar[str] = "records/r"

    def prepare(self) -> None:
        (self.base / "fake.toml").write_text(FAKE)
        made = run_child(self.place(self.base), command("compare", *FACTOR, *SHORT, "--out", self.other))
        self.require(made.status == 0, "no record can be made", made)

    def records(self) -> tuple[str, ...]:
        """Return the records that must be equal to those of the undisturbed one."""
        return (self.record,)

    def result(self, place: Place) -> object:
        """Return the runs and the digest of the verdicts of each record; they are verified."""
        return {name: self.runs_and_verdicts(place, name) for name in self.records()}

    def runs_and_verdicts(self, place: Place, name: str) -> object:
        verified = run_child(place, command("verify", name))
        self.require(verified.status == 0 and "Whole and unaltered" in verified.out, f"verify {name}", verified)
        record = place.folder / name
        left = [str(path) for path in record.rglob(".*")]
        self.require(not left, f"temporary files are left: {left}")
        return self.comparable(record)

    def comparable(self, record: Path) -> object:
        """Return what is the same in each undisturbed repetition."""
        return (runs_of(record), json.loads((record / "seal.json").read_text())["verdicts"])

    def survey(self, place: Place, fault: Fault) -> None:
        """`query` reads all records, whatever the fault left."""
        asked = run_child(place, command("query", QUERY, "--json"))
        self.require_no_traceback(asked)
        self.require(asked.status == 0, "query fails", asked)
        states = {row["record"]: row["state"] for row in json.loads(asked.out)["rows"]}
        self.require(states.get("other") == "complete", f"query finds {states}", asked)
        for name in self.records():
            if name.removeprefix("records/") in states:
                shown = run_child(place, command("show", name))
                self.require_no_traceback(shown)

    def recover(self, place: Place, ended: Ended) -> str:
        """Take the step that the error names; after a crash, resume what is a record, and start again what is none."""
        named = commands_in(ended.err)
        if named:
            steps = [(RESUMED if "--resume" in named[-1] else SHOWN, command(*named[-1]))]
        elif ended.status == CRASH and (place.folder / self.record / "record.json").is_file():
            steps = [(RESUMED, command("compare", "--resume", self.record))]
        else:
            steps = [(AGAIN, self.action())]
        (step, action) = steps[0]
        again = run_child(place, action)
        self.require_no_traceback(again)
        if (
            step == AGAIN and again.status == 2 and commands_in(again.err)
        ):  # it is a record: the error names how to continue it
            again = run_child(place, command(*commands_in(again.err)[-1]))
            self.require_no_traceback(again)
        if again.status == 2 and "there is nothing to resume" in again.err:
            return COMPLETE  # `result` verifies it
        self.require(again.status == 0, f"the next step ({step}) fails", again)
        return step


class Experiment(Records):
    """An experiment on the fake target."""

    name = "experiment"
    title = "an experiment (fake target)"

    def action(self) -> Action:
        return command("compare", *FACTOR, *SHORT, "--out", self.record)


class Resumed(Records):
    """A record without a seal that is resumed."""

    name = "resume"
    title = "an experiment that is resumed after a crash"

    def prepare(self) -> None:
        super().prepare()
        place = self.place(self.base)
        start = command("compare", *FACTOR, *SHORT, "--out", self.record)
        counted = self.copy_of_base(start)
        appends = [
            number
            for number, each in enumerate(counted.operations)
            if each.kind == "write" and each.path.endswith("/runs.jsonl")
        ]
        ended = run_child(place, start, Fault("torn", appends[len(appends) // 2]))
        self.require(ended.status == CRASH, "no crash", ended)

    def copy_of_base(self, action: Action) -> Ended:
        folder = self.folder / "counted"
        shutil.copytree(self.base, folder)
        return run_child(self.place(folder), action, count=True)

    def action(self) -> Action:
        return command("compare", "--resume", self.record)


class Extended(Records):
    """A complete record that gets a larger budget."""

    name = "more-budget"
    title = "a complete experiment that is resumed with a larger budget"

    def prepare(self) -> None:
        super().prepare()
        made = run_child(self.place(self.base), command("compare", *FACTOR, *SHORT, "--out", self.record))
        self.require(made.status == 0, "no record can be made", made)

    def action(self) -> Action:
        return command("compare", "--resume", self.record, "--budget", "1m")

    def recover(self, place: Place, ended: Ended) -> str:
        """Give the command again, after the step that an error names."""
        if commands_in(ended.err):
            super().recover(place, ended)
        again = run_child(place, self.action())
        self.require(again.status == 0, "the same command fails when it is repeated", again)
        return AGAIN


class StudyOfParts(Records):
    """A study of two parts on the fake target."""

    name = "study"
    title = "a study of two parts (fake target)"
    folder_name: ClassVar[str] = "records/s"

    def prepare(self) -> None:
        super().prepare()
        (self.base / "two.toml").write_text(STUDY)

    def records(self) -> tuple[str, ...]:
        return (f"{self.folder_name}/one", f"{self.folder_name}/two")

    def action(self) -> Action:
        target = ("--target", "fake:fake.toml", "--blocks", "2", "--seed", "5", "--out", self.folder_name)
        return command("study", "./two.toml", *target)

    def result(self, place: Place) -> object:
        index = json.loads((place.folder / self.folder_name / "index.json").read_text())["index"]
        states = [part["state"] for part in index["parts"]]
        page = (place.folder / self.folder_name / "index.html").read_text()
        self.require("--resume" not in page, "the index has the study as not complete")
        left = [str(path) for path in (place.folder / self.folder_name).rglob(".*")]
        self.require(not left, f"temporary files are left: {left}")
        return {"records": super().result(place), "states": states}

    def has_next_step(self, ended: Ended) -> bool:
        """Return whether there is one; where a part failed, the index has it."""
        return super().has_next_step(ended) or "--resume" in ended.out

    def recover(self, place: Place, ended: Ended) -> str:
        named = commands_in(ended.err)
        if (place.folder / self.folder_name / "study.json").is_file():
            named = named or [["study", "--resume", self.folder_name]]
        for words in [*named[-1:], ["study", "--resume", self.folder_name]] if named else []:
            again = run_child(place, command(*words))
            self.require_no_traceback(again)
            self.require(again.status == 0, "the study can't be resumed", again)
        return RESUMED if named else super(Records, self).recover(place, ended)


class Host(Records):
    """Two commands on this machine, through the agent."""

    name = "host"
    title = "two commands (target host)"
    programs = ("cc", "true")

    def cache(self, folder: Path) -> str:
        return str(self.folder / "cache")  # the agent is built once

    def prepare(self) -> None:
        super().prepare()
        first = run_child(self.place(self.base), self.action())
        self.require(first.status == 0, "nothing can be measured on this machine", first)
        shutil.rmtree(self.base / self.record)

    def action(self) -> Action:
        names = ("-n", "one", "-n", "two", "--blocks", "1", "--seed", "4", "--prime", "0")
        return command("compare", *names, "--out", self.record, "true", "true 2")

    def comparable(self, record: Path) -> object:
        """Return the trials: their times differ."""
        return [(run["trial"], run["status"]) for run in runs_of(record)]


class Board(Host):
    """One workload on a board, with a program in ssh's place that runs the commands on this machine."""

    name = "board"
    title = "a workload on a board (target ssh, with a program in its place)"

    def prepare(self) -> None:
        self.ssh = FakeSsh(self.folder / "board")
        (self.folder / "t").mkdir()
        super().prepare()

    def place(self, folder: Path) -> Place:
        # A path of a socket has at most 107 bytes: the folder of the connection's has a short one.
        changes = {"PATH": self.ssh.path, "TMPDIR": str(self.folder / "t")}
        return Place(folder, {**super().place(folder).environment, **changes})

    def action(self) -> Action:
        row = ("--target", "ssh:board", "libc=glibc,musl", "--only", "b_malloc_tiny1")
        return command("compare", *row, "--blocks", "1", "--seed", "4", "--out", self.record)

    def result(self, place: Place) -> object:
        locks = [path.name for path in self.ssh.folder.glob("swapstone-board-lock-*")]
        scratch = [path.name for path in self.ssh.board.glob("scratch-*")]
        self.require(not locks, f"the board is still locked: {locks}")
        self.require(not scratch, f"folders of trials are left on the board: {scratch}")
        return super().result(place)


class Report(Records):
    """Reports and exports, over older files."""

    name = "report"
    title = "reports and exports"

    FILES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "records/other/report.html": ("report", "records/other", "--html"),
        "out/report.md": ("report", "records/other", "--markdown", "--out", "out/report.md"),
        "out/table.csv": ("export", "records/other", "--format", "csv", "--out", "out/table.csv"),
    }
    OLD: ClassVar[bytes] = b"the older file\n"

    def prepare(self) -> None:
        super().prepare()
        (self.base / "out").mkdir()
        for name in self.FILES:
            (self.base / name).write_bytes(self.OLD)

    def action(self) -> Action:
        actions = [command(*words) for words in self.FILES.values()]
        return lambda: max(action() for action in actions)

    def survey(self, place: Place, fault: Fault) -> None:
        """Each file is the older or the new one."""
        super().survey(place, fault)
        if hasattr(self, "reference"):
            for name in self.FILES:
                data = (place.folder / name).read_bytes()
                whole = data == self.OLD or _normal(data) == self.reference[name]
                self.require(whole, f"{name} is torn: {len(data)} bytes")

    def result(self, place: Place) -> Any:
        left = [str(path) for folder in ("out", self.other) for path in (place.folder / folder).rglob(".*")]
        self.require(not left, f"temporary files are left: {left}")
        return {name: _normal((place.folder / name).read_bytes()) for name in self.FILES}

    def recover(self, place: Place, ended: Ended) -> str:
        return super(Records, self).recover(place, ended)


def _normal(data: bytes) -> str:
    """Return a report without the folder that it is in."""
    return re.sub(r"/[^\s\"'<>]*/(reference|point[^/]*)/", "/", data.decode())


class Explain(Records):
    """The files of an explanation, from measurements of the test's own: instruments need a host record, and take seconds."""

    name = "explain"
    title = "the files of an explanation (measurements made up)"

    def prepare(self) -> None:
        importlib.import_module("tests.unit.explanation.test_ledger")  # once, not in each child
        super().prepare()

    def action(self) -> Action:
        return reported(lambda: _explain(Path(self.other)))

    def survey(self, place: Place, fault: Fault) -> None:
        """A report of the record is printed, whatever there is of the explanation."""
        super().survey(place, fault)
        printed = run_child(place, command("report", self.other, "--markdown"))
        self.require(printed.status == 0, "the record has no report any more", printed)

    def result(self, place: Place) -> object:
        files = sorted((place.folder / self.other / "explain").rglob("*"))
        left = [path.name for path in files if path.name.startswith(".")]
        self.require(not left, f"temporary files are left: {left}")
        kept = [path for path in files if path.is_file() and path.name != "manifest.json"]  # it has a time
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}

    def recover(self, place: Place, ended: Ended) -> str:
        return super(Records, self).recover(place, ended)


def _explain(record: Path) -> None:
    from swapstone.core.record import load
    from swapstone.parts.explain.model.explanation import RowMeasurements
    from swapstone.parts.explain.session import explanation_files
    from tests.unit.explanation.rows import FREE, OWN, row

    view, made = load(record), row(([{OWN: 1}], [1e6]), ([{OWN: 1, FREE: 1}], [2e6]))
    folder = explanation_files.folder_of(view, made.place)
    seen = explanation_files.read(folder, view, RowMeasurements)
    if seen is None:
        seen = made
        explanation_files.store(folder, explanation_files.evidence_files(view, seen))
    explanation_files.write(folder, explanation_files.evidence_pages(seen, explanation_files.explain(seen)))


class CountedExplanation(Explain):
    """The files of an explanation on the exact clock, from instructions and call paths of the test's own."""

    name = "counted"
    title = "the files of an explanation on the exact clock (counts made up)"

    def action(self) -> Action:
        return reported(lambda: _explain_counts(Path(self.other)))


def _explain_counts(record: Path) -> None:
    from tools.fuzz_seeds import PATHS_OF_ROW

    from swapstone.core.record import load
    from swapstone.parts.explain.model.explanation import CountedRow
    from swapstone.parts.explain.session import explanation_files

    view = load(record)
    made = msgspec.json.decode(PATHS_OF_ROW, type=CountedRow)
    folder = explanation_files.folder_of(view, made.place)
    found = explanation_files.read(folder, view, CountedRow)
    if found is None:
        found = msgspec.structs.replace(made, chain=view.last_chain)
        explanation_files.store(folder, explanation_files.evidence_files(view, found))
    explanation_files.write(folder, explanation_files.evidence_pages(found, explanation_files.explain(found)))
