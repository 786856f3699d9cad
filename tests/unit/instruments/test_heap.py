# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where breakpoints are put."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import heap, requirements
from swapstone.parts.explain.instruments.heap import breakpoint_after_vectors
from swapstone.parts.explain.instruments.requirements import missing_uprobes
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee
from tests.programs import missing

MOV = bytes.fromhex("4889f8")  # mov %rdi,%rax


@pytest.mark.parametrize(
    ("code", "after"),
    [
        (MOV, 0),
        (bytes.fromhex("f30f1efa") + MOV, 0),  # endbr64
        (bytes.fromhex("660f6ec6") + MOV, 0),  # movd %esi,%xmm0: an old prefix, which Linux decodes
        (bytes.fromhex("62e27d487ac6") + MOV, 6),  # vpbroadcastb %esi,%zmm16
        (bytes.fromhex("c5f96ec6") + MOV, 4),  # vmovd %esi,%xmm0
        (bytes.fromhex("c5f96ec6c4e27d78c0") + MOV, 9),  # and vpbroadcastb %xmm0,%ymm0
        (bytes.fromhex("c5fe6f06") + MOV, None),  # vmovdqu (%rsi),%ymm0
        (bytes.fromhex("c4e27d7806") + MOV, None),  # vpbroadcastb (%rsi),%ymm0, which is longer with some addresses
        (bytes.fromhex("c5f9"), None),  # cut off
    ],
)
def test_a_breakpoint_is_placed_after_broadcast_instructions(code: bytes, after: int | None) -> None:
    assert breakpoint_after_vectors(code) == after


@pytest.mark.parametrize("code", [b"", bytes.fromhex("c5f96ec6")], ids=["no code", "nothing after a broadcast"])
def test_code_that_ends_early_has_no_place_for_a_breakpoint(code: bytes) -> None:
    assert breakpoint_after_vectors(code) == len(code)


MUSL = Path("/lib/ld-musl-x86_64.so.1")
COPIES = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) char *innermost(const char *text) { char *copy = strdup(text); __asm__ volatile("" : "+r"(copy)); return copy; }
__attribute__((noinline)) char *outer(const char *text) { char *copy = innermost(text); __asm__ volatile("" : "+r"(copy)); return copy; }
int main(void) { for (int i = 0; i < 50; i++) free(outer("text")); return 0; }
"""


MOVES = """
#include <string.h>
char from[4000], to[4000];
int main(void)
{
    for (int i = 0; i < 50; i++)
        memcpy(to, from, sizeof to);
    for (int i = 0; i < 30; i++)
        memset(to, i, sizeof to);
    return to[1] == 1;
}
"""
UPROBES = f"{requirements.TRACING}/uprobe_events"


def traced(*command: str) -> str:
    """Run a command where tracefs is mounted, as the instruments do, and return its output."""
    wrapper = requirements.tracing_wrapper()
    assert isinstance(wrapper, tuple)
    return subprocess.run((*wrapper, *command), check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or platform.machine() != "x86_64" or not MUSL.exists() or bool(missing("musl-gcc")),
    reason="needs root, musl on x86_64 and musl-gcc",
)
def test_allocations_have_all_callers_in_musl_by_derived_tables(tmp_path: Path) -> None:
    if missing_uprobes() is not None:
        pytest.skip("needs perf and uprobes")
    (tmp_path / "p.c").write_text(COPIES)
    program = tmp_path / "p"
    subprocess.run(["musl-gcc", "-O1", "-g", "-o", program, tmp_path / "p.c"], check=True)
    request = TrialRequest(id="x", arguments=(str(program),), cwd=str(tmp_path), timeout_ms=60_000)
    objects = (str(program), str(MUSL.resolve()))
    folder = tmp_path / "scratch"
    folder.mkdir()
    found = heap.measure(Tracee("v", request, Region.PROGRAM), ReferenceRuns({"wall": 1e6}, objects, (), folder, 1.0))
    assert found.profile is not None
    names = [frame.symbol for frame in found.profile.frames]
    heaviest = [names[number] for number in found.profile.stacks[0].frames]
    assert heaviest[-6:] == ["main", "outer", "innermost", "strdup", "malloc", "0 to 128 B"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or platform.machine() != "x86_64", reason="needs root on x86_64")
def test_copies_are_counted_and_probes_are_deleted(tmp_path: Path) -> None:
    if missing_uprobes() is not None:
        pytest.skip("needs perf and uprobes")
    (tmp_path / "p.c").write_text(MOVES)
    program = tmp_path / "p"
    subprocess.run(["cc", "-O1", "-fno-builtin", "-o", program, tmp_path / "p.c"], check=True)
    loaded = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    objects = (str(program), *re.findall(r"=> (/\S+)", loaded))
    request = TrialRequest(id="x", arguments=(str(program),), cwd=str(tmp_path), timeout_ms=60_000)
    folder = tmp_path / "scratch"
    folder.mkdir()
    number = 2**22 + os.getpid()  # of no process; of this test alone, because two probes of one name are an error
    stale = f"p:swapstone_{number}/f0 {Path(objects[-1]).resolve()}:0x1000"
    traced("sh", "-c", 'echo "$0" >> "$1"', stale, UPROBES)
    found = heap.measure(Tracee("v", request, Region.PROGRAM), ReferenceRuns({"wall": 1e6}, objects, (), folder, 1.0))
    counted = {amount.name: amount.value for amount in found.amounts}
    assert 50 <= counted["calls that copy memory"] < 90  # the loader and the C library copy, too
    assert 50 * 4000 <= counted["bytes copied"] < 50 * 4000 + 20_000
    assert 30 <= counted["calls that set memory"] < 70
    left = traced("cat", UPROBES)
    assert f"swapstone_{os.getpid()}/" not in left
    assert f"swapstone_{number}/" not in left
