# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remedies: to which findings they belong, what they change, and that a program without the preloaded object is not measured."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from swapstone.instruments import remedies
from swapstone.instruments.acquisition import ReferenceRun, RowVariant
from swapstone.instruments.remedies import REMEDIES, Change, Gap, Remedy, change_of, remedies_for, try_remedies
from swapstone.instruments.tracee import Region, Tracee
from swapstone.model import Explanation, Finding, RowKey
from swapstone.wire import TrialRequest

PLACE = RowKey(suite="", workload="w", load="idle", metric="wall", baseline="a", candidate="b")
REQUEST = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=1, environment=(("LD_PRELOAD", "/a.so"),))
BY_NAME = {remedy.name: remedy for remedy in REMEDIES}
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def named(cause: str, sentence: str, *evidence: str) -> list[str]:
    finding = Finding(cause=cause, share=1.0, sentence=sentence, evidence=evidence)
    explanation = Explanation(place=PLACE, counts=(), ledger=None, findings=(finding,), paragraph="", caveats=())
    return [remedy.name for remedy in remedies_for(explanation)]


def test_remedies_belong_to_what_is_named() -> None:
    assert named("waiting", "it waits longer (in read)") == ["TCP_NODELAY"]
    assert named("waiting", "it waits longer (in futex)") == ["one processor"]
    assert named("waiting", "it waits longer (in clock_nanosleep)") == []
    assert named("system calls", "more", "system calls write: 3 ms") == ["larger buffers"]
    assert named("system calls", "more (getppid)") == []
    assert named("page faults", "more") == ["kept memory", "huge pages"]
    assert named("own code", "its code: it executes as many; possible: false sharing") == ["one processor"]
    assert named("own code", "its code: it executes more instructions") == []
    assert named("copies and strings", "more (strlen)") == []


def test_a_change_keeps_what_the_request_has(tmp_path: Path) -> None:
    change, path = change_of(BY_NAME["kept memory"], tmp_path)
    changed = dict(change(REQUEST).environment)
    assert path == "" and changed["LD_PRELOAD"] == "/a.so" and changed["MALLOC_TRIM_THRESHOLD_"] == str(1 << 30)
    pinned = change_of(BY_NAME["one processor"], tmp_path)[0](REQUEST)
    assert pinned.cpus == (max(os.sched_getaffinity(0)),) and pinned.environment == REQUEST.environment


@needs_cc
@pytest.mark.parametrize("remedy", [remedy for remedy in REMEDIES if remedy.preload], ids=lambda one: one.name)
def test_preloaded_objects_compile_and_come_after_those_of_the_request(tmp_path: Path, remedy: Remedy) -> None:
    change, path = change_of(remedy, tmp_path)
    assert Path(path).is_file()
    assert dict(change(REQUEST).environment)["LD_PRELOAD"] == f"/a.so:{path}"


@needs_cc
def test_streams_have_larger_buffers_with_the_preloaded_object(tmp_path: Path) -> None:
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        '#include <stdio.h>\n#include <unistd.h>\nint main(void) { setvbuf(stdout, 0, _IONBF, 0); fputs("late ", stdout);'
        ' write(1, "early ", 6); return 0; }\n'
    )
    subprocess.run(["cc", "-o", program, source], check=True)
    _, path = change_of(BY_NAME["larger buffers"], tmp_path)
    for variables, expected in (({}, b"late early "), ({"LD_PRELOAD": path}, b"early late ")):
        result = subprocess.run([program], env=variables, capture_output=True, check=True)
        assert result.stdout == expected


def variant(time_ns: float, remedied_ns: float, objects: tuple[str, ...] = ()) -> RowVariant:
    def changed(_: int, change: Change) -> ReferenceRun:
        assert change(REQUEST) != REQUEST
        return ReferenceRun({"wall": remedied_ns}, objects)

    tracee = Tracee("v", REQUEST, Region.PROGRAM)
    return RowVariant(tracee, lambda _: ReferenceRun({"wall": time_ns}, objects), time_ns, time_ns, "", (), changed)


def test_rounds_have_both_variants_and_the_slower_one_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "BUDGET_S", 0.0)
    lines: list[str] = []
    glibc = ("/lib/libc.so.6",)
    gap = Gap(slow=variant(3.0, 1.5, glibc), fast=variant(1.0, 9.0, glibc), metric="wall")
    (found,) = try_remedies((BY_NAME["kept memory"],), gap, tmp_path, lines.append)
    assert (found.faster, found.slower, found.remedied) == ((1.0,) * 8, (3.0,) * 8, (1.5,) * 8)
    assert lines == ["trying a remedy, in turns with both variants without it: kept memory"]


@needs_cc
def test_a_program_that_does_not_load_the_object_is_not_measured(tmp_path: Path) -> None:
    gap = Gap(slow=variant(3.0, 1.5), fast=variant(1.0, 9.0), metric="wall")
    (found,) = try_remedies((BY_NAME["TCP_NODELAY"],), gap, tmp_path, lambda _: None)
    assert found.remedied == () and "did not load the preloaded object" in found.problem
    loaded = variant(3.0, 1.5, (str(tmp_path / "TCP_NODELAY.so"),))
    (found,) = try_remedies((BY_NAME["TCP_NODELAY"],), dataclasses.replace(gap, slow=loaded), tmp_path, lambda _: None)
    assert found.problem == "" and set(found.remedied) == {1.5}


def test_a_remedy_of_glibc_is_not_measured_without_glibc(tmp_path: Path) -> None:
    gap = Gap(slow=variant(3.0, 1.5, ("/lib/ld-musl-x86_64.so.1",)), fast=variant(1.0, 9.0), metric="wall")
    (found,) = try_remedies((BY_NAME["huge pages"],), gap, tmp_path, lambda _: None)
    assert found.remedied == () and found.problem == "the slower variant has no shared glibc, which alone heeds it"
