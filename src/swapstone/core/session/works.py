# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a record's names mean: its own description, or for a record before 0.2 the one that this version derives."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import cast

from swapstone.core.model import Experiment, WorkSpec
from swapstone.core.record import Description, Meta, RecordView


def description_of(meta: Meta, experiment: Experiment) -> Description:
    """Return the description of a record.

    Raises:
        UserError: it is a record before 0.2, and this version of Swapstone does not have one of its workloads.
    """
    return _derived(experiment) if meta.description is None else meta.description


@functools.lru_cache(maxsize=8)
def _derived(experiment: Experiment) -> Description:
    # By name: it imports suites, factors, artifacts and targets, which records with a description do without.
    return cast("Description", importlib.import_module("swapstone.core.session.description").describe(experiment))


def works_of(view: RecordView) -> Mapping[str, WorkSpec]:
    """Return a record's works by name, with the programs that were built for their size alone.

    Raises:
        UserError: as `description_of`.
    """
    return {name: work for (_, name), work in description_of(view.meta, view.experiment).specs().items()}
