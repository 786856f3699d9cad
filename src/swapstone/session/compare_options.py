# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `swapstone compare` as typed, and the requests that they make."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from swapstone.artifacts.image_catalog import find_architecture
from swapstone.model import VIRTUAL_CLOCK, Experiment, FrozenStruct, MemoryFit, UserError
from swapstone.model.safe_text import safe
from swapstone.record.writer import check_unused
from swapstone.run import Steps
from swapstone.session.board_runs import run_boards
from swapstone.session.command_lines import split_arguments
from swapstone.session.memory_fit import fit_memory
from swapstone.session.outcome import parse_fail_if
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.progress import Progress
from swapstone.session.record_handle import Record
from swapstone.session.request import ExperimentRequest
from swapstone.session.request_resolution import check_request, resolve_request
from swapstone.session.requested_run import run_request, run_request_by_block
from swapstone.session.run_options import RunOptions
from swapstone.session.server_program import target_with_driver
from swapstone.session.sharing import parse_sharing
from swapstone.session.values import duration_seconds, parse_confidence, parse_duration_ns, parse_ratio
from swapstone.session.worst_wakeups import require_wakeups
from swapstone.targets import TARGETS, clock_of, find_target_kind
from swapstone.targets.labgrid_target import LABGRID, with_environment
from swapstone.targets.vm.machine_models import check_scale


class CompareOptions(FrozenStruct, frozen=True, kw_only=True):
    """Options that concern every comparison; those of an own program are an `OwnProgramRequest`.

    The fields have the names of the command's parameters and hold what the user typed. Those without a description here are those of
    `swapstone.session.request.ExperimentRequest`.

    Attributes:
        factors: texts ``FACTOR=LEVELS``, and command lines.
        budget, duration: a duration, or None.
        guest_timeout: a duration, or None.
        lg_env: path of the environment of a target labgrid; None for that of LG_ENV.
        parameter_list, parameter_scan: further parameters of an own program.
        out: the record's folder; None for a new one.
    """

    factors: tuple[str, ...]
    suites: tuple[str, ...]
    only: tuple[str, ...]
    budget: str | None
    margin: str
    confidence: str | None
    correction: str
    seed: int | None
    blocks: int | None
    null: bool
    layouts: int | None
    target: str | None
    lg_env: str | None
    clock: str | None
    loads: str
    architecture: str | None
    cpu_model: str | None
    ns_per_instruction: str | None
    processors: int
    modules: tuple[str, ...]
    module_files: tuple[str, ...]
    hold: tuple[str, ...]
    prime: int | None
    order: str
    duration: str | None
    no_cache: bool
    guest_timeout: str | None
    out: str | None
    fail_if: tuple[str, ...]
    parameters: tuple[str, ...]
    parameter_list: tuple[str, ...]
    parameter_scan: tuple[str, ...]
    store: str | None
    executor: str | None
    recheck: str | None

    def request(self) -> ExperimentRequest:
        """Return the request, without factors and without own program.

        Raises:
            UserError: a value has the wrong form.
        """
        return ExperimentRequest(
            name="compare",
            factors=(),
            suites=self.suites,
            only=self.only,
            budget_ns=parse_duration_ns(self.budget) if self.budget else None,
            margin=parse_ratio(self.margin, "--margin", 0.0, 1.0),
            confidence=parse_confidence(self.confidence) if self.confidence else None,
            correction=self.correction,
            seed=self.seed,
            blocks=self.blocks or 0,
            null=self.null,
            layouts=self.layouts or 0,
            target=self.target,
            clock=self.clock,
            loads=self.loads.split(","),
            architecture=self.architecture or "",
            cpu_model=self.cpu_model or "",
            ns_per_instruction=next(iter(parse_scales(self.ns_per_instruction)), 1),
            processors=self.processors,
            modules=self.modules,
            module_files=self.module_files,
            hold=self.hold,
            prime=self.prime,
            order=self.order,
            duration_ns=parse_duration_ns(self.duration) if self.duration else None,
        )


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """A comparison to run."""

    request: ExperimentRequest
    factors: tuple[str, ...]
    own: OwnProgramRequest
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
        check_request(self.request, self.factors, self.own)

    def run(self, progress: Progress) -> Record:
        """Run it; see `run_options`."""
        return run_request(self.request, self.factors, self.own, out=self.out, options=self.options, progress=progress)

    def run_by_block(self, progress: Progress) -> Steps[Path]:
        """Run it step by step; see `swapstone.session.board_runs`."""
        return run_request_by_block(
            self.request, self.factors, self.own, out=self.out, options=self.options, progress=progress
        )


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
    architectures = parse_architectures(str(options["architecture"] or ""))
    scales = parse_scales(options["ns_per_instruction"])
    boards = parse_boards(_text_of(options, "target"))
    if len(boards) > 1:
        yield from _on_boards(boards, options, program, progress)
        return
    if len(architectures) < 2 and len(scales) < 2:
        yield ComparisonRun(_comparison(options, program).run(progress))
        return
    several = len(architectures) > 1, len(scales) > 1
    seed = options["seed"] if options["seed"] is not None else secrets.randbelow(2**31)
    each = {}
    for machine, scale in itertools.product(architectures or ("",), scales or (1,)):
        names = [name for name, many in zip((machine, f"{scale}ns"), several, strict=True) if many]
        own = {
            "architecture": machine,
            "ns_per_instruction": str(scale),
            "seed": seed if several[1] else options["seed"],
        }
        out = "/".join((str(options["out"]), *names)) if options["out"] else None
        each[machine, scale] = _comparison({**options, **own, "out": out}, program)
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
    if "," in str(options["architecture"] or "") or "," in str(options["ns_per_instruction"] or ""):
        raise UserError("Several boards take one architecture and one clock.", "Leave --arch out: boards are asked.")
    clock = _text_of(options, "clock") or ""
    if exact := next((board for board in boards if clock_of(board, clock) == VIRTUAL_CLOCK), ""):
        raise UserError(
            f"Several boards are measured on the wall clock, and {safe(exact)} has the virtual one.",
            "Add --clock wall, or name each target in a command of its own.",
        )
    each = []
    in_labs = [board for board in boards if find_target_kind(board) is LABGRID]
    for number, board in enumerate(boards, start=1):
        own: dict[str, object] = {
            "target": board,
            "out": f"{options['out']}/board-{number}" if options["out"] else None,
        }
        if in_labs and board not in in_labs:
            own["lg_env"] = None
        each.append(_comparison({**options, **own}, program))
    for comparison in each:
        comparison.check()
    starts = {board: comparison.run_by_block for board, comparison in zip(boards, each, strict=True)}
    records = run_boards(starts, progress, Path(str(options["out"])) if options["out"] else None)
    for board, record in zip(boards, records, strict=True):
        yield ComparisonRun(Record(record), last=board == boards[-1], board=board)


