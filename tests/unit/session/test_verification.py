# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forged records: each forgery renews the chain of lines and the seal, so that only what the runs contain can show it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import swapstone
from swapstone.core.comparison import cells
from swapstone.core.model import Run
from swapstone.core.record import load, record_format
from swapstone.core.session.analysis import analyse_record, record_verdicts, verdicts_digest
from swapstone.core.session.verification import Verification
from swapstone.version import __version__
from tests.e2e.cli import fake
from tests.raw_outputs import raw_to_files

RunData = dict[str, Any]
Change = Callable[[list[RunData]], list[RunData]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of three workloads: two have more noise, and take more blocks until their intervals are within the margin."""
    folder = tmp_path_factory.mktemp("original")
    noisy = '[[behaviour]]\nworkload = "b_malloc_tiny*"\nnoise = 0.03\n[[behaviour.faults]]\nkind = "crash"\ntrials = ["3-0"]\n'
    record = swapstone.compare(
        swapstone.Workloads(only=["b_string_strlen", "b_malloc_tiny1", "b_malloc_tiny2"]),
        swapstone.Measuring(seed=3, budget="2m"),
        swapstone.Place(target=fake(folder, noisy)),
        libc=["glibc", "musl"],
        out=folder / "record",
    )
    return raw_to_files(Path(record.path))


@pytest.fixture
def record(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "record"))


def _verify(path: Path, against: str = "") -> Verification:
    return swapstone.load(path).verify(against=against)


def _runs(path: Path) -> list[RunData]:
    return [json.loads(line)["run"] for line in (path / "runs.jsonl").read_text().splitlines()]


def _forge(path: Path, change: Change) -> None:
    """Change the runs of a record, and renew numbers, chain, seal and verdicts."""
    lines, chain = [], ""
    for number, data in enumerate(change(_runs(path)), start=1):
        run = msgspec.convert(data, Run).encoded()
        before, chain = chain, record_format.chain_value(number, chain, run)
        lines.append(
            msgspec.json.encode(record_format.Line(number=number, previous=before, chain=chain, run=msgspec.Raw(run)))
        )
    (path / "runs.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    _seal(path, runs=len(lines), chain=chain)


def _seal(path: Path, **changed: object) -> None:
    """Renew the seal, its digests and the digest of the verdicts."""
    digests = {
        name: hashlib.sha256((path / f"{name}.json").read_bytes()).hexdigest()
        for name in ("manifest", "experiment", "record")
    }
    for verdicts in ("", None):
        seal = json.loads((path / "seal.json").read_text()) | digests | changed
        seal["verdicts"] = verdicts_digest(analyse_record(load(path))) if verdicts is None else verdicts
        (path / "seal.json").write_text(json.dumps(seal))


def _keep(path: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    (path / "raw" / f"{digest}.txt").write_bytes(data)
    return digest


def _raw(path: Path, digest: str) -> bytes:
    return (path / "raw" / f"{digest}.txt").read_bytes()


def _is(run: RunData, variant: str, block: int | None = None) -> bool:
    trial = run["trial"]
    return trial["variant"] == variant and run["status"] == "ok" and block in {None, trial["block"]}


def _times(run: RunData, factor: float) -> None:
    for sample in run["samples"]:
        if sample["metric"] in {"wall", "cpu"}:
            sample["values"] = [value * factor for value in sample["values"]]


def _found(path: Path) -> str:
    result = _verify(path)
    assert not result.ok
    assert result.answer.startswith("Altered: ")
    assert not load(path).damages  # the chain and the seal hold
    return "\n".join(result.problems)


def test_an_honest_record_is_whole_and_every_run_is_derived(record: Path) -> None:
    result = _verify(record)
    assert result.problems == ()
    assert result.answer.startswith("Whole and unaltered, as far as a record can show: ")
    assert result.derivation is not None
    found = result.derivation
    assert found.whole == found.runs > 60 and not found.underived
    assert found.failures == found.failures_shown > 0
    assert result.digest == hashlib.sha256((record / "seal.json").read_bytes()).hexdigest()
    # One workload ended at a look, before the other: the plan of the remaining blocks is that of one workload.
    blocks = {name: max(run["trial"]["block"] for run in _runs(record) if run["trial"]["workload"] == name) for name in
              ("b_string_strlen", "b_malloc_tiny1")}  # fmt: skip
    assert blocks["b_string_strlen"] < blocks["b_malloc_tiny1"]


def test_an_interrupted_record_is_incomplete_and_unaltered(record: Path) -> None:
    _seal(record, state="interrupted", why="the user stopped it")
    found = _verify(record)
    assert found.ok and found.problems == ()
    assert found.answer.startswith("Incomplete, and unaltered as far as a record can show: ")
    assert "; the user stopped it; the same verdicts" in found.answer


def test_a_record_whose_session_failed_is_incomplete_and_unaltered(record: Path) -> None:
    seal = json.loads((record / "seal.json").read_text())
    (record / "seal.json").write_text(json.dumps(seal | {"verdicts": "", "state": "interrupted", "why": "an error"}))
    found = _verify(record)
    assert found.ok and "its last session ended before the analysis (an error)" in found.answer


def test_what_no_seal_covers_is_incomplete_and_not_good(record: Path) -> None:
    seal = json.loads((record / "seal.json").read_text())
    (record / "seal.json").write_text(json.dumps(seal | {"runs": seal["runs"] - 1, "chain": ""}))
    later = _verify(record)
    assert (
        not later.ok and later.problems == () and "Incomplete" in later.answer and "1 runs came after" in later.answer
    )
    (record / "seal.json").unlink()
    unsealed = _verify(record)
    assert not unsealed.ok and unsealed.problems == ()
    assert "it has no seal" in unsealed.answer and "signal" not in unsealed.answer


@pytest.mark.parametrize("name", ["runs.jsonl", "seal.json", "experiment.json"])
def test_a_key_that_occurs_twice_is_refused(record: Path, name: str) -> None:
    """Decoders take the last value, and other readers the first."""
    data = (record / name).read_text()
    pair = re.search(r'"(\w+)":\s*("[^"]*"|\d+)', data)
    assert pair is not None
    (record / name).write_text(data.replace(pair[0], f"{pair[0]}, {pair[0]}", 1))
    problem = next(each for each in _verify(record).problems if "twice" in each)
    assert name in problem and f"it has the key {pair[1]} twice" in problem


@pytest.mark.slow
def test_a_record_forged_by_nothing_stays_whole(record: Path) -> None:
    """The forger itself leaves no trace, or the tests below would show nothing."""
    _forge(record, lambda runs: runs)
    assert _verify(record).problems == ()


@pytest.mark.slow
def test_multiplied_times_are_found_where_the_raw_output_is_left(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if _is(run, "libc=musl"):
                _times(run, 0.1)
        return runs

    _forge(record, change)
    assert "has other samples of wall than its raw output" in _found(record)


@pytest.mark.slow
def test_a_changed_fact_of_the_agent_is_found(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if _is(run, "libc=musl"):
                for sample in run["samples"]:
                    if sample["metric"] == "maxrss":
                        sample["values"] = [value / 2 for value in sample["values"]]
                run["facts"] = [[name, value // 2 if name == "maxrss_bytes" else value] for name, value in run["facts"]]
        return runs

    _forge(record, change)
    assert "has other facts than the agent's answer" in _found(record)


@pytest.mark.parametrize("maker", ["", "99.0"])
def test_samples_that_only_another_version_derives_are_no_damage(record: Path, maker: str) -> None:
    described = json.loads((record / "record.json").read_text())
    metrics, works = described["description"]["metrics"], described["description"]["works"]
    metrics.append({**metrics[-1], "name": "later"})
    for work in works:
        work["metrics"].append(len(metrics) - 1)
    (record / "record.json").write_text(json.dumps(described | ({"swapstone": maker} if maker else {})))

    def measure_more(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if run["samples"]:
                run["samples"].append({**run["samples"][-1], "metric": "later"})
        return runs

    _forge(record, measure_more)
    if not maker:
        assert "has other samples of later than its raw output" in _found(record)
        return
    found = _verify(record)
    assert found.ok and "runs were not derived again" in found.answer, found.problems
    assert any(f"Swapstone 99.0 made the record, and {__version__} derives no later" in note for note in found.notes)

    def slower(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            _times(run, 2)
        return runs

    _forge(record, slower)
    assert "has other samples of wall than its raw output" in _found(record), "what this version derives is compared"


@pytest.mark.slow
def test_a_removed_slow_run_is_found_by_the_plan(record: Path) -> None:
    _forge(record, lambda runs: [run for run in runs if not _is(run, "libc=musl", 4)])
    assert "0004/libc/" in _found(record) and "is missing: block 4 of the plan has it" in _found(record)


@pytest.mark.slow
def test_a_removed_block_is_found(record: Path) -> None:
    _forge(record, lambda runs: [run for run in runs if run["trial"]["block"] != 5])
    assert "block 5 has no run of" in _found(record)


@pytest.mark.slow
def test_a_workload_that_was_ended_early_is_found(record: Path) -> None:
    """After the first look only the other workload ended."""
    _forge(
        record,
        lambda runs: [
            run for run in runs if run["trial"]["workload"] != "b_malloc_tiny1" or run["trial"]["block"] <= 15
        ],
    )
    assert "b_malloc_tiny1, whose interval was not narrow enough to end" in _found(record)


@pytest.mark.slow
def test_swapped_variants_are_found(record: Path) -> None:
    """The order by the seed shows it, and so does the C library that the agent observed."""

    def change(runs: list[RunData]) -> list[RunData]:
        other = {"libc=glibc": "libc=musl", "libc=musl": "libc=glibc"}
        for run in runs:
            run["trial"]["variant"] = other[run["trial"]["variant"]]
            run["observed"] = [["libc", run["trial"]["variant"].partition("=")[2]]] if run["observed"] else []
        return runs

    _forge(record, change)
    found = _found(record)
    assert "its raw output shows" in found and "where the seed puts" in found


@pytest.mark.slow
def test_raw_output_of_another_run_is_found(record: Path) -> None:
    """A slow run takes the samples, the output and the answer of a fast one."""

    def change(runs: list[RunData]) -> list[RunData]:
        fast = next(run for run in runs if _is(run, "libc=musl", 1))
        slow = next(
            run for run in runs if _is(run, "libc=musl", 7) and run["trial"]["workload"] == fast["trial"]["workload"]
        )
        for name in ("samples", "output", "answer", "facts"):
            slow[name] = fast[name]
        return runs

    _forge(record, change)
    assert "has the agent's answer to another trial, 1-" in _found(record)


@pytest.mark.slow
def test_a_slow_run_marked_as_failed_is_found(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        run = next(run for run in runs if _is(run, "libc=musl", 6))
        run.update(status="failed", reason="it ended with status 1", samples=[], observed=[], check="")
        return runs

    _forge(record, change)
    assert "is marked failed, and its raw output shows no failure" in _found(record)


@pytest.mark.slow
def test_a_run_without_the_answer_of_the_agent_is_found(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if _is(run, "libc=musl"):
                _times(run, 0.5)
                run["answer"] = ""
        return runs

    _forge(record, change)
    assert "has samples, and no answer of the agent is kept" in _found(record)


@pytest.mark.slow
def test_the_last_run_of_a_block_and_the_checksum_of_a_run_are_checked(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        run = next(run for run in runs if _is(run, "libc=musl", 6))
        run["check"] = "f" * 8
        return runs[:-1]

    _forge(record, change)
    found = _found(record)
    assert "has another checksum of its work than its raw output" in found
    assert "is missing: block" in found


@pytest.mark.slow
def test_another_number_of_passes_is_found(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if _is(run, "libc=musl"):
                run["passes"] += 1
        return runs

    _forge(record, change)
    assert "were calibrated" in _found(record)


@pytest.mark.slow
def test_times_of_day_that_run_backwards_are_found(record: Path) -> None:
    def change(runs: list[RunData]) -> list[RunData]:
        runs[20]["started_unix_ns"] = runs[10]["started_unix_ns"]
        return runs

    _forge(record, change)
    assert "started before the end of the run before it" in _found(record)


@pytest.mark.slow
def test_a_cut_off_end_is_found(record: Path) -> None:
    """The record says that every interval is narrow enough, and it ends before a look."""
    _forge(record, lambda runs: [run for run in runs if run["trial"]["block"] <= 12])
    _seal(record, why="every interval that can decide is as narrow as the margin")
    assert "it is sealed as precise enough, and its runs are not" in _found(record)


@pytest.mark.slow
def test_a_changed_identity_is_found(record: Path) -> None:
    meta = json.loads((record / "record.json").read_text())
    (record / "record.json").write_text(json.dumps(meta | {"id": "20200101-000000-000000"}))
    assert "record.json: it was edited after the record was sealed" in "\n".join(_verify(record).problems)
    seal = json.loads((record / "seal.json").read_text())
    (record / "seal.json").write_text(json.dumps(seal | {"record": ""}))
    assert "seal.json: it lacks the digest of record.json" in "\n".join(_verify(record).problems)


@pytest.mark.slow
def test_only_a_published_digest_finds_a_record_that_is_forged_throughout(record: Path) -> None:
    """Samples, the program's output and the agent's answer are forged alike: no check of the record alone can show it."""
    published = _verify(record).digest

    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if not _is(run, "libc=musl"):
                continue
            output = _raw(record, run["output"])
            lines = [
                b" ".join([b"pass", b"%d" % (int(words[1]) * 2), b"%d" % (int(words[2]) * 2), *words[3:]])
                if (words := line.split(b" "))[0] == b"pass"
                else line
                for line in output.split(b"\n")
            ]
            answer = json.loads(_raw(record, run["answer"]))
            forged = b"\n".join(lines)
            grown = len(forged) - len(output)
            for name in ("printed_bytes", "kept_bytes"):
                answer[name][0] += grown
            run["output"], run["answer"] = _keep(record, forged), _keep(record, json.dumps(answer).encode())
            _times(run, 2.0)
        return runs

    _forge(record, change)
    assert _verify(record).problems == ()
    found = _verify(record, published[:16])
    assert "it is not the record whose digest was published" in found.problems[0]


@pytest.mark.slow
def test_against_accepts_the_digest_and_its_beginning(record: Path) -> None:
    digest = _verify(record).digest
    assert "the same digest" in _verify(record, digest).answer
    assert _verify(record, digest[:16].upper()).ok
    assert not _verify(record, "0" * 16).ok
    for wrong in (digest[:15], "x" * 16, digest + "0"):
        with pytest.raises(swapstone.UserError, match="is no digest of a record"):
            _verify(record, wrong)


@pytest.mark.slow
def test_a_hostile_name_of_raw_output_is_never_opened(record: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")

    def change(runs: list[RunData]) -> list[RunData]:
        runs[3]["output"] = f"../../{outside.stem}"
        return runs

    _forge(record, change)
    problems = "\n".join(_verify(record).problems)
    assert "a run names a raw output that is no SHA-256" in problems and "secret" not in problems


@pytest.mark.slow
def test_the_report_prints_the_digest(record: Path) -> None:
    digest = _verify(record).digest
    report = swapstone.load(record)
    assert f"Seal {digest[:16]}." in " ".join(report.report().split())
    for kind in ("markdown", "html", "json", "csv"):
        assert digest in report.report(kind)


@pytest.fixture(scope="module")
def printing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of two commands that print different lines."""
    folder = tmp_path_factory.mktemp("printing")
    commands = ["seq 100 130", "seq 100 131"]
    record = swapstone.compare(
        swapstone.Program(commands=commands),
        swapstone.Measuring(blocks=4),
        swapstone.Place(target="host"),
        out=folder / "record",
    )
    return raw_to_files(Path(record.path))


@pytest.mark.slow
def test_the_digests_of_an_own_programs_output_are_derived(printing: Path, tmp_path: Path) -> None:
    record = Path(shutil.copytree(printing, tmp_path / "record"))
    result = _verify(record)
    assert result.problems == ()
    assert result.derivation is not None and result.derivation.whole == result.derivation.runs > 0

    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            run["digests"] = runs[0]["digests"]
        return runs

    _forge(record, change)
    assert "has other digests of its output than its raw output" in _found(record)


def test_the_times_of_an_own_program_are_derived(printing: Path, tmp_path: Path) -> None:
    """The program prints no time: what the agent measured is in its answer alone."""
    record = Path(shutil.copytree(printing, tmp_path / "record"))

    def change(runs: list[RunData]) -> list[RunData]:
        for run in runs:
            if "131" in run["trial"]["variant"]:
                _times(run, 0.5)
                facts = {name: value // 2 if name.endswith(("_us", "_ns")) else value for name, value in run["facts"]}
                run["facts"] = [list(pair) for pair in facts.items()]
        return runs

    _forge(record, change)
    assert "has other facts than the agent's answer" in _found(record)


def test_comparisons_without_any_run_are_left_out_of_large_experiments_and_not_of_the_digest(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(runs: list[RunData]) -> list[RunData]:
        return [
            run for run in runs if run["trial"]["workload"] == "b_malloc_tiny2" and "glibc" not in str(run["trial"])
        ]

    _forge(record, few)
    view = load(record)
    every = analyse_record(view)
    digest = verdicts_digest(every)
    assert record_verdicts(view) == digest
    monkeypatch.setattr(cells, "MOST_EMPTY_ROWS", 1)
    shown = analyse_record(view)
    assert {each.workload for each in every.comparisons} == {"b_string_strlen", "b_malloc_tiny1", "b_malloc_tiny2"}
    assert {each.workload for each in shown.comparisons} == {"b_malloc_tiny2"}
    assert shown.comparisons == tuple(each for each in every.comparisons if each.workload == "b_malloc_tiny2")
    left_out = len(every.comparisons) - len(shown.comparisons)
    assert [each.message for each in shown.caveats if each.message.endswith("left out: no complete pair of runs.")] == [
        f"{left_out} comparisons of which no run was made are left out: no complete pair of runs."
    ]
    assert record_verdicts(view) == digest != verdicts_digest(shown)


def test_metrics_of_all_processes_are_left_out_of_the_digest_of_large_experiments_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script of one process has no rows of them, and none of sizes that would take their place."""
    for name in ("a", "b"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    record = swapstone.compare(
        swapstone.Program(commands=[str(tmp_path / name) for name in ("a", "b")]),
        swapstone.Measuring(blocks=1),
        swapstone.Place(target="host"),
        out=tmp_path / "record",
    )
    digest = record_verdicts(record.view)
    monkeypatch.setattr(cells, "MOST_EMPTY_ROWS", 1)
    assert record_verdicts(record.view) == digest
