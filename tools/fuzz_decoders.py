# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every decoder of outside input, with valid inputs. tests/unit/wire/test_fuzz.py checks that the table is whole."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import gzip
import itertools
import json
import lzma
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [path for path in (str(TOP / "src"), str(TOP)) if path not in sys.path]

from benchmarks import netstack_output  # noqa: E402 # the path comes first, here and below
from tools import fuzz_seeds  # noqa: E402
from tools.root_archives import docker_image, oci_image, tar  # noqa: E402
from tools.small_elf import AARCH64, small_elf  # noqa: E402

from swapstone.artifacts import (  # noqa: E402
    dynamic_entries,
    elf_dependencies,
    kernels,
    loader_cache,
    packages,
    program_size,
    root_file_systems,
    snapshot,
    upstream_sources,
)
from swapstone.artifacts.apt import offers_in  # noqa: E402
from swapstone.artifacts.kernel_modules import Modules  # noqa: E402
from swapstone.artifacts.missing_library import (  # noqa: E402
    missing_library,
    missing_rust_target,
    needs_cxx_library,
)
from swapstone.artifacts.replaced_flags import replaced_flags_warning  # noqa: E402
from swapstone.explanation import explain, load_classes  # noqa: E402
from swapstone.explanation.cost_classes import CostClasses, decode_classes  # noqa: E402
from swapstone.factors import FACTORS, Evidence, parse_choice  # noqa: E402
from swapstone.factors import facts as program_facts  # noqa: E402
from swapstone.factors.elf_file import DamagedElfError  # noqa: E402
from swapstone.instruments import (  # noqa: E402
    archive_matching,
    callgrind_output,
    heap,
    instructions,
    measured_region,
    perf,
    perf_script,
    symbol_tables,
    syscalls,
)
from swapstone.instruments.tracee import Region  # noqa: E402
from swapstone.model import (  # noqa: E402
    Direction,
    Frame,
    Metric,
    PrintedNumber,
    Quantity,
    RowMeasurements,
    Run,
    Sample,
    Status,
    Trial,
    UserError,
    cpio,
    environment_variable,
    system_file,
)
from swapstone.published import data as published  # noqa: E402
from swapstone.record import load, origin  # noqa: E402
from swapstone.record.record_format import Line, chain_value, file_sha256  # noqa: E402
from swapstone.record.run_lines import read_runs  # noqa: E402
from swapstone.session import explanation_files  # noqa: E402
from swapstone.session.outcome import parse_fail_if  # noqa: E402
from swapstone.session.parameters import parse_free_factors, parse_parameters  # noqa: E402
from swapstone.session.study_file import decode_study  # noqa: E402
from swapstone.session.study_run import load_run  # noqa: E402
from swapstone.session.unusable_values import named_record  # noqa: E402
from swapstone.session.values import parse_age_s, parse_confidence, parse_duration_ns, parse_ratio  # noqa: E402
from swapstone.subjects.kept_answer import decode_kept, encode_kept, split_raw  # noqa: E402
from swapstone.subjects.load_check import missing_load  # noqa: E402
from swapstone.subjects.own_program_output import OutputDigests  # noqa: E402
from swapstone.targets import health  # noqa: E402
from swapstone.targets.fake_spec import decode_spec  # noqa: E402
from swapstone.targets.host_description import describe_host  # noqa: E402
from swapstone.targets.vm.guest import decode_channel  # noqa: E402
from swapstone.targets.vm.machine_models import MACHINE_MODELS  # noqa: E402
from swapstone.targets.vm.qemu import LimitReached, judge_end, last_lines  # noqa: E402
from swapstone.targets.vm.snapshot import decode_message  # noqa: E402
from swapstone.wire import (  # noqa: E402
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
from swapstone.workloads import LOADS, parse_metric  # noqa: E402
from swapstone.workloads.cyclictest import decode_cyclictest  # noqa: E402
from swapstone.workloads.load_generators import check_reader, read_load_report  # noqa: E402
from swapstone.workloads.named_figures import (  # noqa: E402
    NamedFigures,
    decode_named_figures,
    encode_named_figures,
)
from swapstone.workloads.printed_numbers import printed_value  # noqa: E402

RECORDED = TOP / "tests" / "recorded"


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder of outside input.

    Attributes:
        name: short, for the command line and the table.
        origin: who writes the input.
        decode: returns a value, or raises one of `errors`.
        seeds: returns valid inputs; each is accepted, and its value is not empty.
        repair: makes checksums of a changed input valid, so that what they protect is reached.
        errors: what it raises for an invalid input.
        refused: seeds that are error messages of the other side, which raise an error by design.
    """

    name: str
    origin: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], tuple[bytes, ...]]
    repair: Callable[[bytes], bytes] | None = None
    errors: tuple[type[Exception], ...] = (UserError,)
    refused: tuple[bytes, ...] = ()


@functools.cache
def room() -> Path:
    """Return a folder for decoders that read files."""
    shared = Path("/dev/shm")  # noqa: S108 # memory, if there is any; the folder in it has a random name
    made = Path(tempfile.mkdtemp(prefix="swapstone-fuzz-", dir=shared if shared.is_dir() else None))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _file(data: bytes, name: str = "file") -> Path:
    path = room() / name
    path.write_bytes(data)
    return path


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _recorded(*names: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple((RECORDED / name).read_bytes() for name in names)


def _constant(*seeds: bytes) -> Callable[[], tuple[bytes, ...]]:
    return lambda: seeds


def _shipped(name: str) -> Callable[[], tuple[bytes, ...]]:
    """Return the first lines of a file of published figures."""
    path = TOP / "src" / "swapstone" / "published" / name
    return lambda: (b"".join(path.read_bytes().splitlines(keepends=True)[:6]),)


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
_NAMED = NamedFigures(
    name="fill", figures=(("a", 1.5), ("b", None)), series=(("so", (0.0, 1024.0)), ("si", (1.0, 2.0)))
)


def _encoded(text: str) -> str:
    return "".join(c if "!" <= c <= "~" and c != "%" else f"%{ord(c):02X}" for c in text) or "%"


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
    }
    lines = ["swapstone-goes-on", "swapstone-guest 1", "system Linux", "release 6.1.0", "version #1%20SMP"]
    lines += ["machine x86_64", "clock 698765432", "file /proc/meminfo MemTotal:%20%201024%20kB%0A"]
    lines += ["file /proc/cmdline preempt=voluntary"]
    lines += [f"before {path} {_encoded(text)}" for path, text in counters.items()]
    after = [f"after {path} {_encoded(text)}" for path, text in (counters | {"/proc/uptime": "2.75"}).items()]
    after = ["swapstone-after 1", "beside 0 1", "words /tmp/beside-0.log no%0A", *after, "swapstone-end"]
    answer = encode_answer_header() + encode_answer(_ANSWER)
    return ("\n".join(lines).encode() + b"\n" + answer + "\n".join(after).encode() + b"\n",)


def _channel(data: bytes) -> object:
    """Decode a guest's channel, and use its files as the session does: for loads, and for the levels of factors."""
    report, answers = decode_channel(data)
    facts = answers[0].facts if answers else ()
    evidence = Evidence(interp=None, objects=(), machine=report.pairs(), facts=facts)
    levels = [factor.observe(evidence) for factor in FACTORS]
    return report, answers, levels, [missing_load(load, evidence) for load in LOADS]


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


def repair_figures(data: bytes) -> bytes:
    """Return named figures with a valid last line."""
    lines = [line for line in data.split(b"\n") if line and not line.startswith(b"end ")]
    text = b"".join(line + b"\n" for line in lines) + b"end %d" % len(lines)
    return text + b" %08x\n" % zlib.crc32(text)


# Records


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


def _sections(data: bytes, names: Iterable[str]) -> dict[str, bytes]:
    """Return the parts of an input by their names: each begins with a line ``--- NAME``."""
    found: dict[str, bytes] = {}
    name = ""
    known = set(names)
    for line in data.splitlines(keepends=True):
        mark, _, rest = line.partition(b" ")
        if mark == b"---":
            name = _text(rest).strip()
        elif name in known:
            found[name] = found.get(name, b"") + line
    return found


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
    parts = _sections(data, _RECORD_FILES)
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
    folder = room() / "record"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in _sections(data, _RECORD_FILES).items():
        (folder / name).write_bytes(content)
    return load(folder)


def _study_run(data: bytes) -> object:
    folder = room() / "study"
    folder.mkdir(exist_ok=True)
    (folder / "study.json").write_bytes(data)
    return load_run(folder)


def _marks(data: bytes) -> object:
    folder = room() / "marked"
    folder.mkdir(exist_ok=True)
    (folder / origin.ORIGIN).write_bytes(data)
    marks = origin._read(folder)
    if marks is None:
        raise UserError("it has no marks")
    return marks.marks


def _row_evidence(data: bytes) -> object:
    """Explain a row from evidence, and write the pages, as `swapstone explain` does."""
    evidence = explanation_files._decoded(data, RowMeasurements)
    if evidence is None or not all(map(explanation_files._usable, evidence.runs)):
        raise UserError("it is no evidence")
    with named_record(room()):
        classes = load_classes()
        explanation = explain(evidence, classes)
        return explanation, [len(content) for _, content in explanation_files._files(evidence, explanation, classes)]


def _study_runs() -> tuple[bytes, ...]:
    study = decode_study((TOP / "studies" / "musl-vs-glibc.toml").read_bytes(), "a study")
    content = {"created": "2026-01-01T00:00:00Z", "name": "musl-vs-glibc", "study": study, "parts": ["a"], "seed": 7}
    return (msgspec.json.encode(content),)


def _studies() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((TOP / "studies").glob("*.toml")))


