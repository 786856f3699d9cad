# SPDX-License-Identifier: MIT OR Apache-2.0
"""The floating-point ABI of 32-bit ARM: who does floating-point arithmetic, and how functions receive its numbers.

docs/float-abi.md explains it.
"""

from __future__ import annotations

import os

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts

SOFT, SOFTFP, HARD = "soft", "softfp", "hard"

MACHINES = frozenset({"arm", "armv7l", "armv8l"})
"""Machines whose programs have these ABIs: in recipes, and as ``uname -m`` prints them."""

ARCHITECTURE = "armhf"
"""The virtual machine in which the levels are compared."""

PROCESSOR = ("-march=armv7-a", "-mfpu=vfpv3-d16", "-marm", "-ffp-contract=off")
"""What all levels share: processor, floating-point unit, instruction set, and no fused products and sums, whose results differ."""

_REGISTERS = {0: False, 1: True}  # Tag_ABI_VFP_args


class Float:
    """The floating-point ABI."""

    name = "float"
    stage = Stage.COMPILE
    description = "the floating-point ABI of 32-bit ARM: functions of libgcc, or the processor's unit"
    unseen = "Its file has no build attributes of 32-bit ARM."
    levels: tuple[Level, ...] = (
        Level(
            name=SOFT,
            description="functions of libgcc do the arithmetic (-mfloat-abi=soft)",
            needs=("arm-linux-gnueabi-gcc",),
        ),
        Level(
            name=SOFTFP,
            description="the floating-point unit does it; functions receive numbers in core registers (-mfloat-abi=softfp)",
            needs=("arm-linux-gnueabi-gcc",),
        ),
        Level(
            name=HARD,
            description="the floating-point unit does it; functions receive numbers in its registers (-mfloat-abi=hard)",
            needs=("arm-linux-gnueabihf-gcc",),
        ),
    )

    @property
    def default_architecture(self) -> str:
        """Return the architecture of the machine that the factor needs; empty if this machine's will do."""
        return "" if os.uname().machine in MACHINES else ARCHITECTURE

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the ABI, with static linking: no image contains the loader of soft and softfp."""
        cflags = (*recipe.of(Build).cflags, *PROCESSOR, f"-mfloat-abi={level}")
        return recipe.changed(Build, float_abi=level, linking="static", cflags=cflags)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the ABI by the build attributes of the program, which its own code must not contradict.

        Returns:
            ``hard`` if functions receive numbers in registers of the unit; else ``softfp`` if the code may contain instructions of the
            unit; else ``soft``. Another text for a program whose own code contradicts that. None if there are no such attributes.
        """
        facts = evidence.program.of(BuildFacts).float_abi if evidence.program else None
        if facts is None:
            return None
        if facts.registers not in _REGISTERS:
            return f"an ABI with Tag_ABI_VFP_args={facts.registers}"
        level = HARD if facts.registers else SOFTFP if facts.instructions else SOFT
        if level == SOFT and facts.arithmetic:
            return f"soft with {facts.arithmetic} floating-point instructions"
        if level != SOFT and facts.helpers and not facts.arithmetic:
            return f"{level} that calls libgcc {facts.helpers} times instead of using floating-point instructions"
        return level


FLOAT = Float()
