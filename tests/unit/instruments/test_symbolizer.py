# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which frames are the program's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.perf_script import Event
from swapstone.parts.explain.instruments.symbolizer import Symbolizer
from swapstone.parts.explain.instruments.traced_run import Region, Tracee


@pytest.mark.parametrize("script", [True, False])
def test_what_a_script_executes_is_the_program(tmp_path: Path, *, script: bool) -> None:
    program = tmp_path / "start"
    program.write_bytes(b"#!/bin/sh\nexec nginx\n" if script else b"\x7fELF")
    request = TrialRequest(id="x", arguments=(str(program),), cwd="/", timeout_ms=1)
    symbolizer = Symbolizer(Tracee("v", request, Region.DRIVEN))
    assert symbolizer.object_of("/usr/sbin/nginx") == (OWN_OBJECT if script else "nginx")
    assert symbolizer.object_of(str(program.resolve())) == OWN_OBJECT
    assert symbolizer.object_of("/lib/libc.so.6") == "libc.so.6"
    assert symbolizer.object_of("/lib/ld-musl-x86_64.so.1") == "ld-musl-x86_64.so.1"
    assert symbolizer.object_of("/lib/libssl-3.so") == "libssl-3.so"
    assert symbolizer.object_of("[vdso]") == "[vdso]"
    assert symbolizer.object_of("[kernel.kallsyms]") == KERNEL


def test_addresses_in_no_file_above_a_stack_are_left_out() -> None:
    request = TrialRequest(id="x", arguments=("/bin/prog",), cwd="/", timeout_ms=1)
    symbolizer = Symbolizer(Tracee("v", request, Region.PROGRAM))
    nowhere = (0xFFFFFFFFFFFFFFFF, "[unknown]", "[unknown]")
    inner = (0x10, "f", "[vdso]")
    assert [
        frame.symbol for frame in symbolizer.stack(Event("x", "prog", 1, 1, 0, stack=(inner, nowhere, nowhere)))
    ] == ["f"]
    assert len(symbolizer.stack(Event("x", "prog", 1, 1, 0, stack=(nowhere, nowhere)))) == 1
    assert len(symbolizer.stack(Event("x", "prog", 1, 1, 0, stack=(nowhere, inner)))) == 2
