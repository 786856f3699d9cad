# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who may import whom: the order inside the core, and the parts that each part uses. ARCHITECTURE.md prints both."""

from __future__ import annotations

import ast
import functools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import swapstone
from swapstone.core.manifests import shipped_parts
from swapstone.core.model.parts import KINDS, load

TOP = Path(__file__).parents[2]
SOURCE = TOP / "src" / "swapstone"
PARTS = sorted(path.parent.name for path in SOURCE.glob("parts/*/part.toml"))
CORE = tuple(
    re.findall(
        r"^\| `(\w+)` \|",
        (TOP / "ARCHITECTURE.md").read_text().partition("The core's packages")[2].partition("\n\n`src")[0],
        re.MULTILINE,
    )
)
"""The packages of the core, in the order of ARCHITECTURE.md."""
BESIDE = {"exit_status", "version", "standard_streams"}
"""Modules beside core and parts that anything may import."""


@functools.cache
def _imports(path: Path) -> frozenset[tuple[str, ...]]:
    """Return the first three names below ``swapstone`` of each module of ours that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif not isinstance(node, ast.ImportFrom):
            continue
        elif node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif node.level > 0:
            pytest.fail(f"{path}: relative import; write the whole name")
        found |= {tuple(name.split(".")[1:4]) for name in names if name.startswith("swapstone.")}
    return frozenset(found)


def _files(folder: str) -> Iterator[tuple[Path, frozenset[tuple[str, ...]]]]:
    files = sorted((SOURCE / folder).rglob("*.py"))
    assert files
    for path in files:
        yield path.relative_to(SOURCE), _imports(path)


def test_architecture_lists_every_package_and_every_part() -> None:
    assert set(CORE) == {path.name for path in (SOURCE / "core").iterdir() if (path / "__init__.py").exists()}
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*)\|$", (TOP / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    stated = {name: set(re.findall(r"`(\w+)`", uses)) for name, uses in rows if name in PARTS}
    manifests = {name: tomllib.loads((SOURCE / "parts" / name / "part.toml").read_text()) for name in PARTS}
    assert stated == {name: set(manifest["uses"]) for name, manifest in manifests.items()}
    assert all(set(manifest["uses"]) <= set(PARTS) for manifest in manifests.values())


@pytest.mark.parametrize("package", CORE)
def test_a_package_of_the_core_imports_only_those_before_it(package: str) -> None:
    allowed = {*CORE[: CORE.index(package) + 1], "manifests"}
    for path, imported in _files(f"core/{package}"):
        for first, *rest in imported:
            assert first in BESIDE or (first == "core" and rest[0] in allowed), f"{path} imports {first}.{rest}"


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_the_core_and_the_parts_that_its_manifest_names(part: str) -> None:
    uses = tomllib.loads((SOURCE / "parts" / part / "part.toml").read_text())["uses"]
    allowed = {part, *uses}
    for path, imported in _files(f"parts/{part}"):
        for first, *rest in imported:
            assert first in {*BESIDE, "core"} or (first == "parts" and rest[0] in allowed), f"{path} imports {rest}"


def test_nothing_imports_the_command_line() -> None:
    for folder in ("src", "benchmarks", "tools"):
        for path in (TOP / folder).rglob("*.py"):
            if path.parent.name != "cli" and path.name != "__main__.py":
                assert "cli" not in {first for first, *_ in _imports(path)}, path


def test_nothing_but_its_manifest_names_what_a_part_provides() -> None:
    for name in PARTS:
        manifest = tomllib.loads((SOURCE / "parts" / name / "part.toml").read_text())
        for place in (place for places in manifest.get("provides", {}).values() for place in places):
            assert place.startswith(f"swapstone.parts.{name}."), place


def test_the_core_asks_for_every_kind_that_a_manifest_names() -> None:
    texts = "".join(path.read_text() for path in (SOURCE / "core").rglob("*.py"))
    asked = set(re.findall(r'provided\(\s*"([\w-]+)"', texts))
    named = {kind for part in shipped_parts() for kind in part.provides}
    assert named == asked == set(KINDS)


OTHER_MEANINGS = {
    "collect": "a step of an analysis",
    "explain": "the folder of a record, since its first version",
    "image": "a printed schema",
    "kernel": "a fact of a machine",
    "libc": "a word in what a loader prints",
    "libraries": "a key of study files",
    "link": "the stage at which a factor acts",
    "plan": "a message of the agent's protocol",
    "published": "the argument of `list`",
    "target": "the setting",
}
"""Words of the core that are also names of what parts provide, with what they mean there."""


def test_the_core_has_no_name_of_what_parts_provide() -> None:
    """Except in the fake target, which simulates levels."""
    names = {name for part in shipped_parts() for name in part.commands}
    for part in shipped_parts():
        for places in part.provides.values():
            names |= {getattr(load(part.name, place), "name", "") for place in places} - {""}
    found: dict[str, set[str]] = {}
    for path in (SOURCE / "core").rglob("*.py"):
        if path.name.startswith("fake"):
            continue
        tree = ast.parse(path.read_text())
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        for name in texts & names:
            found.setdefault(name, set()).add(path.name)
    assert {name: files for name, files in found.items() if name not in OTHER_MEANINGS} == {}
    assert set(OTHER_MEANINGS) <= set(found), "no file has the word any more"


def _read_by_users() -> set[str]:
    """Return the classes whose fields users read: those of the Python API, and those of printed JSON (docs/schemas)."""
    documents = (json.loads(path.read_text()) for path in (TOP / "docs/schemas").glob("*.json"))
    return {*swapstone.__all__, *(name for document in documents for name in document.get("$defs", ()))}


def test_a_field_of_the_core_is_not_there_for_one_part_alone() -> None:
    """Readers are found by the name of the field: a name that has other readers hides one. Parts do not see private classes."""
    fields: dict[str, set[str]] = {}
    readers: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        words = path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and words[0] == "core" and not node.name.startswith("_"):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        fields.setdefault(each.target.id, set()).add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                readers.setdefault(node.attr, set()).add("/".join(words[: 2 if words[0] == "parts" else 1]))
    alone = {name for name, found in readers.items() if len(found) == 1 and min(found).startswith("parts/")}
    assert alone & {*fields} and _read_by_users() > {"Analysis", "Record"}
    classes = {name: made - _read_by_users() for name, made in fields.items() if name in alone}
    assert {name: made for name, made in classes.items() if made} == {}


def test_a_module_of_the_core_is_not_there_for_one_part_alone() -> None:
    """A package's `__init__` that hands a name on counts as the module that defines it."""
    paths = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("swapstone", *path.relative_to(SOURCE).with_suffix("").parts))
        paths[name.removesuffix(".__init__")] = path
    imports = {
        module: [
            (node.module, alias.name)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module in paths
            for alias in node.names
        ]
        for module, path in paths.items()
    }
    handed_on = {
        (module, name): where
        for module, found in imports.items()
        if paths[module].name == "__init__.py"
        for where, name in found
    }
    users: dict[str, set[str]] = {}
    for module, found in imports.items():
        words = paths[module].relative_to(SOURCE).parts
        user = "/".join(words[: 2 if words[0] == "parts" else 1])
        for where, name in found:
            origin = f"{where}.{name}" if f"{where}.{name}" in paths else handed_on.get((where, name), where)
            if origin != module and not origin.startswith(f"{module}."):
                users.setdefault(origin, set()).add(user)
    core = {module: found for module, found in users.items() if module.startswith("swapstone.core.")}
    assert len(core) > 100
    assert {
        module: found for module, found in core.items() if len(found) == 1 and min(found).startswith("parts/")
    } == {}
