# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is crashed and made to fail: each scenario prepares a folder, runs an action in it, and checks what a fault left behind."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from tests.e2e.cli import FAKE, environment, runs_of
from tests.fake_ssh import FakeSsh
from tests.faults.children import Action, Ended, Place, command, reported, run_child
from tests.faults.injection import CRASH, Fault

if TYPE_CHECKING:
    from swapstone.artifacts.packages import Lock

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

RESUMED, AGAIN, SHOWN, COMPLETE, UNAFFECTED = "resumed", "given again", "shown", "complete already", "unaffected"
"""How a scenario reached its end after a fault."""


class DefectError(Exception):
    """A fault left something behind that it must not."""


class Scenario:
    """One kind of work. Subclasses define what runs and what must hold.

    Attributes:
        name: for the table and the command line.
        title: what it is, for the table.
        programs: that it needs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    programs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        (self.base / "tmp").mkdir(parents=True)
        self.prepare()
        reference = self.copy("reference")
        self.whole = run_child(reference, self.action(), count=True)
        self.require(self.whole.status == 0, f"the undisturbed one ended with {self.whole.status}", self.whole)
        self.reference: Any = self.result(reference)

    def place(self, folder: Path) -> Place:
        """Return a folder as the place of children, with its own folders of records, cache and temporary files."""
        changes = {"TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": self.cache(folder), "OPENBLAS_NUM_THREADS": "1"}
        changes["XDG_STATE_HOME"] = str(self.folder / "state")
        return Place(folder, environment(folder / "records", **changes))

    def cache(self, folder: Path) -> str:
        """Return the cache folder; by default one for each copy."""
        return str(folder / "cache")

    def copy(self, name: str) -> Place:
        """Return a copy of the prepared folder."""
        folder = self.folder / name
        shutil.copytree(self.base, folder, symlinks=True)
        return self.place(folder)

    def prepare(self) -> None:
        """Put what the action needs into `base`."""
        raise NotImplementedError

    def action(self) -> Action:
        """Return what runs."""
        raise NotImplementedError

    def result(self, place: Place) -> object:
        """Return what must be equal to the undisturbed one."""
        raise NotImplementedError

    def survey(self, place: Place, fault: Fault) -> None:
        """Check what must hold before anything is repaired."""

    def recover(self, place: Place, ended: Ended) -> str:
        """Take the next step; return which one it was."""
        again = run_child(place, self.action())
        self.require(again.status == 0, "the same command fails when it is given again", again)
        return AGAIN

    def check(self, name: str, fault: Fault) -> str:
        """Run the action with a fault, then the next step; return which one it was.

        Raises:
            DefectError: a promise is broken.
        """
        place = self.copy(name)
        ended = run_child(place, self.action(), fault)
        self.require_no_traceback(ended)
        crashed = fault.kind in {"crash", "torn"}
        self.require(ended.status in ({CRASH} if crashed else {0, 2}), f"it ended with {ended.status}", ended)
        if ended.status == 2:
            self.require(self.has_next_step(ended), "the error has no next step", ended)
        self.survey(place, fault)
        step = UNAFFECTED if ended.status == 0 else self.recover(place, ended)
        found = self.result(place)
        self.require(found == self.reference, f"the result differs: {_difference(found, self.reference)}", ended)
        shutil.rmtree(place.folder)
        return step

    def has_next_step(self, ended: Ended) -> bool:
        """Return whether an error has a second line, with what to do."""
        _, _, after = ended.err.partition("error: ")
        return len(after.strip().splitlines()) >= 2

    def require(self, condition: bool, problem: str, ended: Ended | None = None) -> None:
        """Raise a `DefectError` unless a condition holds."""
        if not condition:
            raise DefectError(f"{problem}\n{ended.out[-1500:]}{ended.err[-3000:]}" if ended else problem)

    def require_no_traceback(self, ended: Ended) -> None:
        """Require that a child printed no traceback and no report of a bug."""
        printed = ended.out + ended.err
        self.require("Traceback" not in printed and "a bug in" not in printed, "a traceback", ended)


def _difference(found: object, expected: object) -> str:
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [key for key in expected.keys() | found.keys() if found.get(key) != expected.get(key)]
        return "; ".join(f"{key}: {found.get(key)!r:.200}, expected {expected.get(key)!r:.200}" for key in keys[:3])
    return f"{found!r:.300}, expected {expected!r:.300}"


def commands_in(err: str) -> list[list[str]]:
    """Return the commands that an error names."""
    found = re.findall(r"swapstone ((?:(?:compare|study) --resume|show) [^\n`]*)", err)
    return [shlex.split(text) for text in found]


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
        states = {row["record"]: row["state"] for row in json.loads(asked.out)}
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
        self.require(again.status == 0, "the same command fails when it is given again", again)
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
            finished = again.status == 2 and "there is nothing to resume" in again.err
            self.require(again.status == 0 or finished, "the study can't be resumed", again)
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
    from swapstone.explanation import explain, load_classes
    from swapstone.record import load
    from swapstone.session import explanation_files
    from tests.unit.explanation.test_ledger import ONE_THREAD, PLACE

    view, classes = load(record), load_classes()
    folder = explanation_files.folder_of(view, PLACE)
    seen = explanation_files.read(folder, view)
    if seen is None:
        seen = ONE_THREAD
        explanation_files.store(folder, view, seen)
    explanation_files.write(folder, seen, explain(seen, classes), classes)


class CountedExplanation(Explain):
    """The files of an explanation on the exact clock, from instructions and call paths of the test's own."""

    name = "counted"
    title = "the files of an explanation on the exact clock (counts made up)"

    def action(self) -> Action:
        return reported(lambda: _explain_counts(Path(self.other)))


