# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check that the emulator's plugin does not change a run, and measure its processor time. `benchmarks/plugin-equality`.

Each trial of a workload runs twice in a virtual machine on the exact clock, in turns: without the plugin, and with the plugin of
`swapstone explain`, which counts instructions, models a processor (`--mode model`), follows calls (`--mode paths`), or keeps the path
of the worst wake-up (`--mode wakeups`). The program's output, the machine's whole report and its console must be equal to the byte. The
processor time is that of the emulators. The cache of runs is not used.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

from benchmarks.shared import children_s, parser_of
from benchmarks.vm_equality import Trials, add_trials, experiment_of

from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.run_options import RunOptions
from swapstone.core.subjects import raw_output
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.observed_target import MachineRun, ObservedTarget
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.core.workloads.cyclictest import decode_cyclictest
from swapstone.parts.explain.instruments.counted_runs import kernel_symbols, machine_target, mode_words, plugin_option
from swapstone.parts.explain.instruments.observed_paths import MODE as PATHS
from swapstone.parts.explain.instruments.observed_paths import path_words
from swapstone.parts.explain.instruments.traced_wakeups import watched_program
from swapstone.parts.explain.instruments.wakeup_trace import decode_wakeups, find_mark

_KEPT_US = 2000
"""So much guest time is written by the plugin in its mode wakeups, and what precedes it."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """A trial without and with the plugin.

    Attributes:
        variant: its label.
        differs: the facts that are not equal.
        plain_s, observed_s: processor time of the emulator, in seconds.
    """

    variant: str
    differs: tuple[str, ...]
    plain_s: float
    observed_s: float


def main() -> int:
    """Print how many trials were equal, and their processor times; the exit status is 1 unless all were equal."""
    parser = parser_of("plugin-equality", __doc__)
    add_trials(parser, factor="libc=glibc,musl", suite="libc", only="b_string_strlen", load="idle")
    parser.add_argument(
        "--mode",
        default="counts",
        choices=("counts", "model", "paths", "wakeups"),
        help="of the plugin (default counts)",
    )
    parser.add_argument("--trials", type=int, default=10, help="trials, shared among the levels (default 10)")
    asked = parser.parse_args()
    if asked.trials < 1:
        parser.error("--trials must be at least 1")
    experiment = experiment_of(asked)
    with open_experiment_target(
        experiment, lambda line: print(line, file=sys.stderr), RunOptions(no_cache=True)
    ) as target:
        ns_per_instruction = experiment.ns_per_instruction
        pairs = _pairs(Trials(experiment, target), machine_target(target), asked.trials, asked.mode, ns_per_instruction)
    print("\n".join(table(pairs)))
    return status(pairs)


def _pairs(chosen: Trials, target: ObservedTarget, trials: int, mode: str, ns_per_instruction: int) -> list[Pair]:
    labels = chosen.variants
    print(f"{chosen.workload} under {chosen.load}, {trials} trials, {target.architecture}")
    found: list[Pair] = []
    marks: dict[str, int] = {}
    words: dict[str, tuple[str, ...]] = {}
    for number in range(-len(labels), trials):
        label = labels[number % len(labels)]
        request, config = chosen.request(label, max(number, 0) // len(labels) + 1)
        if number < 0:  # makes the snapshot, whose processor time belongs to no trial
            answer, _ = target.run_observed(request, config)
            if mode == "wakeups":
                marks[label] = _mark(target, request, config, answer)
            if mode == PATHS:
                words[label] = path_words(target.architecture, kernel_symbols(target, config))
            continue
        runs, times = {}, {}
        with tempfile.TemporaryDirectory() as scratch:
            plugins: dict[bool, tuple[str, ...]] = {False: ()}
            if mode == "wakeups":
                program = watched_program(target, config, Path(scratch))
                tracing = program.tracing(marks[label], _KEPT_US, ns_per_instruction)
                plugins[True] = plugin_option(Path(scratch) / mode, *tracing)
            else:
                plugins[True] = plugin_option(Path(scratch) / mode, *mode_words(None, mode, *words.get(label, ())))
            for observed in (False, True) if number // len(labels) % 2 == 0 else (True, False):
                before = children_s()
                runs[observed] = target.run_observed(request, config, plugins[observed])
                times[observed] = children_s() - before
            if not (Path(scratch) / mode).stat().st_size:
                raise SystemExit("The plugin wrote no counts: it was not loaded.")
        found.append(Pair(label, differences(runs[False], runs[True]), times[False], times[True]))
        print(f"  {number + 1} of {trials}", file=sys.stderr, flush=True)
    return found


def _mark(target: ObservedTarget, request: TrialRequest, config: MachineConfig, answer: AgentAnswer) -> int:
    """Return the instruction of the program that counts latencies.

    Raises:
        SystemExit: there is none.
    """
    with tempfile.TemporaryDirectory() as scratch:
        program, out = watched_program(target, config, Path(scratch)), Path(scratch) / "writes"
        target.run_observed(request, config, plugin_option(out, *program.words))
        mark = find_mark(decode_wakeups(out.read_bytes()).writes, decode_cyclictest(answer.stdout).histogram)
    if mark is None:
        raise SystemExit("No instruction counts latencies.")
    return mark


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


def status(pairs: list[Pair]) -> int:
    """Return the exit status: 1 unless all trials are equal."""
    return 1 if any(pair.differs for pair in pairs) else 0


def table(pairs: list[Pair]) -> list[str]:
    """Return the lines of the table: a row for each variant, the sum, and the trials that differ."""
    lines = [f"{'variant':24}{'trials':>8}{'equal':>8}{'without, CPU s':>16}{'with, CPU s':>14}{'more':>8}"]
    for label in [*dict.fromkeys(pair.variant for pair in pairs), ""]:
        own = [pair for pair in pairs if label in {pair.variant, ""}]
        plain, observed = sum(pair.plain_s for pair in own), sum(pair.observed_s for pair in own)
        equal = sum(not pair.differs for pair in own)
        more = f"{observed / plain - 1:+.0%}" if plain else ""
        lines.append(f"{label or 'sum':24}{len(own):>8}{equal:>8}{plain:>16.1f}{observed:>14.1f}{more:>8}")
    for number, pair in enumerate(pairs, 1):
        if pair.differs:
            lines.append(f"  trial {number}, {pair.variant}: {', '.join(pair.differs)}")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
