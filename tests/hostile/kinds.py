# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile records: how each is made of a whole record, and how the program names it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile import float_tables, kept, limits, machines, surroundings, values
from tests.hostile.forgery import (
    ESCAPE,
    FILES,
    GENERATOR,
    METRIC,
    NESTED,
    Json,
    Kind,
    changed,
    edited,
    every_value,
    explanation,
    factor,
    linked,
    moved_and_linked,
    own,
    raw_output,
    replaced,
    run_edited,
    runs_changed,
    sparse,
    trial_edited,
    with_text,
)


def _of_files() -> list[Kind]:
    """Return the kinds in which a file is something else than a regular file, absent, or has other bytes."""
    kinds = []
    for name in FILES:
        gone = "" if name in {"manifest.json", "seal.json", "runs.jsonl"} else "can't be read|has no"
        kinds += [
            Kind(f"{name} is a FIFO", replaced(name, os.mkfifo), "is a FIFO, not a regular file"),
            Kind(f"{name} is a link to /dev/zero", replaced(name, linked("/dev/zero")), "is a symbolic link"),
            Kind(f"{name} is a link to itself", replaced(name, lambda place: place.symlink_to(place)), "symbolic link"),
            Kind(f"{name} is a link to the true file", moved_and_linked(name), "is a symbolic link"),
            Kind(f"{name} is a folder", replaced(name, Path.mkdir), "is a folder, not a regular file"),
            Kind(f"{name} is absent", replaced(name, lambda _: None), gone),
            Kind(f"{name} is empty", replaced(name, Path.touch), gone or "altered: |Incomplete"),
            Kind(
                f"{name} has no UTF-8", replaced(name, lambda place: place.write_bytes(b'{"a":"\xff\xfe"}\n' * 9)), ""
            ),
            Kind(f"{name} is nested", replaced(name, lambda place: place.write_text(NESTED + "\n")), ""),
            Kind(f"{name} is 1 TiB of nothing", replaced(name, sparse()), "more than the"),
            Kind(f"{name} is 1 MiB of nothing", replaced(name, sparse(1 << 20)), ""),
            Kind(f"{name} is a list", replaced(name, lambda place: place.write_text("[]\n")), ""),
        ]
        if os.geteuid() != 0:
            kinds.append(Kind(f"{name} is not readable", _closed(name), "Permission"))
    return kinds


def _closed(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).chmod(0)


_FOLDERS = [
    Kind("raw is a link to /", replaced("raw", linked("/")), "raw is a symbolic link"),
    Kind("raw is a file", replaced("raw", Path.touch), "raw is a file, not a folder"),
    Kind("raw is absent", replaced("raw", lambda _: None), "it is missing"),
    Kind("a raw output is a FIFO", raw_output(os.mkfifo), "it is a FIFO"),
    Kind("a raw output is a link to /dev/zero", raw_output(linked("/dev/zero")), "it is a symbolic link"),
    Kind("a raw output is 1 TiB of nothing", raw_output(sparse()), "more than the"),
    Kind("a raw output is nested", raw_output(lambda place: place.write_text(NESTED)), "does not match its name"),
    Kind("explain is a link to /", replaced("explain", linked("/")), ""),
    Kind("explain is a FIFO", replaced("explain", os.mkfifo), ""),
    Kind("evidence is a FIFO", explanation("seen.json", os.mkfifo), ""),
    Kind("evidence is a link to /dev/zero", explanation("seen.json", linked("/dev/zero")), ""),
    Kind("evidence is 1 TiB of nothing", explanation("seen.json", sparse()), ""),
    Kind("an explanation is nested", explanation("explanation.json", lambda place: place.write_text(NESTED)), ""),
    Kind("an explanation is a FIFO", explanation("explanation.json", os.mkfifo), ""),
]


def _described(field: str, value: object) -> Callable[[Path], None]:
    """Return a forgery of a field of every described metric."""

    def change(found: Json) -> Json:
        description = found["description"]
        metrics = [{**metric, field: value} for metric in description["metrics"]]
        return {**found, "description": {**description, "metrics": metrics}}

    return changed("record", change)


