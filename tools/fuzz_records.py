# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decoders of records, and of what the agent, workloads and virtual machines print, with valid inputs."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Iterable

import msgspec
from tools import fuzz_seeds
from tools.fuzz_decoder import (
    RECORDED,
    TOP,
    Decoder,
    constant,
    in_folder,
    recorded,
    repair_figures,
    scratch_folder,
    sections,
    text_of,
)

from swapstone.core.factors import Evidence, all_factors
from swapstone.core.model import (
    Experiment,
    FactorLevels,
    Run,
    Sample,
    Status,
    Trial,
    UserError,
    environment_variable,
    system_file,
)
from swapstone.core.record import load, origin
from swapstone.core.record.record_format import Line, chain_value, file_sha256
from swapstone.core.record.run_lines import read_lines
from swapstone.core.run.evidence import missing_load
from swapstone.core.session.record_errors import named_record
from swapstone.core.session.study_file import decode_study
from swapstone.core.session.study_run import load_trusted_run
from swapstone.core.wire import (
    AgentAnswer,
    Memory,
    Pass,
    ProcessOutcome,
    WorkloadReport,
    decode_answers,
    decode_workload_report,
    encode_answer,
    encode_answer_header,
    encode_workload_report,
)
from swapstone.core.wire.cyclictest import decode_cyclictest
from swapstone.core.wire.kept_answer import decode_kept, kept_files
from swapstone.core.workloads import LOADS
from swapstone.core.workloads.named_figures import decode_named_figures
from swapstone.parts.boards.targets.labgrid_session import decode_answer
from swapstone.parts.cluster.content_store import decode_trial
from swapstone.parts.explain.model.explanation import RowMeasurements
from swapstone.parts.explain.session import explanation_files
from swapstone.parts.explain.session.explanation_files import explain
from swapstone.parts.gate.gate_file import decode_gate
from swapstone.parts.gate.points import decode_point
from swapstone.parts.gate.revisions import decode_event
from swapstone.parts.vm.machine.emulator import MACHINE_MODELS
from swapstone.parts.vm.machine.guest import decode_channel
from swapstone.parts.vm.machine.qemu import LimitReached, judge_end, last_lines
from swapstone.parts.vm.machine.run_cache import decode_run
from swapstone.parts.vm.machine.run_output import kernel_fault
from swapstone.parts.vm.machine.snapshot import decode_message

# Agent, workloads, guest

_PASS = Pass(wall_ns=100, cpu_ns=99, run_delay_ns=None, minflt=3, majflt=0, nvcsw=1, nivcsw=0)
_REPORT = WorkloadReport(
    name="b_string_strstr(abcd)",
    ops=1,
    passes=(_PASS,) * 3,
    memory=Memory(virt_bytes=4096, res_bytes=4096, dirty_bytes=0),
    mapped=("/lib/libc.so", "/srv/a b"),
    check="9af0",
)
_ANSWER = AgentAnswer(
    id="3-12",
    facts=(("wall_ns", 12345), ("nice", -5), ("pid", 7)),
    interp="/lib/ld-musl-x86_64.so.1",
    objects=("/srv/prog", "/lib/libc é.so"),
    observed=((environment_variable("PATH"), "/bin:\n%"),),
    absent=(system_file("/no/such"),),
    stdout=encode_workload_report(_REPORT),
    stderr=bytes(range(256)),
    notes=("left 2 processes running",),
    outcome=ProcessOutcome.EXITED,
    code=0,
)
_UNSTARTED = AgentAnswer(id="x", outcome=ProcessOutcome.UNSTARTED, code=2)
_REFUSAL = b"error 3 the%20line%20begins%20with%20no%20known%20word\n"
_NAMED = repair_figures(
    b"swapstone-figures 1\nname fill\nfigure a 1.5\nfigure b -\nseries so 2 0 1024\nseries si 2 1 2\n"
)


def _encoded(text: str) -> str:
    return "".join(c if "!" <= c <= "~" and c != "%" else f"%{ord(c):02X}" for c in text) or "%"


_AFTER = {
    "/proc/uptime": "2.75",
    "/proc/sys/kernel/tainted": "640\n",
    "/dev/kmsg": "4,512,9000000,-;WARNING: CPU: 0 PID: 81 at kernel/x.c:7 odd+0x1/0x2\n SUBSYSTEM=x\n",
}


