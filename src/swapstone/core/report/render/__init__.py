# SPDX-License-Identifier: MIT OR Apache-2.0
"""Renderers: each prints a document in one format. docs/extending.md has a recipe for a new one."""

from __future__ import annotations

from swapstone.core.report.render.html import HTML
from swapstone.core.report.render.json import JSON
from swapstone.core.report.render.markdown import MARKDOWN
from swapstone.core.report.render.renderer import Renderer
from swapstone.core.report.render.terminal import TEXT

__all__ = ["RENDERERS", "Renderer", "find_renderer"]

RENDERERS: tuple[Renderer, ...] = (HTML, MARKDOWN, TEXT, JSON)
"""Every format of `swapstone report --format`."""


def find_renderer(name: str) -> Renderer:
    """Return the renderer of a format.

    Raises:
        KeyError: there is none of that name.
    """
    return {renderer.name: renderer for renderer in RENDERERS}[name]
