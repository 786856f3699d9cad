# SPDX-License-Identifier: MIT OR Apache-2.0
"""Generate docs/schemas: a JSON Schema (draft 2020-12) of each format of JSON that commands print.

Usage: tools/json-schemas [--write]

Without --write, the files are compared with what the types give. A change that docs/stability.md does not allow within a version is
refused: raise the version in src/swapstone/core/report/printed_json.py first.

A schema comes from msgspec's description of the types. Each field is required, because each is printed, and further fields are allowed.
A variant is its label. Fields may be added, so that a reader ignores unknown ones.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UnsetType

from swapstone.core.comparison.side_by_side import SideBySide
from swapstone.core.model import Analysis
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Document
from swapstone.core.report.printed_json import VERSIONS
from swapstone.core.report.study_index import PartSummary, StudyIndex
from swapstone.core.session.capabilities import State
from swapstone.core.session.catalog import all_lists
from swapstone.parts.bisect.bisect import BisectResult
from swapstone.parts.bisect.flags import FlagsResult
from swapstone.parts.bisect.history import HistoryResult
from swapstone.parts.cluster.many_machines import PlannedRuns
from swapstone.parts.explain.model.explanation import CountedRow, Explanation, RowMeasurements, TracedRow
from swapstone.parts.gate.gate_result import GateResult
from swapstone.parts.net.session.conformance import ScriptOutcome
from swapstone.parts.vm.artifacts.images import Image
from swapstone.parts.vm.artifacts.libc_files import LibcImage
from swapstone.parts.vm.model.memory_fit import MemoryFit
from swapstone.parts.vm.session.image_store import image_rows

FOLDER = Path("docs", "schemas")
Schema = dict[str, Any]
Fields = dict[str, Any]
"""Types by the names of fields. A field that is not always printed has a type with `UnsetType`."""
_RAISE = "Raise the version in src/swapstone/core/report/printed_json.py and name the change in CHANGELOG.md."


def _struct(name: str, *parts: Fields) -> Any:  # noqa: ANN401 - a type
    return msgspec.defstruct(name, [field for part in parts for field in part.items()], kw_only=True)


def _many(kind: Any) -> Any:  # noqa: ANN401 - types
    return types.GenericAlias(tuple, (kind, ...))


def _fields(of: type[msgspec.Struct], *without: str) -> Fields:
    return {each.encode_name: each.type for each in msgspec.structs.fields(of) if each.name not in without}


_TEXT = str | None
_TEXTS = tuple[str, ...]
_EXHIBIT: Fields = {
    **dict.fromkeys(("name", "title"), str),
    "data": tuple[dict[str, str | float | None], ...],
    **dict.fromkeys(("notes", "flags"), _TEXTS),
}
_FINDING = _struct("Finding", {"name": str, "state": State, **dict.fromkeys(("found", "meaning", "remedy"), str)})
_EXHIBITS = _many(_struct("StudyExhibit", _EXHIBIT))
_PART = _struct("Part", _fields(PartSummary, "sections"), {"exhibits": _EXHIBITS})
_INDEX = _struct(
    "Index",
    _fields(StudyIndex, "parts", "clocks", "opening"),
    {
        "parts": _many(_PART),
        "opening": _EXHIBITS,
        "clocks": _many(_struct("Clock", {"answer": str, "table": SideBySide})),
    },
)
_CLAIM = _struct(
    "Claim",
    dict.fromkeys(("id", "source", "place", "words"), str),
    dict.fromkeys(("command", "verdict", "reason", "note"), _TEXT),
    {"evidence": _many(_struct("Evidence", dict.fromkeys(("record", "verdict", "text"), str)))},
)
_COMPARED = _struct(
    "Compared",
    dict.fromkeys(("study", "suite", "workload", "metric", "ratio", "platform", "record"), str),
    dict.fromkeys(("page", "here"), float),
    dict.fromkeys(("low", "high"), float | None),
    dict.fromkeys(("not_same", "differs", "reason"), _TEXT),
)
_FOUND: Fields = {"answer": str, "records": _TEXTS, "left_out": _TEXT, "damaged": _TEXTS}

DOCUMENTS: dict[str, Fields] = {
    "analysis": {
        "answer": str,
        "context": _struct("Context", _fields(ReportContext, "workloads", "selection", "pieces")),
        "analysis": Analysis,
        "exhibits": _many(_struct("Exhibit", _EXHIBIT)) | UnsetType,
    },
    "bisect-result": _fields(BisectResult),
    "conformance": {
        "passed": dict[str, int],
        "outcomes": _many(_struct("Outcome", _fields(ScriptOutcome), {"known": _TEXT})),
    },
    "doctor": dict.fromkeys(("can", "noise"), _many(_FINDING)),
    "document": {"document": Document},
    "explanation": {
        "explanation": Explanation,
        "measured": RowMeasurements | None,
        "counted": CountedRow | None,
        "traced": TracedRow | None,
    },
    "flags-result": _fields(FlagsResult),
    "gate-result": _fields(GateResult),
    "history-result": _fields(HistoryResult),
    "image": {"digest": str, "folder": str, "image": Image},
    "libc-image": {"image": LibcImage},
    "memory-fit": _fields(MemoryFit),
    "plan": _fields(PlannedRuns),
    "published-claims": {**_FOUND, "claims": _many(_CLAIM)},
    "published-differences": {**_FOUND, "absent": int, "factor": float, "rows": _many(_COMPARED)},
    "query": {"rows": tuple[dict[str, Any], ...]},
    "side-by-side": {"tables": _many(_struct("Joined", {"board": str, "sentences": _TEXTS, "table": SideBySide}))},
    "study-index": {"index": _INDEX},
}
"""The fields of each format besides ``format`` and ``schema``. Those of ``list`` and ``images`` are the columns of tables."""


def generated(name: str) -> Schema:
    """Return the schema of a format of `VERSIONS`."""
    if name in DOCUMENTS:
        fields = DOCUMENTS[name]
        found, components = msgspec.json.schema_components(fields.values())
        properties: Schema = dict(zip(fields, found, strict=True))
        made: Schema = {"properties": properties, "$defs": components}
        if "Variant" in components:
            components["Variant"] = {"type": "string"}
        optional = [each for each, kind in fields.items() if UnsetType in typing.get_args(kind)]
    else:
        made, optional = _tables(name), []
    start = {"format": {"const": f"swapstone-{name}"}, "schema": {"const": VERSIONS[name]}}
    made = _plain({**made, "type": "object", "properties": {**start, **made["properties"]}})
    made["required"] = [each for each in made["required"] if each not in optional]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


@functools.cache
def _tables(name: str) -> Schema:
    if name == "images":
        return {"properties": {"rows": _table(image_rows()[0])}}
    rows = [{"$ref": f"#/$defs/{each}"} for each in all_lists()]
    tables = {each: _table(found.head) for each, found in all_lists().items()}
    return {"properties": {"list": {"enum": list(all_lists())}, "rows": {"anyOf": rows}}, "$defs": tables}


def _table(columns: Iterable[str]) -> Schema:
    cell = {"type": ["string", "number", "null"]}
    return {"type": "array", "items": {"type": "object", "properties": dict.fromkeys(columns, cell)}}


def _plain(schema: Schema) -> Schema:
    """Return a schema without texts and defaults, in which each field is required and further ones are allowed."""
    made: Schema = {}
    for key, value in schema.items():
        match key:
            case "title" | "description" | "default" | "discriminator" | "required":
                continue
            case "properties" | "$defs":
                made[key] = {name: _plain(each) for name, each in sorted(value.items())}
            case "anyOf" | "prefixItems":
                made[key] = [_plain(each) for each in value]
            case "items" | "additionalProperties":
                if value is not False or key == "items":
                    made[key] = _plain(value) if isinstance(value, dict) else value
            case _:
                made[key] = value
    if "properties" in made:
        made["required"] = list(made["properties"])
    return made


def changes(old: Schema, new: Schema) -> list[str]:
    """Return what a new schema changes so that a reader of the old one may fail: nothing where it only adds fields, words and types."""
    before, after = (dict.fromkeys(_promises(each, each)) for each in (old, new))
    paths = {path for path, _ in before}
    gone = [f"{path} {what} no longer" for path, what in before if (path, what) not in after]
    other = [(path, what) for path, what in after if path in paths and (path, what) not in before]
    return gone + [f"{path} {what} now" for path, what in other if what.startswith(_FORM)]


_FORM = "has the "


def _promises(schema: Schema, root: Schema, path: str = "$", inside: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield what readers of a value rely on: pairs of its path and a predicate. Types that contain themselves are followed once."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in inside:
            return
        schema, inside = root["$defs"][name], (*inside, name)
    forms = schema.get("anyOf", ())
    several = sum("$ref" in form for form in forms) > 1  # readers ignore unknown types, so each has paths of its own
    for form in forms:
        yield from _promises(form, root, f"{path}<{form['$ref']}>" if several and "$ref" in form else path, inside)
    for name, each in schema.get("properties", {}).items():
        yield f"{path}.{name}", "is printed"
        if name in schema["required"]:
            yield f"{path}.{name}", "is always printed"
        yield from _promises(each, root, f"{path}.{name}", inside)
    nested = {"[]": schema.get("items"), "{}": schema.get("additionalProperties")}
    for place, each in (
        nested | {f"[{number}]": part for number, part in enumerate(schema.get("prefixItems", ()))}
    ).items():
        if isinstance(each, dict):
            yield from _promises(each, root, f"{path}{place}", inside)
    yield from ((path, f"may be {word!r}") for word in schema.get("enum", ()))
    keys = ("type", "const", "format", "contentEncoding", "minItems", "maxItems")
    yield from ((path, f"{_FORM}{key} {schema[key]}") for key in keys if key in schema)


def problems(top: Path, formats: Iterable[str] = VERSIONS, *, write: bool = False) -> Iterator[str]:
    """Compare the published schemas of a checkout with the types, and yield what to do; with `write`, write them where that is allowed."""
    folder = top / FOLDER
    for name in formats:
        version = VERSIONS[name]
        path, made = folder / f"{name}.json", generated(name)
        published: Schema | None = msgspec.json.decode(path.read_bytes()) if path.exists() else None
        if published == made:
            continue
        same_version = published is not None and published["properties"]["schema"]["const"] == version
        found = changes(published, made) if published is not None and same_version else []
        for each in found:
            yield f"{name}, version {version}: {each}. {_RAISE}"
        if not write:
            yield f"{FOLDER / path.name} differs from the types. Then run: tools/json-schemas --write"
        elif not found:
            path.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    yield from (
        f"{FOLDER / path.name} has no format." for path in sorted(folder.glob("*.json")) if path.stem not in VERSIONS
    )