def _guest() -> tuple[bytes, ...]:
    counters = {
        "/proc/stat": "cpu  10 0 20 400 5 0 1 7\ncpu0 10 0 20 400 5 0 1 7\n",
        "/proc/vmstat": "nr_anon_pages 6001\n",
        "/proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 4 0 -2\n",
        "/proc/net/dev": "lo: 10000000 1 0 0\n",
        "/proc/diskstats": " 7 0 loaddisk 1 2 3 4 5 6 7\n",
        "/proc/uptime": "1.50",
        "/sys/block/zram0/comp_algorithm": "lzo [lz4] zstd\n",
        "/sys/kernel/debug/sched/preempt": "none (voluntary) full\n",
        "/sys/module/planted/parameters/sections": "4\n",
        "/proc/sys/kernel/tainted": "512\n",
    }
    before = [
        *("swapstone-goes-on", "swapstone-guest 1", "system Linux", "release 6.1.0", "version #1%20SMP"),
        *("machine x86_64", "clock 698765432", "file /proc/meminfo MemTotal:%20%201024%20kB%0A"),
        "file /proc/cmdline preempt=voluntary",
        *(f"before {path} {_encoded(text)}" for path, text in counters.items()),
    ]
    after = [
        *("swapstone-after 1", "beside 0 1", "words /tmp/beside-0.log no%0A"),
        *(f"after {path} {_encoded(text)}" for path, text in (counters | _AFTER).items()),
        "swapstone-end",
    ]
    answer = encode_answer_header() + encode_answer(_ANSWER)
    return ("\n".join(before).encode() + b"\n" + answer + "\n".join(after).encode() + b"\n",)


def _channel(data: bytes) -> object:
    """Decode a guest's channel, and use its files as the session does: for loads, and for the levels of factors."""
    report, answers = decode_channel(data)
    facts = answers[0].facts if answers else ()
    evidence = Evidence(interp=None, objects=(), machine=report.pairs(), facts=facts)
    levels = [factor.observe(evidence) for factor in all_factors()]
    return report, answers, levels, [missing_load(load, evidence) for load in LOADS], kernel_fault(report)


def repair_answers(data: bytes) -> bytes:
    """Return an agent's output with the number of lines and the checksum of each answer made valid."""
    lines, start = data.split(b"\n"), -1
    for number, line in enumerate(lines):
        if line.startswith(b"begin "):
            start = number
        elif start >= 0 and line.startswith(b"end ") and line.count(b" ") == 5:
            fields = line.split(b" ")
            head = b" ".join([*fields[:4], b"%d" % (number - start), b""])
            body = b"\n".join([*lines[start:number], head])
            lines[number] = head + b"%08x" % zlib.crc32(body)
            start = -1
    return b"\n".join(lines)


# Stores

_RUN_NAME = "ab" * 32


def repair_stored_run(data: bytes) -> bytes:
    """Return a finished run of a store with the digest of its name and content made valid."""
    body = data.partition(b"\n")[2]
    return hashlib.sha256(_RUN_NAME.encode() + b"\n" + body).hexdigest().encode() + b"\n" + body


# Records


_EXPERIMENT = Experiment(
    name="compare",
    factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
    workloads=(("libc", "b_malloc_big1"),),
    budget_ns=10**9,
    margin=0.02,
    confidence=0.95,
    seed=1,
)


def _read_runs(data: bytes) -> object:
    """Decode a `runs.jsonl` of `_EXPERIMENT`."""
    runs: list[Run] = []
    found = read_lines(
        re.findall(rb"[^\n]*\n|[^\n]+", data), _EXPERIMENT, lambda run, _start, _length: runs.append(run)
    )
    return runs, found.chain, found.damages


def _runs() -> tuple[bytes, ...]:
    """Return a `runs.jsonl` of three lines, as the writer encodes it."""
    trial = Trial(suite="libc", workload="b_malloc_big1", load="idle", variant="libc=musl", block=1, position=0)
    sample = Sample(metric="wall", values=(1.5, 2))
    blocks = (msgspec.structs.replace(trial, block=number) for number in (1, 2, 3))
    return (_chained(Run(trial=one, status=Status.OK, samples=(sample,)).encoded() for one in blocks),)


def _chained(runs: Iterable[bytes]) -> bytes:
    lines, chain = b"", ""
    for number, run in enumerate(runs, start=1):
        previous, chain = chain, chain_value(number, chain, run)
        line = Line(number=number, previous=previous, chain=chain, run=msgspec.Raw(run))
        lines += msgspec.json.encode(line) + b"\n"
    return lines


def repair_runs(data: bytes) -> bytes:
    """Return the lines of a `runs.jsonl` that can be decoded, as one valid chain."""
    found = []
    for line in data.split(b"\n"):
        try:
            found.append(bytes(msgspec.json.decode(line, type=Line).run))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return _chained(found)


_RECORD_FILES = ("record.json", "experiment.json", "manifest.json", "runs.jsonl", "seal.json")


def _joined(parts: dict[str, bytes]) -> bytes:
    return b"".join(b"--- %s\n%s" % (name.encode(), content) for name, content in parts.items())


def _records() -> tuple[bytes, ...]:
    """Return records of version 0.1 with their first runs."""
    found = []
    for name in ("own-program", "crossed"):
        parts = {}
        with tarfile.open(RECORDED / "records-0.1" / f"{name}.tar.xz") as opened:
            for file in _RECORD_FILES:
                member = opened.extractfile(f"{name}/{file}")
                content = member.read() if member else b""
                lines = content.splitlines(keepends=True)[:4] if file == "runs.jsonl" else [content]
                parts[file] = b"".join(lines)
                parts[file] += b"" if parts[file].endswith(b"\n") else b"\n"
        found.append(repair_record(_joined(parts)))
    return tuple(found)


