# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors of limits and of the machine become errors of the user; others stay bugs."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from swapstone.core.model.errors import as_user_error


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "absent")])
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.gettempdir()
    found = as_user_error(raised.value, "go on.")
    assert found is not None and "temporary files" in found.message and "TMPDIR" in found.hint


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libscipy_openblas64_.so: failed to map segment from shared object"),
        ImportError("libx.so: cannot map zero-fill pages: Cannot allocate memory"),
    ],
)
def test_a_library_that_does_not_fit_into_memory(error: ImportError) -> None:
    found = as_user_error(error, "go on.")
    assert found is not None and "ulimit -v" in found.hint and found.hint.endswith("then go on.")


@pytest.mark.parametrize(
    "error", [ImportError("No module named 'x'"), FileNotFoundError(errno.ENOENT, "No such file", "x")]
)
def test_other_errors_are_bugs(error: ImportError | OSError) -> None:
    assert as_user_error(error, "go on.") is None
