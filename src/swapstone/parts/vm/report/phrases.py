# SPDX-License-Identifier: MIT OR Apache-2.0
"""The words of sentences about swapping, wake-ups and root file systems."""

from __future__ import annotations

from swapstone.core.report.answer.means import Phrase

PHRASES = {
    "out_steady": Phrase("rate of swapping out", "swaps out at", "swapped", "rate"),
    "touch_time": Phrase("time of a touch", lasts=" for a touch of a swapped page"),
    "max": Phrase("longest latency"),
    "root_size": Phrase("root size"),
    "root_gzip": Phrase("root, compressed"),
    "root_files": Phrase("files of the root", counted=True),
}
