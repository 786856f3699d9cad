"""Sentences that every format of the report prints: the same facts in the same words."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone import published
from swapstone.model import Analysis, Copy, Index, LayoutSpread, Noise, NullResult, Verdict
from swapstone.report import words
from swapstone.report.context import ReportContext
from swapstone.report.view import Agreement, Row, Section, signs, tally

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
    return _METRIC_NAMES.get(name, words.safe(name))


def upper_first(text: str) -> str:
    """Return text with its first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def heading(metric: str) -> str:
    """Return a metric's name as a heading."""
    return upper_first(metric_name(metric))


def effort(context: ReportContext, analysis: Analysis) -> str:
    """Say how much was measured, where and when."""
    repeated = words.count(analysis.blocks, repeats(context))
    text = f"{words.count(analysis.runs, 'run')} in {repeated} on {words.safe(context.experiment.target)}"
    if context.started_unix_ns and context.finished_unix_ns:
        took = words.span(context.finished_unix_ns - context.started_unix_ns)
        text += f", {words.moment(context.started_unix_ns)}, {took}"
    return f"{text}. Margin {words.percent(context.experiment.margin)}, confidence {words.percent(context.experiment.confidence)}."


def noise(seen: Noise) -> str:
    """Say how busy the machine was, and what follows."""

    def known(value: float | None, unit: str) -> str:
        return "unknown" if value is None else words.digits(value, 2) + unit

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
        f"there is over {words.count(analysis.blocks, 'draw')} is the guest's own, and nothing that the host does can touch it."
    )


def index(each: Index, context: ReportContext) -> str:
    """Say what a suite's geometric mean is."""
    where = each.suite if each.load == "idle" else f"{each.suite} under {each.load}"
    text = f"{words.safe(where)}, {metric_name(each.metric)}: {words.safe(each.candidate.short_label)} is {words.ratio(each.effect)} x "
    text += words.safe(each.baseline.short_label)
    if each.low is not None and each.high is not None:
        text += f" ({words.ratio(each.low)} to {words.ratio(each.high)} at {words.percent(each.confidence)})"
    workloads = words.count(each.workloads, "workload")
    unit = "layout" if each.layouts else f"complete {repeats(context)}"
    return f"{text}, geometric mean of {workloads} over {words.count(each.blocks, unit)}"


LAYOUTS_SHOWN = 6
"""So many layout spreads a terminal shows."""


def layouts(analysis: Analysis) -> tuple[LayoutSpread, ...]:
    """Return the layout spreads: those of the same code first, the largest first."""
    return tuple(sorted(analysis.layouts, key=lambda each: (not each.same_code, -each.high / each.low)))


def layout(each: LayoutSpread) -> str:
    """Say how far pairs of links differ."""
    where = words.safe(each.workload) + ("" if each.load == "idle" else f" under {words.safe(each.load)}")
    what = (
        f"two links of the same code, {words.safe(each.baseline.short_label)},"
        if each.same_code
        else f"{words.safe(each.candidate.short_label)} / {words.safe(each.baseline.short_label)}"
    )
    text = (
        f"{where}, {what} in {metric_name(each.metric)}: from {words.ratio(each.low)} to {words.ratio(each.high)} over "
        f"{words.count(each.layouts, 'pair')} of links, a spread of {words.ratio(each.high / each.low)} x"
    )
    if each.expected is None or each.p_value is None or each.deviation is None:
        return f"{text}; each ran once, so that this may be noise"
    return (
        f"{text}; noise alone would make it {words.ratio(each.expected)} x (p {words.digits(each.p_value, 2)}); "
        f"standard deviation between pairs {words.percent(each.deviation)}"
    )


def layouts_note(context: ReportContext) -> str:
    """Say what layouts mean for the numbers."""
    return (
        f"{words.count(context.experiment.layouts, 'link')} of each variant took turns, with functions and data in another order and "
        "another size of environment. Each counts once, as the mean of its runs: the intervals hold for links that were not made, too."
    )


def null(each: NullResult, baseline: str) -> str:
    """Say how often the baseline differs from itself."""
    against = "itself" if each.copy.copy is Copy.AGAIN else f"a copy of itself, {each.copy.copy.value}"
    text = f"{words.safe(baseline)} against {words.safe(against)}: {each.different} of {each.compared} differ"
    return text + (f" ({', '.join(map(words.safe, each.rows))})" if each.rows else "")


def verdicts(rows: Iterable[Row]) -> str:
    """Count verdicts in words."""
    counted = dict(tally(rows))
    return (
        ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in _VERDICT_ORDER if verdict in counted)
        or "nothing compared"
    )


def summary(section: Section) -> str:
    """Sum up the rows that are read first."""
    workloads = len({row.comparison.workload for row in section.rows})
    return f"{words.safe(section.candidate.short_label)} on {words.count(workloads, 'workload')}: {verdicts(section.rows)}."


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
    told = [f"{words.safe(c.workload)} {words.smallest(c)}" for c in open_rows if words.smallest(c)]
    untold = len(open_rows) - len(told)
    parts = [f"Inconclusive, with the smallest change that would have been seen: {', '.join(told)}."] if told else []
    if untold:
        parts.append(f"{words.count(untold, 'row')} with too few runs to say anything of.")
    return " ".join(parts)


def rejected(rows: Iterable[Row]) -> tuple[str, ...]:
    """Name the invalid and unavailable rows with their reasons."""
    return tuple(
        f"{words.safe(row.comparison.workload)}, {metric_name(row.comparison.metric.name)}: {row.comparison.verdict.value}: "
        f"{words.safe(row.comparison.reason) or 'no reason given'}"
        for row in rows
        if row.comparison.verdict in {Verdict.INVALID, Verdict.UNAVAILABLE}
    )
