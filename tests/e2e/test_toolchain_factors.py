# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library, linking, compiler and optimization, in all combinations: each level is observed, and a broken factor is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import environment, fake, runs_of, swapstone
from tests.unit.recipes.extending import copy_source

CHOICES = ("libc=glibc,musl", "linking=dynamic,static", "compiler=gcc,clang", "optimization=O0,O2,O3,Os")


@pytest.mark.slow
def test_every_combination_does_equal_work_and_is_observed(tmp_path: Path, exhaustive: bool) -> None:
    out = tmp_path / "r"
    levels = ("O0", "O2", "O3", "Os") if exhaustive else ("O0", "Os")
    choices = (*CHOICES[:-1], f"optimization={','.join(levels)}")
    works = ("b_malloc_tiny1", *(("b_stdio_putcgetc_unlocked",) if exhaustive else ()))
    only = (word for work in works for word in ("--only", work))
    swapstone(tmp_path, "compare", *choices, *only, "--blocks", "1", "--out", str(out))
    runs = runs_of(out)
    assert {run["status"] for run in runs} == {"ok"}
    assert len({run["trial"]["variant"] for run in runs}) == 8 * len(levels)
    for run in runs:
        asked = dict(part.split("=") for part in run["trial"]["variant"].split(","))
        assert dict(run["observed"]) == asked
    for workload in works:
        assert len({run["check"] for run in runs if run["trial"]["workload"] == workload}) == 1
    manifest = json.loads((out / "manifest.json").read_text())
    tools = dict(manifest["tools"])
    assert {"gcc", "clang", "musl-gcc", "clang-musl"} <= tools.keys()
    assert "clang version" in tools["clang"] and tools["clang"] == tools["clang-musl"]
    assert any("musl libc" in version for version in tools.values())
    assert any("GLIBC" in version for version in tools.values())
    sizes = {a["variant"]: dict(a["sizes"])["file"] for a in manifest["artifacts"] if a["workload"] == "empty"}
    assert len(sizes) == 8 * len(levels)
    for name, size in sizes.items():
        if "libc=glibc" in name:
            assert (size > 20 * sizes[name.replace("linking=static", "linking=dynamic")]) == ("static" in name)


def test_the_c_library_of_a_static_program_is_observed_and_its_version_recorded(tmp_path: Path) -> None:
    """A static program has no loader and no objects. Facts of the file before stripping identify its C library."""
    out = tmp_path / "r"
    only = ("--only", "b_string_strlen", "--only", "dlopen", "--suite", "libc", "--suite", "libc-extra")
    done = swapstone(
        tmp_path, "compare", "linking=static,dynamic", "libc=musl,glibc", *only, "--blocks", "1", "--out", str(out)
    )
    runs = runs_of(out)
    assert {run["status"] for run in runs if run["trial"]["workload"] == "b_string_strlen"} == {"ok"}
    assert {run["trial"]["variant"] for run in runs} == {
        f"linking={linking},libc={libc}" for linking in ("static", "dynamic") for libc in ("musl", "glibc")
    }
    assert "The workload loads shared objects at run time, which a static program can't do." in " ".join(
        done.stdout.split()
    )
    tools = dict(json.loads((out / "manifest.json").read_text())["tools"])
    assert any("musl libc" in version for version in tools.values())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the source that tests can break."""
    top = tmp_path_factory.mktemp("broken")
    copy_source(top)
    return top


@pytest.mark.slow  # each case starts the program of a copied tree
@pytest.mark.parametrize(
    ("change", "choice", "complaint"),
    [
        (("libc", "libc=level", 'libc="glibc"'), "libc=glibc,musl", "libc=musl was requested, but glibc was"),
        (
            ("linking", "linking=level", 'linking="dynamic"'),
            "linking=dynamic,static",
            "linking=static was requested, but dynamic was",
        ),
        (
            ("compiler", "compiler=level", 'compiler="gcc"'),
            "compiler=gcc,clang",
            "compiler=clang was requested, but gcc was",
        ),
        (("optimization", 'f"-{level}"', '"-O2"'), "optimization=O2,O3", "optimization=O3 was requested, but O2 was"),
        (
            ("optimization", "with_recording(cflags)", "tuple(cflags)"),
            "optimization=O2,O3",
            "the level in force could not be observed. Its file does not record the compiler's options",
        ),
    ],
)
def test_a_factor_that_ignores_its_level_is_refused(
    copy: Path, tmp_path: Path, change: tuple[str, str, str], choice: str, complaint: str
) -> None:
    file, correct, broken = change
    path = copy / "src" / "swapstone" / "parts" / "build" / "factors" / f"{file}.py"
    text = path.read_text()
    assert text.count(correct) == 1
    path.write_text(text.replace(correct, broken))
    command = [sys.executable, "-m", "swapstone", "compare", choice, "--only", "b_string_strlen", "--blocks", "3"]
    try:
        result = subprocess.run(
            [*command, "--out", str(tmp_path / "r")],
            env=environment(tmp_path, PYTHONPATH=str(copy / "src")),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    finally:
        path.write_text(text)
    assert result.returncode == 4, result.stderr
    runs = runs_of(tmp_path / "r")
    assert "refused" in {run["status"] for run in runs}
    assert "invalid" in result.stdout
    assert complaint in " ".join(result.stdout.split())


def test_the_fake_target_simulates_every_level(tmp_path: Path) -> None:
    out = tmp_path / "r"
    target = ("--target", fake(tmp_path), "--only", "b_string_strlen", "--blocks", "1", "--out", str(out))
    swapstone(tmp_path, "compare", *CHOICES, *target)
    runs = runs_of(out)
    assert {run["status"] for run in runs} == {"ok"}
    assert len({run["trial"]["variant"] for run in runs}) == 32
    assert all(run["trial"]["variant"] == ",".join("=".join(pair) for pair in run["observed"]) for run in runs)


def test_a_missing_compiler_is_named_with_its_package(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("cc", "gcc", "musl-gcc", "strip", "ld", "as"):
        (bare / name).symlink_to(shutil.which(name) or "/nonexistent")
    done = swapstone(tmp_path, "compare", "compiler=gcc,clang", "--blocks", "1", expect=2, PATH=str(bare))
    assert "clang: the clang level of the factor compiler" in done.stderr
    assert "sudo apt-get install clang" in done.stderr
