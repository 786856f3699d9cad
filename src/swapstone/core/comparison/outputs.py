# SPDX-License-Identifier: MIT OR Apache-2.0
"""Do the variants of an own program do the same work? Their outputs are compared: standard output and error, files, exit status.

Two variants do *other work* if a part of an output is the same in every run of one of them, and is not the same in the runs of the other.
Parts that vary on both sides are times, addresses or process identifiers, and show nothing. All by the digests in
`swapstone.core.model.Run.digests`; `swapstone.core.wire.own_program_output` defines them. By rules below `DIRECTION_RULES` a part shows
other work only if it is constant on both sides; it is a section of the output then, and standard error has none.
"""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.rows import Findings, Place
from swapstone.core.comparison.run_table import EXIT_STATUS, OK, RunTable, by_number
from swapstone.core.model import (
    DIRECTION_RULES,
    EQUAL_EXTRA_RULES,
    Caveat,
    CaveatKind,
    Experiment,
    OwnProgram,
    Variant,
    Verdict,
    WorkSpec,
    named_first,
)
from swapstone.core.stats import Ints, distinct, equal_shares_p_value
from swapstone.core.wire.own_program_output import COLUMNS, KEY_DIGITS, SHAPE, STDERR, STDOUT, VALUE_DIGITS

FEWEST_RUNS = 2
"""A content counts as constant if it is the same in so many runs, all of that side."""

FEWEST_BESIDE_VARYING = 5
"""In fewer runs a part that varies on both sides may be constant on one by chance, so it shows neither other work nor the same."""

MANY_RUNS = 30
"""A measurement ends because one side varies only after so many runs of each: in fewer, a rounded time may be constant by chance."""

WHOLE = "whole"
"""The part of a content that has no columns, because it is too long."""

REMEDY = "; if the outputs are meant to differ: --output-may-differ"
"""How every reason about standard output and exit statuses ends."""

_SECTIONS = "sections:"
_STATUS = "\0status"  # no name of a file
_SECTION_DIGITS = 8
_SHOWN_NAMES = {STDOUT: "output", STDERR: "standard error"}
_CHANCE = 0.05
"""Above this p-value it is stated that chance may decide on which side rare runs are found."""

_POSITION_BITS = 27
"""`swapstone.core.model.frozen_struct.Position` is less than 2 ** 27."""

_EMPTY = hashlib.sha256(b"").hexdigest()
_SHOWN_DIGITS = 12


class Agreement(enum.Enum):
    """How the outputs of two variants relate, in words; ``{}`` is the digest of both."""

    NONE = "none"
    EQUAL = "equal ({})"
    SIMILAR = "equal but for what varies from run to run"
    DIFFERENT = "different"
    UNKNOWN = "not compared, because it varies from run to run"  # in more than numbers, or could not be read
    DISCARDED = "discarded"
    ALLOWED = "not compared"


class Relation(msgspec.Struct, frozen=True):
    """How one output of two variants relates.

    Attributes:
        agreement: the relation.
        text: of different outputs, how they differ; of equal ones, the digest.
    """

    agreement: Agreement
    text: str = ""


def check(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    table: RunTable,
    *,
    fewest: int = FEWEST_RUNS,
) -> Findings:
    """Find the pairs of variants that do other work.

    Every row of such a pair is excluded, except sizes, which are facts about files.

    Args:
        experiment: as `swapstone.core.comparison.checks.check` has it, like the next three.
        variants: the baseline first.
        workloads: by name.
        table: of all runs.
        fewest: in how many runs of each side a part is taken as constant if it varies on the other side.
    """
    if not _compared(experiment):
        return Findings()
    baseline, *candidates = variants
    excluded: dict[Place, tuple[Verdict, str]] = {}
    unknown: dict[str, list[str]] = {}
    discarded = False
    for group, sides in _by_variant(table).items():
        for candidate in candidates:
            before, after = sides.get(baseline.label, _Side()), sides.get(candidate.label, _Side())
            for name, relation in _relations(experiment, before, after, fewest):
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
    experiment: Experiment, group: Group, baseline: str, candidate: str, table: RunTable
) -> Mapping[str, Relation]:
    """Return how the outputs of two variants relate, by name: ``stdout`` and the artifacts.

    Args:
        experiment: that the runs are of.
        group: (suite, workload, load).
        baseline: label of one variant.
        candidate: label of the other.
        table: of all runs of the experiment.

    Returns:
        Empty for workloads whose outputs are not compared: those of this project, and servers.
    """
    if not _compared(experiment):
        return {}
    sides = _by_variant(table).get(group, {})
    return dict(_relations(experiment, sides.get(baseline, _Side()), sides.get(candidate, _Side()), FEWEST_RUNS))


