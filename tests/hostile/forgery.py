# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that make a whole record hostile.

Values are forged as an attacker would: the chain of lines and the seal are renewed, so that only the values themselves are left to notice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
Runs = list[Json]

FILES = ("record.json", "experiment.json", "manifest.json", "runs.jsonl", "seal.json")


class Kind(NamedTuple):
    """A kind of hostile record.

    Attributes:
        name: of the kind.
        harm: makes a whole record hostile; the argument is its folder.
        named: what `verify` prints because of it; empty where nothing is wrong with the record's values.
        folder: the name of the record's folder; empty for the usual one.
        during: what another process repeats while the commands run; the argument is the record's folder.
        keeps: whether columns and tables of these small records are kept, too. Then the harm is repeated before each command, and each
            prints what it printed before.
        unprivileged: whether the commands have no capabilities, so that permissions bind root too.
    """

    name: str
    harm: Callable[[Path], object]
    named: str
    folder: str = ""
    during: Callable[[Path], object] | None = None
    keeps: bool = False
    unprivileged: bool = False


def seal(path: Path) -> None:
    """Renew the digests in the seal."""
    found = json.loads((path / "seal.json").read_text())
    for name in ("manifest", "experiment", "record"):
        file = path / f"{name}.json"
        found[name] = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    (path / "seal.json").write_text(json.dumps(found))


def edited(name: str, /, **changes: object) -> Callable[[Path], None]:
    """Return a forgery of some fields of a file; the seal is renewed, unless it is what is forged."""
    return changed(name, lambda found: {**found, **changes})


def changed(name: str, change: Callable[[Json], Json]) -> Callable[[Path], None]:
    """Return a forgery of a file by a function of its content.

    A record with other workloads has no description: it looks as if it were made before 0.2, since a missing one would be refused at once.
    """

    def harm(path: Path) -> None:
        file = path / f"{name}.json"
        before = json.loads(file.read_text())
        after = change(before)
        file.write_text(json.dumps(after))
        if name == "experiment" and before["workloads"] != after.get("workloads"):
            header = path / "record.json"
            header.write_text(json.dumps({**json.loads(header.read_text()), "description": None}))
        if name != "seal":
            seal(path)

    return harm


def with_text(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Return a forgery that replaces a text once in the bytes of a file."""

    def harm(path: Path) -> None:
        file = path / name
        text = file.read_text()
        assert old in text, f"{name} has no {old}"
        file.write_text(text.replace(old, new, 1))
        seal(path)

    return harm


def write_lines(path: Path, runs: list[str]) -> None:
    """Write encoded runs with new numbers and a new chain, and renew the seal."""
    chain = ""
    with (path / "runs.jsonl").open("w") as file:
        for number, run in enumerate(runs, start=1):
            before, chain = chain, hashlib.sha256(f"{number}\n{chain}\n{run}".encode()).hexdigest()[:32]
            file.write(f'{{"number":{number},"previous":"{before}","chain":"{chain}","run":{run}}}\n')
    changed("seal", lambda found: {**found, "runs": len(runs), "chain": chain})(path)


def runs_changed(change: Callable[[Runs], Runs]) -> Callable[[Path], None]:
    """Return a forgery of the runs by a function of all of them."""

    def harm(path: Path) -> None:
        runs = [json.loads(line)["run"] for line in (path / "runs.jsonl").read_text().splitlines()]
        write_lines(path, [json.dumps(run, separators=(",", ":")) for run in change(runs)])

    return harm


def run_edited(**changes: object) -> Callable[[Path], None]:
    """Return a forgery of some fields of the sixth run."""
    return runs_changed(lambda runs: [run | changes if number == 5 else run for number, run in enumerate(runs)])


def trial_edited(**changes: object) -> Callable[[Path], None]:
    """Return a forgery of some fields of the sixth run's trial."""
    return runs_changed(
        lambda runs: [
            run | {"trial": run["trial"] | changes} if number == 5 else run for number, run in enumerate(runs)
        ]
    )


def every_value(value: object) -> Callable[[Path], None]:
    """Return a forgery of every sample of every candidate."""

    def change(runs: Runs) -> Runs:
        for run in runs:
            for sample in run["samples"] if "musl" in run["trial"]["variant"] else ():
                sample["values"] = [value]
        return runs

    return runs_changed(change)


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a harm that puts something else in the place of a file or folder."""

    def harm(path: Path) -> None:
        place = path / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        make(place)

    return harm


def sparse(size: int = 1 << 40) -> Callable[[Path], None]:
    """Return a maker of a file of that size that holds nothing."""

    def make(place: Path) -> None:
        with place.open("wb") as file:
            file.truncate(size)

    return make


def moved_and_linked(name: str) -> Callable[[Path], None]:
    """Return a harm that moves a file or folder of the record elsewhere, and puts a link in its place."""

    def harm(path: Path) -> None:
        elsewhere = path.with_name(f"{path.name}-elsewhere")
        (path / name).rename(elsewhere)
        (path / name).symlink_to(elsewhere)

    return harm


def raw_output(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a harm to the first file of raw output."""

    def harm(path: Path) -> None:
        name = min(file.name for file in (path / "raw").iterdir())
        replaced(f"raw/{name}", make)(path)

    return harm


def explanation(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a harm to a file of the stored explanation."""

    def harm(path: Path) -> None:
        folder = min(file.name for file in (path / "explain").iterdir())
        replaced(f"explain/{folder}/{name}", make)(path)

    return harm


def own(**changes: object) -> Callable[[Path], None]:
    """Return a forgery that makes the workloads those of an own program with such fields."""

    def harm(path: Path) -> None:
        program = {"name": "work", "arguments": ["/bin/true"], **changes}
        edited("experiment", own=program, workloads=[["own", "work"]])(path)

        def of_own(runs: Runs) -> Runs:
            kept = [run for run in runs if run["trial"]["workload"] == "b_malloc_tiny1"]
            return [run | {"trial": run["trial"] | {"suite": "own", "workload": "work"}} for run in kept]

        runs_changed(of_own)(path)

    return harm


FORGED = "FORGED"
"""No line of a command's output begins with it, and no page has it as a script."""

LINES = f"x\n{FORGED} line\r{FORGED}\x1b[2J\x85{FORGED}\u202e\u200b\u2028{FORGED}|*`<script>{FORGED}</script>"

ESCAPE = "\x1b]0;owned\x07\x1b[2Jx\u202e"
NESTED = '{"name":' + "[" * 200_000 + "]" * 200_000 + "}"
METRIC = {"name": "n", "unit": "1", "quantity": "events", "better": "lower", "meaning": "m"}
GENERATOR = {"command": ["ab", "{port}"], "reader": "nothing"}


def factor(*levels: str, name: str = "libc") -> list[Json]:
    return [{"factor": name, "levels": list(levels)}]


def linked(target: str) -> Callable[[Path], None]:
    return lambda place: place.symlink_to(target)
