# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare pairs of small programs by the clock, by a modelled processor, and by this host. `benchmarks/model-programs`.

The programs (benchmarks/model_programs.c) have caches, branches and divides of known behaviour. Each runs in a virtual machine on the exact
clock, without the emulator's plugin and with its mode `model`, and on this host. The benchmark prints the ratios of both variants,
the flag of `swapstone explain --modelled-cycles`, and the events of the model beside those computed by hand. The exit status is 1 if
an event differs by more than 2 % and 5000 (L2 misses of `fill`: 10 %), if a flag is another than the expected one, or if the plugin changed
a byte of a run.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.shared import children_s, parser_of

from swapstone.core.record import read_regular
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.options import Measuring, Place, Settings, VirtualMachine, Workloads
from swapstone.core.session.request import ExperimentRequest, parse_factors, resolve
from swapstone.core.session.run_options import RunOptions
from swapstone.core.targets import DEFAULT_MACHINE
from swapstone.core.targets.agent_build import plugin_option
from swapstone.core.targets.observed_target import MachineRun, ObservedTarget
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.core.wire.kept_answer import raw_output
from swapstone.parts.build.artifacts.toolchain import native_compiler
from swapstone.parts.explain.instruments.counted_runs import (
    MARK,
    kernel_symbols,
    machine_target,
    mode_words,
)
from swapstone.parts.explain.instruments.model_counts import MOST_BYTES, ModelCounts, decode_model, require_modelled
from swapstone.parts.explain.model.instruction_counts import (
    BRANCHES,
    DIVISION,
    MEMORY,
    Costs,
    ModelledCycles,
    cycles,
    other_behaviour,
)

SOURCE = Path(__file__).with_suffix(".c")
STEPS = 1 << 18
HOPS = 4 * STEPS
CELLS = 512 * 1024
_TOLERATED = 5000

Events = Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class MicroProgram:
    """A pair of programs with the events that are computed by hand.

    Attributes:
        name: as model_programs.c has it.
        pair: the variants, in words.
        flag: what the model should name; empty for nothing.
        events: of each variant: fields of `ProcessorEvents` with their numbers.
        tolerance: share of a number by which the model's may differ, beside `_TOLERATED`.
    """

    name: str
    pair: str
    flag: tuple[str, ...]
    events: tuple[Events, Events]
    tolerance: float = 0.02


def _data(l1d: float, l2: float) -> Events:
    return {"l1d_misses": l1d, "l2_data_misses": l2}


# In a shuffled list of 8 nodes a line, a line that was just used has 7 of its 8 nodes left.
# So an L2 with an eighth of all lines has the next node with probability 7/8 of 1/8, and an L1D with 1/256 of them with 7/8 of 1/256.
PROGRAMS = (
    MicroProgram(
        "chase",
        "list of 8 MiB, 8 nodes a line: in order / shuffled",
        (MEMORY,),
        (_data(HOPS / 8, HOPS / 8), _data(HOPS * (1 - 7 / 8 / 256), HOPS * (1 - 7 / 8 / 8))),
    ),
    MicroProgram("l2-list", "shuffled list: 8 KiB / 256 KiB", (MEMORY,), (_data(0, 0), _data(HOPS, 0))),
    MicroProgram("memory-list", "shuffled list: 256 KiB / 8 MiB", (MEMORY,), (_data(HOPS, 0), _data(HOPS, HOPS))),
    MicroProgram(
        "stride", "reads at a stride of 8 B / 64 B", (MEMORY,), (_data(STEPS / 8, STEPS / 8), _data(STEPS, STEPS))
    ),
    MicroProgram(
        "fill",
        "writes of a matrix: by rows / by columns",
        (MEMORY,),
        (_data(CELLS / 8, CELLS / 8), _data(CELLS, CELLS)),
        0.1,  # a set of L2 keeps the lines of 16 pages: the kernel's choice of pages decides whether it has to keep more
    ),
    MicroProgram(
        "branch", "branches: alternating / random", (BRANCHES,), ({"mispredictions": 0}, {"mispredictions": STEPS / 2})
    ),
    MicroProgram("divide", "add / divide, 64 bits", (DIVISION,), ({"divides_64": 0}, {"divides_64": STEPS})),
    MicroProgram(
        "divide-double", "multiply / divide, double", (DIVISION,), ({"divides_double": 0}, {"divides_double": STEPS})
    ),
    MicroProgram("code", "calls of 4 KiB / 128 KiB of code", (MEMORY,), ({"l1i_misses": 0}, {"l1i_misses": STEPS})),
    MicroProgram(
        "line-chase", "list of 8 MiB, a node a line: in order / shuffled", (), (_data(HOPS, HOPS), _data(HOPS, HOPS))
    ),
    MicroProgram("additions", "8 additions: independent / a chain", (), (_data(0, 0), _data(0, 0))),
    MicroProgram("atomic", "add to memory: plain / atomic", (), (_data(0, 0), _data(0, 0))),
)


