# SPDX-License-Identifier: MIT OR Apache-2.0
"""The topic of root file systems: its sentence and its computed times, of a synthetic record."""

from __future__ import annotations

import re

import msgspec
from tests.golden import noisy

from swapstone.core.report.variant_values import sides
from swapstone.parts.fs.fs_report import FILE_SYSTEMS, answer, sections


def test_the_sentence_names_the_fastest_for_each_device() -> None:
    context, analysis = noisy.record("fs", "fs")
    found = answer(context, analysis)
    assert found is not None and found.suites == ("fs",)
    (claim,) = found.claims
    medians = {(side.workload, side.metric.name, side.variant.short_label): side.median for side in sides(analysis)}
    names = list(dict.fromkeys(name for *_, name in medians))
    first = min(names, key=lambda name: medians["boot", "to_init", name])
    smallest = min(names, key=lambda name: medians["boot", "image_bytes", name])
    assert claim.text.startswith(f"{first} gets to init first, in ")
    assert f"; {smallest} has the smallest image, " in claim.text

    def time_ns(name: str, rate: float) -> float:
        return medians["cold-read", "busy", name] + medians["cold-read", "device_bytes", name] / (rate * 1e6) * 1e9

    for rate in (5.0, 20.0, 80.0, 320.0):
        fastest = min(names, key=lambda name: time_ns(name, rate))
        assert re.search(rf"{fastest} at (?:[\d, and]+ )?{rate:g}\b", claim.text), (rate, claim.text)
    _, devices = sections(context, analysis)
    for row in devices.data:
        shown = row["computed_20_mb_s_ns"]
        assert isinstance(shown, float)
        assert abs(shown / time_ns(str(row["variant"]).partition("=")[2], 20.0) - 1) < 1e-9


def test_columns_without_a_value_are_left_out() -> None:
    context, analysis = noisy.record("fs", "fs")
    boot = [row for row in analysis.comparisons if row.workload == "boot"]
    alone = msgspec.structs.replace(analysis, comparisons=tuple(boot))
    costs, _ = sections(context, alone)
    assert {"image_bytes", "to_init_ns"} <= costs.data[0].keys()
    assert "warm_read_ns" not in costs.data[0] and "memory_bytes" not in costs.data[0]
    found = answer(context, alone)
    assert found is not None and "MB/s" not in found.claims[0].text


def test_an_analysis_of_other_suites_has_neither() -> None:
    context, analysis = noisy.record("swap", "swap")
    assert sections(context, analysis) == () and answer(context, analysis) is None
    assert FILE_SYSTEMS.name == "fs"
