# SPDX-License-Identifier: MIT OR Apache-2.0
"""A document as JSON, block by block: for programs that lay out a report themselves.

`swapstone show --json` prints the analysis itself, for programs that read the numbers.
"""

from __future__ import annotations

import msgspec

from swapstone.core.report.document import Document
from swapstone.core.report.printed_json import printed_json


def render(document: Document) -> str:
    """Return a document as JSON of the format ``document``.

    What only pages show is left out. Each block has a ``type``, its name in `swapstone.core.report.document`.
    """
    return printed_json("document", document=msgspec.structs.replace(document, page_sections=()))
