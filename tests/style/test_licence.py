# SPDX-License-Identifier: MIT OR Apache-2.0
"""Licence files, licence lines of source files, and what NOTICE must name."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.check_spdx import problems

TOP = Path(__file__).parents[2]
APACHE_SHA256 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""Of https://www.apache.org/licenses/LICENSE-2.0.txt."""


def _repository(folder: Path, files: dict[str, str]) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_licence_texts_are_the_standard_ones() -> None:
    assert hashlib.sha256((TOP / "LICENSE-APACHE").read_bytes()).hexdigest() == APACHE_SHA256
    mit = " ".join((TOP / "LICENSE-MIT").read_text().split())
    assert mit.startswith("MIT License Copyright (c) The Swapstone contributors Permission is hereby granted")
    assert mit.endswith("OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.")
    assert (
        "GNU GENERAL PUBLIC LICENSE\n                       Version 2" in (TOP / "native/planted/COPYING").read_text()
    )


def test_metadata_and_the_licence_file_agree() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert project["license"] == "(MIT OR Apache-2.0) AND GPL-2.0-only"
    for pattern in project["license-files"]:
        assert list(TOP.glob(pattern)), f"license-files: nothing matches {pattern}"
    workspace = tomllib.loads((TOP / "crates/Cargo.toml").read_text())["workspace"]["package"]
    assert workspace["license"] == "MIT OR Apache-2.0"
    assert "SPDX-License-Identifier: MIT OR Apache-2.0\n" in (TOP / "LICENSE").read_text()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", '"""A."""\n', "no licence line"),
        ("a.rs", "//! A.\n", "no licence line"),
        ("run", "#!/bin/sh\nexit\n", "no licence line"),
        ("a.c", "// SPDX-License-Identifier: GPL-2.0-only\n", "states GPL-2.0-only"),
        ("native/planted/a.c", "// SPDX-License-Identifier: MIT OR Apache-2.0\n", "states MIT OR Apache-2.0"),
        ("late.py", "import a\n\n# SPDX-License-Identifier: MIT OR Apache-2.0\n", "no licence line"),
    ],
)
def test_a_missing_or_wrong_line_is_found(tmp_path: Path, name: str, text: str, expected: str) -> None:
    top = _repository(tmp_path, {name: text, "notes.md": "no source\n", "empty.py": ""})
    (found,) = problems(top)
    assert name in found and expected in found
    first, newline, rest = text.partition("\n")
    line = f"# {found.partition('expected ')[2]}\n"
    (top / name).write_text(f"{first}{newline}{line}{rest}" if first.startswith("#!") else line + rest)
    assert list(problems(top)) == []


@pytest.mark.skipif(not (TOP / ".git").exists(), reason="not a git checkout")
def test_every_source_file_names_its_licence() -> None:
    assert list(problems(TOP)) == []


def _fetched() -> Iterator[tuple[str, str]]:
    """Yield the name of everything that is fetched, and the file that says so."""
    for lock in ("requirements.lock", "requirements-dev.lock"):
        for name in re.findall(r"^([a-z0-9._-]+)==", (TOP / lock).read_text(), re.MULTILINE):
            yield name, lock
    for line in (TOP / "packages").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield from ((name, "packages") for name in line.split()[1].split("|"))
    for package in tomllib.loads((TOP / "native/images/lock.toml").read_text())["packages"]:
        yield package["name"], "native/images/lock.toml"
    for name in ("allocators", "servers", "companions", "libraries", "cxx"):
        lock = f"native/{name}.toml"
        yield from ((each.partition(":")[0], lock) for each in tomllib.loads((TOP / lock).read_text()))
    # One for the workspace, and one for each crate outside it; below crates/target are copies that cargo made.
    locks = [TOP / "crates" / "Cargo.lock", *sorted((TOP / "crates").glob("swapstone-*/Cargo.lock"))]
    assert len(locks) > 1
    for path in locks:
        for package in tomllib.loads(path.read_text())["package"]:
            if "source" in package:
                yield package["name"], str(path.relative_to(TOP))


def test_notice_names_all_that_is_fetched() -> None:
    words = set(re.findall(r"[A-Za-z0-9_.+-]*[A-Za-z0-9_+]", (TOP / "NOTICE").read_text()))
    missing = sorted({f"{name} ({lock})" for name, lock in _fetched() if name not in words})
    assert not missing, f"NOTICE must name them with their licences: {missing}"


def test_notice_names_the_sources_of_the_published_figures() -> None:
    notice = (TOP / "NOTICE").read_text()
    sources = tomllib.loads((TOP / "src/swapstone/parts/published/sources.toml").read_text())["source"]
    assert sources
    for name in sources:
        assert f"  {name}: " in notice
