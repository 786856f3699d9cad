# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sentences about results, for several topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swapstone.core.model import (
    NO_NUMBERS,
    REPORT_CORRECTION,
    WITHOUT_DIRECTION,
    Analysis,
    Comparison,
    Copy,
    FactorLevels,
    Index,
    LayoutSpread,
    Noise,
    NullResult,
    Verdict,
)
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics.comparison_groups import SAME_SIZE, Agreement, ComparisonGroup, Row

_METRIC_NAMES = {"cpu": "CPU time", "wall": "elapsed time"}


def metric_name(name: str) -> str:
    """Return a metric's name for a sentence: ``CPU time`` for ``cpu``."""
    return _METRIC_NAMES.get(name, formatting.safe(name))


def upper_first(text: str) -> str:
    """Return text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def heading(metric: str) -> str:
    """Return a metric's name as a heading. A name without a longer form is not capitalised."""
    return upper_first(_METRIC_NAMES[metric]) if metric in _METRIC_NAMES else metric_name(metric)


SHORT_DIGEST = 16
"""Digits of the record's digest in a sentence: 64 bits, the fewest that `swapstone verify --against` accepts."""


def effort(context: ReportContext, analysis: Analysis) -> str:
    """Return the sentence with runs, target, time, margin and confidence, the levels that are held, and the record's digest."""
    failed = any(side.failed for each in analysis.failure_rates for side in (each.baseline_runs, each.candidate_runs))
    repeated = formatting.count(analysis.blocks, f"complete {repeats(context)}" if failed else repeats(context))
    text = f"{formatting.count(analysis.runs, 'run')} in {repeated} on {formatting.safe(context.experiment.target)}"
    if context.started_unix_ns and context.finished_unix_ns:
        took = formatting.span(context.finished_unix_ns - context.started_unix_ns)
        text += f", {formatting.moment(context.started_unix_ns)}, {took}"
    margin, confidence = map(formatting.percent, (context.experiment.margin, context.experiment.confidence))
    held = ", ".join(FactorLevels(factor=factor, levels=(level,)).text for factor, level in context.experiment.held)
    shared = f" All variants have {formatting.safe(held)}." if held else ""
    seal = f" Seal {context.seal_digest[:SHORT_DIGEST]}." if context.seal_digest else ""
    rate = ""
    if context.experiment.correction == REPORT_CORRECTION and not context.experiment.alone:
        share = formatting.percent(1 - context.experiment.confidence)
        rate = f": at most {share} of reports without any difference contain a mark"
    return f"{text}. Margin {margin}, confidence {confidence}{rate}.{shared}{seal}"


def noise(measured: Noise, rows: Iterable[Comparison] = ()) -> str:
    """Return the sentence about pressure, stolen time and load, and on a busy machine which time of these rows to read first."""

    def known(value: float | None, unit: str = " %") -> str:
        return "unknown" if value is None else formatting.digits(value, 2) + unit

    if measured.cpu_pressure_percent is None and measured.steal_percent is None and measured.load1 is None:
        return "What else the machine did is unknown: pressure, stolen time and load were not recorded."
    peak = measured.cpu_pressure_max_percent
    most = "" if peak is None else f" (at most {known(peak)})"
    text = (
        f"CPU pressure {known(measured.cpu_pressure_percent)}{most}, stolen time {known(measured.steal_percent)}, "
        f"load {known(measured.load1, '')}"
    )
    return f"Busy machine: {text}. {_read_first(rows)}".rstrip() if measured.busy else f"Quiet machine: {text}."


def _read_first(rows: Iterable[Comparison]) -> str:
    """Return which time to read first, as `Comparison.preferred` has it; empty without a preferred time."""
    preferred = {row.metric.name for row in rows if row.preferred}
    if preferred >= {"cpu", "wall"}:
        return "Read CPU time first, and elapsed time of work that waits."
    texts = {"cpu": "Read CPU time first.", "wall": "Read elapsed time first."}
    return texts.get(next(iter(preferred)), "") if len(preferred) == 1 else ""


def repeats(context: ReportContext) -> str:
    """Return the unit of repetition: ``replicate`` on the virtual clock, else ``block``."""
    return "replicate" if context.experiment.virtual else "block"


def machine(context: ReportContext, analysis: Analysis) -> str:
    """Return the sentence about the machine's noise, or about the virtual clock, which has none."""
    if not context.experiment.virtual:
        return noise(analysis.noise, analysis.comparisons)
    return (
        "Virtual clock: each figure is exact for its replicate. A replicate starts at another phase of the guest's ticks and timers. The "
        f"spread over {formatting.count(analysis.blocks, 'replicate')} comes from the guest; load on the host has no effect on it."
    )


def index(each: Index, context: ReportContext) -> str:
    """Return the sentence about a suite's index, without a full stop."""
    where = each.suite if each.load == "idle" else f"{each.suite} under {each.load}"
    candidate, baseline = formatting.safe(each.candidate.short_label), formatting.safe(each.baseline.short_label)
    exact = each.confidence == 1
    ratio = formatting.exact_effect if exact else formatting.ratio
    joint = "differs by {} from" if exact else "is {} x"
    text = f"{formatting.safe(where)}, {metric_name(each.metric)}: {candidate} {joint.format(ratio(each.effect))} {baseline}"
    if each.low is not None and each.high is not None:
        level = "" if exact else f" at {formatting.percent(each.confidence)}"
        text += f" ({ratio(each.low)} to {ratio(each.high)}{level})"
    else:
        text += " (no interval)"
    if each.median_effect is not None:
        known = each.median_low is not None and each.median_high is not None
        bounds = (
            f" ({formatting.ratio(each.median_low or 0)} to {formatting.ratio(each.median_high or 0)})" if known else ""
        )
        text += f", of medians {formatting.ratio(each.median_effect)}{bounds}"
    if each.reason:
        text += ", so no direction is stated"
    workloads = formatting.count(each.workloads, "workload")
    unit = "layout" if each.layouts else f"{'' if each.incomplete else 'complete '}{repeats(context)}"
    blocks = formatting.count(each.blocks, unit)
    over = f"the means of {workloads}, of {blocks} or more each" if each.incomplete else f"{workloads} over {blocks}"
    return f"{text}, geometric mean of {over}"


