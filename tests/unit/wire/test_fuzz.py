# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/fuzz runs, and finds a decoder that accepts wrong input."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.wire import AgentRefusedError

FUZZ = Path(__file__).parents[3] / "tools" / "fuzz.py"


def test_a_run_finds_no_error(exhaustive: bool) -> None:
    seconds = "60" if exhaustive else "0.6"
    result = subprocess.run([sys.executable, FUZZ, "--seconds", seconds], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "answer: " in result.stdout
    assert "report: " in result.stdout


def test_a_faulty_decoder_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    tool = runpy.run_path(str(FUZZ))
    tool["fuzz"].__globals__["DECODERS"] = (("weak", int, (b"12",)),)
    assert tool["fuzz"](5, 1, "") == 1
    printed = capsys.readouterr().out
    assert "weak: found with --seed 1" in printed
    assert "ValueError" in printed


def test_every_example_is_accepted() -> None:
    """A decoder that rejects its example rejects nearly all changed inputs too, and finds nothing."""
    decoders = runpy.run_path(str(FUZZ))["DECODERS"]
    assert len(decoders) >= 8
    for _, decode, examples in decoders:
        for example in examples:
            try:
                decode(example)
            except AgentRefusedError:
                assert example.startswith(b"error ")
