# SPDX-License-Identifier: MIT OR Apache-2.0
"""Do the variants of an own program do the same work? Their outputs are compared: standard output, files, exit status.

Two variants print *other output* if the content is the same in every run of each of them, and is not the same for both. Where it varies
from run to run, its shape is compared in the same way (numbers masked, lines sorted), and then the parts of it that do not vary. All by the
digests in `swapstone.core.model.Run.digests`; `swapstone.core.wire.own_program_output` defines them.
"""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.findings import Findings, Place, shortened
from swapstone.core.comparison.run_table import EXIT_STATUS, OK, Runs, as_table, by_number
from swapstone.core.model import Caveat, CaveatKind, Experiment, OwnProgram, Variant, Verdict, WorkSpec
from swapstone.core.stats import distinct

STDOUT = "stdout"

SHAPE, SECTIONS = "shape:", "sections:"

FEWEST_RUNS = 2
"""A content counts as constant if it is the same in so many runs, all of that side."""

REMEDY = "; if the outputs are meant to differ: --output-may-differ"
"""How every reason about standard output and exit statuses ends."""

_SECTION_DIGITS = 8
_EMPTY = hashlib.sha256(b"").hexdigest()
_SHOWN_DIGITS = 12


class Agreement(enum.Enum):
    """How the outputs of two variants relate."""

    NONE = "none"  # neither has any
    EQUAL = "equal"
    SIMILAR = "similar"  # they vary from run to run, and agree in what doesn't
    DIFFERENT = "different"
    UNKNOWN = "unknown"  # they vary too much, or could not be read
    DISCARDED = "discarded"  # sent to /dev/null
    ALLOWED = "allowed"  # they are allowed to differ


class Relation(msgspec.Struct, frozen=True):
    """How one output of two variants relates.

    Attributes:
        agreement: the relation.
        text: of different outputs, how they differ; of equal ones, the digest.
    """

    agreement: Agreement
    text: str = ""


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], runs: Runs
) -> Findings:
    """Find the pairs of variants that do other work; arguments as `swapstone.core.comparison.checks.check`.

    Every row of such a pair is excluded, except sizes, which are facts about files.
    """
    if not _compared(experiment):
        return Findings()
    baseline, *candidates = variants
    excluded: dict[Place, tuple[Verdict, str]] = {}
    unknown: dict[str, list[str]] = {}
    discarded = False
    for group, sides in _by_variant(runs).items():
        for candidate in candidates:
            before, after = sides.get(baseline.label, _Side()), sides.get(candidate.label, _Side())
            for name, relation in _relations(experiment, before, after):
                if relation.agreement is Agreement.DIFFERENT:
                    for metric in workloads[group[1]].metrics:
                        excluded.setdefault((group, candidate.label, metric.name), (Verdict.INVALID, relation.text))
                elif relation.agreement is Agreement.DISCARDED:
                    discarded = True
                elif relation.agreement is Agreement.UNKNOWN and group[1] not in unknown.setdefault(name, []):
                    unknown[name].append(group[1])
    return Findings(
        excluded=excluded, caveats=(*(_discarded(experiment) if discarded else ()), *_not_compared(unknown))
    )


def agreement(
    experiment: Experiment, group: Group, baseline: str, candidate: str, runs: Runs
) -> Mapping[str, Relation]:
    """Return how the outputs of two variants relate, by name: ``stdout`` and the artifacts.

    Args:
        experiment: that the runs are of.
        group: (suite, workload, load).
        baseline: label of one variant.
        candidate: label of the other.
        runs: all of the experiment.

    Returns:
        Empty for workloads whose outputs are not compared: those of this project, and servers.
    """
    if not _compared(experiment):
        return {}
    sides = _by_variant(runs).get(group, {})
    return dict(_relations(experiment, sides.get(baseline, _Side()), sides.get(candidate, _Side())))


