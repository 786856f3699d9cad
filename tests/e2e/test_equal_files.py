# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of equal bytes, and files that lie in the page cache otherwise than those of the other side."""

from __future__ import annotations

import contextlib
import mmap
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import DIRECTION_RULES, CaveatKind, Comparison, Verdict
from swapstone.core.record import Manifest, RecordView, load
from swapstone.core.session.analysis import analyse_record
from tests.e2e.cli import swapstone

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    size_t bytes = strstr(words[0], "new") ? MORE : 4096;
    memset(malloc(bytes), 1, bytes);
    puts("done");
}
"""
"""Its path decides how much memory it takes: a difference that no record can explain."""

FEW, MANY = 64 << 10, 32 << 20


def link(folder: Path, more: int, *names: str) -> None:
    """Link the program in folders, equal in all of them."""
    (folder / "prog.c").write_text(SOURCE)
    built = folder / "built"
    subprocess.run(["cc", "-static", "-s", f"-DMORE={more}", "-o", built, folder / "prog.c"], check=True)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(built, folder / name)


def compared(folder: Path, *words: str) -> RecordView:
    swapstone(folder, "compare", *words, "--blocks", "12", "--out", str(folder / "r"), expect=0)
    return load(folder / "r")


def manifest_of(view: RecordView) -> Manifest:
    assert view.manifest is not None
    return view.manifest


def memory(view: RecordView, *, mark_equal: bool = False) -> Comparison:
    rows = analyse_record(view, mark_equal=mark_equal).comparisons
    return next(row for row in rows if row.metric.name == "maxrss" and row.candidate.copy.value == "first")


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Map all pages of a file, so that the kernel keeps them."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        assert len(pages[:: mmap.PAGESIZE]) > 1
        yield


def test_the_null_runs_a_copy_of_the_file(tmp_path: Path) -> None:
    link(tmp_path, FEW, "old/prog", "new/prog")
    view = compared(tmp_path, "./old/prog", "./new/prog", "--null")
    files = {each.variant: each for each in manifest_of(view).mapped}
    first, again, other = (files[f"command={name}"] for name in ("old", "old (again)", "new"))
    assert (first.path, other.path) == tuple(str(tmp_path / name / "prog") for name in ("old", "new"))
    assert again.path not in {first.path, other.path} and again.path.endswith("/prog")
    assert first.sha256 == again.sha256 == other.sha256
    started = {each.variant: each.path for each in manifest_of(view).artifacts}
    assert started == {name: each.path for name, each in files.items()}
    assert all(run.status.value == "ok" for run in view.runs)


def test_anonymous_memory_is_shown_apart_from_that_of_files(tmp_path: Path) -> None:
    link(tmp_path, MANY, "old/prog", "new/prog")
    view = compared(tmp_path, "./old/prog", "./new/prog")
    new, old = sorted(manifest_of(view).resident, key=lambda each: each.variant)
    assert (old.variant, new.variant) == ("command=old", "command=new")
    assert new.anonymous - old.anonymous >= MANY - (64 << 10)
    assert old.files > 0 and new.files > 0
    text = " ".join(swapstone(tmp_path, "show", "r").stdout.split())
    assert (
        "Memory at the end of prog, anonymous and of files, in a run that is not measured: "
        f"{old.anonymous >> 10} KiB and {old.files >> 10} KiB (command=old), {new.anonymous >> 10} KiB and" in text
    )


def test_equal_sides_have_no_mark_unless_its_rate_is_measured(tmp_path: Path) -> None:
    link(tmp_path, MANY, "old/prog", "new/prog")
    view = compared(tmp_path, "./old/prog", "./new/prog")
    assert memory(view, mark_equal=True).verdict is Verdict.WORSE
    row = memory(view)
    assert row.verdict is Verdict.INCONCLUSIVE and row.effect is not None and row.effect > 2
    assert row.reason.startswith("not judged: both sides are the same file")
    experiment = msgspec.structs.replace(view.experiment, rules=DIRECTION_RULES - 1)
    assert (
        memory(msgspec.structs.replace(view, experiment=experiment)).verdict is Verdict.WORSE
    )  # the rules of earlier records


@pytest.mark.parametrize("case", ["beside", "arguments", "environment", "content", "silent name"])
def test_sides_that_may_differ_keep_their_marks(tmp_path: Path, case: str) -> None:
    link(tmp_path, MANY, "old/prog", "new/prog")
    words = ["./old/prog", "./new/prog"]
    if case == "beside":
        (tmp_path / "new" / "settings").touch()
    elif case == "arguments":
        words[1] += " more"
    elif case == "environment":
        words[1] = f"SOME=1 {words[1]}"
    elif case == "content":
        with (tmp_path / "new" / "prog").open("ab") as file:
            file.write(b"more")
    else:  # a program may do other work under another name, which an output would show
        shutil.move(tmp_path / "new" / "prog", tmp_path / "old" / "prog-new")
        words = ["./old/prog", "./old/prog-new", "--output", "null"]
    assert memory(compared(tmp_path, *words)).verdict is Verdict.WORSE


def test_equal_output_shows_that_another_name_is_the_same_work(tmp_path: Path) -> None:
    link(tmp_path, MANY, "old/prog", "old/prog-new")
    assert memory(compared(tmp_path, "./old/prog", "./old/prog-new")).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("more", "verdict"), [(FEW, Verdict.INCONCLUSIVE), (MANY, Verdict.WORSE)])
def test_memory_is_not_judged_by_files_whose_pages_stay(tmp_path: Path, more: int, verdict: Verdict) -> None:
    """The pages of a file can explain a difference that is not larger than the file."""
    link(tmp_path, more, "old/prog", "new/prog")
    with (tmp_path / "new" / "prog").open("ab") as file:
        file.write(bytes(100))
    with mapped(tmp_path / "new" / "prog"):
        view = compared(tmp_path, "./old/prog", "./new/prog")
    assert any(each.kept and each.path == str(tmp_path / "new" / "prog") for each in manifest_of(view).mapped)
    row = memory(view)
    assert row.verdict is verdict
    for path, of_library in (
        ("/lib/prog", verdict),
        ("/lib/libother.so", Verdict.WORSE),
    ):  # without a counterpart it is the effect
        files = [
            msgspec.structs.replace(each, path=path, sha256="0" * 64) if each.kept else each
            for each in manifest_of(view).mapped
        ]
        manifest = msgspec.structs.replace(manifest_of(view), mapped=tuple(files))
        assert memory(msgspec.structs.replace(view, manifest=manifest)).verdict is of_library
    caveats = [each for each in analyse_record(view).caveats if each.kind is CaveatKind.PAGE_CACHE]
    assert len(caveats) == (verdict is Verdict.INCONCLUSIVE)
    if caveats:
        assert "so much of a file that only one side maps" in row.reason
        assert "/new/prog (mincore reports " in caveats[0].message
        assert "do not lie in the page cache alike" in " ".join(
            swapstone(tmp_path, "show", "r", "--all").stdout.split()
        )