_META = [
    Kind("created is no time", edited("record", created="soon"), "no time in UTC"),
    Kind("created is a week", edited("record", created="2026-W01-1T00:00:00+00:00"), "no time in UTC"),
    Kind("id with terminal escapes", edited("record", id=ESCAPE), ""),
    Kind("another format", edited("record", format=ESCAPE), "is not a Swapstone record"),
    Kind("schema 99", edited("record", schema=99), "schema version 99"),
    Kind("schema of 30 digits", edited("record", schema=10**30), "schema version"),
    Kind("schema is a text", edited("record", schema="1"), "can't be read"),
    Kind("an unknown field with escapes", edited("record", **{ESCAPE: 1}), "unknown field"),
    Kind("the description is a text", edited("record", description=ESCAPE), "can't be read"),
    Kind("the description has no workload", edited("record", description={"metrics": [], "works": []}), "not describe"),
    *(
        Kind(f"a described metric has the {field} {str(value)[:20]!r}", _described(field, value), expected)
        for field, value, expected in (
            ("name", ESCAPE, ""),
            ("unit", ESCAPE, ""),
            ("unit", "", ""),
            ("meaning", ESCAPE, ""),
            ("better", ESCAPE, "can't be read"),
            ("quantity", "time\0", "can't be read"),
            ("resolution", -1, "resolution"),
            ("resolution", 1e308, "larger than"),
            ("leads", False, ""),
        )
    ),
]

_FIELDS: tuple[tuple[str, tuple[object, ...], str], ...] = (
    ("confidence", (1, 0, -1, 1e308, "high"), "confidence|larger than|can't be read"),
    ("margin", (0, -0.02, 1e308, 1e-300, None), "margin|larger than|can't be read"),
    ("budget_ns", (-1, 10**30), "budget|64 bits"),
    ("blocks", (-1, 10**18), "blocks is"),
    ("layouts", (-1, 10**9), "layouts is"),
    ("prime", (-1, 10**9), "prime is"),
    ("seed", (10**30, "x"), "64 bits|can't be read"),
    ("rules", (0, -1, 99), "rules"),
    ("clock", ("sundial",), "its clock"),
    ("correction", ("none",), "its correction"),
    ("order", ("alphabetic",), "its order"),
    ("factors", ([], {}, None), "no factor|can't be read"),
    ("workloads", ([],), "no workload"),
    ("loads", ([],), "no load"),
    ("name", ("x\0y",), "null character"),
)
"""Fields of `experiment.json`, values that they can't have, and what is named."""

_EXPERIMENT = [
    *(
        Kind(f"{name} {value!r}", edited("experiment", **{name: value}), said)
        for name, values, said in _FIELDS
        for value in values
    ),
    Kind("no levels", edited("experiment", factors=factor()), "has no level"),
    Kind("a level twice", edited("experiment", factors=factor("glibc", "glibc")), "twice"),
    Kind("a factor twice", edited("experiment", factors=factor("a", "b") * 2), "twice"),
    Kind(
        "10^8 combinations of levels",
        edited("experiment", factors=[factor(*map(str, range(100)), name=n)[0] for n in "abcd"]),
        "variants, more than",
    ),
    Kind(
        "10^8 trials in a block",
        edited("experiment", workloads=[["libc", f"w{n}"] for n in range(10_000)], loads=list(map(str, range(10_000)))),
        "trials, more than",
    ),
    Kind("a workload twice", edited("experiment", workloads=[["libc", "b_malloc_tiny1"]] * 2), "twice"),
    Kind("an unknown workload", edited("experiment", workloads=[["libc", "b_future"]]), "no workload named"),
    Kind("an unknown suite", edited("experiment", workloads=[["future", "b_future"]]), "no suite named"),
    Kind("an unknown factor", edited("experiment", factors=factor("a", "b", name="future")), ""),
    Kind("an unknown target", edited("experiment", target="mainframe:/dev/zero"), ""),
    Kind("a target with a null character", edited("experiment", target="fake:\0"), "null character"),
    Kind("an unknown load", edited("experiment", loads=["idle", "stampede"]), ""),
    Kind("a level with terminal escapes", edited("experiment", factors=factor("glibc", ESCAPE)), ""),
    Kind("a name of 1 MiB", edited("experiment", name="x" * ((1 << 20) + 1)), "characters"),
    Kind("a level of 1 MiB", edited("experiment", factors=factor("glibc", "x" * (1 << 20))), "characters"),
    Kind("an own workload without own program", edited("experiment", workloads=[["own", "x"]]), "no own program"),
    Kind("a field twice", with_text("experiment.json", "{", '{"seed": 1, "seed": "x", '), "can't be read"),
    Kind("an unknown field of a newer version", edited("experiment", future=1), "newer"),
    Kind("published with terminal escapes", edited("experiment", published=ESCAPE), ""),
    Kind(
        "a number beyond 64-bit floats", with_text("experiment.json", '"margin": ', '"margin": 1e999, "x": '), "range"
    ),
    Kind("NaN", with_text("experiment.json", '"margin": ', '"margin": NaN, "x": '), "malformed"),
]

