# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remedies: to which findings they belong, what they change, and that a program without the preloaded object is not measured."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.acquisition import Change, ReferenceRun, RowVariant
from swapstone.parts.explain.instruments.remedies import (
    CALLS,
    REMEDIES,
    ROUNDS,
    remedies_for,
    surroundings_of,
    try_remedies,
)
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
    assert names("realloc (C library)") == ["mimalloc", "room to grow"]
    assert names("re_search_internal (C library)") == ["locale C"]
    assert names("_dl_runtime_resolve_xsavec (ld-linux-x86-64.so.2)") == ["bindings at start"]
    ready = "+9 ms is time ready without a processor, and it is not known who had it; the shares are of the rest."
    assert names(ready) == ["all processors", "no quota"]
    assert names("write (system call)") == ["larger buffers"]
    assert names("getppid (system call)", "strlen (C library)", "write_all", "read") == []
    assert names("malloc (C library)") == names("_int_free (C library)") == ["mimalloc"]
    assert names("page faults (kernel)") == ["mimalloc", "kept memory", "huge pages", "kept mappings", "huge mappings"]
    assert names("madvise (system call)") == ["mimalloc", "kept memory", "kept mappings"]
    assert names("as many, which take longer; 0 B of 9 B are in huge pages") == ["huge pages", "huge mappings"]
    assert "one processor" in names(
        "as many, which take longer; possible: sizes of pages, false sharing of cache lines"
    )


def parts(name: str, folder: Path, variant_: RowVariant | None = None) -> tuple[TrialRequest, ...]:
    """Return the requests with a remedy, with its placebo, and of the run that is counted."""
    ways = surroundings_of(BY_NAME[name], variant_ or variant(1.0, 1.0), folder, lambda _: None)
    return tuple(way(REQUEST) for way in ways)


@needs_cc
def test_a_remedy_keeps_what_the_request_has_and_its_placebo_has_as_many_bytes(tmp_path: Path) -> None:
    with_it, placebo, _ = (dict(each.environment) for each in parts("kept memory", tmp_path))
    assert with_it["LD_PRELOAD"] == "/a.so" and with_it["MALLOC_TRIM_THRESHOLD_"] == str(1 << 30)
    assert placebo["LD_PRELOAD"] == "/a.so" and placebo["_DLOHSERHT_MIRT_COLLAM"] == str(1 << 30)
    with_it, placebo, _ = (dict(each.environment) for each in parts("TCP_NODELAY", tmp_path))
    assert with_it["LD_PRELOAD"] == f"/a.so:{tmp_path}/TCP_NODELAY.so" and with_it != placebo
    assert len(placebo["LD_PRELOAD"]) == len(with_it["LD_PRELOAD"])
    pinned, unpinned, _ = parts("one processor", tmp_path)
    every = os.sched_getaffinity(0)
    assert pinned.environment == REQUEST.environment and pinned.cpus == (max(every),)
    assert unpinned.environment == REQUEST.environment and unpinned.cpus == tuple(sorted(every))


def test_a_remedy_that_the_variant_has_already_is_refused(tmp_path: Path) -> None:
    pinned = msgspec.structs.replace(REQUEST, cpus=(max(os.sched_getaffinity(0)),))
    with pytest.raises(UserError, match="has it already"):
        parts("one processor", tmp_path, variant(1.0, 1.0, request=pinned))


@needs_cc
def test_an_allocator_is_the_object_of_a_level_and_calls_are_counted_without_it(tmp_path: Path) -> None:
    asked = []
    (tmp_path / "made.so").write_bytes(b"object")

    def object_of(factor: str, level: str, _: Callable[[str], None]) -> str:
        asked.append((factor, level))
        return str(tmp_path / "made.so")

    slow = dataclasses.replace(variant(1.0, 1.0), object_of=object_of)
    with_it, _, counted = (dict(each.environment) for each in parts("mimalloc", tmp_path, slow))
    assert asked == [("allocator", "mimalloc")] and (tmp_path / "mimalloc.so").read_bytes() == b"object"
    assert with_it["LD_PRELOAD"] == f"/a.so:{tmp_path}/mimalloc.so"
    assert counted["LD_PRELOAD"] == f"/a.so:{tmp_path}/count_malloc.so", "it has an operator new of its own"
    assert counted["SWAPSTONE_CALLS"] == str(tmp_path / CALLS)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("compiler", ["cc", pytest.param("clang", marks=needs("clang"))])
