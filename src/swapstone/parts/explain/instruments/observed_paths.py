# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read the call paths of a trial that ran again under the emulator's plugin, and check them against the counted instructions."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

from swapstone.parts.explain.instruments.block_counts import BlockCounts
from swapstone.parts.explain.instruments.call_paths import MOST_BYTES, decode_paths
from swapstone.parts.explain.instruments.function_names import NamesOf
from swapstone.parts.explain.instruments.kernel_symbols import KernelSymbols
from swapstone.parts.explain.instruments.path_tree import tree_of
from swapstone.parts.explain.instruments.plugin_file import Block, read_output
from swapstone.parts.explain.model.instruction_paths import PathTree

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
    """Return the plugin's arguments for its mode `paths`, beside the window.

    Args:
        architecture: of a machine whose calls can be followed.
        kernel: its functions.
    """
    words = {"exec": kernel.address(_NEW_PROGRAM)}
    if architecture == _BY_FLOW:
        words["switch"], words["switch_end"] = kernel.address(_SWITCHES), kernel.end(_SWITCHES)
        words["vectors"] = kernel.address(_VECTORS)
    return tuple(f"{name}={address:#x}" for name, address in words.items() if address is not None)


def read_paths(path: Path, counts: BlockCounts, names_of: NamesOf) -> tuple[PathTree | None, str]:
    """Read the plugin's file, and check it against the instructions that were counted in another run of the same trial.

    Args:
        path: of the file.
        counts: of the other run.
        names_of: names functions.

    Returns:
        The tree of functions, or None with the reason.

    Raises:
        UserError: there is no file, or it is damaged.
    """
    found = read_output(path, MOST_BYTES, decode_paths)
    if found.lost:
        return None, f"{found.lost} instructions found no room in the plugin's table of call paths"
    facts = (
        ("executions of the mark", counts.begins, found.begins),
        ("passes", counts.windows, found.windows),
        ("instructions", counts.instructions - counts.lost, found.instructions),
    )
    for what, counted, followed in facts:
        if counted != followed:
            return None, f"the call paths have {followed} {what}, and {counted} were counted"
    before, after = _by_address(counts.blocks), found.by_address()
    if before != after:
        address = min(place for place in {*before, *after} if before.get(place) != after.get(place))
        return None, (
            f"the call paths have {after.get(address, 0)} executions of the instruction at {address:#x}, and "
            f"{before.get(address, 0)} were counted"
        )
    return tree_of(found, names_of), ""


def _by_address(blocks: Iterable[Block]) -> dict[int, int]:
    """Return how often the instruction at each address was completed."""
    found = collections.Counter[int]()
    for block in blocks:
        for address, count in zip(block.addresses, block.counts, strict=True):
            found[address] += count
    return {address: count for address, count in found.items() if count}
