# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run a trial of a record on the exact clock again under the emulator's plugin, and count its instructions by function."""

from __future__ import annotations

import collections
import dataclasses
import re
import shutil
import stat
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path

from swapstone.core.model import IDLE, Run, Source, UnavailableError, UserError
from swapstone.core.model.cpio import Entry
from swapstone.core.record import record_format
from swapstone.core.run.prepare import Prepared
from swapstone.core.run.subject import TrialSpec
from swapstone.core.targets import MachineConfig, Target
from swapstone.core.targets.agent_build import plugin_option
from swapstone.core.targets.observed_target import MachineRun, ObservedTarget
from swapstone.core.wire import AgentAnswer, TrialRequest, decode_workload_report
from swapstone.core.wire.kept_answer import raw_output
from swapstone.core.workloads import find_load
from swapstone.parts.explain.instruments.instruction_kinds import count_arm
from swapstone.parts.explain.instruments.plugin_file import (
    COMMAND,
    MOST_BYTES,
    MOST_SYMBOL_BYTES,
    Block,
    CallPaths,
    CodeFile,
    DebugFiles,
    KernelSymbols,
    call_profile,
    decode_kallsyms,
    decode_paths,
    names_of,
    read_code,
    read_output,
)
from swapstone.parts.explain.model.explanation import (
    C_LIBRARY,
    OTHER_PROGRAM,
    PASSES,
    PROGRAM,
    WHOLE_RUN,
    Count,
    CountedSide,
)

MODE = "paths"
NOT_FOLLOWED = "calls were not followed"
"""Why a run has no call paths of which only functions were counted."""

_BY_ADDRESS, _BY_FLOW = "x86_64", "aarch64"
"""Where the plugin follows calls: by the stored return addresses (shadow_stacks.c), and by the flow of control (link_stacks.c)."""
_SWITCHES, _VECTORS = "cpu_switch_to", "vectors"
"""The function of arm64's kernel that switches threads, and its exception vectors (arch/arm64/kernel/entry.S)."""
_NEW_PROGRAM = "begin_new_exec"
"""The function of the kernel (fs/exec.c, since Linux 5.8) that removes the program that a thread had before."""


def unfollowed(architecture: str, kernel: KernelSymbols) -> str:
    """Return why calls can't be followed on a machine; empty if they can."""
    if architecture not in {_BY_ADDRESS, _BY_FLOW}:
        return f"calls and returns are decoded on x86_64 and arm64 only, and this machine is {architecture}"
    missing = (
        [] if architecture == _BY_ADDRESS else [name for name in (_SWITCHES, _VECTORS) if kernel.end(name) is None]
    )
    return f"the kernel's list of functions has no {' and no '.join(missing)}" if missing else ""


def path_words(architecture: str, kernel: KernelSymbols) -> tuple[str, ...]:
    """Return the plugin's arguments for its mode `paths` to follow calls, beside the window.

    Args:
        architecture: of a machine whose calls can be followed.
        kernel: its functions.
    """
    words = {"follow": 1, "exec": kernel.address(_NEW_PROGRAM)}
    if architecture == _BY_FLOW:
        words["switch"], words["switch_end"] = kernel.address(_SWITCHES), kernel.end(_SWITCHES)
        words["vectors"] = kernel.address(_VECTORS)
    return tuple(f"{name}={address:#x}" for name, address in words.items() if address is not None)


MARK = {
    "x86_64": "__x64_sys_getrusage",
    "aarch64": "__arm64_sys_getrusage",
    "arm": "sys_getrusage",
    "riscv64": "__riscv_sys_getrusage",
}
"""The function of the kernel that the harness calls twice before a pass and twice after it
(parts/explain/instruments/perf.py)."""

FAULTS = {
    "x86_64": ("asm_exc_page_fault",),
    "aarch64": ("do_mem_abort",),
    "arm": ("do_DataAbort", "do_PrefetchAbort"),
    "riscv64": ("do_page_fault",),
}
KERNEL_START = {"x86_64": 1 << 63, "aarch64": 1 << 63, "arm": 0xBF000000, "riscv64": 1 << 63}
"""The lowest address of the kernel. On armhf its modules are 16 MiB below 0xc0000000 (Documentation/arm/memory.rst)."""

