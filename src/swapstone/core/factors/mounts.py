# SPDX-License-Identifier: MIT OR Apache-2.0
"""The mount at / of the process, from /proc/PID/mountinfo (proc(5))."""

from __future__ import annotations

import re

from swapstone.core.factors.factor import Evidence
from swapstone.core.model import process_file

MOUNTS = process_file("mountinfo")
"""The mounts of the process, at the end of a run."""


def mounted_root(evidence: Evidence) -> str | None:
    """Return the folder that is mounted at / of the process: of an overlay its lower folder, else the root of the mount.

    Returns:
        Its path on the target, as /proc/PID/mountinfo lists it (proc(5)); None if the mounts are unknown.
    """
    found = None
    for line in (evidence.value(MOUNTS) or "").splitlines():
        fields, separator, rest = line.partition(" - ")
        words, source = fields.split(" "), rest.split(" ")
        if not separator or len(words) < 5 or len(source) < 3 or words[4] != "/":
            continue
        options = source[2].split(",")
        lower = next((option.removeprefix("lowerdir=") for option in options if option.startswith("lowerdir=")), "")
        found = lower if source[0] == "overlay" else words[3]  # the last mount covers those before it
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), found) if found is not None else None


def mounted_content(evidence: Evidence, sha256: str) -> str:
    """Return the folder that is mounted at / of the process if a root of this content is unpacked there; else an empty text.

    Args:
        evidence: with the mounts of the process.
        sha256: of the content, which names the folder to which a root is unpacked, on this machine and in a virtual one.
    """
    mounted = mounted_root(evidence) or ""
    return mounted if sha256 and sha256 in mounted.split("/") else ""
