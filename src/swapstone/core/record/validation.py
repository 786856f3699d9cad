# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check what the decoded files of a record mean, beyond the types of their fields.

Each check returns a clause, e.g. ``its confidence is 1``, or an empty text. It keeps an untrusted record from costing more time or
memory than the largest experiment that this program makes, and from reaching arithmetic that has no result for its values.
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from swapstone.core.model import (
    BALANCED_ORDER,
    BEFORE,
    BOOT_ORDER,
    CLOCK_SCALES,
    COMMAND,
    CURRENT_RULES,
    FAMILY_CORRECTION,
    MOST_PROCESSORS,
    NOW,
    RANDOM_ORDER,
    REPORT_CORRECTION,
    SESSION,
    VIRTUAL_CLOCK,
    WALL_CLOCK,
    Copy,
    Experiment,
    FrozenStruct,
    OwnProgram,
    Run,
    UserError,
    Variant,
    merged,
)
from swapstone.core.model.frozen_struct import LARGEST_NUMBER, LONGEST_NAME, LONGEST_TEXT, MOST_BLOCKS, SMALLEST_NUMBER
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import record_format
from swapstone.core.record.files import limit_of
from swapstone.core.record.origin import file_bytes

MOST_VARIANTS = 1024
MOST_TRIALS = 100_000
"""Of one block, without discarded runs: workloads, times loads, times variants."""

MOST_COMBINATIONS = 10_000
"""Of the values of an own program's parameters, times its load generators: ten times what `swapstone compare` accepts."""

MOST_NUMBERS = 1000
"""Of an own program: an analysis has a column for each."""

MOST_LABEL_CHARACTERS = 1 << 20
"""Of all variants' labels together."""

MOST_LAYOUTS = 1000
MOST_IDENTITY_BYTES = 4096
"""Of `record.json` without its description."""
MOST_DISCARDED = 1000
LOWEST_CONFIDENCE, HIGHEST_CONFIDENCE = 0.01, 0.999999
SMALLEST_MARGIN = 1e-12
LONGEST_PATTERN = 10_000
_LARGEST_SEED = 1 << 64
_CREATED = re.compile(r"[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:\+00:00|Z)", re.ASCII)
_STATES = frozenset({"complete", "interrupted"})
_MOST_PASSES = 10_000_000


def meta_problem(meta: record_format.Meta) -> str:
    """Return what is wrong with the header of a record; empty if nothing is."""
    if problem := _values_problem(meta) or _metrics_problem(meta.description):
        return problem
    if _CREATED.fullmatch(meta.created):
        try:
            datetime.datetime.fromisoformat(meta.created)
        except ValueError:
            pass
        else:
            return ""
    return f"its time of creation, {safe_excerpt(meta.created, 40)!r}, is no time in UTC"


def _metrics_problem(description: record_format.Description | None) -> str:
    """Return what is wrong with the metrics of a description by themselves; empty if nothing is."""
    if description is None:
        return ""
    names = [metric.name for metric in description.metrics]
    for each in description.works:
        if any(place >= len(names) for place in each.metrics):
            return f"the workload {safe_excerpt(each.name, 60)} has a metric that is not described"
        if twice := _twice(names[place] for place in each.metrics):
            return f"the metric {twice} of the workload {safe_excerpt(each.name, 60)} occurs twice"
    if twice := _twice((each.suite, each.name) for each in description.works):
        return f"the workload {twice} is described twice"
    if any(metric.resolution < 0 for metric in (*description.metrics, *description.sizes)):
        return "the resolution of a metric is negative"
    return ""


def description_problem(description: record_format.Description, experiment: Experiment) -> str:
    """Return which workload of an experiment a description lacks, as a clause; empty if it lacks none."""
    described = {(each.suite, each.name): each for each in description.works}
    for suite, name in experiment.workloads:
        if not (described.get((suite, name)) and described[suite, name].metrics):
            return f"it does not describe the workload {safe_excerpt(f'{suite}/{name}', 100)}, or no metric of it"
    return ""


