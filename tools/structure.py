# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print the structure of the Python source at one or several revisions: lines, imports, cycles, function lengths.

Usage: tools/structure [REVISION...]     (without one: the working tree)
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
PREFIX = "src/swapstone/"
Graph = Mapping[str, set[str]]


def sources(revision: str | None) -> dict[str, str]:
    """Return the text of every Python file of the package, by its path below the package.

    Args:
        revision: as git names it; None for the working tree.
    """
    if revision is None:
        folder = TOP / PREFIX
        return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.py"))}
    names = _git("ls-tree", "-r", "--name-only", revision, PREFIX).splitlines()
    return {name.removeprefix(PREFIX): _git("show", f"{revision}:{name}") for name in names if name.endswith(".py")}


def import_nodes(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module, wherever in it. They are statements: expressions, most of a syntax tree, are passed over."""
    bodies: list[list[Any]] = [ast.parse(text).body]
    while bodies:
        for node in bodies.pop():
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node
            bodies += [getattr(node, name, []) for name in ("body", "orelse", "finalbody", "handlers", "cases")]


def module_graph(files: Mapping[str, str]) -> Graph:
    """Return which module imports which, anywhere in its text; a package is its ``__init__.py``."""
    modules = {_module(path): path for path in files}
    graph: dict[str, set[str]] = {}
    for path, text in files.items():
        named: set[str] = set()
        for node in import_nodes(text):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {name if name in modules else node.module for name in whole}
        graph[_module(path)] = {name for name in named if name in modules} - {_module(path)}
    return graph


def package_graph(graph: Graph) -> Graph:
    """Return which package imports which; modules directly in ``swapstone`` are packages of one file."""
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        found.setdefault(_package(module), set()).update(_package(name) for name in imported)
    return {package: names - {package} for package, names in found.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node: nodes that reach each other."""
    reached = {node: _reached(graph, node) for node in graph}
    components = {frozenset(other for other in names if node in reached[other]) for node, names in reached.items()}
    return sorted(sorted(component) for component in components if len(component) > 1)


def _reached(graph: Graph, start: str) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def function_lengths(texts: Iterable[str]) -> list[int]:
    """Return the lines of every function and method, docstring included, ascending."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    )


def report(revision: str | None) -> str:
    """Return the figures of one revision as text."""
    files = sources(revision)
    lines = Counter[str]()
    for path, text in files.items():
        lines[_package(_module(path))] += text.count("\n")
    modules = module_graph(files)
    packages = package_graph(modules)
    lengths = function_lengths(files.values())
    quantiles = {share: lengths[min(len(lengths) - 1, int(len(lengths) * share))] for share in (0.5, 0.9, 0.99)}
    printed = [
        f"{revision or 'working tree'}: {len(files)} files, {sum(lines.values())} lines, {sum(map(len, modules.values()))} imports",
        f"cycles: {len(cycles(modules))} of modules, {len(cycles(packages))} of packages",
        *(f"  cycle: {' '.join(cycle)}" for cycle in (*cycles(modules), *cycles(packages))),
        f"functions: {len(lengths)}; lines p50 {quantiles[0.5]}, p90 {quantiles[0.9]}, p99 {quantiles[0.99]}, longest {lengths[-1]}",
        "package        lines  imports",
        *(f"{name:<14} {count:>5}  {' '.join(sorted(packages[name]))}" for name, count in sorted(lines.items())),
    ]
    return "\n".join(printed)


def _module(path: str) -> str:
    return ".".join(("swapstone", *Path(path).with_suffix("").parts)).removesuffix(".__init__")


def _package(module: str) -> str:
    return (*module.split("."), "swapstone")[1]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(TOP), *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    revisions: list[str | None] = list(sys.argv[1:]) or [None]
    if any(name in {"-h", "--help"} for name in sys.argv[1:]):
        print(__doc__)
    else:
        print("\n\n".join(report(name) for name in revisions))