_OWN = [
    Kind("an own program without command", own(arguments=[]), "no command"),
    Kind("an empty command line", own(commands=[{"name": "a", "words": []}]), "is empty"),
    Kind("commands without their factor", own(commands=[{"name": n, "words": [n]} for n in "ab"]), "no command line"),
    Kind(
        "10^8 combinations of parameters",
        own(parameters=[[name, list(map(str, range(100)))] for name in "abcd"]),
        "combinations",
    ),
    Kind("a parameter without values", own(parameters=[["a", []]]), "combinations"),
    Kind("a parameter twice", own(parameters=[["a", ["1"]], ["a", ["2"]]]), "twice"),
    Kind("no regular expression", own(numbers=[{"metric": METRIC, "pattern": "("}]), "no regular expression"),
    Kind("a pattern with two groups", own(numbers=[{"metric": METRIC, "pattern": "(a)(b)"}]), "2 groups"),
    Kind("a repetition of 10^20", own(numbers=[{"metric": METRIC, "pattern": "(a{99999999999999999999})"}]), "regular"),
    Kind("a pattern of 100 KiB", own(numbers=[{"metric": METRIC, "pattern": "(" * 100_000}]), "regular expression"),
    Kind("a reader that is unknown", own(load_generators_=1), "can't be read"),
    Kind("an unknown load generator", own(drives=[GENERATOR]), "no reader"),
    Kind("a load generator's pattern", own(drives=[{**GENERATOR, "reader": "regex:("}]), "regular expression"),
    Kind("a time limit of -1", own(timeout_ms=-1), "time limit"),
    Kind("a script that is a FIFO", own(commands=[{"name": "a", "words": ["/proc/self/fd/0"]}]), ""),
    Kind("an output file", own(output="/dev/full"), ""),
]


def _slow_pattern(path: Path) -> None:
    """Forge a pattern that takes exponential time on the output of each run."""
    own(numbers=[{"metric": METRIC, "pattern": "^((?:a+)+)$"}])(path)
    edited("experiment", rules=1)(path)
    output = b"--- stdout\n" + b"a" * 200 + b"!\n"
    digest = hashlib.sha256(output).hexdigest()
    (path / "raw" / f"{digest}.txt").write_bytes(output)
    runs_changed(lambda runs: [run | {"output": digest, "answer": ""} for run in runs])(path)


_OWN.append(Kind("a pattern that takes exponential time", _slow_pattern, "more than 2 s of processor time"))


def _series(*lengths: int) -> list[Json]:
    return [{"metric": f"m{number}", "values": [1.0] * length} for number, length in enumerate(lengths)]


def _long_line(path: Path) -> None:
    with (path / "runs.jsonl").open("ab") as file:
        file.write(b'{"number":' + b" " * (40 << 20))


def _newlines(path: Path) -> None:
    with (path / "runs.jsonl").open("ab") as file:
        file.write(b"\n" * (32 << 20))


