# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report prints beside the analysis: notes, facts, and the commands that repeat or explain a record."""

from __future__ import annotations

import functools
import importlib
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from swapstone.core.comparison.run_table import as_table, span_ns
from swapstone.core.model import Experiment, FactorLevels, WorkSpec, shown_levels
from swapstone.core.model.parts import missing_parts, provided
from swapstone.core.model.references import study_with_figures
from swapstone.core.model.safe_text import utf8_path
from swapstone.core.record import Description, Meta, RecordView
from swapstone.core.report.context import PartContext, ReportContext
from swapstone.core.report.topics.output_parts import NAME, note
from swapstone.core.session.command_text import command_line
from swapstone.core.session.explainer import explainers
from swapstone.core.session.program_outputs import memory_notes, output_notes
from swapstone.core.session.two_sessions import by_session, session_notes
from swapstone.core.session.varied_outputs import output_parts
from swapstone.version import __version__


def description_of(meta: Meta, experiment: Experiment) -> Description:
    """Return the description of a record.

    Raises:
        UserError: it is a record before 0.2, and this version of Swapstone does not have one of its workloads.
    """
    return _derived(experiment) if meta.description is None else meta.description


@functools.lru_cache(maxsize=8)
def _derived(experiment: Experiment) -> Description:
    # By name: it imports suites, factors, artifacts and targets, which records with a description do without.
    return cast("Description", importlib.import_module("swapstone.core.session.description").describe(experiment))


def works_of(view: RecordView) -> Mapping[str, WorkSpec]:
    """Return a record's works by name, with the programs that were built for their size alone.

    Raises:
        UserError: as `description_of`.
    """
    return {name: work for (_, name), work in description_of(view.meta, view.experiment).specs().items()}


def _clock_note(ns_per_instruction: int, processors: int) -> str:
    each = "one nanosecond" if ns_per_instruction == 1 else f"{ns_per_instruction} ns"
    counts = "It counts the work; caches, buses, memory and branch prediction have no effect on it."
    if processors > 1:
        return (
            f"The clock is virtual: each instruction takes {each} of the guest's time, on {processors} processors in turn. Each runs at "
            f"1/{processors} of the speed, so only machines with {processors} processors are compared. Most runs repeat to the byte, not "
            f"all: the emulator may end a turn early (`swapstone docs virtual-machines`). {counts}"
        )
    return (
        f"The clock is virtual: each instruction takes {each} of the guest's time, on one processor. A run is exact and repeatable "
        f"to the byte. {counts}"
    )


def context_of(view: RecordView, beside: Path | None = None) -> ReportContext:
    """Return the context of a record's report.

    Args:
        view: the record.
        beside: the folder of the report, if the report links to files of the record.
    """
    description = description_of(view.meta, view.experiment)
    first_ns, last_ns = span_ns(as_table(by_session(view)[0].runs, ()))
    of_parts: list[PartContext] = [read(view, description) for read in provided("context", Callable)]
    parts = output_parts(view)
    manifest = view.manifest
    held = (("held in all variants", held_text(view.experiment)),) if view.experiment.held else ()
    facts = (*held, *manifest.machine, *manifest.tools) if manifest else held
    return ReportContext(
        experiment=view.experiment,
        record_id=view.meta.id,
        record_path=utf8_path(view.path),
        started_unix_ns=first_ns,
        finished_unix_ns=last_ns,
        facts=(*facts, *(fact for each in of_parts for fact in each.facts)),
        rerun=f"swapstone rerun {shlex.quote(utf8_path(view.path))}",
        command=command_line(view.experiment),
        published=study_with_figures(view.experiment.published),
        notes=(
            *description.notes,
            *level_notes(view.experiment),
            *session_notes(manifest),
            *(
                f"Made with the part {part}, which is not installed here: the record can be read, not repeated."
                for part in missing_parts(description.parts)
            ),
            *output_notes(view),
            *filter(None, (note(parts),)),
            *memory_notes(view),
            *(text for each in of_parts for text in each.notes),
            *(
                (_clock_note(view.experiment.ns_per_instruction, view.experiment.processors),)
                if view.experiment.virtual
                else ()
            ),
        ),
        version=__version__,
        seal_digest=view.digest,
        pieces={
            NAME: parts,
            **{name: piece for each in of_parts for name, piece in each.pieces.items()},
        },
        reasons=tuple(row for each in explainers() for row in each.summaries(view, beside)),
        explain=f"swapstone explain {shlex.quote(utf8_path(view.path))}" if description.place.explains else "",
        workloads=tuple((suite, each) for (suite, _), each in description.specs().items()),
    )


def level_notes(experiment: Experiment) -> tuple[str, ...]:
    """Return a sentence with the levels that reports print in a shorter form; none without any."""
    pairs = dict(
        pair for each in experiment.applied_factors for pair in zip(shown_levels(each.levels), each.levels, strict=True)
    )
    texts = [f"{shown} is {level}" for shown, level in pairs.items() if shown != level]
    return (f"Levels in full: {'; '.join(texts)}.",) if texts else ()


def held_text(experiment: Experiment) -> str:
    """Return the levels that all variants share, e.g. ``optimization=Os``."""
    return " ".join(FactorLevels(factor=factor, levels=(level,)).text for factor, level in experiment.held)


def describe_experiment(experiment: Experiment) -> str:
    """Return an experiment in one line, e.g. ``libc=glibc,musl on host, 27 workloads``."""
    factors = " ".join(choice.text for choice in experiment.factors)
    factors += f", all with {held_text(experiment)}," if experiment.held else ""
    if experiment.own is not None:
        return f"{factors} on {experiment.target}, {command_line(experiment)}"
    count = len(experiment.workloads)
    return f"{factors} on {experiment.target}, {count} workload{'s' if count != 1 else ''}"