_MUSL, _LIBRARIES = ("ld-musl-", "libc.so"), ("ld-linux", "ld-musl-", "libc.so", "libc-")
_SYMBOLS_MS = 60_000
_ARCHIVE = Path("/usr/lib/x86_64-linux-musl/libc.a")
"""musl's static archive: beside a stripped library of the same code it names the functions."""


@dataclasses.dataclass(frozen=True)
class CountContext:
    """What both runs of a row share.

    Attributes:
        prepared: the record's programs, found or built again.
        target: its machines.
        scratch: a folder for copies of files.
        debug: names of glibc's functions.
    """

    prepared: Prepared
    target: ObservedTarget
    scratch: Path
    debug: DebugFiles


@dataclasses.dataclass(frozen=True)
class CountedRun:
    """A run and its instructions.

    Attributes:
        side: totals, and the instructions by call stack.
        entries: how often functions of the kernel were entered.
        region: `PASSES` or `WHOLE_RUN`.
        no_paths: why functions have no callers; empty if they have.
    """

    side: CountedSide
    entries: Mapping[str, int]
    region: str
    no_paths: str = ""


def machine_target(target: Target) -> ObservedTarget:
    """Return a target as one of machines on the exact clock.

    Raises:
        UnavailableError: it is another one.
    """
    if not isinstance(target, ObservedTarget):
        raise UnavailableError(
            "Instructions by function are counted in virtual machines on the instruction clock only."
        )
    return target


class ObservedTrial:
    """A trial of a record, which runs again under the emulator's plugin. The plugin must not change the run.

    Args:
        context: what all runs of the record share.
        run: of the record.

    Attributes:
        subject, program, request, config: what runs again.
        kernel: functions of the machine's kernel.
        folder: for what the plugin writes.
        answer: to the trial without the plugin.

    Raises:
        UnavailableError: its program is missing.
    """

    def __init__(self, context: CountContext, run: Run) -> None:
        key = (run.trial.suite, run.trial.workload, run.trial.variant)
        if key not in context.prepared.programs:
            raise UnavailableError(
                f"{run.trial.variant} can't be run again: {context.prepared.refused.get(key, 'its program is missing')}."
            )
        self._run, self._target = run, context.target
        self.subject = context.prepared.subjects[key[:2]]
        self.program = context.prepared.programs[key].in_block(run.trial.block)
        spec = TrialSpec(
            identity=run.trial.identity,
            variant=context.prepared.variants[run.trial.variant],
            program=self.program,
            scratch=self._target.scratch(),
            cpus=self._target.describe().cpus,
            passes=run.passes,
            load=find_load(run.trial.load),
        )
        self.request, self.config = self.subject.request(spec), self.subject.machine_config(spec)
        self.kernel = kernel_symbols(self._target, self.config)
        self.folder = context.scratch / f"run-{len(list(context.scratch.iterdir()))}"
        self.folder.mkdir()
        self.answer, self._plain = self._target.run_observed(self.request, self.config)

    def observe(self, name: str, *words: str) -> Path:
        """Run the trial under the plugin.

        Args:
            name: of the file that the plugin writes.
            words: arguments of the plugin.

        Returns:
            The file.

        Raises:
            UserError: it is another run than in the record; the text names the first difference.
        """
        out = self.folder / name
        answer, observed = self._target.run_observed(self.request, self.config, plugin_option(out, *words))
        require_equal(self._run, self.subject.kept(answer), self._plain, observed)
        return out

    def with_symbols(self, copy: Path) -> Path:
        """Return the program with its symbols; the given copy if that can't be built, or has other code."""
        return self.subject.with_symbols(self.program, copy.with_name("symbols"), like=str(copy)) or copy


