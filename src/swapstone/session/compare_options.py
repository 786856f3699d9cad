# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `swapstone compare` as typed, and the requests that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from swapstone.artifacts.image_catalog import find_architecture
from swapstone.model import FrozenStruct, MemoryFit, UserError
from swapstone.session.api import run_request
from swapstone.session.command_lines import split_arguments
from swapstone.session.experiment import RunOptions
from swapstone.session.memory_fit import fit_memory
from swapstone.session.outcome import parse_fail_if
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.progress import Progress
from swapstone.session.record_handle import Record
from swapstone.session.request import ExperimentRequest
from swapstone.session.request_resolution import check_request
from swapstone.session.values import duration_seconds, parse_confidence, parse_duration_ns, parse_ratio


class CompareOptions(FrozenStruct, frozen=True, kw_only=True):
    """Options that concern every comparison; those of an own program are an `OwnProgramRequest`.

    The fields have the names of the command's parameters and hold what the user typed. Those without a description here are those of
    `swapstone.session.request.ExperimentRequest`.

    Attributes:
        factors: texts ``FACTOR=LEVELS``, and command lines.
        budget: a duration, or None.
        guest_timeout: a duration, or None.
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
    clock: str | None
    loads: str
    architecture: str | None
    cpu_model: str | None
    modules: tuple[str, ...]
    module_files: tuple[str, ...]
    hold: tuple[str, ...]
    prime: int | None
    order: str
    no_cache: bool
    guest_timeout: str | None
    out: str | None
    fail_if: tuple[str, ...]
    parameters: tuple[str, ...]
    parameter_list: tuple[str, ...]
    parameter_scan: tuple[str, ...]

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
            modules=self.modules,
            module_files=self.module_files,
            hold=self.hold,
            prime=self.prime,
            order=self.order,
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
        """Check, before anything is fetched, that it can run here.

        Raises:
            UserError: it can't.
        """
        check_request(self.request, self.factors, self.own)

    def run(self, progress: Progress) -> Record:
        """Run it; see `run_options`."""
        return run_request(self.request, self.factors, self.own, out=self.out, options=self.options, progress=progress)


def run_options(
    options: Mapping[str, object], program: tuple[str, ...] | None, progress: Progress
) -> Iterator[tuple[str, Record]]:
    """Run the comparisons that a command line describes: one, or one for each architecture.

    Args:
        options: of the command, by the names of its parameters.
        program: what stands after ``--``; None for nothing.
        progress: receives events.

    Yields:
        Architecture and record; the architecture is empty where there is one record only. All are checked before the first one runs.

    Raises:
        UserError: an option is wrong, or an experiment can't run here.
        Interrupted: a signal ended it; the record is sealed.
    """
    names = parse_architectures(str(options["architecture"] or ""))
    if len(names) < 2:
        yield "", _comparison(options, program).run(progress)
        return
    out = options["out"]
    each = {
        name: _comparison({**options, "architecture": name, "out": f"{out}/{name}" if out else None}, program)
        for name in names
    }
    for comparison in each.values():
        comparison.check()
    for number, (name, comparison) in enumerate(each.items(), start=1):
        progress.note(f"architecture {number} of {len(each)}: {name}")
        yield name, comparison.run(progress)


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
    made = _comparison(options, program)
    return fit_memory(made.request, made.factors, made.own, resolution, options=made.options, progress=progress)


def _comparison(options: Mapping[str, object], program: tuple[str, ...] | None) -> _Comparison:
    ours = {name: options[name] for name in CompareOptions.__struct_fields__}
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
        ),
    )
