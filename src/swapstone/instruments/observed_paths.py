# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read the call paths of a trial that ran again under the emulator's plugin, and check them against the counted instructions."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

from swapstone.instruments.block_counts import Block, BlockCounts
from swapstone.instruments.call_paths import MOST_BYTES, decode_paths
from swapstone.instruments.function_names import NamesOf
from swapstone.instruments.kernel_symbols import KernelSymbols
from swapstone.instruments.path_tree import tree_of
from swapstone.model import UserError
from swapstone.model.instruction_paths import PathTree
from swapstone.record import FileProblemError, read_regular

MODE = "paths"

_FOLLOWED = "x86_64"
_NEW_PROGRAM = "begin_new_exec"
"""The function of the kernel (fs/exec.c, since Linux 5.8) that removes the program that a thread had before."""


def unfollowed(architecture: str) -> str:
    """Return why calls can't be followed on an architecture; empty if they can."""
    if architecture == _FOLLOWED:
        return ""
    return (
        f"calls are followed by the return addresses that they store, and on {architecture} a call stores none. "
        "Functions may store it later, but those that call nothing never do"
    )


def path_words(kernel: KernelSymbols) -> tuple[str, ...]:
    """Return the plugin's arguments for its mode `paths`, beside the window."""
    address = kernel.address(_NEW_PROGRAM)
    return () if address is None else (f"exec={address:#x}",)


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
    try:
        found = decode_paths(read_regular(path, MOST_BYTES))
    except (OSError, FileProblemError) as error:
        raise UserError(f"The emulator's plugin wrote no call paths: {error}.") from error
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
        address = block.address
        for size, count in zip(block.sizes, block.counts, strict=True):
            found[address] += count
            address += size
    return {address: count for address, count in found.items() if count}
