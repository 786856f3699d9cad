# SPDX-License-Identifier: MIT OR Apache-2.0
"""How a record's own program is written as a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from swapstone.core.model import Experiment

PROGRAM = "{program}"
"""In --server: each of the programs that --program names."""

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./{}-]+", re.ASCII)


def command_line(experiment: Experiment) -> str:
    """Return the options that name an own program, e.g. ``-- ./prog -n 5``; empty for the bundled workloads."""
    own = experiment.own
    if own is None:
        return ""
    programs = " ".join(f"--program {shlex.quote(f'{level}={path}')}" for level, path in own.programs)
    if own.load_generators:
        words = (PROGRAM, *own.arguments) if own.programs else own.arguments
        return " ".join(filter(None, (programs, f"--server {shown_command(words)}")))
    if own.commands:
        shown = (
            line.words[0] if own.shell else shown_command((*map("=".join, line.environment), *line.words))
            for line in own.commands
        )
        return " ".join(map(shlex.quote, shown) if own.shell else shown)
    rest = f"-- {shlex.join(own.arguments)}" if own.arguments else ""
    return " ".join(filter(None, (programs, rest)))


def shown_command(words: Sequence[str]) -> str:
    """Return a command line as one argument of the shell: with the quotes that it needs, and no more."""
    text = " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in words)
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!]', text) else shlex.quote(text)
