# SPDX-License-Identifier: MIT OR Apache-2.0
"""Samples, checksums, observed levels and failures of a record's runs, derived again from what the programs printed.

Only files of the record are read, and no program is run.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from pathlib import Path

import msgspec

from swapstone.core import plan, workloads
from swapstone.core.factors import Evidence, find_factor, is_root_factor, is_unobserved
from swapstone.core.factors.factor import BOOTED_ROOT
from swapstone.core.factors.mounts import mounted_content
from swapstone.core.model import (
    DID_OTHER_WORK,
    DIRECTION_RULES,
    OwnProgram,
    Run,
    Sample,
    Status,
    UserError,
    Variant,
    WireError,
)
from swapstone.core.model.observation import changed_conditions
from swapstone.core.model.parts import missing_parts
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import KeptOutputs, RecordView
from swapstone.core.session.pattern_limit import SlowPatternError, limited_patterns
from swapstone.core.wire import AgentAnswer
from swapstone.core.wire.kept_answer import decode_kept, restored
from swapstone.core.wire.output_reading import Measured, OutputReader, reader_of
from swapstone.core.wire.own_program_output import OutputDigests, without_name, without_paths
from swapstone.version import __version__

_CLOSE = 1e-9
"""Relative difference of two computations of one sample: sums may be rounded in another order."""

_BAD_DATA = (UserError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""What a decoder may raise of data that it was not made for."""


@dataclasses.dataclass(frozen=True)
class Derivation:
    """What a record's raw output shows of its runs.

    Attributes:
        runs: number of runs with samples.
        whole: how many of them were derived again, samples and all.
        underived: pairs (reason, number of runs) of the others.
        levels: pairs (factor, number of derived runs whose level can't be observed again, as that needs the files of the programs).
        failures: number of failed and refused runs.
        failures_shown: how many of them the raw output shows to have failed.
        problems: what the raw output contradicts, one sentence each.
    """

    runs: int
    whole: int
    underived: tuple[tuple[str, int], ...]
    levels: tuple[tuple[str, int], ...]
    failures: int
    failures_shown: int
    problems: tuple[str, ...]


class _ContradictionError(Exception):
    """The raw output contradicts the run; the text is a sentence about the run without its subject."""


class _UnderivableError(Exception):
    """The raw output does not determine the run; the text is the reason, equal for equal reasons."""


def _contradict(*reasons: tuple[object, str]) -> None:
    """Raise the error of the first pair (condition, text) whose condition holds."""
    for condition, text in reasons:
        if condition:
            raise _ContradictionError(text)


def derive(view: RecordView) -> Derivation:
    """Derive every run of a record again from its raw output.

    Raises:
        UserError: this version of Swapstone does not have a workload of the record.
    """
    with KeptOutputs(view.path) as outputs:
        return _Deriver(view, outputs).all()


