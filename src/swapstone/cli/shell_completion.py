# SPDX-License-Identifier: MIT OR Apache-2.0
"""Completion scripts for bash, zsh and fish, and what each option and argument completes to.

The scripts are click's with two changes. In bash, ``=`` and ``:`` do not end a word, so that ``libc=glibc,mu`` is completed as a whole.
A completion of the type ``part`` is followed by no space, because the word continues.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from swapstone.core.model import UserError
from swapstone.core.model.safe_text import is_plain_word

VARIABLE = "_SWAPSTONE_COMPLETE"
PART = "part"
"""The type of a completion after which the word continues, such as ``libc=``."""

_BASH = r"""
%(complete_func)s() {
    local IFS=$'\n'
    local completion type value line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}" prefix=""
    # Readline replaces only what follows the last = or :
    [[ $COMP_WORDBREAKS == *=* && $word == *[=:]* ]] && prefix="${word%%"${word##*[=:]}"}"
    COMPREPLY=()
    for completion in $(env COMP_WORDS="$line" COMP_CWORD="" %(complete_var)s=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            part) COMPREPLY+=("${value#"$prefix"}"); compopt -o nospace 2>/dev/null ;;
            *) COMPREPLY+=("${value#"$prefix"}") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH_PART = """        elif [[ "$type" == "part" ]]; then
            compadd -S '' -U -V unsorted -- "$key"
        elif [[ "$type" == "dir" ]]; then"""


class Bash(BashComplete):
    """Passes the command line to the program as typed, because bash splits words at ``=`` and ``:``."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the finished words and the one to complete."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words, incomplete


class Zsh(ZshComplete):
    """Adds no space after a completion of the type ``part``."""

    source_template = ZshComplete.source_template.replace('        elif [[ "$type" == "dir" ]]; then', _ZSH_PART)


class Fish(FishComplete):
    """Keeps commas in completions. Fish itself adds no space after ``=``."""

    source_template = (
        FishComplete.source_template.replace('string split "," $completion', 'string split --max 1 "," $completion')
        .replace('$metadata[1] = "plain"', "contains -- $metadata[1] plain part")
        .replace("if test contains", "if contains")
    )


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def register() -> None:
    """Make click use these classes."""
    for name, shell in SHELLS.items():
        add_completion_class(shell, name)


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    r"""Print the completion script of a shell: for commands, options, factors and levels, suites, studies and records.

    \b
    Examples:
      eval "$(swapstone completion bash)"                                  # in ~/.bashrc
      swapstone completion zsh > ~/.zfunc/_swapstone                       # a folder of $fpath
      swapstone completion fish > ~/.config/fish/completions/swapstone.fish
    """
    found = SHELLS[shell](context.find_root().command, {}, "swapstone", VARIABLE)
    click.echo(found.source())


def _matching(names: Iterable[tuple[str, str]], incomplete: str, prefix: str = "") -> list[CompletionItem]:
    """Return those of the pairs (name, help) that start with a text, and that no shell interprets."""
    found = ((name, text) for name, text in names if name.startswith(incomplete) and is_plain_word(name))
    return [CompletionItem(prefix + name, help=text) for name, text in found]


def complete_factors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ``FACTOR=LEVEL,LEVEL``: factors that are not named yet, then levels that are not in the list yet; or a program's path."""
    from swapstone.core.session.catalog import all_factors  # noqa: PLC0415 - imports all parts, which only a completion needs

    name, equals, typed = incomplete.partition("=")
    if "/" in name:
        return [CompletionItem(incomplete, type="file")]  # the program of a command line
    if not equals:
        used = {text.partition("=")[0] for text in ctx.params.get(param.name or "") or ()}
        return [
            CompletionItem(f"{factor.name}=", type=PART, help=factor.description)
            for factor in all_factors()
            if factor.name.startswith(name) and factor.name not in used
        ]
    before, comma, last = typed.rpartition(",")
    taken = before.split(",")
    levels = [level for factor in all_factors() if factor.name == name for level in factor.levels]
    return _matching(
        ((level.name, level.description) for level in levels if level.name not in taken),
        last,
        f"{name}={before}{comma}",
    )


def complete_loads(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a list of loads with commas."""
    from swapstone.core.session.catalog import LOADS  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return _matching(
        ((load.name, load.description) for load in LOADS if load.name not in taken), last, f"{before}{comma}"
    )


def complete_libraries(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a list of libraries with commas."""
    from swapstone.parts.build.session.library_list import LIBRARIES  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    known = ((name, library.description) for name, library in LIBRARIES.items() if name not in taken)
    return _matching(known, last, f"{before}{comma}")


def complete_suites(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a suite."""
    from swapstone.core.session.catalog import all_suites  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    return _matching(((suite.name, suite.description) for suite in all_suites()), incomplete)


def complete_workloads(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a workload, of the suites on the command line if there are any."""
    from swapstone.core.session.catalog import all_suites  # noqa: PLC0415 - imports all parts, which only a completion needs

    del param
    suites = ctx.params.get("suites") or [suite.name for suite in all_suites()]
    found = {work.name: work.description for suite in all_suites() if suite.name in suites for work in suite.workloads}
    return _matching(found.items(), incomplete)


def complete_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a target, and the file after its colon."""
    from swapstone.core.session.catalog import target_kinds  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    name, colon, path = incomplete.partition(":")
    if not colon:
        return _matching(((kind.name, kind.usage) for kind in target_kinds()), incomplete)
    folder = Path(path).parent if not path.endswith("/") else Path(path)
    pattern = next((kind.file_pattern for kind in target_kinds() if kind.name == name), "")
    files = sorted(folder.glob(pattern)) if pattern and folder.is_dir() else []
    return _matching(((str(file), "") for file in files), path, f"{name}:")


def complete_architectures(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an architecture."""
    from swapstone.core.session.catalog import ARCHITECTURES  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    return _matching(((each.name, "") for each in ARCHITECTURES), incomplete)


def complete_records(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a record under the root of records, the newest first, or ``last``."""
    from swapstone.core.session.catalog import list_records, record_name  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    names = [("last", "the record that started last"), *((record_name(path), "") for path in reversed(list_records()))]
    return _matching(names, incomplete)


def complete_studies(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a shipped study, or a TOML file."""
    from swapstone.core.session.study_file import study_names  # noqa: PLC0415 - as above

    del ctx, param
    found = _matching(((name, "") for name in study_names()), incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def complete_parts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a part of the study on the command line."""
    from swapstone.core.session.study_file import load_study  # noqa: PLC0415 - as above

    del param
    # While an option lacks its value, click leaves the arguments unassigned.
    name = ctx.params.get("name") or next(iter(ctx.args), "")
    try:
        study = load_study(name)
    except UserError:
        return []
    return _matching(((part.name, part.title) for part in study.part), incomplete)


def complete_study_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the folder of a study."""
    from swapstone.core.session.catalog import list_records  # noqa: PLC0415 - imports all parts, which only a completion needs

    del ctx, param
    folders = {path.parent for path in list_records() if (path.parent / "study.json").is_file()}
    return _matching(((str(folder), "") for folder in sorted(folders, reverse=True)), incomplete)