def count_run(context: CountContext, run: Run, *, follow: bool = True) -> CountedRun:
    """Run a trial of a record again under the plugin.

    Args:
        context: what all runs of the record share.
        run: of the record.
        follow: whether calls are followed.

    Raises:
        UnavailableError: its program is missing.
        UserError: under the plugin it is another run than in the record; the text names the first difference.
    """
    trial, architecture = ObservedTrial(context, run), context.target.architecture
    kernel, program, origin = trial.kernel, trial.program, trial.subject.workload.origin
    passes = isinstance(origin, Source) and origin.harness and run.trial.load == IDLE.name
    mark = kernel.address(MARK[architecture]) if passes else None
    no_paths = unfollowed(architecture, kernel) if follow else NOT_FOLLOWED
    words = () if no_paths else path_words(architecture, kernel)
    counts = read_output(trial.observe(MODE, *mode_words(mark, MODE, *words)), MOST_BYTES, decode_paths)
    if counts.lost and words:
        no_paths = f"{counts.lost} instructions found no room in the plugin's table of call paths"
        counts = read_output(trial.observe("counts", *mode_words(mark)), MOST_BYTES, decode_paths)
    operations, clock_ns = 1.0, 0
    if mark is not None:
        report = decode_workload_report(trial.answer.stdout)
        operations, clock_ns = float(report.ops * len(report.passes)), sum(each.wall_ns for each in report.passes)
        if (counts.begins, counts.windows, counts.open) != (4 * len(report.passes), len(report.passes), False):
            raise UserError(
                f"{run.trial.key}: the passes can't be separated from the rest: {counts.begins} calls of getrusage for "
                f"{len(report.passes)} passes."
            )
    others = {each.path.lstrip("/") for each in context.prepared.programs.values()}
    files = code_files(context.target.files(trial.config), trial.request, trial.folder, trial.with_symbols, others)
    names = names_of(counts.blocks, files, kernel, KERNEL_START[architecture], table=context.debug.table)
    entered = kernel_entries(counts.blocks, kernel)
    side = CountedSide(
        variant=run.trial.variant,
        trial=run.trial.key,
        run=run.name,
        output=run.output,
        program_sha256=program.artifact.sha256 if program.artifact else "",
        operations=operations,
        instructions=counts.instructions,
        clock_ns=clock_ns,
        repeated=repeated_instructions(counts, entered, architecture),
        lost=counts.lost,
        arm=count_arm(counts.blocks, files, KERNEL_START["arm"]) if architecture == "arm" else None,
        profile=call_profile(counts, names, operations),
    )
    return CountedRun(side, entered, PASSES if mark is not None else WHOLE_RUN, no_paths)


def mode_words(mark: int | None = None, mode: str = MODE, *words: str) -> tuple[str, ...]:
    """Return the plugin's arguments for the windows of passes.

    Args:
        mark: the address whose executions delimit passes: each begins with the second of four, and ends with the third. None for the
            whole run.
        mode: what the plugin observes: a file of native/plugin.
        words: other arguments of the mode.
    """
    window = () if mark is None else (f"begin={mark:#x}", f"end={mark:#x}", "cycle=4", "first=2", "last=3")
    return (f"mode={mode}", *window, *words)


def kernel_symbols(target: ObservedTarget, config: MachineConfig) -> KernelSymbols:
    """Return the functions of a machine's kernel and modules, which a machine of the same configuration prints.

    Raises:
        UserError: it prints none.
    """
    request = TrialRequest(
        id="symbols", arguments=COMMAND, cwd=target.scratch(), timeout_ms=_SYMBOLS_MS, output_bytes=MOST_SYMBOL_BYTES
    )
    return decode_kallsyms(target.run(request, config).stdout)


def require_equal(run: Run, answer: AgentAnswer, plain: MachineRun, observed: MachineRun) -> None:
    """Check that the plugin did not change the run.

    Raises:
        UserError: it is another one; the text has the first difference.
    """
    facts = (
        ("its inputs, by name", run.name, answer.name),
        ("SHA-256 of its output", run.output, record_format.file_sha256(raw_output(answer))),
        ("its end", plain.end.value, observed.end.value),
        ("its console", plain.console, observed.console),
        ("the machine's report", plain.output, observed.output),
    )
    for what, before, now in facts:
        if before != now:
            values = f": {before[:12]!r} before, {now[:12]!r} now" if isinstance(before, str) else ""
            raise UserError(
                f"{run.trial.key} is another run here than in the record; the first fact that differs is {what}{values}.",
                "See which input differs: swapstone verify RECORD --recompute 1",
            )


