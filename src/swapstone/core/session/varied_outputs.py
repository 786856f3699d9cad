# SPDX-License-Identifier: MIT OR Apache-2.0
"""What varies where in the outputs of a record: counted from the digests of all runs, and shown from the few outputs that are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.outputs import Variation, variations
from swapstone.core.comparison.run_table import RunTable, as_table
from swapstone.core.model import DIRECTION_RULES, Copy, Experiment, Run, WireError
from swapstone.core.model.closing import Closing
from swapstone.core.plan import variants
from swapstone.core.record import KeptOutputs, RecordView
from swapstone.core.report.topics.output_parts import (
    MOST_PAIRS,
    MOST_PARTS,
    NO_VALUE,
    OutputPart,
    OutputParts,
    PartOfSide,
)
from swapstone.core.session.pattern_limit import SlowPatternError, limited_patterns
from swapstone.core.stats import Ints
from swapstone.core.wire.agent_answer import AgentAnswer
from swapstone.core.wire.kept_answer import decode_kept, restored
from swapstone.core.wire.own_program_output import (
    STDERR,
    STDOUT,
    Part,
    parts_of,
    without_metrics,
    without_name,
    without_paths,
)

_LARGEST_BYTES = 1 << 20
"""The raw output of a run of an own program has at most 128 KiB, and what was observed."""

_MOST_KEPT = 32
"""Number of outputs whose parts are in memory."""

_WIDTH = 60
_LINES = next(parts_of(b"")).key


class PrintedOutputs(Closing):
    """What the runs of own programs printed, as far as a record keeps it. A context manager.

    Args:
        view: the record.
    """

    def __init__(self, view: RecordView) -> None:
        self._view = view
        self._kept = KeptOutputs(view.path)
        self._parts: dict[tuple[int, str], dict[str, Part]] = {}
        self._too_slow = False
        self.table: RunTable = as_table(view.runs, ())

    def close(self) -> None:
        """Close the record. Calling it twice is allowed."""
        self._kept.close()

    def read(self, row: int) -> Mapping[str, bytes]:
        """Return what a run printed, by output, with paths replaced as before its digests were taken; nothing if it can't be read."""
        run = self.table.run(row)
        if (answer := self._answer(run)) is None:
            return {}
        place = (run.trial.workload, run.trial.variant)
        artifacts = self._view.manifest.artifacts if self._view.manifest else ()
        path = next((each.path for each in artifacts if (each.workload, each.variant) == place), "")
        own = self._view.experiment.own
        printed = {STDOUT: answer.stdout, STDERR: without_name(answer.stderr, path)}
        folder = own.directory if own else ""
        return {output: without_paths(text, path, folder) for output, text in printed.items()}

    def part(self, row: int, output: str, key: str) -> Part | None:
        """Return a part of what a run printed; None if it has none, or is not kept."""
        if (row, output) not in self._parts:
            if len(self._parts) >= _MOST_KEPT:
                self._parts.clear()
            text = self._compared(self.read(row).get(output, b""))
            self._parts[row, output] = {each.key: each for each in parts_of(text)} if text else {}
        return self._parts[row, output].get(key)

    def _compared(self, text: bytes) -> bytes:
        """Return what is compared of an output; nothing if a pattern of the record takes too long."""
        own = self._view.experiment.own
        if own is None or self._too_slow:
            return b""
        try:
            with limited_patterns():
                return without_metrics(own, text)
        except SlowPatternError:
            self._too_slow = True
            return b""

    def _answer(self, run: Run) -> AgentAnswer | None:
        raw, kept = (self._kept.read(digest, _LARGEST_BYTES) for digest in (run.output, run.answer))
        if raw is None or kept is None:
            return None
        try:
            return restored(decode_kept(kept), raw)
        except WireError:
            return None


def output_parts(view: RecordView) -> OutputParts:
    """Return what varies in the outputs of each candidate and the baseline, of the first few workloads: what shows other work first."""
    experiment = view.experiment
    if experiment.own is None or experiment.rules < DIRECTION_RULES:
        return ()
    baseline, *others = [variant for variant in variants(experiment) if variant.copy is Copy.FIRST]
    places = [(each, candidate) for each in experiment.workloads for candidate in others][:MOST_PAIRS]
    found: list[OutputPart] = []
    with PrintedOutputs(view) as printed:
        for (suite, workload), candidate in places:
            group = suite, workload, experiment.loads[0]
            found += parts_between(printed, experiment, group, baseline.label, candidate.label)
    return tuple(found)


def parts_between(
    printed: PrintedOutputs, experiment: Experiment, group: Group, baseline: str, candidate: str, *, only: str = ""
) -> Iterator[OutputPart]:
    """Yield what varies in the outputs of two variants, those first that show other work.

    Args:
        printed: the outputs of the record.
        experiment: as `swapstone.core.comparison.outputs.variations` has it, like the next three.
        group: (suite, workload, load).
        baseline: label of one variant.
        candidate: label of the other.
        only: name of an output, of which alone the parts are read; empty for all.
    """
    for output, found in variations(experiment, group, baseline, candidate, printed.table).items():
        if only in ("", output):
            ranked = sorted(found, key=lambda each: (not each.constant, -each.other.size, each.key == _LINES))
            yield from (_part(printed, each, output, group[1], candidate) for each in ranked[:MOST_PARTS])


def _part(printed: PrintedOutputs, varied: Variation, output: str, workload: str, variant: str) -> OutputPart:
    ranked = [_ranked(side) for side in (varied.baseline, varied.candidate)]
    kept = [[printed.part(int(rows[0]), output, varied.key) for _, rows in side[:2]] for side in ranked]
    known = [part for side in kept for part in side if part is not None]
    first = next((each for each in known if each.values), Part("", b"", 0, []))
    numbers = zip(*(each.values for each in known), strict=False)
    at = next(
        (at for at, values in enumerate(numbers) if len(set(values)) > 1),
        min((len(each.values) for each in known), default=0),
    )
    at = at if any(at < len(each.values) for each in known) else 0
    old, new = (
        PartOfSide(
            runs=sum(rows.size for _, rows in side),
            values=len(side),
            common=side[0][1].size,
            shown=_shown(side[0][0], parts[0], at),
            other=_shown(side[1][0], parts[1], at) if len(side) > 1 else "",
        )
        for side, parts in zip(ranked, kept, strict=True)
    )
    return OutputPart(
        workload=workload,
        variant=variant,
        output=output,
        line=literal_of(first.line, 0) if first.place >= 0 and known else "",
        place=first.place + 1 if first.values[:1] != [b""] else 0,
        baseline=old,
        candidate=new,
        other_runs=new.runs if varied.constant else varied.other.size,
    )


def _ranked(values: Mapping[str, Ints]) -> list[tuple[str, Ints]]:
    """Return digests with their rows, the most frequent first."""
    return sorted(values.items(), key=lambda value: -value[1].size)


def _shown(digest: str, part: Part | None, at: int) -> str:
    """Return a value of a part as a literal; empty if it is not kept."""
    if not digest or (part is not None and at >= len(part.values)):
        return NO_VALUE
    if part is None:
        return ""
    return literal_of(part.values[at], 0) if part.values[at] else f"{len(part.values)} times"


def literal_of(line: bytes, begin: int) -> str:
    """Return a part of a line as a literal: printed bytes are untrusted."""
    part = line[begin : begin + _WIDTH]
    text = f"{'...' if begin else ''}{part.decode(errors='replace')}{'...' if begin + _WIDTH < len(line) else ''}"
    return repr(text)
