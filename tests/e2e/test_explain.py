# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone explain` finds known causes: six pairs of programs whose candidate has one added cost each."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from benchmarks.causes import built

import swapstone as api
from swapstone.core.model.directories import share_dir
from swapstone.parts.explain.instruments import acquisition, perf, remedies
from swapstone.parts.explain.session import explain as session
from tests.e2e.cli import swapstone
from tests.pprof import decoded
from tests.programs import missing, needs

COMMON = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile uint64_t sink;
__attribute__((noinline)) void compute(unsigned turns) {
    uint64_t state = 88172645463325252u;
    for (unsigned i = 0; i < turns; i++) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; }
    sink += state;
}
"""

# Each program computes the same on both sides; the side PLANTED does this in addition.
PLANTED = {
    "lock": r"""
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int done;
static void *keep(void *unused) {
    while (!done) {
        pthread_mutex_lock(&lock);
        usleep(5000);
        pthread_mutex_unlock(&lock);
        usleep(300);
    }
    return unused;
}
int main(void) {
    pthread_t keeper;
    pthread_create(&keeper, NULL, keep, NULL);
    for (int i = 0; i < 120; i++) {
        if (PLANTED) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); }
        compute(100000);
    }
    done = 1;
    pthread_join(keeper, NULL);
}
""",
    "copy": r"""
static char from[1 << 14], to[1 << 14];  // from the first cache to itself: memory is as slow as the host's other guests make it
int main(void) {
    memset(from, 1, sizeof from);
    memset(to, 2, sizeof to);
    for (int i = 0; i < 2000; i++) {
        compute(30000);
        if (PLANTED) for (int n = 0; n < 600; n++) { memcpy(to, from, sizeof to); from[n] = to[n + 1]; }
    }
    return to[5] == 77;
}
""",
    "system call": r"""
int main(void) {
    for (int i = 0; i < 1500; i++) {
        compute(30000);
        if (PLANTED) for (int n = 0; n < 200; n++) syscall(SYS_getppid);
    }
}
""",
    "sleep": r"""
