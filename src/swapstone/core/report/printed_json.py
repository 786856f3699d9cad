# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON that commands print: each document names its format and the version of that format's schema.

Formats of other programs, such as hyperfine's, are not printed here. ``docs/schemas`` has a JSON Schema of each format, which
`tools/json-schemas` generates. No schema is read or generated while a command runs.
"""

from __future__ import annotations

import json

import msgspec

from swapstone.core.model.safe_text import safe_json

VERSIONS: dict[str, int] = {
    "analysis": 1,
    "conformance": 1,
    "doctor": 1,
    "document": 2,
    "explanation": 1,
    "image": 1,
    "images": 1,
    "instruction-explanation": 1,
    "libc-image": 1,
    "list": 1,
    "memory-fit": 1,
    "plan": 1,
    "published-claims": 1,
    "published-differences": 1,
    "query": 1,
    "side-by-side": 1,
    "study-index": 3,
    "wakeup-explanation": 1,
}
"""The version of each format's schema. ``docs/stability.md`` states which change raises it."""


def printed_json(name: str, /, **fields: object) -> str:
    """Return a document: ``{"format": "swapstone-NAME", "schema": VERSION, ...}``, indented, with a newline at the end.

    Args:
        name: of the format, in `VERSIONS`.
        fields: the rest of the document, for msgspec's encoder. A number that is not finite becomes null.
    """
    whole = {"format": f"swapstone-{name}", "schema": VERSIONS[name], **fields}
    try:
        text = msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()
    except UnicodeEncodeError:  # a file's name that is no UTF-8: Python's surrogates of its bytes stay as escapes
        text = json.dumps(msgspec.to_builtins(whole), indent=1)
    return safe_json(text) + "\n"
