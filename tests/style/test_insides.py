# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests use public names: which private names they still import, read or replace, file by file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PUBLIC = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})
"""Of `os` and of named tuples: documented, in spite of the underscore."""

ALLOWED: dict[str, int] = {
    "contract/poking.py": 5,
    "e2e/test_board_swap.py": 1,
    "e2e/test_explain_row_choice.py": 2,
    "e2e/test_image_factor.py": 1,
    "faults/injection.py": 2,
    "uncompared_snapshots.py": 2,
    "unit/agent/test_agent_start.py": 3,
    "unit/agent/test_plans_and_lifetime.py": 4,
    "unit/agent/test_waiting_process.py": 5,
    "unit/artifacts/test_allocators.py": 1,
    "unit/artifacts/test_libc_files.py": 1,
    "unit/artifacts/test_libraries.py": 1,
    "unit/artifacts/test_mirror.py": 1,
    "unit/artifacts/test_module_files.py": 1,
    "unit/artifacts/test_packages.py": 2,
    "unit/cli/test_progress.py": 1,
    "unit/instruments/test_wakeup_path.py": 1,
    "unit/model/test_system_errors.py": 1,
    "unit/record/test_formats.py": 4,
    "unit/record/test_record_paths.py": 2,
    "unit/record/test_writer.py": 1,
    "unit/run/test_attempts.py": 8,
    "unit/run/test_calibration.py": 2,
    "unit/run/test_conditions.py": 4,
    "unit/run/test_engine_costs.py": 24,
    "unit/run/test_trials_ahead.py": 3,
    "unit/session/test_api.py": 1,
    "unit/session/test_session_end.py": 1,
    "unit/session/test_study.py": 2,
    "unit/session/test_trust.py": 3,
    "unit/stats/test_fixed_inputs.py": 1,
    "unit/stats/test_predecessor_test.py": 4,
    "unit/stats/test_walsh_averages.py": 2,
    "unit/run/test_server.py": 3,
    "unit/targets/test_beside.py": 4,
    "unit/targets/test_driver_host.py": 4,
    "unit/targets/test_host_memory.py": 1,
    "unit/targets/test_memory_phases.py": 2,
    "unit/targets/test_qemu.py": 1,
    "unit/targets/test_shared_runs.py": 3,
    "unit/targets/test_ssh_target.py": 2,
    "unit/targets/test_virtual_board.py": 2,
    "unit/test_uncompared_snapshots.py": 2,
}
"""How many uses of private names a file may have. Lower a number, or remove its line, with the uses; add none.

Tests of `faults` and `unit/record`, and `uncompared_snapshots`, inject errors where no caller can. Those of `unit/agent` and
`unit/targets` end a process or a connection under a target that does not expect it, and `contract/poking` queries a machine that runs.
Those of `unit/run` build an engine without its target. Other files lower a limit, or replace what would need the network, so that a
short test reaches the branch.
"""


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of what is imported, read as an attribute of another object than `self` or `cls`, or replaced by `setattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, each.name) for each in node.names if private(each.name))
        elif isinstance(node, ast.Attribute) and private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {
            "setattr",
            "delattr",
            "getattr",
        }:
            texts = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            names = [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
            yield from ((node.lineno, name) for name in names[:1] if private(name))


def test_tests_use_no_more_private_names() -> None:
    paths = {str(path.relative_to(TESTS)): path for path in sorted(TESTS.rglob("*.py"))}
    found = {name: list(uses(ast.parse(path.read_text()))) for name, path in paths.items()}
    more = [
        f"tests/{name}:{line}: {what}"
        for name, each in found.items()
        if len(each) > ALLOWED.get(name, 0)
        for line, what in each
    ]
    assert not more, "\n".join(["test a public function, or pass in what the test replaces:", *more])
    unneeded = [name for name in ALLOWED if not found.get(name)]
    assert not unneeded, "they use no private name any more: remove their lines"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from a.b import _c, d", ["_c"]),
        ("x = a._b.c", ["_b"]),
        ("self._a = cls._b", []),
        ("monkeypatch.setattr(a, '_b', 1)", ["_b"]),
        ("monkeypatch.setattr('a.b._c', 1)", ["_c"]),
        ("getattr(a, '_b')", ["_b"]),
        ("monkeypatch.setattr(a, 'b', '_c')", []),
        ("os._exit(0), pair._replace(a=1), a.__class__", []),
    ],
)
def test_private_names_are_found(text: str, names: list[str]) -> None:
    assert [name for _, name in uses(ast.parse(text))] == names
