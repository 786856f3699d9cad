# SPDX-License-Identifier: MIT OR Apache-2.0
"""What programs print that report named figures."""

from __future__ import annotations

import zlib

from swapstone.core.workloads.named_figures import NamedFigures


def encode_named_figures(printed: NamedFigures) -> bytes:
    """Return the output of a program that prints these figures, with up to nine decimals."""
    lines = ["swapstone-figures 1", f"name {printed.name}"]
    lines += [f"seen {name} {text}" for name, text in printed.seen]
    lines += [f"figure {name} {'-' if value is None else _written(value)}" for name, value in printed.figures]
    lines += [
        f"series {name} {len(values)}" + "".join(f" {_written(v)}" for v in values) for name, values in printed.series
    ]
    text = "".join(f"{line}\n" for line in lines) + f"end {len(lines)}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.9f}".rstrip("0")
