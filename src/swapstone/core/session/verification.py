# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verification of a record: is it whole and unaltered, and does its analysis give the same verdicts?"""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from swapstone.core.model import UserError, WorkSpec
from swapstone.core.model.parts import missing_parts
from swapstone.core.model.safe_text import safe
from swapstone.core.record import RecordView, check_raw, doubled_keys
from swapstone.core.session.analysis import record_verdicts
from swapstone.core.session.plan_check import plan_problems
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.record_errors import named_record
from swapstone.core.session.sample_check import Derivation, derive
from swapstone.core.workloads import workloads_of
from swapstone.version import __version__

if TYPE_CHECKING:
    from swapstone.core.run.recompute import Recomputed

FEWEST_DIGITS = 16
"""The shortest beginning of a digest that `--against` accepts: 64 bits."""

_DIGEST = re.compile(rf"[0-9a-f]{{{FEWEST_DIGITS},64}}")


@dataclasses.dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        answer: the result in a sentence that begins with Whole, Incomplete or Altered.
        problems: what was altered or lost, one sentence each.
        incomplete: why the record is not all that it was to be; empty if it is.
        sealed: whether a seal covers all of it: what is not sealed may have been altered without a trace.
        differences: why trials that ran again are other runs here: the first fact that differs, then the others. They are no damage.
        notes: what was derived again, what could not be, and what no verification shows: sentences.
        digest: of the whole record, 64 hexadecimal digits; empty without a seal.
        derivation: what the raw output shows; None if this version of Swapstone does not have a workload of the record.
        recomputed: the trials that ran again, with the digests of their output before and now.
    """

    answer: str
    problems: tuple[str, ...]
    incomplete: str = ""
    sealed: bool = True
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    digest: str = ""
    derivation: Derivation | None = None
    recomputed: tuple[Recomputed, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether the record is sealed and has no problem, and trials that ran again gave the same bytes."""
        return self.sealed and not self.problems and not self.differences


def verify_record(
    view: RecordView,
    recompute_trials: int = 0,
    progress: Progress = NO_PROGRESS,
    *,
    against: str = "",
    trust: bool = False,
) -> Verification:
    """Check every checksum of a record, derive its samples again, compare its runs with the plan, and analyse it again.

    No program of the record is run, unless trials are recomputed.

    Args:
        view: the record.
        recompute_trials: how many random trials run again. On the virtual clock their output must be equal to the byte.
        progress: receives events.
        against: the digest that was published of the record, or at least its first 16 digits; empty to compare none.
        trust: whether trials may run again though another user or machine made the record, or it was edited.

    Raises:
        UntrustedRecordError: trials should run again, and the user did not make the record here, or it was damaged or edited.
        UserError: trials should run again, but the record was measured on a wall clock; or `against` is no digest.
    """
    if recompute_trials:
        from swapstone.core.run.recompute import choose  # noqa: PLC0415 - imports what runs trials
        from swapstone.core.session import recomputation  # noqa: PLC0415 - as above

        recomputation.require_repeatable(view, recompute_trials, trust=trust)
    problems = [*_digest_problems(view, against)]
    problems += [str(damage) for damage in (*view.damages, *check_raw(view), *doubled_keys(view.path))]
    derivation: Derivation | None = None
    try:
        with named_record(view.path):
            derivation = derive(view)
            found = (*_description_problems(view), *plan_problems(view), *_verdict_problems(view))
            problems += [*derivation.problems, *found]
    except UserError as error:
        problems.append(f"it can't be analysed: {error.message}")
    recomputed: tuple[Recomputed, ...] = ()
    differences: tuple[str, ...] = ()
    if recompute_trials:
        chosen = choose(view.runs, recompute_trials, secrets.randbelow(2**31))
        recomputed, causes = recomputation.run_again(view, chosen, progress)
        causes = sorted_by_cause(causes)
        damaged, differences = recompute_findings(recomputed, causes)
        problems += damaged
    incomplete, sealed = _incomplete(view)
    answer = _answer(view, problems, incomplete, against, derivation)
    if differences and not problems:
        answer = f"{differences[0]}. {answer}"
    return Verification(
        answer=answer,
        problems=tuple(problems),
        incomplete=incomplete,
        sealed=sealed,
        differences=differences,
        notes=tuple(_notes(view, derivation, recomputed, against)),
        digest=view.digest,
        derivation=derivation,
        recomputed=recomputed,
    )


def _description_problems(view: RecordView) -> Iterator[str]:
    """Yield where a record's description decides verdicts otherwise than the version that made it, if that is this one."""
    if view.meta.description is None or view.meta.swapstone != __version__:
        return
    described = view.meta.description.specs()
    missing = missing_parts(view.meta.description.parts)
    for (suite, name), work in workloads_of(view.experiment, installed=bool(missing)).items():
        known = described.get((suite, name))
        if known is None or _deciding(known) != _deciding(work):
            yield f"record.json describes {suite}/{name} otherwise than this version of Swapstone, which made the record"


def _deciding(work: WorkSpec) -> tuple[object, ...]:
    """Return what of a workload decides verdicts."""
    metrics = tuple((each.name, each.unit, each.quantity, each.better, each.leads) for each in work.metrics)
    return metrics, work.cpus, work.threads, work.waits


