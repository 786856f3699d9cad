# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rates of false alarms for two crossed factors without effect, and of detection for an injected interaction.

    benchmarks/crossed-nulls                         30 experiments on this host, about 10 minutes
    benchmarks/crossed-nulls --experiments 100 --keep DIR
    benchmarks/crossed-nulls --count RECORD...       count in existing records of this benchmark

Two factors, `left` and `right`, each with the levels a and b, are added to this process's registry of factors. A level is a compiler
option that concerns only the compiler's messages. The compiler records its options in a section of the program that is not loaded,
from which the level is observed. Otherwise the programs of all four variants are equal byte by byte, which is checked first. Each
experiment runs the four programs of each workload in blocks, and is analysed like any crossed experiment.

All main effects and interactions of these factors are false alarms. Then the measured times of the variant left=b,right=b are increased
by 2, 5 and 10 %: an interaction of that size, with the noise of this machine.
"""

from __future__ import annotations

import argparse
import collections
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from benchmarks.false_alarms import DIFFERENT, Tally
from benchmarks.rules import ALPHA

from swapstone import factors, plan
from swapstone.comparison import analyse
from swapstone.factors import Evidence, Level, Recipe, Stage
from swapstone.model import Analysis, FactorEffect, Interaction, Presence, Quantity, Run, Scale, Status, UserError
from swapstone.record import RecordView, load
from swapstone.session import api
from swapstone.session.settings import Measuring, Workloads
from swapstone.workloads import workloads_by_name

WORKLOADS = ("b_malloc_tiny1", "b_string_strlen")
PLANTED = (0.02, 0.05, 0.10)
SLOWED = "left=b,right=b"
NOTE = ".GCC.command.line"


class Nothing:
    """A factor whose levels are compiler options that concern only the compiler's messages.

    Args:
        name: as in the labels of variants.
        options: of the levels a and b.
    """

    stage = Stage.COMPILE
    description = "nothing"
    levels: tuple[Level, ...] = (Level(name="a", description="nothing"), Level(name="b", description="nothing"))

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self._options = dict(zip(("a", "b"), options, strict=True))

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Add the level's option, and let the compiler record its options."""
        # Without a build ID, which depends on the whole file and would be loaded.
        return msgspec.structs.replace(
            recipe,
            cflags=(*recipe.cflags, "-frecord-gcc-switches", self._options[level]),
            ldflags=(*recipe.ldflags, "-Wl,--build-id=none"),
        )

    def observe(self, evidence: Evidence) -> str | None:
        """Return the level whose option the compiler recorded in the program."""
        noted = [option for text in evidence.program.switches for option in text.split()] if evidence.program else []
        return "+".join(level for level, option in self._options.items() if option in noted) or None


LEFT = Nothing("left", "-fmax-errors=1", "-fmax-errors=2")
RIGHT = Nothing("right", "-ftabstop=4", "-ftabstop=8")


