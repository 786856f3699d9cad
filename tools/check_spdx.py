# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that every source file of the repository has an SPDX licence line, in a comment on its first line, or the second after ``#!``.

Usage: tools/check-spdx     (exits with 1 if a line is missing, and prints the one that is expected)
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[1]
LICENCE = "MIT OR Apache-2.0"
EXCEPTIONS = {"native/planted/": "GPL-2.0-only"}
"""Folders with a licence of their own: a module of the Linux kernel must be compatible with the kernel's."""

SOURCES = frozenset({".py", ".sh", ".rs", ".c", ".h", ".ld", ".css", ".js", ".j2"})
"""Suffixes of source files. A script without a suffix begins with ``#!``."""

_LINE = re.compile(r"(?:#!.*\n)?.*SPDX-License-Identifier: (?P<licence>[A-Za-z0-9.+ -]+?) *(?:\*/|-?#\}|\n|$)")


def problems(top: Path) -> Iterator[str]:
    """Yield one line for each source file, tracked by git or to be added, without the right licence line. Empty files need none."""
    command = ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in sorted(set(filter(None, listed.split("\0")))):
        path = top / name
        if not path.is_file() or path.is_symlink() or not (path.suffix in SOURCES or not path.suffix):
            continue
        data = path.read_bytes()
        if data and (path.suffix or data.startswith(b"#!")):
            wanted = next((each for folder, each in EXCEPTIONS.items() if name.startswith(folder)), LICENCE)
            found = _LINE.match(data.decode())
            if found is None or found["licence"] != wanted:
                stated = f"states {found['licence']}" if found else "no licence line"
                yield f"{name}: {stated}; expected SPDX-License-Identifier: {wanted}"


def main() -> int:
    """Check the repository; return the exit status."""
    if sys.argv[1:]:
        print(__doc__)
        return 0
    found = list(problems(TOP))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
