# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placeholders in build commands: the shell gets the intended words, wherever they stand."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.artifacts.placeholders import fill, placeholders
from swapstone.core.model import UserError

VALUES = {"cc": "musl-gcc", "cflags": "-O2 -g0 '-DNAME=a b'", "ldflags": "", "jobs": "2"}


def shell(command: str) -> list[str]:
    """Return the words that a shell gives to printf, each in brackets."""
    result = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("CFLAGS={cflags}", ["CFLAGS=-O2 -g0 '-DNAME=a b'"]),
        ("'CFLAGS={cflags}'", ["CFLAGS=-O2 -g0 '-DNAME=a b'"]),
        ('"CFLAGS={cflags}"', ["CFLAGS=-O2 -g0 '-DNAME=a b'"]),
        ('"CFLAGS={cflags} -Wall"', ["CFLAGS=-O2 -g0 '-DNAME=a b' -Wall"]),
        ("{cc} {cflags} x.c", ["musl-gcc", "-O2", "-g0", "-DNAME=a b", "x.c"]),
        ("LDFLAGS={ldflags}", ["LDFLAGS="]),
        ("a {ldflags} b", ["a", "b"]),
        ("-j{jobs}", ["-j2"]),
        ('"$(printf %s {cflags})"', ["-O2-g0-DNAME=a b"]),
        ("\"$(printf %s 'x={cflags}')\"", ["x=-O2 -g0 '-DNAME=a b'"]),
        ('"`printf %s x={cflags}`"', ["x=-O2 -g0 '-DNAME=a b'"]),
        ("\\'{cc}\\'", ["'musl-gcc'"]),
        ("'it'\\''s {cc}'", ["it's musl-gcc"]),
        ('"\\"{cc}\\""', ['"musl-gcc"']),
        ("{{cc}} '{{cc}}'", ["{cc}", "{cc}"]),
        ('"${HOME:+home}" {}', ["home", "{}"]),
    ],
)
def test_what_the_shell_sees(command: str, words: list[str]) -> None:
    assert shell("printf '%s\\n' " + fill(command, VALUES)) == words


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12))
def test_any_value_survives_all_quotes(value: str) -> None:
    command = """printf '[%s]\\n' x={cc} "x={cc}" 'x={cc}' "$(printf %s "x={cc}")\""""
    assert shell(fill(command, {"cc": value})) == [f"[x={value}]"] * 4


def test_the_shells_own_variables_stay() -> None:
    assert fill("make V=${V} W=$W {cc}", VALUES) == "make V=${V} W=$W musl-gcc"
    assert placeholders("make V=${cc} W=${W} awk '{print $1}' find -exec {} ;") == frozenset()
    assert placeholders("make CC={cc} '{cflags}' {{other}}") == {"cc", "cflags"}


def test_the_error_for_an_unknown_placeholder_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"the unknown placeholder \{cxy\}") as caught:
        placeholders("make CXX={cxy}")
    assert all(f"{{{name}}}" in caught.value.hint for name in ("cc", "cflags", "ldflags", "jobs"))
    assert "{{cxy}}" in caught.value.hint


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12))
def test_a_users_text_survives_all_quotes(value: str) -> None:
    command = """printf '[%s]\\n' x={n} "x={n}" 'x={n}' "$(printf %s "x={n}")\""""
    assert shell(fill(command, {}, {"n": value})) == [f"[x={value}]"] * 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-O2 -flto", ["-O2", "-flto"]),
        ("'a b' c", ["a b", "c"]),
        ("$(echo x); echo y", ["$(echo", "x);", "echo", "y"]),
        ("it's", ["it's"]),
        ("* ~", ["*", "~"]),
    ],
)
def test_a_users_text_alone_gives_its_words_without_meaning_for_the_shell(text: str, words: list[str]) -> None:
    assert shell(fill("printf '%s\\n' {n}", {}, {"n": text})) == words


def test_a_users_placeholder_is_known_where_it_is_named() -> None:
    assert placeholders("make N={n}", ["n"]) == {"n"}
    with pytest.raises(UserError, match=r"unknown placeholder \{n\}"):
        placeholders("make N={n}", ["m"])
    assert fill("x {cc} {other}", {}, {"cc": "tcc"}) == "x tcc {other}"
