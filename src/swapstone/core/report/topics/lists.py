# SPDX-License-Identifier: MIT OR Apache-2.0
"""Topics that are a list: copies of the baseline, links of the same code, trials without numbers, and the environment's facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from swapstone.core.model import Analysis, FailureCounts, FailureRates, Status, Variant, grouped, named_first
from swapstone.core.report import formatting
from swapstone.core.report.answer.limits import share, shown
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import BulletList, Facts, Item, Paragraph, Section
from swapstone.core.report.tables import Field, section_of
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.factorial_tables import is_crossed
from swapstone.core.report.topics.topic import Topic


def _section(
    title: str, items: Iterable[Item], *, note: str = "", most: int = 0, rest: str = "more"
) -> tuple[Section, ...]:
    """Return a section with a list below a note; none without items. A brief report prints `most` of them, 0 for all."""
    found = BulletList(items=tuple(items), most=most, rest=rest)
    return (Section(title=title, blocks=(*((Paragraph(note),) if note else ()), found)),) if found.items else ()


def null_results(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return how often the baseline differs from copies of itself; nothing of an experiment without copies."""
    return _section(
        "The baseline against itself",
        (
            Item(
                f"{sentences.null(each, analysis)}.",
                items=tuple(f"Index {sentences.index(index, context)}." for index in each.index),
            )
            for each in analysis.nulls
        ),
        note="The baseline took part again in the same experiment. A difference here is a false alarm.",
    )


def link_layouts(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return how far links of the same code differ, the largest spread first; nothing of an experiment without layouts."""
    spreads = sorted(analysis.layouts, key=lambda each: (not each.same_code, -each.high / each.low))
    return _section(
        "Layouts: other links of the same code",
        (Item(f"{sentences.layout(each)}.") for each in spreads),
        note=sentences.layouts_note(context),
        most=6,
        rest="that differ less",
    )


def failed_trials(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the trials without numbers, with their reasons; nothing where each trial has some."""
    # With crossed factors, unavailable ones are named below the matrices.
    gone = Status.UNAVAILABLE.value if is_crossed(analysis) and not context.selection.every else ""
    found = [each for each in analysis.failures if each.status != gone]
    return _section(
        f"{formatting.count(len(found), 'trial')} gave no numbers",
        (Item(f"{each.status}: {each.reason}", label=each.key, code=True) for each in found),
        most=5,
    )


def environment(context: ReportContext, _analysis: Analysis) -> tuple[Section, ...]:
    """Return the machine, the tools and the programs of an experiment; nothing without facts. A brief report leaves it out."""
    seal = (("digest of the record", context.seal_digest),) if context.seal_digest else ()
    facts = Facts(pairs=(*context.facts, *seal))
    return (Section(title="Environment", blocks=(facts,), brief=False),) if facts.pairs else ()


NULL_RESULTS = Topic("null-results", 170, null_results, selective=True)
LINK_LAYOUTS = Topic("link-layouts", 180, link_layouts, selective=True)
FAILED_TRIALS = Topic("failed-trials", 200, failed_trials, selective=True)
ENVIRONMENT = Topic("environment", 220, environment)


NAME = "failure-rates"

_KINDS = (("timed out", "timed_out"), ("crashed", "crashed"), ("otherwise", "others"), ("refused", "refused"))
_Row = tuple[FailureRates, Variant, FailureCounts]


def sections(_context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section with a row for each variant of each workload that has failed or refused runs; none where no run failed."""
    found = shown(analysis)
    if not found:
        return ()
    confidence = formatting.percent(found[0].confidence)
    return (
        section_of(
            NAME,
            "Failure rates",
            (
                Field("workload", "", lambda row: formatting.place(row[0].workload, row[0].load), right=False),
                Field("variant", "", lambda row: row[1].short_label, right=False),
                Field("", "suite", lambda row: row[0].suite),
                Field("", "workload", lambda row: row[0].workload),
                Field("", "load", lambda row: row[0].load),
                Field("", "variant", lambda row: row[1].label),
                _count("runs", "runs"),
                _count("failed", "failed"),
                Field("share (interval)", "", lambda row: share(row[2]), right=False),
                *(_count("", name) for name in ("share", "low", "high")),
                *(_count(head, name, lambda count: str(count or "")) for head, name in _KINDS),
                Field("", "p_value", lambda row: row[0].p_value if row[1] is row[0].candidate else None),
                Field("", "fails_more", lambda row: row[0].fails_more if row[1] is row[0].candidate else ""),
            ),
            _sides(found),
            keys=2,
            notes=(
                f"All runs count, with the warm-up and those that are discarded. Intervals: {confidence}, not corrected. "
                "Refused runs are no failures.",
                *_tests(found),
            ),
        ),
    )


def _count(head: str, name: str, show: Callable[[int], str] = str) -> Field[_Row]:
    return Field(head, name, lambda row: getattr(row[2], name), show)


def _sides(found: Sequence[FailureRates]) -> Iterator[_Row]:
    """Yield each variant with its counts, the baseline of a workload once."""
    for of_place in grouped(found, lambda each: (each.suite, each.workload, each.load)).values():
        yield of_place[0], of_place[0].baseline, of_place[0].baseline_runs
        yield from ((each, each.candidate, each.candidate_runs) for each in of_place)


def _tests(found: Sequence[FailureRates]) -> Iterator[str]:
    """Yield sentences about the tests of equal rates: one for each that rejects, and one for all others."""
    tested = []
    for each in found:
        where, p_value = formatting.safe(formatting.place(each.workload, each.load)), formatting.digits(each.p_value, 2)
        if each.fails_more:
            variants = (each.candidate, each.baseline)
            more, less = variants if each.fails_more == "candidate" else variants[::-1]
            yield (
                f"{where}: {formatting.safe(more.short_label)} fails significantly more often than {formatting.safe(less.short_label)} "
                f"(p {p_value}, from {formatting.count(each.discordant, 'block')} in which they differ)."
            )
        else:
            tested.append(f"{where}, {formatting.safe(each.candidate.short_label)} (p {p_value})")
    if tested:
        yield f"No significant difference in rates: {named_first(tested)}."


FAILURE_RATES = Topic(NAME, 190, sections, selective=True)
