# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor float: flags of its levels, and the level in force by build attributes and code of a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.fuzz_binaries import elf
from tools.small_elf import BX_LR, CODE, FILE, NOP, VADD, VMOV_TO_CORE, arm_elf, call, float_elf

from swapstone.core.factors import Evidence, Recipe, parse_choice, read_facts
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts, FloatFacts
from swapstone.parts.build.factors.float_abi import FLOAT

HELPER = [call(0, 2), BX_LR, NOP]


def facts_of(data: bytes, folder: Path) -> FloatFacts | None:
    path = folder / "program"
    path.write_bytes(data)
    facts = read_facts(path)
    assert facts is not None
    return facts.of(BuildFacts).float_abi


def seen(data: bytes, folder: Path) -> str | None:
    path = folder / "program"
    path.write_bytes(data)
    return FLOAT.observe(Evidence(interp=None, objects=(str(path),), program=read_facts(path)))


def test_a_level_is_a_switch_beside_what_all_levels_share() -> None:
    recipes = {level.name: FLOAT.apply(level.name, Recipe(pieces=(Build(cflags=("-O2",)),))) for level in FLOAT.levels}
    shared = ("-O2", "-march=armv7-a", "-mfpu=vfpv3-d16", "-marm", "-ffp-contract=off")
    assert {name: recipe.of(Build).cflags for name, recipe in recipes.items()} == {
        name: (*shared, f"-mfloat-abi={name}") for name in ("soft", "softfp", "hard")
    }
    assert {recipe.of(Build).linking for recipe in recipes.values()} == {"static"}
    assert parse_choice("float=soft,softfp,hard").levels == tuple(recipes)


@pytest.mark.parametrize(
    ("level", "words", "arithmetic", "helpers"),
    [("soft", HELPER, 0, 1), ("softfp", [VADD, VMOV_TO_CORE, BX_LR], 1, 0), ("hard", [VADD, VADD, BX_LR], 2, 0)],
)
def test_a_level_is_observed_in_attributes_and_code(
    level: str, words: list[int], arithmetic: int, helpers: int, tmp_path: Path
) -> None:
    data = float_elf(level, words, "__aeabi_fadd")
    assert seen(data, tmp_path) == level
    facts = facts_of(data, tmp_path)
    assert facts is not None
    assert (facts.arithmetic, facts.helpers) == (arithmetic, helpers)


def test_code_that_contradicts_the_attributes_is_another_level(tmp_path: Path) -> None:
    assert seen(float_elf("soft", [VADD, VADD, BX_LR]), tmp_path) == "soft with 2 floating-point instructions"
    for level in ("softfp", "hard"):
        other = f"{level} that calls libgcc 1 times instead of using floating-point instructions"
        assert seen(float_elf(level, HELPER, "__aeabi_fadd"), tmp_path) == other


def test_an_unknown_abi_is_another_level(tmp_path: Path) -> None:
    assert seen(arm_elf([BX_LR], [(28, 3)]), tmp_path) == "an ABI with Tag_ABI_VFP_args=3"


def test_calls_of_the_c_library_and_of_other_functions_do_not_count(tmp_path: Path) -> None:
    # The call is in an archive's object; the program's own code adds with an instruction.
    words = [VADD, BX_LR, call(2, 4), BX_LR, NOP]
    assert seen(float_elf("softfp", words, "__aeabi_fmul"), tmp_path) == "softfp"
    facts = facts_of(float_elf("softfp", HELPER, "__aeabi_l2f"), tmp_path)  # a 64-bit integer: no instruction does it
    assert facts is not None and facts.helpers == 0


def test_a_stripped_program_shows_its_attributes_only(tmp_path: Path) -> None:
    data = arm_elf([VADD, BX_LR], [(10, 4), (28, 1)])
    assert facts_of(data, tmp_path) == FloatFacts(registers=1, instructions=4)
    assert seen(data, tmp_path) == "hard"


def test_data_among_the_code_is_no_instruction(tmp_path: Path) -> None:
    symbols = [("prog.c", FILE, 0), ("$a", CODE, 0), ("$d", CODE, 1), ("$a", CODE, 2)]
    facts = facts_of(arm_elf([VADD, VADD, BX_LR], [(10, 4)], symbols), tmp_path)
    assert facts is not None and facts.arithmetic == 1


def test_programs_of_other_processors_show_nothing(tmp_path: Path) -> None:
    assert facts_of(elf(), tmp_path) is None
    assert seen(elf(), tmp_path) is None
    assert FLOAT.observe(Evidence(interp=None, objects=())) is None


@pytest.mark.parametrize("section", [b"X", b"A\xff\xff\xff\xff", b"A\x05\0\0\0"])
def test_damaged_attributes_make_the_file_unreadable(section: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(arm_elf([BX_LR], section=section))
    assert read_facts(path) is None


def test_mapping_symbols_outside_their_section_are_ignored(tmp_path: Path) -> None:
    symbols = [("prog.c", FILE, 0), ("$a", CODE, 0), ("$d", CODE, 1 << 20)]
    facts = facts_of(arm_elf([VADD, BX_LR], [(10, 4)], symbols), tmp_path)
    assert facts is not None and facts.arithmetic == 1


def test_more_code_than_the_limit_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapstone.parts.build.factors.build_facts.MOST_CODE_BYTES", 4)
    facts = facts_of(float_elf("hard", [VADD, BX_LR]), tmp_path)
    assert facts is not None and facts.arithmetic is None
