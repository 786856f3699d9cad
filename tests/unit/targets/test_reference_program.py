# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reference program: one file for all sessions, without a C library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.core.factors import read_facts
from swapstone.core.model import UnavailableError
from swapstone.core.targets.agent_build import build_reference
from tests.programs import needs


@needs("cc")
def test_it_is_built_once_whatever_the_compiler_is_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "reference" / "swapstone-reference"
    build_reference(program)
    before = program.read_bytes()
    monkeypatch.setenv("CC", "no-such-compiler")
    build_reference(program)
    assert program.read_bytes() == before
    program.write_bytes(before[:-1])  # damaged: it would be built again
    with pytest.raises(UnavailableError, match="no-such-compiler"):
        build_reference(program)


@needs("cc")
def test_it_is_static_and_ends_well_and_prints_nothing(tmp_path: Path) -> None:
    program = tmp_path / "swapstone-reference"
    build_reference(program)
    facts = read_facts(program)
    assert facts is not None and facts.interp is None
    done = subprocess.run([program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
