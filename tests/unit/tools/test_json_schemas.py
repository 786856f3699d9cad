# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/schemas is what the types give, and a change that may break a reader needs another version."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.generated import TOP
from tools.json_schemas import FOLDER, changes, generated, problems

from swapstone.core.report.printed_json import VERSIONS, printed_json
from tests.json_schema import check_printed, differences, published

Schema = dict[str, Any]


def test_published_schemas_are_what_the_types_give() -> None:
    assert list(problems(TOP)) == []


@pytest.fixture(scope="module")
def analysis() -> Schema:
    return generated("analysis")


def _without_answer(schema: Schema) -> None:
    del schema["properties"]["answer"]
    schema["required"].remove("answer")


CHANGES: dict[str, tuple[Callable[[Schema], object], str]] = {
    "a field goes": (_without_answer, "$.answer is printed no longer"),
    "a field is optional": (lambda found: found["required"].remove("answer"), "$.answer is always printed no longer"),
    "a type": (
        lambda found: found["properties"].update(answer={"type": "integer"}),
        "$.answer has the type integer now",
    ),
    "null": (
        lambda found: found["$defs"]["Comparison"]["properties"].update(
            confidence={"anyOf": [{"type": "number"}, {"type": "null"}]}
        ),
        "$.analysis.comparisons[].confidence has the type null now",
    ),
    "no null": (
        lambda found: found["$defs"]["Comparison"]["properties"].update(effect={"type": "number"}),
        "$.analysis.comparisons[].effect has the type null no longer",
    ),
    "a word goes": (
        lambda found: found["$defs"]["Verdict"]["enum"].remove("worse"),
        "$.analysis.comparisons[].verdict may be 'worse' no longer",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_breaks_readers_is_named(analysis: Schema, name: str) -> None:
    change, text = CHANGES[name]
    other = copy.deepcopy(analysis)
    change(other)
    assert any(text in each for each in changes(analysis, other)), changes(analysis, other)


def test_a_field_and_a_word_may_be_added(analysis: Schema) -> None:
    other = copy.deepcopy(analysis)
    other["$defs"]["Comparison"]["properties"]["colour"] = {"type": "string"}
    other["$defs"]["Verdict"]["enum"].append("purple")
    assert changes(analysis, other) == []


def test_a_type_of_block_may_be_added_and_none_goes() -> None:
    older, newer = generated("document"), generated("document")
    blocks = older["$defs"]["Section"]["properties"]["blocks"]["items"]["anyOf"]
    del blocks[2]
    assert changes(older, newer) == []
    assert any("$.document.sections[].blocks[]<" in each for each in changes(newer, older))


def test_the_tool_writes_additions_and_refuses_other_changes(tmp_path: Path) -> None:
    shutil.copytree(TOP / FOLDER, tmp_path / FOLDER)
    path = tmp_path / FOLDER / "plan.json"
    published = json.loads(path.read_text())
    del published["properties"]["store"]
    path.write_text(json.dumps(published))
    assert list(problems(tmp_path, ["plan"])) == [
        "docs/schemas/plan.json differs from the types. Then run: tools/json-schemas --write"
    ]
    assert list(problems(tmp_path, ["plan"], write=True)) == []
    assert path.read_bytes() == (TOP / FOLDER / "plan.json").read_bytes()

    published["properties"]["folder"] = {"type": "string"}
    path.write_text(json.dumps(published))
    found, *_ = problems(tmp_path, ["plan"], write=True)
    assert found.startswith(
        "plan, version 1: $.folder is printed no longer. Raise the version in src/swapstone/core/report/printed_json.py"
    )
    assert json.loads(path.read_text()) == published

    published["properties"]["schema"]["const"] = 0  # the version of the types is a later one
    path.write_text(json.dumps(published))
    assert list(problems(tmp_path, ["plan"], write=True)) == []
    (tmp_path / FOLDER / "other.json").write_text("{}")
    assert list(problems(tmp_path, ["plan"])) == ["docs/schemas/other.json has no format."]


def test_a_document_names_format_and_version_and_is_checked() -> None:
    text = printed_json("query", rows=[{"a": 1.5, "b": float("nan")}])
    assert json.loads(text) == {
        "format": "swapstone-query",
        "schema": VERSIONS["query"],
        "rows": [{"a": 1.5, "b": None}],
    }
    assert check_printed(text) == "swapstone-query"
    whole = {
        "format": "swapstone-plan",
        "schema": 1,
        "plan": "p",
        "store": "s",
        "trials": 1,
        "runs": ["r"],
        "finished": 0,
    }
    schema = published("swapstone-plan")
    assert list(differences(whole, schema, schema, "$")) == []
    for wrong in ({"schema": 2}, {"trials": "1"}, {"trials": True}, {"runs": [1]}, {"runs": None}, {"colour": "red"}):
        assert len(list(differences({**whole, **wrong}, schema, schema, "$"))) == 1, wrong
    assert next(differences({}, schema, schema, "$")) == "$.finished is missing"


def test_a_name_that_is_no_utf_8_is_an_escape() -> None:
    assert '"\\udcff"' in printed_json("query", rows=[{"record": "\udcff"}])
