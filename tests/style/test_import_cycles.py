# SPDX-License-Identifier: MIT OR Apache-2.0
"""No cycle of imports, neither of modules nor of packages; and the tool that finds them finds one."""

from __future__ import annotations

import pytest
from tools.structure import cycles, function_lengths, module_graph, package_graph, sources


@pytest.mark.slow
def test_no_module_and_no_package_imports_itself_through_others() -> None:
    graph = module_graph(sources(None))
    assert len(graph) > 100
    assert cycles(graph) == []
    assert cycles(package_graph(graph)) == []


def test_a_cycle_is_found() -> None:
    files = {
        "a/__init__.py": "",
        "a/one.py": "from swapstone.b import two",
        "b/__init__.py": "",
        "b/two.py": "def late():\n    import swapstone.c.three",
        "c/__init__.py": "",
        "c/three.py": "from swapstone.a.one import NAME",
    }
    graph = module_graph(files)
    assert graph["swapstone.a.one"] == {"swapstone.b.two"}
    assert cycles(graph) == [["swapstone.a.one", "swapstone.b.two", "swapstone.c.three"]]
    assert cycles(package_graph(graph)) == [["a", "b", "c"]]


def test_lengths_count_the_docstring_and_nested_functions() -> None:
    assert function_lengths(['def f():\n    """Text."""\n    def g():\n        pass\n']) == [2, 4]