_RUNS = [
    Kind("a value of 1e308", every_value(1e308), "not a run: Expected"),
    Kind("a value of -1e308", every_value(-1e308), "not a run: Expected"),
    Kind("a value of 1e-320", every_value(1e-320), "too close to 0"),
    Kind("a value of 0", every_value(0.0), ""),
    Kind("a negative time", every_value(-5.0), ""),
    Kind("no values", run_edited(samples=[{"metric": "wall", "values": []}]), ""),
    Kind("a value that is a text", run_edited(samples=[{"metric": "wall", "values": ["1"]}]), "not a run"),
    Kind("a fact of 30 digits", run_edited(facts=[["wall_ns", 10**30]]), "not a run"),
    Kind("a negative duration", run_edited(elapsed_ns=-1), "not a run"),
    Kind("a start in 30 digits", run_edited(started_unix_ns=10**30), "not a run"),
    Kind("a start after 2200", run_edited(started_unix_ns=(1 << 63) - 1, elapsed_ns=(1 << 63) - 1), ""),
    Kind("block 10^18", trial_edited(block=10**18), "not a run"),
    Kind("block 10^6", trial_edited(block=10**6), "plan|recorded|missing|no run of"),
    Kind("block -1", trial_edited(block=-1), "not a run"),
    Kind("prime 10^9", trial_edited(prime=10**9), "not a run"),
    Kind("a run of an unknown workload", trial_edited(workload="b_future"), "which the experiment does not have"),
    Kind("a run of an unknown suite", trial_edited(suite="future"), "which the experiment does not have"),
    Kind("a run of an unknown variant", trial_edited(variant=ESCAPE), "which the experiment does not have"),
    Kind("a run under an unknown load", trial_edited(load="stampede"), "which the experiment does not have"),
    Kind("an unknown metric with escapes", run_edited(samples=[{"metric": ESCAPE, "values": [1.0]}]), ""),
    Kind("an unknown status", run_edited(status="great"), "not a run"),
    Kind("a reason with escapes", run_edited(status="failed", samples=[], reason=ESCAPE), ""),
    Kind("a check with escapes", run_edited(check=ESCAPE), ""),
    Kind("an output that is a path", run_edited(output="../../../etc/passwd"), "no SHA-256"),
    Kind("an observed level with escapes", run_edited(observed=[["libc", ESCAPE]]), ""),
    Kind("series of unequal length", run_edited(series=_series(2, 3)), "not equally long"),
    Kind("a histogram that descends", run_edited(histogram=[[5, 1], [4, 1]]), "not ascending"),
    Kind("a histogram of negative counts", run_edited(histogram=[[5, -1]]), "not a run"),
    Kind("a histogram that counts nothing", run_edited(histogram=[[5, 0]]), ""),
    Kind("a trial twice", runs_changed(lambda runs: [*runs, runs[-1]]), "occurs twice"),
    Kind("no runs", runs_changed(lambda _: []), ""),
    Kind("a line of 40 MiB", _long_line, "from here on, nothing is read"),
    Kind("32 Mi empty lines", _newlines, "from here on, nothing is read"),
    Kind("a line of another chain", with_text("runs.jsonl", '"number":3', '"number":4'), "checksum"),
    Kind("a number of 4000 digits", with_text("runs.jsonl", '"number":3', f'"number":{"9" * 4000}'), "not a run"),
    Kind("lines that are numbers", replaced("runs.jsonl", lambda p: p.write_text("1\n" * 50)), "not a run"),
]

_SEAL_AND_MANIFEST = [
    Kind("a seal of -1 runs", edited("seal", runs=-1), "negative number"),
    Kind("a seal of 10^30 runs", edited("seal", runs=10**30), "64 bits"),
    Kind("a seal of more runs", edited("seal", runs=10**6), "only"),
    Kind("an unknown state", edited("seal", state=ESCAPE), "its state"),
    Kind("no session", edited("seal", sessions=0), "no session"),
    Kind("a reason with escapes in the seal", edited("seal", why=ESCAPE), ""),
    Kind("-1 passes", edited("manifest", passes=[["libc", "b_malloc_tiny1", -1]]), "can't be read"),
    Kind("0 passes", edited("manifest", passes=[["libc", "b_malloc_tiny1", 0]]), "number of passes"),
    Kind("a machine with escapes", edited("manifest", machine=[[ESCAPE, ESCAPE]]), ""),
    Kind("a negative size", lambda path: _artifacts(path, sizes=[["text", -1]]), "can't be read"),
    Kind("a size of 30 digits", lambda path: _artifacts(path, sizes=[["text", 10**30]]), "can't be read"),
    Kind("an unknown size", lambda path: _artifacts(path, sizes=[[ESCAPE, 5]]), ""),
    Kind("a size of 0", lambda path: _artifacts(path, sizes=[["text", 0]]), ""),
]


def _artifacts(path: Path, **changes: object) -> None:
    """Forge the programs of the manifest: one for each workload and variant."""
    program = {"path": "/x", "sha256": "", "command": "", "sources": [], "sizes": [], **changes}
    edited(
        "manifest",
        artifacts=[
            {"suite": "libc", "workload": workload, "variant": f"libc={libc}", **program}
            for workload in ("b_malloc_tiny1", "b_malloc_tiny2")
            for libc in ("glibc", "musl")
        ],
    )(path)


GROUPS: dict[str, list[Kind]] = {
    "files": _of_files(),
    "folders": _FOLDERS,
    "record.json": _META,
    "experiment.json": _EXPERIMENT,
    "own programs": _OWN,
    "runs": _RUNS,
    "seal and manifest": _SEAL_AND_MANIFEST,
    **values.GROUPS,
    **surroundings.GROUPS,
    **machines.GROUPS,
    **float_tables.GROUPS,
    **kept.GROUPS,
    **limits.GROUPS,
}
"""Every kind of hostile record, by what is harmed."""

KINDS: tuple[Kind, ...] = tuple(kind for kinds in GROUPS.values() for kind in kinds)
