# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile records of virtual machines and boards: instructions, call paths and wake-ups of an explained row, and facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW, WAKEUP_ROW

from tests.hostile.forgery import (
    LINES,
    NESTED,
    Json,
    Kind,
    edited,
    every_value,
    factor,
    linked,
    run_edited,
    runs_changed,
    sparse,
)

_MACHINE = {"target": "vm", "clock": "virtual", "architecture": "x86_64"}
_COUNTS, _WAKEUPS = "instructions.json", "wakeups.json"

Change = Callable[[Json], Json]


def _row(path: Path) -> tuple[Path, Json, str]:
    """Return the folder of the explained row, its place, and the chain of the record's last run."""
    folder = min((path / "explain").iterdir())
    manifest = json.loads((folder / "manifest.json").read_text())
    return folder, manifest["place"], manifest["chain"]


def _stored(name: str, seed: bytes, change: Change) -> Callable[[Path], None]:
    """Return a forgery that stores a file for the explained row, as one on the exact clock has it."""

    def harm(path: Path) -> None:
        folder, place, chain = _row(path)
        found = json.loads(seed) | {"chain": chain}
        found["place"] = place
        for side, variant in zip(found["sides"], (place["baseline"], place["candidate"]), strict=True):
            side["variant"] = variant
        edited("experiment", **_MACHINE)(path)
        (folder / name).write_text(json.dumps(change(found)))

    return harm


def _counts(change: Change) -> Callable[[Path], None]:
    return _stored(_COUNTS, COUNTED_ROW, change)


def _wakeups(change: Change) -> Callable[[Path], None]:
    return _stored(_WAKEUPS, WAKEUP_ROW, change)


def _sides(**changes: object) -> Change:
    return lambda found: {**found, "sides": [side | changes for side in found["sides"]]}


def _profile(change: Change) -> Change:
    """Return a forgery of both profiles."""
    return lambda found: {**found, "sides": [side | {"profile": change(side["profile"])} for side in found["sides"]]}


def _scaled(number: int) -> Change:
    """Return a forgery of consistent counts of any size."""

    def change(found: Json) -> Json:
        sides = [
            side
            | {"instructions": number * (side["instructions"] - side["lost"]), "lost": 0, "arm": None}
            | {"profile": _weighted(side["profile"], number)}
            for side in found["sides"]
        ]
        return {**found, "sides": sides}

    return change


def _weighted(profile: Json, number: int) -> Json:
    return profile | {"stacks": [each | {"weight": number * each["weight"]} for each in profile["stacks"]]}


def _empty(found: Json) -> Json:
    changed = _sides(instructions=0, clock_ns=0, lost=0, arm=None)(found)
    return _profile(lambda profile: profile | {"frames": [], "stacks": []})(changed)


