# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a record's folder, and how its lines are protected.

    record.json       format, schema version, identity, time of creation
    experiment.json   the resolved experiment
    manifest.json     digests of every source and program, versions of tools, the machine
    runs.jsonl        one line per run with what its trial printed and the agent's answer to it, appended and synced after each trial
    raw/SHA256.txt    an output that is long or no UTF-8, by digest; in records before 0.2 every one
    builds/NAME.log   build log of an own program, one per variant
    seal.json         written at the end of a session: number of runs, last chain value, digest of the verdicts
    seal.json.sig     a signature of it by an ssh key, if there is one
    origin.json       marks by which its maker recognizes it: `swapstone.core.record.origin`
    lock              locked by the writing process

Each line of `runs.jsonl` has its number, the chain value of the preceding line and its own chain value: the SHA-256 of the first two and
the encoded run. So an edited, missing, duplicate or reordered line is detected, and the lines after it can still be read.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

import msgspec

from swapstone.core.model import Cpus, FrozenStruct, ImageDifference, Metric, WorkSpec
from swapstone.core.model.frozen_struct import Integer, Name, NonNegative, Position, Text

FORMAT = "swapstone-record"
SCHEMA = 1

META = "record.json"
EXPERIMENT = "experiment.json"
MANIFEST = "manifest.json"
RUNS = "runs.jsonl"
RAW = "raw"
BUILDS = "builds"
SEAL = "seal.json"
LOCK = "lock"

DIGEST = re.compile(r"[0-9a-f]{64}")
"""A SHA-256, the name of a file in `RAW`."""


class StoredWork(FrozenStruct, frozen=True, kw_only=True):
    """A `WorkSpec` with its suite; `metrics` are places in `Description.metrics`, because most works have the same ones."""

    suite: Name
    name: Name
    description: Text
    parameters: tuple[tuple[Text, Text], ...] = ()
    metrics: tuple[NonNegative, ...] = ()
    cpus: Cpus = Cpus.ONE
    threads: Integer = 1
    waits: bool = False


class StoredLevel(FrozenStruct, frozen=True, kw_only=True):
    """A level that the experiment varies or holds, with one line of text; empty for a level that the user defined."""

    factor: Name
    level: Name
    description: Text = ""


class PlaceFacts(FrozenStruct, frozen=True, kw_only=True):
    """What an analysis depends on of where the trials ran.

    Attributes:
        exact: whether the clock is virtual: equal input gives equal values.
        boots: whether each trial runs in a machine that is booted for it.
        bare: whether the servers ran without an operating system.
        explains: whether `swapstone explain` can run its rows again under instruments.
    """

    exact: bool = False
    boots: bool = False
    bare: bool = False
    explains: bool = False


class Description(FrozenStruct, frozen=True, kw_only=True):
    """All that analyses and reports need and that the experiment only names: with it, no suite, factor or target is looked up.

    Attributes:
        metrics: that the works measure.
        works: each workload of the experiment in its order, then the programs that are built for their size alone.
        sizes: the metrics of the sizes in `Manifest.artifacts`.
        levels: of all factors.
        place: where the trials ran.
        notes: sentences that a report prints with the caveats.
        parts: pairs (name, version) of the parts from elsewhere that provide a factor, a suite or the target of the experiment.
    """

    metrics: tuple[Metric, ...]
    works: tuple[StoredWork, ...]
    sizes: tuple[Metric, ...] = ()
    levels: tuple[StoredLevel, ...] = ()
    place: PlaceFacts = PlaceFacts()
    notes: tuple[Text, ...] = ()
    parts: tuple[tuple[Name, Text], ...] = ()

    def specs(self) -> dict[tuple[str, str], WorkSpec]:
        """Return every work by (suite, name), in the order of `works`."""
        return {
            (each.suite, each.name): WorkSpec(
                name=each.name,
                description=each.description,
                parameters=each.parameters,
                metrics=tuple(self.metrics[place] for place in each.metrics),
                cpus=each.cpus,
                threads=each.threads,
                waits=each.waits,
            )
            for each in self.works
        }


class Meta(FrozenStruct, frozen=True, kw_only=True):
    """The header of a record.

    Attributes:
        format, schema: of the files.
        id: of the record; unique.
        created: when, in UTC, ISO 8601.
        swapstone: the version that made it.
        description: what its names mean; None in records before 0.2 (`swapstone.core.session.description` derives it).
    """

    format: str = FORMAT
    schema: int = SCHEMA
    id: str
    created: str
    swapstone: str
    description: Description | None = None


class OfVariant(FrozenStruct, frozen=True, kw_only=True):
    """What belongs to one variant of a workload."""

    suite: Name
    workload: Name
    variant: Name


class Artifact(OfVariant, frozen=True, kw_only=True):
    """A built program.

    Attributes:
        suite, workload, variant: what it was built for.
        path: of the program when it ran. All paths of an experiment have the same length.
        sha256: of the file.
        command: of the build, with shortened paths.
        sources: pairs (file name, SHA-256).
        sizes: pairs (name, bytes): text, data, bss, file; empty for the links of `layout`.
        layout: number of the shuffled link, from 1; 0 for the unshuffled program.
    """

    path: Text
    sha256: Name
    command: Text
    sources: tuple[tuple[Text, Name], ...]
    sizes: tuple[tuple[Name, NonNegative], ...]
    layout: Position = 0


