# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decodes what Swapstone writes for pprof, by the numbers of fields of its profile.proto."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

Field = tuple[int, int | bytes]


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[Field]:
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        value, at = _number(data, at)
        assert key & 7 in {0, 2}
        if key & 7 == 0:
            yield key >> 3, value
        else:
            assert at + value <= len(data)
            yield key >> 3, data[at : at + value]
            at += value


def _message(data: int | bytes) -> dict[int, int | bytes]:
    assert isinstance(data, bytes)
    return dict(_fields(data))


def _packed(data: int | bytes) -> list[int]:
    assert isinstance(data, bytes)
    found, at = [], 0
    while at < len(data):
        value, at = _number(data, at)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found


def decoded(data: bytes) -> tuple[list[tuple[str, str]], dict[str, tuple[int, ...]]]:
    """Return the pairs (kind, unit) of values, and the values of each stack, whose functions are joined by semicolons."""
    whole = list(_fields(gzip.decompress(data)))
    texts = [value.decode() for number, value in whole if number == 6 and isinstance(value, bytes)]
    assert texts[0] == "" and {number for number, _ in whole} <= {1, 2, 4, 5, 6}

    def text(at: int | bytes) -> str:
        assert isinstance(at, int)
        return texts[at]

    every = {number: [_message(value) for each, value in whole if each == number] for number in (1, 2, 4, 5)}
    kinds = [(text(one[1]), text(one[2])) for one in every[1]]
    names = {one[1]: text(one[2]) for one in every[5]}
    places = {one[1]: names[_message(one[4])[1]] for one in every[4]}
    assert len(names) == len(every[5]) == len(places) and 0 not in places
    samples = [([places[at] for at in reversed(_packed(one[1]))], tuple(_packed(one[2]))) for one in every[2]]
    assert all(len(values) == len(kinds) for _, values in samples)
    return kinds, {";".join(stack): values for stack, values in samples}
