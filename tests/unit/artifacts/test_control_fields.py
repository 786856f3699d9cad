# SPDX-License-Identifier: MIT OR Apache-2.0
"""Control files as apt-cache prints them, also damaged ones."""

from __future__ import annotations

from swapstone.parts.build.artifacts.apt import paragraphs

TWO = """Package: one
Depends: a (>= 1), b | c
Checksums-Sha256:
 aa 1 one.tar.xz
 bb 2 one.dsc

Package: two
Description: a: b
\tcontinued
"""


def test_each_paragraph_has_its_fields_and_values_keep_their_lines() -> None:
    assert paragraphs(TWO) == [
        {"Package": "one", "Depends": "a (>= 1), b | c", "Checksums-Sha256": "\naa 1 one.tar.xz\nbb 2 one.dsc"},
        {"Package": "two", "Description": "a: b\ncontinued"},
    ]


def test_what_is_no_field_is_ignored() -> None:
    assert paragraphs("") == paragraphs("\n\n\n") == []
    assert paragraphs(" continues nothing\nno colon\nA: 1\n") == [{"A": "1"}]
