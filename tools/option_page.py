# SPDX-License-Identifier: MIT OR Apache-2.0
"""Generate docs/options.md and docs/study-schema.json from the table of options.

Usage: tools/option-page [--write]

Without --write, the files are compared with what the table gives.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from swapstone.core.session.option_table import options_of
from swapstone.core.session.options import PIECES
from swapstone.core.session.study_file import KEYS, PROGRAM_KEYS, STUDY_FILE

_HEAD = """# Options: one table

An option has one name in Python and in study files, and a flag on the command
line. In Python it is an argument of its settings, as in
`swapstone.Measuring(budget="1m")` ([python.md](python.md)). In a study file it
is a key, and those of `Program` are keys of the table `[program]`
([studies.md](studies.md)); [study-schema.json](study-schema.json) is their JSON
Schema, for editors. The default is in brackets.

`tools/option-page --write` generates this page from
`src/swapstone/core/session/options.py` and from what parts declare.
"""


def page() -> str:
    """Return docs/options.md."""
    parts = [_HEAD]
    for kind in PIECES.values():
        summary = textwrap.fill((kind.__doc__ or "").partition("\n")[0], 80)
        parts.append(
            f"\n## {kind.__name__}\n\n{summary}\n\n| option | command line | in a study file | meaning |\n|---|---|---|---|\n"
        )
        for name, option in options_of(kind):
            usage = " ".join((option.flags[-1], option.metavar)).strip() if option.flags else ""
            cells = (f"`{name}`", usage and f"`{usage}`", option.example and f"`{option.example}`", option.help)
            parts.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
    return "".join(parts)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file."""
    made: dict[str, Any] = msgspec.json.schema(STUDY_FILE)
    for definition in made["$defs"].values():
        for name, each in definition["properties"].items():
            option = {**KEYS, **PROGRAM_KEYS}.get(name)
            if option is not None:
                each["description"] = option.help
            if option is not None and option.choices:
                each["enum"] = list(option.choices)
        for key in ("title", "description"):
            definition.pop(key, None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def problems(top: Path, *, write: bool = False) -> Iterator[str]:
    """Compare the files of a checkout with the table, and yield what to do; with `write`, write them."""
    encoded = msgspec.json.format(msgspec.json.encode(schema()), indent=1) + b"\n"
    for name, content in (("docs/options.md", page().encode()), ("docs/study-schema.json", encoded)):
        path = top / name
        if write:
            path.write_bytes(content)
        elif not path.is_file() or path.read_bytes() != content:
            yield f"{name} differs from the table of options. Run: tools/option-page --write"