def _explain_counts(record: Path) -> None:
    from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW

    from swapstone.model.instruction_counts import InstructionExplanation
    from swapstone.model.instruction_paths import InstructionPaths
    from swapstone.record import load
    from swapstone.session import explanation_files

    view = load(record)
    made = msgspec.json.decode(COUNTED_ROW, type=InstructionExplanation)
    folder = explanation_files.folder_of(view, made.place)
    found = explanation_files.read_counts(folder, view)
    paths = explanation_files.read_paths(folder, view, found) if found is not None else None
    if found is None or paths is None:
        found = msgspec.structs.replace(made, chain=view.last_chain, no_graph="")
        paths = msgspec.json.decode(PATHS_OF_ROW, type=InstructionPaths)
        paths = msgspec.structs.replace(paths, chain=view.last_chain)
        explanation_files.store_counts(folder, found, paths)
    explanation_files.write_counts(folder, found, paths)


class Cache(Scenario):
    """Something that is built into the cache."""

    def require_collectable(self, place: Place) -> None:
        """Require that the temporary folders that a crash left are those that `swapstone image gc` removes when they are old."""
        listed = run_child(place, reported(_print_leftovers))
        self.require(listed.status == 0, "the cache can't be listed", listed)
        cache = place.folder / "cache" / "swapstone"
        left = {str(path) for path in (*cache.glob(".*"), *cache.glob("*/.*"))}
        self.require(left == set(listed.out.splitlines()), f"left in the cache: {left}", listed)


def _print_leftovers() -> None:
    from swapstone.artifacts.image_cache import other_entries

    for entry in other_entries():
        if entry.kind == "leftover":
            print(entry.path)


class Image(Cache):
    """An image, from packages in the cache."""

    name = "image"
    title = "an image (packages of the test, already fetched)"
    programs = ("apt-get", "apt-cache", "dpkg-deb", "cc")
    fetched: ClassVar[bool] = True

    def prepare(self) -> None:
        from swapstone.artifacts.packages import fetch
        from tests.unit.artifacts.archive import RELEASE, Archive, kernel_files, lock_of, named

        archive = Archive(self.base / "archive")
        (self.folder / "compiled").mkdir()
        generic = archive.add(f"linux-image-{RELEASE}", kernel_files(self.folder / "compiled"))
        shell = archive.add("busybox-static", {"bin/busybox": b"#! a shell"})
        self.lock = lock_of(named(generic, "generic"), shell)
        if self.fetched:
            fetched = run_child(self.place(self.base), reported(lambda: fetch(self.lock.packages, lambda _: None)))
            self.require(fetched.status == 0, "the packages can't be fetched", fetched)

    def place(self, folder: Path) -> Place:
        """Return a place where apt-get uses the archive of the test, at the path that it was made for."""
        place = super().place(folder)
        return Place(folder, {**place.environment, "APT_CONFIG": str(self.base / "archive" / "apt.conf")})

    def action(self) -> Action:
        from swapstone.artifacts.images import ImageRequest, build_image

        request = ImageRequest(architecture="x86_64", modules=("top_one", "inside"), parts=("busybox",))
        return reported(functools.partial(build_image, request, lock=self.lock))

    def result(self, place: Place) -> object:
        self.require_collectable(place)
        (home,) = (path for path in (place.folder / "cache/swapstone/images").iterdir() if _is_home(path))
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in home.iterdir()}


