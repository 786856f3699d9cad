# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decoders of what users write and what programs, load generators and instruments print, with valid inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from tools import fuzz_seeds
from tools.fuzz_decoder import Decoder, constant, in_folder, recorded, repair_figures, text_of
from tools.small_elf import AARCH64, small_elf

from swapstone.core.factors import parse_choice
from swapstone.core.model import Direction, Metric, PrintedNumber, Quantity, UserError
from swapstone.core.model.profile import Frame
from swapstone.core.session.option_values import parse_age_s, parse_confidence, parse_duration_ns, parse_ratio
from swapstone.core.session.outcome import parse_fail_if
from swapstone.core.session.parameters import parse_free_factors, parse_parameters
from swapstone.core.targets.fake_spec import decode_spec
from swapstone.core.wire.own_program_output import OutputDigests
from swapstone.core.workloads import parse_metric
from swapstone.core.workloads.load_generators import check_reader, read_load_report
from swapstone.core.workloads.printed_numbers import printed_value
from swapstone.parts.boards.model.ssh_address import parse_driver_target, parse_host_detail
from swapstone.parts.boards.targets.board import cpus_of, decode_board_answer, machine_of, sensor_facts, uname_of
from swapstone.parts.boards.targets.labgrid_target import root_identity_of
from swapstone.parts.build.artifacts.library_table import (
    missing_library,
    missing_rust_target,
    needs_cxx_library,
)
from swapstone.parts.build.artifacts.replaced_flags import replaced_flags_warning
from swapstone.parts.explain.explanation.profile_formats import canonical, folded, waiting_stack
from swapstone.parts.explain.instruments import (
    hardware,
    instructions,
    pages,
    perf,
    plugin_file,
    syscalls,
    unwind_tables,
    waits,
    wakeup_path,
)
from swapstone.parts.explain.instruments.instruction_kinds import PROCESSORS, Processor
from swapstone.parts.explain.instruments.plugin_file import FunctionKey
from swapstone.parts.explain.instruments.traced_run import Region
from swapstone.parts.explain.model.explanation import (
    KERNEL_CODE,
    PROGRAM,
    CountedRow,
    TracedRow,
)
from swapstone.parts.explain.session import explanation_files
from swapstone.parts.net.session.conformance import decode_script_outcome
from swapstone.parts.vm.machine import task_counts

# Programs of users and load generators


def _read_by(reader: str) -> Callable[[bytes], object]:
    return lambda data: read_load_report(reader, data)


_PATTERN = r"regex:(?P<requests>[0-9.e+-]{1,400}) requests in (?P<seconds>\S{1,400}) s, p99 (?P<p99_ms>\S{1,400}) ms"
_METRIC = Metric(name="n", unit="1", quantity=Quantity.EVENTS, better=Direction.NEITHER, meaning="")


def _printed(data: bytes) -> object:
    text = text_of(data)
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
    events = list(perf.decode_events(text_of(data).splitlines(keepends=True)))
    found = perf.once(sorted(events, key=lambda event: event.time_ns))
    windows = [perf.windows(found, region, "prog") for region in Region]
    lost = sum(int(event.trace) for event in found if event.what == "lost")
    stacks = [tuple(Frame(symbol=symbol, object=path) for _, symbol, path in event.stack) for event in found]
    return found, windows, lost, [canonical(waiting_stack(stack), cut=False) for stack in stacks]


def _waits(data: bytes) -> object:
    events = list(perf.decode_events(text_of(data).splitlines(keepends=True)))
    decoded = [(waits.switch(event.trace), waits.woken(event.trace)) for event in events]
    ordered = sorted(events, key=lambda event: event.time_ns)
    span = ((ordered[0].time_ns, ordered[-1].time_ns + 1),) if ordered else ()
    chains = waits.WaitChains(
        perf.MeasuredWindows(span),
        7,
        "wrk",
        lambda event: tuple(Frame(symbol=symbol, object=path) for _, symbol, path in reversed(event.stack)),
    )
    if span:
        chains.follow(ordered)
    return decoded, perf.process_tree(ordered, 7), chains.ended(1.0), chains.taken(1.0)


