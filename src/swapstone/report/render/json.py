# SPDX-License-Identifier: MIT OR Apache-2.0
"""A document as JSON, block by block: for programs that lay out a report themselves.

`swapstone show --json` prints the analysis itself, for programs that read the numbers.
"""

from __future__ import annotations

import msgspec

from swapstone.model.safe_text import safe_json
from swapstone.report.document import Document
from swapstone.report.render.renderer import Renderer

FORMAT, SCHEMA = "swapstone-document", 1


def render(document: Document) -> str:
    """Print a document as JSON: ``{"format": "swapstone-document", "schema": 1, "document": ...}``.

    What only pages show is left out. Each block has a ``type``, its name in `swapstone.report.document`.
    """
    whole = {"format": FORMAT, "schema": SCHEMA, "document": msgspec.structs.replace(document, page_sections=())}
    return safe_json(msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()) + "\n"


JSON = Renderer("document-json", "the blocks of the report, for programs", render)
