"""What the doctor says of virtual machines: which emulators are here."""

from __future__ import annotations

import shutil

from swapstone.build.packages import read_lock
from swapstone.build.parts import ARCHITECTURES
from swapstone.model import UserError
from swapstone.targets.health import Finding, State


def emulator_findings() -> list[Finding]:
    """Say for each architecture whether images of it can be booted here, or why there are none."""
    try:
        lock = read_lock()
    except UserError as error:
        return [
            Finding(name="images", state=State.MISSING, found="no lock", meaning=error.message, mend=error.hint),
        ]
    findings = []
    for architecture in ARCHITECTURES:
        name = f"virtual {architecture.name}"
        if architecture.debian in lock.unavailable:
            found = f"no images: {lock.unavailable[architecture.debian]}"
            findings.append(Finding(name=name, state=State.UNKNOWN, found=found))
        elif shutil.which(architecture.emulator) is None:
            meaning = f"virtual machines of {architecture.name} are unavailable: no {architecture.emulator}"
            mend = f"sudo apt-get install {architecture.emulator_package}"
            findings.append(Finding(name=name, state=State.MISSING, found="missing", meaning=meaning, mend=mend))
        else:
            findings.append(Finding(name=name, state=State.GOOD, found=architecture.emulator))
    return findings
