# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the agent's answer to a trial holds: how it ended, and what was measured. Trials and `verify` read it alike."""

from swapstone.core.answers.reading import (
    DISK_BYTES,
    MOST_TOOL_BYTES,
    OUTPUT_BYTES,
    Measured,
    OutputReader,
    first_lines,
    reader_of,
    shortened,
    trouble_of,
)

__all__ = [
    "DISK_BYTES",
    "MOST_TOOL_BYTES",
    "OUTPUT_BYTES",
    "Measured",
    "OutputReader",
    "first_lines",
    "reader_of",
    "shortened",
    "trouble_of",
]
