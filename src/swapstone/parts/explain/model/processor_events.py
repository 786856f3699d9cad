# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of what the processor's own counters count, per operation."""

from __future__ import annotations

from collections.abc import Mapping

HARDWARE = "hardware"
"""Their group."""

CYCLES, INSTRUCTIONS, SLOTS = "cycles", "instructions", "slots"

EVENTS: Mapping[str, str] = {
    "cycles": CYCLES,
    "instructions": INSTRUCTIONS,
    "branch-misses": "mispredicted branches",
    "L1-dcache-load-misses": "misses of the first-level data cache",
    "cache-misses": "misses of the last-level cache",
    "dTLB-load-misses": "misses of the TLB",
}
"""By perf's name: perf-list(1)."""

TOP_DOWN: Mapping[str, str] = {
    "slots": SLOTS,
    "topdown-retiring": "slots that retire",
    "topdown-bad-spec": "slots lost to bad speculation",
    "topdown-fe-bound": "slots lost at the front end",
    "topdown-be-bound": "slots lost at the back end",
}
"""Level 1 of the top-down method (Yasin, ISPASS 2014), by perf's name; a slot is an issue of one operation in one cycle."""

LOST: Mapping[str, str] = {
    "slots lost to bad speculation": "bad speculation: mispredicted branches",
    "slots lost at the front end": "the front end: fetching and decoding of code",
    "slots lost at the back end": "the back end: waits for memory or for execution units",
}
