# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether this machine can build the crates, the source of lwIP that they need, and a copy of them for cargo."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.lwip_source import lwip_source

TOP = Path(__file__).parents[1]
CRATES = TOP / "crates"


def require_rust() -> None:
    """Skip the test, with the reason, where Rust is missing or too old or the source of lwIP can't be fetched."""
    if reason := unavailable_reason():
        pytest.skip(f"unavailable: {reason}")


@functools.cache
def unavailable_reason() -> str:
    """Return why the crates can't be built here, or an empty string. The source of lwIP is fetched if it is missing."""
    needed = tomllib.loads((CRATES / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        return f"there is no Rust: the crates need {needed} (rustup.rs has it)"
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"rustc (\d+)\.(\d+)", version)
    if not found:
        return f"rustc prints no version, but {version!r}"
    if (int(found[1]), int(found[2])) < tuple(map(int, needed.split("."))):
        return f"Rust here is {found[1]}.{found[2]}: the crates need {needed} (rustup.rs has it)"
    try:
        lwip_source()
    except UnavailableError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def copied_crates() -> Iterator[Path]:
    """Return a copy of the workspace that no other checkout changes meanwhile.

    Its place is the same for all checkouts, and only files whose content differs are written. So cargo, which goes by path and time,
    compiles what has changed since an earlier run, also in a new checkout.
    """
    top = cache_dir() / "tested-crates"
    top.mkdir(parents=True, exist_ok=True)
    with (top / "lock").open("w") as lock:
        while True:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not synchronize(TOP, top, write=False):
                break
            fcntl.flock(lock, fcntl.LOCK_EX)
            synchronize(TOP, top, write=True)
        yield top / "crates"


def synchronize(source: Path, target: Path, *, write: bool) -> list[str]:
    """Make a copy of the workspace equal to it.

    Args:
        source: the repository.
        target: the folder of the copy.
        write: whether files are written and removed; else they are only compared.

    Returns:
        The files that differ, or are in one place only: below `crates`, and a page that a test there reads.
    """
    names, others = _files(source), _files(target)
    differing = sorted(
        name
        for name in names | others
        if name not in names or name not in others or (source / name).read_bytes() != (target / name).read_bytes()
    )
    for name in differing if write else ():
        (target / name).unlink(missing_ok=True)
        if name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, target / name)  # its time is now, as of a file that was edited
    return differing


def _files(top: Path) -> set[str]:
    """Return the paths of the workspace's files, without what cargo made."""
    names = {name for name in ("docs/netstack-tests.md",) if (top / name).is_file()}
    for folder, folders, files in os.walk(top / "crates"):
        folders[:] = [name for name in folders if name != "target"]
        names |= {str(Path(folder, name).relative_to(top)) for name in files}
    return names
