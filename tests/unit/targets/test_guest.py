# SPDX-License-Identifier: MIT OR Apache-2.0
"""The input of a guest (order, archive) and its output."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import ProgramFacts, facts_of, read_facts
from swapstone.core.model import UserError, WireError
from swapstone.core.model.cpio import file, folder, link, unpack
from swapstone.core.wire import encode_answer
from swapstone.parts.vm.machine import guest
from swapstone.parts.vm.machine.guest import (
    MAX_ORDER_BYTES,
    EndedCommand,
    decode_channel,
    encode_order,
    find,
    guest_path,
    missing_libraries,
    overlay,
    own_loader,
)
from tests.unit.targets.fake_emulator import AFTER, ANSWER, END, GREETING, UNPREPARED, WHOLE

NATIVE = Path(__file__).parents[3] / "native" / "guest" / "init.c"
DIGEST = "0123456789abcdef" * 4


def test_an_order_is_padded_to_whole_pages() -> None:
    order = encode_order(b"swapstone-plan 1\nquit\n", replicate=0, limit_ms=5)
    assert order.startswith(
        b"swapstone-order 4\nlayout 0\nidle-ns 0\ndelay-ns 0\nlimit-ms 5\nsettle-ms 0\nswapstone-plan 1\nquit\n\n"
    )
    assert len(order) == 4096
    assert len(encode_order(b"x" * 4096, replicate=0, limit_ms=5)) == 8192


def test_an_order_lists_the_commands_around_the_plan() -> None:
    order = encode_order(
        b"swapstone-plan 1\nquit\n",
        replicate=0,
        limit_ms=5,
        prepare=("mount -t ext4 a", "b"),
        beside=("c 100%",),
        settle_ms=20,
    )
    assert order.rstrip(b"\n").splitlines()[5:-2] == [
        b"settle-ms 20",
        b"prepare mount%20-t%20ext4%20a",
        b"prepare b",
        b"beside c%20100%25",
    ]


def test_an_order_has_the_files_that_are_written_before_its_commands() -> None:
    files = (("/m.ko", b"\x7fE\0 \n"),)
    order = encode_order(
        b"swapstone-plan 1\nquit\n", replicate=0, limit_ms=5, reports=("/a",), files=files, prepare=("b",)
    )
    assert order.rstrip(b"\n").splitlines()[6:-2] == [b"report /a", b"write /m.ko 7f4500200a", b"prepare b"]


def test_an_order_that_is_too_large_is_refused() -> None:
    with pytest.raises(WireError, match="more than a virtual machine accepts"):
        encode_order(b"x" * MAX_ORDER_BYTES, replicate=0, limit_ms=5)
    assert f"ORDER_BYTES = {MAX_ORDER_BYTES >> 20} << 20" in NATIVE.read_text()


def test_paths_of_all_programs_are_equally_long() -> None:
    paths = [guest_path(Path("/x", "n" * size), DIGEST) for size in (1, 7, 48)]
    assert {len(path) for path in paths} == {80}
    assert paths[1].startswith("/programs/0123456789abcdef")
    assert paths[1].endswith("/nnnnnnn")
    assert {len(guest_path(Path("/x", "n" * size), DIGEST)) for size in (49, 240)} == {320}
    with pytest.raises(UserError, match="too long"):
        guest_path(Path("/x", "n" * 241), DIGEST)


def test_an_overlay_holds_the_files_that_a_guest_needs() -> None:
    entries = unpack(overlay(b"init", b"agent", {"programs/d/p": file(b"p", executable=True)}))
    assert entries is not None
    assert entries["init"].content == b"init"
    assert entries["agent"].mode & 0o111
    assert entries["programs/d/p"].content == b"p"
    assert "modules" not in entries  # the image's own list stays
    assert entries["dev/console"].device == (5, 1)
    assert {"proc", "sys", "dev", "tmp", "scratch"} <= entries.keys()


IMAGE = {
    "lib64": link("usr/lib64"),
    "usr/lib64": folder(),
    "usr/lib64/ld.so": link("../lib/ld-2.so"),
    "usr/lib/ld-2.so": file(b"loader"),
    "lib/libc.so.6": file(b"c"),
    "abs": link("/lib/libc.so.6"),
    "loop": link("loop"),
}


def test_files_of_an_image_are_found_through_links() -> None:
    found = find(IMAGE, "/lib64/ld.so")
    assert found is not None
    assert found.content == b"loader"
    absolute = find(IMAGE, "/abs")
    assert absolute is not None
    assert absolute.content == b"c"
    for path in ("/none", "/loop", "/usr/lib64", "/lib64/none"):
        assert find(IMAGE, path) is None
    assert facts_of(found.content, "/lib64/ld.so") is None  # no ELF file
    facts = facts_of(Path("/bin/sh").read_bytes(), "/bin/sh")
    assert facts is not None
    assert facts.needed and facts.path == "/bin/sh"


def test_missing_files_of_an_image_are_named() -> None:
    def facts(interp: str | None, *needed: str) -> ProgramFacts:
        return ProgramFacts(path="p", interp=interp, needed=needed)

    assert missing_libraries(facts(None), (), {}) == ()
    assert missing_libraries(facts("/lib64/ld.so", "libc.so.6"), (), IMAGE) == ()
    assert missing_libraries(facts("/lib/ld-musl.so", "libc.so.6", "libm.so.6"), (), IMAGE) == (
        "/lib/ld-musl.so",
        "libm.so.6",
    )
    assert missing_libraries(facts("/lib64/ld.so", "libbeside.so"), ("p", "libbeside.so"), IMAGE) == ()
    # musl's loader is its C library; what isn't part of that must be there.
    assert missing_libraries(facts("/lib/ld-musl-x86_64.so.1", "libc.so", "libz.so.1"), (), {}) == (
        "/lib/ld-musl-x86_64.so.1",
        "libz.so.1",
    )


def test_a_program_brings_the_loader_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = tmp_path / "program"
    built.with_suffix(".c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", built.with_suffix(".c"), "-o", built], check=True)
    facts = read_facts(built)
    assert facts is not None and facts.interp is not None
    loader = tmp_path / "ld-own.so"
    loader.write_bytes(Path(facts.interp).read_bytes())
    own = msgspec.structs.replace(facts, interp=str(loader))
    subprocess.run(["cc", built.with_suffix(".c"), f"-Wl,--dynamic-linker={loader}", "-o", built], check=True)
    found = own_loader(own, {})
    assert found[str(loader)].content == loader.read_bytes() and str(built) not in found
    assert any(path.endswith("/libc.so.6") for path in found)
    assert own_loader(own, {str(loader).lstrip("/"): found[str(loader)]}) == {}  # the image has it
    assert own_loader(msgspec.structs.replace(own, interp=None), {}) == own_loader(None, {}) == {}

    def refuse(path: str) -> None:
        raise UserError(f"{path} can't be in a virtual machine")

    monkeypatch.setattr(guest, "check_place", refuse)
    with pytest.raises(UserError, match="can't be in a virtual machine"):
        own_loader(own, {})


def test_the_output_of_a_guest_is_decoded() -> None:
    greeting, answers = decode_channel(b"[ 1.0] noise on a console\n" + WHOLE)
    assert (greeting.system, greeting.version, greeting.machine) == ("Linux", "#1 SMP", "x86_64")
    assert greeting.file("/proc/meminfo") == "MemTotal:  1024 kB\n"
    assert greeting.file("/sys/kernel/realtime") == ""
    assert greeting.file("/none") == ""
    assert answers == (ANSWER,)
    assert (greeting.file("before /proc/uptime"), greeting.file("after /proc/uptime")) == ("1.50", "2.75")
    assert greeting.clock_ns == 698765432
    assert {("version", "#1 SMP"), ("clock", "698765432")} < set(greeting.pairs())
    assert greeting.ended == ()
    assert decode_channel(GREETING + AFTER + END)[1] == ()
    assert decode_channel(WHOLE + b"[ 0.2] reboot: Power down\r\n")[1] == (ANSWER,)


def test_ended_commands_are_decoded() -> None:
    greeting, answers = decode_channel(UNPREPARED)
    assert answers == ()
    assert greeting.ended == (EndedCommand(kind="prepare", number=1, status=256, words="one\ntwo\n"),)
    assert greeting.ended[0].description() == "was killed by signal 0; its last output: 'two'"
    greeting, answers = decode_channel(WHOLE.replace(AFTER, AFTER + b"beside 0 3\n"))
    assert answers == (ANSWER,)
    assert greeting.ended == (EndedCommand(kind="beside", number=0, status=3),)
    assert greeting.ended[0].description() == "ended with 3; it printed nothing"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"", "did not describe itself"),
        (GREETING.partition(b"swapstone-agent")[0], "truncated"),
        (GREETING.partition(b"swapstone-agent")[0] + END, "did not start its agent"),
        (UNPREPARED.replace(b"prepare 1 256", b"prepare 1 x"), "'prepare 1 x', which is no line"),
        (UNPREPARED.replace(b"prepare 1 256\n", b""), "'words /tmp/prepare.log one%0Atwo%0A', which is no line"),
        (WHOLE.replace(b"release 6.1.0\n", b""), "did not report its release"),
        (WHOLE.replace(b"release 6.1.0\n", b"kernel 6.1.0\n"), "'kernel 6.1.0', which is no line of a guest"),
        (WHOLE.replace(b"release 6.1.0\n", b"system Linux\n"), "'system Linux', which is no line"),
        (WHOLE.replace(b"12345", b"12346"), "checksum is wrong"),
        (WHOLE.replace(b"clock 698765432\n", b""), "did not report its clock"),
        (WHOLE.replace(b"clock 6", b"clock 5\nclock 6"), "'clock 698765432', which is no line"),
        (WHOLE.replace(b"clock 6", b"clock 06"), "'clock 0698765432', which is no line"),
        (WHOLE.replace(b"clock 6", b"clock -6"), "'clock -698765432', which is no line"),
        (WHOLE[:-20], "truncated"),
        (GREETING, "truncated"),
        (GREETING + encode_answer(ANSWER), "truncated"),
        (GREETING + encode_answer(ANSWER) + END, "truncated"),
        (GREETING + encode_answer(ANSWER)[:-20] + b"\n" + AFTER + END, "'end' has not five fields"),
    ],
)
def test_invalid_output_of_a_guest_is_an_error(output: bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        decode_channel(output)


def test_numbers_of_many_digits_are_no_line_of_a_guest() -> None:
    with pytest.raises(WireError, match="which is no line of a guest"):
        decode_channel(UNPREPARED.replace(b"prepare 1 256", b"prepare 1 " + b"9" * 5000))