# Programs of users and load generators


def _read_by(reader: str) -> Callable[[bytes], object]:
    return lambda data: read_load_report(reader, data)


_PATTERN = r"regex:(?P<requests>[0-9.e+-]{1,400}) requests in (?P<seconds>\S{1,400}) s, p99 (?P<p99_ms>\S{1,400}) ms"
_METRIC = Metric(name="n", unit="1", quantity=Quantity.EVENTS, better=Direction.NEITHER, meaning="")


def _printed(data: bytes) -> object:
    text = _text(data)
    patterns = (r"^Requests/sec: +(\S+)$", r"total: ([0-9.e+-]+)")
    return [printed_value(PrintedNumber(metric=_METRIC, pattern=pattern), text, text) for pattern in patterns]


def _option(line: str) -> object:
    kind, _, text = line.partition(" ")
    known: dict[str, Callable[[str], object]] = {
        "duration": parse_duration_ns,
        "age": parse_age_s,
        "ratio": lambda text: parse_ratio(text, "--margin", 0.0, 1.0),
        "confidence": parse_confidence,
        "parameter": lambda text: parse_parameters([text]),
        "vary": lambda text: parse_free_factors([text]),
        "fail-if": lambda text: parse_fail_if([text]),
        "metric": parse_metric,
        "read": check_reader,
        "factor": parse_choice,
    }
    if kind not in known:
        raise UserError(f"{kind[:40]!r} is no option")
    return known[kind](text)


