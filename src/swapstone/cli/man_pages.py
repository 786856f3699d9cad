# SPDX-License-Identifier: MIT OR Apache-2.0
"""Man pages in roff, generated from click's commands (man(7))."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from swapstone.core.model import UserError
from swapstone.version import __version__

EXIT_STATUS = (
    ("0", "success"),
    ("1", "a bug in Swapstone"),
    ("2", "a user error, or a record that is damaged"),
    ("130", "interrupted by a signal"),
)
ENVIRONMENT = (
    ("SWAPSTONE_RECORDS", "folder of the records; records in the current folder if it is not set"),
    ("SWAPSTONE_QEMU", "folder of another QEMU: of its programs, or one into which its Debian packages were unpacked"),
    ("XDG_CACHE_HOME", "folder of the cache of builds, packages and images; ~/.cache if it is not set"),
    ("NO_COLOR", "disables colours"),
)


@click.command()
@click.argument("command", nargs=-1)
@click.option("--out", metavar="DIR", help="Write the pages of all commands to a folder.")
@click.pass_context
def man_command(context: click.Context, command: tuple[str, ...], out: str | None) -> None:
    r"""Print the man page of a command, or write all man pages to a folder.

    \b
    Examples:
      swapstone man compare | man -l -
      swapstone man --out ~/.local/share/man/man1
    """
    root = context.find_root()
    pages = dict(man_pages(root.command, root))
    if out:
        _write(pages, Path(out))
        return
    name = "-".join(("swapstone", *command))
    if name not in pages:
        raise UserError(f"There is no command {' '.join(command)!r}.", "`swapstone --help` lists the commands.")
    click.echo(pages[name], nl=False)


def _write(pages: dict[str, str], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / f"{name}.1").write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror}.", "Name another folder with --out.") from error
    click.echo(f"Wrote {len(pages)} pages to {folder}", err=True)


def man_pages(command: click.Command, context: click.Context, name: str = "swapstone") -> Iterator[tuple[str, str]]:
    """Yield the name and the roff text of the page of a command, and of its subcommands.

    Args:
        command: a command or a group.
        context: of the command.
        name: of the page, with ``-`` between a command and its subcommand.
    """
    commands = _subcommands(command, context)
    yield name, _page(name, command, context, [f"{name}-{child}" for child in commands])
    for child_name, child in commands.items():
        child_context = click.Context(child, parent=context, info_name=child_name)
        yield from man_pages(child, child_context, f"{name}-{child_name}")


def _subcommands(command: click.Command, context: click.Context) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {}
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: child for name, child in found.items() if child is not None and not child.hidden}


def _page(name: str, command: click.Command, context: click.Context, children: list[str]) -> str:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_quoted(name.upper())}" "1" "" "swapstone {__version__}" "Swapstone"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(_summary(paragraphs[0]))}",
        ".SH SYNOPSIS",
        f"\\fB{_escaped(context.command_path)}\\fR {_escaped(usage)}",
        ".SH DESCRIPTION",
    ]
    for paragraph in paragraphs:
        lines += _paragraph(paragraph)
    lines += [".SH OPTIONS", *_options(command, context)]
    lines += [".SH EXIT STATUS", *_definitions(EXIT_STATUS), ".SH ENVIRONMENT", *_definitions(ENVIRONMENT)]
    others = children or [name.rpartition("-")[0]]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(other)}\\fR(1)" for other in others)]
    return "\n".join(lines) + "\n"


def _summary(paragraph: str) -> str:
    """Return the first sentence, as `whatis` prints it."""
    text = " ".join(paragraph.split())
    return text.partition(". ")[0].rstrip(".")


def _paragraph(text: str) -> list[str]:
    """Return a paragraph. After a backspace character, click's mark for it, the lines keep their breaks, below a heading."""
    if not text.startswith("\b"):
        return [".PP", _escaped(" ".join(text.split()))]
    head, *rest = text.removeprefix("\b").strip("\n").split("\n")
    return [".PP", _escaped(head.strip()), ".nf", *(_escaped(line) for line in rest), ".fi"]


def _options(command: click.Command, context: click.Context) -> list[str]:
    lines = []
    for param in command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            lines += [".TP", f"\\fB{_escaped(record[0])}\\fR", _escaped(" ".join(record[1].split()))]
    return lines


def _definitions(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    return [line for term, text in pairs for line in (".TP", f"\\fB{_escaped(term)}\\fR", _escaped(text))]


def _escaped(text: str) -> str:
    """Escape what roff would interpret: backslashes, hyphens, quotes at the start of a word, and control characters of a line."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    )
    return f"\\&{text}" if text.startswith((".", "\\(aq")) else text


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', "\\(dq")
