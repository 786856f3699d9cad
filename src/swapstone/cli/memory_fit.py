# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone compare --fit-memory`: prints the smallest memory of each variant."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from swapstone.cli.display import display
from swapstone.cli.options import chain
from swapstone.cli.output import echo, plain
from swapstone.cli.program_command import program_of, typed_option
from swapstone.core.model import UserError
from swapstone.core.session.output_file import check_output, write_output
from swapstone.exit_status import ExitStatus

_EXAMPLE = "swapstone compare allocator=default,mimalloc --fit-memory -- ./my-server --self-test"
_WIDTH = 80

_NOT_HERE = (
    *(
        "resume",
        "trust",
        "every",
        "fail_if",
        "suites",
        "only",
        "budget",
        "blocks",
        "margin",
        "confidence",
        "correction",
    ),
    *("null", "layouts", "prime", "order", "loads"),
)
"""Options of a comparison, which this search does not make."""

_ONLY_HERE = ("fit_resolution", "as_json")

fit_memory_options = chain(
    click.option(
        "--fit-memory",
        is_flag=True,
        help="Search for the smallest memory in which each variant survives, instead of measuring it: of a cgroup, or of the machine.",
    ),
    click.option(
        "--fit-resolution",
        metavar="SIZE|SHARE",
        help="How near that size and the largest that failed are, e.g. 256K or 5%.  [1M or 2%, the larger]",
    ),
    click.option("--json", "as_json", is_flag=True, help="With --fit-memory: print all sizes that were tried as JSON."),
)


def run_fit(context: click.Context, options: Mapping[str, object]) -> int:
    """Search and print; return the exit status.

    Args:
        context: of the command.
        options: by the names of its parameters.

    Raises:
        UserError: an option is wrong, or nothing can run here.
    """
    from swapstone.cli.tables import table, terminal_columns  # noqa: PLC0415 - `compare`, which has this option, prints no such table

    # Of a part: the other comparisons work without it.
    from swapstone.parts.vm.report.memory_fit_text import (  # noqa: PLC0415
        HEAD,
        PHASE_HEAD,
        answer,
        marks_phases,
        notes,
        phase_notes,
        phase_rows,
        rows,
        wrapped,
    )
    from swapstone.parts.vm.session.memory_fit import encode_fit, fit_memory  # noqa: PLC0415

    if (given := typed_option(context, _NOT_HERE.__contains__)) is not None:
        raise UserError(
            f"--fit-memory searches for a size and compares no times: it takes no {given}.", f"For example: {_EXAMPLE}"
        )
    resolution, out = options["fit_resolution"], Path(str(options["out"])) if options.get("out") else None
    check_output(out)
    fit = fit_memory({**options, "out": None}, program_of(context), str(resolution) if resolution else None, display())
    if options["as_json"]:
        echo(encode_fit(fit), nl=False)
    else:
        width = min(terminal_columns() or _WIDTH, _WIDTH)
        echo("\n".join(wrapped(sentence, width) for sentence in answer(fit).split("\n")))
        echo(f"\n{table(HEAD, rows(fit), terminal_columns())}")
        if marks_phases(fit):
            echo(table(PHASE_HEAD, phase_rows(fit), terminal_columns()))
        for note in (*notes(fit), *phase_notes(fit)):
            echo(wrapped(note, width))
    sys.stdout.flush()
    if out:
        write_output(out, encode_fit(fit), named=True)
    if fit.interrupted:
        echo("Interrupted.", err=True)
        return ExitStatus.INTERRUPTED
    if unavailable := next((each for each in fit.variants if each.unavailable), None):
        echo(
            f"Exit status {ExitStatus.NO_RESULT}: {plain(unavailable.name)}: {plain(unavailable.unavailable)}", err=True
        )
        return ExitStatus.NO_RESULT
    return 0


def check_no_fit_options(context: click.Context) -> None:
    """Raise a `UserError` for an option that needs --fit-memory."""
    if (given := typed_option(context, _ONLY_HERE.__contains__)) is not None:
        raise UserError(
            f"{given} is an option of --fit-memory.",
            f"For example: {_EXAMPLE}\nA record as JSON: swapstone show last --json",
        )