def test_objects_have_no_warnings(compiler: str) -> None:
    folder = share_dir() / "native" / "remedies"
    sources = sorted(map(str, folder.glob("*.c")))
    used = {name for remedy in REMEDIES for name in (remedy.preload, remedy.counter)} - {""}
    assert {Path(path).stem for path in sources} == {*used, "empty"}
    subprocess.run(
        [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *sources], check=True
    )


@needs_cc
def test_streams_have_larger_buffers_with_the_preloaded_object(tmp_path: Path) -> None:
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        '#include <stdio.h>\n#include <unistd.h>\nint main(void) { setvbuf(stdout, 0, _IONBF, 0); fputs("late ", stdout);'
        ' write(1, "early ", 6); return 0; }\n'
    )
    subprocess.run(["cc", "-o", program, source], check=True)
    placebo = {"LD_PRELOAD": built("empty", tmp_path)}
    for variables, expected in (
        ({}, b"late early "),
        (placebo, b"late early "),
        ({"LD_PRELOAD": built("buffers", tmp_path)}, b"early late "),
    ):
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
    "locale C": 'printf("%s %s", setlocale(LC_ALL, "C.UTF-8"), setlocale(LC_ALL, NULL));',
    "all processors": """
        cpu_set_t before, none, after;
        sched_getaffinity(0, sizeof before, &before);
        CPU_ZERO(&none);
        printf("%d ", sched_setaffinity(0, sizeof none, &none));
        sched_getaffinity(0, sizeof after, &after);
        printf("%d", CPU_EQUAL(&before, &after));
        """,
    "no quota": """
        FILE *one = fopen("./cgroup.procs", "w");
        int other = open("./tasks", O_WRONLY | O_CREAT, 0600);
        printf("%d %ld %d", !!one, (long)write(other, "1", 1), access("tasks", F_OK) + access("cgroup.procs", F_OK));
        """,
    "room to grow": """
        char *a = malloc(1000), *b = realloc(a, 4000);
        strcpy(b, "text");
        printf("%d %s", realloc(b, 5000) == b, b);
        free(realloc(NULL, 10));
        """,
}
AFTER = {
    "kept mappings": ("1 0 0 1", 2),
    "huge mappings": ("1", 2),
    "no forced writes": ("0 0", 2),
    "page cache": ("0 0 600", 2),
    "no sleeps": ("0 0", 2),
    "locale C": ("C C", 1),
    "all processors": ("0 1", 1),
    "no quota": ("1 1 -2", 2),
    "room to grow": ("1 text", 2),
}
"""What is printed, and how many calls are counted."""


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", EFFECTS)
def test_a_preloaded_object_changes_what_its_name_promises_and_nothing_else(tmp_path: Path, name: str) -> None:
    heads = ("fcntl", "locale", "poll", "sched", "stdio", "stdlib", "string", "sys/mman", "sys/stat", "unistd")
    source = "#define _GNU_SOURCE\n" + "".join(f"#include <{head}.h>\n" for head in heads)
    (tmp_path / "p.c").write_text(f"{source}int main(void) {{ {EFFECTS[name]} return 0; }}\n")
    subprocess.run(["cc", "-w", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    (tmp_path / "calls").write_bytes(bytes(8))
    variables = {"LD_PRELOAD": built(BY_NAME[name].preload, tmp_path), "SWAPSTONE_CALLS": str(tmp_path / "calls")}
    with_it = subprocess.run(
        ["./p"], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    calls = int.from_bytes((tmp_path / "calls").read_bytes(), sys.byteorder)
    assert (with_it.stdout, calls) == AFTER[name]


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize(
    ("counter", "variable", "calls"), [("count_malloc", "LD_PRELOAD", 3), ("count_bindings", "LD_AUDIT", 1)]
)
def test_calls_are_counted_without_a_change(tmp_path: Path, counter: str, variable: str, calls: int) -> None:
    source = """
        #include <math.h>
        #include <stdlib.h>
        int main(int count, char **all) { free(realloc(malloc(count), 9)); free(calloc(1, 1)); return all[0] && cbrt(count) > 2; }
        """
    if counter == "count_bindings":
        source = source.replace("free(realloc(malloc(count), 9)); free(calloc(1, 1)); ", "")
    (tmp_path / "p.c").write_text(source)
    options = ("-fno-builtin", "-Wl,-z,lazy", "-no-pie")
    subprocess.run(["cc", "-w", *options, "-o", "p", "p.c", "-lm"], cwd=tmp_path, check=True)
    (tmp_path / "calls").write_bytes(bytes(8))
    object_, counts = built(counter, tmp_path), {"SWAPSTONE_CALLS": str(tmp_path / "calls")}
    subprocess.run(["./p"], cwd=tmp_path, env={variable: object_, **counts}, check=True)
    found = int.from_bytes((tmp_path / "calls").read_bytes(), sys.byteorder)
    assert found == calls if counter == "count_malloc" else found >= calls
    if counter == "count_bindings":
        (tmp_path / "calls").write_bytes(bytes(8))
        subprocess.run(["./p"], cwd=tmp_path, env={variable: object_, "LD_BIND_NOW": "1", **counts}, check=True)
        assert (tmp_path / "calls").read_bytes() == bytes(8)


def built(source: str, folder: Path) -> str:
    """Compile an object of native/remedies."""
    path = folder / f"{source}.so"
    sources = share_dir() / "native" / "remedies"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, sources / f"{source}.c", "-ldl"], check=True)
    return str(path)


def variant(
    time_ns: float,
    remedied_ns: float,
    objects: tuple[str, ...] = (),
    *,
    request: TrialRequest = REQUEST,
    calls: int = 7,
) -> RowVariant:
    """Return a variant that takes another time with a remedy, and 2 with its placebo."""

    def run(_: int, change: Change) -> ReferenceRun:
        variables = dict(change(REQUEST).environment)
        if "SWAPSTONE_CALLS" in variables:
            Path(variables["SWAPSTONE_CALLS"]).write_bytes(calls.to_bytes(8, sys.byteorder))
        preload = variables["LD_PRELOAD"]
        placebo = "_DLOHSERHT_MIRT_COLLAM" in variables or "/0" in preload
        changed = 2.0 if placebo else remedied_ns
        loaded = tuple(preload.split(":")) if objects else ()
        return ReferenceRun({"wall": time_ns if change(REQUEST) == REQUEST else changed}, (*objects, *loaded))

    tracee = Tracee("v", request, Region.PROGRAM)
    return RowVariant(tracee, run, lambda *_: "", time_ns, time_ns, "")


@needs_cc
@pytest.mark.parametrize("name", ["kept memory", "TCP_NODELAY"])
def test_rounds_have_both_variants_and_the_slower_one_with_the_remedy_and_with_its_placebo(
    tmp_path: Path, name: str
) -> None:
    lines: list[str] = []
    glibc = ("/lib/libc.so.6",)
    slow, fast = variant(3.0, 1.5, glibc), variant(1.0, 9.0)
    (found,) = try_remedies((BY_NAME[name],), (slow, fast), "wall", tmp_path, lines.append)
    times = (found.faster, found.slower, found.placebo, found.remedied)
    assert times == tuple((each,) * ROUNDS for each in (1.0, 3.0, 2.0, 1.5)), found.problem
    assert found.calls == 7
    assert lines == [f"trying a remedy, in turns with its placebo and with both variants: {name}"]


@needs_cc
def test_a_program_that_does_not_load_the_object_is_not_measured(tmp_path: Path) -> None:
    (found,) = try_remedies((BY_NAME["TCP_NODELAY"],), (variant(3, 1), variant(1, 9)), "wall", tmp_path, lambda _: None)
    assert found.remedied == () and "did not load the preloaded object" in found.problem


@needs_cc
def test_a_program_without_such_calls_is_not_measured(tmp_path: Path) -> None:
    slow = variant(3.0, 1.5, ("/lib/libc.so.6",), calls=0)
    (found,) = try_remedies((BY_NAME["no forced writes"],), (slow, variant(1, 9)), "wall", tmp_path, lambda _: None)
    assert found.remedied == () and found.calls == 0
    assert found.problem == "nothing outside the C library calls: fsync, fdatasync, syncfs, sync"


@needs_cc
def test_a_remedy_of_glibc_is_not_measured_without_glibc(tmp_path: Path) -> None:
    slow = variant(3.0, 1.5, ("/lib/ld-musl-x86_64.so.1",))
    (found,) = try_remedies((BY_NAME["huge pages"],), (slow, variant(1, 9)), "wall", tmp_path, lambda _: None)
    assert found.remedied == () and found.problem == "the slower variant has no shared glibc, which alone heeds it"
