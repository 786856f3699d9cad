# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count words that CONTRIBUTING's language rules exclude, per folder, at any git revision.

Example:
    tools/count-dialect c533c1b HEAD
"""

from __future__ import annotations

import argparse
import collections
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

TOP = Path(__file__).resolve().parents[1]

PATTERNS: dict[str, str] = {
    "nobody": r"\bnobody\b",
    "somebody": r"\bsome(?:body|one)\b",
    "whoever": r"\bwhoever\b",
    "believe": r"\bbeliev(?:e|es|ed|ing)\b",
    "know": r"\bknows?\b",
    "want": r"\bwants?\b",
    "say": r"\b(?:say|says|said|saying)\b",
    "tell": r"\b(?:tells?|told|telling)\b",
    "see": r"\b(?:sees|saw)\b",
    "speak": r"\b(?:speaks?|spoken)\b",
    "is asked": r"\b(?:is|are|was|were|be|been) asked\b|\basks\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "the user's own": r"\bof (?:the user's|a user's|our|your|one's) own\b",
    "of ours": r"\bof ours\b",
    "beyond": r"\bwhat lies beyond\b|\bwhose it is\b",
    "as it comes": r"\bas (?:it comes|they come|it is|they are)\b",
    "as one would": r"\bas one would\b",
    "riddle": r"\b(?:for want of|to speak of|all the same|bear(?:s)? out|no more than that|the machine's doing)\b",
}
"""Regular expressions by name: verbs of thought and speech for programs, and phrases without a standard meaning."""

TEXT_SUFFIXES = {".py", ".md", ".toml", ".rs", ".c", ".h", ".S", ".sh", ".txt", ".yml", ".in", ""}
NOT_PROSE = (
    "tests/golden/",
    "tests/recorded/",
    "tests/unit/workloads/recorded/",
    "crates/Cargo.lock",
    "LICENSE",
    "native/planted/COPYING",
)
"""Prefixes of generated or recorded files, whose text is not written here."""

_WORDS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in PATTERNS.items()}
_ANY = re.compile("|".join(PATTERNS.values()), re.IGNORECASE)
"""Any of them: few lines have one, and only these are compared with each."""


def is_prose(path: str) -> bool:
    """Return whether a tracked file has text that the language rules apply to."""
    excluded = path.startswith(NOT_PROSE) or PurePosixPath(path).suffix not in TEXT_SUFFIXES
    return not excluded and PurePosixPath(path).name not in {"count_dialect.py", "style.md", "test_language.py"}


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number (from 1), name of the pattern and matched text of each occurrence."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not _ANY.search(line):
            continue
        for name, word in _WORDS.items():
            for match in word.finditer(line):
                yield number, name, match.group()


def folder_of(path: str) -> str:
    """Return the folder in which a file is counted: the package below ``src/swapstone``, else the first two folders."""
    parts = PurePosixPath(path).parts[:-1]
    return "/".join(parts[: 3 if parts[:2] == ("src", "swapstone") else 2]) or "."


def count(revision: str) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Return the number of occurrences by folder and by pattern.

    Args:
        revision: anything that ``git rev-parse`` accepts.
    """
    by_folder: collections.Counter[str] = collections.Counter()
    by_word: collections.Counter[str] = collections.Counter()
    command = ["git", "archive", "--format=tar", revision]
    archive = subprocess.run(command, cwd=TOP, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() and is_prose(member.name) else None
            if content is None:
                continue
            try:
                text = content.read().decode()
            except UnicodeDecodeError:
                continue
            for _, name, _ in findings(text):
                by_folder[folder_of(member.name)] += 1
                by_word[name] += 1
    return by_folder, by_word


def _print_table(title: str, revisions: list[str], counts: list[collections.Counter[str]]) -> None:
    names = sorted(set().union(*counts))
    width = max(map(len, [title, *names]), default=0)
    print(" ".join([title.ljust(width), *(revision[:12].rjust(12) for revision in revisions)]))
    for name in [*names, "total"]:
        numbers = [counted.total() if name == "total" else counted[name] for counted in counts]
        print(" ".join([name.ljust(width), *(str(number).rjust(12) for number in numbers)]))


def main() -> int:
    """Print the counts of each revision side by side."""
    parser = argparse.ArgumentParser(
        prog="tools/count-dialect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revisions", nargs="*", default=["HEAD"], metavar="REVISION")
    revisions = parser.parse_args().revisions
    counted = [count(revision) for revision in revisions]
    _print_table("folder", revisions, [by_folder for by_folder, _ in counted])
    print()
    _print_table("word", revisions, [by_word for _, by_word in counted])
    return 0


if __name__ == "__main__":
    sys.exit(main())
