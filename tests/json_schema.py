# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares JSON that a command printed with its published schema: the parts of draft 2020-12 that msgspec writes."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schemas"
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


@functools.cache
def published(name: str) -> dict[str, Any]:
    """Return the schema of a format such as ``swapstone-analysis``."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name.removeprefix('swapstone-')}.json").read_text())
    return found


def check_printed(text: str) -> str:
    """Check a document against the schema that it names, in which an unknown field is an error here; return its format."""
    document = json.loads(text)
    name: str = document["format"]
    found = list(differences(document, published(name), published(name), "$"))
    assert found == [], f"{name} is not as its schema: {found[:5]}"
    return name


def differences(value: Any, schema: dict[str, Any], root: dict[str, Any], where: str) -> Iterator[str]:
    """Yield what a schema does not describe in a value."""
    if "$ref" in schema:
        yield from differences(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, where)
    if "anyOf" in schema:
        tried = [list(differences(value, each, root, where)) for each in schema["anyOf"]]
        if all(tried):
            yield f"{where} has no form of {len(tried)}: {min(tried, key=len)}"
    if "const" in schema and value != schema["const"]:
        yield f"{where} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is no known word"
    names = schema.get("type", [])
    kinds = tuple(kind for name in ([names] if isinstance(names, str) else names) for kind in _TYPES[name])
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        yield f"{where} is no {names}: {value!r:.60}"
    elif isinstance(value, dict):
        yield from _of_fields(value, schema, root, where)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{where} has {len(value)} elements"
        for place, each in enumerate(value):
            known = first[place] if place < len(first) else schema.get("items", {})
            yield from differences(each, known or {}, root, f"{where}[{place}]")


def _of_fields(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], where: str) -> Iterator[str]:
    fields = schema.get("properties", {})
    yield from (f"{where}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        further = fields.get(name, schema.get("additionalProperties"))
        if isinstance(further, dict):
            yield from differences(each, further, root, f"{where}.{name}")
        elif fields:
            yield f"{where}.{name} is unknown"
