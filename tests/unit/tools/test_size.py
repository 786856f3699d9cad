# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/size: what a statement is in each language, the rows, and the figures of a revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.size import contents, sizes, statements, table

PYTHON = '''"""A docstring."""
import os

LIMIT = "int main(void) { return 1; }"
"""The docstring of a constant."""


def function() -> int:
    """Return 1."""
    if LIMIT: return 1
    return os.getpid()
'''
C = """/* not; this */ // nor; this
#define TWICE(x) do { x; \\
    x; } while (0)
struct pair { int left, right; };
static const char *text = "a; \\"b;";
int function(int end) {
    for (int i = 0; i < end; i++) {
        if (end == ';') return 1;
    }
    struct pair made = (struct pair){1, 2};
    CALL(({ end++; }));
    return 0;
}
"""
RUST = """// not; this
fn function<'a>(text: &'a str) -> [u8; 4] {
    let raw = r#"if; "for;"#;
    if text == "\\"" && c == ';' { return 1; }
    match text { "for" => one(), _ => two() }
}
"""


def test_statements_of_each_language() -> None:
    assert statements("a.py", PYTHON) == 6  # import, assignment, def, if, two returns
    assert (
        statements("a.h", C) == 11
    )  # two of the struct, text, the body, for, if, two returns, made, CALL and its inner one
    assert statements("a.rs", RUST) == 5  # fn, let, if, return, match
    assert statements("docs/a.md", "text; text;") == 0
    assert statements("native/lock.toml", "a = 1") is None


def test_rows_of_two_revisions_and_the_working_tree(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a", *arguments],
            check=True,
            capture_output=True,
        )

    def commit(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        git("add", ".")
        git("commit", "-m", "a")

    git("init")
    commit("src/swapstone/one/a.py", "x = 1\n")
    commit("native/a.c", "int a;\n")
    commit("tests/a.py", "y = 1\ny = 2\n")
    commit("docs/a.md", "text\n" * 1000)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "new.py").write_text("z = 1\nz = 2\n")

    first, last, now = (sizes(contents(tmp_path, revision)) for revision in ("HEAD~3", "HEAD", None))
    assert {name: size.statements for name, size in last.items()} == {"src one": 1, "native": 1, "tests": 2, "docs": 0}
    assert now == {**last, "tools": (2, 2, 12)}
    rows = {line.split()[0]: line.split()[1:] for line in table({"first": first, "last": last}).splitlines()[2:]}
    assert rows["sum"] == ["1", "1", "2", "2", "1", "1"]
    assert rows["tests"] == ["0", "0", "2", "2", "2", "2"]
    assert rows["docs,"] == ["KiB", "0", "0", "5", "1,000", "5", "1,000"]
