# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile records by their values: names that forge lines of a report, and JSON that decoders stumble over."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from tests.hostile.forgery import (
    FORGED,
    LINES,
    METRIC,
    Json,
    Kind,
    edited,
    factor,
    own,
    run_edited,
    runs_changed,
    seal,
    with_text,
    write_lines,
)


def _level(name: str) -> Callable[[Path], None]:
    """Return a forgery that gives the level musl another name, in the experiment and in the runs."""

    def harm(path: Path) -> None:
        edited("experiment", factors=factor("glibc", name))(path)
        text = json.dumps(f"libc={name}")

        def change(run: Json) -> str:
            return json.dumps(run, separators=(",", ":")).replace('"libc=musl"', text)

        runs = [json.loads(line)["run"] for line in (path / "runs.jsonl").read_text().splitlines()]
        write_lines(path, [change(run) for run in runs])

    return harm


def _own_named(name: str, **changes: object) -> Callable[[Path], None]:
    """Return a forgery of an own program of that name, with runs."""

    def harm(path: Path) -> None:
        own(name=name, **changes)(path)
        edited("experiment", workloads=[["own", name]])(path)
        runs_changed(lambda runs: [run | {"trial": run["trial"] | {"workload": name}} for run in runs])(path)

    return harm


def _every_run(**changes: object) -> Callable[[Path], None]:
    return runs_changed(lambda runs: [run | changes for run in runs])


_OWN_TEXTS: dict[str, object] = {
    **dict.fromkeys(("build", "source", "setup", "prepare", "conclude", "directory", "output", "stdin"), LINES),
    "arguments": [LINES, LINES],
    "commands": [{"name": LINES, "words": [LINES]}],
    "environment": [[LINES, LINES]],
    "parameters": [[LINES, [LINES]]],
}

_NAMES = [
    Kind("a level that forges lines", _level(LINES), ""),
    *(Kind(f"a level named {name!r}", _level(name), "") for name in ("..", "/", "../../etc/passwd", "-rf", "")),
    Kind("a level of one zero-width character", _level("\u200b"), ""),
    *(
        Kind(f"a level that is {what}", _level(name), "")
        for what, name in (
            ("links in Markdown", "[x](javascript:alert(1)) ![i](http://evil/x.png) `a` | c | ~~~ # h"),
            ("attributes of HTML", "\"'><img src=x onerror=alert(1)></title></script>-->]]>"),
            ("no characters of XML", "\ufffe\uffff\x01\x7f]]>&xxe;"),
            ("signals of LAVA", "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=x RESULT=pass>"),
            ("a line of benchstat", f"Benchmark{FORGED} 1 1 ns/op"),
            ("a formula behind a no-break space", "\u00a0=1+1"),
        )
    ),
    Kind("a level of 300 characters", _level("n" * 300), ""),
    Kind("an own program that forges lines", _own_named(LINES), ""),
    *(
        Kind(f"an own program named {name[:20]!r}", _own_named(name), "")
        for name in ("..", "/dev/zero", "a/../b", "n" * 9000)
    ),
    *(
        Kind(f"an own program's {name} forges lines", _own_named("work", **{name: value}), "")
        for name, value in _OWN_TEXTS.items()
    ),
    Kind(
        "a metric that forges lines",
        _own_named(
            "work", numbers=[{"metric": {**METRIC, "name": LINES, "unit": LINES, "meaning": LINES}, "pattern": "(x)"}]
        ),
        "",
    ),
    *(
        Kind(f"{name} of the experiment forges lines", edited("experiment", **{name: LINES}), "")
        for name in ("name", "published", "architecture", "target")
    ),
    Kind("held levels that forge lines", edited("experiment", held=[[LINES, LINES]]), ""),
    Kind("a load that forges lines", edited("experiment", loads=["idle", LINES]), ""),
    Kind("a failure that forges lines", _every_run(status="failed", samples=[], reason=LINES), ""),
    Kind("a refusal that forges lines", run_edited(status="refused", samples=[], reason=LINES), ""),
    Kind("an observed level that forges lines", run_edited(observed=[["libc", LINES], [LINES, LINES]]), ""),
    Kind("facts that forge lines", run_edited(facts=[[LINES, 1]]), ""),
    Kind("found files that forge lines", _every_run(found_files=[LINES]), ""),
    Kind("digests that forge lines", _every_run(digests=[[LINES, LINES]]), ""),
    Kind("a seal that forges lines", edited("seal", why=LINES, verdicts=LINES), ""),
    Kind("a version that forges lines", edited("record", swapstone=LINES), ""),
    Kind(
        "a machine that forges lines",
        edited("manifest", machine=[["cpu", LINES], [LINES, LINES]], tools=[[LINES, LINES]]),
        "",
    ),
    Kind("null characters in a run", run_edited(reason="a\0b", status="failed", samples=[]), ""),
]


