# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel's headers for compilers of C libraries that bring none, such as musl-gcc."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def link_kernel_headers(folder: Path) -> None:
    """Link the kernel's headers of this machine in a folder, without glibc's headers.

    Args:
        folder: an existing folder, for ``-idirafter``.
    """
    asked = subprocess.run(
        ["cc", "-E", "-"], input=b"#include <linux/futex.h>\n", capture_output=True, timeout=60, check=False
    )
    for name in ("linux", "asm", "asm-generic"):
        found = re.search(rf'^# \d+ "((?:/[^/"]+)+?/{name})/', asked.stdout.decode(errors="replace"), re.MULTILINE)
        if found:
            (folder / name).symlink_to(found[1])
