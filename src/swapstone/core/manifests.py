# SPDX-License-Identifier: MIT OR Apache-2.0
"""The manifests of the parts in this package's folder ``parts``: read without importing a part, or anything else of this project."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from swapstone.version import __version__

FOLDER = Path(__file__).parents[1] / "parts"
MANIFEST = "part.toml"


class Part(NamedTuple):
    """The manifest of a part.

    Attributes:
        name: of its folder, or of the entry point of a part from elsewhere.
        version: of the part; records keep it.
        provides: by one of the kinds in `swapstone.core.model.parts.KINDS`, where each object is: ``package.module:NAME``.
        description: one line.
        order: parts are listed by it, and then by their names.
        uses: names of the parts that its code may import.
        commands: by the name of a subcommand, its module, which has ``NAME_command``, and one line for ``--help``.
    """

    name: str
    version: str
    provides: Mapping[str, tuple[str, ...]]
    description: str = ""
    order: int = 1000
    uses: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, str]] = {}


@functools.cache
def shipped_parts() -> tuple[Part, ...]:
    """Return the manifests of the parts in `FOLDER` whose `Part.uses` are all there, in their order."""
    found = []
    for file in FOLDER.glob(f"*/{MANIFEST}"):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        found.append(
            Part(
                name=file.parent.name,
                version=__version__,
                provides={kind: tuple(places) for kind, places in table.get("provides", {}).items()},
                description=table["description"],
                order=table["order"],
                uses=tuple(table["uses"]),
                commands={name: (module, line) for name, (module, line) in table.get("commands", {}).items()},
            )
        )
    while len(usable := [part for part in found if {*part.uses} <= {each.name for each in found}]) < len(found):
        found = usable
    return tuple(sorted(found, key=lambda part: (part.order, part.name)))