def seal_problem(seal: record_format.Seal) -> str:
    """Return what is wrong with a seal; empty if nothing is."""
    if problem := _values_problem(seal):
        return problem
    state = f"its state, {safe_excerpt(seal.state, 40)!r}, is neither complete nor interrupted"
    negative = seal.runs < 0 or seal.sessions < 1 or seal.sealed_unix_ns < 0
    return state if seal.state not in _STATES else "it has a negative number, or no session" if negative else ""


def manifest_problem(manifest: record_format.Manifest) -> str:
    """Return what is wrong with a manifest; empty if nothing is. Its numbers and texts are bounded by the decoder."""
    return passes_problem(manifest.passes)


def passes_problem(calibrated: Iterable[tuple[str, str, int]]) -> str:
    """Return what is wrong with triples (suite, workload, number of passes); empty if nothing is."""
    if any(not 0 < passes <= _MOST_PASSES for _, _, passes in calibrated):
        return f"a number of passes is not between 1 and {_MOST_PASSES}"
    return ""


def experiment_problem(experiment: Experiment) -> str:
    """Return what is wrong with an experiment; empty if nothing is."""
    return next((problem for problem in _experiment_problems(experiment) if problem), "")


def require_readable(experiment: Experiment, description: record_format.Description | None = None) -> None:
    """Check, before anything runs, that the experiment and its description could be read back from their record.

    Raises:
        UserError: it is larger than what is read, or has a value that is refused.
    """
    problem = experiment_problem(experiment)
    size, most = len(file_bytes(experiment)), limit_of(record_format.EXPERIMENT)
    if not problem and size > most:
        problem = f"its description has {size} bytes, more than the {most} that are read"
    if not problem and description is not None:
        problem = _metrics_problem(description) or description_problem(description, experiment)
        size, most = len(file_bytes(description)) + MOST_IDENTITY_BYTES, limit_of(record_format.META)
        if not problem and size > most:
            problem = f"the description of its workloads has {size} bytes, more than the {most} that are read"
    if problem:
        raise UserError(
            f"This experiment could not be read back from its record: {problem}.",
            "Choose fewer or shorter levels, workloads, parameters or options. Nothing was run.",
        )


def _experiment_problems(experiment: Experiment) -> Iterator[str]:
    yield _values_problem(experiment)
    rules = experiment.rules
    if rules > CURRENT_RULES:
        yield f"it follows the rules {rules}, and this version of Swapstone has rules up to {CURRENT_RULES}"
    for what, word, known in (
        ("clock", experiment.clock, (WALL_CLOCK, VIRTUAL_CLOCK)),
        ("correction", experiment.correction, (REPORT_CORRECTION, FAMILY_CORRECTION)),
        ("order", experiment.order, (RANDOM_ORDER, BALANCED_ORDER, BOOT_ORDER)),
    ):
        if word not in known:
            yield f"its {what}, {safe_excerpt(word, 40)!r}, is none of {', '.join(known)}"
    for what, value, low, high in (
        ("rules", rules, 1, CURRENT_RULES),
        ("confidence", experiment.confidence, LOWEST_CONFIDENCE, HIGHEST_CONFIDENCE),
        ("margin", experiment.margin, SMALLEST_MARGIN, 1),
        ("budget", experiment.budget_ns, 0, (1 << 63) - 1),
        ("blocks", experiment.blocks, 0, MOST_BLOCKS),
        ("processors", experiment.processors, 1, MOST_PROCESSORS),
        ("layouts", experiment.layouts, 0, MOST_LAYOUTS),
        ("prime", experiment.prime, 0, MOST_DISCARDED),
    ):
        if not low <= value <= high:
            yield f"its {what} is {value:g}, not between {low:g} and {high:g}"
    if experiment.ns_per_instruction not in CLOCK_SCALES:
        yield f"its time of an instruction is {experiment.ns_per_instruction} ns, which the virtual clock can't count"
    yield _plan_problem(experiment)
    if experiment.own is not None:
        yield from _own_problems(experiment, experiment.own)