# Instruments


def _perf(data: bytes) -> object:
    events = list(perf_script.events(_text(data).splitlines(keepends=True)))
    found = perf.once(sorted(events, key=lambda event: event.time_ns))
    maps = [perf_script.mapped(event) for event in found if event.what == "map"]
    windows = [measured_region.windows(found, region, "prog") for region in Region]
    lost = sum(int(event.trace) for event in found if event.what == "lost")
    fields = [heap.fields_of(event.trace) for event in found]
    classes = CostClasses(*decode_classes(fuzz_seeds.CLASSES, "the seed"))
    stacks = [[Frame(symbol=symbol, object=path) for _, symbol, path in event.stack] for event in found]
    return found, maps, windows, lost, fields, [classes.of(stack) for stack in stacks]


def _strace(data: bytes) -> object:
    lines = _text(data).splitlines()
    return [syscalls.counted_by_strace(lines, region, "/a/prog") for region in (Region.PASSES, Region.PROGRAM)]


def _callgrind(data: bytes) -> object:
    text = _text(data)
    found = instructions.tally(text.splitlines(keepends=True))
    return dict(found.instructions), dict(found.calls), callgrind_output.total(text)


# ELF files and images


def _facts(data: bytes) -> object:
    facts = program_facts._read.__wrapped__(_file(data), 0, 0)
    if facts is None:
        raise DamagedElfError("no facts")
    evidence = Evidence(interp=facts.interp, objects=("/lib/x.so",), program=facts, libraries=(facts,))
    return facts, [factor.observe(evidence) for factor in FACTORS]


