# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/fuzz-agent: its decoders accept their seeds, and a sanitizer's report is a defect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import fuzz_agent, fuzz_decoder
from tools.fuzz_agent import SEEDS, build

from swapstone.core.model import UnavailableError


@pytest.mark.slow
def test_every_seed_is_accepted_and_a_short_run_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        program = build(tmp_path / "native")
    except UnavailableError as error:
        pytest.skip(f"{error.message} {error.hint}")
    for module in (fuzz_agent, fuzz_decoder):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    for name, seeds in SEEDS.items():
        for number, data in enumerate(seeds()):
            path = tmp_path / f"{name}-{number}"
            path.write_bytes(data)
            ended = fuzz_agent.execute(program, name, str(path))
            assert ended.returncode == 0, ended.stderr
            # libFuzzer repeats an execution that keeps memory.
            assert re.search(r"swapstone-fuzz: ([12]) executions, \1 accepted", ended.stderr), name
    outcome = fuzz_agent.run(program, "plan", 1, 5)
    assert outcome.executions > 0
    assert outcome.defects == ()


def test_it_is_unavailable_without_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="there is no clang"):
        build(tmp_path / "native")
