# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON that commands print: each document names its format and the version of that format's schema.

Formats of other programs, such as hyperfine's, are not printed here. ``docs/schemas`` has a JSON Schema of each format, which
`tools/json-schemas` generates. No schema is read or generated while a command runs.
"""

from __future__ import annotations

import enum
import json

import msgspec

from swapstone.core.model import Variant
from swapstone.core.model.safe_text import safe_json

VERSIONS: dict[str, int] = {
    "analysis": 1,
    "bisect-result": 1,
    "conformance": 1,
    "doctor": 1,
    "document": 2,
    "explanation": 4,
    "flags-result": 1,
    "gate-result": 1,
    "history-result": 1,
    "image": 1,
    "images": 1,
    "libc-image": 1,
    "list": 1,
    "memory-fit": 1,
    "plan": 1,
    "published-claims": 1,
    "published-differences": 1,
    "query": 1,
    "side-by-side": 1,
    "study-index": 3,
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


def labelled(value: object) -> object:
    """Return a value as JSON types: a variant as its label, every other struct as a dictionary of its fields.

    Args:
        value: a struct, or a tuple, list, dictionary, enumeration member or plain value.

    Returns:
        Dictionaries, lists and plain values. Fields keep their order and the names that msgspec encodes.
    """
    if isinstance(value, Variant):
        return value.label
    if isinstance(value, msgspec.Struct):
        names = zip(
            value.__struct_encode_fields__, value.__struct_fields__, strict=True
        )  # msgspec.structs.fields resolves all annotations
        return {encoded: labelled(getattr(value, name)) for encoded, name in names}
    if isinstance(value, (tuple, list)):
        return [labelled(each) for each in value]
    if isinstance(value, dict):
        return {key: labelled(each) for key, each in value.items()}
    return value.value if isinstance(value, enum.Enum) else value