def variations(
    experiment: Experiment, group: Group, baseline: str, candidate: str, table: RunTable
) -> Mapping[str, Sequence[Variation]]:
    """Return what varies or differs in the outputs of two variants that are compared; arguments as `agreement`.

    Returns:
        By the name of the output; parts that neither side has in all of its runs are left out.
    """
    if not _compared(experiment):
        return {}
    sides = _by_variant(table).get(group, {})
    before, after = sides.get(baseline, _Side()), sides.get(candidate, _Side())
    names = [name for name, relation in _relations(experiment, before, after, FEWEST_RUNS) if name != EXIT_STATUS]
    return {
        name: [
            each
            for each in _variations(experiment, before, after, name)
            if each.constant or max(len(each.baseline), len(each.candidate)) > 1
        ]
        for name in names
    }


def agreement_text(relations: Mapping[str, Relation]) -> str:
    """Return one clause on the outputs of two variants, such as ``output: equal (sha256 1c9a...)``; empty if none is compared.

    Args:
        relations: of `agreement`.
    """
    outputs = {name: each for name, each in relations.items() if name != EXIT_STATUS}
    shown = ", ".join(
        f"{_SHOWN_NAMES.get(name) or repr(name)}: {each.agreement.value.format(each.text)}"
        for name, each in outputs.items()
    )
    found = {each.agreement for each in outputs.values()}
    nothing = bool(found) and found <= {Agreement.NONE, Agreement.DISCARDED, Agreement.UNKNOWN, Agreement.ALLOWED}
    absent = found & {Agreement.NONE, Agreement.DISCARDED}
    return f"{shown}, so nothing shows that it is the same work" if nothing and absent else shown


def _compared(experiment: Experiment) -> bool:
    return experiment.own is not None and not experiment.own.load_generators


class Variation(msgspec.Struct, frozen=True):
    """A part of an output that is the same in all runs of one variant at most, or that differs between two variants.

    Attributes:
        key: of the part: `WHOLE`, or that of a column (`swapstone.core.wire.own_program_output.columns_digest`).
        baseline, candidate: rows of the runs by the digest of the part; those of runs without the part by an empty text.
        other: rows of the runs that differ from what all runs of the other side have in common; none if both sides vary, or agree.
        constant: whether the part is constant on both sides.
    """

    key: str
    baseline: Mapping[str, Ints]
    candidate: Mapping[str, Ints]
    other: Ints = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    constant: bool = False


class _Side(msgspec.Struct, frozen=True):
    """What the successful runs of one variant printed and wrote, with the warm-up and those that are discarded.

    Attributes:
        rows: of the runs.
        outputs: the different outputs: their digests by name, with the exit status as `_STATUS`, and rows.
        turns: of all runs of the table: ascending in the order in which they were planned.
    """

    rows: Ints = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    outputs: tuple[tuple[Mapping[str, str], Ints], ...] = ()
    turns: Ints = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def digests(self, name: str) -> set[str | None]:
        """Return the different digests of one output; None for runs without it. Without standard error, nothing was printed there."""
        return {found.get(name, _EMPTY if name == STDERR else None) for found, _ in self.outputs}


def _by_variant(table: RunTable) -> dict[Group, dict[str, _Side]]:
    found: dict[Group, dict[str, _Side]] = {}
    every = np.flatnonzero(table.status == OK)
    turns = (table.block << _POSITION_BITS) + table.position
    for place, of_place in by_number(table.place[every]):
        suite, workload, load, variant = table.places[place]
        rows = every[of_place]
        different = ((*table.outputs[number], rows[of_output]) for number, of_output in by_number(table.output[rows]))
        found.setdefault((suite, workload, load), {})[variant] = _Side(
            rows, tuple(({**dict(digests), _STATUS: f"{status:g}"}, each) for digests, status, each in different), turns
        )
    return found


def _relations(
    experiment: Experiment, baseline: _Side, candidate: _Side, fewest: int
) -> Iterator[tuple[str, Relation]]:
    own = experiment.own
    assert own is not None
    if min(baseline.rows.size, candidate.rows.size) < FEWEST_RUNS:
        return
    if own.output_may_differ:
        yield STDOUT, Relation(Agreement.ALLOWED)
    else:
        yield STDOUT, _stdout(experiment, own, baseline, candidate, fewest)
        if _by_column(experiment) and any(
            STDERR in found for side in (baseline, candidate) for found, _ in side.outputs
        ):
            yield STDERR, _content(experiment, baseline, candidate, STDERR, fewest)
        if own.ignore_failure:
            yield EXIT_STATUS, _exit_status(experiment, baseline, candidate, fewest)
    for name in own.artifacts:
        yield name, _content(experiment, baseline, candidate, name, fewest)


