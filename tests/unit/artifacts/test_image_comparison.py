# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two images may differ in what was swapped, and in nothing else."""

from __future__ import annotations

import pytest

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts.image_assembly import ImageFile, compare_images


def file(content: str, part: str, mode: int = 0o100644) -> ImageFile:
    return ImageFile(sha256=content, mode=mode, part=part)


BASELINE = {
    "kernel": file("k1", "kernel"),
    "lib/modules/a.ko": file("a1", "kernel"),
    "lib/modules/old.ko": file("o1", "kernel"),
    "bin/busybox": file("b", "busybox-static", 0o100755),
    "init": file("i", "agent"),
}
CANDIDATE = {
    **{path: found for path, found in BASELINE.items() if path != "lib/modules/old.ko"},
    "kernel": file("k2", "kernel"),
    "lib/modules/a.ko": file("a2", "kernel"),
    "lib/modules/new.ko": file("n2", "kernel"),
}


def test_a_kernel_brings_its_modules() -> None:
    certificate = compare_images(BASELINE, CANDIDATE, ["kernel"])
    assert certificate.differing == (
        ("kernel", "kernel"),
        ("lib/modules/a.ko", "kernel"),
        ("lib/modules/new.ko", "kernel"),
        ("lib/modules/old.ko", "kernel"),
    )
    assert (certificate.same, certificate.parts) == (2, ("kernel",))


def test_the_summary_counts_the_differences() -> None:
    certificate = compare_images(BASELINE, CANDIDATE, ["kernel"], ("generic", "rt"))
    assert certificate.summary() == "generic and rt: 4 files differ, all of the kernel; 2 are the same"
    one = compare_images(BASELINE, BASELINE | {"kernel": file("k2", "kernel")}, ["kernel"], ("a", "b"))
    assert one.summary() == "a and b: 1 file differs, and is of the kernel; 4 are the same"
    assert compare_images(BASELINE, BASELINE, [], ("a", "b")).summary() == "a and b: no file differs; 5 are the same"


def test_equal_images_have_an_empty_list() -> None:
    certificate = compare_images(BASELINE, BASELINE, [])
    assert (certificate.differing, certificate.same) == ((), 5)


@pytest.mark.parametrize(
    ("path", "planted", "message"),
    [
        ("bin/busybox", file("B", "busybox-static", 0o100755), r"bin/busybox \(busybox-static: different content\)"),
        ("bin/busybox", file("b", "busybox-static"), r"bin/busybox \(busybox-static: mode 100755 and 100644\)"),
        (
            "bin/busybox",
            file("b", "kernel", 0o100755),
            r"bin/busybox \(busybox-static and kernel: from different parts\)",
        ),
        ("bin/extra", file("e", "console"), r"bin/extra \(console: only in the candidate\)"),
        ("init", None, r"init \(agent: only in the baseline\)"),
    ],
)
def test_a_planted_difference_refuses_the_comparison(path: str, planted: ImageFile | None, message: str) -> None:
    candidate = {name: found for name, found in CANDIDATE.items() if name != path}
    candidate |= {path: planted} if planted else {}
    with pytest.raises(UserError, match=f"differ in more than kernel: {message}") as caught:
        compare_images(BASELINE, candidate, ["kernel"])
    assert "same lock" in caught.value.hint


def test_without_swapped_parts_no_file_may_differ() -> None:
    with pytest.raises(UserError, match="differ in more than nothing: kernel"):
        compare_images(BASELINE, CANDIDATE, [])


def test_a_long_list_is_cut() -> None:
    many = {f"file{number:02}": file("x", "odd") for number in range(14)}
    with pytest.raises(UserError, match=r"file09 .* and 4 more"):
        compare_images(BASELINE, BASELINE | many, ["kernel"])
