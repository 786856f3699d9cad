# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile records at the limits of what is read: the largest experiments, odd lines and answers, and missing permissions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.forgery import (
    ESCAPE,
    LINES,
    METRIC,
    Json,
    Kind,
    changed,
    edited,
    factor,
    linked,
    own,
    replaced,
    run_edited,
    runs_changed,
    sparse,
)


def _runs_of(experiment: Json, runs: Callable[[Json], list[Json]]) -> Callable[[Path], None]:
    """Return a forgery of an experiment, whose runs are made from the first run of the record."""

    def harm(path: Path) -> None:
        edited("experiment", **experiment)(path)
        runs_changed(lambda old: runs(old[0]))(path)

    return harm


def _of(run: Json, **trial: object) -> Json:
    return run | {"trial": run["trial"] | trial}


def _many_levels(run: Json) -> list[Json]:
    return [_of(run, block=1, variant=f"libc=l{number}") for number in range(40)]


def _every_place(run: Json) -> list[Json]:
    """Return one run of each of 40 variants of 2 workloads in 3 blocks."""
    return [
        _of(run, block=block, variant=f"libc=l{number}", workload=workload)
        for block in (1, 2, 3)
        for workload in ("b_malloc_tiny1", "b_malloc_tiny2")
        for number in range(40)
    ]


_LEVELS = [f"l{number}" for number in range(1024)]
_CROSSED = [factor(*"ab", name=f"f{number}")[0] for number in range(6)]


def _crossed(run: Json) -> list[Json]:
    """Return a run of each of the 64 variants of six crossed factors, in two blocks."""
    labels = [",".join(f"f{number}={'ab'[which >> number & 1]}" for number in range(6)) for which in range(64)]
    return [_of(run, block=block, variant=label) for block in (1, 2) for label in labels]


def _far_block(path: Path) -> None:
    """Forge an experiment with 98,304 trials a block, and a run in its last block."""
    edited(
        "experiment",
        factors=factor(*_LEVELS),
        workloads=[["libc", "b_malloc_tiny1"], ["libc", "b_malloc_tiny2"]],
        loads=[f"load{number}" for number in range(48)],
        blocks=1_000_000,
    )(path)
    runs_changed(lambda old: [_of(old[0], block=1_000_000, variant="libc=l0", load="load0")])(path)


def _many_metrics(path: Path) -> None:
    numbers = [{"metric": {**METRIC, "name": f"m{number}"}, "pattern": f"(m{number})"} for number in range(1000)]
    own(
        numbers=numbers,
        parameters=[[name, [str(value) for value in range(100)]] for name in "ab"],
        arguments=["/bin/true", "{a}", "{b}"],
    )(path)


def _metrics_in_run(count: int) -> Callable[[Path], None]:
    return run_edited(samples=[{"metric": f"m{number}", "values": [1.0]} for number in range(count)])


def _many_bins(path: Path) -> None:
    run_edited(histogram=[[edge, 1] for edge in range(1_000_000)])(path)


def _alternating(*values: float) -> Callable[[Path], None]:
    """Return a forgery of the values of all samples, in turns."""

    def change(runs: list[Json]) -> list[Json]:
        for number, run in enumerate(runs):
            for sample in run["samples"]:
                sample["values"] = [values[number % len(values)]]
        return runs

    return runs_changed(change)