def _strace(data: bytes) -> object:
    lines = text_of(data).splitlines()
    return [syscalls.counted_by_strace(lines, region, "/a/prog") for region in (Region.PASSES, Region.PROGRAM)]


def _callgrind(data: bytes) -> object:
    text = text_of(data)
    found = instructions.tally(text.splitlines(keepends=True))
    return dict(found), instructions.total(text)


def _stack_heights(data: bytes) -> object:
    code = unwind_tables.instructions(text_of(data).splitlines(keepends=True))
    entries = unwind_tables.entries_in(code) | {one.at for one in code[:1]}
    known = unwind_tables.states(code, entries)
    return entries, known, list(unwind_tables.directives(code, known, entries))


def _wakeups(data: bytes) -> object:
    found = wakeup_path.decode_wakeups(data)
    paths = [_path(found, processor) for processor in PROCESSORS.values() if found.steps]
    histogram = ((1, 2), (2, 1))
    return wakeup_path.find_mark(found.writes, histogram), paths


def _path(found: wakeup_path.WakeupTrace, processor: Processor) -> object:
    """Return the path of a valid trace, or why it has none."""
    kernel = plugin_file.KernelSymbols([(1 << 63, "first", ""), ((1 << 64) - 4096, "hrtimer_wakeup", "")])
    try:
        side = {"variant": "v", "trial": "t", "run": "r", "output": "o", "equal": 1}
        return wakeup_path.find_path(found, kernel, processor, side, kernel_start=1 << 63, latency_us=1)
    except UserError as error:
        return str(error)


def _machine_row(kind: type[CountedRow] | type[TracedRow]) -> Callable[[bytes], object]:
    """Return what explains a stored row on the exact clock, and writes its pages, as `swapstone explain` does."""

    def read(data: bytes) -> object:
        found = explanation_files._decoded(data, kind)
        if found is None or found.problem():
            raise UserError("It can't be read.")
        explanation = explanation_files.explain(found)
        return explanation, [len(content) for _, content in explanation_files.evidence_pages(found, explanation)]

    return read


def _call_paths(data: bytes) -> object:
    """Return the profile of valid call paths; every page is a function."""

    def name_at(address: int) -> FunctionKey:
        kernel = address >> 63
        return f"f{address >> 12:x}", "", KERNEL_CODE if kernel else PROGRAM

    found = plugin_file.decode_paths(data)
    profile = plugin_file.call_profile(found, lambda _: name_at, 1.0, most=3)
    assert math.isclose(profile.total, found.instructions - found.lost)
    return profile, folded(profile), found.left


def _kallsyms(data: bytes) -> object:
    found = plugin_file.decode_kallsyms(data)
    return [found.name_at(address) for address in (0, 0xC0008010, 0xFFFFFFFF81000010)]


_COUNTED = ("x86_64", "aarch64")


def _points(data: bytes) -> object:
    return [task_counts.points_of(machine, data, 0x60001000) for machine in _COUNTED]


def _kernel_functions() -> tuple[bytes, ...]:
    names = sorted({name for machine in _COUNTED for name in task_counts.printed_functions(machine)[1:]})
    return ("".join(f"{0xFFFFFFFF81000000 + 4096 * at:x} T {name}\n" for at, name in enumerate(names)).encode(),)


def _code_file(data: bytes) -> object:
    found = plugin_file.read_code(data)
    if found is None:
        raise UserError("It is no program.")
    block = plugin_file.Block(0x401000, data[:64], bytes([64]), (1,))
    return found, plugin_file.CodeMap([plugin_file.CodeFile("a", "a", *found, Path("a"))], [block]).owners(block)


def _build_output(data: bytes) -> object:
    text = text_of(data)
    return missing_library(text), missing_rust_target(text), needs_cxx_library(text)


def _makefile(data: bytes) -> object:
    return replaced_flags_warning('make CFLAGS="{cflags}" LDFLAGS={ldflags}', in_folder("source", {"Makefile": data}))


def _board_answer(data: bytes) -> object:
    found = decode_board_answer(data, fuzz_seeds.BOARD_WORD)
    read = cpus_of(found), uname_of(found), machine_of(found), sensor_facts(found.files, "before")
    return found.text("folder"), *read, root_identity_of(found)


