# SPDX-License-Identifier: MIT OR Apache-2.0
"""Words that CONTRIBUTING's language rules exclude, and the files that the rules apply to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

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
    return not excluded and PurePosixPath(path).name not in {"excluded_words.py", "style.md", "test_language.py"}


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number (from 1), name of the pattern and matched text of each occurrence."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not _ANY.search(line):
            continue
        for name, word in _WORDS.items():
            for match in word.finditer(line):
                yield number, name, match.group()
