# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record as the Python API returns it: its comparisons, runs and reports."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from swapstone.core.model import (
    Analysis,
    Comparison,
    Experiment,
    FailureRates,
    RecordError,
    UnavailableError,
    UserError,
)
from swapstone.core.model.errors import as_user_error, hint_of
from swapstone.core.model.safe_text import utf8_path
from swapstone.core.record import RecordView, find_record, record_name
from swapstone.core.record import load as load_view
from swapstone.core.report.answer.outcome import FailIf, Outcome, failing, outcome_of, without_result, worse_rows
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.document import Document
from swapstone.core.report.render import RENDERERS, find_renderer, terminal
from swapstone.core.session import record_cache
from swapstone.core.session.option_values import Duration, duration_ns, duration_seconds, parse_ratio, share_text
from swapstone.core.session.outcome import check_fail_if, parse_fail_if
from swapstone.core.session.record_errors import named_record

if TYPE_CHECKING:
    from swapstone.core.comparison.side_by_side import SideBySide
    from swapstone.core.model.run_sharing import RunSharing
    from swapstone.core.session.explainer import RowExplanation
    from swapstone.core.session.progress import ProgressLike
    from swapstone.core.session.query import Relation
    from swapstone.core.session.verification import Verification

TEXT_WIDTH = 120

Made = TypeVar("Made")


