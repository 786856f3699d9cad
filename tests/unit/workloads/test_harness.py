# SPDX-License-Identifier: MIT OR Apache-2.0
"""The harness: errors of a workload, and counters. Each test builds a small workload."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.unit.workloads.programs import LEVELS, REPORT, SOURCES, Programs, run


def error_of(programs: Programs, cwd: Path, text: str, *arguments: str, level: str = "glibc") -> str:
    """Return the error of a workload's report; assert the rest of the report."""
    result = run(programs.build_text(level, text), *arguments, cwd=cwd)
    first, name, error, *rest = result.stdout.split("\n")
    assert (first, result.returncode, result.stderr, rest) == ("swapstone-workload 2", 1, "", ["end", ""])
    assert name.startswith("name ")
    key, _, value = error.partition(" ")
    assert key == "error"
    return value.replace("%20", " ").replace("%25", "%").replace("%0A", "\n")


def work(body: str, *, mode: str = "FRESH", before: str = "", extra: str = "") -> str:
    declared = f'WORKLOAD(.name = "work", .mode = {mode}, .ops = 1, .pass = pass{extra});'
    return f"{before}static uint64_t pass(void) {{ {body} }}\n{declared}\n"


def passes_of(programs: Programs, cwd: Path, text: str, passes: int) -> list[list[int]]:
    result = run(programs.build_text("glibc", text), str(passes), cwd=cwd)
    match = REPORT.fullmatch(result.stdout)
    assert match, result.stdout
    return [[int(field) for field in line.split()[1:]] for line in match["lines"].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_example_of_the_guide_builds_and_prints_the_report_of_the_guide(
    level: str, programs: Programs, tmp_path: Path
) -> None:
    guide = re.sub(r"(?m)^ \*(?:     | $)?", "", (SOURCES / "harness.h").read_text())
    example = re.search(r'(?ms)^#include "harness.h"\n(.*?^WORKLOAD\(.*?\);$)', guide)
    shown = re.search(r"(?ms)^(swapstone-workload 2\n.*?^pass ).*?^(check \w+\nend\n)", guide)
    assert example
    assert shown
    printed = run(programs.build_text(level, example[1] + "\n"), "2", cwd=tmp_path).stdout
    assert REPORT.fullmatch(printed), printed
    assert printed.startswith(shown[1])
    assert printed.endswith(shown[2])


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_a_crash_is_an_error_that_names_the_signal(level: str, programs: Programs, tmp_path: Path) -> None:
    text = work("raise(SIGSEGV); return 1;", before="#include <signal.h>\n")
    assert error_of(programs, tmp_path, text, "3", level=level) == "killed by signal 11 after 0 passes"


def test_a_crash_in_a_later_pass_gives_no_numbers(programs: Programs, tmp_path: Path) -> None:
    text = work("static int n; if (++n == 3) raise(SIGABRT); return 1;", mode="WARM", before="#include <signal.h>\n")
    assert error_of(programs, tmp_path, text, "5") == "killed by signal 6 after 1 passes"


def test_the_text_of_fail_is_the_error(programs: Programs, tmp_path: Path) -> None:
    text = work(r'fail("no %s,\n100%% %d", "luck", 7);')
    assert error_of(programs, tmp_path, text, "1") == "no luck,\n100% 7"


IN_TASKS = """
#include "tasks.h"
static uint64_t work(unsigned task) { %s }
static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("work", "test", 1)};
WORKLOAD(.mode = FRESH, .pass = run_in_tasks, .parameters = tasks);
"""


def test_the_error_is_that_of_the_task_and_not_of_its_parent(programs: Programs, tmp_path: Path) -> None:
    text = IN_TASKS % 'if (task == 3) fail("task %u has no luck", task); return 1;'
    assert error_of(programs, tmp_path, text, "1", "8") == "task 3 has no luck"


def test_different_checksums_of_tasks_are_an_error(programs: Programs, tmp_path: Path) -> None:
    assert error_of(programs, tmp_path, IN_TASKS % "return task / 7;", "1", "8") == "the checksums of two tasks differ"


def test_a_task_that_crashes_is_an_error(programs: Programs, tmp_path: Path) -> None:
    text = IN_TASKS % "if (task == 7) __builtin_trap(); return 1;"
    error = error_of(programs, tmp_path, text, "1", "8")
    assert error.startswith("a process should exit with status 0, but its wait status is ")


def test_reexec_main_replaces_main_for_the_argument_dash(programs: Programs, tmp_path: Path) -> None:
    anew = work(
        "return 1;",
        before="static int again(int n, char **a) { return n + (a[2][0] == 'x'); }\n",
        extra=", .reexec_main = again",
    )
    assert run(programs.build_text("glibc", anew), "-", "x", cwd=tmp_path).returncode == 4
    assert run(programs.build_text("glibc", work("return 1;")), "-", "x", cwd=tmp_path).returncode == 0


def test_a_pass_that_exits_is_an_error(programs: Programs, tmp_path: Path) -> None:
    text = work("_exit(0);", before="#include <unistd.h>\n")
    assert error_of(programs, tmp_path, text, "1") == "exited with status 0 after 0 passes"


def test_different_checksums_of_passes_are_an_error(programs: Programs, tmp_path: Path) -> None:
    text = work("static uint64_t n; return ++n;", mode="WARM")
    assert error_of(programs, tmp_path, text, "2") == "the checksums of the passes differ"


@pytest.mark.parametrize("arguments", [(), ("0",), ("-1",), ("2x",), ("",), ("99999999999999999999",), ("1", "more")])
def test_invalid_arguments_are_an_error(arguments: tuple[str, ...], programs: Programs, tmp_path: Path) -> None:
    assert error_of(programs, tmp_path, work("return 1;"), *arguments) == "usage: PROGRAM PASSES [PARAMETER]"


def test_an_unknown_parameter_is_an_error(programs: Programs, tmp_path: Path) -> None:
    table = 'static const struct parameter two[] = {{.argument = "a", .name = "work(a)", .ops = 2}, {0}};\n'
    text = f"{table}static uint64_t pass(void) {{ return 1; }}\nWORKLOAD(.pass = pass, .parameters = two);\n"
    assert error_of(programs, tmp_path, text, "1", "b") == "usage: PROGRAM PASSES [PARAMETER]"
    assert error_of(programs, tmp_path, text, "1") == "usage: PROGRAM PASSES [PARAMETER]"
    result = run(programs.build_text("glibc", text), "1", "a", cwd=tmp_path)
    assert result.stdout.startswith("swapstone-workload 2\nname work(a)\nops 2\npasses 1\npass ")


def test_a_fresh_pass_runs_in_a_new_process(programs: Programs, tmp_path: Path) -> None:
    text = work("static uint64_t n; return ++n;", mode="FRESH")
    assert len(passes_of(programs, tmp_path, text, 3)) == 3


def test_output_of_the_workload_is_not_in_the_report(programs: Programs, tmp_path: Path) -> None:
    text = work('printf("pass 1 1 1 1 1 1 1\\n"); fflush(stdout); return 1;', before="#include <stdio.h>\n")
    assert len(passes_of(programs, tmp_path, text, 2)) == 2


def test_a_sleep_is_wall_time_and_one_voluntary_switch(programs: Programs, tmp_path: Path) -> None:
    text = work("usleep(30000); return 1;", before="#include <unistd.h>\n")
    (wall, cpu, _, _, _, voluntary, _), *_ = passes_of(programs, tmp_path, text, 1)
    assert wall >= 30_000_000
    assert cpu < 10_000_000
    assert voluntary == 1


def test_cpu_time_includes_threads_and_reaped_children(programs: Programs, tmp_path: Path) -> None:
    before = """
    #include <pthread.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    static void *burn(void *argument) {
        struct timespec now;
        do
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while (now.tv_nsec < 40000000);
        return argument;
    }
    """
    thread = "pthread_t t; pthread_create(&t, NULL, burn, NULL); pthread_join(t, NULL); return 1;"
    child = "pid_t p = fork(); if (p == 0) { burn(NULL); _exit(0); } waitpid(p, NULL, 0); return 1;"
    for body in (thread, child):
        (_, cpu, *_), *_ = passes_of(programs, tmp_path, work(body, before=before), 1)
        assert 35_000_000 <= cpu < 400_000_000


def test_page_faults_are_counted_for_each_pass(programs: Programs, tmp_path: Path) -> None:
    body = """
    size_t size = 4096 * 1000;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += 4096) p[i] = 1;
    munmap(p, size);
    return 1;
    """
    for one in passes_of(programs, tmp_path, work(body, before="#include <sys/mman.h>\n"), 2):
        assert 1000 <= one[3] < 1010


def test_memory_is_private_accessible_anonymous_memory(programs: Programs, tmp_path: Path) -> None:
    template = """
    char *p = mmap(NULL, 1 << 24, %s, %s, -1, 0);
    for (size_t i = 0, end = %s; i < end; i += 4096) p[i] = 1;
    return 1;
    """
    both, private, shared = "PROT_READ | PROT_WRITE", "MAP_PRIVATE | MAP_ANONYMOUS", "MAP_SHARED | MAP_ANONYMOUS"
    figures = {}
    for name, protection, sharing, touched in [
        ("none", "PROT_NONE", private, "0"),
        ("shared", both, shared, "1 << 22"),
        ("half", both, private, "1 << 23"),
    ]:
        text = work(template % (protection, sharing, touched), before="#include <sys/mman.h>\n")
        match = REPORT.fullmatch(run(programs.build_text("glibc", text), "1", cwd=tmp_path).stdout)
        assert match
        figures[name] = tuple(int(match[key]) for key in ("virt", "res", "dirty"))
    assert figures["none"] == pytest.approx(figures["shared"], abs=3 * 4096)
    grown = [half - none for half, none in zip(figures["half"], figures["none"], strict=True)]
    assert grown == pytest.approx([1 << 24, 1 << 23, 1 << 23], abs=1 << 20)


def test_a_write_error_of_the_report_is_a_failure(programs: Programs, tmp_path: Path) -> None:
    program = programs.build_text("glibc", work("return 1;"))
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([program, "1"], stdout=full, check=False, timeout=60).returncode == 1
