# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile records by what is around their values: names that forge lines, folders, other records, studies, caches, exchanges."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.hostile.forgery import (
    FILES,
    FORGED,
    LINES,
    NESTED,
    Json,
    Kind,
    explanation,
    linked,
    raw_output,
    replaced,
    sparse,
)

_FOLDER_NAME = f"o'n\"e\n{FORGED} \x1b[2J\u202e\u200b $(touch owned) `touch owned` ;touch owned #=<script>{FORGED}"


def _socket(place: Path) -> None:
    here = Path.cwd()
    os.chdir(place.parent)  # a path of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(place.name)
    finally:
        os.chdir(here)


def _hard_link(place: Path) -> None:
    """Link a file that this process may read and that no record has."""
    elsewhere = place.with_name(f"{place.name}.secret")
    elsewhere.write_text("secret")
    place.hardlink_to(elsewhere)


def _of_other(name: str) -> Callable[[Path], object]:
    """Return a harm that puts the file of another record in a file's place."""
    return lambda path: shutil.copyfile(path.parents[1] / "other" / name, path / name)


def _moved_to_end_of_long_path(path: Path) -> None:
    """Put the record where its path has about 3,900 bytes, and a link in its place."""
    here = Path.cwd()
    deep = path.with_name("deep")
    deep.mkdir()
    os.chdir(deep)
    try:
        for _ in range((3800 - len(str(deep))) // 201):
            os.mkdir("d" * 200)  # noqa: PTH102 - the current folder changes
            os.chdir("d" * 200)
        os.rename(path, "record")  # noqa: PTH104 - as above
        end = os.getcwd()  # noqa: PTH109 - as above
    finally:
        os.chdir(here)
    path.symlink_to(f"{end}/record")


def _parent_is_link(path: Path) -> None:
    elsewhere = path.parent.with_name("elsewhere")
    path.parent.rename(elsewhere)
    path.parent.symlink_to(elsewhere)


def _crowded(path: Path) -> None:
    for number in range(20_000):
        (path / f"x{number}").touch()


def _many(count: int, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def made(place: Path) -> None:
        place.mkdir()
        for number in range(count):
            make(place / f"n{number}")

    return made


_PLACES = [
    *(Kind(f"{name} is a socket", replaced(name, _socket), "is a socket, not a regular file") for name in FILES),
    *(Kind(f"{name} is a hard link to another file", replaced(name, _hard_link), "") for name in FILES),
    *(Kind(f"{name} is of another record", _of_other(name), "") for name in FILES),
    *(
        Kind(f"origin.json is {what}", replaced("origin.json", make), "")
        for what, make in (
            ("a FIFO", os.mkfifo),
            ("a link to /dev/zero", linked("/dev/zero")),
            ("nested", lambda place: place.write_text(NESTED)),
            ("1 TiB of nothing", sparse()),
            (
                "of 20,000 marks",
                lambda place: place.write_text(json.dumps({"key": "k", "marks": [["a", "b"]] * 20_000})),
            ),
        )
    ),
    *(
        Kind(f"its signature is {what}", replaced("seal.json.sig", make), "")
        for what, make in (
            ("a FIFO", os.mkfifo),
            ("a link to /dev/zero", linked("/dev/zero")),
            ("a text", lambda p: p.write_text("x")),
        )
    ),
    Kind("lock is a FIFO", replaced("lock", os.mkfifo), ""),
    Kind("lock is a link", replaced("lock", linked("/etc/passwd")), ""),
    Kind("its name forges lines and has shell code", lambda _: None, "has a line break", folder=_FOLDER_NAME),
    Kind("its name has shell code", lambda _: None, "", folder=_FOLDER_NAME.replace("\n", " ")),
    Kind("its name is an option", lambda _: None, "", folder="--trust"),
    Kind("its path has 3,900 bytes", _moved_to_end_of_long_path, ""),
    Kind("its parent folder is a link", _parent_is_link, ""),
    Kind(
        "record.json is larger than its limit",
        lambda path: (path / "record.json").write_bytes(b" " * (1 << 20) + b"{}"),
        "more than the",
    ),
    Kind("a raw output is a socket", raw_output(_socket), "it is a socket"),
    Kind("20,000 files beside its own", _crowded, ""),
]


def _explain_row_named(name: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        folder = min((path / "explain").iterdir())
        folder.rename(folder.with_name(name))

    return harm


def _explain_row_is_link(path: Path) -> None:
    folder = min((path / "explain").iterdir())
    folder.rename(path.with_name("elsewhere"))
    folder.symlink_to(path.with_name("elsewhere"))


def _summary_forges(path: Path) -> None:
    """Forge every text of the stored explanation."""
    file = min((path / "explain").iterdir()) / "explanation.json"
    file.write_text(json.dumps(_texts_forged(json.loads(file.read_text()))))


def _evidence(change: Callable[[Json], Json]) -> Callable[[Path], None]:
    """Return a forgery of the evidence of a row, with its digest."""

    def harm(path: Path) -> None:
        folder = min((path / "explain").iterdir())
        seen = json.dumps(change(json.loads((folder / "seen.json").read_text())))
        (folder / "seen.json").write_text(seen)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["seen"] = hashlib.sha256(seen.encode()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return harm


def _sides(**changes: object) -> Callable[[Path], None]:
    return _evidence(lambda seen: {**seen, "references": [side | changes for side in seen["references"]]})


def _profiled(weight: float, stacks: int = 1, operations: float = 1.0, **frame: str) -> Callable[[Path], None]:
    """Return a forgery of evidence with a profile of each side."""

    def change(seen: Json) -> Json:
        frames = [{"object": "[program]", "symbol": "main", **frame}]
        stack = {"frames": [0], "weight": weight}
        profile = {
            "kind": "on-cpu",
            "unit": "ns",
            "operations": operations,
            "frames": frames,
            "stacks": [stack] * stacks,
        }
        run = {"instrument": "on-cpu", "tool": "perf", "command": "c", "operations": operations, "overhead": 1.0}
        return {
            **seen,
            "runs": [{**run, "variant": side["variant"], "profile": profile} for side in seen["references"]],
        }

    return _evidence(change)


def _waiting(
    weight: float = 1e6, count: int = 1, whose: str = "its own threads", **changes: object
) -> Callable[[Path], None]:
    """Return a forgery of evidence of waits: what ended them, who had the processor, and their stacks.

    Args:
        weight: time of each, in ns.
        count: number of reasons and of stacks.
        whose: processes.
        changes: fields of the division of the elapsed time.
    """

    def change(seen: Json) -> Json:
        frames = [{"object": "libc.so", "symbol": whose}]
        stacks = [{"frames": [0], "weight": weight}] * count
        profile = {"kind": "off-cpu", "unit": "ns", "operations": 1.0, "frames": frames, "stacks": stacks}
        elapsed = {"wall_ns": 3e6, "running_ns": 1e6, "ready_ns": 1e6, "waits": profile, "most_threads": 2, **changes}
        wait = {
            "reason": "lock",
            "whose": whose,
            "waits": 5.0,
            "total_ns": weight,
            "short_ns": weight,
            "long_ns": weight,
        }
        run = {"instrument": "off-cpu", "tool": "perf", "command": "c", "operations": 1.0, "overhead": 1.0}
        found = {
            **run,
            "passing": elapsed,
            "waits": [wait] * count,
            "taken": [{"whose": whose, "total_ns": weight}] * count,
        }
        return {**seen, "runs": [{**found, "variant": side["variant"]} for side in seen["references"]]}

    return _evidence(change)


def _texts_forged(value: object) -> object:
    if isinstance(value, dict):
        return {key: _texts_forged(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_texts_forged(each) for each in value]
    return f"{value}{LINES}" if isinstance(value, str) else value


_EXPLANATIONS = [
    Kind("an explained row is a link to its folder", _explain_row_is_link, ""),
    Kind("explain is a link to a folder of the user", replaced("explain", linked("/etc")), ""),
    *(
        Kind(f"{name} of a row is {what}", explanation(name, make), "")
        for name in ("seen.json", "manifest.json", "explanation.json", "explanation.html", "on-cpu-difference.html")
        for what, make in (
            ("a link to /etc/passwd", linked("/etc/passwd")),
            ("a folder", Path.mkdir),
            ("a socket", _socket),
        )
    ),
    Kind("an explained row's folder forges lines", _explain_row_named(_FOLDER_NAME.replace("/", "")), ""),
    Kind("an explanation that forges lines", _summary_forges, ""),
    Kind("evidence of times of 0", _sides(time_ns=0.0, recorded=0.0), ""),
    Kind("evidence of times of -1e308", _sides(time_ns=-1e308, recorded=-1e308), ""),
    Kind("evidence of times of 5e-324", _sides(time_ns=5e-324, recorded=5e-324), ""),
    Kind("evidence of other variants", _sides(variant=LINES), ""),
    Kind("evidence without runs", _sides(runs=0), ""),
    Kind("evidence without sides", _evidence(lambda seen: {**seen, "references": []}), ""),
    Kind("evidence of a profile", _profiled(1000.0), ""),
    Kind("evidence of stacks of 1e308", _profiled(1e308, stacks=3), ""),
    Kind("evidence of 5e-324 operations", _profiled(1e300, operations=5e-324), ""),
    Kind("evidence of -1 operations", _profiled(1.0, operations=-1.0), ""),
    Kind("evidence of 100,000 stacks", _profiled(1.0, stacks=100_000), ""),
    Kind("evidence whose frames forge lines", _profiled(1000.0, symbol=LINES, object=LINES), ""),
    Kind("evidence of waits", _waiting(), ""),
    Kind("evidence of waits that forge lines", _waiting(whose=LINES), ""),
    Kind("evidence of waits of 1e308 ns", _waiting(weight=1e308, count=3), ""),
    Kind("evidence of waits of -1 ns", _waiting(weight=-1.0), ""),
    Kind("evidence of waits of 5e-324 ns", _waiting(weight=5e-324, wall_ns=0.0), ""),
    Kind("evidence of waits in 10^18 threads", _waiting(most_threads=10**18), ""),
    Kind("evidence of 50,000 waits", _waiting(count=50_000), ""),
    Kind("20,000 explained rows", replaced("explain", _many(20_000, Path.mkdir)), ""),
    Kind("evidence without rows", explanation("seen.json", lambda place: place.write_text("{}")), ""),
]


def _study(change: Callable[[Json], Json]) -> Callable[[Path], None]:
    """Return a forgery of the study's file."""

    def harm(path: Path) -> None:
        file = path.parent / "study.json"
        file.write_text(json.dumps(change(json.loads(file.read_text()))))

    return harm


def _part_named(name: str) -> Callable[[Path], None]:
    def change(found: Json) -> Json:
        study = found["study"]
        return {
            **found,
            "parts": [name],
            "study": {**study, "part": [{**study["part"][0], "name": name, "title": LINES}]},
        }

    return _study(change)


def _beside(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a harm to a file of the study's folder."""
    return lambda path: replaced(name, make)(path.parent)


def _part_is_link(path: Path) -> None:
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


_STUDIES = [
    *(
        Kind(f"study.json is {what}", _beside("study.json", make), "")
        for what, make in (
            ("a FIFO", os.mkfifo),
            ("a link to /dev/zero", linked("/dev/zero")),
            ("a folder", Path.mkdir),
            ("1 TiB of nothing", sparse()),
            ("nested", lambda place: place.write_text(NESTED)),
            ("a list", lambda place: place.write_text("[]")),
            ("no UTF-8", lambda place: place.write_bytes(b'{"name":"\xff"}')),
        )
    ),
    *(
        Kind(f"a part named {name[:30]!r}", _part_named(name), "")
        for name in ("..", "../other", "/etc", "a/b", "", LINES, "x" * 5000)
    ),
    Kind("a part that is a link", _part_is_link, ""),
    Kind(
        "a study that forges lines",
        _study(lambda found: {**found, "name": LINES, "only": [LINES], "target": LINES, "directory": LINES}),
        "",
    ),
    Kind(
        "a study with a budget of 10^18 days",
        _study(lambda found: {**found, "schema": 1, "budget": "1000000000000000000d"}),
        "",
    ),
    Kind(
        "20,000 parts",
        _study(lambda found: {**found, "study": {**found["study"], "part": found["study"]["part"] * 20_000}}),
        "",
    ),
    Kind("a pattern of 10^5 asterisks", _study(lambda found: {**found, "only": ["*a" * 50_000]}), ""),
    Kind("an index that is a FIFO", _beside("index.json", os.mkfifo), ""),
    Kind("a study's origin that is a FIFO", _beside("origin.json", os.mkfifo), ""),
    Kind("a FIFO among the records", lambda path: os.mkfifo(path.parents[1] / "fifo"), ""),
    Kind("a link to itself among the records", lambda path: (path.parents[1] / "loop").symlink_to("loop"), ""),
    Kind("a link to / among the records", lambda path: (path.parents[1] / "top").symlink_to("/"), ""),
]


def _exchanged(*names: str) -> Callable[[Path], None]:
    """Return what another process repeats: each file becomes a FIFO, a link, another file, and the true one again."""

    def during(path: Path) -> None:
        kept = path.parents[1] / "kept"
        if not kept.exists():
            shutil.copytree(path, kept)
        temporary = path.parents[1] / "temporary"
        makers: tuple[Callable[[Path], object], ...] = (
            os.mkfifo,
            linked("/dev/zero"),
            sparse(1 << 40),
            lambda place: place.write_text(NESTED),
        )
        for name in names:
            for make in makers:
                for each in (make, lambda place, name=name: shutil.copyfile(kept / name, place)):
                    each(temporary)
                    temporary.replace(path / name)
                    time.sleep(0.003)

    return during


def _folders_exchanged(path: Path) -> None:
    """Let another folder, and then a link to the root, take the record's place for a moment."""
    away = path.parents[1] / "away"
    path.rename(away)
    path.symlink_to("/")
    time.sleep(0.003)
    path.unlink()
    away.rename(path)
    time.sleep(0.01)
    (path / "explain").rename(path / "raw.away")
    (path / "explain").symlink_to("/")
    time.sleep(0.003)
    (path / "explain").unlink()
    (path / "raw.away").rename(path / "explain")
    time.sleep(0.01)


_EXCHANGES = [
    *(Kind(f"{name} is exchanged while it is read", lambda _: None, "", during=_exchanged(name)) for name in FILES),
    Kind("all files are exchanged while they are read", lambda _: None, "", during=_exchanged(*FILES)),
    Kind("folders are exchanged while they are read", lambda _: None, "", during=_folders_exchanged),
]

GROUPS: dict[str, list[Kind]] = {
    "places": _PLACES,
    "explanations": _EXPLANATIONS,
    "studies": _STUDIES,
    "exchanges": _EXCHANGES,
}
"""Kinds of hostile records, by what is harmed."""

AROUND = (
    "studies",
    "large studies",
    "exchanges",
    "kept columns and rows",
    "three boards",
    "permissions",
    "entries",
)
"""Groups whose kinds harm what is beside a record, or need a process, a name or permissions of their own."""
