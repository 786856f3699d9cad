# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone docs`: the pages of the documentation."""

from __future__ import annotations

import sys

import click

from swapstone.core.session.documentation import find_page, pages


@click.command()
@click.argument("page", required=False)
@click.option("--path", "as_path", is_flag=True, help="Print the path of the page's file instead.")
def docs_command(page: str | None, as_path: bool) -> None:
    r"""Print a page of the documentation, or list the pages.

    Messages name pages in this form. The pages are Markdown; in a terminal they are shown with $PAGER.

    \b
    Examples:
      swapstone docs
      swapstone docs statistics
      swapstone docs studies --path
    """
    if page is None:
        found = pages()
        width = max(len(each.name) for each in found)
        for each in found:
            click.echo(each.path if as_path else f"{each.name:{width}}  {each.title}")
        return
    chosen = find_page(page)
    if as_path:
        click.echo(chosen.path)
    elif sys.stdout.isatty():
        click.echo_via_pager(chosen.path.read_text(encoding="utf-8"))
    else:
        click.echo(chosen.path.read_text(encoding="utf-8"), nl=False)
