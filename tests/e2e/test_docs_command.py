# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone docs`, and the pages that messages name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from swapstone.core.session.documentation import find_page, pages
from tests.e2e.cli import TOP, swapstone


def test_the_list_has_every_page_with_its_heading(tmp_path: Path) -> None:
    lines = swapstone(tmp_path, "docs").stdout.splitlines()
    names = {path.stem for path in (TOP / "docs").glob("*.md")}
    names |= {f"measurements/{path.stem}" for path in (TOP / "docs/measurements").glob("*.md")}
    assert [line.split()[0] for line in lines] == sorted(names)
    assert next(line for line in lines if line.startswith("statistics ")).split(maxsplit=1)[1].strip()
    paths = swapstone(tmp_path, "docs", "--path").stdout.split()
    assert len(paths) == len(lines) and all(Path(path).is_file() for path in paths)


@pytest.mark.parametrize("name", ["statistics", "docs/statistics.md", "statistics.md", "measurements/scale"])
def test_a_page_is_printed_as_it_is(tmp_path: Path, name: str) -> None:
    expected = TOP / "docs" / f"{name.removeprefix('docs/').removesuffix('.md')}.md"
    assert swapstone(tmp_path, "docs", name).stdout == expected.read_text()
    assert swapstone(tmp_path, "docs", name, "--path").stdout == f"{expected}\n"


def test_an_unknown_page_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    error = swapstone(tmp_path, "docs", "statistic", expect=2).stderr
    assert "There is no page 'statistic'." in error and "Did you mean statistics?" in error
    assert "There is no page '../README'." in swapstone(tmp_path, "docs", "../README", expect=2).stderr


def _texts() -> list[tuple[Path, str]]:
    """Return the strings of the modules that name `docs`, without docstrings; those of commands are texts, which `--help` prints."""
    found = []
    for path in (TOP / "src" / "swapstone").rglob("*.py"):
        if "docs" not in (source := path.read_text()):
            continue
        tree = ast.parse(source)
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        docstrings -= {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and isinstance(node.body[0], ast.Expr)
            and any("command" in ast.unparse(one) for one in node.decorator_list)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
                found.append((path, node.value))
    return found


@pytest.mark.slow
def test_messages_name_pages_by_a_command_that_an_installed_copy_has_too() -> None:
    texts = _texts()
    files = [(path.name, text) for path, text in texts if re.search(r"\bdocs/[a-z-]+\.md\b", text)]
    assert not files, "an installed copy has no folder docs: write `swapstone docs PAGE`"
    # A literal "swapstone docs" alone, or an option behind it, names no page.
    named = {word for _, text in texts for word in re.findall(r"swapstone docs ([a-z]\S*?)[`).,\s]", text + " ")}
    assert {"studies", "own-program", "servers", "fake-target", "wire"} <= named
    assert named <= {page.name for page in pages()}
    assert all(find_page(name).path.is_file() for name in named)
