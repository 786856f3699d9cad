# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether this machine can build the crates, and the source of lwIP that they need."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from swapstone.artifacts.lwip_source import lwip_source
from swapstone.model import UnavailableError

CRATES = Path(__file__).parents[1] / "crates"


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
