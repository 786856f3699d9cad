# SPDX-License-Identifier: MIT OR Apache-2.0
"""Third-party programs that read exports: benchstat, built from its Go module, and the scripts in hyperfine's crate.

`go` and `cargo` of this machine fetch them at fixed versions. They are used only if their digests are those in this file.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from swapstone.core.model.directories import cache_dir

PERF = "golang.org/x/perf"
PERF_VERSION = "v0.0.0-20230227161431-f7320a6d63e8"  # Debian 12's go 1.19 builds it, and it has -col and -row
GO_DIGESTS = {
    PERF: "h1:8F1zibFGd22KfifgNSzbIxZTGb6nLKORJ2ZERumnQuw=",
    "github.com/aclements/go-moremath": "h1:xlwdaKcTNVW4PtpQb8aKA4Pjy0CdJHEqvFbAnvR5m2g=",
}

HYPERFINE_VERSION = "1.15.0"
HYPERFINE_SHA256 = "92a9fa6e6924f302850dd7bcb0f3a5fed5aede19b7b6424b385e0daadafaf9d9"


def _need(command: str, package: str) -> str:
    """Return the path of a command; fail the test if it is not installed."""
    found = shutil.which(command)
    if found is None:
        pytest.fail(f"This test needs the command {command!r}. Install it: sudo apt-get install {package}")
    return found


def _run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, **options)  # type: ignore[call-overload] # as `run` takes them
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result  # type: ignore[no-any-return] # the overload above


def benchstat_path() -> Path:
    """Build benchstat in a Go folder below the cache, and check the digest of every module in it."""
    go = _need("go", "golang-go")
    home = cache_dir() / "readers" / f"go-{PERF_VERSION}"
    program = home / "bin" / "benchstat"
    places = {"GOPATH": home / "path", "GOBIN": program.parent, "GOCACHE": home / "built"}
    # GOTOOLCHAIN=local: use the installed go; don't fetch another one.
    settings = {"GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GO111MODULE": "on"}
    environment = {**os.environ, **{name: str(path) for name, path in places.items()}, **settings}
    if not program.is_file():
        _run([go, "install", f"{PERF}/cmd/benchstat@{PERF_VERSION}"], env=environment)
    printed = _run([go, "version", "-m", str(program)], env=environment).stdout
    modules = [line.split() for line in printed.splitlines() if line.split()[:1] in (["mod"], ["dep"])]
    assert {name: digest for _, name, _, digest in modules} == GO_DIGESTS
    return program


@dataclasses.dataclass(frozen=True)
class Table:
    """One table of benchstat's output.

    Attributes:
        place: configuration, e.g. ``{"suite": "libc"}``.
        unit: of all its columns.
        columns: their names.
        rows: by name, the median in each column; None where it has none.
        counts: numbers of samples by row name, as printed.
    """

    place: dict[str, str]
    unit: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]
    counts: dict[str, str]


def benchstat(path: Path, *arguments: str) -> tuple[list[Table], list[str]]:
    """Run benchstat on a file; return its tables and its warnings."""
    result = _run([str(benchstat_path()), "-format", "csv", *arguments, str(path)])
    tables: list[Table] = []
    place: dict[str, str] = {}
    for section in result.stdout.strip().split("\n\n"):
        lines = section.splitlines()
        while lines and ": " in lines[0] and not lines[0].startswith((",", '"')):
            name, _, value = lines.pop(0).partition(": ")
            place[name] = value
        if lines:
            tables.append(_table(dict(place), list(csv.reader(io.StringIO("\n".join(lines))))))
    return tables, [line.partition(": ")[2] for line in result.stderr.splitlines()]


def _table(place: dict[str, str], cells: list[list[str]]) -> Table:
    names, units, *rows = cells
    at = [number for number, text in enumerate(units) if number and text not in {"CI", "vs base", "P"}]
    (unit,) = {units[number] for number in at}
    medians, counts = {}, {}
    for row in rows:
        if row[0] != "geomean":
            padded = [*row, *[""] * (len(units) - len(row))]
            medians[row[0]] = tuple(float(padded[number]) if padded[number] else None for number in at)
            counts[row[0]] = padded[-1].rpartition("n=")[2] if "P" in units else ""
    return Table(place, unit, tuple(names[number] for number in at), medians, counts)


def hyperfine_scripts(folder: Path) -> Path:
    """Unpack the scripts in hyperfine's crate from cargo's cache."""
    cargo = _need("cargo", "cargo")
    project = folder / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    (project / "Cargo.toml").write_text(
        '[package]\nname = "reader"\nversion = "0.0.0"\nedition = "2018"\n'
        f'[dependencies]\nhyperfine = "={HYPERFINE_VERSION}"\n'
    )
    _run([cargo, "fetch", "--quiet", "--target", f"{platform.machine()}-unknown-linux-gnu"], cwd=project)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    crates = sorted((home / "registry" / "cache").glob(f"*/hyperfine-{HYPERFINE_VERSION}.crate"))
    assert crates
    content = crates[0].read_bytes()
    assert hashlib.sha256(content).hexdigest() == HYPERFINE_SHA256
    with tarfile.open(fileobj=io.BytesIO(content)) as crate:
        for member in crate.getmembers():
            held = crate.extractfile(member) if "/scripts/" in member.name else None
            if held is not None:
                (folder / Path(member.name).name).write_bytes(held.read())
    return folder