def main(arguments: Sequence[str]) -> int:
    """Run the experiments or count in records; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="crossed-nulls-") as scratch:
            if options.count:
                return count(options.count)
            folder = options.keep or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            return count(list(_made(folder, options)))
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks/crossed-nulls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=30, help="number of experiments (default 30)")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of each experiment (default 20)")
    parser.add_argument("--workload", action="append", help=f"may be repeated (default {', '.join(WORKLOADS)})")
    parser.add_argument("--seed", type=int, default=1, help="of the first experiment; incremented for each further one")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the records in this folder")
    parser.add_argument(
        "--count", type=Path, nargs="+", metavar="RECORD", help="measure nothing, count in these records"
    )
    return parser


def _made(folder: Path, options: argparse.Namespace) -> Iterable[Path]:
    """Run the experiments one after the other; yield the record of each."""
    factors.FACTORS = (*factors.FACTORS, LEFT, RIGHT)
    for number in range(options.experiments):
        path = folder / f"crossed-null-{options.seed + number}"
        api.compare(
            Workloads(only=options.workload or WORKLOADS),
            Measuring(blocks=options.blocks, seed=options.seed + number),
            out=path,
            left=("a", "b"),
            right=("a", "b"),
        )
        if number == 0:
            _check_same(load(path))
        print(f"{number + 1} of {options.experiments} made", file=sys.stderr, flush=True)
        yield path


def _check_same(view: RecordView) -> None:
    """Check that the four programs of each workload are equal except for the recorded options.

    Raises:
        UserError: they differ, or a run was refused, so that the factors could have an effect.
    """
    refused = next((run.reason for run in view.runs if run.status is not Status.OK), None)
    if refused is not None:
        raise UserError(f"A run of the first experiment has no values: {refused}")
    contents: dict[str, set[bytes]] = collections.defaultdict(set)
    for artifact in view.manifest.artifacts if view.manifest else ():
        with tempfile.NamedTemporaryFile() as file:
            command = ["objcopy", f"--remove-section={NOTE}", artifact.path, file.name]
            subprocess.run(command, check=True, capture_output=True)
            contents[artifact.workload].add(Path(file.name).read_bytes())
    different = [name for name, found in contents.items() if len(found) != 1]
    if different or not contents:
        raise UserError(f"The programs of {', '.join(different) or 'no workload'} differ.")
    print(f"The four programs of each of {len(contents)} workloads are equal except for {NOTE}.")


class Kind:
    """Counts of one kind of finding over all experiments."""

    def __init__(self) -> None:
        self.reported, self.raw, self.tables = Tally(), Tally(), Tally()

    def add(self, found: Sequence[FactorEffect | Interaction]) -> None:
        """Count the findings of one kind in an experiment, without those of constant values."""
        rows = [each for each in found if each.p_value is not None]
        tables: dict[tuple[str, str, Quantity, str], bool] = {}
        for each in rows:
            key = each.suite, each.load, each.metric.quantity, "" if each.workload else each.metric.name
            tables[key] = tables.get(key, False) or excludes_none(each)
        self.reported.add(sum(map(is_present, rows)), len(rows))
        self.raw.add(sum(each.p_value is not None and each.p_value <= ALPHA for each in rows), len(rows))
        self.tables.add(sum(tables.values()), len(tables))

    def print(self, name: str) -> None:
        """Print the three shares."""
        print(f"\n{name}")
        print(f"  reported as present                      {self.reported}")
        print(f"  rows with p <= {ALPHA} before correction    {self.raw}")
        print(f"  tables with an interval without 1        {self.tables}")


def excludes_none(each: FactorEffect | Interaction) -> bool:
    """Return whether an interval excludes "no effect"."""
    none = 1.0 if each.scale is Scale.RATIO else 0.0
    return each.low is not None and each.high is not None and (each.low > none or each.high < none)


def is_present(each: FactorEffect | Interaction) -> bool:
    """Return whether a report would call it present: outside the margin too."""
    return each.presence is Presence.PRESENT if isinstance(each, Interaction) else each.verdict in DIFFERENT


def count(records: Sequence[Path]) -> int:
    """Print the rates of false alarms in records, and of detection for an injected interaction."""
    kinds: dict[str, Kind] = {
        name: Kind() for name in ("main effects", "interactions", "index: main effects", "index: interactions")
    }
    planted = {size: (Tally(), Tally(), Tally()) for size in PLANTED}
    blocks: list[int] = []
    for path in records:
        view = load(path)
        analysis = _analysed(view, view.runs)
        blocks.append(analysis.blocks)
        for name, kind in kinds.items():
            kind.add(_of(analysis, name))
        for size, tallies in planted.items():
            _add_planted(view, size, tallies)
    few = f"{min(blocks)}" if min(blocks) == max(blocks) else f"{min(blocks)} to {max(blocks)}"
    print(f"\n{len(records)} experiments with 2 x 2 levels without effect, {few} blocks each.")
    print(
        f"Stated: at most {100 * ALPHA:g} % of rows before correction, and of tables. In brackets Wilson's 95 % interval."
    )
    for name, kind in kinds.items():
        kind.print(name)
    print(f"\nDetection of an injected interaction: slower times of {SLOWED} alone")
    for size, (row, present, index) in planted.items():
        print(f"  {100 * size:3g} %   interval of a workload without 1   {row}")
        print(f"          reported as present                {present}")
        print(f"          interval of the index without 1    {index}")
    return 0


def _of(analysis: Analysis, kind: str) -> list[FactorEffect | Interaction]:
    """Return the findings of one kind."""
    index = kind.startswith("index")
    found: Iterable[FactorEffect | Interaction]
    found = analysis.interactions if kind.endswith("interactions") else [e for e in analysis.effects if not e.held]
    return [each for each in found if bool(each.workload) != index]


def _add_planted(view: RecordView, size: float, tallies: tuple[Tally, Tally, Tally]) -> None:
    """Count detections in wall time if the slowed variant takes longer by a factor."""
    analysis = _analysed(view, [_slowed(run, 1 + size) for run in view.runs])
    rows = [each for each in analysis.interactions if each.metric.name == "wall" and each.workload]
    index = [each for each in analysis.interactions if each.metric.name == "wall" and not each.workload]
    counted: tuple[tuple[list[Interaction], Callable[[Interaction], bool]], ...]
    counted = ((rows, excludes_none), (rows, is_present), (index, excludes_none))
    for tally, (found, condition) in zip(tallies, counted, strict=True):
        tally.add(sum(map(condition, found)), len(found))


def _slowed(run: Run, factor: float) -> Run:
    """Return a run of the slowed variant with increased times; other runs are unchanged."""
    if run.trial.variant != SLOWED:
        return run
    samples = tuple(
        msgspec.structs.replace(sample, values=tuple(value * factor for value in sample.values))
        if sample.metric in ("wall", "cpu")
        else sample
        for sample in run.samples
    )
    return msgspec.structs.replace(run, samples=samples)


def _analysed(view: RecordView, runs: Sequence[Run]) -> Analysis:
    experiment = view.experiment
    if [choice.factor for choice in experiment.factors] != ["left", "right"]:
        raise UserError(f"{view.path} is no record of this benchmark.", "Keep its records with --keep DIR.")
    return analyse(experiment, plan.variants(experiment), workloads_by_name(experiment), runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
