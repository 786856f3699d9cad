# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of x86_64 as the emulator's plugin splits them (native/plugin/instruction.c)."""

from __future__ import annotations

import pytest

from tests.unit.instruments.plugin_driver import Feed, compile_driver


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    return compile_driver(tmp_path_factory.mktemp("instruction"), "instruction_driver", "instruction")


WHOLE = (
    *("90", "c3", "c9", "55", "4155", "f4", "0f05", "0f0b", "0fa2", "0f77", "f30f1efa"),
    *("c20800", "c8100000", "cd80", "ebfe", "74fe", "e8ffffffff", "e9ffffffff", "0f84ffffffff", "6a01", "6801020304"),
    *("4801d8", "488b03", "488b4308", "488b8300010000", "488b0425e0ff0000", "488b0c8d00000000", "488b05aabbccdd"),
    *(
        "488b4424f8",
        "04ff",
        "3dffffff7f",
        "663dff7f",
        "4883c001",
        "4881c278563412",
        "6681c21234",
        "66b81234",
        "b878563412",
    ),
    *("48b8efcdab8967452301", "48a1efcdab8967452301", "f6c301", "f7c301000000", "66f7c30100", "f6d3", "f7f1", "48f7f1"),
    *(
        "c60001",
        "c7000a000000",
        "48c7c0ffffffff",
        "c1e002",
        "d1e0",
        "f3a4",
        "f348ab",
        "0fa4c205",
        "0fbae005",
        "660f70c01b",
    ),
    *(
        "660f3a0fc108",
        "660f3800c1",
        "f20f5ec1",
        "d9fa",
        "ddd8",
        "ff25aabbccdd",
        "ffd0",
        "64488b042528000000",
        "0fc6c100",
    ),
    *("c5f877", "c5f858c1", "c4e27518c1", "c4e37d19c101", "f00fc103", "0fae38", "c5fd70c01b"),
)
"""Instructions of x86_64 as GNU objdump splits them."""


def test_an_instruction_is_complete_with_its_last_byte(feed: Feed) -> None:
    for code in WHOLE:
        shorter = [code[:end] for end in range(2, len(code), 2)]
        found = feed(code, *shorter)
        assert [line[0] for line in found] == ["1", *"0" * len(shorter)], code


def test_string_operations_with_rep_are_repeated(feed: Feed) -> None:
    repeated = ("f3a4", "f348a5", "f2ae", "f3aa", "f366ab", "f3a6")
    others = ("a4", "f390", "f30f1efa", "f20f5ec1", "f3c3", "48a5")
    assert [line[2] for line in feed(*repeated, *others)] == ["1"] * 6 + ["0"] * 6