def agreement_text(relations: Mapping[str, Relation]) -> str:
    """Return one clause on the outputs of two variants, such as ``output: equal (sha256 1c9a...)``; empty if none is compared.

    Args:
        relations: of `agreement`.
    """
    words = {
        Agreement.NONE: "none",
        Agreement.EQUAL: "equal ({})",
        Agreement.SIMILAR: "equal but for what varies from run to run",
        Agreement.DIFFERENT: "different",
        Agreement.UNKNOWN: "not compared, because it varies from run to run",
        Agreement.DISCARDED: "discarded",
        Agreement.ALLOWED: "not compared",
    }
    outputs = {name: each for name, each in relations.items() if name != EXIT_STATUS}
    shown = ", ".join(
        f"{'output' if name == STDOUT else repr(name)}: {words[each.agreement].format(each.text)}"
        for name, each in outputs.items()
    )
    found = {each.agreement for each in outputs.values()}
    nothing = bool(found) and found <= {Agreement.NONE, Agreement.DISCARDED, Agreement.UNKNOWN, Agreement.ALLOWED}
    absent = found & {Agreement.NONE, Agreement.DISCARDED}
    return f"{shown}, so nothing shows that it is the same work" if nothing and absent else shown


def _compared(experiment: Experiment) -> bool:
    return experiment.own is not None and not experiment.own.load_generators


class _Side(msgspec.Struct, frozen=True):
    """What the successful runs of one variant printed and wrote, with the warm-up and those that are discarded.

    Attributes:
        runs: how many.
        digests: of the different outputs, by name.
        statuses: the different exit statuses.
    """

    runs: int = 0
    digests: tuple[Mapping[str, str], ...] = ()
    statuses: frozenset[float] = frozenset()


def _by_variant(runs: Runs) -> dict[Group, dict[str, _Side]]:
    table = as_table(runs, ())
    found: dict[Group, dict[str, _Side]] = {}
    every = np.flatnonzero(table.status == OK)
    for place, rows in by_number(table.place[every]):
        suite, workload, load, variant = table.places[place]
        different = [table.outputs[number] for number in distinct(table.output[every[rows]]).tolist()]
        found.setdefault((suite, workload, load), {})[variant] = _Side(
            runs=rows.size,
            digests=tuple(dict(digests) for digests, _ in different),
            statuses=frozenset(status for _, status in different),
        )
    return found


def _relations(experiment: Experiment, baseline: _Side, candidate: _Side) -> Iterator[tuple[str, Relation]]:
    own = experiment.own
    assert own is not None
    if min(baseline.runs, candidate.runs) < FEWEST_RUNS:
        return
    if own.output_may_differ:
        yield STDOUT, Relation(Agreement.ALLOWED)
    else:
        yield STDOUT, _stdout(own, baseline, candidate)
        if own.ignore_failure:
            yield EXIT_STATUS, _exit_status(baseline, candidate)
    for name in own.artifacts:
        relation = _content(baseline, candidate, name)
        if relation.agreement is Agreement.DIFFERENT:
            relation = msgspec.structs.replace(relation, text=f"writes another file {name!r}: {relation.text}")
        yield name, relation


def _stdout(own: OwnProgram, baseline: _Side, candidate: _Side) -> Relation:
    if own.output == os.devnull:
        return Relation(Agreement.DISCARDED)
    has_metric = bool(own.numbers) and not own.output
    relation = _content(baseline, candidate, STDOUT, by_shape=has_metric)
    if relation.agreement is Agreement.DIFFERENT:
        return msgspec.structs.replace(relation, text=f"prints other output: {relation.text}{REMEDY}")
    if relation.agreement is Agreement.UNKNOWN and has_metric:
        return Relation(Agreement.ALLOWED)
    return relation