class _Deriver:
    def __init__(self, view: RecordView, outputs: KeptOutputs) -> None:
        self._view = view
        self._outputs = outputs
        self._missing = missing_parts(view.meta.description.parts if view.meta.description else ())
        works = workloads.workloads_of(view.experiment, installed=bool(self._missing))
        self._readers = {key: reader_of(work) for key, work in works.items()}
        self._variants = {variant.label: variant for variant in plan.variants(view.experiment)}
        self._digests = OutputDigests()
        artifacts = view.manifest.artifacts if view.manifest else ()
        self._paths = {(each.suite, each.workload, each.variant): each.path for each in artifacts}
        self._sources = {(each.suite, each.workload, each.variant): dict(each.sources) for each in artifacts}
        self._unseen: collections.Counter[str] = collections.Counter()
        self._too_slow = ""
        """Why no further run is derived; empty at first."""
        self._strict = view.experiment.rules > 1
        self._same_version = view.meta.swapstone == __version__
        self._checks: dict[tuple[str, str], str] = {}
        """The checksum of each workload's work, as the first run with samples has it."""
        for run in view.runs:
            if run.status is Status.OK and run.check:
                self._checks.setdefault((run.trial.suite, run.trial.workload), run.check)

    def all(self) -> Derivation:
        """Derive every run."""
        problems: list[str] = []
        underived: collections.Counter[str] = collections.Counter()
        whole = shown = failures = 0
        for run in self._view.runs:
            if run.status is Status.UNAVAILABLE:
                continue
            if run.trial.variant == self._view.experiment.earlier:
                underived["an earlier session made them: verify its record"] += run.status is Status.OK
                continue
            ok = run.status is Status.OK
            failures += not ok
            try:
                self._derive(run)
            except SlowPatternError as error:
                self._too_slow = str(error)
                underived[str(error)] += ok
            except _ContradictionError as error:
                problems.append(f"the run {run.trial.key} {error}")
            except _UnderivableError as error:
                underived[str(error)] += ok
            except _BAD_DATA as error:
                problems.append(f"the raw output of the run {run.trial.key} can't be read: {str(error)[:200]}")
            else:
                whole += ok
                shown += not ok
        return Derivation(
            runs=sum(run.status is Status.OK for run in self._view.runs),
            whole=whole,
            underived=tuple((reason, count) for reason, count in underived.items() if count),
            levels=tuple(self._unseen.items()),
            failures=failures,
            failures_shown=shown,
            problems=(
                *problems,
                *(
                    f"the run {run.trial.key} did other work than the first run of {run.trial.workload}"
                    for run in self._view.runs
                    if run.status is Status.OK
                    and run.check != self._checks.get((run.trial.suite, run.trial.workload), "")
                ),
            ),
        )

    def _has_factors(self, run: Run) -> bool:
        """Return whether the factors of a run's variant are installed."""
        variant = self._variants.get(run.trial.variant)
        try:
            return all(find_factor(name) for name, _ in (variant.levels if variant else ()))
        except UserError:
            return False

    def _derive(self, run: Run) -> None:
        """Derive one run."""
        reader = self._readers.get((run.trial.suite, run.trial.workload))
        variant = self._variants.get(run.trial.variant)
        if self._missing and (reader is None or not self._has_factors(run)):
            raise _UnderivableError(f"the part {', '.join(self._missing)} is not installed")
        if reader is None or variant is None:
            raise _ContradictionError("is not of this experiment")
        if self._too_slow:
            raise _UnderivableError(self._too_slow)
        if not run.answer:
            if self._strict and run.status is Status.OK:
                raise _ContradictionError("has samples, and no answer of the agent is kept")
            why = "this record does not keep the agent's answers" if run.status is Status.OK else ""  # before 0.2
            raise _UnderivableError(why)
        answer, shortened = self._answer(run)
        if run.status is Status.OK:
            self._derive_ok(run, reader, variant, answer, shortened=shortened)
        else:
            _check_failure(run, reader, answer, self._checks.get((run.trial.suite, run.trial.workload), ""))

    def _answer(self, run: Run) -> tuple[AgentAnswer, bool]:
        """Return the agent's answer with its outputs, and whether outputs were shortened."""
        data, raw = self._outputs.read(run.answer), self._outputs.read(run.output)
        if data is None or (raw is None and run.output):
            raise _UnderivableError("the raw output is missing or altered")
        try:
            kept = decode_kept(data)
            answer = restored(kept, raw or b"")
        except WireError as error:
            raise _ContradictionError(f"has raw output that does not belong together: {error.message}") from error
        _contradict(
            (answer.id != run.trial.identity, f"has the agent's answer to another trial, {answer.id}"),
            (answer.facts != run.facts, "has other facts than the agent's answer"),
            (answer.name != run.name, "has other name than the agent's answer"),
        )
        return answer, kept.shortened

    def _derive_ok(
        self, run: Run, reader: OutputReader, variant: Variant, answer: AgentAnswer, *, shortened: bool
    ) -> None:
        failure, changed = reader.trouble(answer), changed_conditions(dict(answer.facts))
        _contradict(
            (failure, f"is marked ok, and its raw output shows a failure: {failure}"),
            (changed, "is marked ok, and its raw output shows that the conditions changed"),
        )
        measured = _read(reader, answer, shortened=shortened)
        self._compare(run, measured, extra=self._strict and self._same_version)
        self._compare_levels(run, variant, answer, measured)
        own = self._view.experiment.own
        if own is not None and not own.output and not own.load_generators and not shortened:
            with limited_patterns():
                self._compare_output(own, run, answer)

    def _compare(self, run: Run, measured: Measured, *, extra: bool) -> None:
        """Compare samples, checksum, histogram and series with those of the run."""
        derived = {sample.metric for sample in measured.samples}
        # Another version of Swapstone may derive more than this one.
        unknown = [] if self._same_version else [each.metric for each in run.samples if each.metric not in derived]
        sample = _different(
            tuple(each for each in run.samples if each.metric not in unknown), measured.samples, extra=extra
        )
        series = _different(run.series, measured.series, extra=extra)
        histograms = (run.histogram, run.by_processor) != (measured.histogram, measured.by_processor)
        _contradict(
            (sample, f"has other samples of {sample} than its raw output"),
            (series, f"has other series of {series} than its raw output"),
            (
                run.seen and run.seen != measured.seen,
                "has other observations than its raw output",
            ),  # older records have none
            (run.check != measured.check, "has another checksum of its work than its raw output"),
            (histograms, "has another histogram than its raw output"),
        )
        if unknown:
            raise _UnderivableError(
                f"Swapstone {safe_excerpt(self._view.meta.swapstone, 20)} made the record, and {__version__} derives no {unknown[0]}"
            )

    def _compare_levels(self, run: Run, variant: Variant, answer: AgentAnswer, measured: Measured) -> None:
        """Compare the levels that the answer alone shows, without the files of programs, with those of the run."""
        evidence = Evidence(
            interp=answer.interp,
            objects=answer.objects,
            mapped=measured.mapped,
            facts=answer.facts,
            machine=answer.machine,
            observed=answer.observed,
            absent=answer.absent,
            seen=measured.seen,
        )
        recorded = dict(run.observed)
        sources = self._sources.get((run.trial.suite, run.trial.workload, run.trial.variant), {})
        for name, requested in variant.levels:
            level = recorded.get(name, "")
            if level != requested and not is_unobserved(name, level):
                raise _ContradictionError(f"is marked ok, and {name}={level or 'unknown'} was in force")
            # A path would be read on this machine. A static program shows by its file alone that it has no loader.
            factor = find_factor(name)
            without_loader = answer.interp is None and getattr(factor, "shown_by_loader", False)
            hidden = "/" in requested or is_root_factor(name) or without_loader
            # Which root a board booted is in the answer as a level.
            hidden = hidden and not (is_root_factor(name) and evidence.machine_text(BOOTED_ROOT))
            content = sources.get(f"{name} {requested}", "") if is_root_factor(name) else ""
            # The folder of a root is named by its content's digest, which the manifest has: nothing is read.
            if content:
                rooted = {"root": mounted_content(evidence, content), "path_levels": ((name, requested),)}
                now = factor.observe(msgspec.structs.replace(evidence, **rooted))
            else:
                now = None if hidden else factor.observe(evidence)
            if now is None:
                self._unseen[name] += 1
            elif now != level:
                raise _ContradictionError(f"has the level {name}={level}, and its raw output shows {now}")

    def _compare_output(self, own: OwnProgram, run: Run, answer: AgentAnswer) -> None:
        """Compare the digests of what a run printed, in which the paths of the program and of its folder may be replaced."""
        path = self._paths.get((run.trial.suite, run.trial.workload, run.trial.variant), "")
        printed = (answer.stdout, without_name(answer.stderr, path))
        recorded = dict(run.digests)
        for paths in (("", ""), (path, ""), (path, str(Path(path).parent))):
            stdout, stderr = (without_paths(each, *paths) for each in printed)
            found = dict(self._digests.of_printed(own, stdout, stderr))
            if self._view.experiment.rules < DIRECTION_RULES:  # they have neither columns nor standard error
                found = {name: digest for name, digest in found.items() if name in recorded}
            if found.items() <= recorded.items():
                return
        if b"/" not in answer.stdout + answer.stderr:  # no path can have been replaced
            raise _ContradictionError("has other digests of its output than its raw output")


