# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arguments and options of the commands that read records: they import neither suites nor targets."""

from __future__ import annotations

import click

from swapstone.cli.shell_completion import COMPLETIONS

RECORD = click.argument("record", shell_complete=COMPLETIONS["records"])
ALL = click.option("--all", "every", is_flag=True, help="Every row of every metric, instead of at most 40 lines.")
TRUST = click.option(
    "--trust",
    is_flag=True,
    help="Run the commands in the record though another user or machine made it, or it was edited.",
)
