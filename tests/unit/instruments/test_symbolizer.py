# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which frames are the program's own, and the lines of their sources."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.perf import Event, Symbolizer, source_lines
from swapstone.parts.explain.instruments.symbol_tables import build_id, debug_file_of, of_elf, table_of
from swapstone.parts.explain.instruments.traced_run import Region, Tracee
from tests.programs import needs


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
    assert symbolizer.object_of("/tmp/perf-4711.map") == OWN_OBJECT, "the number is another one in each run"
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


SOURCE = """
static volatile int sum;
__attribute__((noinline)) static void inner(void) {
    sum += 1;
}
int main(void) {
    sum = 0;
    inner();
    return 0;
}
"""


def _built(folder: Path, *flags: str) -> Path:
    (folder / "lines.c").write_text(SOURCE)
    program = folder / "lines"
    subprocess.run(["cc", "-O1", *flags, "-o", program, "lines.c"], check=True, cwd=folder)
    return program


def _calls(program: Path) -> tuple[Symbolizer, Event]:
    """Return what names the functions of a program, and a sample in `inner`, below its call."""
    table = table_of(program)
    assert table is not None
    (inner,) = (one.address for one in table if one.name == "inner")
    code = subprocess.run(["objdump", "-d", program], check=True, capture_output=True, text=True).stdout
    after = next(after for call, after in itertools.pairwise(code.splitlines()) if "call" in call and "<inner>" in call)
    behind = int(after.split(":")[0], 16)
    assert table.address_of(inner) == inner, "the first segment of a program begins with the file"
    stack = tuple((at, "?", str(program.resolve())) for at in (inner, behind))
    request = TrialRequest(id="x", arguments=(str(program),), cwd="/", timeout_ms=1)
    return Symbolizer(Tracee("v", request, Region.PROGRAM)), Event("x", "lines", 1, 1, 0, stack=stack)


def _lines(symbolizer: Symbolizer) -> dict[str, str]:
    return {frame.symbol: line for frame, line in symbolizer.lines().items()}


@needs("cc", "objdump", "addr2line")
def test_a_function_has_the_source_line_of_most_of_its_samples(tmp_path: Path) -> None:
    symbolizer, event = _calls(_built(tmp_path, "-g"))
    (inner, main) = event.stack
    symbolizer.stack(event)
    assert _lines(symbolizer) == {"inner": "lines.c:4", "main": "lines.c:8"}, "that of the call, not the one behind it"
    for _ in range(3):
        symbolizer.stack(dataclasses.replace(event, stack=((main[0], *inner[1:]),)))
    assert _lines(symbolizer)["main"] in {"lines.c:9", "lines.c:10"}


@needs("cc", "objdump", "objcopy", "addr2line")
def test_a_stripped_file_has_the_lines_of_its_debug_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _built(tmp_path, "-g", "-Wl,--build-id")
    symbolizer, event = _calls(program)
    debug = tmp_path / "fetched"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", program], check=True)
    symbolizer.stack(event)
    assert _lines(symbolizer) == {}
    (tmp_path / "bin").mkdir()
    fetch = tmp_path / "bin" / "debuginfod-find"
    fetch.write_text(f'#!/bin/sh\n[ "$1" = debuginfo ] && echo "$2" > {tmp_path}/asked && echo {debug}\n')
    fetch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    assert debug_file_of(program) is None and not (tmp_path / "asked").exists(), (
        "nothing is fetched without the variable"
    )
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://localhost:1")
    assert debug_file_of(program) == debug
    assert (tmp_path / "asked").read_text().strip() == of_elf(program, build_id, "")
    table = table_of(debug)
    (address,) = (one.address for one in table or () if one.name == "inner")
    assert source_lines(program, [address])[address].startswith("lines.c:")
    fetch.write_text("#!/bin/sh\nexit 1\n")
    assert debug_file_of(program) is None and debug_file_of(tmp_path / "absent") is None


@needs("cc", "addr2line")
def test_code_of_a_function_in_place_of_a_call_has_the_line_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "inner.h").write_text("static inline unsigned inlined(unsigned n) {\n  return n * n % 7;\n}\n")
    calls = "__attribute__((noinline)) unsigned outer(unsigned n) {\n  return inlined(n);\n}\n"
    (tmp_path / "outer.c").write_text(f'#include "inner.h"\n{calls}int main(int n, char **v) {{ return outer(n); }}\n')
    subprocess.run(["cc", "-O2", "-g", "-o", "outer", "outer.c"], check=True, cwd=tmp_path)
    outer = next(one for one in table_of(tmp_path / "outer") or () if one.name == "outer")
    addresses = range(outer.address, outer.address + outer.size)
    plain = subprocess.run(
        ["addr2line", "-e", tmp_path / "outer", *map(hex, addresses)], capture_output=True, text=True, check=True
    )
    assert "inner.h:2" in plain.stdout, "the compiler puts it there"
    found = source_lines(tmp_path / "outer", addresses)
    assert len(found) == len(addresses) and {line.partition(":")[0] for line in found.values()} == {"outer.c"}


def test_what_is_no_line_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "addr2line"
    printed = ("/a b/scan.c:14 (discriminator 3)", "??:0", "??:?", "x.c:0", f"{'a' * 130}.c:1", "a.c:7")
    text = "\n".join(f"0x{at:016x}\n{line}" for at, line in enumerate(printed))
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert source_lines(tmp_path / "absent", range(6)) == {0: "scan.c:14", 5: "a.c:7"}
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert source_lines(tmp_path / "absent", [1]) == {}
