# SPDX-License-Identifier: MIT OR Apache-2.0
"""The type of a renderer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from swapstone.core.report.document import Document


class Renderer(NamedTuple):
    """A format that a document can be printed in.

    Attributes:
        name: as users type it.
        description: one line for the help text.
        render: prints a document; the result ends in a newline.
    """

    name: str
    description: str
    render: Callable[[Document], str]
