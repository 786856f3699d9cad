# SPDX-License-Identifier: MIT OR Apache-2.0
"""The counters that the emulator of a link prints."""

from __future__ import annotations

import re

_COUNTERS = re.compile(r"[a-z_]+:[0-9]{1,18}(?:,[a-z_]+:[0-9]{1,18})*")


def counters(text: str) -> dict[str, int]:
    """Return the counters of an observation such as ``frames:12,lost:1``; none of another text."""
    if _COUNTERS.fullmatch(text) is None:
        return {}
    return {name: int(count) for name, _, count in (word.partition(":") for word in text.split(","))}