def _driver_target(data: bytes) -> object:
    found = parse_driver_target(text_of(data), "127.0.0.1")
    return found, parse_host_detail(found.target.removeprefix("host:"))


PROGRAM_DECODERS: tuple[Decoder, ...] = (
    Decoder(
        "options",
        "user",
        lambda data: [_option(line) for line in text_of(data).splitlines()],
        constant(*fuzz_seeds.OPTIONS),
    ),
    Decoder("fake target", "user", lambda data: decode_spec(data, "fake.toml"), constant(fuzz_seeds.FAKE)),
    Decoder("makefile", "user", _makefile, constant(fuzz_seeds.MAKEFILE)),
    Decoder("printed number", "own program", _printed, constant(fuzz_seeds.PRINTED)),
    Decoder(
        "output",
        "own program",
        lambda data: OutputDigests().of_bytes("stdout", data),
        constant(fuzz_seeds.PRINTED, b"pid 0x7ffe12 12345abcdef, 1.5e3 s\n"),
    ),
    Decoder("wrk", "load generator", _read_by("wrk"), recorded("wrk-good.txt", "wrk-without-latency.txt")),
    Decoder("ab", "load generator", _read_by("ab"), recorded("ab-good.txt")),
    Decoder("redis-benchmark", "load generator", _read_by("redis-benchmark"), recorded("redis-benchmark-good.txt")),
    Decoder("pace", "load generator", _read_by("swapstone-pace"), recorded("pace-good.txt"), repair_figures),
    Decoder("pattern", "load generator", _read_by(_PATTERN), constant(b"100 requests in 1.5e0 s, p99 0.25 ms\n")),
    Decoder(
        "conform",
        "program",
        decode_script_outcome,
        constant(
            b'{"outcome":"failed","script":"a.pkt","stack":"lwip","line":3,"reason":"r","expected":"e","seen":"s"}'
        ),
        errors=(ValueError,),
    ),
    Decoder("board", "board", _board_answer, constant(fuzz_seeds.BOARD_ANSWER)),
    Decoder("driver target", "user", _driver_target, constant(b"ssh:me@board.example:2222", b"ssh:[fe80::1]")),
    Decoder("perf script", "perf", _perf, constant(fuzz_seeds.PERF)),
    Decoder("scheduler events", "perf", _waits, constant(fuzz_seeds.SCHEDULER)),
    Decoder(
        "perf stat",
        "perf",
        lambda data: hardware.counted(text_of(data).splitlines()),
        constant(fuzz_seeds.PERF_STAT),
    ),
    Decoder("page sizes", "kernel", lambda data: pages.sizes(text_of(data).splitlines()), constant(fuzz_seeds.ROLLUP)),
    Decoder("strace", "strace", _strace, constant(fuzz_seeds.STRACE)),
    Decoder("callgrind", "valgrind", _callgrind, constant(fuzz_seeds.CALLGRIND, fuzz_seeds.CACHEGRIND)),
    Decoder("stack heights", "objdump", _stack_heights, constant(fuzz_seeds.OBJDUMP)),
    Decoder("plugin paths", "emulator", _call_paths, constant(*fuzz_seeds.CALL_PATHS)),
    Decoder("plugin tasks", "emulator", task_counts.decode_counts, constant(fuzz_seeds.TASKS)),
    Decoder("watched functions", "guest", _points, constant(*_kernel_functions())),
    Decoder("plugin wakeups", "emulator", _wakeups, constant(*fuzz_seeds.WAKEUPS)),
    Decoder("wakeup row", "record", _machine_row(TracedRow), constant(fuzz_seeds.WAKEUP_ROW)),
    Decoder("kallsyms", "guest", _kallsyms, constant(*fuzz_seeds.KALLSYMS)),
    Decoder(
        "code",
        "ELF file",
        _code_file,
        lambda: (small_elf(loader="/lib/ld.so"), small_elf(soname="liba.so", machine=AARCH64)),
    ),
    Decoder(
        "counted row", "record", _machine_row(CountedRow), constant(fuzz_seeds.COUNTED_ROW, fuzz_seeds.PATHS_OF_ROW)
    ),
    Decoder("build output", "compiler", _build_output, constant(fuzz_seeds.BUILD_OUTPUT)),
)
