# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/fuzz: its table of decoders is whole, each accepts its seeds, and a defect is found, kept and repeated."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import fuzz, fuzz_decoder
from tools.fuzz import DECODERS
from tools.fuzz_decoder import Decoder, repair_figures
from tools.fuzz_records import repair_answers, repair_record, repair_runs

from swapstone.core.model import UserError

BY_NAME = {decoder.name: decoder for decoder in DECODERS}
LONG_RUN = 100_000
TOP = Path(__file__).parents[3]
SOURCE = TOP / "src" / "swapstone"
_READS = re.compile(
    r"json\.decode\(|msgpack\.decode\(|json\.loads\(|decode_toml\(|open_elf\(|csv\.reader\(|decompress\w*\(|read_toml\(|\btomllib\b"
)

# Each module that decodes JSON, TOML, CSV, ELF or compressed data: the decoder in the table that reaches it, or why none does.
COVERED = {
    "core/manifests.py": "",  # reads files of this package
    "core/artifacts/cache_folder.py": "",  # reads back what was written into the cache
    "parts/build/artifacts/loader_files.py": "dynamic entries",
    "parts/vm/artifacts/container_images.py": "container engine",
    "parts/vm/artifacts/images.py": "",  # reads back what it wrote, if the digest beside it matches
    "parts/vm/artifacts/kernel_modules.py": "kernel module",
    "parts/vm/artifacts/kernels.py": "kernel",
    "parts/build/artifacts/libraries.py": "",  # reads back what it wrote into the cache
    "parts/build/artifacts/packages.py": "image lock",
    "core/artifacts/program_size.py": "program size",
    "parts/vm/artifacts/root_file_systems.py": "root archive",
    "parts/build/artifacts/snapshot.py": "snapshot times",
    "parts/vm/artifacts/root_archives.py": "root archive",
    "parts/build/artifacts/upstream_sources.py": "source lock",
    "parts/build/artifacts/workload_build.py": "",  # reads back what it wrote into the cache
    "core/factors/elf_file.py": "program facts",
    "parts/explain/instruments/symbol_tables.py": "symbols",
    "parts/explain/instruments/unwind_tables.py": "unwind tables",
    "parts/explain/instruments/wakeup_path.py": "code",
    "core/model/compression.py": "initrd",
    "parts/net/session/conformance.py": "conform",
    "core/model/cpio.py": "initrd",
    "parts/gate/gate_file.py": "gate file",
    "parts/gate/revisions.py": "forge event",
    "parts/gate/points.py": "measured commit",
    "core/model/image_difference.py": "kernel identity",
    "core/model/regular_file.py": "study",
    "parts/published/data.py": "",  # comes with the program
    "core/record/origin.py": "marks",
    "core/record/reader.py": "record",
    "parts/published/report/published_differences.py": "",  # reasons that come with the program
    "parts/published/session/published_output.py": "",  # reads a result that comes with the program
    "parts/cluster/many_machines.py": "",  # decoded after its SHA-256, which the user typed, was checked
    "core/session/record_cache.py": "",  # decoded after its HMAC by the user's key
    "parts/explain/session/explanation_files.py": "evidence",
    "core/session/study_file.py": "study",
    "core/session/study_run.py": "study run",
    "core/targets/fake_spec.py": "fake target",
    "parts/boards/targets/labgrid_session.py": "lab",
    "parts/boards/targets/labgrid_worker.py": "",  # reads what the process that started it writes
    "parts/vm/machine/run_cache.py": "stored run",
    "parts/vm/machine/snapshot.py": "monitor",
    "parts/vm/machine/task_counts.py": "watched functions",
    "parts/vm/session/host_certificate.py": "",  # comes with the program
    "parts/cluster/content_store.py": "stored trial",
    "core/wire/kept_answer.py": "kept answer",
    "core/wire/cyclictest.py": "cyclictest",
}


def test_every_module_that_decodes_has_an_entry() -> None:
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if _READS.search(path.read_text())}
    assert found == set(COVERED)
    names = [one.name for one in DECODERS]
    assert set(COVERED.values()) - {""} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda one: one.name)
def test_every_seed_is_accepted(decoder: Decoder) -> None:
    """A decoder that rejects its seeds rejects nearly all changed inputs too, and nothing is tested."""
    with fuzz.limits():
        for seed in decoder.seeds():
            what, text = fuzz.attempt(decoder, seed)
            assert what == fuzz.ACCEPTED, text
            assert decoder.repair is None or fuzz.attempt(decoder, decoder.repair(seed))[0] == fuzz.ACCEPTED
        assert all(fuzz.attempt(decoder, seed)[0] == fuzz.REFUSED for seed in decoder.refused)