class MappedFile(OfVariant, frozen=True, kw_only=True):
    """A program or shared object that runs of one variant mapped, and those of another did not.

    Attributes:
        suite, workload, variant: whose runs.
        path: of the file.
        sha256: of its content.
        bytes: its size.
        kept: why its pages could not be brought into the state in which those of the others are; empty if they were.
        alone: whether its folder has no other file.
    """

    path: Text
    sha256: Name
    bytes: NonNegative
    kept: Text = ""
    alone: bool = False


class ResidentMemory(OfVariant, frozen=True, kw_only=True):
    """What was resident at the end of a variant's warm-up run, which is not measured (/proc/PID/smaps_rollup).

    Attributes:
        suite, workload, variant: whose run.
        anonymous: bytes of heap, stacks and written pages of files.
        files: bytes of all other pages: of files and of shared memory.
    """

    anonymous: NonNegative
    files: NonNegative


class Manifest(FrozenStruct, frozen=True, kw_only=True, rename={"image_differences": "certificates"}):
    """The programs, tools and machine of an experiment.

    Attributes:
        machine: pairs (name, value) that describe the target, in the order of reports.
        tools: pairs (name, version line) of compilers, C libraries and the agent.
        artifacts: every built program.
        passes: triples (suite, workload, passes per trial), calibrated once on the baseline.
        image_differences: of the baseline's machine image to each other image; empty if there is one machine. ``certificates`` on disk.
        mapped: the files in which the variants of a workload differ, as the runs so far show.
        resident: memory of each variant, where it was observed.
        earlier: of `--against`, that of the session that made the baseline's runs; its programs are among `artifacts` too. Else None.
    """

    machine: tuple[tuple[Name, Text], ...]
    tools: tuple[tuple[Name, Text], ...]
    artifacts: tuple[Artifact, ...]
    passes: tuple[tuple[Name, Name, NonNegative], ...]
    image_differences: tuple[ImageDifference, ...] = ()
    mapped: tuple[MappedFile, ...] = ()
    resident: tuple[ResidentMemory, ...] = ()
    earlier: Manifest | None = None


KeptTexts = Annotated[tuple[str, ...], msgspec.Meta(max_length=16)]
"""Raw outputs and answers in a line: two of its run, and those of runs that could not be written before."""


class Line(FrozenStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `runs.jsonl`. The run is kept as bytes, because the chain value covers its bytes.

    Attributes:
        number, previous, chain: see above.
        run: the run, which names its raw output and its answer by their SHA-256.
        raw: those that no earlier line has.
    """

    number: NonNegative
    previous: Name
    chain: Name
    run: msgspec.Raw
    raw: KeptTexts = ()


class Seal(FrozenStruct, frozen=True, kw_only=True):
    """The end of a writing session, by which later losses are detected.

    Attributes:
        runs: number of lines in `runs.jsonl`.
        chain: chain value of the last line.
        state: ``complete`` or ``interrupted``.
        why: reason for the end, in a few words.
        verdicts: digest of the verdicts printed at the end, or empty.
        manifest: SHA-256 of `manifest.json`.
        experiment: SHA-256 of `experiment.json`.
        sessions: number of writing sessions; above 1 if the record was resumed.
        record: SHA-256 of `record.json`; empty in records before 0.2.
        sealed_unix_ns: wall-clock time of the sealing; 0 in records before 0.2.
    """

    runs: int
    chain: str
    state: str
    why: str
    verdicts: str
    manifest: str
    experiment: str
    sessions: int
    record: str = ""
    sealed_unix_ns: int = 0


class Damage(FrozenStruct, frozen=True, kw_only=True):
    """A damaged place of a record."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{where}: {self.problem}"


def chain_value(number: int, previous: str, run: bytes) -> str:
    """Return the chain value of a line whose run is encoded as `run`: 32 hexadecimal digits of SHA-256."""
    digest = hashlib.sha256(f"{number}\n{previous}\n".encode())
    digest.update(run)
    return digest.hexdigest()[:32]


def file_sha256(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


MEASURED = frozenset({"osnoise", "hwnoise"})
"""Names in `Manifest.machine` of measurements that each session of an earlier version made anew."""


def manifest_differences(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """Return the differences of two manifests of one experiment: machine, tools and programs. What is measured is not compared.

    Returns:
        A sentence for each difference. Differing programs are counted, and the first one is named. Calibration is not compared.
    """
    differences = []
    for what, old, new in (
        ("machine", dict(first.machine), dict(second.machine)),
        ("tool", dict(first.tools), dict(second.tools)),
    ):
        for name in sorted((old.keys() | new.keys()) - MEASURED):
            if old.get(name) != new.get(name):
                differences.append(f"{what} {name}: {old.get(name, 'absent')!r} then, {new.get(name, 'absent')!r} now")
    programs, again = (
        {(a.suite, a.workload, a.variant, a.layout): a.sha256 for a in m.artifacts} for m in (first, second)
    )
    other = [place for place in programs if programs[place] != again.get(place)]
    if other or programs.keys() != again.keys():
        place = next(iter(other or programs.keys() ^ again.keys()))
        differences.append(f"{max(1, len(other))} of {len(programs)} programs differ, e.g. {place[1]} on {place[2]}")
    return tuple(differences)
