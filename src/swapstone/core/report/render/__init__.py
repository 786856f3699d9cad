# SPDX-License-Identifier: MIT OR Apache-2.0
"""Renderers: each prints a document in one format. docs/extending.md has a recipe for a new one."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from swapstone.core.report.document import Document

__all__ = ["RENDERERS", "Renderer", "find_renderer"]


class Renderer(NamedTuple):
    """A format that a document can be printed in. Its module is imported when it prints one.

    Attributes:
        name: as users type it.
        description: one line for the help text.
        place: the module of this package, and its function that returns a document in the format; the result ends in a newline.
    """

    name: str
    description: str
    place: str

    def render(self, document: Document) -> str:
        """Print a document."""
        module, _, function = self.place.partition(":")
        printed: str = getattr(importlib.import_module(f"{__name__}.{module}"), function)(document)
        return printed


RENDERERS: tuple[Renderer, ...] = (
    Renderer("html", "one HTML page that loads nothing", "html:render"),
    Renderer("markdown", "Markdown, for an issue or a merge request", "markdown:render"),
    Renderer("text", "plain text of 80 columns", "terminal:render_whole"),
    Renderer("document-json", "the blocks of the report, for programs", "json:render"),
)
"""Every format of `swapstone report --format`."""


def find_renderer(name: str) -> Renderer:
    """Return the renderer of a format.

    Raises:
        KeyError: there is none of that name.
    """
    return {renderer.name: renderer for renderer in RENDERERS}[name]