int main(void) {
    for (int i = 0; i < 120; i++) {
        compute(100000);
        if (PLANTED) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}
""",
    "page faults": r"""
enum { SIZE = 1 << 20 };
int main(void) {
    int file = memfd_create("pages", 0);  // its pages stay: they need no clearing, which is as slow as the host's memory
    if (file < 0 || ftruncate(file, SIZE) != 0) return 1;
    char *area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (area == MAP_FAILED) return 1;
    for (int i = 0; i < 300; i++) {
        compute(75000);
        if (PLANTED) madvise(area, SIZE, MADV_DONTNEED);
        for (int at = 0; at < SIZE; at += 4096) area[at] = (char)i;
    }
}
""",
    "arithmetic": r"""
int main(void) {
    for (int i = 0; i < 300; i++) compute(PLANTED ? 600000 : 200000);
}
""",
}
EXPECTED = {
    "lock": r"pthread_mutex_lock|\bfutex\b",
    "copy": r"\bmemcpy\b",
    "system call": r"\bgetppid\b|\bsyscall\b",
    "sleep": r"\bnanosleep\b",
    "page faults": r"page faults|\bmain\b",
    "arithmetic": r"\bcompute\b",
}
"""Patterns for the sentence."""
LEFT_OUT = ("syscalls", "instructions", "waits", "pages", "hardware")
"""The time by function needs none of these instruments."""
QUICK = [part for name in LEFT_OUT for part in ("--without", name)]

EXHAUSTIVE = pytest.mark.exhaustive
LONG = PLANTED.keys() - {"lock"}
"""Waiting is shown by the lock, and processor time by the explanation that is stored; tests/unit/explanation has the rest."""

FEWER = ("i < 1500", "i < 300")
"""Turns of the system call: valgrind and strace take long for more."""

METRIC = {"lock": "wall", "sleep": "wall"}
"""Waiting changes elapsed time, the other causes change processor time. On a busy machine elapsed time depends on other processes."""

needs_perf = pytest.mark.skipif(
    os.geteuid() != 0 or bool(missing("perf")),
    reason="needs root and perf: what a machine lacks is tested elsewhere",
)


def planted(folder: Path, name: str, turns: tuple[str, str] = ("", "")) -> tuple[str, ...]:
    """Build both sides, with another number of turns if one is given, and return the arguments that compare them.

    They are pinned to one processor: what is measured of work that may use several has no result where other tests use the others.
    """
    source = folder / "prog.c"
    source.write_text(COMMON + PLANTED[name].replace(*turns))
    for side in (0, 1):
        out = folder / f"side{side}"
        subprocess.run(["cc", "-O2", "-g", f"-DPLANTED={side}", "-o", out, source, "-pthread"], check=True)
    return ("--program", f"plain={folder}/side0", "--program", f"planted={folder}/side1", "--pin")


def explained(folder: Path, *arguments: str) -> dict[str, Any]:
    result = swapstone(folder, "explain", str(folder / "r"), *arguments, "--json")
    content = json.loads(result.stdout)
    assert isinstance(content, dict)
    return content


USUAL = (
    (perf, "BUDGET_S", perf.BUDGET_S),
    (perf, "MOST_S", perf.MOST_S),
    (acquisition, "REFERENCE_BUDGET_S", acquisition.REFERENCE_BUDGET_S),
)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each instrument take a fifth of the usual time in this process."""
    for module, name, seconds in USUAL:
        monkeypatch.setattr(module, name, seconds / 5)


@pytest.fixture
def time_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that explains a row of the record with the instruments of time alone.

    It takes a fifth of the usual time, because the planted differences are so large that few runs show them, or all of it if `usual`. It
    runs in this process, where the time can be changed.
    """

    def explained(*, usual: bool = False, **row: Any) -> dict[str, Any]:
        if usual:
            monkeypatch.undo()
        else:
            shorten(monkeypatch)
        content = json.loads(api.load(tmp_path / "r").explain(without=LEFT_OUT, **row).report("json"))
        assert isinstance(content, dict)
        return content

    return explained


ATTEMPTS = 4


@pytest.mark.slow
@needs_perf
@pytest.mark.parametrize("name", [pytest.param(name, marks=[EXHAUSTIVE] * (name in LONG)) for name in PLANTED])
def test_explain_ranks_each_planted_cause_first(
    tmp_path: Path, time_of: Callable[..., dict[str, Any]], name: str
) -> None:
    swapstone(tmp_path, "compare", "--blocks", "12", "--out", str(tmp_path / "r"), *planted(tmp_path, name))
    for number in range(ATTEMPTS):
        # Elapsed time depends on other processes, so that few runs may not be enough.
        usual = name in METRIC and number > 0
        found = time_of(usual=usual, metric=METRIC.get(name, "cpu"), workload="*")["explanation"]
        # Beside other tests an interval may contain 0; then nothing leads.
        if found["time"]["leading"]:
            break
    print(f"{name:12} {found['sentence']}")
    assert found["time"]["leading"] and re.search(EXPECTED[name], found["sentence"]), found["sentence"]


@pytest.mark.slow
@needs_perf
def test_explain_stores_profiles_and_reports_beside_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = planted(tmp_path, "system call", FEWER)
    swapstone(tmp_path, "compare", "--blocks", "12", "--out", str(tmp_path / "r"), *sides)
    before = (tmp_path / "r" / "runs.jsonl").read_bytes()
    shorten(monkeypatch)
    found = json.loads(api.load(tmp_path / "r").explain("*", metric="cpu").report("json"))
    counts = {
        (one["group"], one["name"]): (one["baseline"], one["candidate"]) for one in found["explanation"]["counts"]
    }
    assert counts["system calls", "getppid"] == (0.0, 60_000.0)
    functions = found["explanation"]["time"]["functions"]
    (more,) = (each for each in functions if each["symbol"] == "__x64_sys_getppid")
    assert more["candidate"] > more["baseline"], "more time in the system call"
    assert more["interval"] is None or more["interval"][0] > 0  # a busy machine may leave too few rounds for one
    (folder,) = (tmp_path / "r" / "explain").iterdir()
    seen = json.loads((folder / "seen.json").read_text())
    assert {run["instrument"] for run in seen["runs"]} >= {"reference", "on-cpu", "off-cpu", "syscalls"}
    assert all(cost["seconds"] > 0 < cost["trial_s"] for cost in seen["costs"])
    assert (tmp_path / "r" / "runs.jsonl").read_bytes() == before  # runs under an instrument are not trials
    kinds, stacks = decoded((folder / "on-cpu-candidate.pb.gz").read_bytes())
    assert kinds == [("on-cpu", "nanoseconds")] and any("__x64_sys_getppid" in stack for stack in stacks)
    stamp = (folder / "seen.json").stat().st_mtime_ns
    again = swapstone(tmp_path, "profile", str(tmp_path / "r"), "cpu", "--only", "*", "--syscalls")
    assert "syscalls-difference.html" in again.stdout
    assert (folder / "seen.json").stat().st_mtime_ns == stamp  # the profiles were not measured again
    assert swapstone(tmp_path, "verify", str(tmp_path / "r")).returncode == 0
    check_reports(tmp_path / "r", found["explanation"]["sentence"])


def check_reports(record: Path, sentence: str) -> None:
    """Check that reports of the record show the explanation and link to existing files, and omit it once runs are added."""
    shown = swapstone(record.parent, "show", str(record), "--all").stdout
    assert "\nWhy\n" in shown and " ".join(sentence.split()) in " ".join(shown.split())
    for page in (record / "report.html", record.parent / "elsewhere" / "page.html"):
        page.parent.mkdir(exist_ok=True)
        swapstone(record.parent, "report", str(record), "--html", "--out", str(page))
        links = [unquote(link) for link in re.findall(r'<a href="([^"#]+)"', page.read_text())]
        assert [Path(link).name for link in links][:2] == ["explanation.html", "on-cpu-difference.html"]
        assert all((page.parent / link).is_file() for link in links)
    (folder,) = (record / "explain").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "chain": "0" * 64})
    )  # as of another state of the record
    shown = swapstone(record.parent, "show", str(record), "--all").stdout
    assert " ".join(sentence.split()) not in " ".join(shown.split())
    assert "No row has been explained yet" in shown and f"swapstone explain {record}" in " ".join(shown.split())


@pytest.mark.slow
@needs("cc")
def test_without_perf_and_valgrind_the_row_is_explained_by_counts_with_what_is_missing(tmp_path: Path) -> None:
    swapstone(
        tmp_path, "compare", "--blocks", "6", "--out", str(tmp_path / "r"), *planted(tmp_path, "system call", FEWER)
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cc", "sh", "env", "taskset", "nice", "as", "ld", "sleep", "true"):
        if (path := shutil.which(name)) is not None:
            (tools / name).symlink_to(path)
    result = swapstone(tmp_path, "explain", str(tmp_path / "r"), "cpu", "--only", "*", "--json", PATH=str(tools))
    found = json.loads(result.stdout)
    missing = {each["instrument"]: each["reason"] for each in found["measured"]["missing"]}
    assert set(missing) == {"on-cpu", "syscalls", "hardware", "instructions"}
    assert missing["on-cpu"] == "the command 'perf' is not installed"
    assert missing["instructions"] == "the command 'valgrind' is not installed"
    assert {each["instrument"] for each in found["measured"]["costs"]} >= {"reference", "pages", *missing}
    assert found["explanation"]["time"] is None
    assert "running both variants under instructions" in result.stderr


MEMORY = ("exc_page_fault", "munmap", "mmap", "do_mem_abort", "el0_da")


def memory_share(folder: Path) -> float:
    """Return the share of off-CPU time below a page fault, mmap or munmap, without the time in which the server waited for requests."""
    whole = at_memory = 0
    for line in (folder / "off-cpu-candidate.folded").read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        if "do_epoll_wait" in stack and "processor taken" not in stack:
            continue
        whole += int(weight)
        at_memory += int(weight) * any(name in stack for name in MEMORY)
    return at_memory / max(1, whole)


@pytest.mark.slow
@pytest.mark.exhaustive
@needs_perf
@needs("wrk")
def test_the_off_cpu_profile_of_a_server_shows_memory_mapping_with_musl_malloc_only(
    tmp_path: Path, time_of: Callable[..., dict[str, Any]]
) -> None:
    record = tmp_path / "r"
    arguments = ("libc=glibc,musl", "allocator=default,mimalloc", "--suite", "server", "--only", "http(c=10,t=cores)")
    swapstone(tmp_path, "compare", *arguments, "--blocks", "1", "--out", str(record))
    # By the first rules its rows are judged beside other processes too: this test is about profiles.
    experiment = record / "experiment.json"
    experiment.write_text(json.dumps({**json.loads(experiment.read_text()), "rules": 1}))
    shares = {}
    for allocator in ("default", "mimalloc"):
        versus = f"libc=musl,allocator={allocator}"
        found = time_of(metric="requests", workload="http(c=10,t=cores)", candidate=versus, trust=True)
        assert {run["instrument"] for run in found["measured"]["runs"]} == {"reference", "on-cpu", "off-cpu"}, found[
            "measured"
        ]["missing"]
        (folder,) = (record / "explain").glob(f"*{allocator}-*")
        shares[allocator] = memory_share(folder)
        assert found["explanation"]["time"]["metric"] == "wall"
    print(shares)
    # With two processors the load generator takes most of the off-CPU time; the rest is small but not zero.
    assert shares["default"] > 0.005
    assert shares["mimalloc"] < shares["default"] / 10


@pytest.mark.slow
@pytest.mark.exhaustive
@needs_perf
def test_a_remedy_confirms_the_cause_that_explain_names(tmp_path: Path) -> None:
    program, record = built(tmp_path), str(tmp_path / "r")
    commands = (f"{program} nagle 0", f"{program} nagle 1", "-n", "plain", "-n", "planted")
    swapstone(tmp_path, "compare", *commands, "--blocks", "12", "--out", record)
    found = explained(tmp_path, "wall", "--only", "*", *QUICK, "--confirm")
    assert "(system call), called by" in found["explanation"]["sentence"]
    (tried,) = (each for each in found["explanation"]["remedies"] if each["name"] == "TCP_NODELAY")
    assert tried["confirmed"] and tried["interval"][0] > 0.5, tried  # 40 ms for each request


@pytest.mark.slow
@needs("cc")
def test_a_remedy_by_a_level_of_a_factor_is_tried_beside_a_placebo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < COUNT; i++) free(realloc(malloc(9), 99)); }\n"
    (tmp_path / "p.c").write_text(source)
    for name, count in (("a", 100_000), ("b", 300_000)):
        subprocess.run(["cc", "-fno-builtin", f"-DCOUNT={count}", "-o", name, "p.c"], cwd=tmp_path, check=True)
    own = tmp_path / "own.so"  # passes all calls to the next allocator, and would count them a second time
    allocator = share_dir() / "native/remedies/count_malloc.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", own, allocator, "-ldl"], check=True)
    by_level = dataclasses.replace(
        next(each for each in remedies.REMEDIES if each.level), level=("allocator", str(own))
    )
    monkeypatch.setattr(session, "remedies_for", lambda _: (by_level,))
    monkeypatch.setattr(remedies, "ROUNDS", 5)
    swapstone(tmp_path, "compare", "./a", "./b", "--blocks", "5", "--out", str(tmp_path / "r"))
    found = api.load(tmp_path / "r").explain("*", metric="cpu", confirm=True, without=tuple(acquisition.INSTRUMENTS))
    (tried,) = json.loads(found.report("json"))["explanation"]["remedies"]
    assert tried["calls"] == 600_000 and "Not measured" not in tried["text"], "counted without the allocator"
