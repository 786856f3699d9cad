# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `swapstone compare` as typed, and the experiments that they describe."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from swapstone.core.model import VIRTUAL_CLOCK, Experiment, UserError, check_distinct, check_scale
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.safe_text import safe
from swapstone.core.record.writer import check_unused
from swapstone.core.session.agreement_output import records_of
from swapstone.core.session.command_lines import split_arguments
from swapstone.core.session.experiment import check_experiment, check_programs, resume, start
from swapstone.core.session.option_values import duration_ns
from swapstone.core.session.options import settings_from, typed
from swapstone.core.session.outcome import Interrupted
from swapstone.core.session.progress import Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.request import request_of, resolve
from swapstone.core.session.run_options import RunOptions, run_options_of
from swapstone.core.targets import clock_of, find_target_kind, target_kinds


class TypedComparison(NamedTuple):
    """A comparison as a command line describes it.

    Attributes:
        experiment: resolved.
        out: the record's folder; None for a new one.
        options: how it runs.
    """

    experiment: Experiment
    out: Path | None
    options: RunOptions


class ComparisonRun(NamedTuple):
    """Comparisons of a command line that are printed together.

    Attributes:
        records: one, or those of several clocks or boards, which are printed side by side.
        architecture: of their machine; empty where the command line names at most one.
    """

    records: list[Record]
    architecture: str = ""


def run_options(
    options: Mapping[str, object], program: tuple[str, ...] | None, progress: Progress
) -> Iterator[ComparisonRun]:
    """Run the comparisons that a command line describes: one, or one for each board, architecture and time of an instruction.

    Args:
        options: of the command, by the names of its parameters.
        program: what stands after ``--``; None for nothing.
        progress: receives events.

    Yields:
        The comparisons of each architecture when they end, or those of all boards. All are checked before the first one runs.

    Raises:
        UserError: an option is wrong, or an experiment can't run here. A board that fails leaves the others to be measured first.
        Interrupted: a signal ended it; the record is sealed.
    """
    boards, architectures, scales = _several(options)
    if len(boards) > 1:
        yield from _on_boards(boards, options, program, progress)
        return
    machines, clocks = len(architectures) > 1, len(scales) > 1
    seed = options.get("seed")
    if clocks and seed is None:
        seed = secrets.randbelow(2**31)
    made, ended = [], list[Record]()
    for machine, scale in itertools.product(architectures or ("",), scales or (1,)):
        names = [*([machine] if machines else []), *([f"{scale}ns"] if clocks else [])]
        out = "/".join((str(options["out"]), *names)) if options.get("out") else None
        own = {"architecture": machine, "ns_per_instruction": scale, "seed": seed, "out": out}
        made.append((machine, scale, _unused({**options, **own} if names else options, program)))
    check_programs((comparison.experiment for _, _, comparison in made), every=True)
    for number, (machine, scale, comparison) in enumerate(made, start=1):
        if machines or clocks:
            texts = [*([machine] if machines else []), *([f"{scale} ns per instruction"] if clocks else [])]
            what = "clock" if clocks else "architecture"
            progress.note(f"{what} {number} of {len(made)}: {' at '.join(texts)}")
        ended.append(_run(comparison, progress))
        if not clocks or scale == scales[-1]:
            yield ComparisonRun(ended, machine if machines else "")
            ended = []


