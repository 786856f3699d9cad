# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare the sizes and the signs of two records' effects: the same factors, measured again, or on another target or clock."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from swapstone.comparison.size_agreement import SizeAgreement, SizeOutcome, not_comparable, sizes
from swapstone.model import (
    Analysis,
    Comparison,
    Cpus,
    Experiment,
    FrozenStruct,
    Quantity,
    Scale,
    UserError,
    Variant,
    Verdict,
    WorkSpec,
)
from swapstone.model.safe_text import safe

_SIGNED = (Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED, Verdict.MIXED)
_WITHIN = (Verdict.EQUIVALENT, Verdict.SAME_MEDIAN)

Place = tuple[str, str, str, Variant]
"""(suite, workload, load, candidate)"""


class SignAgreement(enum.Enum):
    """Whether the two records' effects have the same sign."""

    AGREE = "agree"
    DISAGREE = "disagree"
    NOT_COMPARABLE = "not comparable"


class AgreementRow(FrozenStruct, frozen=True, kw_only=True):
    """One workload, with the comparison that each record reports first.

    Attributes:
        first, second: the comparison that each record reports first; the metrics may differ. None where a record has none.
        sameness: agree if both effects have the same sign, or both lie within the margin; disagree if the signs are opposite, or only
            one of the two effects is significant.
        reason: why the signs disagree or can't be compared; empty if they agree.
        opposite: whether the signs are opposite; False if they disagree because only one effect is significant.
        size: whether the effects have the same size.
    """

    suite: str
    workload: str
    load: str
    candidate: Variant
    first: Comparison | None
    second: Comparison | None
    sameness: SignAgreement
    reason: str = ""
    opposite: bool = False
    size: SizeAgreement


class Spread(FrozenStruct, frozen=True, kw_only=True):
    """How far apart the repeated runs of a record are, over the rows of its comparisons.

    Attributes:
        rows: number of rows with runs on both sides.
        exact: number of rows in which every run of a side gave the same value.
        largest: the largest relative range of one side, max / min - 1; None if there are no rows, or if a minimum is not above zero.
        where: workload and variant of `largest`; empty if that is None.
    """

    rows: int
    exact: int
    largest: float | None
    where: str


class AgreementTable(FrozenStruct, frozen=True, kw_only=True):
    """The effects of two records, row by row.

    Attributes:
        names: of the two records: their clocks, their targets, or ``first`` and ``second``, whichever differ.
        clocks: of the two records.
        rows: in the order of the first record, then the rows that only the second record has.
        first_spread, second_spread: the range of each record's repeated runs.
        margin: ratio of the two effects that is of no interest: the larger one of the two experiments.
    """

    names: tuple[str, str]
    clocks: tuple[str, str]
    rows: tuple[AgreementRow, ...]
    first_spread: Spread
    second_spread: Spread
    margin: float

    def count_sizes(self, outcome: SizeOutcome) -> int:
        """Return the number of rows whose sizes have this outcome."""
        return sum(row.size.outcome is outcome for row in self.rows)

    def count(self, sameness: SignAgreement) -> int:
        """Return the number of rows with this outcome."""
        return sum(row.sameness is sameness for row in self.rows)


def signs(
    first: tuple[Experiment, Analysis], second: tuple[Experiment, Analysis], workloads: Mapping[str, WorkSpec]
) -> AgreementTable:
    """Compare the effects of two records, row by row: their sizes and their signs.

    The records must be independent: of other runs.

    Args:
        first: an experiment and its analysis.
        second: another experiment with the same factors and levels, and its analysis.
        workloads: of both, by name.

    Raises:
        UserError: the factors or levels differ, or the records have no workload in common.
    """
    if [(each.factor, each.levels) for each in first[0].factors] != [
        (each.factor, each.levels) for each in second[0].factors
    ]:
        raise UserError(
            f"The records are of different factors or levels: {safe(_factors(first[0]))}, and {safe(_factors(second[0]))}.",
            "Make two records of the same factors and levels, on different targets.",
        )
    ours, theirs = (_leading(analysis) for _, analysis in (first, second))
    if not ours.keys() & theirs.keys():
        raise UserError("The records have no workload in common.", "Give both the same --suite and --only.")
    clocks_differ = first[0].clock != second[0].clock
    names = _names(first[0], second[0])
    margin = max(first[0].margin, second[0].margin)
    pairs, unlike = _same_metric(ours, theirs, second[1])
    rate = 1 - max(first[0].confidence, second[0].confidence)
    compared = {**sizes(pairs, names, margin=margin, rate=rate), **unlike}
    rows = []
    for place in dict.fromkeys((*ours, *theirs)):
        suite, workload, load, candidate = place
        several = clocks_differ and workloads[workload].cpus is Cpus.ALL
        sameness, reason, opposite = _same(ours.get(place), theirs.get(place), names, several=several)
        size = not_comparable(reason) if several else compared.get(place, not_comparable(reason))
        rows.append(
            AgreementRow(
                suite=suite,
                workload=workload,
                load=load,
                candidate=candidate,
                first=ours.get(place),
                second=theirs.get(place),
                sameness=sameness,
                reason=reason,
                opposite=opposite,
                size=size,
            )
        )
    return AgreementTable(
        names=names,
        clocks=(first[0].clock, second[0].clock),
        rows=tuple(rows),
        first_spread=spread([row.first for row in rows if row.first]),
        second_spread=spread([row.second for row in rows if row.second]),
        margin=margin,
    )