def _incomplete(view: RecordView) -> tuple[str, bool]:
    """Return why a record is not all that it was to be, empty if it is, and whether a seal covers all of it."""
    seal = view.seal
    if seal is None:
        return "it has no seal: it is still written, its last session was killed, or the seal was removed", False
    if len(view.runs) > seal.runs:
        return f"{len(view.runs) - seal.runs} runs came after its seal: a session is still written or was killed", False
    if not seal.verdicts:
        return f"its last session ended before the analysis ({seal.why})", True
    return ("" if seal.state == "complete" else seal.why), True


def _answer(
    view: RecordView, problems: Sequence[str], incomplete: str, against: str, derivation: Derivation | None
) -> str:
    if problems:
        return f"Altered: {len(problems)} problem{'s' if len(problems) != 1 else ''}."
    equal = "the same digest and the same verdicts" if against else "the same verdicts"
    unchecked = sum(count for _, count in derivation.underived) if derivation else 0
    underived = f"; {unchecked} runs were not derived again" if unchecked else ""
    if incomplete or view.seal is None:
        same = f"; {equal}" if view.seal is not None and view.seal.verdicts else ""
        return f"Incomplete, and unaltered as far as a record can show: {len(view.runs)} runs; {incomplete}{same}{underived}."
    return (
        f"{'Unaltered' if unchecked else 'Whole and unaltered'}, as far as a record can show: {view.seal.runs} runs, "
        f"sealed as {view.seal.state} ({view.seal.why}); {equal}{underived}."
    )


_FIRST = (
    "tool qemu",
    "tool base boot options",
    "tool boot options",
    "tool kernel",
    "tool guest init",
    "tool agent",
    "tool initrd",
)
"""The inputs of a run in a virtual machine, the most general first. The machine's own facts follow from them."""


def sorted_by_cause(differences: Sequence[str]) -> tuple[str, ...]:
    """Sort differences of two manifests: inputs of a run first, then programs, then what follows from them."""

    def rank(difference: str) -> int:
        places = [place for place, name in enumerate(_FIRST) if difference.startswith(name)]
        return places[0] if places else len(_FIRST) + difference.startswith(("tool ", "machine "))

    return tuple(sorted(differences, key=rank))


def _notes(
    view: RecordView, derivation: Derivation | None, recomputed: Sequence[Recomputed], against: str
) -> Iterator[str]:
    if recomputed:
        equal = sum(each.equal for each in recomputed)
        yield f"{equal} of {len(recomputed)} trials gave the same bytes when they ran again."
    if derivation is not None:
        yield from _derivation_notes(derivation)
    if view.digest and not against:
        yield (
            "These checks find a record that was edited, not one that was made up as a whole and then sealed. Compare the digest with a "
            "published one (--against), or repeat the experiment (`swapstone rerun`)."
        )


def _derivation_notes(found: Derivation) -> Iterator[str]:
    yield f"{found.whole} of {found.runs} runs with samples were derived again from their raw output."
    for reason, count in found.underived:
        yield f"Not derived: {count} runs: {reason}."
    if found.levels:
        names = ", ".join(f"{name} ({count})" for name, count in found.levels)
        yield f"Levels that only the files of the programs show were not observed again: {names}."
    if found.failures:
        yield f"Of {found.failures} failed or refused runs, the raw output shows the failure of {found.failures_shown}."


def _digest_problems(view: RecordView, against: str) -> Iterator[str]:
    """Yield a sentence if the record's digest does not begin with a published one.

    Raises:
        UserError: what was published is no digest.
    """
    published = against.strip().lower()
    if not published:
        return
    if not _DIGEST.fullmatch(published):
        raise UserError(
            f"{against!r} is no digest of a record: that has {FEWEST_DIGITS} to 64 hexadecimal digits.",
            f"Reports print it after the word seal, and so does: sha256sum {view.path}/seal.json",
        )
    if not view.digest:
        yield "it has no seal, and so no digest"
    elif not view.digest.startswith(published):
        yield f"its digest is {view.digest}, not {published}: it is not the record whose digest was published"


def recompute_findings(recomputed: Sequence[Recomputed], causes: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return what trials that ran again show: problems of the record, and what differs because other inputs gave another run.

    Args:
        recomputed: the trials.
        causes: what differs in machine, tools and programs, the most general first.
    """
    if not recomputed:
        return ["it has no trial that could be run again"], ()
    changed = [each for each in recomputed if not each.equal]
    other = [each for each in changed if causes and not each.same_inputs]
    problems = [
        f"{each.key} {_difference(each)}{', from the same inputs' if each.same_inputs else ''}"
        for each in changed
        if each not in other
    ]
    if not other:
        return problems, ()
    first = f"{len(other)} of {len(recomputed)} trials are other runs here; the first fact that differs is {causes[0]}"
    if causes[0].startswith(f"{_FIRST[0]}:"):
        first = (
            f"The record was made with another QEMU, whose runs can't be recomputed with this one: {len(other)} of {len(recomputed)} "
            f"trials are other runs here. {causes[0]}"
        )
    return problems, (first, *causes[1:])


def _difference(each: Recomputed) -> str:
    if each.before != each.now:
        return f"printed other bytes than in the record: {each.now[:12]}, not {each.before[:12]}"
    return f"has another value of the fact {safe(each.other_fact)} than in the record"


def _verdict_problems(view: RecordView) -> list[str]:
    if view.seal is None or len(view.runs) > view.seal.runs or not view.seal.verdicts:
        return []  # `_incomplete` states it
    if record_verdicts(view) != view.seal.verdicts:
        return ["its analysis gives other verdicts than when it was sealed (another version of Swapstone?)"]
    return []
