# SPDX-License-Identifier: MIT OR Apache-2.0
"""The list of the libraries that are built for programs."""

from __future__ import annotations

from swapstone.core.session.catalog import Listing, Rows
from swapstone.parts.build.artifacts.libraries import library_version
from swapstone.parts.build.artifacts.library_table import LIBRARIES

__all__ = ["LIBRARIES", "LIST"]


def _rows() -> Rows:
    head = ["library", "version", "needs", "what it is"]
    return head, [
        [name, library_version(name), ",".join(library.needs), library.description]
        for name, library in LIBRARIES.items()
    ]


LIST = Listing("libraries", _rows, 70)