def layout(each: LayoutSpread) -> str:
    """Return the sentence about the spread between pairs of links, without a full stop."""
    where = formatting.safe(each.workload) + ("" if each.load == "idle" else f" under {formatting.safe(each.load)}")
    what = (
        f"two links of the same code, {formatting.safe(each.baseline.short_label)},"
        if each.same_code
        else f"{formatting.safe(each.candidate.short_label)} / {formatting.safe(each.baseline.short_label)}"
    )
    text = (
        f"{where}, {what} in {metric_name(each.metric)}: from {formatting.ratio(each.low)} to {formatting.ratio(each.high)} over "
        f"{formatting.count(each.layouts, 'pair')} of links, a spread of {formatting.ratio(each.high / each.low)} x"
    )
    if each.expected is None or each.p_value is None or each.deviation is None:
        return f"{text}; each pair ran once, so this may be noise"
    return (
        f"{text}; from noise alone it would be {formatting.ratio(each.expected)} x (p {formatting.digits(each.p_value, 2)}); "
        f"standard deviation between pairs {formatting.percent(each.deviation)}"
    )


def layouts_note(context: ReportContext) -> str:
    """Return the sentences that explain layouts."""
    return (
        f"Each variant was linked {formatting.count(context.experiment.layouts, 'time')}, with functions and data in another order and an "
        "environment of another size. The links ran in turns. Each counts once, as the mean of its runs, so the intervals include the "
        "effect of the link."
    )


def null(each: NullResult, analysis: Analysis) -> str:
    """Return the sentence about the differences between the baseline and a copy of it, without a full stop."""
    baseline = analysis.comparisons[0].baseline.shown_label if analysis.comparisons else "the baseline"
    against = "itself" if each.copy.copy is Copy.AGAIN else f"a copy of itself, {each.copy.copy.value}"
    text = f"{formatting.safe(baseline)} against {formatting.safe(against)}: {each.different} of {each.compared} differ"
    return text + (f" ({', '.join(map(formatting.safe, each.rows))})" if each.rows else "")


def verdicts(rows: Iterable[Row]) -> str:
    """Return how many rows have each verdict, e.g. ``3 better, 1 worse``."""
    counted = Counter(row.comparison.verdict for row in rows)
    return ", ".join(f"{counted[each]} {each.value}" for each in Verdict if counted[each]) or "nothing compared"


def summary(group: ComparisonGroup) -> str:
    """Return the sentence that counts the verdicts of the rows to read first."""
    workloads = len({row.comparison.workload for row in group.rows})
    return f"{formatting.safe(group.candidate.short_label)} on {formatting.count(workloads, 'workload')}: {verdicts(group.rows)}."


def against_page(rows: tuple[Row, ...]) -> str:
    """Return the sentence that counts agreements with the published page, in sign and in size."""
    counted = Counter(row.agreement for row in rows)
    agreeing = counted[Agreement.AGREES]
    text = (
        f"signs agree with the page in {agreeing} of {agreeing + counted[Agreement.DISAGREES]} rows where both have one"
    )
    if agreeing:
        alike = agreeing - sum(bool(row.another_size) for row in rows)
        text += f", and sizes (within a factor of {SAME_SIZE}) in {alike}"
    rest = [
        (Agreement.SAME_PUBLISHED, "the published difference is inside the margin"),
        (Agreement.SAME_HERE, "the median here is the same within the margin"),
        (Agreement.UNDECIDED, "the result here is undecided"),
    ]
    more = [f"in {counted[kind]} {why}" for kind, why in rest if kind in counted]
    return f"{'; '.join([text, *more])}."


def undecided(rows: Iterable[Row]) -> list[str]:
    """Return a paragraph about inconclusive rows, each with its smallest detectable change; none without such rows.

    Rows with too few pairs for that are counted.
    """
    open_rows = [row.comparison for row in rows if row.comparison.verdict is Verdict.INCONCLUSIVE]
    known = [f"{formatting.safe(c.workload)} {formatting.smallest(c)}" for c in open_rows if formatting.smallest(c)]
    uncounted = len(open_rows) - len(known)
    parts = [f"Inconclusive, with the smallest detectable change: {', '.join(known)}."] if known else []
    if uncounted:
        parts.append(f"{formatting.count(uncounted, 'row')} with too few runs for an interval.")
    return [" ".join(parts)] if parts else []


def rejected(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return a sentence with the reason for each row without a result, with a mixed one, or whose direction is withheld."""
    return tuple(
        f"{formatting.safe(row.comparison.workload)}, {metric_name(row.comparison.metric.name)}: {row.comparison.verdict.value}: "
        f"{formatting.safe(row.comparison.reason) or 'no reason given'}"
        for row in rows
        if row.comparison.verdict in {*NO_NUMBERS, Verdict.MIXED} or row.comparison.reason.startswith(WITHOUT_DIRECTION)
    )
