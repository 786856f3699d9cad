# SPDX-License-Identifier: MIT OR Apache-2.0
"""The formats in which the explanation of a row is printed."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import UserError
from swapstone.report.document import Document
from swapstone.report.render import RENDERERS, find_renderer


def explanation_text(format: str, document: Callable[[], Document], to_json: Callable[[], str]) -> str:
    """Return an explanation as ``json``, or in a format of `swapstone report --format`.

    Args:
        format: its name.
        document: returns the explanation for any renderer.
        to_json: returns it as JSON.

    Raises:
        UserError: there is no such format.
    """
    if format == "json":
        return to_json()
    names = [renderer.name for renderer in RENDERERS]
    if format not in names:
        raise UserError(f"There is no format {format!r}.", f"The formats are json, {', '.join(names)}.")
    return find_renderer(format).render(document())