@dataclasses.dataclass(frozen=True)
class Observed:
    """One variant.

    Attributes:
        counts: of the model.
        clock_ns: of the pass, by the machine's clock.
        host_ns: of the pass on this host, the median of several runs; 0 if the program is not of this host's architecture.
        differs: facts in which the runs with and without the plugin differ.
        plain_s, model_s: processor time of the emulator.
    """

    counts: ModelCounts
    clock_ns: int
    host_ns: float
    differs: tuple[str, ...]
    plain_s: float
    model_s: float


def main(arguments: Sequence[str]) -> int:
    """Print the tables; the exit status is 1 if something is not as expected."""
    parser = parser_of("model-programs", __doc__)
    parser.add_argument("--arch", default="x86_64", choices=("x86_64", "arm64"), help="of the machine (default x86_64)")
    parser.add_argument("--only", action="append", choices=[one.name for one in PROGRAMS], help="a program; repeatable")
    parser.add_argument("--runs", type=int, default=9, help="runs of each program on this host (default 9)")
    asked = parser.parse_args(arguments)
    chosen = [one for one in PROGRAMS if not asked.only or one.name in asked.only]
    request = ExperimentRequest(
        name="model",
        factors=parse_factors(["libc=glibc,musl"]),
        settings=Settings(
            workloads=Workloads(suites="libc", only="b_string_strlen"),
            measuring=Measuring(blocks=2),
            place=Place(target="vm"),
            machine=VirtualMachine(architecture=asked.arch),
        ),
    )
    with (
        open_experiment_target(
            resolve(request), lambda line: print(line, file=sys.stderr), RunOptions(no_cache=True)
        ) as opened,
        tempfile.TemporaryDirectory() as scratch,
    ):
        target = machine_target(opened)
        require_modelled(target.architecture)
        program = _compiled(Path(scratch), target.architecture)
        found = _observe(target, program, chosen, Path(scratch), asked.runs)
    print(f"{len(chosen)} programs, {target.architecture}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print("\n".join([*ratio_table(found), "", *event_table(found), "", *cost_lines(found)]))
    wrong = problems(found)
    print("\n".join(["", *wrong] if wrong else ["", "All events, flags and bytes are as expected."]))
    return 1 if wrong else 0


def _compiled(folder: Path, architecture: str) -> Path:
    compiler = native_compiler(architecture)
    program = folder / "model_programs" / "model_programs"
    program.parent.mkdir()
    subprocess.run([compiler, "-std=gnu11", "-O2", "-static", str(SOURCE), "-o", str(program)], check=True)
    return program


def _observe(
    target: ObservedTarget, program: Path, chosen: Sequence[MicroProgram], scratch: Path, runs: int
) -> list[tuple[MicroProgram, tuple[Observed, Observed]]]:
    place = target.put(program)
    mark = kernel_symbols(target, DEFAULT_MACHINE).address(MARK[target.architecture])
    found: list[tuple[MicroProgram, tuple[Observed, Observed]]] = []
    for one in chosen:
        sides: list[Observed] = []
        for variant in ("0", "1"):
            words = (one.name, variant)
            request = TrialRequest(
                id="-".join(words),
                arguments=(place, *words),
                cwd=target.scratch(),
                timeout_ms=120_000,
                output_bytes=1000,
            )
            if not found and not sides:
                target.run_observed(request, DEFAULT_MACHINE)  # saves the snapshot, whose time belongs to no program
            out = scratch / request.id
            started = children_s()
            plain = target.run_observed(request, DEFAULT_MACHINE)
            between = children_s()
            model = target.run_observed(request, DEFAULT_MACHINE, plugin_option(out, *mode_words(mark, "model")))
            ended = children_s()
            name, _, elapsed = plain[0].stdout.split()
            if name.decode() != one.name:
                raise SystemExit(f"The program printed {plain[0].stdout!r}.")
            counts = decode_model(read_regular(out, MOST_BYTES))
            if (counts.begins, counts.windows, counts.lost) != (4, 1, 0):
                raise SystemExit(f"{one.name}: there is not one pass, or the model is not complete: {counts}")
            host = _on_host(program, words, runs) if target.architecture == os.uname().machine else 0.0
            sides.append(
                Observed(counts, int(elapsed), host, differences(plain, model), between - started, ended - between)
            )
        found.append((one, (sides[0], sides[1])))
        print(f"  {len(found)} of {len(chosen)}", file=sys.stderr, flush=True)
    return found


def differences(plain: tuple[AgentAnswer, MachineRun], observed: tuple[AgentAnswer, MachineRun]) -> tuple[str, ...]:
    """Return the facts in which two runs of a trial differ."""
    (answer, run), (other_answer, other_run) = plain, observed
    facts = {
        "name": (answer.name, other_answer.name),
        "output": (raw_output(answer), raw_output(other_answer)),
        "report": (run.output, other_run.output),
        "console": (run.console, other_run.console),
        "end": (run.end, other_run.end),
    }
    return tuple(name for name, (one, two) in facts.items() if one != two)


def _on_host(program: Path, words: Sequence[str], runs: int) -> float:
    """Return the median time of a pass on this host in ns."""
    times = []
    for _ in range(runs):
        done = subprocess.run([program, *words], check=True, capture_output=True, text=True)
        times.append(int(done.stdout.split()[2]))
    return statistics.median(times)


Found = Sequence[tuple[MicroProgram, tuple[Observed, Observed]]]


def flag(sides: tuple[Observed, Observed]) -> tuple[str, ...]:
    """Return what an explanation names."""
    events = (sides[0].counts.events, sides[1].counts.events)
    modelled = ModelledCycles(caches=sides[0].counts.caches, costs=Costs(), sides=events)
    return other_behaviour(modelled, (1.0, 1.0))


def ratio_table(found: Found) -> list[str]:
    """Return the lines of the table of ratios: candidate / baseline by the clock, by the model, and on this host."""
    lines = [f"{'program':15}{'variants':54}{'clock':>7}{'model':>7}{'host':>8}  flag"]
    for one, sides in found:
        before, after = sides
        clock = after.clock_ns / before.clock_ns
        costs = Costs()
        model = cycles(after.counts.events, costs) / cycles(before.counts.events, costs)
        host = f"{after.host_ns / before.host_ns:8.2f}" if before.host_ns else f"{'-':>8}"
        lines.append(f"{one.name:15}{one.pair:54}{clock:7.2f}{model:7.2f}{host}  {', '.join(flag(sides)) or '-'}")
    return lines


def _events_of(found: Found) -> list[tuple[MicroProgram, int, str, float, int]]:
    """Return tuples (program, variant, event, by hand, by the model)."""
    return [
        (one, variant, name, expected, getattr(side.counts.events, name))
        for one, sides in found
        for variant, side in enumerate(sides)
        for name, expected in one.events[variant].items()
    ]


def event_table(found: Found) -> list[str]:
    """Return the lines of the table of events computed by hand, beside those of the model."""
    lines = [f"{'program':15}{'variant':>8}  {'event':16}{'by hand':>10}{'by the model':>14}"]
    for one, variant, name, expected, counted in _events_of(found):
        lines.append(f"{one.name:15}{variant:>8}  {name:16}{expected:>10.0f}{counted:>14}")
    return lines


def cost_lines(found: Found) -> list[str]:
    """Return what the model costs, and how many runs the plugin did not change."""
    every = [side for _, sides in found for side in sides]
    plain, model = sum(side.plain_s for side in every), sum(side.model_s for side in every)
    equal = sum(not side.differs for side in every)
    return [
        f"Processor time of {len(every)} machines: {plain:.1f} s without the plugin, {model:.1f} s with the model "
        f"({model / plain:.1f} times). Equal to the byte: {equal} of {len(every)}."
    ]


def problems(found: Found) -> list[str]:
    """Return what is not as expected, as sentences."""
    wrong = [
        f"{one.name} {variant}: {counted} {name}, by hand {expected:.0f}."
        for one, variant, name, expected, counted in _events_of(found)
        if abs(counted - expected) > one.tolerance * expected + _TOLERATED
    ]
    wrong += [
        f"{one.name}: the flag is {flag(sides)}, expected {one.flag}."
        for one, sides in found
        if flag(sides) != one.flag
    ]
    return wrong + [
        f"{one.name}: the plugin changed {', '.join(side.differs)}."
        for one, sides in found
        for side in sides
        if side.differs
    ]