def _same_metric(
    ours: Mapping[Place, Comparison], theirs: Mapping[Place, Comparison], second: Analysis
) -> tuple[dict[Place, tuple[Comparison, Comparison]], dict[Place, SizeAgreement]]:
    """Pair the rows that both records have, by the metric that the first one reports first; and the outcome of those without it."""
    others = {(*_place(each), each.metric.name): each for each in second.comparisons}
    pairs: dict[Place, tuple[Comparison, Comparison]] = {}
    unlike: dict[Place, SizeAgreement] = {}
    for place, found in ours.items():
        other = others.get((*place, found.metric.name))
        if other is not None:
            pairs[place] = (found, other)
        elif place in theirs:
            reason = f"one side has {found.metric.name}, the other {theirs[place].metric.name}"
            unlike[place] = not_comparable(reason)
    return pairs, unlike


def _place(comparison: Comparison) -> Place:
    return comparison.suite, comparison.workload, comparison.load, comparison.candidate


def _names(first: Experiment, second: Experiment) -> tuple[str, str]:
    if first.clock != second.clock:
        return f"{first.clock} clock", f"{second.clock} clock"
    if first.target != second.target:
        return first.target, second.target
    return "first", "second"


def _factors(experiment: Experiment) -> str:
    return " ".join(f"{each.factor}={','.join(each.levels)}" for each in experiment.factors)


def _leading(analysis: Analysis) -> dict[Place, Comparison]:
    """Return the comparison reported first, by (suite, workload, load, candidate): the preferred time, else the first time or rate."""
    copies = {null.copy for null in analysis.nulls}
    found: dict[Place, Comparison] = {}
    for each in analysis.comparisons:
        if each.candidate in copies or each.metric.quantity not in {Quantity.TIME, Quantity.RATE}:
            continue
        place = _place(each)
        if place not in found or (each.preferred and not found[place].preferred):
            found[place] = each
    return found


def sign_of(comparison: Comparison) -> int | None:
    """Return +1 if the candidate's median is larger, -1 if smaller, 0 if it lies within the margin, None without a verdict on it."""
    if comparison.verdict in _WITHIN:
        return 0
    if comparison.verdict not in _SIGNED or comparison.effect is None:
        return None
    return 1 if comparison.effect > (1.0 if comparison.scale is Scale.RATIO else 0.0) else -1


def _same(
    first: Comparison | None, second: Comparison | None, names: tuple[str, str], *, several: bool
) -> tuple[SignAgreement, str, bool]:
    """Compare two sides; return the outcome, its reason, and whether the signs are opposite."""
    if first is None or second is None:
        return SignAgreement.NOT_COMPARABLE, f"{names[0] if first is None else names[1]}: not measured", False
    if several:
        reason = "it uses several processors, and a machine on the virtual clock has one"
        return SignAgreement.NOT_COMPARABLE, reason, False
    if first.metric.quantity is not second.metric.quantity:
        return SignAgreement.NOT_COMPARABLE, f"one side has {first.metric.name}, the other {second.metric.name}", False
    one, other = sign_of(first), sign_of(second)
    silent = [
        f"{name}: {found.verdict.value}"
        for name, found, sign in ((names[0], first, one), (names[1], second, other))
        if sign is None
    ]
    if silent:
        return SignAgreement.NOT_COMPARABLE, ", ".join(silent), False
    if one == other:
        return SignAgreement.AGREE, "", False
    if one and other:
        return SignAgreement.DISAGREE, "opposite signs", True
    return SignAgreement.DISAGREE, f"only {names[0] if one else names[1]} has a difference", False


def spread(comparisons: Sequence[Comparison]) -> Spread:
    """Return the relative range of a record's repeated runs.

    Args:
        comparisons: the rows to read; a row without runs on both sides is ignored.
    """
    rows = [each for each in comparisons if each.baseline_values and each.candidate_values]
    sides = [
        (max(values) / min(values) - 1, f"{each.workload} {variant.label}")
        for each in rows
        for variant, values in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values))
        if min(values) > 0
    ]
    complete = bool(sides) and len(sides) == 2 * len(rows)
    largest: tuple[float | None, str] = max(sides, key=lambda side: side[0]) if complete else (None, "")
    return Spread(
        rows=len(rows),
        exact=sum(len(set(each.baseline_values)) == len(set(each.candidate_values)) == 1 for each in rows),
        largest=largest[0],
        where=largest[1],
    )
