# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each workload is built and run with both C libraries: format of the report, and equal checksums."""

import subprocess
import urllib.parse
from pathlib import Path

import pytest

from swapstone.core.model import Source, Workload
from swapstone.core.workloads import all_suites, find_workload
from swapstone.parts.build.artifacts.workload_build import EMPTY_PROGRAMS, build_empty, build_workload
from tests.unit.builders import source_of
from tests.unit.workloads.programs import LEVELS, REPORT, SOURCES, Programs, kind_of_program, recipe_for, run, sampled

EVERY = [
    workload
    for suite in all_suites()
    for workload in suite.workloads
    if isinstance(workload.origin, Source) and workload.origin.harness
]
KIB = 1024


def measure(program: Path, passes: int, workload: Workload, cwd: Path) -> dict[str, str]:
    result = run(program, str(passes), *workload.arguments, cwd=cwd)
    match = REPORT.fullmatch(result.stdout)
    assert match, result.stdout + result.stderr
    assert (result.returncode, result.stderr) == (0, "")
    assert urllib.parse.unquote(match["name"]) == workload.name
    assert match["passes"] == str(passes)
    assert match["lines"].count("\n") == passes
    assert int(match["virt"]) >= int(match["res"]) >= int(match["dirty"]) > 0
    assert f"mapped {program}\n" in match["mapped"]
    assert "/dev/zero" not in match["mapped"]
    return match.groupdict()


SHORT = {"b_malloc_tiny1", "b_malloc_thread_stress", "b_stdio_putcgetc", "getline", "exec", "pipe"}
"""Workloads of the short tests. All together are minutes of compiling on a new machine."""


@pytest.mark.parametrize(
    "workload",
    sampled(EVERY, kind_of_program, [workload for workload in EVERY if workload.name in SHORT]),
    ids=lambda workload: workload.name,
)
def test_checksums_are_equal_for_both_libraries_and_any_number_of_passes(
    workload: Workload, tmp_path: Path, exhaustive: bool
) -> None:
    # Both numbers of passes with one library: the other one differs in the library alone.
    counts = {"glibc": (1, 2), "musl": (1, 2) if exhaustive else (1,)}
    measured = [
        (level, measure(build_workload(workload, recipe_for(level)).path, passes, workload, tmp_path))
        for level in LEVELS
        for passes in counts[level]
    ]
    reports = [report for _, report in measured]
    assert len({report["check"] for report in reports}) == 1
    assert len({report["ops"] for report in reports}) == 1
    for level, report in measured:
        assert {"glibc": "/libc.so.6\n", "musl": "/libc.so\n"}[level] in report["mapped"]
    assert list(tmp_path.iterdir()) == []


# Published memory at the end, in KiB of (glibc, musl), and relative tolerance. The published processor and glibc version differ.
IN_KIND = {
    "b_malloc_sparse": {"virt": ((38992, 8480), 0.02), "dirty": ((38976, 8480), 0.02)},
    "b_malloc_bubble": {"virt": ((39364, 156), 0.02)},
    "b_malloc_tiny1": {"virt": ((688, 32), 0.15)},
    "b_malloc_tiny2": {"virt": ((688, 628), 0.15), "res": ((568, 604), 0.15)},
    "b_malloc_big2": {"virt": ((80192, 87404), 0.02), "res": ((8044, 16072), 0.02), "dirty": ((8040, 13052), 0.02)},
    "b_pthread_uselesslock": {"virt": ((8352, 16), 0.02)},
    "b_regex_compile": {"virt": ((160, 40), 0.5)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_KIND)
def test_memory_agrees_with_the_published_figures(name: str, programs: Programs, tmp_path: Path) -> None:
    workload = find_workload("libc", name)
    for index, level in enumerate(LEVELS):
        report = measure(build_workload(workload, recipe_for(level)).path, 1, workload, tmp_path)
        for metric, (published, tolerance) in IN_KIND[name].items():
            assert int(report[metric]) / KIB == pytest.approx(published[index], rel=tolerance)


@pytest.mark.parametrize("empty", EMPTY_PROGRAMS, ids=lambda empty: empty.name)
@pytest.mark.parametrize("level", LEVELS)
def test_the_empty_program_exits_with_0(level: str, empty: Workload, programs: Programs) -> None:
    program = build_empty(empty, recipe_for(level)).path
    assert subprocess.run([program], check=False, timeout=60).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_a_static_workload_runs(level: str, programs: Programs, tmp_path: Path) -> None:
    workload, target = find_workload("libc", "b_malloc_sparse"), tmp_path / "prog"
    programs.compile(level, "-static", SOURCES / source_of(workload).file, SOURCES / "harness.c", "-o", target)
    assert measure(target, 2, workload, tmp_path)["mapped"] == f"mapped {target}\n"


def test_a_file_that_is_written_in_part_is_no_success(tmp_path: Path) -> None:
    """The kernel writes up to the limit of a file's size, or what there is room for; errno stays as it was."""
    workload = find_workload("os", "lat_fs(create,10240)")
    program = build_workload(workload, recipe_for("glibc")).path
    result = run(Path("/usr/bin/prlimit"), "--fsize=5000", str(program), "1", *workload.arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert "error only%20a%20part%20of%20a%20file%20was%20written" in result.stdout