def _chained(path: Path, run: str) -> None:
    """Add a run, encoded by the attacker, to the chain."""
    runs = [
        json.dumps(json.loads(line)["run"], separators=(",", ":"))
        for line in (path / "runs.jsonl").read_text().splitlines()
    ]
    write_lines(path, [*runs, run])


def _last_run_with(facts: str) -> Callable[[Path], None]:
    """Return a forgery that adds a run with facts that are not encoded."""

    def harm(path: Path) -> None:
        run = json.loads((path / "runs.jsonl").read_text().splitlines()[-1])["run"]
        run["trial"]["block"] += 1
        run["facts"] = "FACTS"
        _chained(path, json.dumps(run, separators=(",", ":")).replace('"FACTS"', facts))

    return harm


def _bytes_in_run(data: bytes) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        *lines, last = (path / "runs.jsonl").read_bytes().splitlines(keepends=True)
        (path / "runs.jsonl").write_bytes(
            b"".join(lines) + last.replace(b'"reason":""', b'"reason":"' + data + b'"') + data
        )

    return harm


def _gzip_bomb(path: Path) -> None:
    """Put 64 MiB of zeros, compressed, in the place of a raw output that a run names."""
    data = gzip.compress(bytes(64 << 20))
    digest = hashlib.sha256(data).hexdigest()
    (path / "raw" / f"{digest}.txt").write_bytes(data)
    run_edited(output=digest, answer=digest)(path)


def _large_manifest(path: Path) -> None:
    with (path / "manifest.json").open("w") as file:
        file.write('{"machine":[["a","b"]' + ',["a","b"]' * 11_000_000 + '],"tools":[],"artifacts":[],"passes":[]}')
    seal(path)


def _deep_manifest(path: Path) -> None:
    with (path / "manifest.json").open("w") as file:
        file.write('{"machine":' + "[" * 100_000_000)
    seal(path)


_DEPTH = 1_000_000
_JSON = [
    Kind("facts of a run with 10^6 levels", _last_run_with("[" * _DEPTH + "]" * _DEPTH), "not a run"),
    Kind(
        "facts of a run that are objects of 10^5 levels",
        _last_run_with('{"a":' * 100_000 + "1" + "}" * 100_000),
        "not a run",
    ),
    Kind("a manifest with 10^8 levels", _deep_manifest, "can't be read"),
    Kind("a manifest of 11 million entries", _large_manifest, "values, more than the"),
    *(
        Kind(f"a fact of {text[:20]}", _last_run_with(f'[["a",{text}]]'), named)
        for text, named in (
            ("NaN", "not a run"),
            ("Infinity", "not a run"),
            ("-Infinity", "not a run"),
            ("1e308", "not a run"),
            ("-0", ""),
            ("1e-400", ""),
            ("0x10", "not a run"),
            ("1" * 100_000, "not a run"),
            ('"\\ud800"', "not a run"),
        )
    ),
    *(
        Kind(
            f"{name} of the experiment is {text}",
            with_text("experiment.json", f'"{name}": ', f'"{name}": {text}, "x{name}": '),
            "",
        )
        for name, text in (
            ("margin", "-0.0"),
            ("seed", "-0"),
            ("confidence", "1e-400"),
            ("margin", "Infinity"),
            ("blocks", "1e3"),
        )
    ),
    Kind("a run with half a character", _bytes_in_run(b"\xe2\x82"), ""),
    Kind("a run with an unpaired surrogate", with_text("runs.jsonl", '"reason":""', '"reason":"\\ud800"'), ""),
    Kind("a key twice in a run", with_text("runs.jsonl", '"run":{', '"run":{"status":"failed","status":"ok",'), ""),
    Kind("a key twice in a line", with_text("runs.jsonl", '"number":3', '"number":1,"number":3'), ""),
    Kind(
        "a byte order mark",
        lambda path: (path / "seal.json").write_bytes(b"\xef\xbb\xbf" + (path / "seal.json").read_bytes()),
        "",
    ),
    Kind(
        "UTF-16", lambda path: (path / "seal.json").write_text((path / "seal.json").read_text(), encoding="utf-16"), ""
    ),
    Kind("a raw output that is a gzip bomb", _gzip_bomb, ""),
    Kind("a workload that is a path", edited("experiment", workloads=[["libc", "../../../../bin/sh"]]), ""),
    Kind("a suite that is a path", edited("experiment", workloads=[["../../libc", "b_malloc_tiny1"]]), ""),
]

GROUPS: dict[str, list[Kind]] = {"names": _NAMES, "JSON": _JSON}
"""Kinds of hostile records, by what is harmed."""
