# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare what a tool generates with what it generates it from; with --write, write it first.

The commands tools/generate-wire, json-schemas, option-page and published-check start this file with the name of their module, whose
function `problems` yields what is wrong, one line each.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]


def main(name: str, *arguments: str) -> int:
    """Print what is wrong; return the exit status."""
    tool = importlib.import_module(f"tools.{name}")
    if arguments not in ((), ("--write",)):
        print(tool.__doc__)
        return 0
    found = list(tool.problems(TOP, write=bool(arguments)))
    print("\n".join(found) or "Nothing differs.")
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
