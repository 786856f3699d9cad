# SPDX-License-Identifier: MIT OR Apache-2.0
"""Digests of outputs: which differences the shape ignores, and which it shows."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest

from swapstone.core.model import OwnProgram
from swapstone.core.wire import own_program_output
from swapstone.core.wire.own_program_output import (
    KEY_DIGITS,
    MOST_COLUMNS,
    ORDER,
    VALUE_DIGITS,
    OutputDigests,
    columns_digest,
    columns_of,
    masked,
    parts_of,
    shape_of,
    without_metrics,
    without_name,
)
from swapstone.core.workloads import parse_metric


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


def values_of(content: bytes) -> dict[str, str]:
    """Return the values of a content's columns by their keys."""
    text, wide = columns_digest(content), KEY_DIGITS + VALUE_DIGITS
    return {text[at : at + KEY_DIGITS]: text[at + KEY_DIGITS : at + wide] for at in range(0, len(text), wide)}


def test_binary_content_has_a_shape_and_columns() -> None:
    content = bytes(range(256)) * 100
    assert len(shape_of(content)) == 64
    assert values_of(content)
    assert masked(b"\xff\x00 1\t\t2") == b"\xff\x00 # #"


@pytest.mark.parametrize(
    ("line", "shown", "numbers"),
    [
        (b"sum 5 took 0.5 s", b"sum # took #", [b"5", b"0.5 s"]),
        (b"a,5,0.25", b"a,#,#", [b"5", b"0.25"]),
        (b"cycles 1,234,567", b"cycles #", [b"1,234,567"]),
        (b"crc 0xDEAD -1.5e-05", b"crc # #", [b"0xDEAD", b"-1.5e-05"]),
        (b"900us of 3 \xc2\xb5s  5 seconds 7 sun", b"# of # # # sun", [b"900us", b"3 \xc2\xb5s", b"5 seconds", b"7"]),
    ],
)
def test_columns_are_the_numbers_of_a_masked_line(line: bytes, shown: bytes, numbers: list[bytes]) -> None:
    found = columns_of(line)
    assert found.pop(ORDER) == [shown]
    assert found == {(shown, place): [number] for place, number in enumerate(numbers)}


def test_a_number_changes_its_column_alone_and_an_order_the_half_of_the_ordered_values() -> None:
    before, after = values_of(b"sum 5 took 1 s\nsum 6 took 2 s\n"), values_of(b"sum 5 took 1 s\nsum 6 took 3 s\n")
    (key,) = (part.key for part in parts_of(b"sum 5 took 1 s") if (part.line, part.place) == (b"sum # took #", 1))
    assert {each for each in before if before[each] != after[each]} == {key}
    other = values_of(b"sum 6 took 2 s\nsum 5 took 1 s\n")
    half = VALUE_DIGITS // 2
    assert other[key][:half] != before[key][:half] and other[key][half:] == before[key][half:]


def test_many_columns_are_taken_together_by_their_place_in_the_line() -> None:
    def table(wrong: int, time: int) -> dict[str, str]:
        return values_of(b"".join(b"x%s %d %d\n" % (b"y" * n, n + (n == wrong), n * time) for n in range(500)))

    one, other, wrong = table(-1, 3), table(-1, 7), table(250, 3)
    assert one.keys() == other.keys() == wrong.keys() and len(one) <= MOST_COLUMNS
    changed = {each for each in one if one[each] != wrong[each]}
    assert len(changed) == 1 and all(other[each] == one[each] for each in changed)


def test_numbers_of_metrics_and_the_name_of_the_program_are_replaced() -> None:
    own = OwnProgram(name="p", arguments=(), numbers=(parse_metric("n=regex:n ([0-9]+)"),))
    assert without_metrics(own, b"n 12 of 12\xff") == b"n {metric} of 12\xff"
    assert without_metrics(OwnProgram(name="p", arguments=()), b"n 12") == b"n 12"
    assert without_name(b"a: x\nb a: y\na: z", "/usr/a") == b"{program}: x\nb a: y\n{program}: z"
    assert without_name(b": x", "") == b": x"


def test_a_content_has_three_digests_and_an_empty_one_has_one() -> None:
    outputs = OutputDigests()
    assert outputs.of_bytes("stdout", b"") == (("stdout", hashlib.sha256(b"").hexdigest()),)
    found = outputs.of_bytes("stdout", b"x 1\n")
    assert dict(found) == {
        "stdout": hashlib.sha256(b"x 1\n").hexdigest(),
        "shape:stdout": shape_of(b"x 1\n"),
        "columns:stdout": columns_digest(b"x 1\n"),
    }
    assert dict(outputs.of_file("out", io.BytesIO(b"x 1\n"))) == {
        name.replace("stdout", "out"): value for name, value in found
    }
    own = OwnProgram(name="p", arguments=())
    assert outputs.of_printed(own, b"x 1\n", b"") == found
    assert [name for name, _ in outputs.of_printed(own, b"", b"x 1\n")] == [
        "stdout",
        "stderr",
        "shape:stderr",
        "columns:stderr",
    ]


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
