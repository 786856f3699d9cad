# SPDX-License-Identifier: MIT OR Apache-2.0
"""In which machines the emulator's plugin follows calls, and what it needs for that."""

from __future__ import annotations

from swapstone.parts.explain.instruments.kernel_symbols import KernelSymbols

MODE = "paths"

_BY_ADDRESS, _BY_FLOW = "x86_64", "aarch64"
"""Where the plugin follows calls: by the stored return addresses (shadow_stacks.c), and by the flow of control (link_stacks.c)."""
_SWITCHES, _VECTORS = "cpu_switch_to", "vectors"
"""The function of arm64's kernel that switches threads, and its exception vectors (arch/arm64/kernel/entry.S)."""
_NEW_PROGRAM = "begin_new_exec"
"""The function of the kernel (fs/exec.c, since Linux 5.8) that removes the program that a thread had before."""


def unfollowed(architecture: str, kernel: KernelSymbols) -> str:
    """Return why calls can't be followed on a machine; empty if they can."""
    if architecture not in {_BY_ADDRESS, _BY_FLOW}:
        return f"calls and returns are decoded on x86_64 and arm64 only, and this machine is {architecture}"
    missing = (
        [] if architecture == _BY_ADDRESS else [name for name in (_SWITCHES, _VECTORS) if kernel.end(name) is None]
    )
    return f"the kernel's list of functions has no {' and no '.join(missing)}" if missing else ""


def path_words(architecture: str, kernel: KernelSymbols) -> tuple[str, ...]:
    """Return the plugin's arguments for its mode `paths` to follow calls, beside the window.

    Args:
        architecture: of a machine whose calls can be followed.
        kernel: its functions.
    """
    words = {"follow": 1, "exec": kernel.address(_NEW_PROGRAM)}
    if architecture == _BY_FLOW:
        words["switch"], words["switch_end"] = kernel.address(_SWITCHES), kernel.end(_SWITCHES)
        words["vectors"] = kernel.address(_VECTORS)
    return tuple(f"{name}={address:#x}" for name, address in words.items() if address is not None)