def _several(options: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Return the boards, architectures and times of an instruction that a command line names."""
    names = parse_architectures(_text_of(options, "architecture"))
    return parse_boards(_text_of(options, "target")), names, parse_scales(options.get("ns_per_instruction"))


def _unused(options: Mapping[str, object], program: tuple[str, ...] | None) -> TypedComparison:
    """Return a comparison whose record can be written."""
    comparison = typed_comparison(options, program)
    if comparison.out:
        with contextlib.suppress(OSError):  # the record's writer reports them
            check_unused(comparison.out)
    return comparison


def _run(comparison: TypedComparison, progress: Progress) -> Record:
    experiment, out, options = comparison
    return Record(start(experiment, out, options=options, progress=progress))


def _on_boards(
    boards: Sequence[str], options: Mapping[str, object], program: tuple[str, ...] | None, progress: Progress
) -> Iterator[ComparisonRun]:
    """Run a comparison on several boards, one after another; see `run_options`."""
    if "," in _text_of(options, "architecture") or "," in str(options.get("ns_per_instruction") or ""):
        raise UserError("Several boards take one architecture and one clock.", "Leave --arch out: boards are asked.")
    clock = _text_of(options, "clock")
    if exact := next((board for board in boards if clock_of(board, clock) == VIRTUAL_CLOCK), ""):
        raise UserError(
            f"Several boards are measured on the wall clock, and {safe(exact)} has the virtual one.",
            "Add --clock wall, or name each target in a command of its own.",
        )
    in_labs = [board for board in boards if find_target_kind(board).file_option]
    made = []
    for number, board in enumerate(boards, start=1):
        own = {"target": board, "out": f"{options['out']}/board-{number}" if options.get("out") else None}
        if in_labs and board not in in_labs:
            own["lg_env"] = None
        comparison = _unused({**options, **own}, program)
        check_experiment(comparison.experiment)
        how = dataclasses.replace(comparison.options, label=f"board {number} of {len(boards)}")
        made.append(comparison._replace(options=how))
    records, failed = [], list[UserError]()
    for board, comparison in zip(boards, made, strict=True):
        progress.note(f"{comparison.options.label}: {safe(board)}")
        try:
            records.append(_run(comparison, progress))
        except UserError as error:
            failed.append(error)
            progress.note(f"{comparison.options.label}, {safe(board)}, ended early: {error.message}")
        except Interrupted:
            if later := boards[len(records) + len(failed) + 1 :]:
                progress.note(f"Not measured: {safe(', '.join(later))}")
            raise
    if failed:
        ended = ", ".join(str(record.path) for record in records)
        others = f"The other boards were measured to their end: {ended}." if records else ""
        failed[0].hint = f"{failed[0].hint}\n{others}".strip()
        raise failed[0]
    yield ComparisonRun(records)


def resume_named(name: str, options: Mapping[str, object], *, trust: bool, progress: Progress) -> list[Record]:
    """Resume the record that a name stands for, or in a folder of several boards those that are not complete; with a new budget, all.

    Args:
        name: as of `swapstone.core.session.agreement_output.records_of`.
        options: of `swapstone compare`, by the names of its parameters.
        trust: whether the records' commands may run though another user or machine made them.
        progress: receives events.

    Returns:
        All records, in their order.

    Raises:
        UserError: there is nothing to resume, or as `swapstone.core.session.experiment.resume`.
        Interrupted: a signal ended it; the record is sealed.
    """
    given = typed(options)
    settings = settings_from(given)
    records = records_of(name)
    going = [record for record in records if len(records) == 1 or "budget" in given or record.state != "complete"]
    if not going:
        raise UserError(
            f"All records in {name} are complete: there is nothing to resume.",
            f"Give them more time with --budget, or print them: swapstone agree {shlex.quote(name)}",
        )
    how = run_options_of(settings, _texts_of(given, "fail_if"), trust=trust)
    for record in going:
        resume(record.path, duration_ns(settings.measuring.budget), options=how, progress=progress)
    return [record.reload() for record in records]


def parse_boards(text: str) -> tuple[str, ...]:
    """Parse targets, separated by commas before the name of a kind of target; none for an empty text.

    Raises:
        UserError: one is named twice.
    """
    kinds = "|".join(re.escape(kind.name) for kind in target_kinds())
    boards = tuple(re.split(rf",(?=(?:{kinds})(?:[:,]|\Z))", text)) if text else ()
    check_distinct(map(safe, boards), "--target names {} twice.", "Name each board once.")
    return boards


def parse_scales(text: object) -> tuple[int, ...]:
    """Parse times of an instruction in nanoseconds, separated by commas; none for None.

    Raises:
        UserError: one is no number that the virtual clock can count, or is named twice.
    """
    scales: list[int] = []
    for word in () if text is None else str(text).split(","):
        if not re.fullmatch(r"[0-9]{1,40}", word.strip(), re.ASCII):
            raise UserError(
                f"--ns-per-instruction {word.strip()[:40]!a} is no whole number of nanoseconds.",
                "For example: --ns-per-instruction 1,2,4",
            )
        scales.append(check_scale(int(word)))
    written = ",".join(dict.fromkeys(map(str, scales)))
    check_distinct(map(str, scales), "--ns-per-instruction names {} twice.", f"Write: --ns-per-instruction {written}")
    return tuple(scales)


def single_comparison(options: Mapping[str, object], program: tuple[str, ...] | None) -> TypedComparison:
    """Return the only comparison that a command line describes.

    Args:
        options: as of `run_options`.
        program: as of `run_options`.

    Raises:
        UserError: an option is wrong, or the command line describes several experiments.
    """
    counts = map(len, _several(options))
    several = zip(("--target", "--arch", "--ns-per-instruction"), counts, strict=True)
    if name := next((name for name, count in several if count > 1), ""):
        raise UserError(f"{name} takes one value here.", "Give the command once for each.")
    return typed_comparison(options, program)


def parse_architectures(text: str) -> tuple[str, ...]:
    """Parse names of architectures, separated by commas; none for an empty text.

    Raises:
        UserError: one is unknown, or named twice.
    """
    names = tuple(find_architecture(name.strip()).name for name in text.split(",")) if text else ()
    check_distinct(names, "--arch names {} twice.", f"Write: --arch {','.join(dict.fromkeys(names))}")
    return names


def _text_of(options: Mapping[str, object], name: str) -> str:
    return str(options.get(name) or "")


def typed_comparison(options: Mapping[str, object], program: tuple[str, ...] | None) -> TypedComparison:
    """Return the comparison of a command line: the options of `run_options`, with one architecture, clock and board.

    Raises:
        UserError: an option is wrong.
    """
    given = typed(options)
    factors, commands = split_arguments(_texts_of(given, "factors"))
    settings = settings_from({**given, "command": program, "commands": commands})
    how = run_options_of(settings, _texts_of(given, "fail_if"))
    out = Path(str(given["out"])) if "out" in given else None
    return TypedComparison(resolve(request_of(factors, settings)), out, how)


def _texts_of(given: Mapping[str, object], name: str) -> tuple[str, ...]:
    return msgspec.convert(given.get(name, ()), tuple[str, ...])