_LARGEST = [
    Kind("1024 levels of a few runs", _runs_of({"factors": factor(*_LEVELS)}, _many_levels), ""),
    Kind(
        "40 of 1024 levels of two workloads in three blocks", _runs_of({"factors": factor(*_LEVELS)}, _every_place), ""
    ),
    Kind("six crossed factors", _runs_of({"factors": _CROSSED}, _crossed), ""),
    Kind("a run in block 10^6 of 98,304 trials", _far_block, ""),
    Kind(
        "1024 levels in balanced order", _runs_of({"factors": factor(*_LEVELS), "order": "balanced"}, _many_levels), ""
    ),
    Kind("1000 metrics of 10,000 combinations", _many_metrics, ""),
    Kind("20,000 metrics in a run", _metrics_in_run(20_000), ""),
    Kind("10^6 values in a run", run_edited(samples=[{"metric": "wall", "values": [1.5] * 1_000_000}]), ""),
    Kind("10^6 bins in a histogram", _many_bins, ""),
    Kind("bins of 2^63 - 1", run_edited(histogram=[[0, (1 << 63) - 1], [(1 << 63) - 1, (1 << 63) - 1]]), ""),
    Kind("a series of 10^6 values", run_edited(series=[{"metric": "wall", "values": [1.5] * 1_000_000}]), ""),
    Kind("100,000 observed levels", run_edited(observed=[["libc", f"x{number}"] for number in range(100_000)]), ""),
    Kind("a histogram for each of 4096 processors", run_edited(by_processor=[[n, [[1, 1]]] for n in range(4096)]), ""),
    Kind("values of 1e60 and 1e-60", _alternating(1e60, 1e-60), ""),
    Kind("values of 1e60 and -1e60", _alternating(1e60, -1e60), ""),
    Kind("values of -0", _alternating(-0.0), ""),
    Kind("values of 2^70", _alternating(float(2**70)), ""),
    Kind("values of 0, 1 and 0", _alternating(0.0, 1.0, 0.0), ""),
    *(
        Kind(f"a seed of {value}", edited("experiment", seed=value), "")
        for value in (-1, -(1 << 64) + 1, (1 << 64) - 1)
    ),
    *(Kind(f"wakeups of {value}", edited("experiment", wakeups=value), "") for value in (-1, (1 << 63) - 1)),
    Kind("no seconds of budget", edited("experiment", budget_ns=0), ""),
    Kind("a null of copies that no run has", edited("experiment", null=True), ""),
    Kind("layouts that no run has", edited("experiment", layouts=1000), ""),
    Kind("a record of the virtual clock on this machine", edited("experiment", clock="virtual"), ""),
    Kind(
        "modules that are paths",
        edited("experiment", modules=[["/etc/passwd", "/"]], module_files=["/dev/zero", LINES]),
        "",
    ),
    Kind("a processor's model that is an option", edited("experiment", cpu_model="max,file=/etc/passwd"), ""),
    *(
        Kind(f"created in {year}", edited("record", created=f"{year}-01-01T00:00:00+00:00"), named)
        for year, named in (("0001", "no time in UTC"), ("1000", ""), ("9999", ""))
    ),
    Kind("created in the last second", edited("record", created="9999-12-31T23:59:59.999999Z"), ""),
    Kind("a seal after 2262", edited("seal", sealed_unix_ns=(1 << 63) - 1), ""),
    Kind("a seal of 2^63 sessions", edited("seal", sessions=1 << 63), ""),
]


def _bytes_changed(change: Callable[[bytes], bytes], name: str = "runs.jsonl") -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        (path / name).write_bytes(change((path / name).read_bytes()))

    return harm


def _reversed_with_times(runs: list[Json]) -> list[Json]:
    times = [run["started_unix_ns"] for run in runs]
    return [run | {"started_unix_ns": time} for run, time in zip(runs, reversed(times), strict=True)]


def _all(**changes: object) -> Callable[[Path], None]:
    return runs_changed(lambda runs: [run | changes for run in runs])


def _numbered(number: Callable[[int], int]) -> Callable[[Path], None]:
    """Return a forgery of the lines' numbers, with a chain that fits them."""

    def harm(path: Path) -> None:
        runs = [json.loads(line)["run"] for line in (path / "runs.jsonl").read_text().splitlines()]
        chain = ""
        with (path / "runs.jsonl").open("w") as file:
            for place, run in enumerate(runs, start=1):
                text = json.dumps(run, separators=(",", ":"))
                before, chain = chain, hashlib.sha256(f"{number(place)}\n{chain}\n{text}".encode()).hexdigest()[:32]
                line = f'{{"number":{number(place)},"previous":"{before}","chain":"{chain}","run":{text}}}'
                file.write(line + "\n")
        changed("seal", lambda found: {**found, "chain": chain})(path)

    return harm