def _is_home(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


class Fetch(Image):
    """The packages of an image, by the real apt-get from an archive in a folder."""

    name = "fetch"
    title = "an image with its packages (the real apt-get, an archive in a folder)"
    fetched = False


class ImageOfLibc(Image):
    """An image of one C library in the folder of ``--out``; its programs are files of the test."""

    name = "libc-image"
    title = "image build --libc (packages and programs of the test)"

    def action(self) -> Action:
        return reported(functools.partial(_build_libc_image, self.lock))

    def result(self, place: Place) -> object:
        out = place.folder / "out"
        written = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
        self.require(set(written) == {"kernel", "initrd", "root.tar", "image.json"}, f"in the folder: {written}")
        return {"out": written, "cache": super().result(place)}


def _build_libc_image(lock: Lock) -> None:
    from swapstone.artifacts import libc_image
    from swapstone.artifacts.image_assembly import Overlay
    from swapstone.artifacts.images import build_image
    from swapstone.artifacts.libc_files import LibcFiles
    from swapstone.artifacts.libc_root import init_entries
    from swapstone.artifacts.sdk import BuiltSdk, Sdk

    sdk = Sdk(
        format=1,
        architecture="x86_64",
        libc="musl",
        triple="x",
        compiler="gcc",
        needs=(),
        packages=(),
        content="0" * 64,
    )
    made = LibcFiles(
        overlays=(Overlay(part="init", entries=init_entries()),),
        observed={},
        programs=(),
        sdk=BuiltSdk(sdk=sdk, folder=Path()),
        library=lock.packages[0],
    )
    for name, value in (
        ("make_libc_files", lambda *_: made),
        ("build_image", functools.partial(build_image, lock=lock)),
    ):
        setattr(libc_image, name, value)  # this process is a fork, and ends after it
    request = libc_image.LibcImageRequest(architecture="x86_64", libc="musl", modules=("top_one", "inside"))
    libc_image.write_libc_image(libc_image.build_libc_image(request, lambda _: None), Path("out"))


class SdkOfGlibc(Cache):
    """An SDK of few files, made in the cache and copied to the folder of ``--out``."""

    name = "sdk"
    title = "sdk --libc glibc (headers and objects of the test)"
    programs = ("gcc", "dpkg")

    def prepare(self) -> None:
        """Nothing is needed: the packages are installed."""

    def action(self) -> Action:
        return reported(_make_sdk)

    def survey(self, place: Place, fault: Fault) -> None:
        """A folder that exists is a whole SDK."""
        out = place.folder / "out"
        self.require(not out.exists() or self.described(out) == self.reference, "the folder has a part of an SDK")

    def recover(self, place: Place, ended: Ended) -> str:
        if (place.folder / "out").exists() and ended.status == CRASH:
            return COMPLETE  # it was renamed to its place before the crash; `result` compares it
        return super().recover(place, ended)

    def described(self, folder: Path) -> object:
        """Return the digest of an SDK's files, and that of its description."""
        from swapstone.artifacts.sdk import content_digest

        return content_digest(folder), json.loads((folder / "sdk.json").read_text())["content"]

    def result(self, place: Place) -> object:
        found = self.described(place.folder / "out")
        left = [path.name for path in place.folder.glob("swapstone-*/*")]
        self.require(not left, f"left beside the folder: {left}")
        if (place.folder / "cache" / "swapstone").exists():
            self.require_collectable(place)
        return found


def _make_sdk() -> None:
    from swapstone.artifacts import sdk
    from swapstone.session.libc_images import make_sdk

    def fill(folder: Path, *_: object) -> None:
        for name in ("include/stdio.h", "lib/crt1.o"):
            (folder / "usr" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "usr" / name).write_text(name)

    for name, value in (("fill_sysroot", fill), ("_try", lambda _: None)):
        setattr(sdk, name, value)  # this process is a fork, and ends after it
    make_sdk("x86_64", "glibc", "out", lambda _: None)


class Allocator(Cache):
    """An allocator: one source file, compiled and linked by the real compiler."""

    name = "allocator"
    title = "an allocator (one source file of the test, the real compiler)"
    programs = ("cc",)

    def prepare(self) -> None:
        top = self.folder / "pack-1.0"
        top.mkdir()
        (top / "x.c").write_text("void *malloc(unsigned long n) { return 0; }\n")
        self.archive = self.folder / "pack_1.0.orig.tar.gz"
        with tarfile.open(self.archive, "w:gz") as opened:
            opened.add(top, "pack-1.0")

    def action(self) -> Action:
        return reported(functools.partial(_build_allocator, self.archive))

    def result(self, place: Place) -> object:
        self.require_collectable(place)
        homes = [path for path in (place.folder / "cache/swapstone/allocators").iterdir() if _is_home(path)]
        self.require(len(homes) == 1, f"folders: {homes}")
        return {path.name: path.stat().st_size > 0 for path in homes[0].iterdir()}


def _build_allocator(archive: Path) -> None:
    from swapstone.artifacts import BASE_RECIPE, allocators, resolve_recipe
    from swapstone.artifacts.allocators import Plan

    step = ("cc", "-fPIC", "-w", "-c", "{source}/x.c", "-o", "x.o")
    setattr(allocators, "fetch", lambda _: archive)  # noqa: B010 - this process is a fork, and ends after it
    allocators._PLANS["mimalloc"] = lambda *_: Plan(steps=((step,),), objects=("x.o",))
    resolve_recipe(msgspec.structs.replace(BASE_RECIPE, allocator="mimalloc"))


SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario
    for scenario in (
        *(Experiment, Resumed, Extended, StudyOfParts, Host, Board, Report, Explain, CountedExplanation),
        *(Image, ImageOfLibc, SdkOfGlibc, Fetch, Allocator),
    )
}


def missing_program(name: str) -> str:
    """Return a program that a scenario needs and that is not installed; empty if there is none."""
    return next(
        (program for program in SCENARIOS[name].programs if shutil.which(program, path=os.environ["PATH"]) is None), ""
    )
