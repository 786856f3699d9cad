# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the load generators' machine prints: only the exact form is accepted, and nothing of it steers a terminal."""

from __future__ import annotations

import pytest

from swapstone.model import WireError
from swapstone.targets.driver_answer import MOST_BYTES, decode_driver_answer, decode_program


def answer(*lines: str) -> bytes:
    return "\n".join(["swapstone-driver 1", *lines, "end", ""]).encode()


def test_texts_are_decoded_and_made_safe() -> None:
    text = b"Linux \x1b[31m\n6.1".hex()
    found = decode_driver_answer(answer(f"kernel {text}", "missing 736564", "missing 6f64"))
    assert found == {"kernel": r"Linux \x1b[31m\x0a6.1", "missing": "sed od"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"end\n",
        b"Welcome!\n" + answer(),
        answer()[:-1],
        answer() + b"more\n",
        answer("kernel"),
        answer("kernel 4"),
        answer("kernel 4G"),
        answer("kernel " + "41" * 401),
        answer("kernel 41", "kernel 41"),
        answer("colour 41"),
        answer("missing 41"),
        answer(*["missing 736564"] * 100),
        answer("kernel 41\r"),
        b"swapstone-driver 1\nkernel 41\x00\nend\n",
        answer("kernel 41" + " " * MOST_BYTES),
    ],
)
def test_another_form_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_driver_answer(data)


def test_a_program_has_an_absolute_path_and_a_digest() -> None:
    path, digest = "path " + b"/bin/wrk".hex(), "sha256 " + ("ab" * 32).encode().hex()
    assert decode_program(answer(path, digest)) == ("/bin/wrk", "ab" * 32)
    assert decode_program(answer()) is None
    for lines in (
        (path,),
        (digest,),
        (path, "sha256 6162"),
        ("path " + b"wrk".hex(), digest),
        (path, digest, "cpu 41"),
    ):
        with pytest.raises(WireError):
            decode_program(answer(*lines))