def repair_record(data: bytes) -> bytes:
    """Return a record whose runs are a chain, and whose seal is that of its files."""
    parts = sections(data, _RECORD_FILES)
    parts["runs.jsonl"] = repair_runs(parts.get("runs.jsonl", b""))
    lines = parts["runs.jsonl"].splitlines()
    try:
        seal = json.loads(parts.get("seal.json", b""))
        seal |= {"runs": len(lines), "chain": json.loads(lines[-1])["chain"] if lines else ""}
        for key in ("record", "experiment", "manifest"):
            if seal.get(key):
                seal[key] = file_sha256(parts.get(f"{key}.json", b""))
        parts["seal.json"] = json.dumps(seal).encode() + b"\n"
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass  # the seal itself is damaged
    return _joined(parts)


def _record(data: bytes) -> object:
    return load(in_folder("record", sections(data, _RECORD_FILES)))


def _study_run(data: bytes) -> object:
    return load_trusted_run(in_folder("study", {"study.json": data}), trust=True)


def _marks(data: bytes) -> object:
    marks = origin._read(in_folder("marked", {origin.ORIGIN: data}))
    if marks is None:
        raise UserError("it has no marks")
    return marks.marks


def _row_evidence(data: bytes) -> object:
    """Explain a row from evidence, and write the pages, as `swapstone explain` does."""
    evidence = explanation_files._decoded(data, RowMeasurements)
    if evidence is None or evidence.problem():
        raise UserError("it is no evidence")
    with named_record(scratch_folder()):
        explanation = explain(evidence)
        return explanation, [len(content) for _, content in explanation_files.evidence_pages(evidence, explanation)]


def _study_runs() -> tuple[bytes, ...]:
    study = decode_study((TOP / "studies" / "musl-vs-glibc.toml").read_bytes(), "a study")
    content = {"created": "2026-01-01T00:00:00Z", "name": "musl-vs-glibc", "study": study, "parts": ["a"], "seed": 7}
    return (msgspec.json.encode(content),)


def _console(data: bytes) -> object:
    text = text_of(data)
    model = MACHINE_MODELS["x86_64"]
    return [judge_end(status, text, text, model) for status in (0, 1, -9)], last_lines(text)


_LAB_ERROR = b'{"error":"no place","hint":"make it"}'

RECORD_DECODERS: tuple[Decoder, ...] = (
    Decoder(
        "answer",
        "agent",
        decode_answers,
        constant(encode_answer_header() + encode_answer(_ANSWER) + encode_answer(_UNSTARTED)),
        repair_answers,
        refused=(_REFUSAL,),
    ),
    Decoder(
        "report",
        "workload",
        decode_workload_report,
        constant(encode_workload_report(_REPORT), encode_workload_report(WorkloadReport(name="a", error="no memory"))),
    ),
    Decoder("named figures", "workload", decode_named_figures, constant(_NAMED), repair_figures),
    Decoder("cyclictest", "workload", decode_cyclictest, recorded("cyclictest-io-generic.json")),
    Decoder("guest", "virtual machine", _channel, _guest, repair_answers),
    Decoder("console", "virtual machine", _console, constant(fuzz_seeds.CONSOLE)),
    Decoder("monitor", "QEMU", decode_message, constant(*fuzz_seeds.MONITOR), errors=(LimitReached,)),
    Decoder("runs", "record", _read_runs, _runs, repair_runs),
    Decoder("record", "record", _record, _records, repair_record),
    Decoder("kept answer", "record", decode_kept, lambda: kept_files(_ANSWER, _ANSWER)[1:]),
    Decoder("stored trial", "store", lambda data: decode_trial(data, "an entry"), constant(fuzz_seeds.STORED_TRIAL)),
    Decoder(
        "stored run",
        "store",
        lambda data: decode_run(data, _RUN_NAME),
        constant(repair_stored_run(fuzz_seeds.STORED_RUN)),
        repair_stored_run,
    ),
    Decoder("lab", "labgrid", decode_answer, constant(fuzz_seeds.LAB), refused=(_LAB_ERROR,)),
    Decoder("study run", "record", _study_run, _study_runs),
    Decoder("marks", "record", _marks, constant(b'{"key":"0123456789abcdef","marks":[["experiment.json","00ff"]]}')),
    Decoder("evidence", "record", _row_evidence, constant(fuzz_seeds.EVIDENCE, fuzz_seeds.evidence_by_run())),
    Decoder("gate file", "user", decode_gate, constant(fuzz_seeds.GATE)),
    Decoder(
        "measured commit",
        "store",
        decode_point,
        constant(
            b'{"programs":"00","compilers":["GCC"],"machine":{"qemu":"7"},"sizes":{"prog":9},"runs":{"a":[{"instructions":1}]}}'
        ),
    ),
    Decoder("forge event", "user", decode_event, constant(b'{"merge_group":{"base_sha":"%s"}}' % (b"0" * 40))),
    Decoder(
        "study",
        "user",
        lambda data: decode_study(data, "a study"),
        lambda: tuple(path.read_bytes() for path in sorted((TOP / "studies").glob("*.toml"))),
    ),
)
