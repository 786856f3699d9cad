# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone explain` of records on the exact clock: the passes of a workload."""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e.explained_record import PRINTED, RECORD, explained_strlen
from tests.shared import Shared

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program of this test is of x86_64"),
]


@pytest.mark.exhaustive
def test_the_passes_of_a_workload_are_counted(shared: Shared) -> None:
    top = explained_strlen(shared)
    found = json.loads((top / PRINTED).read_text())["counted"]
    assert found["region"] == "passes"
    ((folder,),) = [[*(top / RECORD / "explain").iterdir()]]
    internal = (folder / "instructions-baseline.folded").read_text()
    named = any(note.startswith("Names of glibc's internal functions are from libc6-dbg ") for note in found["notes"])
    unnamed = any(note.startswith("Internal functions of libc.so.6 have no names: ") for note in found["notes"])
    assert named != unnamed and ("__strlen_sse2" in internal) == named
    for side in found["sides"]:
        beyond = side["instructions"] - side["clock_ns"]
        assert 0 < beyond < 20_000 * side["operations"], "a pass and the reading of the clocks around it"
        assert side["repeated"] < 100, "faults at the end of a block, which the first pass may have"