_FAKE = "fake:"


def parse_boards(text: str | None) -> tuple[str, ...]:
    """Parse targets, separated by commas before the name of a kind of target; none for None.

    Raises:
        UserError: one is named twice.
    """
    if text and text.startswith(_FAKE) and Path(text.removeprefix(_FAKE)).exists():
        return (text,)  # its path may contain a comma and a kind of target
    kinds = "|".join(re.escape(kind.name) for kind in TARGETS)
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
        ("--arch", len(parse_architectures(str(options["architecture"] or "")))),
        ("--ns-per-instruction", len(parse_scales(options["ns_per_instruction"]))),
        ("--target", len(parse_boards(_text_of(options, "target")))),
    )
    if name := next((name for name, count in several if count > 1), ""):
        raise UserError(f"{name} takes one value here.", "Give the command once for each.")
    made = _comparison(options, program)
    return resolve_request(made.request, made.factors, made.own)[1]


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


def fit_options(
    options: Mapping[str, object], program: tuple[str, ...] | None, resolution: str | None, progress: Progress
) -> MemoryFit:
    """Search for the smallest memory of each variant that a command line describes.

    Args:
        options: as of `run_options`.
        program: as of `run_options`.
        resolution: as typed; None for the default.
        progress: receives events.

    Raises:
        UserError: an option is wrong, or the program can't run here.
    """
    if len(parse_architectures(str(options["architecture"] or ""))) > 1:
        raise UserError("--fit-memory takes one architecture.", "Name one with --arch.")
    if len(parse_scales(options["ns_per_instruction"])) > 1:
        raise UserError("--fit-memory takes one clock.", "Name one time with --ns-per-instruction.")
    made = _comparison(options, program)
    return fit_memory(made.request, made.factors, made.own, resolution, options=made.options, progress=progress)


def check_why_max(options: Mapping[str, object], program: tuple[str, ...] | None) -> None:
    """Check before anything runs that the comparisons of a command line have worst wake-ups whose path can be derived.

    Args:
        options: as of `run_options`.
        program: as of `run_options`.

    Raises:
        UserError: they have none, or an option is wrong.
    """
    architectures = parse_architectures(str(options["architecture"] or ""))
    scales = parse_scales(options["ns_per_instruction"])
    first = {
        "architecture": next(iter(architectures), ""),
        "ns_per_instruction": str(next(iter(scales))) if scales else None,
    }
    made = _comparison({**options, **first}, program)
    require_wakeups(resolve_request(made.request, made.factors, made.own)[1])


def _text_of(options: Mapping[str, object], name: str) -> str | None:
    value = options.get(name)
    return None if value is None else str(value)


def _comparison(options: Mapping[str, object], program: tuple[str, ...] | None) -> _Comparison:
    ours = {name: options[name] for name in CompareOptions.__struct_fields__}
    target, driver, address = (_text_of(options, name) for name in ("target", "driver_target", "server_address"))
    target = target_with_driver(target, driver, address)
    ours["target"] = with_environment(target or "", _text_of(options, "lg_env") or "") or None
    given = msgspec.convert(ours, CompareOptions)
    factors, commands = split_arguments(given.factors)
    own = {name: value for name, value in options.items() if name in OwnProgramRequest.__struct_fields__}
    parameters = (*given.parameters, *given.parameter_list, *given.parameter_scan)
    own_request = msgspec.convert(
        {**own, "command": program, "commands": commands, "parameters": parameters}, OwnProgramRequest
    )
    return _Comparison(
        given.request(),
        tuple(factors),
        own_request,
        Path(given.out) if given.out else None,
        RunOptions(
            rebuild=own_request.rebuild,
            no_cache=given.no_cache,
            guest_timeout_s=duration_seconds(given.guest_timeout),
            fail_if=parse_fail_if(given.fail_if),
            sharing=parse_sharing(given.store, given.executor, given.recheck),
        ),
    )
