# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folders that all workers share: filled once, and again after an error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.shared import Shared


def test_a_folder_is_filled_once_for_all_callers(tmp_path: Path) -> None:
    filled: list[Path] = []
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: Shared(tmp_path).folder("name", filled.append), range(8)))
    assert filled == list(found)


def test_a_folder_is_filled_anew_after_an_error(tmp_path: Path) -> None:
    def half(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError

    with pytest.raises(ValueError):
        Shared(tmp_path).folder("name", half)
    folder = Shared(tmp_path).folder("name", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]
