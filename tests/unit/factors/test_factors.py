# SPDX-License-Identifier: MIT OR Apache-2.0
"""The registry of factors, the parsing of levels, and the factor libc."""

from __future__ import annotations

import re

import pytest

from swapstone.core.factors import Evidence, Factor, Recipe, all_factors, find_factor, parse_choice
from swapstone.core.factors.factor import OPTIONAL, require_known_attributes
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.libc import LIBC

GLIBC = ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
MUSL = ("/usr/lib/x86_64-linux-musl/libc.so",)


@pytest.mark.parametrize(
    ("interp", "objects", "seen"),
    [
        ("/lib64/ld-linux-x86-64.so.2", GLIBC, "glibc"),
        ("/lib/ld-linux-aarch64.so.1", ("/lib/aarch64-linux-gnu/libc-2.31.so",), "glibc"),
        ("/lib/ld-linux-armhf.so.3", (), "glibc"),
        ("/lib/ld64.so.2", (), "glibc"),
        ("/lib/ld-musl-x86_64.so.1", MUSL, "musl"),
        ("/lib/ld-musl-armhf.so.1", ("/lib/libc.musl-armhf.so.1",), "musl"),
        ("/lib/ld-musl-x86_64.so.1", GLIBC, "glibc+musl"),
        ("/lib64/ld-linux-x86-64.so.2", ("/opt/ld-musl-x86_64.so.1",), "glibc+musl"),
        (None, (), None),
        (None, ("/usr/bin/prog", "/usr/lib/libm.so.6", "/usr/lib/libcxx.so.1"), None),
        ("/lib/ld-uClibc.so.0", ("/lib/libuClibc-1.0.so",), "uclibc"),
        ("/lib64/ld-linux-x86-64.so.2", ("/tmp/libc.so.6 (deleted)",), "glibc"),
    ],
)
def test_the_c_library_is_identified_by_loader_and_objects(
    interp: str | None, objects: tuple[str, ...], seen: str | None
) -> None:
    assert LIBC.observe(Evidence(interp=interp, objects=objects)) == seen


def test_objects_mapped_by_the_measured_child_count() -> None:
    assert LIBC.observe(Evidence(interp="/lib64/ld-linux-x86-64.so.2", objects=GLIBC, mapped=MUSL)) == "glibc+musl"


def test_applying_a_level_changes_the_c_library_only() -> None:
    base = Recipe(environment=(("A", "b"),), nice=3, pieces=(Build(cflags=("-O2",)),))
    assert LIBC.apply("musl", base) == base.changed(Build, libc="musl")


def test_every_factor_is_complete() -> None:
    for factor in all_factors():
        rows = (
            *factor.levels,
            *getattr(factor, "forms", ()),
        )  # of `list levels`; the levels of rootfs are files of the user
        assert factor.description and len(rows) >= 2
        assert find_factor(factor.name) is factor
        for level in factor.levels:
            assert level.description
            factor.apply(level.name, Recipe())


def test_the_contract_lists_the_optional_attributes_and_refuses_others() -> None:
    assert set(re.findall(r"- ``(\w+)``", Factor.__doc__ or "")) == OPTIONAL
    misspelled = type("Misspelled", (type(LIBC),), {"is_roots": True})()
    with pytest.raises(UserError, match="no attribute of the factor libc named 'is_roots'") as caught:
        require_known_attributes(misspelled)
    assert "Did you mean 'is_root'" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("libc", "is not FACTOR=BASELINE,CANDIDATE", "swapstone compare libc=glibc,musl"),
        ("lib=glibc,musl", "no factor named 'lib'", "'libc'"),
        ("libc=glibc,mus", "no level named 'mus'", "'musl'"),
        ("libc=glibc", "has only one level", "libc=glibc,musl"),
        ("libc=glibc,glibc", "names 'glibc' twice", "--null"),
        ("libc=glibc,", "no level named ''", "glibc"),
        ("=", "no factor named ''", "libc"),
    ],
)
def test_an_invalid_choice_is_an_error_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_choice(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_choice_is_parsed() -> None:
    choice = parse_choice("libc=musl, glibc")
    assert (choice.factor, choice.levels) == ("libc", ("musl", "glibc"))


@pytest.mark.parametrize("text", ["libc=glibc,/a\0b", "allocator=default,/a\0.so", "kernel=generic,./a\0b"])
def test_a_level_with_a_zero_byte_is_refused(text: str) -> None:
    """A command line has none, a study's file can."""
    with pytest.raises(UserError, match="it has a zero byte"):
        parse_choice(text)
