# SPDX-License-Identifier: MIT OR Apache-2.0
"""Notes on an own program that are printed before it runs."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model import OwnProgram
from swapstone.parts.build.artifacts import SourceSize, count_sources, replaced_flags_warning

LARGE_BYTES = 1 << 30
LARGE_FILES = 50_000
"""Sources of this size or more are announced before they are copied. A Linux kernel is about this large."""


def source_notes(own: OwnProgram) -> tuple[str, ...]:
    """Return the notes on the sources and the build command."""
    return tuple(filter(None, (large_sources_note(own), build_note(own))))


def build_note(own: OwnProgram) -> str:
    """Return a warning if the build command replaces flags that the project sets, else an empty string."""
    return replaced_flags_warning(own.build, Path(own.source)) if own.build and own.source else ""


def large_sources_note(own: OwnProgram) -> str:
    """Return a note if the sources that are copied for each variant are large, else an empty string."""
    if not own.source or not Path(own.source).is_dir():
        return ""
    amount: SourceSize = count_sources(Path(own.source))
    if amount.size_bytes < LARGE_BYTES and amount.files < LARGE_FILES:
        return ""
    return (
        f"The sources are large: {amount.files} files, {amount.size_bytes / 2**20:.0f} MiB. "
        "They are copied twice for each variant. Name a smaller folder with --source if the build does not need all of them."
    )
