# SPDX-License-Identifier: MIT OR Apache-2.0
"""Completion scripts for bash, zsh and fish, and what each option and argument completes to.

The scripts are click's with two changes. In bash, ``=`` and ``:`` do not end a word, so that ``libc=glibc,mu`` is completed as a whole.
A completion of the type ``part`` is followed by no space, because the word continues.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

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

Pairs: TypeAlias = Iterable[tuple[str, str]]
"""Names with a line of help, which may be empty."""

Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

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


def _matching(names: Pairs, incomplete: str, prefix: str = "") -> list[CompletionItem]:
    """Return those of the pairs (name, help) that start with a text, and that no shell interprets."""
    found = ((name, text) for name, text in names if name.startswith(incomplete) and is_plain_word(name))
    return [CompletionItem(prefix + name, help=text) for name, text in found]


def _complete_factors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ``FACTOR=LEVEL,LEVEL``: factors that are not named yet, then levels that are not in the list yet; or a program's path."""
    factors = _session("catalog").all_factors()
    name, equals, typed = incomplete.partition("=")
    if "/" in name:
        return [CompletionItem(incomplete, type="file")]  # the program of a command line
    if not equals:
        used = {text.partition("=")[0] for text in ctx.params.get(param.name or "") or ()}
        return [
            CompletionItem(f"{factor.name}=", type=PART, help=factor.description)
            for factor in factors
            if factor.name.startswith(name) and factor.name not in used
        ]
    before, comma, last = typed.rpartition(",")
    taken = before.split(",")
    levels = [level for factor in factors if factor.name == name for level in factor.levels]
    return _matching(
        ((level.name, level.description) for level in levels if level.name not in taken),
        last,
        f"{name}={before}{comma}",
    )


def _complete_targets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a target, and the file after its colon."""
    name, colon, path = incomplete.partition(":")
    kinds = _session("catalog").target_kinds()
    if not colon:
        return _matching(((kind.name, kind.usage) for kind in kinds), incomplete)
    folder = Path(path).parent if not path.endswith("/") else Path(path)
    pattern = next((kind.file_pattern for kind in kinds if kind.name == name), "")
    files = sorted(folder.glob(pattern)) if pattern and folder.is_dir() else []
    return _matching(((str(file), "") for file in files), path, f"{name}:")


def _complete_studies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a shipped study, or a TOML file."""
    found = _matching(((name, "") for name in _session("study_file").study_names()), incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def _session(name: str) -> ModuleType:
    """Import what only a completion needs: it imports all parts."""
    return importlib.import_module(f"swapstone.core.session.{name}")


def _listed(what: str) -> Pairs:
    found = _session("catalog").all_lists()[what]
    return ((str(row[0]), str(row[found.head.index("what it is")])) for row in found.rows())


def _workloads(ctx: click.Context) -> Pairs:
    """Return the workloads of the suites on the command line, or of all."""
    suites = _session("catalog").all_suites()
    chosen = ctx.params.get("suites") or [suite.name for suite in suites]
    return {each.name: each.description for suite in suites if suite.name in chosen for each in suite.workloads}.items()


def _parts(ctx: click.Context) -> Pairs:
    # While an option lacks its value, click leaves the arguments unassigned.
    name = ctx.params.get("name") or next(iter(ctx.args), "")
    try:
        return ((part.name, part.title) for part in _session("study_file").load_study(name).part)
    except UserError:
        return ()


def _records() -> Pairs:
    catalog = _session("catalog")
    names = map(catalog.record_name, reversed(catalog.list_records()))
    return (("last", "the record that started last"), *((name, "") for name in names))


def _study_folders() -> Pairs:
    folders = {path.parent for path in _session("catalog").list_records() if (path.parent / "study.json").is_file()}
    return ((str(folder), "") for folder in sorted(folders, reverse=True))


def _completion(pairs: Callable[[click.Context], Pairs], *, listed: bool = False) -> Completion:
    """Return a function that completes a name, or with `listed` the last one of a list with commas."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        taken = before.split(",")
        return _matching((pair for pair in pairs(ctx) if pair[0] not in taken), last, f"{before}{comma}")

    return complete


COMPLETIONS: dict[str, Completion] = {
    "architectures": _completion(lambda _: ((each.name, "") for each in _session("catalog").ARCHITECTURES)),
    "factors": _complete_factors,
    "libraries": _completion(lambda _: _listed("libraries"), listed=True),
    "loads": _completion(lambda _: _listed("loads"), listed=True),
    "parts": _completion(_parts),
    "records": _completion(lambda _: _records()),
    "studies": _complete_studies,
    "study_folders": _completion(lambda _: _study_folders()),
    "suites": _completion(lambda _: _listed("suites")),
    "targets": _complete_targets,
    "workloads": _completion(_workloads),
}
"""How options and arguments are completed, by what they name."""
