# SPDX-License-Identifier: MIT OR Apache-2.0
"""Swap one part of an embedded Linux stack, hold everything else still, and know what it costs.

The Python API, described in docs/python.md:

    import swapstone

    work, time = swapstone.Workloads(only="b_malloc*"), swapstone.Measuring(budget="1m")
    record = swapstone.compare(work, time, libc=["glibc", "musl"])
    record.comparisons().df()

Every name is imported when it is first used, so that `import swapstone` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from swapstone.version import __version__

if TYPE_CHECKING:
    from swapstone.core.model import RecordError, UnavailableError, UserError
    from swapstone.core.session.api import compare, load, study
    from swapstone.core.session.explainer import RowExplanation
    from swapstone.core.session.options import Measuring, Place, Program, Sharing, VirtualMachine, Workloads
    from swapstone.core.session.outcome import Interrupted
    from swapstone.core.session.progress import Progress
    from swapstone.core.session.query import Relation, query
    from swapstone.core.session.record_handle import Record
    from swapstone.core.session.study import StudyResult
    from swapstone.core.session.verification import Verification
    from swapstone.parts.boards.options import Boards

_MODULES = {
    "compare": "swapstone.core.session.api",
    "load": "swapstone.core.session.api",
    "query": "swapstone.core.session.query",
    "study": "swapstone.core.session.api",
    "Boards": "swapstone.parts.boards.options",
    "Interrupted": "swapstone.core.session.outcome",
    "Measuring": "swapstone.core.session.options",
    "Place": "swapstone.core.session.options",
    "Program": "swapstone.core.session.options",
    "Progress": "swapstone.core.session.progress",
    "Record": "swapstone.core.session.record_handle",
    "RecordError": "swapstone.core.model",
    "Relation": "swapstone.core.session.query",
    "RowExplanation": "swapstone.core.session.explainer",
    "Sharing": "swapstone.core.session.options",
    "StudyResult": "swapstone.core.session.study",
    "UnavailableError": "swapstone.core.model",
    "UserError": "swapstone.core.model",
    "Verification": "swapstone.core.session.verification",
    "VirtualMachine": "swapstone.core.session.options",
    "Workloads": "swapstone.core.session.options",
}
"""The module of each name that is imported when it is first used."""

__all__ = [
    "Boards",
    "Interrupted",
    "Measuring",
    "Place",
    "Program",
    "Progress",
    "Record",
    "RecordError",
    "Relation",
    "RowExplanation",
    "Sharing",
    "StudyResult",
    "UnavailableError",
    "UserError",
    "Verification",
    "VirtualMachine",
    "Workloads",
    "__version__",
    "compare",
    "load",
    "query",
    "study",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'swapstone' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
