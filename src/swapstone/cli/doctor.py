# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone doctor`: checks what this machine can do, and what makes its timings noisy."""

from __future__ import annotations

import json
import textwrap

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.output import echo
from swapstone.cli.tables import terminal_columns
from swapstone.session.capabilities import Finding, State, capabilities, examine

_LEAST_ROOM = 20
_COLOURS = {State.GOOD: "green", State.NOISY: "yellow", State.MISSING: "red", State.UNKNOWN: None}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def doctor_command(as_json: bool) -> None:
    r"""Check what this machine can do, and what makes its timings noisy.

    Where a command would help, it is printed. The doctor itself changes nothing.

    \b
    Example:
      swapstone doctor
    """
    found = capabilities()
    noise = list(examine())
    if as_json:
        echo(json.dumps({"can": _plain(found), "noise": _plain(noise)}, indent=1))
        return
    echo(_answer(found, noise))
    echo("\nWhat this machine can do")
    _print(found)
    echo("\nWhat makes timings noisy")
    _print(noise)


def _answer(found: list[Finding], noise: list[Finding]) -> str:
    """Return the sentences that the user came for."""
    missing = [finding.name for finding in found if finding.state is State.MISSING]
    noisy = [finding.name for finding in noise if finding.state in {State.NOISY, State.MISSING}]
    can = f"{len(found) - len(missing)} of {len(found)} features are available"
    can += f"; unavailable: {', '.join(missing)}." if missing else "."
    disturbed = (
        f"{len(noisy)} of {len(noise)} checks found noise: {', '.join(noisy)}." if noisy else "No check found noise."
    )
    return f"{can}\n{disturbed}"


def _plain(findings: list[Finding]) -> list[dict[str, str]]:
    return [
        {"name": f.name, "state": f.state.value, "found": f.found, "meaning": f.meaning, "remedy": f.remedy}
        for f in findings
    ]


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