def code_files(
    files: Mapping[str, Entry],
    request: TrialRequest,
    folder: Path,
    with_symbols: Callable[[Path], Path],
    programs_of_all: Container[str],
) -> list[CodeFile]:
    """Return the programs and libraries of a machine that the trial may have executed.

    The trial's program has the name `PROGRAM`: functions of one name share a row where a user's two programs have other names.

    Args:
        files: of the machine, by path.
        request: of the trial; the programs of other trials, in folders beside its own, are left out.
        folder: for copies.
        with_symbols: returns a file with the symbols of its program, given a copy of it.
        programs_of_all: paths of the programs of all variants.
    """
    own = request.arguments[0].lstrip("/")
    beside = own.rpartition("/")[0]
    programs = beside.rpartition("/")[0]
    found = []
    for number, (path, entry) in enumerate(sorted(files.items())):
        other = programs and path.startswith(f"{programs}/") and not path.startswith(f"{beside}/")
        if other or not stat.S_ISREG(entry.mode) or entry.content[:4] != b"\x7fELF":
            continue
        code = read_code(entry.content)
        if code is None:
            continue
        name = path.rpartition("/")[2]
        copy = folder / f"file-{number}" / ("libc.so" if name.startswith(_MUSL[0]) else name)
        copy.parent.mkdir()
        copy.write_bytes(entry.content)
        if name.startswith(_MUSL) and b"musl" in entry.content and _ARCHIVE.is_file():
            shutil.copyfile(_ARCHIVE, copy.with_name("libc.a"))
        kind = PROGRAM if path == own else C_LIBRARY if name.startswith(_LIBRARIES) else name
        kind = OTHER_PROGRAM if path in programs_of_all and path != own else kind
        found.append(
            CodeFile(PROGRAM if path == own else name, kind, *code, with_symbols(copy) if path == own else copy)
        )
    return found


def kernel_entries(blocks: Iterable[Block], kernel: KernelSymbols) -> collections.Counter[str]:
    """Return how often the first instruction of each function of a kernel was executed.

    Args:
        blocks: with the executions of each instruction; those of other code are in no function.
        kernel: its functions.
    """
    found = collections.Counter[str]()
    for block in blocks:
        for address, count in zip(block.addresses, block.counts, strict=True):
            name, _, start = kernel.name_at(address) or ("", "", -1)
            found[name] += count if start == address else 0
    return +found


def repeated_instructions(counts: CallPaths, entries: Mapping[str, int], architecture: str) -> int:
    """Return about how many instructions were counted twice: page faults, less those seen inside a block (native/plugin/paths.c)."""
    faults = sum(entries.get(name, 0) for name in FAULTS[architecture])
    return max(0, faults - (counts.left - counts.accesses))


_SYSTEM_CALL = re.compile(r"__(?:x64|arm64|riscv)_sys_(\w+)|sys_(\w+)")
_FAULT = "handle_mm_fault"


def events_of(baseline: CountedRun, candidate: CountedRun) -> tuple[Count, ...]:
    """Return system calls and page faults of an operation by name, as their functions in the kernel were entered."""
    sides: list[collections.Counter[tuple[str, str]]] = []
    for run in (baseline, candidate):
        found = collections.Counter[tuple[str, str]]()
        for name, number in run.entries.items():
            call = _SYSTEM_CALL.fullmatch(name)
            if call or name == _FAULT:
                found[("system calls", call[1] or call[2]) if call else ("faults", "page faults")] += number
        sides.append(found)
    before, after = (run.side.operations for run in (baseline, candidate))
    return tuple(
        Count(group=key[0], name=key[1], baseline=sides[0][key] / before, candidate=sides[1][key] / after)
        for key in sorted(sides[0] | sides[1])
    )


def notes_of(found: CountedRun) -> tuple[str, ...]:
    """Return what the numbers of a run contain, as sentences."""
    contained = (
        "Everything that the machine's processor executed in the passes is counted: the program, the kernel, and whatever ran beside it. "
        "A pass is counted from the second call of getrusage before it to the first one after it, so the sum contains the reading of "
        "clocks, and is larger than the time by the clock."
        if found.region == PASSES
        else "Everything that the machine's processor executed is counted, from its snapshot to its end: also the agent, the start and the "
        "end of the program, and the machine's shutdown. The program does not mark its work."
    )
    return (
        contained,
        "A function of user code belongs to the file that has the same instructions at the same address. Unknown code is in no file, such "
        "as the vDSO; ambiguous code is in several.",
        "Each run gave the bytes that the record has.",
    )