def _symbols(data: bytes) -> object:
    table = symbol_tables._table.__wrapped__(_file(data), 0)
    if table is None:
        raise DamagedElfError("no table")
    return table.symbols, table.name_at(0x118), table.offset_of(0x100), table.address("malloc")


def _members(data: bytes) -> object:
    found = list(archive_matching.members(data))
    library, companion = _file(fuzz_seeds.elf(), "library"), _file(data, "companion")
    return found, archive_matching.matches(library, companion)


def _dependencies(data: bytes) -> object:
    found = elf_dependencies.read_dependencies("prog", data), elf_dependencies.soname_of(data)
    if not any(found[0].names()):
        raise UserError("it needs nothing")
    return found


def _kernel(data: bytes) -> object:
    kernel = kernels.read_kernel(_file(data))
    return kernel.architecture, len(kernel.image), kernel.banner


def _module(data: bytes) -> object:
    name = "one.ko" + next((end for magic, end in _PACKED if data.startswith(magic)), "")
    built_in = b"two.ko\nthree.ko\nfour.ko\n"
    modules = Modules([name, "modules.builtin"], lambda path: data if path == name else built_in)
    return modules.load_order(["one"])


_PACKED = ((b"\x1f\x8b", ".gz"), (b"\xfd7zXZ\0", ".xz"))


def _module_seeds() -> tuple[bytes, ...]:
    plain = fuzz_seeds.elf()
    return plain, gzip.compress(plain), lzma.compress(plain)


def _elves() -> tuple[bytes, ...]:
    return fuzz_seeds.elf(), fuzz_seeds.elf(wide=False, machine=40), fuzz_seeds.elf(little=False, machine=21)


def _root_archive(data: bytes) -> object:
    with tempfile.TemporaryDirectory(dir=room()) as work:
        tree = root_file_systems.read_tree(str(_file(data)), "x86_64", Path(work), archive=True)
        tree.check()
        tree.write(Path(work) / "root")
        return tree.sha256()


def _root_archives() -> tuple[bytes, ...]:
    layer = tar(("bin/a", "file", "a"), ("b", "hard", "bin/a"), ("l", "link", "/bin"), ("tmp", "folder", ""))
    above = tar((".wh.b", "file", ""), ("l/c", "file", "c"), ("bin/.wh..wh..opq", "file", ""))
    return layer, gzip.compress(layer), lzma.compress(layer), oci_image([layer, above]), docker_image([layer, above])


def _dynamic_elves() -> tuple[bytes, ...]:
    loader = small_elf(loader="/lib64/ld.so", needed=["liba.so", "libb.so"], runpath="$ORIGIN/../lib:/x")
    return loader, small_elf(soname="liba.so", rpath="/y", machine=AARCH64)


def _loader_caches() -> tuple[bytes, ...]:
    names = ("libc.so.6", "libm.so.6")
    cached = [loader_cache.CachedObject(name=name, path=f"/lib/{name}", flags=0x303) for name in names]
    return (loader_cache.encode_cache(cached), b"ld.so-1.7.0" + loader_cache.encode_cache(cached[:1]))


def _initrds() -> tuple[bytes, ...]:
    one = cpio.archive({"d/a": cpio.file(b"1"), "d/l": cpio.link("a"), "null": cpio.device(1, 3)})
    return one + one, gzip.compress(one) + b"\0" * 4, lzma.compress(one) + one


# The host


def _host(data: bytes) -> object:
    root = room() / "host"
    shutil.rmtree(root, ignore_errors=True)
    names = [name.decode()[4:] for name in fuzz_seeds.HOST.splitlines() if name.startswith(b"--- ")]
    for name, content in _sections(data, names).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    findings = health.examine(health.HostFiles(root))
    return [one for one in findings if one.name != "free disk"], describe_host(root)


def _console(data: bytes) -> object:
    text = _text(data)
    model = MACHINE_MODELS["x86_64"]
    return [judge_end(status, text, text, model) for status in (0, 1, -9)], last_lines(text)


def _build_output(data: bytes) -> object:
    text = _text(data)
    return missing_library(text), missing_rust_target(text), needs_cxx_library(text)


