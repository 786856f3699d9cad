"""Do two records of one comparison, made on different targets or clocks, say the same: the table of signs."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

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
    Workload,
)

_SIGNED = (Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED)


class Sameness(enum.Enum):
    """How two sides' signs compare."""

    AGREE = "agree"
    DISAGREE = "disagree"
    NOT_COMPARABLE = "not comparable"


class SignRow(FrozenStruct, frozen=True, kw_only=True):
    """One workload, as both records see it.

    Attributes:
        first, second: the comparison that each record reads first, perhaps of different metrics; None where it has none.
        sameness: agree where both differ in the same direction, or both differ by no more than the margin; disagree where they differ
            in opposite directions, or only one side differs.
        reason: why they don't agree, or can't be compared; empty where they agree.
        opposite: whether they disagree by their signs, and not because only one side differs.
    """

    suite: str
    workload: str
    load: str
    candidate: Variant
    first: Comparison | None
    second: Comparison | None
    sameness: Sameness
    reason: str = ""
    opposite: bool = False


class Spread(FrozenStruct, frozen=True, kw_only=True):
    """How far a record's repeated runs lie apart, in the comparisons of its rows.

    Attributes:
        rows: how many have runs on both sides.
        exact: in how many of them each side gave one number.
        largest: the largest share by which a side's largest value exceeds its smallest, 0.01 for one per cent; None without rows, or where
            a smallest value is not above zero.
        where: workload and variant of that one; empty without.
    """

    rows: int
    exact: int
    largest: float | None
    where: str


class Signs(FrozenStruct, frozen=True, kw_only=True):
    """The table of signs.

    Attributes:
        names: of the two sides: their clocks, their targets, or ``first`` and ``second``, whichever differ.
        clocks: of the two sides.
        rows: in the order of the first record, then what only the second has.
        first_spread, second_spread: of the records' runs.
    """

    names: tuple[str, str]
    clocks: tuple[str, str]
    rows: tuple[SignRow, ...]
    first_spread: Spread
    second_spread: Spread

    def count(self, sameness: Sameness) -> int:
        """Return how many rows compare so."""
        return sum(row.sameness is sameness for row in self.rows)


def signs(
    first: tuple[Experiment, Analysis], second: tuple[Experiment, Analysis], workloads: Mapping[str, Workload]
) -> Signs:
    """Lay two records' signs side by side.

    Args:
        first: an experiment and what may be said of it.
        second: another one, of the same factors and levels.
        workloads: of both, by name.

    Raises:
        UserError: they compare different things, or share no workload.
    """
    if [(each.factor, each.levels) for each in first[0].factors] != [
        (each.factor, each.levels) for each in second[0].factors
    ]:
        raise UserError(
            f"The records compare different things: {_factors(first[0])}, and {_factors(second[0])}.",
            "Make two records of the same factors and levels, on different targets.",
        )
    ours, theirs = (_leading(analysis) for _, analysis in (first, second))
    if not ours.keys() & theirs.keys():
        raise UserError("The records have no workload in common.", "Give both the same --suite and --only.")
    clocks_differ = first[0].clock != second[0].clock
    names = _names(first[0], second[0])
    rows = []
    for place in dict.fromkeys((*ours, *theirs)):
        suite, workload, load, candidate = place
        several = clocks_differ and workloads[workload].cpus is Cpus.ALL
        sameness, reason, opposite = _same(ours.get(place), theirs.get(place), names, several=several)
        rows.append(
            SignRow(
                suite=suite,
                workload=workload,
                load=load,
                candidate=candidate,
                first=ours.get(place),
                second=theirs.get(place),
                sameness=sameness,
                reason=reason,
                opposite=opposite,
            )
        )
    return Signs(
        names=names,
        clocks=(first[0].clock, second[0].clock),
        rows=tuple(rows),
        first_spread=spread([row.first for row in rows if row.first]),
        second_spread=spread([row.second for row in rows if row.second]),
    )


def _names(first: Experiment, second: Experiment) -> tuple[str, str]:
    if first.clock != second.clock:
        return f"{first.clock} clock", f"{second.clock} clock"
    if first.target != second.target:
        return first.target, second.target
    return "first", "second"


def _factors(experiment: Experiment) -> str:
    return " ".join(f"{each.factor}={','.join(each.levels)}" for each in experiment.factors)


def _leading(analysis: Analysis) -> dict[tuple[str, str, str, Variant], Comparison]:
    """Return the comparison that is read first, by (suite, workload, load, candidate): the preferred time, else the first time or rate."""
    copies = {null.copy for null in analysis.nulls}
    found: dict[tuple[str, str, str, Variant], Comparison] = {}
    for each in analysis.comparisons:
        if each.candidate in copies or each.metric.quantity not in {Quantity.TIME, Quantity.RATE}:
            continue
        place = (each.suite, each.workload, each.load, each.candidate)
        if place not in found or (each.preferred and not found[place].preferred):
            found[place] = each
    return found


def _sign(comparison: Comparison) -> int | None:
    """Return +1 where the candidate's value is larger, -1 where smaller, 0 within the margin, None where nothing is said."""
    if comparison.verdict is Verdict.EQUIVALENT:
        return 0
    if comparison.verdict not in _SIGNED or comparison.effect is None:
        return None
    return 1 if comparison.effect > (1.0 if comparison.scale is Scale.RATIO else 0.0) else -1


def _same(
    first: Comparison | None, second: Comparison | None, names: tuple[str, str], *, several: bool
) -> tuple[Sameness, str, bool]:
    """Compare two sides; return how, why, and whether the signs are opposite."""
    if first is None or second is None:
        return Sameness.NOT_COMPARABLE, f"{names[0] if first is None else names[1]}: not measured", False
    if several:
        reason = "it uses several processors, and a machine on the virtual clock has one"
        return Sameness.NOT_COMPARABLE, reason, False
    if first.metric.quantity is not second.metric.quantity:
        return Sameness.NOT_COMPARABLE, f"one side has {first.metric.name}, the other {second.metric.name}", False
    one, other = _sign(first), _sign(second)
    silent = [
        f"{name}: {found.verdict.value}"
        for name, found, sign in ((names[0], first, one), (names[1], second, other))
        if sign is None
    ]
    if silent:
        return Sameness.NOT_COMPARABLE, ", ".join(silent), False
    if one == other:
        return Sameness.AGREE, "", False
    if one and other:
        return Sameness.DISAGREE, "opposite signs", True
    return Sameness.DISAGREE, f"only {names[0] if one else names[1]} has a difference", False


def spread(comparisons: Sequence[Comparison]) -> Spread:
    """Say how far repeated runs lie apart.

    Args:
        comparisons: those whose runs count; a side without runs leaves its row out.
    """
    rows = [each for each in comparisons if each.baseline_values and each.candidate_values]
    sides = [
        (max(values) / min(values) - 1, f"{each.workload} {variant.label}")
        for each in rows
        for variant, values in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values))
        if min(values) > 0
    ]
    largest, where = max(sides, default=(None, ""), key=lambda side: side[0] or 0.0)
    return Spread(
        rows=len(rows),
        exact=sum(len(set(each.baseline_values)) == len(set(each.candidate_values)) == 1 for each in rows),
        largest=largest if len(sides) == 2 * len(rows) else None,
        where=where if len(sides) == 2 * len(rows) else "",
    )
