# SPDX-License-Identifier: MIT OR Apache-2.0
"""Give the call paths of a run the names of functions, and add up paths of equal names."""

from __future__ import annotations

import collections
import itertools

from swapstone.core.model.profile import Frame
from swapstone.parts.explain.instruments.call_paths import CallPaths, completed
from swapstone.parts.explain.instruments.function_names import FunctionKey, NamesOf
from swapstone.parts.explain.model.instruction_counts import C_LIBRARY, MOST_NODES, PROGRAM, UNKNOWN, PathTree, frame_of

NOT_KEPT: FunctionKey = ("[callers not kept]", "", UNKNOWN)
"""Stands for the callers of code whose path found no room."""

_MAIN = "main"


class _Tree:
    """A tree of functions below their callers. Its nodes are numbers, of which each is larger than its caller's."""

    def __init__(self) -> None:
        self.keys: list[FunctionKey] = []
        self.above: list[int] = []
        self.own: list[int] = []
        self._library: list[bool] = []  # whether all functions of the path are of the C library
        self._main: list[bool] = []  # whether `main` is one of them
        self._known: dict[tuple[int, FunctionKey], int] = {}

    def below(self, node: int, key: FunctionKey) -> int:
        """Return the node of a function below a node, or below none: -1.

        What the C library executes before it calls the program is left out, so the paths of two C libraries are comparable.
        """
        name, _, kind = key
        if kind == PROGRAM and node >= 0 and (self._library[node] or (name == _MAIN and not self._main[node])):
            node = -1
        found = self._known.get((node, key))
        if found is None:
            found = self._known[node, key] = len(self.keys)
            self.keys.append(key)
            self.above.append(node)
            self.own.append(0)
            self._library.append(kind == C_LIBRARY and (node < 0 or self._library[node]))
            self._main.append((kind == PROGRAM and name == _MAIN) or (node >= 0 and self._main[node]))
        return found


def tree_of(paths: CallPaths, names_of: NamesOf, most: int = MOST_NODES) -> PathTree:
    """Return the tree of functions below their callers, with the instructions of each.

    Args:
        paths: of a run.
        names_of: names functions.
        most: the most nodes. If there are more, functions with few instructions are added to their callers.
    """
    callers = {number for _, number in paths.paths if number >= 0}
    last = {number: paths.blocks[number] for number in callers}
    call_of = {
        number: names_of(block)(block.addresses[-1])[0] for number, block in last.items()
    }  # the call is its last instruction
    tree = _Tree()
    nodes = [-1]
    for above, number in paths.paths:
        nodes.append(tree.below(nodes[above + 1], call_of[number] if number >= 0 else NOT_KEPT))
    functions: dict[tuple[int, int], list[tuple[FunctionKey, int]]] = {}
    for path, number, began, times in paths.leaves:
        if (number, began) not in functions:
            block = paths.blocks[number]
            name_at = names_of(block)
            keys = (name_at(address)[0] for address in block.addresses[: completed(began, block)])
            functions[number, began] = [(key, len([*group])) for key, group in itertools.groupby(keys)]
        for key, instructions in functions[number, began]:
            tree.own[tree.below(nodes[path + 1], key)] += times * instructions
    return _kept(tree, most, paths)


def _kept(tree: _Tree, most: int, paths: CallPaths) -> PathTree:
    """Return few enough nodes that have instructions, with their callers, to which those of the others are added."""
    totals, least = list(tree.own), 0
    for node in range(len(totals) - 1, -1, -1):
        if tree.above[node] >= 0:
            totals[tree.above[node]] += totals[node]
    while sum(total > least for total in totals) > most:
        least = 2 * least + 1
    numbers: dict[int, int] = {-1: -1}
    frames: dict[Frame, int] = {}
    found: collections.defaultdict[str, list[int]] = collections.defaultdict(list)
    for node, total in enumerate(totals):
        above = tree.above[node]
        if not total or (total <= least and above >= 0):
            continue
        numbers[node] = len(found["own"])
        found["above"].append(numbers[above])
        found["frame"].append(frames.setdefault(frame_of(*tree.keys[node]), len(frames)))
        found["own"].append(total)
        if above >= 0:
            found["own"][numbers[above]] -= total
    return PathTree(
        frames=tuple(frames),
        above=tuple(found["above"]),
        frame=tuple(found["frame"]),
        own=tuple(found["own"]),
        least=least + 1 if least else 0,
        deep=paths.deep,
        full=paths.full,
    )
