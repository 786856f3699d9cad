"""What a record's folder holds, and how each of its lines is protected.

    record.json       format, schema version, identity, time of creation
    experiment.json   the experiment as resolved
    manifest.json     what was built, with what, on what: digests of every source and binary, versions, the machine
    runs.jsonl        one line a run, appended and synced after each trial
    raw/SHA256.txt    what each trial printed, by digest
    builds/NAME.log   what the build of a program of the user's own printed, one for each variant
    seal.json         written when a session ends: how many runs, the last line's chain value, the verdicts
    lock              held by the one process that writes

Each line of `runs.jsonl` carries its number, the chain value of the line before it and its own: the SHA-256 of the two and of the run's
encoding. So an edited, missing, doubled or reordered line is found and named, and the lines after it are still read.
"""

from __future__ import annotations

import hashlib

import msgspec

from swapstone.model import Certificate, FrozenStruct

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


class Meta(FrozenStruct, frozen=True, kw_only=True):
    """Identity of a record."""

    format: str = FORMAT
    schema: int = SCHEMA
    id: str
    created: str
    swapstone: str


class Artifact(FrozenStruct, frozen=True, kw_only=True):
    """One built program.

    Attributes:
        suite, workload, variant: what it is for.
        path: where it was when it ran (all of one experiment are equally long).
        sha256: of the file.
        command: how it was built, with paths shortened.
        sources: pairs (file name, SHA-256).
        sizes: pairs (name, bytes): text, data, bss, file; empty for the links of `layout`.
        layout: number of the shuffled link that it is, from 1; 0 for the program as it comes.
    """

    suite: str
    workload: str
    variant: str
    path: str
    sha256: str
    command: str
    sources: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    layout: int = 0


class Manifest(FrozenStruct, frozen=True, kw_only=True):
    """What an experiment was made of.

    Attributes:
        machine: pairs (name, value) that describe the target, in the order in which reports print them.
        tools: pairs (name, version line) of compilers, C libraries and the agent.
        artifacts: every built program.
        passes: triples (suite, workload, passes per trial), calibrated once on the baseline.
        certificates: what differs between the machine of the baseline and each other one; none where there is one machine.
    """

    machine: tuple[tuple[str, str], ...]
    tools: tuple[tuple[str, str], ...]
    artifacts: tuple[Artifact, ...]
    passes: tuple[tuple[str, str, int], ...]
    certificates: tuple[Certificate, ...] = ()


class Line(FrozenStruct, frozen=True, kw_only=True):
    """One line of `runs.jsonl`; the run stays as its bytes, because those are what the chain value vouches for."""

    number: int
    previous: str
    chain: str
    run: msgspec.Raw


class Seal(FrozenStruct, frozen=True, kw_only=True):
    """What a writing session left, so that a later loss is noticed.

    Attributes:
        runs: lines in `runs.jsonl`.
        chain: chain value of the last one.
        state: ``complete`` or ``interrupted``.
        why: why it stopped, in a few words.
        verdicts: digest of the verdicts that were printed at its end, or empty.
        manifest: SHA-256 of `manifest.json`.
        experiment: SHA-256 of `experiment.json`.
        sessions: how many writing sessions there have been; above 1 it was resumed.
    """

    runs: int
    chain: str
    state: str
    why: str
    verdicts: str
    manifest: str
    experiment: str
    sessions: int


class Damage(FrozenStruct, frozen=True, kw_only=True):
    """A place in a record that is not as it was written."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{where}: {self.problem}"


def chain_value(number: int, previous: str, run: bytes) -> str:
    """Return the chain value of a line whose run is encoded as `run`: 32 hexadecimal digits of SHA-256."""
    return hashlib.sha256(f"{number}\n{previous}\n".encode() + run).hexdigest()[:32]


def file_sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def manifest_differences(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """Say what two manifests of one experiment differ in: machine, tools, and the programs themselves.

    Returns:
        One sentence for each difference; programs are counted, and the first one named. Calibration is not compared.
    """
    said = []
    for what, old, new in (
        ("machine", dict(first.machine), dict(second.machine)),
        ("tool", dict(first.tools), dict(second.tools)),
    ):
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                said.append(f"{what} {name}: {old.get(name, 'absent')!r} then, {new.get(name, 'absent')!r} now")
    programs, again = (
        {(a.suite, a.workload, a.variant, a.layout): a.sha256 for a in m.artifacts} for m in (first, second)
    )
    other = [place for place in programs if programs[place] != again.get(place)]
    if other or programs.keys() != again.keys():
        place = next(iter(other or programs.keys() ^ again.keys()))
        said.append(f"{max(1, len(other))} of {len(programs)} programs are not the same, e.g. {place[1]} on {place[2]}")
    return tuple(said)
