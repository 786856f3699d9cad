# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remedies: to which findings they belong, what they change, and that a program without the preloaded object is not measured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import remedies
from swapstone.parts.explain.instruments.acquisition import Change, ReferenceRun, RowVariant
from swapstone.parts.explain.instruments.remedies import REMEDIES, Remedy, change_of, remedies_for, try_remedies
from swapstone.parts.explain.instruments.traced_run import Region, Tracee
from tests.programs import needs

REQUEST = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=1, environment=(("LD_PRELOAD", "/a.so"),))
BY_NAME = {remedy.name: remedy for remedy in REMEDIES}
needs_cc = needs("cc")


def names(*named: str) -> list[str]:
    return [remedy.name for remedy in remedies_for(named)]


def test_remedies_belong_to_functions_and_to_sentences_about_counts() -> None:
    assert names("read (system call)") == ["TCP_NODELAY"]
    assert names("futex (system call)") == ["one processor"]
    assert names("nanosleep (system call)") == ["no sleeps"]
    assert names("poll (system call)") == ["no sleeps", "TCP_NODELAY"]
    assert names("fsync (system call)", "2 waits per operation, 9 ms, ended by a disk") == [
        "no forced writes",
        "page cache",
    ]
    assert names("pread64 (system call)") == ["page cache"]
    assert names("realloc (C library)") == ["room to grow"]
    assert names("write (system call)") == ["larger buffers"]
    assert names("getppid (system call)", "malloc (C library)", "strlen (C library)", "write_all", "read") == []
    assert names("page faults (kernel)") == ["kept memory", "huge pages", "kept mappings", "huge mappings"]
    assert names("madvise (system call)") == ["kept memory", "kept mappings"]
    assert names("as many, which take longer; 0 B of 9 B are in huge pages") == ["huge pages", "huge mappings"]
    assert "one processor" in names(
        "as many, which take longer; possible: sizes of pages, false sharing of cache lines"
    )


def test_a_change_keeps_what_the_request_has(tmp_path: Path) -> None:
    change, path = change_of(BY_NAME["kept memory"], tmp_path)
    changed = dict(change(REQUEST).environment)
    assert path == "" and changed["LD_PRELOAD"] == "/a.so" and changed["MALLOC_TRIM_THRESHOLD_"] == str(1 << 30)
    pinned = change_of(BY_NAME["one processor"], tmp_path)[0](REQUEST)
    assert pinned.cpus == (max(os.sched_getaffinity(0)),) and pinned.environment == REQUEST.environment


@pytest.mark.slow
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


EFFECTS = {
    "kept mappings": """
        char *a = mmap(NULL, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *b;
        a[5000] = 'x';
        munmap(a, 8192);
        b = mmap(NULL, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        printf("%d %d ", a == b, b[5000]);
        b[5000] = 'y';
        madvise(b, 8192, MADV_DONTNEED);
        printf("%d ", b[5000]);
        munmap(b, 4096); /* a part: the mapping is no longer whole */
        b[5000] = 'z';
        munmap(b + 4096, 4096);
        printf("%d", mmap(NULL, 8192, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
        """,
    "huge mappings": """
        char *a = mmap(NULL, 8 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        printf("%d", a != MAP_FAILED && madvise(a, 8 << 20, MADV_NOHUGEPAGE) == 0 && a[1 << 20] == 0);
        """,
    "no forced writes": 'printf("%d %d", fsync(-1), fdatasync(-1));',
    "page cache": """
        char name[] = "fileXXXXXX";
        int one = mkostemp(name, O_SYNC), other = open(name, O_RDWR | O_SYNC), third = open("made", O_CREAT | O_WRONLY, 0600);
        struct stat found;
        fstat(third, &found);
        printf("%d %d %o", fcntl(one, F_GETFL) & O_SYNC, fcntl(other, F_GETFL) & O_SYNC, found.st_mode & 0777);
        """,
    "no sleeps": 'struct pollfd none; printf("%u %d", sleep(1000), poll(&none, 0, 1000000));',
    "room to grow": """
        char *a = malloc(1000), *b = realloc(a, 4000);
        strcpy(b, "text");
        printf("%d %s", realloc(b, 5000) == b, b);
        free(realloc(NULL, 10));
        """,
}
AFTER = {
    "kept mappings": "1 0 0 1",
    "huge mappings": "1",
    "no forced writes": "0 0",
    "page cache": "0 0 600",
    "no sleeps": "0 0",
    "room to grow": "1 text",
}


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", EFFECTS)
def test_a_preloaded_object_changes_what_its_name_promises_and_nothing_else(tmp_path: Path, name: str) -> None:
    heads = ("fcntl", "poll", "stdio", "stdlib", "string", "sys/mman", "sys/stat", "unistd")
    source = "#define _GNU_SOURCE\n" + "".join(f"#include <{head}.h>\n" for head in heads)
    (tmp_path / "p.c").write_text(f"{source}int main(void) {{ {EFFECTS[name]} return 0; }}\n")
    subprocess.run(["cc", "-w", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    _, path = change_of(BY_NAME[name], tmp_path)
    with_it = subprocess.run(
        ["./p"], cwd=tmp_path, env={"LD_PRELOAD": path}, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert with_it.stdout == AFTER[name]


def variant(time_ns: float, remedied_ns: float, objects: tuple[str, ...] = ()) -> RowVariant:
    def run(_: int, change: Change) -> ReferenceRun:
        return ReferenceRun({"wall": time_ns if change(REQUEST) == REQUEST else remedied_ns}, objects)

    tracee = Tracee("v", REQUEST, Region.PROGRAM)
    return RowVariant(tracee, run, time_ns, time_ns, "")


def test_rounds_have_both_variants_and_the_slower_one_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "BUDGET_S", 0.0)
    lines: list[str] = []
    glibc = ("/lib/libc.so.6",)
    slow, fast = variant(3.0, 1.5, glibc), variant(1.0, 9.0, glibc)
    (found,) = try_remedies((BY_NAME["kept memory"],), (slow, fast), "wall", tmp_path, lines.append)
    assert (found.faster, found.slower, found.remedied) == ((1.0,) * 8, (3.0,) * 8, (1.5,) * 8)
    assert lines == ["trying a remedy, in turns with both variants without it: kept memory"]


@needs_cc
def test_a_program_that_does_not_load_the_object_is_not_measured(tmp_path: Path) -> None:
    slow, fast = variant(3.0, 1.5), variant(1.0, 9.0)
    (found,) = try_remedies((BY_NAME["TCP_NODELAY"],), (slow, fast), "wall", tmp_path, lambda _: None)
    assert found.remedied == () and "did not load the preloaded object" in found.problem
    loaded = variant(3.0, 1.5, (str(tmp_path / "TCP_NODELAY.so"),))
    (found,) = try_remedies((BY_NAME["TCP_NODELAY"],), (loaded, fast), "wall", tmp_path, lambda _: None)
    assert found.problem == "" and set(found.remedied) == {1.5}


def test_a_remedy_of_glibc_is_not_measured_without_glibc(tmp_path: Path) -> None:
    slow, fast = variant(3.0, 1.5, ("/lib/ld-musl-x86_64.so.1",)), variant(1.0, 9.0)
    (found,) = try_remedies((BY_NAME["huge pages"],), (slow, fast), "wall", tmp_path, lambda _: None)
    assert found.remedied == () and found.problem == "the slower variant has no shared glibc, which alone heeds it"