def _makefile(data: bytes) -> object:
    folder = room() / "source"
    folder.mkdir(exist_ok=True)
    (folder / "Makefile").write_bytes(data)
    return replaced_flags_warning('make CFLAGS="{cflags}" LDFLAGS={ldflags}', folder)


def _toml_classes(data: bytes) -> object:
    rules, classes = decode_classes(data, "classes.toml")
    table = CostClasses(rules, classes)
    sentences = [table.named(one["name"]).sentence("musl", "futex", "malloc") for one in classes]
    return rules, classes, sentences, table.of([Frame(symbol="my_alloc.part.0", object="prog")])


def _output(data: bytes) -> object:
    return OutputDigests().of_bytes("stdout", data)


DECODERS: tuple[Decoder, ...] = (
    Decoder(
        "answer",
        "agent",
        decode_answers,
        _constant(encode_answer_header() + encode_answer(_ANSWER) + encode_answer(_UNSTARTED)),
        repair_answers,
        refused=(_REFUSAL,),
    ),
    Decoder(
        "report",
        "workload",
        decode_workload_report,
        _constant(encode_workload_report(_REPORT), encode_workload_report(WorkloadReport(name="a", error="no memory"))),
    ),
    Decoder("named figures", "workload", decode_named_figures, _constant(encode_named_figures(_NAMED)), repair_figures),
    Decoder("cyclictest", "workload", decode_cyclictest, _recorded("cyclictest-io-generic.json")),
    Decoder("guest", "virtual machine", _channel, _guest, repair_answers),
    Decoder("console", "virtual machine", _console, _constant(fuzz_seeds.CONSOLE)),
    Decoder("monitor", "QEMU", decode_message, _constant(*fuzz_seeds.MONITOR), errors=(LimitReached,)),
    Decoder("runs", "record", read_runs, _runs, repair_runs),
    Decoder("record", "record", _record, _records, repair_record),
    Decoder("kept answer", "record", decode_kept, lambda: (encode_kept(_ANSWER, _ANSWER),)),
    Decoder("raw output", "record", split_raw, _constant(b"--- stdout\none\n--- stderr\ntwo\n--- agent\n")),
    Decoder("study run", "record", _study_run, _study_runs),
    Decoder("marks", "record", _marks, _constant(b'{"key":"0123456789abcdef","marks":[["experiment.json","00ff"]]}')),
    Decoder("evidence", "record", _row_evidence, _constant(fuzz_seeds.EVIDENCE)),
    Decoder("study", "user", lambda data: decode_study(data, "a study"), _studies),
    Decoder(
        "options",
        "user",
        lambda data: [_option(line) for line in _text(data).splitlines()],
        _constant(*fuzz_seeds.OPTIONS),
    ),
    Decoder("fake target", "user", lambda data: decode_spec(data, "fake.toml"), _constant(fuzz_seeds.FAKE)),
    Decoder("cost classes", "user", _toml_classes, _constant(fuzz_seeds.CLASSES)),
    Decoder("makefile", "user", _makefile, _constant(fuzz_seeds.MAKEFILE)),
    Decoder("image lock", "file", lambda data: packages.read_lock(_file(data)), _constant(fuzz_seeds.IMAGE_LOCK)),
    Decoder(
        "source lock", "file", lambda data: upstream_sources.read_lock(_file(data)), _constant(fuzz_seeds.SOURCE_LOCK)
    ),
    Decoder(
        "snapshot times",
        "file",
        lambda data: snapshot.read_snapshots(_file(data)),
        lambda: ((TOP / "native" / "snapshots.toml").read_bytes(),),
    ),
    Decoder("printed number", "own program", _printed, _constant(fuzz_seeds.PRINTED)),
    Decoder("output", "own program", _output, _constant(fuzz_seeds.PRINTED, b"pid 0x7ffe12 12345abcdef, 1.5e3 s\n")),
    Decoder("wrk", "load generator", _read_by("wrk"), _recorded("wrk-good.txt", "wrk-without-latency.txt")),
    Decoder("ab", "load generator", _read_by("ab"), _recorded("ab-good.txt")),
    Decoder("redis-benchmark", "load generator", _read_by("redis-benchmark"), _recorded("redis-benchmark-good.txt")),
    Decoder("pace", "load generator", _read_by("swapstone-pace"), _recorded("pace-good.txt"), repair_figures),
    Decoder("pattern", "load generator", _read_by(_PATTERN), _constant(b"100 requests in 1.5e0 s, p99 0.25 ms\n")),
    Decoder(
        "netstack ab",
        "load generator",
        lambda data: netstack_output.read_ab(_text(data), 5000),
        _recorded("ab-all.txt", "ab-failed.txt", "ab-hung.txt"),
        errors=(netstack_output.UnreadableError,),
    ),
    Decoder(
        "netstack percentiles",
        "load generator",
        lambda data: netstack_output.read_ab_percentiles(_text(data)),
        _recorded("ab-all.csv"),
        errors=(netstack_output.UnreadableError,),
    ),
    Decoder(
        "netstack wrk",
        "load generator",
        lambda data: netstack_output.read_wrk(_text(data)),
        _recorded("wrk-keep-alive.txt", "wrk-errors.txt"),
        errors=(netstack_output.UnreadableError,),
    ),
    Decoder(
        "netstack own",
        "load generator",
        lambda data: netstack_output.read_own(_text(data)),
        _constant(b'{"event": "start"}\n{"event": "end", "requests": 5}\n'),
        errors=(netstack_output.UnreadableError,),
    ),
    Decoder("perf script", "perf", _perf, _constant(fuzz_seeds.PERF)),
    Decoder("probe fields", "perf", lambda data: heap.fields_of(_text(data)), _constant(fuzz_seeds.FIELDS)),
    Decoder("strace", "strace", _strace, _constant(fuzz_seeds.STRACE)),
    Decoder("callgrind", "valgrind", _callgrind, _constant(fuzz_seeds.CALLGRIND)),
    Decoder(
        "probe place",
        "ELF file",
        lambda data: (heap.breakpoint_after_vectors(data),),
        _constant(bytes.fromhex("c5f96ec6c4e27d78c04889f8")),
    ),
    Decoder("program facts", "ELF file", _facts, _elves, errors=(DamagedElfError,)),
    Decoder("symbols", "ELF file", _symbols, _elves, errors=(DamagedElfError,)),
    Decoder("dependencies", "ELF file", _dependencies, _elves),
    Decoder("dynamic entries", "ELF file", dynamic_entries.read_entries, _dynamic_elves, errors=(DamagedElfError,)),
    Decoder("loader cache", "ld.so.cache", loader_cache.decode_cache, _loader_caches),
    Decoder("root archive", "root file system", _root_archive, _root_archives),
    Decoder("program size", "ELF file", lambda data: program_size.sizes_of(_file(data)), _elves),
    Decoder("kernel module", "ELF file", _module, _module_seeds),
    Decoder(
        "archive",
        "ar file",
        _members,
        lambda: (fuzz_seeds.archive(("one.o", fuzz_seeds.elf()), ("a long name.o", b"x")),),
    ),
    Decoder("kernel", "image", _kernel, fuzz_seeds.kernels),
    Decoder("initrd", "image", cpio.unpack, _initrds),
    Decoder("package index", "apt", lambda data: offers_in(_text(data), "one"), _constant(fuzz_seeds.PACKAGES)),
    Decoder("build output", "compiler", _build_output, _constant(fuzz_seeds.BUILD_OUTPUT)),
    Decoder("host files", "/proc, /sys", _host, _constant(fuzz_seeds.HOST)),
    Decoder("figures", "published", lambda data: published.decode_figures(_text(data)), _shipped("published.csv")),
    Decoder("derived", "published", lambda data: published.decode_derived(_text(data)), _shipped("derived.csv")),
    Decoder("baselines", "published", lambda data: published.decode_baselines(_text(data)), _shipped("unixbench.csv")),
    Decoder("facts", "published", lambda data: published.decode_facts(_text(data)), _shipped("facts.csv")),
)


def find(name: str) -> Decoder:
    """Return a decoder by its name.

    Raises:
        KeyError: there is none.
    """
    return {one.name: one for one in DECODERS}[name]


def is_empty(value: object) -> bool:
    """Return whether a value holds nothing: an empty container, or a tuple or list of such."""
    if isinstance(value, tuple | list):
        return all(map(is_empty, itertools.islice(value, 1000)))
    return value is None or value in ("", b"") or (isinstance(value, dict | set | frozenset) and not value)
