# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of an experiment or a study by a signal."""

from __future__ import annotations

from pathlib import Path


class Interrupted(KeyboardInterrupt):
    """A signal ended an experiment or a study. What was measured until then is in a sealed record.

    Attributes:
        path: the folder of the record or the study.
        resume: the command that resumes it.
    """

    def __init__(self, path: Path, resume: str) -> None:
        super().__init__(f"Interrupted. Resume with: {resume}")
        self.path = path
        self.resume = resume
