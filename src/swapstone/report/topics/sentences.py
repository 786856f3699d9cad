"""Sentences that every format of the report prints: the same facts in the same formatting."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone import published
from swapstone.model import Analysis, Copy, Index, LayoutSpread, Noise, NullResult, Verdict
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.topics.comparison_groups import Agreement, ComparisonGroup, Row, signs, tally

_METRIC_NAMES = {"cpu": "CPU time", "wall": "elapsed time"}
_VERDICT_ORDER = (
    Verdict.BETTER,
    Verdict.WORSE,
    Verdict.CHANGED,
    Verdict.EQUIVALENT,
    Verdict.INCONCLUSIVE,
    Verdict.INVALID,
    Verdict.UNAVAILABLE,
)


def metric_name(name: str) -> str:
    """Return a metric's name as a reader would say it."""
    return _METRIC_NAMES.get(name, formatting.safe(name))


def upper_first(text: str) -> str:
    """Return text with its first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def heading(metric: str) -> str:
    """Return a metric's name as a heading. A name that users type stays as it is."""
    return upper_first(_METRIC_NAMES[metric]) if metric in _METRIC_NAMES else metric_name(metric)


def effort(context: ReportContext, analysis: Analysis) -> str:
    """Say how much was measured, where and when."""
    repeated = formatting.count(analysis.blocks, repeats(context))
    text = f"{formatting.count(analysis.runs, 'run')} in {repeated} on {formatting.safe(context.experiment.target)}"
    if context.started_unix_ns and context.finished_unix_ns:
        took = formatting.span(context.finished_unix_ns - context.started_unix_ns)
        text += f", {formatting.moment(context.started_unix_ns)}, {took}"
    margin, confidence = map(formatting.percent, (context.experiment.margin, context.experiment.confidence))
    return f"{text}. Margin {margin}, confidence {confidence}."


def noise(seen: Noise) -> str:
    """Say how busy the machine was, and what follows."""

    def known(value: float | None, unit: str) -> str:
        return "unknown" if value is None else formatting.digits(value, 2) + unit

    most = "" if seen.cpu_pressure_max_percent is None else f" (at most {known(seen.cpu_pressure_max_percent, ' %')})"
    text = (
        f"CPU pressure {known(seen.cpu_pressure_percent, ' %')}{most}, stolen time {known(seen.steal_percent, ' %')}, "
        f"load {known(seen.load1, '')}"
    )
    return f"Busy machine: {text}. CPU time leads." if seen.busy else f"Quiet machine: {text}."


def repeats(context: ReportContext) -> str:
    """Return what repeats a trial: ``draw`` on the virtual clock, else ``block``."""
    return "draw" if context.experiment.virtual else "block"


def machine(context: ReportContext, analysis: Analysis) -> str:
    """Say how busy the machine was; on the virtual clock, why that doesn't matter."""
    if not context.experiment.virtual:
        return noise(analysis.noise)
    return (
        "Virtual clock: each figure is exact for its draw. A draw starts at another moment of the guest's ticks and timers; what spread "
        f"there is over {formatting.count(analysis.blocks, 'draw')} is the guest's own, and nothing that the host does can touch it."
    )


def index(each: Index, context: ReportContext) -> str:
    """Say what a suite's geometric mean is."""
    where = each.suite if each.load == "idle" else f"{each.suite} under {each.load}"
    candidate, baseline = formatting.safe(each.candidate.short_label), formatting.safe(each.baseline.short_label)
    text = f"{formatting.safe(where)}, {metric_name(each.metric)}: {candidate} is {formatting.ratio(each.effect)} x {baseline}"
    if each.low is not None and each.high is not None:
        text += (
            f" ({formatting.ratio(each.low)} to {formatting.ratio(each.high)} at {formatting.percent(each.confidence)})"
        )
    workloads = formatting.count(each.workloads, "workload")
    unit = "layout" if each.layouts else f"complete {repeats(context)}"
    return f"{text}, geometric mean of {workloads} over {formatting.count(each.blocks, unit)}"


LAYOUTS_SHOWN = 6
"""So many layout spreads a terminal shows."""


