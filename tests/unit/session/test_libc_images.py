# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images of one C library and SDKs: what is refused, and what is printed after a build."""

from __future__ import annotations

import pytest

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts.libc_files import LibcImageRequest
from swapstone.parts.vm.session.image_store import boot_command, libc_request, make_sdk


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
    assert boot_command(request) == f"swapstone image boot --libc musl --arch arm64{options}"


def test_an_empty_path_is_not_taken_for_none() -> None:
    """As of --out "$FOLDER" without such a variable: minutes later, the image was nowhere."""
    wanted = {"arch": "x86_64", "kernel": "", "modules_folder": "", "modules": "", "compiler": ""}
    with pytest.raises(UserError, match="The path of the folder for the image is empty"):
        libc_request(**wanted, libc="musl", out="")
    with pytest.raises(UserError, match="--out is for images of one C library"):
        libc_request(**wanted, libc="", out="")
    assert libc_request(**wanted, libc="") is None


def test_a_folder_that_no_command_can_name_gets_no_sdk() -> None:
    with pytest.raises(UserError, match="has a control character"):
        make_sdk("x86_64", "musl", "a\nb", lambda _: None)