def _forged(value: object, texts: bool = True) -> object:
    """Return a value whose texts forge lines; names of fields, digests and the row's place stay."""
    if isinstance(value, dict):
        return {key: each if key in {"place", "chain"} else _forged(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_forged(each) for each in value]
    return f"{value}{LINES}" if isinstance(value, str) and texts else value


def _all_forged(found: Json) -> Json:
    forged = _forged(found)
    assert isinstance(forged, dict)
    return forged


def _deep(stacks: int, depth: int) -> Change:
    """Return a forgery of profiles: stacks of one path, each with a function more of its own at its end."""
    frames = [
        {"symbol": f"a_function_with_a_long_name_{number}", "object": "libc.so"} for number in range(depth + stacks)
    ]
    made = [{"frames": [*range(depth - 1), depth + number], "weight": 1.0} for number in range(stacks)]

    def change(found: Json) -> Json:
        sides = _sides(instructions=stacks, lost=0, arm=None, phases=[0, 0, 0, stacks])(found)["sides"]
        known = ["phases"] * ("phases" not in found["sides"][0])
        sides = [{key: value for key, value in side.items() if key not in known} for side in sides]
        return _profile(lambda profile: profile | {"frames": frames, "stacks": made})({**found, "sides": sides})

    return change


def _file(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a harm that puts something else in the place of a file of the row."""

    def harm(path: Path) -> None:
        edited("experiment", **_MACHINE)(path)
        make(_row(path)[0] / name)

    return harm


def _facts(**facts: object) -> Callable[[Path], None]:
    """Return a forgery of facts of every second run, as of a board."""

    def change(runs: list[Json]) -> list[Json]:
        return [run | {"facts": [*run["facts"], *facts.items()]} if n % 2 else run for n, run in enumerate(runs)]

    return runs_changed(change)


def _on_board(**facts: object) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        edited("experiment", target="ssh:me@board.example")(path)
        _facts(**facts)(path)

    return harm


_THREE = ("ssh:one", "ssh:two", "ssh:three")


def _three_boards(
    targets: tuple[str, str, str] = _THREE, value: float | None = None, **changes: object
) -> Callable[[Path], None]:
    """Return a forgery of this record and the two beside it as those of boards; the fields and values are of this one."""

    def harm(path: Path) -> None:
        for place, target in zip((path, path.parents[1] / "other", path.parents[1] / "third"), targets, strict=True):
            edited("experiment", target=target)(place)
        edited("experiment", **changes)(path)
        if value is not None:
            every_value(value)(path)

    return harm


_OF_THREE = [
    Kind("three boards", _three_boards(), ""),
    Kind("three boards whose addresses forge lines", _three_boards((f"ssh:a{LINES}", f"ssh:b{LINES}", "ssh:c")), ""),
    Kind("three boards of one address", _three_boards(("ssh:a",) * 3), ""),
    Kind("three boards, one of which took 0 ns", _three_boards(value=0.0), ""),
    Kind("three boards, one of which took 1e-290 ns", _three_boards(value=1e-290), ""),
    Kind("three boards, one of which took 1e290 ns", _three_boards(value=1e290), ""),
    Kind("three boards, one of other levels", _three_boards(factors=factor("glibc", LINES)), ""),
    Kind("three boards, one of another clock", _three_boards(target="vm", clock="virtual", architecture="arm64"), ""),
    Kind(
        "three clocks, one of 16 ns",
        _three_boards(target="vm", clock="virtual", architecture="arm64", ns_per_instruction=16),
        "",
    ),
    Kind("three boards of the largest margin", _three_boards(margin=1.0), ""),
]

_MACHINES = [
    *(
        Kind(f"{name} of a row is {what}", _file(name, make), "")
        for name in (_COUNTS, _WAKEUPS)
        for what, make in (
            ("nested", lambda place: place.write_text(NESTED)),
            ("a link to /dev/zero", linked("/dev/zero")),
            ("1 TiB of nothing", sparse()),
            ("a list", lambda place: place.write_text("[]")),
        )
    ),
    Kind("counted instructions", _counts(lambda found: found), ""),
    Kind("counted instructions that forge lines", _counts(_all_forged), ""),
    Kind("counted instructions of another row", _counts(lambda found: found | {"place": {"suite": LINES}}), ""),
    Kind("counts of 2^53", _counts(_scaled(1 << 53)), ""),
    Kind("counts of -1", _counts(_scaled(-1)), ""),
    Kind("no instructions", _counts(_empty), ""),
    Kind("no operations", _counts(_sides(operations=0.0)), ""),
    Kind("operations of 9e18", _counts(_sides(operations=9e18)), ""),
    Kind("a clock of 10^30", _counts(_sides(clock_ns=10**30)), ""),
    Kind("an instruction of 2^62 ns", _counts(lambda found: found | {"ns_per_instruction": 1 << 62}), ""),
    Kind("100,000 events", _counts(lambda found: found | {"events": found["events"] * 100_000}), ""),
    Kind("100,000 notes", _counts(lambda found: found | {"notes": [LINES] * 100_000}), ""),
    Kind("call paths that forge lines", _stored(_COUNTS, PATHS_OF_ROW, _all_forged), ""),
    Kind("call paths of absent functions", _counts(_profile(lambda found: found | {"frames": []})), ""),
    Kind("3000 paths of 300 calls", _counts(_deep(3000, 300)), ""),
    Kind("wake-ups that forge lines", _wakeups(_all_forged), ""),
    Kind("wake-ups of 3000 functions", _wakeups(_deep(3000, 300)), ""),
    Kind("wake-ups of -1 ns", _wakeups(_sides(latency_ns=-1)), ""),
    Kind("a wake-up of 2^62 instructions", _wakeups(_sides(instructions=1 << 62)), ""),
    Kind("a machine of an unknown architecture", edited("experiment", **{**_MACHINE, "architecture": LINES}), ""),
    Kind("a machine of 10^6 processors", edited("experiment", **_MACHINE, processors=10**6), ""),
    Kind("a machine whose instructions take 0 ns", edited("experiment", **_MACHINE, ns_per_instruction=0), ""),
    Kind("a board whose address forges lines", edited("experiment", target=f"ssh:{LINES}"), ""),
    Kind("a board whose address is an option", edited("experiment", target="ssh:-oProxyCommand=touch owned"), ""),
    Kind("a board of -2^63 degrees", _on_board(board_temperature_after=-(1 << 63)), ""),
    Kind("a board of 2^63 - 1 Hz", _on_board(board_frequency_after=(1 << 63) - 1), ""),
    Kind(
        "a board that rebooted 2^62 times",
        _on_board(board_boots=1 << 62, reconnects=1 << 62, board_throttled_before=-1, board_throttled_after=1 << 62),
        "",
    ),
    Kind("a fact whose name forges lines", run_edited(facts=[[LINES, 1]]), ""),
]

GROUPS: dict[str, list[Kind]] = {"machines and boards": _MACHINES, "three boards": _OF_THREE}
"""Kinds of hostile records, by what is harmed."""
