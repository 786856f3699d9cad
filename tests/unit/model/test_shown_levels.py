# SPDX-License-Identifier: MIT OR Apache-2.0
"""Levels as reports print them: short, and distinct."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.model import FactorLevels, shown_levels
from swapstone.core.plan import run_variants, variants
from tests.unit.builders import experiment

ONE, TWO = f"@sha256:{'1' * 64}", f"@sha256:{'2' * 64}"
ALPINE = "docker:docker.io/library/alpine"


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        (("glibc", "musl"), ("glibc", "musl")),
        (("/home/me/a.tar", "/home/me/b"), ("a.tar", "b")),
        (("/home/a/output/target", "/home/b/output/target"), ("a/output/target", "b/output/target")),
        (("/x/a", "/a"), ("x/a", "/a")),
        (("glibc", "/opt/glibc"), ("glibc", "opt/glibc")),
        (("glibc", "/opt/x/glibc"), ("glibc", "x/glibc")),
        (("/", "//"), ("/", "//")),
        (("/a:/b", "/a b"), ("/a:/b", "/a b")),
        (("http://a/b", "1/2"), ("http://a/b", "1/2")),
        ((f"{ALPINE}:3.20{ONE}", f"docker:docker.io/library/debian:12{TWO}"), ("alpine:3.20", "debian:12")),
        ((f"{ALPINE}{ONE}", f"{ALPINE}{TWO}"), (f"alpine@{'1' * 12}", f"alpine@{'2' * 12}")),
        (
            (f"docker:a.example/x:1{ONE}", f"docker:b.example/x:1{TWO}"),
            ("docker:a.example/x:1", "docker:b.example/x:1"),
        ),
        ((f"a{ONE}", f"b{TWO}"), ("a", "b")),
    ],
)
def test_shown_levels_are_short_and_distinct(levels: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert shown_levels(levels) == shown


def test_variants_have_the_levels_of_the_record_and_the_shown_ones() -> None:
    roots = FactorLevels(factor="rootfs", levels=("/home/a.tar", "/home/b.tar"))
    libc = FactorLevels(factor="libc", levels=("glibc", "musl"))
    assert roots.text == "rootfs=a.tar,b.tar"
    asked = msgspec.structs.replace(experiment(), factors=(libc, roots), null=True)
    for found in (variants(asked), run_variants(asked)):
        assert [each.label for each in found][:2] == [
            "libc=glibc,rootfs=/home/a.tar",
            "libc=glibc,rootfs=/home/a.tar (again)",
        ]
        assert [each.shown_label for each in found][:2] == [
            "libc=glibc,rootfs=a.tar",
            "libc=glibc,rootfs=a.tar (again)",
        ]
        assert [each.short_label for each in found][-1] == "musl, b.tar"
    plain = msgspec.structs.replace(experiment(), factors=(libc,))
    assert all(each.shown == () and each.shown_label == each.label for each in variants(plain))
