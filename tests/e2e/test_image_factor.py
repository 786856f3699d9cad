# SPDX-License-Identifier: MIT OR Apache-2.0
"""`image=glibc,musl`: a program of the user in images of each C library; slow tests build the images and boot machines.

In `./test` the images have two programs, in `./test --exhaustive` all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.record import RecordView, load
from swapstone.core.session.sample_check import derive
from swapstone.parts.vm.artifacts import libc_files
from swapstone.parts.vm.artifacts.image_programs import PROGRAMS
from swapstone.parts.vm.artifacts.libc_files import libc_root
from tests.e2e.cli import runs_of, swapstone
from tests.programs import require
from tests.raw_outputs import raw_text
from tests.small_records import compared
from tests.uncompared_snapshots import leave_out_cold_starts

SHORT = """\
seq 1 200 | awk '{ s += $1 } END { print s }'
lua -e 's = 0 for i = 1, 100 do s = s + i * i end print(s)'
"""
SQL = """\
sqlite3 :memory: 'create table t(a); insert into t select value * value from generate_series(1, 100); select sum(a) from t;'
"""
PRINTED = "20100\n338350\n"
SMALL = ("busybox", "lua")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["image=glibc,dietlibc", "--", "sh", "-c", ":"], "no level named 'dietlibc'", "glibc, musl"),
        (["image=glibc,./x.tar", "--", "sh", "-c", ":"], "'./x.tar' is no level of the factor image", "rootfs="),
        (["image=glibc,musl"], "The factor image is for a program of yours", "image=glibc,musl -- /bin/sh"),
        (["image=glibc,musl", "rootfs=.,..", "--", "sh"], "image and rootfs both name the root", "Leave one"),
        (
            ["image=glibc,musl", "libc=glibc,musl", "--", "sh"],
            "The factor libc is unavailable with the factor image",
            "",
        ),
    ],
)
def test_an_input_error_prints_a_message_and_a_hint(
    tmp_path: Path, arguments: list[str], message: str, hint: str
) -> None:
    result = swapstone(tmp_path, "compare", *arguments, expect=2, XDG_CACHE_HOME=str(tmp_path / "cache"))
    text = " ".join(result.stderr.split())
    assert message in text and hint in text and result.stdout == ""


def test_a_host_without_a_compiler_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    asked = ("compare", "image=glibc,musl", "--target", "vm", "--arch", "arm64", "--", "sh", "-c", ":")
    result = swapstone(tmp_path, *asked, expect=2, XDG_CACHE_HOME=str(tmp_path / "cache"), PATH=str(tmp_path))
    assert "    gcc-aarch64-linux-gnu: " in result.stderr and "sudo apt-get install" in result.stderr
    assert not (tmp_path / "cache" / "swapstone" / "packages").exists()


def _require_images() -> None:
    """Build the images, or skip the test where a tool or a source is missing."""
    require("qemu-system-x86_64")
    for libc in ("glibc", "musl"):
        try:
            libc_root(libc, "x86_64", lambda _: None)
        except UserError as error:
            if "build of" in error.message or "refused" in error.message:
                raise
            pytest.skip(error.message)


needs_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the images of this test are of x86_64")


@pytest.mark.slow
@needs_x86_64
def test_a_script_is_compared_in_both_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exhaustive: bool) -> None:
    """In this process, where an image can have fewer programs."""
    monkeypatch.setattr(libc_files, "PROGRAMS", {name: PROGRAMS[name] for name in SMALL})
    monkeypatch.setattr(libc_files, "_roots", {})
    leave_out_cold_starts(monkeypatch.setattr)
    _require_images()
    monkeypatch.chdir(tmp_path)

    def compare(out: str, *command: str) -> None:
        compared(image="glibc,musl", target="vm", blocks=1, command=command, out=out)

    (tmp_path / "bench.sh").write_text(SHORT)
    compare("r", "sh", "bench.sh")
    _check(load(tmp_path / "r"), PRINTED, {"image", *SMALL})

    def refused(*command: str) -> str:
        with pytest.raises(UserError) as caught:
            compare("refused", *command)
        return f"{caught.value.message} {caught.value.hint}"

    _refuse_foreign_programs(tmp_path, refused, "busybox, lua, and")


@pytest.mark.slow
@pytest.mark.exhaustive
@needs_x86_64
def test_a_script_is_compared_in_both_images_with_all_programs(tmp_path: Path) -> None:
    _require_images()
    (tmp_path / "bench.sh").write_text(SHORT + SQL)
    asked = ("compare", "image=glibc,musl", "--target", "vm", "--blocks", "1")
    swapstone(tmp_path, *asked, "--out", "r", "--", "sh", "bench.sh")
    _check(load(tmp_path / "r"), f"{PRINTED}338350\n", {"image", *PROGRAMS})

    def refused(*command: str) -> str:
        return " ".join(swapstone(tmp_path, *asked, "--", *command, expect=2).stderr.split())

    _refuse_foreign_programs(tmp_path, refused, "lua, sqlite3, and")


def _check(view: RecordView, printed: str, sources: set[str]) -> None:
    """Check the observed levels, what was printed, what the images were made of, and that the samples are those of the outputs."""
    assert {run["trial"]["variant"]: run["observed"] for run in runs_of(view.path)} == {
        f"image={level}": [["image", level]] for level in ("glibc", "musl")
    }
    for run in runs_of(view.path):
        assert raw_text(view.path, run["output"]).startswith(f"--- stdout\n{printed}---")
    assert view.manifest is not None
    for artifact in view.manifest.artifacts:
        names = [name.split(" ")[0] for name, _ in artifact.sources]
        assert names[0] == "image" and sources <= set(names)
    found = derive(view)
    assert (found.whole, found.levels, found.problems) == (found.runs, (), ()) and found.runs == 2


def _refuse_foreign_programs(folder: Path, refused: Callable[..., str], programs: str) -> None:
    """A program that the images lack, and one that brings its own C library."""
    text = refused("python3", "bench.py")
    assert "image=glibc has no program python3 in /usr/bin:/bin" in text
    assert programs in text and "commands of busybox, such as awk" in text
    (folder / "p.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", "p", "p.c"], cwd=folder, check=True)
    assert "./p is of glibc, and the image is of musl" in refused("./p")