def _read(reader: OutputReader, answer: AgentAnswer, *, shortened: bool) -> Measured:
    try:
        with limited_patterns():
            return reader.read(answer)
    except UserError as error:
        if shortened:
            raise _UnderivableError("a number may be in the part of the output that was not kept") from error
        raise _ContradictionError(f"has raw output without its samples: {error.message}") from error


def _different(then: tuple[Sample, ...], now: tuple[Sample, ...], *, extra: bool) -> str:
    """Return the name of a metric whose values differ; empty if none does. With `extra`, further metrics are a difference too."""
    derived = {sample.metric: sample.values for sample in now}
    for sample in then:
        values = derived.pop(sample.metric, None)
        if values is None or len(values) != len(sample.values):
            return sample.metric
        if not all(math.isclose(a, b, rel_tol=_CLOSE) for a, b in zip(values, sample.values, strict=True)):
            return sample.metric
    return next(iter(derived), "") if extra else ""


def _check_failure(run: Run, reader: OutputReader, answer: AgentAnswer, check: str) -> None:
    """Check that the raw output of a failed or refused run shows why.

    Raises:
        _ContradictionError: it shows none.
        _UnderivableError: the reason is not in the raw output: a command after the run failed, or another level was in force.
    """
    if reader.trouble(answer):
        return
    if run.status is Status.REFUSED and not run.reason.startswith(DID_OTHER_WORK):
        raise _UnderivableError("")
    try:
        with limited_patterns():
            measured = reader.read(answer)
    except UserError:
        return
    if run.status is Status.REFUSED:
        if measured.check != check:
            return
        raise _ContradictionError("is marked refused for other work, and its raw output shows the same work")
    if run.reason.startswith(("its --conclude command failed", "its artifact ")):
        raise _UnderivableError("")
    raise _ContradictionError("is marked failed, and its raw output shows no failure")
