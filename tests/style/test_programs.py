# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each program that tests, tools, benchmarks or Swapstone start by a name in their code comes with a package of the file `packages`."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import BESIDE, ELSEWHERE, EVERYWHERE, PACKAGES, listed, missing, package_of, require

TOP = Path(__file__).parents[2]
STARTS = {f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output")}
NAMES = {"shutil.which", "needs", "require", "missing"}


def programs_in(source: str) -> Iterator[str]:
    """Yield the programs that a module of Python names: those that it starts, looks for, or needs."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function, first = ast.unparse(node.func), node.args[0]
        found = node.args if function in NAMES else ()
        if function in STARTS and isinstance(first, ast.List | ast.Tuple):
            found = first.elts[:1]
        for each in found:
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and re.fullmatch(r"[^/ ]+", each.value):
                yield each.value


def test_a_program_is_found_in_each_form() -> None:
    source = """
subprocess.run(["one", "x"]); subprocess.Popen(("two",)); shutil.which("three"); needs("four", "five"); require("six")
subprocess.run([name, "x"]); subprocess.run(["/bin/x"]); other("x")
"""
    assert list(programs_in(source)) == ["one", "two", "three", "four", "five", "six"]


@pytest.mark.parametrize("folder", ["tests", "tools", "benchmarks", "src"])
def test_the_package_of_each_program_is_listed(folder: str) -> None:
    unlisted = {
        name: str(path.relative_to(TOP))
        for path in (TOP / folder).rglob("*.py")
        if path != Path(__file__)
        for name in programs_in(path.read_text())
        if package_of(name) is None and name not in ELSEWHERE
    }
    assert not unlisted, "name their packages in the file `packages`, or in tests/programs.py"


def test_each_package_beside_the_probes_is_in_the_list() -> None:
    words = {
        one
        for line in PACKAGES.read_text().splitlines()
        if line and line[0] != "#"
        for one in line.split()[1].split("|")
    }
    assert set(BESIDE.values()) <= words
    assert not set(BESIDE) & set(listed()), "a probe already"


@pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="not a Debian")
def test_every_debian_has_what_is_not_listed() -> None:
    """Packages of the priority `required`, and what the README requires."""
    paths = [shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") for name in EVERYWHERE]
    names = {name for path in paths if path for name in (path, str(Path(path).resolve()), path.removeprefix("/usr"))}
    owners = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True, check=False).stdout
    packages = {line.partition(":")[0] for line in owners.splitlines() if " from " not in line and " by " not in line}
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Priority}\n", *packages], capture_output=True, text=True, check=True
    )
    others = {line.split()[0] for line in shown.stdout.splitlines() if line.split()[1] != "required"}
    assert {re.sub(r"[0-9.]+", "3", name) for name in others} <= {"apt", "python3", "python3-minimal"}


def test_a_test_that_needs_an_unlisted_program_fails() -> None:
    with pytest.raises(ValueError, match="name the package of no-such-program in the file `packages`"):
        missing("no-such-program")


def test_a_test_is_skipped_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"zsh", "ssh-keygen"} else f"/bin/{name}")
    assert missing("zsh", "sh", "ssh-keygen") == "not installed: zsh (zsh), ssh-keygen (openssh-client)"
    assert missing("sh") == ""
    with pytest.raises(pytest.skip.Exception, match="not installed: zsh"):
        require("zsh")


def test_no_test_skips_by_a_condition_of_its_own() -> None:
    """So each program is compared with the list."""
    own = re.compile(r"skipif\([^)]*shutil\.which|if [^\n]*shutil\.which[^\n]*:\n\s+pytest\.skip", re.DOTALL)
    found = [str(path.relative_to(TOP)) for path in (TOP / "tests").rglob("*.py") if own.search(path.read_text())]
    assert found == [], "use needs or require of tests/programs.py"