def _plan_problem(experiment: Experiment) -> str:
    """Return what is wrong with factors, workloads and loads: before any combination is built, how many there would be."""
    factors = experiment.factors
    if not factors or not experiment.workloads or not experiment.loads:
        return "it has no factor, no workload or no load"
    for what, names in (
        ("factor", [*(choice.factor for choice in factors), *(name for name, _ in experiment.held)]),
        ("workload", experiment.workloads),
        ("load", experiment.loads),
    ):
        if twice := _twice(names):
            return f"the {what} {twice} occurs twice"
    for choice in factors:
        if not choice.levels:
            return f"the factor {safe_excerpt(choice.factor, 60)} has no level"
        if twice := _twice(choice.levels):
            return f"the factor {safe_excerpt(choice.factor, 60)} has the level {twice} twice"
    texts = itertools.chain(
        *((choice.factor, *choice.levels) for choice in factors), *experiment.workloads, experiment.loads
    )
    if any(len(text) > LONGEST_NAME for text in texts):
        return f"a name has more than {LONGEST_NAME} characters"
    if any(choice.factor == SESSION for choice in factors) and not (
        experiment.own and (experiment.alone or experiment.earlier)
    ):
        return (
            f"the factor {SESSION} has other levels than {BEFORE} and {NOW}, or is not the only one of an own program"
        )
    # A float: an integer may be too long to print.
    variants = math.prod((len(choice.levels) for choice in factors), start=1.0)
    if variants > MOST_VARIANTS:
        return f"it has {variants:.0f} variants, more than the {MOST_VARIANTS} that are read"
    trials = variants * len(experiment.workloads) * len(experiment.loads)
    if trials > MOST_TRIALS:
        return f"a block of it has {trials:.0f} trials, more than the {MOST_TRIALS} that are read"
    labels = labels_of(experiment)
    if sum(map(len, labels)) > MOST_LABEL_CHARACTERS or max(map(len, labels)) > LONGEST_NAME:
        return "the names of its variants are too long together"
    if len(set(labels)) < len(labels):
        return "two of its variants have the same name"
    return ""


def labels_of(experiment: Experiment) -> list[str]:
    """Return the labels of all variants, and of the copies that nulls add: `swapstone.core.plan.variants` without their order."""
    names = [choice.factor for choice in experiment.factors]
    combinations = itertools.product(*(choice.levels for choice in experiment.factors))
    variants = [Variant(levels=tuple(zip(names, levels, strict=True))) for levels in combinations]
    copies = [msgspec.structs.replace(variants[0], copy=copy) for copy in Copy if copy is not Copy.FIRST]
    return [each.label for each in (*variants, *(copies if experiment.null else ()))]


def _own_problems(experiment: Experiment, own: OwnProgram) -> Iterator[str]:
    combinations = math.prod((len(values) for _, values in own.parameters), start=max(1.0, len(own.load_generators)))
    levels = {choice.factor: choice.levels for choice in experiment.factors}
    names = {line.name for line in own.commands}
    twice, metric = _twice(name for name, _ in own.parameters), _twice(number.metric.name for number in own.numbers)
    empty = any(not line.words for line in own.commands) or any(not each.command for each in own.load_generators)
    problems = (
        (
            not 0 < combinations <= MOST_COMBINATIONS,
            f"its parameters have {combinations:.0f} combinations of values, not between 1 and {MOST_COMBINATIONS}",
        ),
        (twice, f"the parameter {twice} occurs twice"),
        (
            len(own.numbers) > MOST_NUMBERS,
            f"its own program has {len(own.numbers)} metrics, more than the {MOST_NUMBERS} that are read",
        ),
        (not own.arguments and not own.commands and not own.programs, "its own program has no command"),
        (empty, "a command line of its own program is empty"),
        (
            len(own.commands) > 1 and not names.issuperset(levels.get(COMMAND, (None,))),
            f"its own program has no command line for a level of the factor {COMMAND}",
        ),
        (own.timeout_ms < 1 or own.build_timeout_ms < 1, "a time limit of its own program is not above 0"),
        (metric, f"the metric {metric} of its own program occurs twice"),
    )
    yield from (problem for wrong, problem in problems if wrong)
    for number in own.numbers:
        yield _pattern_problem(number.pattern, groups=1)
    for each in own.load_generators:
        if min(each.connections, each.warm_ms, each.ready_ms, each.drain_ms, each.stop_ms) < 0:
            yield "a load generator has a negative number"
        if each.reader.startswith("regex:"):
            yield _pattern_problem(each.reader.removeprefix("regex:"))