def _raw(path: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    (path / "raw" / f"{digest}.txt").write_bytes(data)
    return digest


def _with_texts(texts: Callable[[], bytes]) -> Callable[[Path], None]:
    """Return a harm that lets each line keep such texts beside its run."""
    return _bytes_changed(lambda data: data.replace(b"}\n", b',"raw":' + texts() + b"}\n"))


def _answers_in_lines(path: Path) -> None:
    """Move forged answers from their files to the lines of their runs."""
    _answer_fields(error=LINES, notes=LINES, name=LINES)(path)
    lines = (path / "runs.jsonl").read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        answer = path / "raw" / f"{json.loads(line)['run']['answer']}.txt"
        lines[number] = line[:-2] + b',"raw":' + json.dumps([answer.read_text()]).encode() + b"}\n"
        answer.unlink()
    (path / "runs.jsonl").write_bytes(b"".join(lines))


def _answers(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a forgery of the kept answer of every run, with its digest."""

    def harm(path: Path) -> None:
        def answered(runs: list[Json]) -> list[Json]:
            for run in runs:
                old = (path / "raw" / f"{run['answer']}.txt").read_bytes()
                run["answer"] = _raw(path, change(old))
            return runs

        runs_changed(answered)(path)

    return harm


def _answer_fields(**changes: object) -> Callable[[Path], None]:
    def change(data: bytes) -> bytes:
        found = json.loads(data)
        return json.dumps({**found, "answer": {**found["answer"], **changes}}).encode()

    return _answers(change)


def _one_answer(data: Callable[[], bytes]) -> Callable[[Path], None]:
    """Return a forgery of the kept answer of the first run alone."""

    def harm(path: Path) -> None:
        digest = _raw(path, data())
        runs_changed(lambda runs: [runs[0] | {"answer": digest}, *runs[1:]])(path)

    return harm


def _one_output(data: Callable[[], bytes]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        digest = _raw(path, data())
        runs_changed(lambda runs: [runs[0] | {"output": digest}, *runs[1:]])(path)

    return harm


def _many_facts() -> bytes:
    return b'{"answer":{"facts":[["a",1]' + b',["a",1]' * 15_000_000 + b"]}}"


_LINES = [
    Kind("lines that end with CR and LF", _bytes_changed(lambda data: data.replace(b"\n", b"\r\n")), ""),
    Kind("a byte order mark before the runs", _bytes_changed(lambda data: b"\xef\xbb\xbf" + data), "not a run|line"),
    Kind("empty lines between the runs", _bytes_changed(lambda data: data.replace(b"\n", b"\n\n")), ""),
    Kind("no newline at the end", _bytes_changed(lambda data: data[:-1]), ""),
    Kind("all runs in one line", _bytes_changed(lambda data: data.replace(b"\n", b" ")), "not a run|line"),
    Kind("1 MiB of zeros after the runs", _bytes_changed(lambda data: data + bytes(1 << 20)), "line"),
    Kind(
        "zeros in the place of the last runs",
        _bytes_changed(lambda data: data[: len(data) // 2] + bytes(len(data) // 2)),
        "line",
    ),
    Kind("a line separator of Unicode", _bytes_changed(lambda data: data.replace(b"\n", "\u2028".encode(), 1)), "line"),
    Kind("an escape at the end of a line", _bytes_changed(lambda data: data.replace(b"\n", b"\x1b[2J\n", 1)), "line"),
    Kind("runs in UTF-16", _bytes_changed(lambda data: data.decode().encode("utf-16")), "line|read"),
    Kind("runs in reversed order", runs_changed(lambda runs: runs[::-1]), ""),
    Kind("times in reversed order", runs_changed(_reversed_with_times), ""),
    Kind("all runs at one time", _all(started_unix_ns=0, elapsed_ns=0), ""),
    Kind("all runs took 2^63 ns", _all(elapsed_ns=(1 << 63) - 1), ""),
    Kind("lines numbered backwards", _numbered(lambda number: 1000 - number), "line"),
    Kind("lines numbered from 0", _numbered(lambda number: number - 1), "line"),
    Kind("lines numbered up to 2^63", _numbered(lambda number: (1 << 63) - 100 + number), "line"),
    Kind("a reason of 14 MiB", run_edited(status="failed", samples=[], reason="x" * (14 << 20)), "line"),
    Kind("all runs are unavailable", _all(status="unavailable", samples=[], reason=ESCAPE), ""),
    Kind("all runs are refused", _all(status="refused", samples=[], reason=LINES), ""),
    Kind("ok runs without samples", _all(samples=[]), ""),
    Kind("failed runs with samples", _all(status="failed"), ""),
    Kind("no passes", _all(passes=0), ""),
    Kind("10^9 passes", _all(passes=1_000_000_000), ""),
    Kind("answers that are empty objects", _answers(lambda _: b"{}"), "decoded"),
    Kind("texts in lines that no run names", _with_texts(lambda: json.dumps([ESCAPE, LINES, ""]).encode()), ""),
    Kind("texts in lines that are numbers", _with_texts(lambda: b"[1]"), "line"),
    Kind("nested texts in lines", _with_texts(lambda: b"[" * 100_000 + b"]" * 100_000), "line"),
    Kind("14 MiB of text in each line", _with_texts(lambda: b'["' + b"x" * (14 << 20) + b'"]'), ""),
    Kind("10^6 texts in each line", _with_texts(lambda: b"[" + b'"",' * 1_000_000 + b'""]'), "line"),
    Kind("texts in lines that end the line", _with_texts(lambda: b'["a"],"run":{}'), "line"),
    Kind("answers in lines that forge lines", _answers_in_lines, ""),
    Kind("answers that forge lines", _answer_fields(error=LINES, notes=LINES, name=LINES), ""),
    Kind("answers with counts of 30 digits", _answer_fields(facts=[["wall_ns", 10**30]]), ""),
    Kind("an answer nested 10^6 times", _one_answer(lambda: b'{"answer":' + b"[" * 10**6 + b"]" * 10**6 + b"}"), ""),
    Kind("an answer of 15 million facts", _one_answer(_many_facts), ""),
    Kind("an output of 100 MiB of one line", _one_output(lambda: b"--- stdout\n" + b"a" * (100 << 20)), ""),
    Kind("an output of 50 million headers", _one_output(lambda: b"--- stdout\n" * 9_000_000), ""),
    Kind("a seal with MD5", edited("seal", manifest="md5:d41d8cd98f00b204e9800998ecf8427e"), "edited after"),
    Kind("a seal with SHA-512", edited("seal", experiment="0" * 128), "edited after"),
    Kind(
        "a seal in capital letters", changed("seal", lambda old: old | {"chain": old["chain"].upper()}), "not the last"
    ),
    Kind(
        "a seal without digests", edited("seal", manifest="", experiment="", record="", chain=""), "edited after|lacks"
    ),
]


def _mode(mode: int, *names: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        for name in names:
            (path / name).chmod(mode)

    return harm


def _explained_mode(mode: int, name: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        (min((path / "explain").iterdir()) / name).chmod(mode)

    return harm


_PERMISSIONS = [
    *(
        Kind(f"{what} without permissions", _mode(0, name), named, unprivileged=True)
        for what, name, named in (
            ("a record", ".", "Permission denied"),
            ("raw", "raw", "Permission denied"),
            ("explain", "explain", ""),
            *((each, each, "Permission denied") for each in ("record.json", "experiment.json", "manifest.json")),
            *((each, each, "Permission denied") for each in ("runs.jsonl", "seal.json")),
            ("origin.json", "origin.json", ""),
        )
    ),
    Kind("a record that can be read alone", _mode(0o555, ".", "raw", "explain"), "", unprivileged=True),
    Kind("a record that can be listed alone", _mode(0o444, "."), "Permission denied", unprivileged=True),
    Kind("a record that can be entered alone", _mode(0o111, "."), "", unprivileged=True),
    Kind("explained rows that can be read alone", _explained_mode(0o555, "."), "", unprivileged=True),
    Kind("evidence without permissions", _explained_mode(0, "seen.json"), "", unprivileged=True),
    Kind("a study's folder that can be read alone", lambda path: path.parent.chmod(0o555), "", unprivileged=True),
    Kind("a study without permissions", lambda path: (path.parent / "study.json").chmod(0), "", unprivileged=True),
    Kind("a cache without permissions", lambda path: _cache(path).chmod(0), "", unprivileged=True),
    Kind("a cache that can be read alone", lambda path: _cache(path).chmod(0o555), "", unprivileged=True),
]


def _cache(path: Path) -> Path:
    folder = path.parents[1] / "swapstone"
    folder.mkdir(exist_ok=True)
    return folder


def _page(make: Callable[[Path], object]) -> Callable[[Path], None]:
    return replaced("report.html", make)


def _beside(path: Path) -> Path:
    """Return a folder of the user that no command may change."""
    folder = path.parents[1] / "outside"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    return folder


def _linked_outside(*names: str) -> Callable[[Path], None]:
    """Return a harm that puts a link to a folder of the user, or to its file, in the place of each name."""

    def harm(path: Path) -> None:
        folder = _beside(path)
        for name in names:
            target = folder if (path / name).is_dir() else folder / "kept"
            replaced(name, linked(str(target)))(path)

    return harm


def _explained_entry(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        row = min((path / "explain").iterdir()).name
        replaced(f"explain/{row}/{name}", make)(path)

    return harm


def _explained_row_outside(path: Path) -> None:
    row = min((path / "explain").iterdir()).name
    _linked_outside(f"explain/{row}")(path)


def _folder_with_file(place: Path) -> None:
    place.mkdir()
    (place / "inner").touch()


def _times(ns: int) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        for name in ("record.json", "runs.jsonl", "seal.json", "."):
            os.utime(path / name, ns=(ns, ns))

    return harm


_PLACES = [
    *(
        Kind(f"report.html is {what}", _page(make), "")
        for what, make in (
            ("a folder with a file", _folder_with_file),
            ("a FIFO", os.mkfifo),
            ("a link to itself", lambda place: place.symlink_to(place)),
            ("a link to /dev/full", linked("/dev/full")),
            ("1 TiB of nothing", sparse()),
        )
    ),
    Kind("report.html is a link to a file of the user", _linked_outside("report.html"), ""),
    Kind("raw and explain are links to a folder of the user", _linked_outside("raw", "explain"), "symbolic link"),
    Kind("an explained row is a link to a folder of the user", _explained_row_outside, ""),
    Kind("every file is a link to a file of the user", _linked_outside("runs.jsonl", "seal.json", "lock"), "symbolic"),
    Kind("builds is a link to /", replaced("builds", linked("/")), ""),
    Kind("builds is a FIFO", replaced("builds", os.mkfifo), ""),
    *(
        Kind(f"{name} of an explained row is a folder with a file", _explained_entry(name, _folder_with_file), "")
        for name in ("explanation.html", "explanation.md", "on-cpu-difference.html", ".seen.json.0123456789abcdef")
    ),
    Kind("its name is not UTF-8", lambda _: None, "", folder="r\udcff\udc80"),
    Kind("its name has 255 bytes", lambda _: None, "", folder="n" * 255),
    Kind("its name is a pattern", lambda _: None, "", folder="[a-z]*?{a,b}~"),
    Kind("its name is a URL", lambda _: None, "", folder="s3:bucket?x=1#y%00%2e"),
    Kind("its files are of 1901", _times(-(1 << 31) * 10**9), ""),
    Kind("its files are of 2446", _times(15_032_385_535 * 10**9), ""),
    Kind("runs.jsonl.torn is a folder", replaced("runs.jsonl.torn", _folder_with_file), ""),
    Kind("a temporary file that is a folder", replaced(".record.json.0123456789abcdef", _folder_with_file), ""),
]


def _study(change: Callable[[Json], Json]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        file = path.parent / "study.json"
        file.write_text(json.dumps(change(json.loads(file.read_text())), separators=(",", ":")))

    return harm


def _study_parts(count: int) -> Callable[[Json], Json]:
    return lambda found: {**found, "parts": ["a"] * count}


_STUDY_LIMITS = [
    Kind("4 million names of parts", _study(_study_parts(4_000_000)), ""),
    Kind("8 million patterns", _study(lambda found: {**found, "only": [0] * 8_000_000}), ""),
    Kind("a study of parts that it has not", _study(lambda found: {**found, "parts": ["two", LINES]}), ""),
    Kind(
        "a study without parts",
        _study(lambda found: {**found, "parts": [], "study": found["study"] | {"part": []}}),
        "",
    ),
    Kind("a study of another schema", _study(lambda found: {**found, "schema": 99}), ""),
    Kind("a study of -1 blocks", _study(lambda found: {**found, "blocks": -1, "budget_ns": -1, "seed": -1}), ""),
    Kind("a study whose target is a file", _study(lambda found: {**found, "target": "fake:/dev/zero"}), ""),
]

GROUPS: dict[str, list[Kind]] = {
    "the largest experiments": _LARGEST,
    "lines and answers": _LINES,
    "permissions": _PERMISSIONS,
    "entries": _PLACES,
    "large studies": _STUDY_LIMITS,
}
"""Kinds of hostile records, by what is harmed."""
