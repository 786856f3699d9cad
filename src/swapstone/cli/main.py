# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `swapstone`. Subcommands are imported only when they are used: the start to `--help` must be short."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import traceback

import click

from swapstone.cli.command_name import INSTALL, as_typed, launcher, set_command_name
from swapstone.cli.interrupts import MESSAGE, ending_at_once, raise_interrupts
from swapstone.core.manifests import shipped_parts
from swapstone.exit_status import ExitStatus
from swapstone.version import __version__

COMPLETION = "_SWAPSTONE_COMPLETE"
"""The variable by which a shell requests completions."""

# name: (module, one line for --help). The order is that of --help.
COMMANDS = {
    "compare": ("swapstone.cli.compare", "Compare levels of a factor: ratios, intervals and verdicts."),
    "study": ("swapstone.cli.study", "Run a study: a shipped experiment, or one from a file."),
    "show": ("swapstone.cli.show", "Print a record's table again."),
    "report": ("swapstone.cli.report", "Write a record's report as HTML or Markdown."),
    "export": ("swapstone.cli.report", "Write a record's figures for other tools."),
    "verify": ("swapstone.cli.verify", "Check that a record is whole, unaltered and gives the same verdicts."),
    "agree": ("swapstone.cli.agree", "Compare the signs of the differences in two records."),
    "rerun": ("swapstone.cli.rerun", "Run a record's experiment again and compare the two."),
    "query": ("swapstone.cli.query", "Run an SQL query over all records."),
    "list": (
        "swapstone.cli.listing",
        "List factors, levels, workloads, suites, studies, records or published figures.",
    ),
    "completion": ("swapstone.cli.shell_completion", "Print the completion script of bash, zsh or fish."),
    "docs": ("swapstone.cli.docs", "Print a page of the documentation, or list the pages."),
    "doctor": ("swapstone.cli.doctor", "Check what this machine can do and what makes its timings noisy."),
}
for _part in shipped_parts():
    COMMANDS |= _part.commands
_LAST = ("completion", "docs", "doctor")
COMMANDS = {name: COMMANDS[name] for name in sorted(COMMANDS, key=lambda each: each in _LAST)}


class LazyGroup(click.Group):
    """A group with the names and help lines of its commands, which imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        with ending_at_once():
            importlib.import_module("swapstone.core.model.errors").require_memory()
            module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        _prepare_help(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest commands when there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - only needed for a mistake

            near = difflib.get_close_matches(args[0], COMMANDS, n=2, cutoff=0.5)
            hint = (
                f" Did you mean {' or '.join(near)}?" if near else as_typed(" `swapstone --help` lists the commands.")
            )
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Print the help lines from `COMMANDS`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _prepare_help(command: click.Command) -> None:
    """Replace backslash and b in raw docstrings by a backspace, click's mark for lines that it must not join; name the command as typed."""
    command.help = as_typed((command.help or "").replace("\\b\n", "\b\n"))
    for param in command.params:
        if isinstance(param, click.Option) and param.help:
            param.help = as_typed(param.help)
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        _prepare_help(child)


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: swapstone compare libc=glibc,musl --only 'b_malloc*'",
)
@click.version_option(__version__, prog_name="swapstone")
def cli() -> None:
    """Swap one part of an embedded Linux stack, hold everything else still, and know what it costs.

    A comparison builds each workload for each level, runs them in random order, and prints ratios with confidence intervals and
    verdicts. A record keeps every run, and the same table can be computed from it again.
    """


def main() -> None:
    """Run the command line and exit with one of `ExitStatus`."""
    name = set_command_name(COMMANDS)
    # Completions are for every user: they have the name of the installed program.
    if COMPLETION in os.environ or sys.argv[1:2] == ["completion"]:
        name = set_command_name(COMMANDS, "swapstone")
    if COMPLETION in os.environ:
        importlib.import_module("swapstone.cli.shell_completion").register()
    cli.epilog = as_typed(cli.epilog or "")
    raise_interrupts()
    try:
        # click returns what the command returned, or an exit status of its own.
        status = cli.main(prog_name=name, complete_var=COMPLETION, standalone_mode=False)
    except click.exceptions.Exit as error:
        status = error.exit_code
    except click.ClickException as error:
        from swapstone.cli.output import echo  # noqa: PLC0415 - as in `report_error`

        error.show(file=(shown := io.StringIO()))  # an argument may be a name from elsewhere
        echo(shown.getvalue(), nl=False, err=True)
        status = ExitStatus.REFUSED
    except (KeyboardInterrupt, click.Abort):
        click.echo(MESSAGE, err=True)
        status = ExitStatus.INTERRUPTED
    except Exception as error:
        status = report_error(error)
    # The command is complete; the interpreter's own end would print a traceback on a signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(status if isinstance(status, int) else 0)


def report_error(error: Exception) -> int:
    """Print a user's error, or else the traceback of a bug; return the exit status."""
    from swapstone.cli.output import echo, echo_labelled  # noqa: PLC0415 - as below
    from swapstone.core.model.errors import NothingComparableError, UserError, as_user_error, hint_of  # noqa: PLC0415 - imports the model, which --help and --version don't need

    if isinstance(error, (OSError, MemoryError, ImportError)):
        error = as_user_error(error, "give the same command again.") or error
    if (programs := getattr(error, "programs", ())) and launcher():  # it installs them, and starts this command again
        os.execv("/bin/sh", ["sh", "-c", INSTALL, launcher(), " ".join(programs), *sys.argv[1:]])  # noqa: S606 - our own text
    if isinstance(error, UserError):
        echo_labelled("error: ", error.message, err=True)
        if hint := hint_of(error):
            echo(as_typed(hint), err=True)
        if not isinstance(error, NothingComparableError):
            return ExitStatus.REFUSED
        echo(f"Exit status {error.status}: {error.finding.text}", err=True)
        return error.status
    echo("".join(traceback.format_exception(error)), nl=False, err=True)
    echo("This is a bug in Swapstone. Please report it with the lines above.", err=True)
    return ExitStatus.BUG
