# SPDX-License-Identifier: MIT OR Apache-2.0
"""No cycle of imports, neither of modules nor of packages."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
Graph = Mapping[str, set[str]]


def module_graph(files: Mapping[str, str]) -> Graph:
    """Return which module imports which, anywhere in its text; a package is its ``__init__.py``."""
    texts = {".".join(Path(path).with_suffix("").parts).removesuffix(".__init__"): text for path, text in files.items()}
    graph: dict[str, set[str]] = {}
    for module, text in texts.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {name if name in texts else node.module for name in whole}
        graph[module] = named & texts.keys() - {module}
    return graph


def package_graph(graph: Graph) -> Graph:
    """Return which package imports which; modules directly in ``swapstone`` are packages of one file."""
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        package = (*module.split("."), "swapstone")[1]
        found.setdefault(package, set()).update((*name.split("."), "swapstone")[1] for name in imported)
    return {package: names - {package} for package, names in found.items()}


@pytest.mark.slow
def test_no_module_and_no_package_imports_itself_through_others() -> None:
    graph = module_graph({str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")})
    assert len(graph) > 100
    graphlib.TopologicalSorter(graph).prepare()
    graphlib.TopologicalSorter(package_graph(graph)).prepare()


def test_a_cycle_is_found() -> None:
    files = {
        "swapstone/a/__init__.py": "",
        "swapstone/a/one.py": "from swapstone.b import two",
        "swapstone/b/__init__.py": "",
        "swapstone/b/two.py": "def late():\n    import swapstone.c.three",
        "swapstone/c/__init__.py": "",
        "swapstone/c/three.py": "from swapstone.a.one import NAME",
    }
    graph = module_graph(files)
    assert graph["swapstone.a.one"] == {"swapstone.b.two"}
    for each in (graph, package_graph(graph)):
        with pytest.raises(graphlib.CycleError):
            graphlib.TopologicalSorter(each).prepare()