def _stdout(experiment: Experiment, own: OwnProgram, baseline: _Side, candidate: _Side, fewest: int) -> Relation:
    if own.output == os.devnull:
        return Relation(Agreement.DISCARDED)
    relation = _content(experiment, baseline, candidate, STDOUT, fewest)
    if relation.agreement is Agreement.UNKNOWN and _has_metric(experiment, STDOUT) and not _by_column(experiment):
        return Relation(Agreement.ALLOWED)
    return relation


def _has_metric(experiment: Experiment, name: str) -> bool:
    own = experiment.own
    return own is not None and bool(own.numbers) and (name == STDERR or (name == STDOUT and not own.output))


def _by_column(experiment: Experiment) -> bool:
    """Return whether a part that varies on one side alone shows other work."""
    return experiment.rules >= DIRECTION_RULES


def _exit_status(experiment: Experiment, baseline: _Side, candidate: _Side, fewest: int) -> Relation:
    (part,) = _variations(experiment, baseline, candidate, _STATUS)
    old, new = part.baseline, part.candidate
    if part.constant:
        text = f"exits with status {min(new)} in every run, and the baseline with {min(old)}{REMEDY}"
        return Relation(Agreement.DIFFERENT, text)
    if text := _different_parts(experiment, baseline, candidate, [part], fewest):
        return Relation(Agreement.DIFFERENT, f"exits with another status: {text}{REMEDY}")
    if part.other.size and _too_few(experiment, baseline, candidate):
        return Relation(Agreement.UNKNOWN)
    return Relation(Agreement.EQUAL if old.keys() == new.keys() else Agreement.SIMILAR)


HEADS = {STDOUT: "prints other output: ", STDERR: "prints another text on standard error: "}
"""How the reason begins of rows whose outputs differ."""


def _content(experiment: Experiment, baseline: _Side, candidate: _Side, name: str, fewest: int) -> Relation:
    """Compare one output."""
    old, new = baseline.digests(name), candidate.digests(name)
    if None in old | new:
        return Relation(Agreement.UNKNOWN)
    if old == new and len(old) == 1:
        digest = next(iter(old)) or ""
        return Relation(Agreement.NONE) if digest == _EMPTY else Relation(Agreement.EQUAL, _shown(digest))
    if old == new:
        return Relation(Agreement.SIMILAR)
    if len(old) == len(new) == 1 and not _has_metric(experiment, name):
        one, other = (next(iter(side)) or "" for side in (old, new))
        text = f"{_shown(other)} in every run, and the baseline {_shown(one)}"
    else:
        old, new = ({_masked(experiment, each, name) for each, _ in side.outputs} for side in (baseline, candidate))
        known = len(old) == len(new) == 1 and None not in old
        text = "in every run, its text without numbers differs from the baseline's" if known and old != new else ""
        if not text and (known or _by_column(experiment)):
            parts = _variations(experiment, baseline, candidate, name)
            text = _different_parts(experiment, baseline, candidate, parts, fewest)
            known = known and not (any(each.other.size for each in parts) and _too_few(experiment, baseline, candidate))
        if not text:
            return Relation(Agreement.SIMILAR if known else Agreement.UNKNOWN)
    head = HEADS.get(name, f"writes another file {name!r}: ")
    return Relation(Agreement.DIFFERENT, f"{head}{text}{REMEDY if name in HEADS else ''}")


