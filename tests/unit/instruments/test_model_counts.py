# SPDX-License-Identifier: MIT OR Apache-2.0
"""Events of a modelled processor, from what the emulator's plugin writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.plugin_output import model_file, paths_file, traced_block

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.explain.instruments.call_paths import decode_paths
from swapstone.parts.explain.instruments.model_counts import MOST_BYTES, decode_model, read_model, require_modelled
from swapstone.parts.explain.model.instruction_counts import DIVIDES, CacheSize

FILE = model_file(
    begins=4, windows=1, instructions=7, lost=0, loads=3, stores=2, l1d_accesses=6, l1d_misses=5, l2_data_misses=4,
    branches=2, mispredictions=1, divides_64=1, roots_double=9,
)  # fmt: skip
COUNTS = decode_paths(paths_file([traced_block(0x1000, [b"\x90"])], [], [(0, 1, 1, 7)], begins=4, windows=1))


def test_a_file_is_decoded() -> None:
    found = decode_model(FILE)
    assert (found.begins, found.windows, found.lost) == (4, 1, 0)
    assert (found.caches.l1i, found.caches.line_bytes, found.caches.history_bits) == (
        CacheSize(bytes=49152, ways=3), 64, 12,
    )  # fmt: skip
    events = found.events
    assert (events.instructions, events.loads, events.stores, events.l1d_misses, events.l2_data_misses) == (
        7,
        3,
        2,
        5,
        4,
    )
    assert (events.mispredictions, events.divides_64, events.roots_double) == (1, 1, 9)
    assert sum(getattr(events, name) for name in DIVIDES) == 10


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it starts with"),
        (FILE.replace(b"model 1", b"model 2"), "it starts with"),
        (FILE.replace(b"loads 3\n", b""), "not the number of loads"),
        (FILE.replace(b"loads 3", b"loads 03"), "not the number of loads"),
        (FILE.replace(b"loads 3", b"loads -3"), "not the number of loads"),
        (FILE.replace(b"loads 3", b"loads 9999999999999999999"), "not the number of loads"),
        (FILE.replace(b"open 0", b"open 2"), "open is 2"),
        (FILE.removesuffix(b"end\n"), "does not end"),
        (FILE + b"x", "does not end"),
        (FILE + b"x" * MOST_BYTES, "more than"),
        (FILE.replace(b"mispredictions 1", b"mispredictions 3"), "more misses than accesses"),
        (FILE.replace(b"l2_data_misses 4", b"l2_data_misses 6"), "more misses than accesses"),
    ],
)
def test_damage_is_named(data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        decode_model(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (FILE.replace(b"begins 4", b"begins 8"), "8 executions of the mark, and 4 were counted"),
        (FILE.replace(b"windows 1", b"windows 2"), "2 passes, and 1 were counted"),
        (FILE.replace(b"instructions 7", b"instructions 8"), "8 instructions, and 7 were counted"),
        (FILE.replace(b"instructions 7\nlost 0", b"instructions 5\nlost 2"), "no room for 2 instructions"),
        (b"swapstone", "damaged"),
    ],
)
def test_a_model_of_another_run_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "model").write_bytes(data)
    with pytest.raises(UserError, match=words):
        read_model(tmp_path / "model", COUNTS)


def test_a_model_of_the_same_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(FILE)
    assert read_model(tmp_path / "model", COUNTS).events == decode_model(FILE).events
    with pytest.raises(UserError, match="wrote no nothing"):
        read_model(tmp_path / "nothing", COUNTS)


def test_other_architectures_are_unavailable() -> None:
    require_modelled("x86_64")
    require_modelled("aarch64")
    with pytest.raises(UnavailableError, match=r"unavailable on riscv64: .* on x86_64 and arm64 only"):
        require_modelled("riscv64")
