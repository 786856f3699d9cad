# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where breakpoints are put."""

from __future__ import annotations

import pytest

from swapstone.instruments.heap import breakpoint_after_vectors

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
