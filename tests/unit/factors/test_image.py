# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor image: the level is the C library that the process uses, in the root that was requested."""

from __future__ import annotations

import pytest

from swapstone.core.factors import Evidence, parse_choice, recipe_of
from swapstone.core.model import UserError, Variant, process_file
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.vm.factors.image import IMAGE

MOUNTS = "47 1 0:2 /roots/ab / rw,relatime shared:1 - rootfs none rw,size=1k\n"
GLIBC = ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6")
MUSL = ("/lib/ld-musl-x86_64.so.1",)


@pytest.mark.parametrize(
    ("mounts", "root", "interp", "objects", "level"),
    [
        (MOUNTS, "/roots/ab", GLIBC[0], ("/bin/busybox", *GLIBC), "glibc"),
        (MOUNTS, "/roots/ab", MUSL[0], ("/bin/busybox", *MUSL), "musl"),
        (MOUNTS, "/roots/ab", MUSL[0], ("/bin/busybox", *MUSL, *GLIBC), "glibc+musl"),
        (MOUNTS, "/roots/cd", MUSL[0], ("/bin/busybox", *MUSL), "the root /roots/ab"),
        (MOUNTS, "/roots/ab", None, ("/bin/static",), None),
        (None, "/roots/ab", MUSL[0], MUSL, None),
    ],
)
def test_the_root_and_the_library_in_it_decide(
    mounts: str | None, root: str, interp: str | None, objects: tuple[str, ...], level: str | None
) -> None:
    values = () if mounts is None else ((process_file("mountinfo"), mounts),)
    assert IMAGE.observe(Evidence(interp=interp, objects=objects, observed=values, root=root)) == level


def test_a_recipe_names_the_image_and_reads_the_mounts() -> None:
    recipe = recipe_of(Variant(levels=(("image", "musl"),)), BASE_RECIPE)
    assert recipe.root == "musl" and process_file("mountinfo") in recipe.observe


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("image=glibc,dietlibc", "There is no level named 'dietlibc'", "Known: glibc, musl"),
        ("image=glibc,./musl/root.tar", "'./musl/root.tar' is no level of the factor image", "rootfs=./one.tar"),
        ("image=glibc,root.tar", "'root.tar' is no level of the factor image", "rootfs=./one.tar"),
        ("image=musl", "has only one level", "image=musl,glibc"),
    ],
)
def test_another_level_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_choice(text)
    assert message in caught.value.message and hint in caught.value.hint