def _exit_status(baseline: _Side, candidate: _Side) -> Relation:
    old, new = baseline.statuses, candidate.statuses
    if len(old) == len(new) == 1 and old != new:
        text = f"exits with status {min(new):g} in every run, and the baseline with {min(old):g}{REMEDY}"
        return Relation(Agreement.DIFFERENT, text)
    return Relation(Agreement.EQUAL if old == new else Agreement.SIMILAR)


def _content(baseline: _Side, candidate: _Side, name: str, *, by_shape: bool = False) -> Relation:
    """Compare one output.

    Args:
        baseline: outputs of one variant.
        candidate: those of the other.
        name: of the output.
        by_shape: whether to compare only the shape, because a metric is read from it.
    """
    old, new = ({digests.get(name) for digests in side.digests} for side in (baseline, candidate))
    if None in old | new:
        return Relation(Agreement.UNKNOWN)
    if old == new and len(old) == 1:
        digest = next(iter(old)) or ""
        return Relation(Agreement.NONE) if digest == _EMPTY else Relation(Agreement.EQUAL, _shown(digest))
    if old == new:
        return Relation(Agreement.SIMILAR)
    if len(old) == len(new) == 1 and not by_shape:
        one, other = (next(iter(side)) or "" for side in (old, new))
        return Relation(Agreement.DIFFERENT, f"{_shown(other)} in every run, and the baseline {_shown(one)}")
    # The shape of an empty output is not stored.
    old, new = (
        {"" if digests.get(name) == _EMPTY else digests.get(SHAPE + name) for digests in side.digests}
        for side in (baseline, candidate)
    )
    if len(old) != 1 or len(new) != 1 or None in old | new:
        return Relation(Agreement.UNKNOWN)
    if old != new:
        return Relation(Agreement.DIFFERENT, "in every run, its text without numbers differs from the baseline's")
    if not by_shape and _constant_parts_differ(baseline, candidate, SECTIONS + name):
        return Relation(Agreement.DIFFERENT, "a part that is the same in all runs differs from the baseline's")
    return Relation(Agreement.SIMILAR)


def _constant_parts_differ(baseline: _Side, candidate: _Side, name: str) -> bool:
    """Return whether a section is constant on each side, and not the same on both. Equal shapes have equally many lines."""
    sides = [
        [
            [text[at : at + _SECTION_DIGITS] for at in range(0, len(text), _SECTION_DIGITS)]
            for text in (digests.get(name, "") for digests in side.digests)
        ]
        for side in (baseline, candidate)
    ]
    if len({len(sections) for side in sides for sections in side}) != 1:
        return False
    parts = zip(*(zip(*side, strict=True) for side in sides), strict=True)
    return any(len(set(old)) == len(set(new)) == 1 and old[0] != new[0] for old, new in parts)


def _shown(digest: str) -> str:
    shown = digest[:_SHOWN_DIGITS] if digest.isascii() and digest.isalnum() else "of another form"
    return "nothing" if digest == _EMPTY else f"sha256 {shown}"


def _discarded(experiment: Experiment) -> Iterator[Caveat]:
    assert experiment.own is not None
    if not experiment.own.artifacts:
        yield Caveat(
            kind=CaveatKind.OUTPUT_NOT_COMPARED,
            message="Whether the variants do the same work is not known: standard output is discarded.",
            hint="Leave --output null out, name a file with --output FILE, or name files that hold the result: --artifact FILE. "
            "If the outputs are meant to differ: --output-may-differ",
        )


def _not_compared(unknown: Mapping[str, Sequence[str]]) -> Iterator[Caveat]:
    for name, workloads in unknown.items():
        what = "standard output" if name == STDOUT else f"the file {name!r}"
        yield Caveat(
            kind=CaveatKind.OUTPUT_NOT_COMPARED,
            message=f"Whether the variants do the same work is not known for {shortened(workloads, 3)}: {what} varies from run to "
            "run, and not in numbers alone, or could not be read.",
            hint="Let the program write its result to a file, without times or random data, and name it: --artifact FILE. "
            "If the outputs are meant to differ: --output-may-differ",
        )