def long_runs(decoder: Decoder, source: random.Random) -> Iterator[bytes]:
    """Yield the seeds with one place each in which a few characters are repeated `LONG_RUN` times."""
    for seed in decoder.seeds():
        for run in fuzz.RUNS:
            at = source.randint(0, len(seed))
            changed = seed[:at] + run * (LONG_RUN // len(run)) + seed[at:]
            yield changed if decoder.repair is None else decoder.repair(changed)


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda one: one.name)
def test_long_runs_of_one_character_take_no_longer_than_their_length(decoder: Decoder, exhaustive: bool) -> None:
    """Patterns with quadratic time need minutes of processor time for them: no other load of the machine matters."""
    inputs = long_runs(decoder, random.Random(7))
    with fuzz.limits():
        for number, data in enumerate(inputs):
            if exhaustive or number % 5 == len(decoder.name) % 5:
                what, text = fuzz.attempt(decoder, data)
                assert what != fuzz.DEFECT, text


@pytest.mark.parametrize("text", [b" " * LONG_RUN, b"a " + b" " * 4000 + b"1/1\n"])
def test_blanks_before_no_event_of_perf(text: bytes) -> None:
    with fuzz.limits():
        assert fuzz.attempt(BY_NAME["perf script"], text)[0] != fuzz.DEFECT


def test_changed_checksums_are_repaired() -> None:
    for decoder, old, new in (
        (BY_NAME["answer"], b"wall_ns 12345", b"wall_ns 12346"),
        (BY_NAME["guest"], b"wall_ns 12345", b"wall_ns 12346"),
        (BY_NAME["named figures"], b"a 1.5", b"a 1.75"),
        (BY_NAME["runs"], b'"position":0', b'"position":1'),
        (BY_NAME["record"], b'"runs":', b'"runs": '),
    ):
        seed = decoder.seeds()[0]
        changed = seed.replace(old, new)
        assert changed != seed
        assert decoder.repair is not None
        assert fuzz.attempt(decoder, decoder.repair(changed))[0] == fuzz.ACCEPTED
    assert all(isinstance(repair(b"\xff{"), bytes) for repair in (repair_answers, repair_figures, repair_runs))
    assert isinstance(repair_record(b"--- seal.json\n[]\n"), bytes)


@pytest.mark.slow
def test_a_run_prints_the_answer_and_a_table(exhaustive: bool) -> None:
    command = [sys.executable, "-m", "tools", "fuzz", "--seed", "5", "--seconds", "60" if exhaustive else "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TOP)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(rf"0 defects in {len(DECODERS)} decoders: [0-9,]+ executions in [0-9]+ s, seed 5\.", lines[0])
    assert lines[2].split() == ["decoder", "input", "of", "executions", "accepted", "per", "second", "defects"]
    assert len(lines) == 3 + len(DECODERS)


def _weak(data: bytes) -> object:
    if data[:1] == b"x":
        raise UserError("no x")
    return int(data.split()[0])


def test_a_faulty_decoder_is_found_and_its_input_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz_decoder, "FOLDER", tmp_path)
    weak = Decoder("a weak one", "test", _weak, lambda: (b"12",))
    assert fuzz.fuzz([weak], 5, 1) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("1 defect in 1 decoders: ")
    kept = next(path for path in tmp_path.iterdir() if not path.suffix)
    assert f"tools/fuzz --only 'a weak one' --input {kept}" in printed
    assert "Error" in (tmp_path / f"{kept.name}.txt").read_text()
    assert fuzz.repeat(weak, kept.read_bytes()) == 1
    assert fuzz.repeat(weak, b"x") == 0
    assert "a weak one: refused\nno x" in capsys.readouterr().out


def test_slow_and_inconsistent_decoders_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_decoder, "FOLDER", tmp_path)
    monkeypatch.setattr(fuzz, "LIMIT_S", 0.05)

    def endless(_: bytes) -> object:
        while True:
            pass

    with fuzz.limits():
        outcome = fuzz.run(Decoder("endless", "test", endless, lambda: (b"1",)), 5, 1)
    assert "TooSlowError" in outcome.defects[0].summary
    values = iter(range(1000))
    changing = Decoder("changing", "test", lambda _: next(values), lambda: (b"1",))
    with fuzz.limits():
        assert "differs" in fuzz.run(changing, 5, 1).defects[0].summary


def test_an_unknown_name_lists_the_decoders(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--only", "nothing"]) == 2
    assert "There is no decoder 'nothing'. Known: answer, report" in capsys.readouterr().err
