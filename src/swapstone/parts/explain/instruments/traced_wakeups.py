# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the replicate with the worst wake-up again under the emulator's plugin, and derive its path.

The plugin runs twice: first to find the instruction of the program that counts a latency, then to keep what precedes the maximum.
"""

from __future__ import annotations

from pathlib import Path

from swapstone.core.factors.elf_file import DamagedElfError, open_elf
from swapstone.core.model import Run, UnavailableError
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.observed_target import ObservedTarget
from swapstone.core.wire.cyclictest import decode_cyclictest
from swapstone.parts.explain.instruments.code_files import read_code
from swapstone.parts.explain.instruments.counted_runs import (
    KERNEL_START,
    CountContext,
    ObservedTrial,
)
from swapstone.parts.explain.instruments.instruction_kinds import PROCESSORS
from swapstone.parts.explain.instruments.plugin_file import read_output
from swapstone.parts.explain.instruments.wakeup_path import MOST_BYTES, decode_wakeups, find_mark, find_path
from swapstone.parts.explain.model.instruction_counts import WakeupPath

_PROGRAM = "/usr/bin/cyclictest"
_BEFORE = 1_000_000
"""So many instructions before the path are kept too: they show by which calls its functions were entered."""


def watched_program(target: ObservedTarget, config: MachineConfig, folder: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return the file of a machine's program that counts latencies, and the plugin's arguments that name its code.

    Args:
        target: runs the machine.
        config: of the machine.
        folder: for a copy of the program's code.

    Raises:
        UnavailableError: it has another structure.
    """
    entry = target.files(config).get(target.real_path(_PROGRAM).lstrip("/"))
    code = read_code(entry.content) if entry is not None else None
    if entry is None or code is None or len(code[1]) != 1:
        raise UnavailableError(f"{_PROGRAM} of the machine's image is no program with one executable segment.")
    ((low, text),) = code[1]
    try:
        with open_elf(entry.content) as elf:
            start = int(elf["e_entry"]) & (~1 if elf["e_machine"] == "EM_ARM" else ~0)  # bit 0 marks Thumb code
    except DamagedElfError as error:
        raise UnavailableError(f"{_PROGRAM} of the machine's image can't be read: {error}.") from error
    place = folder / "text"
    place.write_bytes(text)
    return entry.content, ("mode=wakeups", f"text={place}", f"low={low:#x}", f"entry={start:#x}")


def tracing(mark: int, latency_us: int, ns_per_instruction: int) -> tuple[str, str]:
    """Return the plugin's further arguments to keep what precedes a maximum that the instruction `mark` counts."""
    keep = (latency_us + 1) * 1000 // ns_per_instruction + _BEFORE
    return f"mark={mark:#x}", f"keep={keep}"


class WakeupTracer:
    """Traces the worst wake-ups of runs of one record.

    Args:
        context: what all runs share.
        ns_per_instruction: of the machines' clock.
    """

    def __init__(self, context: CountContext, ns_per_instruction: int) -> None:
        self._context, self._scale = context, ns_per_instruction
        self._marks: dict[bytes, int] = {}

    def trace(self, run: Run) -> WakeupPath:
        """Return the path of the worst wake-up of a run.

        Raises:
            UnavailableError: its program is missing, or the instructions do not fit to what the program reported.
            UserError: under the plugin it is another run than in the record; the text names the first difference.
        """
        target, trial = self._context.target, ObservedTrial(self._context, run)
        histogram = decode_cyclictest(trial.answer.stdout).histogram
        latency_us, equal = histogram[-1]
        content, words = watched_program(target, trial.config, trial.folder)
        if content not in self._marks:
            written = read_output(trial.observe("writes", *words), MOST_BYTES, decode_wakeups)
            found = find_mark(written.writes, histogram)
            if found is None:
                raise UnavailableError(
                    f"No instruction of {_PROGRAM} wrote to memory as the program's histogram requires: the wake-up with the maximum "
                    "can't be found."
                )
            self._marks[content] = found
        keep = tracing(self._marks[content], latency_us, self._scale)
        trace = read_output(trial.observe("trace", *words, *keep), MOST_BYTES, decode_wakeups)
        if trace.marks != sum(count for _, count in histogram) or not trace.steps:
            raise UnavailableError(
                f"The latencies that {_PROGRAM} counted under the plugin are not those that it printed: the wake-up with the maximum "
                "can't be found."
            )
        side = {"variant": run.trial.variant, "trial": run.trial.key, "run": run.name, "output": run.output}
        return find_path(
            trace,
            trial.kernel,
            PROCESSORS[target.architecture],
            {**side, "equal": equal},
            kernel_start=KERNEL_START[target.architecture],
            latency_us=latency_us,
            ns_per_instruction=self._scale,
        )
