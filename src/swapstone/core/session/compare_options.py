# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `swapstone compare` as typed, and the requests that they make."""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import attrs
import msgspec

from swapstone.core.model import VIRTUAL_CLOCK, Experiment, UserError, check_scale
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.safe_text import safe
from swapstone.core.record.writer import check_unused
from swapstone.core.run import Steps
from swapstone.core.session.board_runs import run_boards
from swapstone.core.session.command_lines import split_arguments
from swapstone.core.session.progress import Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.request_resolution import check_request, resolve_request
from swapstone.core.session.requested_run import run_request, run_request_by_block
from swapstone.core.session.run_options import RunOptions, run_options_of
from swapstone.core.session.settings import Settings, settings_from, typed
from swapstone.core.targets import clock_of, find_target_kind, target_kinds


@attrs.frozen
class TypedComparison:
    """A comparison as a command line describes it.

    Attributes:
        factors: texts ``FACTOR=BASELINE,CANDIDATE``.
        settings: of the user.
        out: the record's folder; None for a new one.
        options: how it runs.
    """

    factors: tuple[str, ...]
    settings: Settings
    out: Path | None
    options: RunOptions

    def check(self) -> None:
        """Check, before anything is fetched, that it can run here and that its record can be written.

        Raises:
            UserError: it can't.
        """
        if self.out:
            with contextlib.suppress(OSError):  # the record's writer reports them
                check_unused(self.out)
        check_request(self.factors, self.settings)

    def run(self, progress: Progress) -> Record:
        """Run it; see `run_options`."""
        return run_request(self.factors, self.settings, out=self.out, options=self.options, progress=progress)

    def run_by_block(self, progress: Progress) -> Steps[Path]:
        """Run it step by step; see `swapstone.core.session.board_runs`."""
        return run_request_by_block(self.factors, self.settings, out=self.out, options=self.options, progress=progress)


class ComparisonRun(NamedTuple):
    """One of the comparisons of a command line.

    Attributes:
        record: its record.
        architecture: of its machine; empty where the command line names at most one.
        ns_per_instruction: of its clock; 0 where the command line names at most one.
        last: whether it is the last one of its architecture, or of its boards.
        board: its target; empty where the command line names at most one.
    """

    record: Record
    architecture: str = ""
    ns_per_instruction: int = 0
    last: bool = True
    board: str = ""

    @property
    def is_beside_others(self) -> bool:
        """Whether its record is printed beside those of other clocks or boards."""
        return bool(self.ns_per_instruction or self.board)


def run_options(
    options: Mapping[str, object], program: tuple[str, ...] | None, progress: Progress
) -> Iterator[ComparisonRun]:
    """Run the comparisons that a command line describes: one, or one for each board, architecture and time of an instruction.

    Args:
        options: of the command, by the names of its parameters.
        program: what stands after ``--``; None for nothing.
        progress: receives events.

    Yields:
        Each comparison when it ends, those of an architecture one after another, those of several boards together. All are checked before
        the first one runs.

    Raises:
        UserError: an option is wrong, or an experiment can't run here.
        Interrupted: a signal ended it; the record is sealed.
    """
    architectures = parse_architectures(_text_of(options, "architecture"))
    scales = parse_scales(options.get("ns_per_instruction"))
    boards = parse_boards(_text_of(options, "target"))
    if len(boards) > 1:
        yield from _on_boards(boards, options, program, progress)
        return
    if len(architectures) < 2 and len(scales) < 2:
        yield ComparisonRun(typed_comparison(options, program).run(progress))
        return
    several = len(architectures) > 1, len(scales) > 1
    seed = options.get("seed") if options.get("seed") is not None else secrets.randbelow(2**31)
    each = {}
    for machine, scale in itertools.product(architectures or ("",), scales or (1,)):
        names = [name for name, many in zip((machine, f"{scale}ns"), several, strict=True) if many]
        own = {
            "architecture": machine,
            "ns_per_instruction": scale,
            "seed": seed if several[1] else options.get("seed"),
        }
        out = "/".join((_text_of(options, "out"), *names)) if options.get("out") else None
        each[machine, scale] = typed_comparison({**options, **own, "out": out}, program)
    for comparison in each.values():
        comparison.check()
    for number, ((machine, scale), comparison) in enumerate(each.items(), start=1):
        name = " at ".join(
            [*([machine] if several[0] else []), *([f"{scale} ns per instruction"] if several[1] else [])]
        )
        progress.note(f"{'clock' if several[1] else 'architecture'} {number} of {len(each)}: {name}")
        record = comparison.run(progress)
        last = not several[1] or scale == scales[-1]
        yield ComparisonRun(record, machine if several[0] else "", scale if several[1] else 0, last)


