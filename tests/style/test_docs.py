# SPDX-License-Identifier: MIT OR Apache-2.0
"""The documentation: links resolve, commands parse, pages are indexed, lines are short."""

from __future__ import annotations

import functools
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click

from swapstone.cli.main import cli

TOP = Path(__file__).parents[2]
WIDTH = 80
MOST_BYTES = 25_000
PAGES = sorted(
    path
    for folder in (".", "docs", "docs/measurements", "crates", "tests/recorded", ".gitlab/issue_templates")
    for path in (TOP / folder).glob("**/*.md" if folder == "crates" else "*.md")
    if "target" not in path.parts
)
_FENCE = re.compile(r"^\s*(```|~~~)")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def _names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(TOP)) for path in paths]


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the number of each line, the line, and whether it is code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
            yield number, line, True
        else:
            yield number, line, fenced or line.startswith("    ")


def too_long(text: str) -> list[int]:
    """Return the numbers of lines over 80 columns; tables, code, and words that can't be broken are exempt."""
    found = []
    for number, line, code in _lines(text):
        breakable = re.sub(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|https?://\S+", "x", line.strip().lstrip("->* "))
        if len(line) > WIDTH and not code and not line.startswith("|") and " " in breakable:
            found.append(number)
    return found


@functools.cache
def anchors(text: str) -> set[str]:
    """Return what the headings of a page are called in links, as forges make it."""
    headings = [line.lstrip("#").strip() for _, line, code in _lines(text) if line.startswith("#") and not code]
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere; addresses of the network are left out."""
    found = []
    outside_code = "\n".join(line for _, line, code in _lines(text) if not code)
    for match in _LINK.finditer(re.sub(r"`[^`]*`", "", outside_code)):
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else page.parent / name
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            found.append(target)
    return found


def commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield every `swapstone ...` command of a page, with the number of its line."""
    lines = text.splitlines()
    for number, line, code in _lines(text):
        if not code:
            yield from ((number, found) for found in re.findall(r"`((?:\./)?swapstone [^`]*)`", line))
            continue
        start = re.match(r"\s*(?:\$ )?((?:\./)?swapstone(?: .*)?)$", line)
        if not start:
            continue
        command, at = start[1], number
        while command.endswith("\\") and at < len(lines):
            command, at = command[:-1] + lines[at].strip(), at + 1
        yield number, command


def problem_of(command: str) -> str:
    """Return why a command can't be one of Swapstone's: an unknown command, option or value; empty if it parses."""
    command = re.sub(r"\s{2,}.*$| +#.*$", "", command)
    try:
        words = shlex.split(command.split(" | ")[0].split(" > ")[0].split(" >> ")[0])[1:]
    except ValueError as error:
        return str(error)
    here: click.Command = cli
    context = click.Context(cli, info_name="swapstone")
    while isinstance(here, click.Group):
        if not words or words[0].startswith("-"):
            return "" if not words or words[0] in {"--help", "--version"} else f"unknown {words[0]}"
        name = words.pop(0)
        inner = here.get_command(context, name)
        if inner is None:
            return f"no command {name}"
        here = inner
        context = click.Context(here, info_name=name, parent=context)
    # Names such as RECORD, FACTOR and METRIC stand for a value, and "..." for more of them.
    options = [word for word in words if word != "..." and not word.startswith("[") and not word.endswith("]")]
    try:
        here.make_parser(context).parse_args(list(options))
    except click.UsageError as error:
        return error.format_message()
    return ""


def test_links_resolve() -> None:
    broken = {name: broken_links(TOP / name, (TOP / name).read_text()) for name in _names(PAGES)}
    assert {name: links for name, links in broken.items() if links} == {}


def test_lines_are_at_most_80_columns() -> None:
    found = {name: too_long((TOP / name).read_text()) for name in _names(PAGES)}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def test_commands_parse() -> None:
    problems = {
        f"{name}, line {number}: {command}": problem
        for name in _names(PAGES)
        for number, command in commands((TOP / name).read_text())
        if (problem := problem_of(command))
    }
    assert problems == {}


def test_the_index_names_every_page() -> None:
    index = (TOP / "docs/index.md").read_text()
    names = {
        str(path.relative_to(TOP / "docs"))
        for folder in ("docs", "docs/measurements")
        for path in (TOP / folder).glob("*.md")
    }
    assert {name for name in names - {"index.md"} if f"({name})" not in index} == set()


def test_a_page_is_at_most_25000_bytes() -> None:
    sizes = {path.name: path.stat().st_size for path in (TOP / "docs").glob("*.md")}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}, (
        "move measured tables to docs/measurements"
    )


def test_the_files_that_architecture_names_exist() -> None:
    named = re.findall(r"`([\w/.-]+/[\w/.-]+\.(?:py|c|h|toml|md))", (TOP / "ARCHITECTURE.md").read_text())
    assert len(named) > 30
    assert [path for path in named if not (TOP / path).exists() and not (TOP / "src/swapstone" / path).exists()] == []


def test_architecture_is_at_most_12000_bytes() -> None:
    assert (TOP / "ARCHITECTURE.md").stat().st_size <= 12_000


def test_the_readme_leads_to_the_index() -> None:
    assert "(docs/index.md)" in (TOP / "README.md").read_text()


def test_the_checks_find_what_they_look_for(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# A heading: two\n")
    page = tmp_path / "a.md"
    page.write_text("x")
    assert broken_links(page, "[b](b.md#a-heading-two) [c](c.md) [d](b.md#none)\n") == ["c.md", "b.md#none"]
    assert too_long("word " * 20 + "\n| " + "cell " * 20 + "|\n    " + "code " * 20 + "\n") == [1]
    page_text = "    swapstone compare libc=glibc,musl --nul   # a comment\n`swapstone lost last`\n    swapstone list \\\n      --josn\n"
    assert [(number, bool(problem_of(command))) for number, command in commands(page_text)] == [
        (1, True),
        (2, True),
        (3, True),
    ]
    for good in (
        "swapstone show last --json | jq .",
        "swapstone compare a=b,c --only 'x*' -- ./prog --any",
        "./swapstone --help",
    ):
        assert problem_of(good) == ""


def test_the_stable_formats_are_those_of_export() -> None:
    export = cli.get_command(click.Context(cli), "export")
    assert export is not None
    (choice,) = (option.type for option in export.params if "--format" in option.opts)
    assert isinstance(choice, click.Choice)
    (listed,) = re.findall(r"`export --format ([^`]*)`", (TOP / "docs/stability.md").read_text())
    assert set(listed.split(", ")) == set(choice.choices)


def test_the_page_on_wheels_lists_the_extras() -> None:
    extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert re.findall(r"^\| `(\w+)` \|", (TOP / "docs/install.md").read_text(), re.MULTILINE) == list(extras)