def layouts(analysis: Analysis) -> tuple[LayoutSpread, ...]:
    """Return the layout spreads: those of the same code first, the largest first."""
    return tuple(sorted(analysis.layouts, key=lambda each: (not each.same_code, -each.high / each.low)))


def layout(each: LayoutSpread) -> str:
    """Say how far pairs of links differ."""
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
        return f"{text}; each ran once, so that this may be noise"
    return (
        f"{text}; noise alone would make it {formatting.ratio(each.expected)} x (p {formatting.digits(each.p_value, 2)}); "
        f"standard deviation between pairs {formatting.percent(each.deviation)}"
    )


def layouts_note(context: ReportContext) -> str:
    """Say what layouts mean for the numbers."""
    return (
        f"{formatting.count(context.experiment.layouts, 'link')} of each variant took turns, with functions and data in another order and "
        "another size of environment. Each counts once, as the mean of its runs: the intervals hold for links that were not made, too."
    )


def null(each: NullResult, baseline: str) -> str:
    """Say how often the baseline differs from itself."""
    against = "itself" if each.copy.copy is Copy.AGAIN else f"a copy of itself, {each.copy.copy.value}"
    text = f"{formatting.safe(baseline)} against {formatting.safe(against)}: {each.different} of {each.compared} differ"
    return text + (f" ({', '.join(map(formatting.safe, each.rows))})" if each.rows else "")


def verdicts(rows: Iterable[Row]) -> str:
    """Count verdicts in formatting."""
    counted = dict(tally(rows))
    return (
        ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in _VERDICT_ORDER if verdict in counted)
        or "nothing compared"
    )


def summary(group: ComparisonGroup) -> str:
    """Sum up the rows that are read first."""
    workloads = len({row.comparison.workload for row in group.rows})
    return f"{formatting.safe(group.candidate.short_label)} on {formatting.count(workloads, 'workload')}: {verdicts(group.rows)}."


def against_page(rows: tuple[Row, ...]) -> str:
    """Count how often the signs agree with the published page."""
    counted = dict(signs(rows))
    signed = counted.get(Agreement.AGREES, 0) + counted.get(Agreement.DISAGREES, 0)
    text = f"signs agree with the page in {counted.get(Agreement.AGREES, 0)} of {signed} rows where both have one"
    rest = [
        (Agreement.SAME_PUBLISHED, "the page's own difference is inside the margin"),
        (Agreement.SAME_HERE, "there is no difference here"),
        (Agreement.UNDECIDED, "ours is undecided"),
    ]
    more = [f"in {counted[kind]} {why}" for kind, why in rest if kind in counted]
    return f"{'; '.join([text, *more])}."


def page(study: str) -> str:
    """Name the published page."""
    about = published.study(study)
    (source,) = (each for each in published.sources() if each.name == about.source)
    platforms = sorted({figure.platform for figure in published.figures(study)})
    return f"{source.title}. {source.project}; measured on {'; '.join(platforms)}."


def undecided(rows: Iterable[Row]) -> str:
    """Name the rows without a decision, with the smallest change that they would have shown; empty when there are none.

    Rows with too few pairs to tell that are only counted.
    """
    open_rows = [row.comparison for row in rows if row.comparison.verdict is Verdict.INCONCLUSIVE]
    told = [f"{formatting.safe(c.workload)} {formatting.smallest(c)}" for c in open_rows if formatting.smallest(c)]
    untold = len(open_rows) - len(told)
    parts = [f"Inconclusive, with the smallest change that would have been seen: {', '.join(told)}."] if told else []
    if untold:
        parts.append(f"{formatting.count(untold, 'row')} with too few runs to say anything of.")
    return " ".join(parts)


def rejected(rows: Iterable[Row]) -> tuple[str, ...]:
    """Name the invalid and unavailable rows with their reasons."""
    return tuple(
        f"{formatting.safe(row.comparison.workload)}, {metric_name(row.comparison.metric.name)}: {row.comparison.verdict.value}: "
        f"{formatting.safe(row.comparison.reason) or 'no reason given'}"
        for row in rows
        if row.comparison.verdict in {Verdict.INVALID, Verdict.UNAVAILABLE}
    )
