# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `swapstone compare` as typed, and the requests that they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.model import FrozenStruct
from swapstone.session.api import run_request
from swapstone.session.command_lines import split_arguments
from swapstone.session.experiment import RunOptions
from swapstone.session.outcome import parse_fail_if
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.progress import Progress
from swapstone.session.record_handle import Record
from swapstone.session.request import ExperimentRequest
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


def run_options(options: Mapping[str, object], program: tuple[str, ...] | None, progress: Progress) -> Record:
    """Run the comparison that a command line describes.

    Args:
        options: of the command, by the names of its parameters.
        program: what stands after ``--``; None for nothing.
        progress: receives events.

    Raises:
        UserError: an option is wrong, or the experiment can't run here.
        Interrupted: a signal ended it; the record is sealed.
    """
    ours = {name: options[name] for name in CompareOptions.__struct_fields__}
    given = msgspec.convert(ours, CompareOptions)
    factors, commands = split_arguments(given.factors)
    own = {name: value for name, value in options.items() if name in OwnProgramRequest.__struct_fields__}
    parameters = (*given.parameters, *given.parameter_list, *given.parameter_scan)
    own_request = msgspec.convert(
        {**own, "command": program, "commands": commands, "parameters": parameters}, OwnProgramRequest
    )
    return run_request(
        given.request(),
        factors,
        own_request,
        out=Path(given.out) if given.out else None,
        options=RunOptions(
            rebuild=own_request.rebuild,
            no_cache=given.no_cache,
            guest_timeout_s=duration_seconds(given.guest_timeout),
            fail_if=parse_fail_if(given.fail_if),
        ),
        progress=progress,
    )
