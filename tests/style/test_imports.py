# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who may import whom, as ARCHITECTURE.md says."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from tools.structure import import_nodes

SOURCE = Path(__file__).parents[2] / "src" / "swapstone"

# What each package may import of ours besides itself. ARCHITECTURE.md prints the same table.
MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "stats": set(),
    "wire": {"model"},
    "record": {"model"},
    "plan": {"model"},
    "factors": {"model"},
    "workloads": {"model"},
    "published": {"model"},
    "artifacts": {"model", "factors", "workloads", "record"},
    "targets": {"model", "wire", "factors", "artifacts"},
    "comparison": {"model", "stats", "record"},
    "answers": {"model", "wire", "factors", "workloads"},
    "subjects": {"model", "answers", "wire", "factors", "workloads", "record", "artifacts", "targets"},
    "run": {"model", "answers", "factors", "workloads", "record", "plan", "artifacts", "subjects", "targets"},
    "instruments": {
        "model",
        "wire",
        "factors",
        "workloads",
        "record",
        "plan",
        "artifacts",
        "targets",
        "subjects",
        "run",
    },
    "explanation": {"model", "stats", "comparison", "record"},
    "report": {"model", "comparison", "published", "record", "explanation"},
    "session": {
        *(
            "model",
            "stats",
            "record",
            "plan",
            "factors",
            "workloads",
            "published",
            "artifacts",
            "targets",
            "comparison",
        ),
        *("answers", "run", "subjects", "instruments", "explanation", "report", "wire"),
    },
    "cli": {"model", "report", "session"},
}


@functools.cache
def _imports(path: Path) -> set[str]:
    """Return the packages of ours that a file imports, wherever in it."""
    found = set()
    for node in import_nodes(path.read_text()):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module and node.level == 0:
            names = [node.module] if node.module != "swapstone" else [f"swapstone.{alias.name}" for alias in node.names]
        elif node.level > 0:
            pytest.fail(f"{path}: relative import; write the whole name")
        found |= {name.split(".")[1] for name in names if name.startswith("swapstone.")}
    return found


def _packages() -> list[str]:
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py") if path.parent.name != "parts")


def test_every_package_is_in_the_table() -> None:
    assert set(_packages()) == set(MAY_IMPORT)


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_go_down_only(package: str) -> None:
    files = sorted((SOURCE / package).rglob("*.py"))
    assert files
    for path in files:
        beyond = _imports(path) - MAY_IMPORT[package] - {package, "version", "manifests"}
        assert not beyond, f"{path.relative_to(SOURCE)} imports {sorted(beyond)}"


def test_nothing_imports_cli() -> None:
    top = SOURCE.parents[1]
    files = [path for folder in ("src", "benchmarks", "tools") for path in (top / folder).rglob("*.py")]
    for path in files:
        if path.parent.name != "cli" and path.name != "__main__.py":
            assert "cli" not in _imports(path), path