def _masked(experiment: Experiment, digests: Mapping[str, str], name: str) -> str | None:
    """Return a digest of the masked lines of an output, in any order; None if it is too long to have one."""
    if digests.get(name, _EMPTY) == _EMPTY:
        return ""
    columns = digests.get(COLUMNS + name, "") if _by_column(experiment) else ""
    return columns[KEY_DIGITS + VALUE_DIGITS // 2 : KEY_DIGITS + VALUE_DIGITS] or digests.get(SHAPE + name)


def _parts(experiment: Experiment, digests: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the digests of an output's parts by their keys; none of an empty output."""
    if name == _STATUS:
        return {name: digests[name]}
    by_column = _by_column(experiment)
    if not by_column and _has_metric(experiment, name):
        return {}
    if columns := digests.get(COLUMNS + name, ""):
        wide = KEY_DIGITS + VALUE_DIGITS
        return {
            columns[at : at + KEY_DIGITS]: columns[at + KEY_DIGITS : at + wide] for at in range(0, len(columns), wide)
        }
    if by_column:
        return {} if digests.get(name, _EMPTY) == _EMPTY else {WHOLE: digests[name]}
    sections = digests.get(_SECTIONS + name, "")
    return {str(at): sections[at : at + _SECTION_DIGITS] for at in range(0, len(sections), _SECTION_DIGITS)}


def _variations(experiment: Experiment, baseline: _Side, candidate: _Side, name: str) -> list[Variation]:
    """Return the parts of an output that one of two variants has in every run."""
    sides = []
    for side in (baseline, candidate):
        parts: dict[str, dict[str, list[Ints]]] = {}
        for digests, rows in side.outputs:
            for key, digest in _parts(experiment, digests, name).items():
                parts.setdefault(key, {}).setdefault(digest, []).append(rows)
        sides.append(parts)
    found = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        counts = [sum(each.size for rows in parts.get(key, {}).values() for each in rows) for parts in sides]
        if counts[0] == baseline.rows.size or counts[1] == candidate.rows.size:
            pair = zip((baseline, candidate), sides, strict=True)
            old, new = (_with_absent(side.rows, parts.get(key, {})) for side, parts in pair)
            found.append(_variation(key, old, new, baseline.turns))
    return found


def _with_absent(every: Ints, found: Mapping[str, Sequence[Ints]]) -> dict[str, Ints]:
    """Return rows by digest, and those of the runs that have none by an empty text."""
    by_digest = {digest: np.concatenate(rows) for digest, rows in found.items()}
    absent = np.setdiff1d(every, np.concatenate(list(by_digest.values())), assume_unique=True) if by_digest else every
    return {**by_digest, **({"": absent} if absent.size else {})}


_VIEWS: tuple[Callable[[str], object], ...] = (str, lambda digest: digest[VALUE_DIGITS // 2 :], bool)
"""What is compared of a column: its numbers in their order; where that varies on both sides sorted; else whether it is there."""


def _variation(key: str, baseline: Mapping[str, Ints], candidate: Mapping[str, Ints], turns: Ints) -> Variation:
    """Compare a part of an output: rows by its digest, at least one of each side.

    A run that differs counts only if it is between the first and the last run of the side that does not vary: else it may be the date
    that changed, or a first run that found no cache.
    """
    for view in _VIEWS:
        old, new = ({view(digest) for digest in side} for side in (baseline, candidate))
        if len(old) > 1 and len(new) > 1:
            continue
        if old == new:
            break
        if len(old) == len(new):
            return Variation(key, baseline, candidate, constant=True)
        common, reference, varying = (old, baseline, candidate) if len(old) == 1 else (new, candidate, baseline)
        other = np.concatenate([rows for digest, rows in varying.items() if view(digest) not in common])
        beside = turns[np.concatenate(list(reference.values()))]
        if ((turns[other] >= beside.min()) & (turns[other] <= beside.max())).any():
            return Variation(key, baseline, candidate, other=other)
        break
    return Variation(key, baseline, candidate)


def _different_parts(
    experiment: Experiment, baseline: _Side, candidate: _Side, parts: Sequence[Variation], fewest: int
) -> str:
    """Return how parts of an output show other work; empty if they don't."""
    if any(each.constant for each in parts):
        return "a part that is the same in all runs differs from the baseline's"
    few = min(baseline.rows.size, candidate.rows.size) < fewest or _too_few(experiment, baseline, candidate)
    if few or not _by_column(experiment):
        return ""
    every = distinct(np.concatenate([each.other for each in parts] or [np.zeros(0, dtype=np.int64)]))
    for side, whose, reference, common in (
        (candidate, "", baseline, "the baseline's"),
        (baseline, " of the baseline", candidate, "this variant's"),
    ):
        if rows := np.intersect1d(every, side.rows, assume_unique=True).size:
            text = f"{rows} of {side.rows.size} runs{whose} differ in what all {common} {reference.rows.size} runs have in common"
            p_value = equal_shares_p_value(rows, side.rows.size, 0, reference.rows.size)
            rare = f", so rarely that the other side may have such runs too (p {p_value:.1g})"
            return text + rare if p_value > _CHANCE else text
    return ""


def _too_few(experiment: Experiment, baseline: _Side, candidate: _Side) -> bool:
    return (
        experiment.rules >= EQUAL_EXTRA_RULES and min(baseline.rows.size, candidate.rows.size) < FEWEST_BESIDE_VARYING
    )


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
    shown = {STDOUT: "standard output", EXIT_STATUS: "the exit status"}
    for name, workloads in unknown.items():
        if name == STDERR:  # messages and progress often vary
            continue
        yield Caveat(
            kind=CaveatKind.OUTPUT_NOT_COMPARED,
            message=f"Whether the variants do the same work is not known for {named_first(workloads, 3)}: "
            f"{shown.get(name) or f'the file {name!r}'} varies from run to run in more than numbers or in fewer than "
            f"{FEWEST_BESIDE_VARYING} runs, or could not be read.",
            hint="Let the program write its result to a file, without times or random data, and name it: --artifact FILE. "
            "If the outputs are meant to differ: --output-may-differ",
        )
