# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the emulator's plugin writes in its mode `model` (native/plugin/model.c): events of a modelled processor."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.explain.instruments.call_paths import CallPaths
from swapstone.parts.explain.instruments.plugin_file import damaged, decode_numbers, read_output, require_end
from swapstone.parts.explain.model.instruction_counts import Caches, CacheSize, ProcessorEvents

HEADER = b"swapstone-model 1"
MOST_BYTES = 1 << 12
"""The plugin writes less: one short line for each name."""

_WINDOWS = ("begins", "windows", "open")
_CACHES = ("l1i_bytes", "l1i_ways", "l1d_bytes", "l1d_ways", "l2_bytes", "l2_ways", "line_bytes", "history_bits")

_MODELLED = {"x86_64": "x86_64", "aarch64": "arm64"}
"""Architectures whose instructions native/plugin/instruction.c decodes, with the names of `--arch`."""


def require_modelled(architecture: str) -> None:
    """Check that the plugin models machines of an architecture.

    Raises:
        UnavailableError: it does not.
    """
    if architecture not in _MODELLED:
        raise UnavailableError(
            f"Modelled cycles are unavailable on {architecture}: branches and divides are decoded on "
            f"{' and '.join(_MODELLED.values())} only.",
            "Leave --modelled-cycles out.",
        )


@dataclasses.dataclass(frozen=True)
class ModelCounts:
    """The events in the observed windows.

    Attributes:
        begins: how often the instruction was executed that may begin a window.
        windows: complete windows.
        lost: instructions that were executed and not modelled, because there were too many blocks.
        caches: what was modelled.
        events: of the windows.
    """

    begins: int
    windows: int
    lost: int
    caches: Caches
    events: ProcessorEvents


def decode_model(data: bytes) -> ModelCounts:
    """Decode the plugin's file.

    Raises:
        UserError: it is damaged; the text names where.
    """
    events = tuple(field.name for field in msgspec.structs.fields(ProcessorEvents))
    names = (*_WINDOWS, *_CACHES, events[0], "lost", *events[1:])
    found, at = decode_numbers(data, HEADER, names, most_bytes=MOST_BYTES, bits=63, more=False)
    require_end(data, at, "the numbers")
    decoded = ProcessorEvents(**{name: found[name] for name in events})
    if problem := decoded.problem():
        raise damaged(problem)
    caches = Caches(
        l1i=CacheSize(bytes=found["l1i_bytes"], ways=found["l1i_ways"]),
        l1d=CacheSize(bytes=found["l1d_bytes"], ways=found["l1d_ways"]),
        l2=CacheSize(bytes=found["l2_bytes"], ways=found["l2_ways"]),
        line_bytes=found["line_bytes"],
        history_bits=found["history_bits"],
    )
    return ModelCounts(found["begins"], found["windows"], found["lost"], caches, decoded)


def read_model(path: Path, counts: CallPaths) -> ModelCounts:
    """Read the plugin's file, and check it against the instructions that were counted in another run of the same trial.

    Raises:
        UserError: there is none, it is damaged, or it is of another run; the text has the first difference.
    """
    found = read_output(path, MOST_BYTES, decode_model)
    facts = (
        ("executions of the mark", counts.begins, found.begins),
        ("passes", counts.windows, found.windows),
        ("instructions", counts.instructions, found.events.instructions + found.lost),
    )
    for what, counted, modelled in facts:
        if counted != modelled:
            raise UserError(f"The model is of another run: it has {modelled} {what}, and {counted} were counted.")
    if found.lost:
        raise UserError(f"The model has no room for {found.lost} instructions: the program executes too much code.")
    return found
