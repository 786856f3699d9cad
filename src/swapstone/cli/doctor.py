# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone doctor`: checks what this machine can do, and what makes its timings noisy."""

from __future__ import annotations

import textwrap

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.display import print_note
from swapstone.cli.options import declared
from swapstone.cli.output import echo
from swapstone.cli.tables import terminal_columns
from swapstone.core.model import UserError
from swapstone.core.report.printed_json import printed_json
from swapstone.core.session.capabilities import (
    Finding,
    State,
    capabilities,
    exact_summary,
    examine,
    examine_exact_clock,
    examine_target,
    summary,
)

_LEAST_ROOM = 20
_COLOURS = {State.GOOD: "green", State.NOISY: "yellow", State.MISSING: "red", State.UNKNOWN: None}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--target", metavar="TARGET", help="Check ssh:[USER@]HOST, labgrid:PLACE, or virtual-board instead.")
@declared("lg_env")
@click.option(
    "--exact", is_flag=True, help="Check instead that the exact clock gives here what it gave at the release."
)
def doctor_command(as_json: bool, target: str | None, lg_env: str | None = None, *, exact: bool = False) -> None:
    r"""Check what this machine or a board can do, and what makes its timings noisy.

    Where a command would help, it is printed. The doctor itself changes nothing.

    \b
    Examples:
      swapstone doctor
      swapstone doctor --target ssh:pi@board
      swapstone doctor --exact
    """
    if exact and target:
        raise UserError("--exact checks this machine, and --target another one.", "Leave one of them out.")
    noise: list[Finding] = []
    if exact:
        found = examine_exact_clock(print_note)
    else:
        found, noise = examine_target(target, print_note, lg_env) if target else (capabilities(), list(examine()))
    if as_json:
        echo(printed_json("doctor", can=found, noise=noise), nl=False)
        return
    echo(exact_summary(found) if exact else summary(found, noise))
    echo("\nRuns on the exact clock" if exact else f"\nWhat {'the board' if target else 'this machine'} can do")
    _print(found)
    if noise:
        echo("\nWhat makes timings noisy")
        _print(noise)


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    columns = terminal_columns()
    for finding in findings:
        state = click.style(f"{finding.state.value:8}", fg=_COLOURS[finding.state])
        remedy = f"remedy: {as_typed(finding.remedy)}" if finding.remedy else ""
        texts = (finding.found, *filter(None, (finding.meaning, remedy)))
        room = None if columns is None else max(_LEAST_ROOM, columns - width - 13)
        first, *rest = (line for text in texts for line in _wrapped(text, room))
        echo(f"  {state} {finding.name:{width}}  {first}", styled=True)
        for line in rest:
            echo(f"  {'':8} {'':{width}}  {line}")


def _wrapped(text: str, room: int | None) -> list[str]:
    return [text] if room is None else textwrap.wrap(text, room, break_on_hyphens=False) or [""]
