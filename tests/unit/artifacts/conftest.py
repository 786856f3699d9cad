# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of images share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.artifacts.archive import Archive


@pytest.fixture(autouse=True)
def _neither_mirror_nor_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that an archive lacks is not looked for elsewhere, unless a test sets up a place for it."""
    monkeypatch.delenv("SWAPSTONE_MIRROR", raising=False)
    monkeypatch.setenv("SWAPSTONE_SNAPSHOT", "none")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "swapstone"


@pytest.fixture
def archive(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A package archive for the test, which apt-get uses instead of the machine's."""
    made = Archive(tmp_path / "archive")
    monkeypatch.setenv("APT_CONFIG", str(made.folder / "apt.conf"))
    return made
