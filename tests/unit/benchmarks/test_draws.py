# SPDX-License-Identifier: MIT OR Apache-2.0
"""Replicates with and without an unused file: the test of their means, the changed image, and what is printed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.draws import Draw, describe, permutation_p, with_file

from swapstone.model.cpio import archive, file, unpack
from swapstone.targets.vm.boot_image import VmImage
from swapstone.targets.vm.spec import VmImages


def test_equal_samples_are_not_told_apart_and_separate_ones_are() -> None:
    assert permutation_p([5, 5, 6, 5], [5, 6, 5, 5]) == 1.0
    low, high = [5.0] * 20, [9.0] * 20
    assert permutation_p(low, high) < 0.001
    assert permutation_p([1.0, 2.0], [3.0, 4.0]) == pytest.approx(1 / 3, abs=0.02)  # 2 of 6 groupings


@pytest.mark.slow
def test_samples_of_one_distribution_have_small_p_values_as_often_as_they_should() -> None:
    source = random.Random(5)
    values = [
        permutation_p([source.random() for _ in range(8)], [source.random() for _ in range(8)]) for _ in range(40)
    ]
    assert sum(value < 0.2 for value in values) in range(2, 18)
    assert max(values) > 0.7


def test_an_unused_file_is_appended_and_the_rest_stays(tmp_path: Path) -> None:
    initrd = tmp_path / "initrd"
    initrd.write_bytes(archive({"bin/a": file(b"a")}))
    images = VmImages({"generic": VmImage(tmp_path / "kernel", initrd)})
    assert with_file(images, 0, tmp_path) is images
    changed = unpack(with_file(images, 1000, tmp_path).images["generic"].initrd.read_bytes())
    assert changed is not None
    assert changed["bin/a"].content == b"a"
    assert len(changed["unused/file"].content) == 1000


def test_a_line_has_maxima_and_the_comparison() -> None:
    base = [Draw(5, 3.0), Draw(5, 3.1), Draw(9, 3.0)]
    alone = describe("unchanged", base, base)
    assert "mean     6.33  largest     9  average 3.000 to 3.100" in alone
    assert "maxima 5:2 9:1" in alone and " p " not in alone
    other = describe("1 MB unused", [Draw(5, 3.0), Draw(7, 3.1), Draw(9, 3.0)], base)
    assert other.splitlines()[0].endswith("2 replicates equal")