class Record:
    """An experiment and its runs on disk.

    The files are read once, when they are first needed. `reload` reads them again.

    Attributes:
        path: the record's folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Return the name under the root of records, or the folder's name for a record elsewhere."""
        try:
            return record_name(self.path)
        except ValueError:
            return utf8_path(Path(self.path.name))

    @cached_property
    def view(self) -> RecordView:
        """Return the decoded files of the record.

        Raises:
            RecordError: the folder is not a record.
        """
        from swapstone.core.session.run_store import load_columns  # noqa: PLC0415 - a record that is being made is not read

        self._state = record_cache.state_of(self.path)
        try:
            return load_columns(self.path)
        except RecordError as error:
            error.hint = hint_of(error, f"read it: swapstone show {shlex.quote(str(self.path))}")
            raise
        except OSError as error:
            if known := as_user_error(error, f"read it: swapstone show {shlex.quote(str(self.path))}"):
                raise known from error
            raise

    @property
    def experiment(self) -> Experiment:
        """Return the resolved experiment."""
        return self.view.experiment

    @property
    def state(self) -> str:
        """Return ``complete``, ``interrupted`` or ``unsealed``."""
        return self.view.seal.state if self.view.seal else "unsealed"

    @property
    def reason(self) -> str:
        """Return why the experiment ended."""
        return self.view.seal.why if self.view.seal else ""

    @cached_property
    def _analysis(self) -> Analysis:
        from swapstone.core.session.analysis import analyse_record  # noqa: PLC0415 - as above

        view = self.view
        with named_record(self.path):
            return analyse_record(view)

    def analysis(self) -> Analysis:
        """Return the analysis: comparisons, effects, caveats and failures as typed values.

        Raises:
            UserError: the record has a workload that this version of Swapstone does not have.
        """
        return self._analysis

    def worse(self, margin: str | float | None = None, metric: str = "") -> tuple[Comparison, ...]:
        """Return the rows that show a candidate to be worse by more than a margin, as `swapstone compare --fail-if` judges them.

        Args:
            margin: a ratio, or a text such as ``5%``; None for the experiment's margin.
            metric: whose rows are judged; empty for the time or rate that reports read first.

        Raises:
            UserError: nothing measures the metric, or the margin is below the experiment's.
        """
        from swapstone.core.session.report_context import works_of  # noqa: PLC0415 - as above

        ratio = None if margin is None else parse_ratio(share_text(margin), "margin", 0.0, 1.0)
        condition = FailIf(metric=metric, margin=ratio)
        check_fail_if((condition,), self.experiment, lambda: works_of(self.view).values())
        return worse_rows(self.analysis(), self.experiment, (condition,))

    def failing(self) -> tuple[FailureRates, ...]:
        """Return the failure rates of candidates that fail although the baseline works: ``--fail-if`` rejects them."""
        return failing(self.analysis())

    def without_result(self) -> tuple[Comparison, ...]:
        """Return a row of each candidate that gave no result at all; its `reason` states why."""
        return without_result(self.analysis())

    def outcome(self, fail_if: Sequence[FailIf] = ()) -> Outcome:
        """Return the exit status of `swapstone compare` for this record, with the reason."""
        return outcome_of(self.analysis(), self.experiment, fail_if)

    def side_by_side(self, *others: Record) -> SideBySide:
        """Put the rows of this record and others side by side, and judge each.

        Args:
            others: one record of the same factors, measured again, or on another target or clock: do sizes and signs of the effects agree?
                Or records of the same experiment with another time of an instruction on the virtual clock: which rows depend on it? Or two
                or more, each on another board: is the effect the same on each, and what is it over all?

        Raises:
            UserError: two records share runs, or as `swapstone.core.comparison.side_by_side.side_by_side`.
        """
        from swapstone.core.comparison.machine_noise import several_at_once  # noqa: PLC0415 - as above
        from swapstone.core.comparison.run_table import as_table  # noqa: PLC0415 - as above
        from swapstone.core.comparison.side_by_side import side_by_side  # noqa: PLC0415 - as above
        from swapstone.core.session.experiment import check_independent  # noqa: PLC0415 - imports what runs trials
        from swapstone.core.session.report_context import works_of  # noqa: PLC0415 - as above

        if len(others) == 1:
            check_independent(self.view, others[0].view)
        every = (self, *others)
        found = [(each.experiment, each.analysis()) for each in every]
        with named_record(every[-1].path):
            views = [each.view for each in every]
            return side_by_side(
                found,
                lambda: [several_at_once(each.experiment, works_of(each), as_table(each.runs, ())) for each in views],
            )

    def _printed(self, make: Callable[[ReportContext, Analysis], Made], beside: Path | None = None) -> Made:
        """Return what a function makes of the record; `beside` is the folder of a report that links to the record's files."""
        from swapstone.core.session.report_context import context_of  # noqa: PLC0415 - as above

        view, analysis = self.view, self._analysis
        with named_record(self.path):
            return make(context_of(view, beside), analysis)

    def comparisons(self) -> Relation:
        """Return one row a comparison, with the columns of `swapstone query`'s table ``comparisons``."""
        return self._table("comparisons")

    def effects(self) -> Relation:
        """Return one row a main effect, simple effect or interaction of crossed factors."""
        return self._table("effects")

    def runs(self) -> Relation:
        """Return one row a run."""
        return self._table("runs")

    def samples(self) -> Relation:
        """Return one row a run and metric."""
        return self._table("samples")

    def _table(self, name: str) -> Relation:
        analysis = self._analysis if name in {"comparisons", "effects"} else None
        from swapstone.core.session.query import NamedRecord, table_of  # noqa: PLC0415 - few callers need tables

        return table_of(NamedRecord(self.name, self.path), name, analysis)

    def document(self, selection: Selection | None = None, beside: Path | None = None) -> Document:
        """Return the report as a document that any renderer prints.

        Args:
            selection: which rows; without it, those that are read first.
            beside: the folder of a report that links to the record's files.
        """
        from swapstone.core.report import record_report  # noqa: PLC0415 - as above

        chosen = selection or Selection()
        document = self._printed(
            lambda context, found: record_report.document_of(msgspec.structs.replace(context, selection=chosen), found),
            beside,
        )
        if beside is None and chosen == Selection():
            printed = msgspec.structs.replace(document, page_sections=())
            record_cache.keep(self.path, record_cache.DOCUMENT, self._state, printed)
        return document

    @property
    def answer(self) -> str:
        """Return the result in one or two sentences, with which every report begins."""
        from swapstone.core.report.record_report import answer_of  # noqa: PLC0415 - as above

        return self._printed(answer_of)

    def report(self, format: str = "text", *, every: bool = False) -> str:
        """Return the report in a format.

        Args:
            format: one of `swapstone report --format` or of `swapstone export --format`.
            every: whether text has every row, instead of the answer and an overview of at most 40 lines.

        Raises:
            UserError: there is no such format.
        """
        from swapstone.core.report import export  # noqa: PLC0415 - imports what writes XML, and a table does without

        if format in export.EXPORTS:
            return self._printed(export.EXPORTS[format])
        names = [renderer.name for renderer in RENDERERS]
        if format not in names:
            known = ", ".join(sorted([*names, *export.EXPORTS]))
            raise UserError(f"There is no format {format!r}.", f"The formats are {known}.")
        document = self.document(Selection(every=every), self.path if format == "html" else None)
        with named_record(self.path):
            if format == "text":
                return terminal.render(document, terminal.Terminal(width=TEXT_WIDTH, every=every))
            return find_renderer(format).render(document)

    @property
    def digest(self) -> str:
        """Return the digest of the whole record: the SHA-256 of ``seal.json``; empty if it is not sealed."""
        return self.view.digest

    def verify(
        self,
        recompute: int = 0,
        progress: ProgressLike = None,
        *,
        against: str = "",
        trust: bool = False,
    ) -> Verification:
        """Check that the record is whole and unaltered and gives the same verdicts. No program runs unless `recompute` is given.

        Args:
            recompute: how many random trials run again; on the virtual clock their output must be equal to the byte.
            progress: receives events.
            against: the digest that was published of the record, or at least its first 16 digits; empty to compare none.
            trust: whether trials may run again though another user or machine made the record, or it was edited.

        Raises:
            UserError: trials should run again, but the record was measured on a wall clock or is not trusted; or `against` is no
                digest.
        """
        from swapstone.core.session.progress import as_progress  # noqa: PLC0415 - as above
        from swapstone.core.session.verification import verify_record  # noqa: PLC0415 - imports what runs trials

        return verify_record(
            load_view(self.path),
            recompute,
            as_progress(progress),
            against=against,
            trust=trust,
        )

    def explain(
        self, workload: str | None = None, *, progress: ProgressLike = None, **options: object
    ) -> RowExplanation:
        """Explain a row: run its two variants under instruments, and split the difference into causes.

        Args:
            workload: name or pattern; without it, the row with the largest difference.
            progress: receives events.
            **options: of the part that explains: `swapstone.parts.explain.session.explain.ExplainOptions` without `workload`.

        Raises:
            UserError: no row matches, the row can't be run under instruments, or the record is not trusted.
            TypeError: there is no such option.
        """
        from swapstone.core.session.explainer import explainers  # noqa: PLC0415 - as above
        from swapstone.core.session.progress import as_progress  # noqa: PLC0415 - as above

        view = self.view if isinstance(self.view.runs, tuple) else load_view(self.path)  # commands of it will run
        for each in explainers():
            return each.explain(view, self._analysis, {"workload": workload, **options}, as_progress(progress))
        raise UnavailableError("No installed part explains rows.")

    def resume(
        self,
        budget: Duration = None,
        *,
        no_cache: bool = False,
        guest_timeout: Duration = None,
        fail_if: Sequence[str] = (),
        trust: bool = False,
        sharing: RunSharing | None = None,
        progress: ProgressLike = None,
    ) -> Record:
        """Resume the experiment if it was interrupted.

        Args:
            budget: a new budget for the whole experiment; None for the old one.
            no_cache: repeat runs of virtual machines that are in the cache.
            guest_timeout: limit of a virtual machine's run, in this machine's time; 10 minutes if None.
            fail_if: texts of ``--fail-if``, which are checked before anything is measured.
            trust: whether the record's commands may run though another user or machine made it.
            sharing: the store and the workers of the runs; None for this machine alone.
            progress: receives events.

        Raises:
            UserError: the record is complete, altered or not trusted, or machine or programs changed.
            Interrupted: a signal ended it; the record is sealed.
        """
        from swapstone.core.session.experiment import resume  # noqa: PLC0415 - as above
        from swapstone.core.session.progress import as_progress  # noqa: PLC0415 - as above
        from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions  # noqa: PLC0415 - as above

        options = RunOptions(
            no_cache=no_cache,
            guest_timeout_s=duration_seconds(guest_timeout),
            fail_if=parse_fail_if(fail_if),
            trust=trust,
            sharing=sharing or DEFAULT_OPTIONS.sharing,
        )
        resume(self.path, duration_ns(budget), options=options, progress=as_progress(progress))
        return Record(self.path)

    def rerun(self, out: str | Path | None = None, progress: ProgressLike = None, *, trust: bool = False) -> Record:
        """Run the experiment again into a new record, with the same plan and the same passes.

        Args:
            out: the folder of the new record; None for a new one under the root of records.
            progress: receives events.
            trust: whether the record's commands may run though another user or machine made it, or it was edited.

        Raises:
            UserError: the record is not trusted, or the experiment can't run here.
            Interrupted: a signal ended it; the new record is sealed.
        """
        from swapstone.core.session.experiment import rerun  # noqa: PLC0415 - as above
        from swapstone.core.session.progress import as_progress  # noqa: PLC0415 - as above

        return Record(rerun(self.view, Path(out) if out else None, as_progress(progress), trust=trust))

    def reload(self) -> Record:
        """Return the record with its files read again."""
        return Record(self.path)

    def __repr__(self) -> str:
        try:
            return f"<Record {self.path}: {self.state}, {len(self.view.runs)} runs>"
        except RecordError:
            return f"<Record {self.path}>"


def open_record(name: str) -> Record:
    """Open a record by its path, its name under the root of records, or ``last``.

    Raises:
        RecordError: there is none; names the nearest ones.
    """
    return Record(find_record(name))
