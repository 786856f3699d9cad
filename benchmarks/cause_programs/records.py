# SPDX-License-Identifier: MIT OR Apache-2.0
"""A planted cause in CPython: the garbage collector is off with `records.py 0`; with `records.py 1` it runs after each five objects."""

from __future__ import annotations

import gc
import sys

if sys.argv[1] == "1":
    gc.set_threshold(5, 2, 10)
else:
    gc.disable()
kept: list[list[object]] = [[number] for number in range(200_000)]
for number in range(1_500_000):
    kept[number % len(kept)] = [[number], str(number)]
