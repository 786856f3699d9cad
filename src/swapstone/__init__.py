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
    from swapstone.model import RecordError, UnavailableError, UserError
    from swapstone.session.api import compare, explain, load, query, study
    from swapstone.session.explainer import RowExplanation
    from swapstone.session.interrupted import Interrupted
    from swapstone.session.progress import NullProgress, Progress
    from swapstone.session.query import Relation
    from swapstone.session.record_handle import Record
    from swapstone.session.settings import Boards, Measuring, Place, Program, Sharing, VirtualMachine, Workloads
    from swapstone.session.study import StudyResult
    from swapstone.session.verification import Verification

_MODULES = {
    "compare": "swapstone.session.api",
    "explain": "swapstone.session.api",
    "load": "swapstone.session.api",
    "query": "swapstone.session.api",
    "study": "swapstone.session.api",
    "Boards": "swapstone.session.settings",
    "Interrupted": "swapstone.session.interrupted",
    "Measuring": "swapstone.session.settings",
    "NullProgress": "swapstone.session.progress",
    "Place": "swapstone.session.settings",
    "Program": "swapstone.session.settings",
    "Progress": "swapstone.session.progress",
    "Record": "swapstone.session.record_handle",
    "RecordError": "swapstone.model",
    "Relation": "swapstone.session.query",
    "RowExplanation": "swapstone.session.explainer",
    "Sharing": "swapstone.session.settings",
    "StudyResult": "swapstone.session.study",
    "UnavailableError": "swapstone.model",
    "UserError": "swapstone.model",
    "Verification": "swapstone.session.verification",
    "VirtualMachine": "swapstone.session.settings",
    "Workloads": "swapstone.session.settings",
}
"""The module of each name that is imported when it is first used."""

__all__ = [
    "Boards",
    "Interrupted",
    "Measuring",
    "NullProgress",
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
    "explain",
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
