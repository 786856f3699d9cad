# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of the addresses of a program for a machine without an operating system."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from benchmarks.netstack_lab import UnavailableError
from benchmarks.riscv_image import TOOLS, UNKNOWN, Image, Place, inlined_name, read_places, without_generics

from tests.programs import require


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tcp_input", "tcp_input"),
        ("<smoltcp[ea66]::iface::Interface>::poll", "<smoltcp::iface::Interface>::poll"),
        ("<a::Smoltcp<b::Net<c::Flat, 256: usize>>>::finish", "<a::Smoltcp>::finish"),
        ("<a::Stack<D> as b::Stack<E>>::poll", "<a::Stack as b::Stack>::poll"),
        ("a::serve::<b::S, fn(c::C) -> d::D<e::E>>", "a::serve"),
        ("<a::R<u8>>::with::<(), F>::{closure#0}::<u8>", "<a::R>::with::{closure#0}"),
        ("<&a::B<C> as core::fmt::Display>::fmt", "<&a::B as core::fmt::Display>::fmt"),
        ("smoltcp::iface::Interface<D>::poll::h0123456789abcdef", "smoltcp::iface::Interface::poll"),
        ("lw_h0123456789abcdef", "lw_h0123456789abcdef"),
        ("a<b", "a"),
        ("", ""),
    ],
)
def test_generic_arguments_are_left_out(name: str, expected: str) -> None:
    assert without_generics(name) == expected


@pytest.mark.parametrize(
    ("function", "file", "expected"),
    [
        ("data", "/r/smoltcp-0.14.0/src/wire/ip.rs", "smoltcp::wire::ip::data"),
        ("offer<H>", "/w/crates/swapstone-net-virtio/src/lib.rs", "swapstone_net_virtio::offer"),
        ("poll", "/w/smoltcp-0.14.0/src/iface/interface/mod.rs", "smoltcp::iface::interface::poll"),
        ("<a::B>::c", "/w/a/src/b.rs", "<a::B>::c"),
        ("tcp_ack", "/w/lwip-2.2.1/src/core/tcp_out.c", "tcp_ack"),
        ("??", "/w/a/src/b.rs", "a::b::{inlined}"),
        ("x", "", "x"),
    ],
)
def test_an_inlined_function_is_named_with_its_module(function: str, file: str, expected: str) -> None:
    assert inlined_name(function, file) == expected


def test_output_of_addr2line_is_read() -> None:
    text = "0x0000000080000010\nsum\n/w/a.c:7 (discriminator 3)\nmain\n/w/b.c:9\n0x0000000080000020\n??\n??:?\n"
    assert read_places(text) == {
        0x80000010: [Place("sum", "/w/a.c"), Place("main", "/w/b.c")],
        0x80000020: [Place("??", "")],
    }


@pytest.mark.parametrize("text", ["sum\n/w/a.c:7\n", "0x10\nsum\n"])
def test_other_output_of_addr2line_is_refused(text: str) -> None:
    with pytest.raises(UnavailableError, match="addr2line printed"):
        read_places(text)


@pytest.mark.parametrize("content", [b"", b"\x7fELF" + bytes(60), b"text"])
def test_another_file_is_no_program(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "guest"
    path.write_bytes(content)
    with pytest.raises(UnavailableError, match=r"guest can't be read|guest has no functions"):
        Image(path)


SOURCE = """
void inner(int *p); static inline __attribute__((always_inline)) void put(int *p) { *p = 7; inner(p); }
void inner(int *p) { *(volatile int *)p = 8; }
void outer(int *p) { put(p); }
__asm__(".globl _start\\n_start: .byte 0, 0, 0, 0\\n");
"""


def test_functions_of_a_program_are_named_with_those_inlined(tmp_path: Path) -> None:
    require("gcc", *(tool for tool, _ in TOOLS))
    (tmp_path / "a.c").write_text(SOURCE)
    program = tmp_path / "guest"
    command = ("gcc", "-g", "-O1", "-fno-inline", "-fcf-protection=none", "-fno-pie", "-no-pie", "-nostdlib", "-static")
    subprocess.run((*command, "-o", program, tmp_path / "a.c"), check=True)
    image = Image(program)
    entry = image.entry.start
    assert image.function(entry) is None
    assert len(image.code(entry, entry + 2)) == 2
    assert image.code(0, 4) == b""
    functions = {image.function(address) for address in range(entry - 4096, entry + 4096)} - {None}
    starts = {places[-1].name: address for address, places in image.names(one for one in functions if one).items()}
    assert set(starts) == {"inner", "outer"}
    names = image.names([entry, starts["outer"], 0x10])
    assert names[entry][-1].name == "_start"
    assert [place.name for place in names[starts["outer"]]] == ["put", "outer"]
    assert names[starts["outer"]][0].file.endswith("/a.c")
    assert names[0x10] == (Place(UNKNOWN, ""),)