def _pattern_problem(pattern: str, groups: int | None = None) -> str:
    """Return what is wrong with a regular expression; empty if it is valid and has so many groups."""
    if len(pattern) > LONGEST_PATTERN:
        return f"a regular expression has more than {LONGEST_PATTERN} characters"
    try:
        found = re.compile(pattern, re.MULTILINE).groups
    except (re.error, OverflowError, RecursionError) as error:
        return f"{safe_excerpt(pattern, 60)!r} is no regular expression: {safe_excerpt(str(error), 100)}"
    if groups is not None and found != groups:
        return f"the regular expression {safe_excerpt(pattern, 60)!r} has {found} groups, not {groups}"
    return ""


def run_check(experiment: Experiment) -> Callable[[Run], str]:
    """Return a check of runs: that they are of an experiment, and that their values can be computed with. A record has many runs.

    Args:
        experiment: without a problem.

    Returns:
        A function that returns what is wrong with a run, a clause about its line; empty if nothing is.
    """
    workloads = frozenset(experiment.workloads)
    loads, labels = (frozenset((name,) for name in names) for names in (experiment.loads, labels_of(experiment)))

    def problem(run: Run) -> str:
        trial = run.trial
        for what, name, known in (
            ("workload", (trial.suite, trial.workload), workloads),
            ("load", (trial.load,), loads),
            ("variant", (trial.variant,), labels),
        ):
            if name not in known:
                return (
                    f"it is a run of the {what} {safe_excerpt('/'.join(name), 100)}, which the experiment does not have"
                )
        for sample in run.samples:
            # Values above 0, as almost all are, need one comparison; the decoder has checked their upper bound. Counters may be all 0.
            values = sample.values
            if values and min(values) < SMALLEST_NUMBER and any(values) and _too_small(values):
                return f"a value of {safe_excerpt(sample.metric, 60)} is too close to 0"
        if len({len(each.values) for each in run.series}) > 1:
            return "its series are not equally long"
        if run.histogram and not _ascending(run.histogram):
            return "its histogram is not ascending"
        if run.by_processor:
            return _processors_problem(run)
        return ""

    return problem


def _too_small(values: Iterable[float]) -> bool:
    return any(0 < abs(value) < SMALLEST_NUMBER for value in set(values))  # counters have few different values


def _processors_problem(run: Run) -> str:
    """Return what is wrong with the histograms of the processors; empty if nothing is."""
    numbers = [number for number, _ in run.by_processor]
    if numbers != sorted(set(numbers)) or len(numbers) > MOST_PROCESSORS or numbers[-1] >= MOST_PROCESSORS:
        return "the processors of its histograms are not ascending"
    if not all(_ascending(histogram) for _, histogram in run.by_processor):
        return "the histogram of a processor is not ascending"
    whole = merged(histogram for _, histogram in run.by_processor)
    return "" if whole == run.histogram else "its histogram is not the sum of its processors'"


def _ascending(histogram: tuple[tuple[int, int], ...]) -> bool:
    edges = [edge for edge, _ in histogram]
    return all(low < high for low, high in itertools.pairwise(edges))


def _twice(names: Iterable[object]) -> str:
    """Return the first name that occurs twice, for a message; empty if none does."""
    seen: set[object] = set()
    for name in names:
        if name in seen:
            return safe_excerpt("/".join(name) if isinstance(name, tuple) else str(name), 60)
        seen.add(name)
    return ""


def _values_problem(noun: FrozenStruct) -> str:
    """Return which value of a noun is out of bounds: a number that arithmetic can't use, or a text that no command line can hold."""
    waiting: list[object] = [msgspec.to_builtins(noun)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if len(value) > LONGEST_TEXT:
                return f"a text has more than {LONGEST_TEXT} characters"
            if "\0" in value:
                return "a text has a null character"
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, int) and not -_LARGEST_SEED < value < _LARGEST_SEED:
            return "an integer has more than 64 bits"
        elif isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:
            return f"a number is larger than {LARGEST_NUMBER:g}"
    return ""