def _on_boards(
    boards: tuple[str, ...], options: Mapping[str, object], program: tuple[str, ...] | None, progress: Progress
) -> Iterator[ComparisonRun]:
    """Run a comparison on several boards, interleaved by block; see `run_options`."""
    if "," in _text_of(options, "architecture") or "," in str(options.get("ns_per_instruction") or ""):
        raise UserError("Several boards take one architecture and one clock.", "Leave --arch out: boards are asked.")
    clock = _text_of(options, "clock")
    if exact := next((board for board in boards if clock_of(board, clock) == VIRTUAL_CLOCK), ""):
        raise UserError(
            f"Several boards are measured on the wall clock, and {safe(exact)} has the virtual one.",
            "Add --clock wall, or name each target in a command of its own.",
        )
    each = []
    in_labs = [board for board in boards if find_target_kind(board).file_option]
    for number, board in enumerate(boards, start=1):
        own: dict[str, object] = {
            "target": board,
            "out": f"{options['out']}/board-{number}" if options.get("out") else None,
        }
        if in_labs and board not in in_labs:
            own["lg_env"] = None
        each.append(typed_comparison({**options, **own}, program))
    for comparison in each:
        comparison.check()
    starts = {board: comparison.run_by_block for board, comparison in zip(boards, each, strict=True)}
    records = run_boards(starts, progress, Path(_text_of(options, "out")) if options.get("out") else None)
    for board, record in zip(boards, records, strict=True):
        yield ComparisonRun(Record(record), last=board == boards[-1], board=board)


_FAKE = "fake:"


def parse_boards(text: str) -> tuple[str, ...]:
    """Parse targets, separated by commas before the name of a kind of target; none for an empty text.

    Raises:
        UserError: one is named twice.
    """
    if text and text.startswith(_FAKE) and Path(text.removeprefix(_FAKE)).exists():
        return (text,)  # its path may contain a comma and a kind of target
    kinds = "|".join(re.escape(kind.name) for kind in target_kinds())
    boards = tuple(re.split(rf",(?=(?:{kinds})(?:[:,]|\Z))", text)) if text else ()
    if twice := next((board for board in boards if boards.count(board) > 1), ""):
        raise UserError(f"--target names {safe(twice)} twice.", "Name each board once.")
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
        scale = check_scale(int(word))
        if scale in scales:
            raise UserError(
                f"--ns-per-instruction names {scale} twice.",
                f"Write: --ns-per-instruction {','.join(dict.fromkeys(map(str, scales)))}",
            )
        scales.append(scale)
    return tuple(scales)


def experiment_of(options: Mapping[str, object], program: tuple[str, ...] | None) -> Experiment:
    """Return the experiment that a command line describes.

    Args:
        options: as of `run_options`.
        program: as of `run_options`.

    Raises:
        UserError: an option is wrong, or the command line describes several experiments.
    """
    several = (
        ("--arch", len(parse_architectures(_text_of(options, "architecture")))),
        ("--ns-per-instruction", len(parse_scales(options.get("ns_per_instruction")))),
        ("--target", len(parse_boards(_text_of(options, "target")))),
    )
    if name := next((name for name, count in several if count > 1), ""):
        raise UserError(f"{name} takes one value here.", "Give the command once for each.")
    made = typed_comparison(options, program)
    return resolve_request(made.factors, made.settings)[1]


def parse_architectures(text: str) -> tuple[str, ...]:
    """Parse names of architectures, separated by commas; none for an empty text.

    Raises:
        UserError: one is unknown, or named twice.
    """
    names = tuple(find_architecture(name.strip()).name for name in text.split(",")) if text else ()
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UserError(f"--arch names {name} twice.", f"Write: --arch {','.join(dict.fromkeys(names))}")
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
    parameters = _texts_of(given, "parameters", "parameter_list", "parameter_scan")
    settings = settings_from({**given, "command": program, "commands": commands, "parameters": parameters})
    how = run_options_of(settings, _texts_of(given, "fail_if"))
    return TypedComparison(tuple(factors), settings, Path(str(given["out"])) if "out" in given else None, how)


def _texts_of(given: Mapping[str, object], *names: str) -> tuple[str, ...]:
    return tuple(text for name in names for text in msgspec.convert(given.get(name, ()), tuple[str, ...]))
