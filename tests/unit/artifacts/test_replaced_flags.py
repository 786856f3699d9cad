# SPDX-License-Identifier: MIT OR Apache-2.0
"""A warning where flags on make's command line replace the project's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.parts.build.artifacts.replaced_flags import replaced_flags_warning

MAKEFILE = "CFLAGS = -Wall -O3 -std=c99 \\\n\t-Iinclude -DFOO=1 $(EXTRA) # -Dcomment\nall:\n\t@echo $(CFLAGS)\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "Makefile").write_text(MAKEFILE)
    return tmp_path


@pytest.mark.parametrize(
    "build", ["make CFLAGS={cflags}", 'cd src && make -j2 "CFLAGS={cflags}" all', "make CC={cc} CFLAGS='{cflags} -g'"]
)
def test_the_replaced_flags_and_the_remedy_are_named(source: Path, build: str) -> None:
    warning = replaced_flags_warning(build, source)
    assert warning.startswith("CFLAGS={cflags} on make's command line replaces the CFLAGS of src/Makefile")
    assert 'Keep them with CFLAGS="{cflags} -std=c99 -Iinclude -DFOO=1"' in warning and "CFLAGS += finds" in warning
    # make does replace them
    printed = subprocess.run(
        ["make", "-C", source / "src", "CFLAGS=-O1"], capture_output=True, text=True, check=True
    ).stdout
    assert "-DFOO=1" not in printed


@pytest.mark.parametrize(
    "build",
    [
        "make",
        "CFLAGS={cflags} ./configure",
        'make CFLAGS="{cflags} -std=c99 -Iinclude -DFOO=1"',
        "make CC={cc} LDFLAGS={ldflags}",
        "{cc} {cflags} -o prog prog.c",
    ],
)
def test_nothing_is_reported_where_nothing_is_lost(source: Path, build: str) -> None:
    assert replaced_flags_warning(build, source) == ""


def test_a_makefile_with_warnings_and_optimization_alone_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("CFLAGS ?= -O2 -Wall -g\n")
    assert replaced_flags_warning("make CFLAGS={cflags}", tmp_path) == ""
