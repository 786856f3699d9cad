# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions as the emulator's plugin splits them, and which of them may fault (native/plugin/instruction.c)."""

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


ENDS_ALWAYS = {
    "x86_64": (
        *("4801d8", "01c8", "83c001", "39c8", "31c0", "4839d0", "21c8", "84c0", "a801", "4889e5", "89c8", "88c8"),
        *("b801000000", "48b88877665544332211", "4863c1", "6bc003", "0fafc1", "488d0500100000", "8d0408"),
        *("90", "6690", "0f1f4000", "f30f1efa", "4898", "4899", "c1e004", "d1e8", "d3e0", "f7d8", "f7e1", "ffc0"),
        *("ffe0", "eb05", "e900000000", "7405", "0f8405000000", "0f44c1", "0f94c0", "0fb6c0", "0fbec0", "0fbae005"),
        *("0fa4c105", "0fc8", "fc", "93"),
    ),
    "aarch64": ("0004008b", "00040091", "e00300aa", "000080d2", "00000090", "007c009b", "0008c09a"),
}
MAY_FAULT = {
    "x86_64": (
        *("488b00", "488900", "480300", "833801", "8400", "0fb600", "0f4401", "0f9400", "0fba2005", "0fbd00", "ff00"),
        *("50", "58", "c3", "c9", "e800000000", "ffd0", "fff0", "ff20", "f7f1", "f7f9", "48f7f9", "f6f1", "a4"),
        *("f3a4", "f348ab", "0f05", "0f0b", "cc", "cd80", "f4", "fa", "e4f4", "ee", "0f30", "0f32", "0f22d8", "0f01f8"),
        *("0f3efa", "f20f58c1", "c5f858c1", "62f17c4858c1", "d8c1", "a10000000000000000", "48", "8b", "48cf", "0fa2"),
    ),
    "aarch64": ("000040f9", "000000f9", "fd7bbfa9", "010000d4", "000020d4", "0041383c", "0020201e", "4000"),
}


@pytest.mark.parametrize(("architecture", "column"), [("x86_64", 4), ("aarch64", 6)])
def test_what_may_fault(feed: Feed, architecture: str, column: int) -> None:
    for table, expected in ((ENDS_ALWAYS, "0"), (MAY_FAULT, "1")):
        codes = table[architecture]
        found = feed(*codes)
        assert [code for code, line in zip(codes, found, strict=True) if line[column] != expected] == []
        assert {line[8] for line in found} == {"1"}
