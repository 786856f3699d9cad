# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is printed after an image of one C library was built."""

from __future__ import annotations

import pytest

from swapstone.artifacts.libc_image import LibcImageRequest
from swapstone.session.libc_images import _boot_command


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, ""),
        ({"compiler": "clang"}, " --compiler clang"),
        ({"kernel": "rt", "modules": ("zram", "lz4")}, " --kernel rt --modules zram,lz4"),
        ({"kernel": "./my image", "modules_folder": "./m"}, " --kernel './my image' --modules-folder ./m"),
    ],
)
def test_the_command_boots_the_image_that_was_built(changes: dict[str, object], options: str) -> None:
    request = LibcImageRequest(architecture="arm64", libc="musl", **changes)  # type: ignore[arg-type] # of several types
    assert _boot_command(request) == f"swapstone image boot --libc musl --arch arm64{options}"
