# SPDX-License-Identifier: MIT OR Apache-2.0
"""The manifest of an experiment: machine, programs, and the versions of the tools that built them."""

from __future__ import annotations

from collections.abc import Mapping

from swapstone.core.record import Manifest
from swapstone.core.run.builder import builder
from swapstone.core.run.mapped_files import MappedFiles
from swapstone.core.run.prepare import Prepared
from swapstone.core.targets import Target


def manifest_of(
    prepared: Prepared, target: Target, passes: Mapping[tuple[str, str], int], seen: MappedFiles | None = None
) -> Manifest:
    """Return the manifest: what an experiment is made of."""
    programs = [program for program in prepared.programs.values() if program.artifact]
    every = [each for program in programs for each in (program, *program.links)]
    artifacts = (*(program.artifact for program in every if program.artifact), *prepared.empty)
    return Manifest(
        machine=target.describe().facts(),
        tools=(*builder().tools(programs), *target.tools()),
        artifacts=artifacts,
        passes=tuple((suite, workload, count) for (suite, workload), count in passes.items()),
        image_differences=target.image_differences(),
        mapped=seen.files if seen else (),
        resident=seen.resident if seen else (),
    )
