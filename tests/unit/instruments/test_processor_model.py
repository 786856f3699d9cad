# SPDX-License-Identifier: MIT OR Apache-2.0
"""The modelled processor of the emulator's plugin, on traces of known events (native/plugin/processor.c, instruction.c)."""

from __future__ import annotations

import collections
import random
import subprocess
from collections.abc import Callable, Iterable

import pytest

from tests.unit.instruments.plugin_driver import compile_program

SMALL = (512, 2, 512, 2, 4096, 4)
"""L1I and L1D of 4 sets of 2 ways, L2 of 16 sets of 4 ways, as bytes and ways."""

Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that feeds lines to the model, and returns what it prints."""
    program = compile_program(tmp_path_factory.mktemp("model"), "processor_driver", "processor", "instruction")

    def feed(lines: Iterable[str], sizes: Iterable[int] = SMALL) -> list[str]:
        result = subprocess.run(
            [program, *map(str, sizes)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
        )
        return result.stdout.splitlines()

    return feed


def test_new_lines_miss_and_kept_ones_hit(run: Run) -> None:
    found = run([f"a {line}" for line in [*range(8), *range(8)]])
    assert found == ["2"] * 8 + ["0"] * 8  # the cache holds 8 lines
    found = run([f"a {line}" for line in [*range(9), *range(9)]])
    in_first_set = {0, 4, 8}  # three lines in turn in a set of two ways: the least recently used one is gone each time
    assert found == ["2"] * 9 + ["1" if line in in_first_set else "0" for line in range(9)]


def test_the_least_recently_used_line_is_replaced(run: Run) -> None:
    assert run(f"a {line}" for line in (0, 4, 0, 8, 0, 4)) == ["2", "2", "0", "2", "0", "1"]


def test_instructions_and_data_share_the_second_level_only(run: Run) -> None:
    assert run(["f 5", "a 5", "a 5", "f 5"]) == ["2", "1", "0", "0"]
    assert run(["a 5", "f 5"]) == ["2", "1"]


def test_lines_of_code_have_the_highest_bit(run: Run) -> None:
    code = 1 << 63
    assert run([f"f {code + 5}", "a 5", f"f {code + 5}", f"f {code + (1 << 57)}"]) == ["2", "2", "0", "2"]


def test_random_traces_give_what_another_implementation_gives(run: Run) -> None:
    source = random.Random(7)
    trace = [(source.choice("fa"), source.randrange(120)) for _ in range(4000)]
    sizes = (768, 3, 512, 2, 4096, 8)

    class Level:
        def __init__(self, size: int, ways: int) -> None:
            self.ways, self.count = ways, size // ways // 64
            self.sets: list[collections.OrderedDict[int, None]] = [collections.OrderedDict() for _ in range(self.count)]

        def has(self, line: int) -> bool:
            own = self.sets[line % self.count]
            found = line in own
            own[line] = None
            own.move_to_end(line)
            if len(own) > self.ways:
                own.popitem(last=False)
            return found

    l1i, l1d, l2 = (Level(*sizes[at : at + 2]) for at in (0, 2, 4))
    expected = [
        "0" if (l1i if kind == "f" else l1d).has(line) else "1" if l2.has(line) else "2" for kind, line in trace
    ]
    assert run((f"{kind} {line}" for kind, line in trace), sizes) == expected
    assert set(expected) == {"0", "1", "2"}


@pytest.mark.parametrize("sizes", [(0, 2), (512, 0), (500, 2), (768, 2), (64, 2)])
def test_impossible_caches_are_refused(run: Run, sizes: tuple[int, int]) -> None:
    for at in (0, 2, 4):
        changed = [*SMALL[:at], *sizes, *SMALL[at + 2 :]]
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run([], changed)
        assert caught.value.returncode == 1 and caught.value.stdout == "impossible\n"


def test_a_branch_that_is_always_taken_is_learnt_once_for_each_history(run: Run) -> None:
    found = run(["b 4096 1"] * 100)
    assert (
        found == ["1"] * 13 + ["0"] * 87
    )  # histories 0, 1, 11 and so on to twelve ones: each counter starts at not taken


def test_a_branch_that_is_never_taken_is_predicted_from_the_start(run: Run) -> None:
    assert run(["b 12345 0"] * 50) == ["0"] * 50


def test_a_pattern_is_learnt_and_random_outcomes_are_not(run: Run) -> None:
    pattern = [int(digit) for digit in "1101000" * 400]
    assert run(f"b 64 {taken}" for taken in pattern)[200:] == ["0"] * (len(pattern) - 200)
    source = random.Random(3)
    wrong = run(f"b 64 {source.randrange(2)}" for _ in range(20_000)).count("1")
    assert 0.45 * 20_000 < wrong < 0.55 * 20_000


def test_gshare_gives_what_another_implementation_gives(run: Run) -> None:
    source = random.Random(11)
    trace = [(source.choice((0x1000, 0x1003, 0x7F0FFF)), int(source.random() < 0.7)) for _ in range(5000)]
    counters, history, expected = collections.defaultdict[int, int](lambda: 1), 0, []
    for address, taken in trace:
        at = (address ^ history) % 4096
        expected.append(str(int((counters[at] >= 2) != taken)))
        counters[at] = min(3, counters[at] + 1) if taken else max(0, counters[at] - 1)
        history = (history * 2 + taken) % 4096
    assert run(f"b {address} {taken}" for address, taken in trace) == expected


INTEGER_32, INTEGER_64, SINGLE, DOUBLE, ROOT_SINGLE, ROOT_DOUBLE, NONE = range(7)

X86_DIVIDES = {  # as GNU as encodes them
    "f7f1": INTEGER_32,  # div %ecx
    "48f7f1": INTEGER_64,  # div %rcx
    "f73f": INTEGER_32,  # idivl (%rdi)
    "48f77c8f08": INTEGER_64,  # idivq 8(%rdi,%rcx,4)
    "f6f1": INTEGER_32,  # div %cl
    "66f738": INTEGER_32,  # idivw (%rax)
    "49f7f1": INTEGER_64,  # div %r9
    "48f7e1": NONE,  # mul %rcx
    "48f7d9": NONE,  # neg %rcx
    "f7c105000000": NONE,  # test $5, %ecx
    "f30f5ed1": SINGLE,  # divss %xmm1, %xmm2
    "f2440f5e08": DOUBLE,  # divsd (%rax), %xmm9
    "0f5ed1": SINGLE,  # divps %xmm1, %xmm2
    "660f5ed1": DOUBLE,  # divpd %xmm1, %xmm2
    "c5eb5ed9": DOUBLE,  # vdivsd %xmm1, %xmm2, %xmm3
    "c5ec5ed9": SINGLE,  # vdivps %ymm1, %ymm2, %ymm3
    "c4416c5e29": SINGLE,  # vdivps (%r9), %ymm2, %ymm13
    "f30f51d1": ROOT_SINGLE,  # sqrtss %xmm1, %xmm2
    "f20f51d1": ROOT_DOUBLE,  # sqrtsd %xmm1, %xmm2
    "660f51d1": ROOT_DOUBLE,  # sqrtpd %xmm1, %xmm2
    "c4c17951d1": ROOT_DOUBLE,  # vsqrtpd %xmm9, %xmm2
    "f20f59d1": NONE,  # mulsd %xmm1, %xmm2
    "def1": DOUBLE,  # fdivp
    "d830": DOUBLE,  # fdivs (%rax)
    "dc30": DOUBLE,  # fdivl (%rax)
    "da30": DOUBLE,  # fidivl (%rax)
    "de30": DOUBLE,  # fidivs (%rax)
    "d8fa": DOUBLE,  # fdivr %st(2), %st
    "d9fa": ROOT_DOUBLE,  # fsqrt
    "dec9": NONE,  # fmulp
    "dac9": NONE,  # fcmove %st(1), %st
    "d9fe": NONE,  # fsin
    "f048830001": NONE,  # lock addq $1, (%rax)
    "c4e3fd00d103": NONE,  # vpermq $3, %ymm1, %ymm2
    "f7": NONE,  # incomplete
    "c4": NONE,
    "66": NONE,
}
ARM64_DIVIDES = {
    0x1AC20820: INTEGER_32,  # udiv w0, w1, w2
    0x9AC20C20: INTEGER_64,  # sdiv x0, x1, x2
    0x9B027C20: NONE,  # mul x0, x1, x2
    0x9AC22020: NONE,  # lslv x0, x1, x2
    0x1E221820: SINGLE,  # fdiv s0, s1, s2
    0x1E621820: DOUBLE,  # fdiv d0, d1, d2
    0x1EE21820: SINGLE,  # fdiv h0, h1, h2
    0x6E22FC20: SINGLE,  # fdiv v0.4s, v1.4s, v2.4s
    0x2E22FC20: SINGLE,  # fdiv v0.2s, v1.2s, v2.2s
    0x6E62FC20: DOUBLE,  # fdiv v0.2d, v1.2d, v2.2d
    0x6E423C20: SINGLE,  # fdiv v0.8h, v1.8h, v2.8h
    0x1E620820: NONE,  # fmul d0, d1, d2
    0x6E62DC20: NONE,  # fmul v0.2d, v1.2d, v2.2d
    0x1E21C020: ROOT_SINGLE,  # fsqrt s0, s1
    0x1E61C020: ROOT_DOUBLE,  # fsqrt d0, d1
    0x1EE1C020: ROOT_SINGLE,  # fsqrt h0, h1
    0x6EA1F820: ROOT_SINGLE,  # fsqrt v0.4s, v1.4s
    0x6EE1F820: ROOT_DOUBLE,  # fsqrt v0.2d, v1.2d
    0x2EF9F820: ROOT_SINGLE,  # fsqrt v0.4h, v1.4h
    0x1E60C020: NONE,  # fabs d0, d1
    0x5EE1D820: NONE,  # frecpe d0, d1
}
AT = 0x401000
X86_BRANCHES = {
    "7504": AT + 6,  # jne
    "0f8410000000": AT + 22,  # je
    "0f84f0ffffff": AT - 10,
    "e308": AT + 10,  # jrcxz
    "e2f8": AT - 6,  # loop
    "f27502": AT + 5,  # bnd jne
    "eb04": None,  # jmp
    "e80f000000": None,  # call
    "c3": None,  # ret
    "ffe0": None,  # jmp *%rax
    "0f95c0": None,  # setne %al
    "0f45c1": None,  # cmovne %ecx, %eax
    "75": None,  # incomplete
    "0f841000": None,
}
ARM64_BRANCHES = {
    0x54000081: AT + 16,  # b.ne
    0x54FFFFCB: AT - 8,  # b.lt
    0x5400008E: None,  # b.al
    0xB4008003: AT + 4096,  # cbz x3
    0x35FFFFE3: AT - 4,  # cbnz w3
    0xB6400105: AT + 32,  # tbz x5, #40
    0x371FFF05: AT - 32,  # tbnz w5, #3
    0x14000004: None,  # b
    0x94000004: None,  # bl
    0xD65F03C0: None,  # ret
    0xD61F0060: None,  # br x3
    0x9A821020: None,  # csel x0, x1, x2, ne
}


def _little_endian(word: int) -> str:
    return word.to_bytes(4, "little").hex()


def test_divides_are_recognised(run: Run) -> None:
    assert [line.split()[0] for line in run(f"i x86_64 0 {code}" for code in X86_DIVIDES)] == [
        str(kind) for kind in X86_DIVIDES.values()
    ]
    words = [f"i aarch64 0 {_little_endian(word)}" for word in ARM64_DIVIDES]
    assert [line.split()[0] for line in run(words)] == [str(kind) for kind in ARM64_DIVIDES.values()]


def test_conditional_branches_and_their_targets_are_recognised(run: Run) -> None:
    found = [line.split()[1] for line in run(f"i x86_64 {AT} {code}" for code in X86_BRANCHES)]
    assert found == [f"{to:#x}" if to else "-" for to in X86_BRANCHES.values()]
    found = [line.split()[1] for line in run(f"i aarch64 {AT} {_little_endian(word)}" for word in ARM64_BRANCHES)]
    assert found == [f"{to:#x}" if to else "-" for to in ARM64_BRANCHES.values()]


def test_instructions_that_zero_a_block_of_memory_are_recognised(run: Run) -> None:
    lines = [f"i aarch64 0 {_little_endian(word)}" for word in (0xD50B7423, 0xD50B7E23)]  # dc zva, x3; dc civac, x3
    assert run(lines) == ["6 - 1", "6 - 0"]


def test_other_architectures_are_not_decoded(run: Run) -> None:
    assert run(["i arm 0 f7f1", "i riscv64 0 7504", f"i riscv64 0 {_little_endian(0x1AC20820)}"]) == ["6 - 0"] * 3


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


def test_an_instruction_is_complete_with_its_last_byte(run: Run) -> None:
    for code in WHOLE:
        shorter = [code[:end] for end in range(2, len(code), 2)]
        found = run(f"w {each}" for each in (code, *shorter))
        assert [line[0] for line in found] == ["1", *"0" * len(shorter)], code


def test_string_operations_with_rep_are_repeated(run: Run) -> None:
    repeated = ("f3a4", "f348a5", "f2ae", "f3aa", "f366ab", "f3a6")
    others = ("a4", "f390", "f30f1efa", "f20f5ec1", "f3c3", "48a5")
    assert [line[2] for line in run(f"w {code}" for code in (*repeated, *others))] == ["1"] * 6 + ["0"] * 6
