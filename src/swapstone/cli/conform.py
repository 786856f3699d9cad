# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone conform`: runs packetdrill scripts on network stacks."""

from __future__ import annotations

import click

from swapstone.cli.output import echo
from swapstone.parts.net.session.conformance import conform


@click.command()
@click.argument("scripts", metavar="[SCRIPT...]", nargs=-1)
@click.option(
    "--stack",
    "stacks",
    default="lwip,smoltcp",
    show_default=True,
    help="Of lwip, smoltcp and kernel; smoltcp:shipped has no fixes.",
)
@click.option("--skip-code", is_flag=True, help="Leave out shell commands and Python code of scripts.")
@click.option("--json", "kind", flag_value="json", help="Print JSON.")
@click.option("--markdown", "kind", flag_value="markdown", help="Print the documented table; nothing is run.")
def conform_command(scripts: tuple[str, ...], stacks: str, skip_code: bool, kind: str | None) -> int:
    r"""Run packetdrill scripts on network stacks: which of them behave as the RFCs require?

    Without SCRIPT, all shipped scripts are run. lwIP and smoltcp run on a virtual clock; the kernel, over a TAP, needs root.

    Nothing of a script is executed on this machine. A script with shell commands or Python code is refused; with --skip-code the rest
    runs, over the kernel with harmless settings and assertions, which are read as data. The answer states what scripts lacked.

    \b
    Examples:
      swapstone conform
      swapstone conform rfc9293/listen-syn --stack lwip,smoltcp,kernel
      swapstone conform ./my.pkt --json
      swapstone conform ./packetdrill/gtests/net/tcp/ --skip-code
    """
    text, status = conform(scripts, stacks, kind or "text", lambda line: echo(line, err=True), skip_code=skip_code)
    echo(text, nl=False)
    return status
