# SPDX-License-Identifier: MIT OR Apache-2.0
"""An own program as the workload: build, run, measurement, and each error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from swapstone.cli.main import cli
from swapstone.core.model import UserError
from swapstone.core.record import load
from swapstone.parts.build.artifacts.own_toolchain import installed_musl
from tests.e2e.cli import command, environment, fake, swapstone
from tests.programs import needs
from tests.raw_outputs import raw_text

needs_musl = needs("musl-gcc")

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char line[64] = "";
    unsigned long sum = 0, turns = argc > 1 ? strtoul(argv[1], 0, 10) : 1000000;
    for (volatile unsigned long i = 0; i < turns; i++) sum += i;
    if (!isatty(0) && fgets(line, sizeof line, stdin)) printf("read: %s", line);
    printf("name: %s\nhome: %s\nRequests/sec: %.1f\n", argc > 2 ? argv[2] : "none",
           getenv("HOME") ? getenv("HOME") : "none", 1000.0 / EXTRA);
    return getenv("STATUS") ? atoi(getenv("STATUS")) : 0;
}
"""
MAKEFILE = """
CC = cc
EXTRA = 1
prog: prog.c
\t$(CC) $(CFLAGS) -DEXTRA=$(EXTRA) -o $@ prog.c $(LDFLAGS)
clean:
\trm -f prog
"""
CXX_PROGRAM = r"""
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>
int main() {
    std::map<std::string, int> names;
    for (int i = 0; i < 100; i++) names[std::to_string(i)] = i;
    try { std::vector<int>().at(3); } catch (const std::out_of_range &) { names["caught"] = 1; }
    std::size_t count = 0;
    std::thread([&] { count = names.size(); }).join();
    std::cout << count << std::endl;
    return count != 101;
}
"""
BUILD = "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}"
RATE = "Requests/sec: +([0-9.]+)"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory, agents: Path) -> str:
    """One cache for all these tests. The agent is in it."""
    folder = tmp_path_factory.mktemp("own-cache")
    shutil.copytree(agents, folder / "swapstone/agents")
    return str(folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "prog.c").write_text(PROGRAM)
    (folder / "Makefile").write_text(MAKEFILE)
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the program as `old`, and as `new`, which prints half the rate."""
    folder = tmp_path_factory.mktemp("own-built")
    (folder / "prog.c").write_text(PROGRAM)
    for name, extra in (("old", 1), ("new", 2)):
        subprocess.run(["cc", "-O1", f"-DEXTRA={extra}", "-o", folder / name, folder / "prog.c"], check=True)
    return folder


def compare(
    records: Path, cache: str, *arguments: str, expect: int = 0, blocks: int = 2, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Compare into the record `records/r`. Most of these programs print what distinguishes them."""
    head = ("compare", "--blocks", str(blocks), "--out", str(records / "r"), "--seed", "5")
    may_differ = () if expect else ("--output-may-differ",)
    return swapstone(records, *head, *may_differ, *arguments, expect=expect, XDG_CACHE_HOME=cache, **changes)


def runs(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["run"] for line in (record / "runs.jsonl").read_text().splitlines()]


def values(run: dict[str, Any]) -> dict[str, float]:
    return {sample["metric"]: sample["values"][0] for sample in run["samples"]}


def output_of(record: Path, run: dict[str, Any]) -> str:
    return raw_text(record, run["output"])


@needs_musl
def test_a_program_is_built_for_each_c_library_and_observed(tmp_path: Path, cache: str, source: Path) -> None:
    (source / ".git").mkdir()
    (source / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    arguments = ("libc=glibc,musl", "--build", BUILD, "--source", "src", "--metric", f"req/s=regex:{RATE}", "--null")
    result = compare(tmp_path, cache, *arguments, "--", "./prog", "1000", "a name\n\u00fc")
    record = tmp_path / "r"
    found = runs(record)
    assert len(found) >= 15 and {run["status"] for run in found} == {"ok"}
    variants = {run["trial"]["variant"] for run in found}
    assert variants == {"libc=glibc", "libc=glibc (again)", "libc=musl"}  # an own program can't be relinked
    assert {(run["trial"]["variant"][:9], run["observed"][0][1]) for run in found} == {
        ("libc=glib", "glibc"),
        ("libc=musl", "musl"),
    }
    first = values(found[0])
    assert first["req/s"] == 1000.0
    assert first["cpu"] == first["user"] + first["system"]
    assert {"wall", "maxrss", "minflt", "majflt", "nvcsw", "nivcsw", "run_delay"} < first.keys()
    assert "name: a name\n\u00fc" in output_of(record, found[0])  # each argument unchanged
    manifest = json.loads((record / "manifest.json").read_text())
    paths = {artifact["path"] for artifact in manifest["artifacts"]}
    built = {path for path in paths if path.endswith("/tree/prog")}
    assert len(built) == 2 and len(paths) == 3 and len({len(path) for path in built}) == 1  # the third is a copy
    assert {len(dict(artifact["sizes"])) for artifact in manifest["artifacts"]} == {4}
    assert len({artifact["sha256"] for artifact in manifest["artifacts"]}) == 2
    assert len({artifact["sources"][0][1] for artifact in manifest["artifacts"]}) == 1
    assert any("musl-gcc" in name for name, _ in manifest["tools"])
    assert all(not (Path(path).parent / ".git").exists() for path in paths)
    assert "musl-gcc -O2 -g0" in (record / "builds" / "libc=musl.log").read_text()
    assert not (source / "prog").exists()  # the source folder is unchanged
    assert "program size" in result.stdout  # no row of time: those of a disturbed experiment are left out
    assert "req/s has no direction" in result.stdout


@pytest.mark.slow
@needs_musl
def test_every_command_works_on_a_record_of_an_own_program(tmp_path: Path, cache: str, source: Path) -> None:
    metric = f"req/s[1/s,higher]=regex:{RATE}"
    compare(
        tmp_path, cache, "libc=glibc,musl", "--build", BUILD, "--source", "src", "--metric", metric, "--", "./prog", "9"
    )
    record = tmp_path / "r"
    assert "\nreq/s\n" in swapstone(tmp_path, "show", "r", "--all").stdout
    assert "Whole and unaltered" in swapstone(tmp_path, "verify", "r").stdout
    swapstone(tmp_path, "report", "r", "--html")
    assert "req/s" in (record / "report.html").read_text()
    results = json.loads(swapstone(tmp_path, "export", "r", "--format", "hyperfine").stdout)["results"]
    assert [result["command"] for result in results] == ["./prog 9 [libc=glibc]", "./prog 9 [libc=musl]"]
    assert all(result["exit_codes"] == [0, 0] and result["user"] is not None for result in results)
    assert results[1]["parameters"]["libc"] == "musl"
    assert "BenchmarkProg/libc=musl" in swapstone(tmp_path, "export", "r", "--format", "benchstat").stdout
    assert "req/s" in swapstone(tmp_path, "export", "r", "--format", "csv").stdout
    listed = swapstone(tmp_path, "list", "records").stdout
    assert "libc=glibc,musl -- ./prog 9" in listed
    sql = "SELECT DISTINCT value FROM samples WHERE metric = 'req/s'"
    assert json.loads(swapstone(tmp_path, "query", sql, "--json").stdout)["rows"] == [{"value": 1000.0}]
    again = swapstone(tmp_path, "rerun", "r", "--out", str(tmp_path / "again"), XDG_CACHE_HOME=cache)
    assert "Machine, tools and programs were the same both times" in again.stdout
    (source / "prog.c").write_text(PROGRAM.replace("1000.0", "2000.0"))
    other = swapstone(tmp_path, "rerun", "r", "--out", str(tmp_path / "other"), XDG_CACHE_HOME=cache)
    assert "2 of 2 programs differ" in other.stdout


def test_two_prebuilt_programs_are_compared(tmp_path: Path, cache: str, built: Path) -> None:
    programs = ("--program", f"baseline={built}/old", "--program", f"candidate={built}/new")
    metric = f"req/s[1/s,higher]=regex:{RATE}"
    result = compare(tmp_path, cache, *programs, "--metric", metric, "--", "20000", "x", blocks=8)
    found = runs(tmp_path / "r")
    assert {run["status"] for run in found} == {"ok"}
    assert {(run["trial"]["variant"], values(run)["req/s"]) for run in found} == {
        ("program=baseline", 1000.0),
        ("program=candidate", 500.0),
    }
    assert "candidate against baseline" in result.stdout
    analysis = json.loads(swapstone(tmp_path, "show", "r", "--json").stdout)["analysis"]
    (row,) = [row for row in analysis["comparisons"] if row["metric"]["name"] == "req/s"]
    assert (row["verdict"], row["effect"]) == ("worse", 0.5)


def test_path_length_does_not_move_the_stack(tmp_path: Path, cache: str, built: Path) -> None:
    source = tmp_path / "where.c"
    source.write_text(r"""
        #include <stdio.h>
        #include <string.h>
        #include <sys/auxv.h>
        int main(int count, char **arguments) {
            const char *last = (const char *)getauxval(AT_EXECFN);  /* the last of the strings on the stack */
            printf("%ld\n", (long)(last + strlen(last) - arguments[0]));
            return count != 1;
        }""")
    for name in ("w", "a-much-longer-name"):
        subprocess.run(["cc", "-O1", "-o", tmp_path / name, source], check=True)
    programs = ("--program", "baseline=./w", "--program", "candidate=./a-much-longer-name")
    compare(tmp_path, cache, *programs, "--metric", r"gap=regex:(\d+)")
    gaps = {values(run)["gap"] for run in runs(tmp_path / "r")}
    assert len(gaps) == 1  # arguments and environment have the same length for each path


def test_input_environment_and_hook_commands_are_applied(tmp_path: Path, cache: str, built: Path) -> None:
    (tmp_path / "in put").write_text("from the file\n")
    programs = ("--program", f"a={built}/old", "--program", f"b={built}/new")
    around = (
        "--setup",
        "echo setup $HOME >> log",
        "--prepare",
        "echo prepare >> log",
        "--conclude",
        "echo end >> log",
        "--output-may-differ",
    )
    compare(tmp_path, cache, *programs, "--input", "in put", "--env", "HOME=/here", *around, "--", "5", blocks=1)
    text = output_of(tmp_path / "r", runs(tmp_path / "r")[0])
    assert "read: from the file" in text and "home: /here" in text
    lines = (tmp_path / "log").read_text().split()
    assert lines.count("setup") == 2 and lines.count("/here") == 2
    assert lines.count("prepare") == lines.count("end") == len(runs(tmp_path / "r"))


def test_a_program_inherits_no_standard_input_and_the_home_of_the_shell(
    tmp_path: Path, cache: str, built: Path
) -> None:
    compare(tmp_path, cache, "--program", f"a={built}/old", "--program", f"b={built}/new", "--", "5", blocks=1)
    text = output_of(tmp_path / "r", runs(tmp_path / "r")[0])
    printed = text.partition("--- observed")[0]
    assert "read:" not in printed and f"home: {os.environ['HOME']}" in printed


@pytest.mark.slow
def test_output_can_be_discarded_and_failures_ignored(tmp_path: Path, cache: str) -> None:
    for name, status in (("a", 3), ("b", 4)):
        (tmp_path / name).write_text(f"#!/bin/sh\necho 7 >&2\nyes | head -c 20000000\nexit {status}\n")
        (tmp_path / name).chmod(0o755)
    programs = ("--program", "a=a", "--program", "b=./b", "--ignore-failure")
    compare(tmp_path, cache, *programs, "--output", "null", "--metric", r"n=regex:(\d)", blocks=1)
    found = runs(tmp_path / "r")
    assert {(values(run)["n"], values(run)["exit_status"]) for run in found} == {(7.0, 3.0), (7.0, 4.0)}
    results = json.loads(swapstone(tmp_path, "export", "r", "--format", "hyperfine").stdout)["results"]
    assert [result["exit_codes"] for result in results] == [[3], [4]]
    shutil.rmtree(tmp_path / "r")
    flood = compare(tmp_path, cache, *programs, blocks=1, expect=4)
    assert "it printed more than 16384 KiB and was stopped" in flood.stderr and "--output null" in flood.stderr


def test_pin_and_cpu_bound_take_effect(tmp_path: Path, cache: str, built: Path) -> None:
    programs = ("--program", f"a={built}/old", "--program", f"b={built}/new")
    compare(tmp_path, cache, *programs, "--pin", "--cpu-bound", "--", "5")
    assert {dict(run["facts"])["cpus_allowed"] for run in runs(tmp_path / "r")} == {1}
    analysis = json.loads(swapstone(tmp_path, "show", "r", "--json").stdout)["analysis"]
    leading = {row["metric"]["name"] for row in analysis["comparisons"] if row["metric"]["leads"]}
    assert leading == {"cpu"}


@needs_musl
@pytest.mark.parametrize("typed", ["CFLAGS={cflags}", "'CFLAGS={cflags}'", '"CFLAGS={cflags}"'])
def test_build_placeholders_work_inside_any_quotes(tmp_path: Path, cache: str, source: Path, typed: str) -> None:
    build = f'X="a b"; make CC={{cc}} {typed} && test "$X" = "a b" && test "${{X}}" = "a b"'
    compare(tmp_path, cache, "libc=glibc,musl", "--build", build, "--source", "src", "--", "./prog", "5", blocks=1)
    assert {run["status"] for run in runs(tmp_path / "r")} == {"ok"}
    assert "cc -O2 -g0 -frecord-gcc-switches" in (tmp_path / "r" / "builds" / "libc=glibc.log").read_text()


@needs_musl
def test_a_script_is_observed_through_the_program_it_executes(tmp_path: Path, cache: str, source: Path) -> None:
    for name, word in (("runs", "exec"), ("keeps", "")):
        (source / name).write_text(f'#!/bin/sh\n{word} ./prog "$@"\nexit\n')
        (source / name).chmod(0o755)
    arguments = ("libc=glibc,musl", "--build", BUILD, "--source", "src", "--")
    compare(tmp_path, cache, *arguments, "runs", "5", blocks=1)
    assert {run["status"] for run in runs(tmp_path / "r")} == {"ok"}
    shutil.rmtree(tmp_path / "r")
    result = compare(tmp_path, cache, *arguments, "./keeps", "5", expect=4)
    assert "libc=musl was requested, but glibc was in force" in result.stderr  # that of the shell


@needs_musl
def test_a_failed_build_prints_its_output(tmp_path: Path, cache: str, source: Path) -> None:
    makefile = (
        "prog: prog.c\n\t@echo made by $(CC)\n\t@case '$(CC)' in *musl*) exit 7;; esac\n\t$(CC) -DEXTRA=1 -o $@ $<\n"
    )
    (source / "Makefile").write_text(makefile)
    arguments = ("libc=glibc,musl", "--build", "make CC={cc}", "--source", "src", "--", "./prog")
    result = compare(tmp_path, cache, *arguments, expect=4)
    log = tmp_path / "r" / "builds" / "libc=musl.log"
    assert (
        "The first reason, for prog with libc=musl: it does not build: The build failed: make CC=musl-gcc\nmade by musl-gcc\n"
        in result.stderr
    )
    assert f"The log: {log}" in result.stderr
    assert "$ make CC=musl-gcc\nmade by musl-gcc\n" in log.read_text()


@needs_musl
def test_a_build_that_ignores_cc_is_refused_with_a_hint(tmp_path: Path, cache: str, source: Path) -> None:
    build = "echo 'char name[] = \"{cc}\";' > name.c && cc {cflags} -DEXTRA=1 -o prog prog.c name.c {ldflags}"
    arguments = ("libc=glibc,musl", "--build", build, "--source", "src", "--", "./prog", "5")
    result = compare(tmp_path, cache, *arguments, expect=4)
    assert "libc=musl was requested, but glibc was in force" in result.stderr
    assert "does the build ignore {cc}" in result.stderr and "GCC: (" in result.stderr
    assert "refused" in {run["status"] for run in runs(tmp_path / "r")} <= {"ok", "refused"}
    assert "invalid" in swapstone(tmp_path, "show", "r").stdout


@needs_musl
@pytest.mark.parametrize("build", ["make", "cp prog.c x.c && make x CC={cc} && cp x prog"])
def test_a_plain_make_finds_compiler_and_flags_in_the_environment(
    tmp_path: Path, cache: str, source: Path, build: str
) -> None:
    (source / "Makefile").write_text("prog x: %: %.c\n\t$(CC) $(CFLAGS) -DEXTRA=1 -o $@ $< $(LDFLAGS)\n")
    arguments = ("libc=glibc,musl", "optimization=O1,O3", "--build", build, "--source", "src", "--", "./prog", "5")
    compare(tmp_path, cache, *arguments, blocks=1)
    found = runs(tmp_path / "r")
    assert {run["status"] for run in found} == {"ok"}
    assert {tuple(map(tuple, run["observed"])) for run in found} == {
        (("libc", libc), ("optimization", level)) for libc in ("glibc", "musl") for level in ("O1", "O3")
    }


def test_flags_that_the_command_replaces_are_reported_before_the_build(
    tmp_path: Path, cache: str, source: Path
) -> None:
    (source / "Makefile").write_text("CFLAGS = -DEXTRA=1\nprog: prog.c\n\t$(CC) $(CFLAGS) -o $@ $<\n")
    arguments = ("optimization=O1,O3", "--build", "make CC={cc} CFLAGS={cflags}", "--source", "src", "--", "./prog")
    error = compare(tmp_path, cache, *arguments, expect=4).stderr
    assert error.index("replaces the CFLAGS of Makefile, which has -DEXTRA=1") < error.index("building")
    assert 'CFLAGS="{cflags} -DEXTRA=1"' in error


@pytest.mark.slow
@needs_musl
def test_compilers_and_c_libraries_by_path_are_crossed_and_observed(tmp_path: Path, cache: str, source: Path) -> None:
    musl = installed_musl()
    shutil.copytree(musl.headers[0], tmp_path / "tree" / "include")
    shutil.copytree(musl.objects, tmp_path / "tree" / "lib", symlinks=True)
    gcc, tree = str(shutil.which("gcc")), str((tmp_path / "tree").resolve())
    (source / "Makefile").write_text("prog: prog.c\n\t$(CC) $(CFLAGS) -DEXTRA=1 -o $@ $< $(LDFLAGS)\n")
    levels = (f"libc=glibc,{tree}", "linking=dynamic,static", f"compiler={gcc},{gcc} -fno-plt")
    compare(tmp_path, cache, *levels, "--build", "make", "--source", "src", "--", "./prog", "5", blocks=1)
    found = runs(tmp_path / "r")
    assert {run["status"] for run in found} == {"ok"}
    assert {tuple(level for _, level in run["observed"]) for run in found} == {
        (libc, linking, compiler)
        for libc in ("glibc", tree)
        for linking in ("dynamic", "static")
        for compiler in (gcc, f"{gcc} -fno-plt")
    }
    tools = dict(json.loads((tmp_path / "r" / "manifest.json").read_text())["tools"])
    assert tools[f"C library {tree}"].startswith("musl, libc.so with SHA-256 ")
    assert "SHA-256" in tools[f"compiler {gcc} -fno-plt"]


BOTH_LIBRARIES = ("libc=glibc,musl", "linking=dynamic,static", "compiler=gcc,clang", "optimization=O2,O3")


@pytest.mark.slow
@needs_musl
@needs("clang++")
@pytest.mark.parametrize(
    ("levels", "variants"),
    [
        (("linking=dynamic,static", "compiler=gcc,clang"), 4),
        # tests/unit/artifacts/test_libstdcxx.py builds a small library for musl and links it.
        pytest.param(BOTH_LIBRARIES, 16, marks=pytest.mark.exhaustive),
    ],
    ids=["glibc", "both C libraries"],
)
def test_cxx_with_exceptions_and_threads_is_built_by_both_compilers(
    tmp_path: Path, levels: tuple[str, ...], variants: int
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "prog.cc").write_text(CXX_PROGRAM)
    build = "{cxx} {cxxflags} -pthread -o prog prog.cc {ldflags}"
    # The user's cache: building the C++ library takes minutes.
    arguments = ("compare", *levels, "--blocks", "1", "--out", "r", "--source", "src", "--build", build, "--", "./prog")
    swapstone(tmp_path, *arguments)
    found = [run["status"] for run in runs(tmp_path / "r")]
    assert set(found) == {"ok"} and len(found) >= 3 * variants


@needs_musl
def test_a_makefile_with_a_compiler_of_its_own_is_refused_before_the_first_trial(
    tmp_path: Path, cache: str, source: Path
) -> None:
    (source / "Makefile").write_text("CC = cc\nprog: prog.c\n\t$(CC) -DEXTRA=1 -o $@ $<\n")
    arguments = ("libc=glibc,musl", "--build", "make", "--source", "src", "--", "./prog")
    result = compare(tmp_path, cache, *arguments, expect=2)
    assert "The build gave the same program for libc=glibc and libc=musl" in result.stderr
    assert "make CC={cc} CFLAGS={cflags}" in result.stderr


def test_a_program_that_fails_on_one_variant_is_reported_with_its_output(
    tmp_path: Path, cache: str, built: Path
) -> None:
    (tmp_path / "bad").write_text("#!/bin/sh\necho some output\necho cannot find my hat >&2\nexit 9\n")
    (tmp_path / "bad").chmod(0o755)
    programs = ("--program", f"a={built}/old", "--program", f"b={built}/new", "--program", "c=./bad")
    result = compare(tmp_path, cache, *programs, "--", "5", blocks=4, expect=4)
    found = runs(tmp_path / "r")
    bad = [run for run in found if run["trial"]["variant"] == "program=c"]
    assert len(bad) < 9 and {run["status"] for run in bad} == {"failed"}  # no further trials after three failures
    assert len([run for run in found if run["status"] == "ok"]) >= 18
    assert "cannot find my hat" in result.stdout and "it ended with status 9" in result.stdout
    assert "some output" in output_of(tmp_path / "r", bad[0])


def test_a_failing_baseline_stops_the_comparison_and_prints_the_output(tmp_path: Path, cache: str, built: Path) -> None:
    programs = ("--program", f"a={built}/old", "--program", f"b={built}/new", "--env", "STATUS=4", "--budget", "10m")
    result = compare(tmp_path, cache, *programs, "--", "5", expect=4, blocks=50)
    assert "program can't be measured with program=" in result.stderr and "it ended with status 4" in result.stderr
    assert "Requests/sec: " in result.stderr and "--ignore-failure" in result.stderr
    assert len(runs(tmp_path / "r")) <= 2


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("Nothing: ([0-9]+)", "matches nothing that it printed"),
        ("([a-z]+): ?", "matches 3 times in its standard output, first in lines 1, 2, 3"),
        ("name: ([a-z]+)", "finds 'none', which is no number"),
        ("Requests/sec: +([0-9])", "finds '1', which is only a part of '1000.0'"),
    ],
)
def test_a_metric_pattern_that_does_not_fit_the_output_is_an_error(
    tmp_path: Path, cache: str, built: Path, pattern: str, words: str
) -> None:
    programs = ("--program", f"a={built}/old", "--program", f"b={built}/old2", "--metric", f"n=regex:{pattern}")
    shutil.copy(built / "old", built / "old2")
    result = compare(tmp_path, cache, *programs, "--", "5", expect=4, blocks=30)
    assert words in result.stderr
    assert "home: " in result.stderr  # its first lines
    assert all(not run["samples"] for run in runs(tmp_path / "r"))


def test_a_program_that_needs_a_terminal_fails_with_a_hint(tmp_path: Path, cache: str) -> None:
    (tmp_path / "a").write_text("#!/bin/sh\ntty || exit 1\n")
    (tmp_path / "a").chmod(0o755)
    shutil.copy(tmp_path / "a", tmp_path / "b")
    result = compare(tmp_path, cache, "--program", "a=a", "--program", "b=b", expect=4)
    assert "it seems to need a terminal and finds none" in result.stderr and "script -qec" in result.stderr
    assert "not a tty" in result.stderr


@pytest.mark.parametrize("name", ["setup", "prepare", "conclude"])
def test_a_failing_hook_command_fails_the_trial(tmp_path: Path, cache: str, built: Path, name: str) -> None:
    programs = ("--program", f"a={built}/old", "--program", f"b={built}/new")
    result = compare(tmp_path, cache, *programs, f"--{name}", "echo no room; exit 5", "--", "5", expect=4)
    assert f"its --{name} command failed: it ended with status 5" in result.stderr and "no room" in result.stderr
    assert {run["status"] for run in runs(tmp_path / "r")} == {"failed"}


def test_a_time_out_fails_the_trial_with_a_hint(tmp_path: Path, cache: str) -> None:
    arguments = ("--program", "a=/bin/sleep", "--program", "b=sleep2", "--timeout", "200ms", "--", "5")
    (tmp_path / "sleep2").symlink_to("/bin/sleep")
    result = compare(tmp_path, cache, *arguments, expect=4)
    assert "it did not end within its time and was stopped" in result.stderr and "--timeout" in result.stderr


def test_a_program_changed_during_the_comparison_is_refused(tmp_path: Path, cache: str, built: Path) -> None:
    for name in ("old", "new"):
        shutil.copy(built / name, tmp_path / name)
    programs = ("--program", "a=./old", "--program", "b=./new", "--program", f"c={built}/new")
    # --conclude touches the program `new`, as an installation would.
    result = compare(tmp_path, cache, *programs, "--conclude", "touch new", "--", "5", blocks=4, expect=4)
    found = runs(tmp_path / "r")
    changed = [run for run in found if run["status"] == "refused"]
    assert {run["trial"]["variant"] for run in changed} == {"program=b"}
    assert "new was changed since the comparison began" in changed[0]["reason"]
    assert "invalid" in result.stdout


def test_a_program_that_executes_another_is_refused(tmp_path: Path, cache: str, built: Path) -> None:
    (tmp_path / "env").symlink_to("/usr/bin/env")
    programs = ("--program", f"a={built}/old", "--program", "b=./env", "--", str(built / "new"), "5")
    result = compare(tmp_path, cache, *programs, expect=4)
    assert "program=b was requested, but another program," in result.stderr


@pytest.mark.slow
@needs_musl
def test_resume_after_sigint_completes_the_record_from_clean_copies(tmp_path: Path, cache: str, source: Path) -> None:
    record = tmp_path / "r"
    # --prime fixes the number of runs: else a busy machine can look like a dependence on earlier runs, and more are discarded.
    exact = ("--blocks", "40", "--prime", "1")
    arguments = ("compare", "libc=glibc,musl", "--build", BUILD, "--source", "src", *exact, "--out", "r")
    process = subprocess.Popen(
        command(*arguments, "--", "./prog", "3000000"),
        env=environment(tmp_path, XDG_CACHE_HOME=cache),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (record / "runs.jsonl").exists() or (record / "runs.jsonl").read_bytes().count(b"\n") < 12:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "\nelapsed time " in out and "compare --resume" in err
    made = len(runs(record))
    assert 12 <= made < 162
    for copy in (Path(cache) / "own").glob("*/tree"):
        (copy / "file of a trial").write_text("x")
    elsewhere = swapstone(tmp_path, "compare", "--resume", "r", "--", "./prog", expect=2, XDG_CACHE_HOME=cache)
    assert "it takes no program" in elsewhere.stderr
    swapstone(tmp_path, "compare", "--resume", "r", XDG_CACHE_HOME=cache)
    view = load(record)
    assert len(view.runs) >= 162 and view.damages == () and {run.status.value for run in view.runs} == {"ok"}
    mine = {Path(artifact.path).parent for artifact in (view.manifest.artifacts if view.manifest else ())}
    assert mine and not any(
        (copy / "file of a trial").exists() for copy in mine
    )  # a resumed experiment has clean copies


@needs_musl
def test_resume_refuses_changed_sources(tmp_path: Path, cache: str, source: Path) -> None:
    arguments = ("libc=glibc,musl", "--build", BUILD, "--source", "src", "--", "./prog", "5")
    compare(tmp_path, cache, *arguments, blocks=1)
    (source / "prog.c").write_text(PROGRAM.replace("1000.0", "2000.0"))
    refused = swapstone(tmp_path, "compare", "--resume", "r", "--budget", "2m", expect=2, XDG_CACHE_HOME=cache)
    assert "can't be resumed: 2 of 2 programs differ" in refused.stderr


@pytest.mark.slow
@needs_musl
def test_records_inside_the_source_folder_are_not_copied(tmp_path: Path, cache: str, source: Path) -> None:
    head = ("compare", "libc=glibc,musl", "--build", BUILD, "--source", ".", "--blocks", "1")
    digests = set()
    for number in (1, 2):
        out = f"records/{number}"
        swapstone(source, *head, "--out", out, "--", "./prog", "5", XDG_CACHE_HOME=cache)
        manifest = json.loads((source / out / "manifest.json").read_text())
        digests |= {artifact["sources"][0][1] for artifact in manifest["artifacts"]}
        for artifact in manifest["artifacts"]:
            assert not list((Path(artifact["path"]).parent / "records").glob("*"))
    assert len(digests) == 1  # the second build is a cache hit


BAD: list[tuple[list[str], str, str]] = [
    (["libc=glibc,musl", "--"], "There is no program after --", "--build 'make"),
    (["libc=glibc,musl", "--build", "make CC={cc}", "--", "./prog"], "--build needs --source", "--source DIR"),
    (["libc=glibc,musl", "--source", "src", "--", "./prog"], "--source needs --build", "--build 'make"),
    (["libc=glibc,musl", "--build", " ", "--source", "src", "--", "./prog"], "--build is empty", "--build 'make"),
    (
        ["libc=glibc,musl", "--build", "cc -o prog file", "--source", "src", "--", "./prog"],
        "libc differ in {cc}",
        "CC={cc}",
    ),
    (
        ["libc=glibc,musl", "--build", "make CC={cxy}", "--source", "src", "--", "./prog"],
        "placeholder {cxy}",
        "{cc} (the C compiler's command)",
    ),
    (["libc=glibc,musl", "--build", "make {cc}", "--source", "no", "--", "./prog"], "is not there", "--source"),
    (["libc=glibc,musl", "--build", "make {cc}", "--source", "file", "--", "./prog"], "is no folder", "--source"),
    (["libc=glibc,musl", "--build", "make {cc}", "--source", "empty", "--", "./prog"], "is empty", "--source"),
    (["libc=glibc,musl", "--build", "make {cc}", "--source", "src", "--", "../x"], "leads out of the copy", "inside"),
    (["libc=glibc,musl", "--", "./file"], "The factor libc acts when a program is built", "--build 'make"),
    (["libc=glibc,musl", "--build", "make {cc}"], "--build needs an own program", "after --"),
    (["libc=glibc,musl", "--env", "A=b"], "--env needs an own program", "after --"),
    (["libc=glibc,musl", "--cpu-bound"], "--cpu-bound needs an own program", "after --"),
    (["--program", "a=/bin/true", "--program", "b=/nowhere", "--", "x"], "There is no program /nowhere", "--build"),
    (["--program", "a=sleep 1", "--program", "b=sleep 2"], "sleep 1", "swapstone compare 'COMMAND' 'COMMAND'"),
    (["--program", "a=/bin/true", "--program", "b=./file"], "can't be executed", "chmod +x"),
    (["--program", "a=/bin/true", "--program", "b=./src"], "is no file that can be executed", "itself"),
    (["--program", "a=/bin/true"], "One --program alone", "--program candidate=./new"),
    (["--program", "a=/bin/true", "--program", "a=/bin/false"], "the same name a", "--null"),
    (["--program", "a=/bin/true", "--program", "b=/bin/true"], "the same program /bin/true", "--null"),
    (["--program", "/bin/true", "--program", "b=/bin/true"], "is not NAME=PATH", "baseline=./old"),
    (["--program", "a,b=/bin/true", "--program", "b=/bin/true"], "is not NAME=PATH", "baseline=./old"),
    (
        ["--program", "a=/bin/true", "--program", "b=/bin/ls", "--build", "x", "--source", "src"],
        "takes programs that are built already",
        "one or the other",
    ),
    (["program=a,b", "--", "/bin/true"], "The levels of the factor program", "--program baseline=./old"),
    (["libc=glibc,musl", "--suite", "libc", "--", "/bin/true"], "--suite chooses among", "Leave --suite out"),
    (["libc=glibc,musl", "--only", "b*", "--", "/bin/true"], "--only chooses among", "Leave --only out"),
    (["libc=glibc,musl", "--metric", "x", "--", "/bin/true"], "is not NAME[UNIT,DIRECTION]=regex", "req/s[1/s,higher]"),
    (["libc=glibc,musl", "--metric", "x=regex:(", "--", "/bin/true"], "no regular expression", "req/s[1/s,higher]"),
    (["libc=glibc,musl", "--metric", "x=regex:1", "--", "/bin/true"], "has 0 groups; it needs one", "(?:...)"),
    (["libc=glibc,musl", "--metric", "x=regex:(1)(2)", "--", "/bin/true"], "has 2 groups; it needs one", "(?:...)"),
    (["libc=glibc,musl", "--metric", "wall=regex:(1)", "--", "/bin/true"], "can't be named 'wall'", "another name"),
    (["libc=glibc,musl", "--metric", "x[a,b]=regex:(1)", "--", "/bin/true"], "more than a unit and a", "higher"),
    (
        ["libc=glibc,musl", "--metric", "x=regex:(1)", "--metric", "x=regex:(2)", "--", "/bin/true"],
        "the name x",
        "its own name",
    ),
    (["libc=glibc,musl", "--input", "no", "--", "/bin/true"], "--input no is not there", "Name a file"),
    (["libc=glibc,musl", "--input", "src", "--", "/bin/true"], "--input src is no file", "Name a file"),
    (["libc=glibc,musl", "--output", "no/x", "--", "/bin/true"], "--output no/x can't be written", "null"),
    (["libc=glibc,musl", "--env", "A", "--", "/bin/true"], "--env 'A' is not NAME=VALUE", "--env HOME="),
    (["libc=glibc,musl", "--timeout", "soon", "--", "/bin/true"], "'soon' is not a duration", "90s"),
    (["libc=glibc,musl", "--", "./\udcff"], "is not UTF-8", "script"),
    (["--resume", "last", "--pin"], "it takes no --pin", "--budget"),
]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_an_input_error_has_a_hint_and_creates_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str, hint: str
) -> None:
    for folder in ("empty", "src"):
        (tmp_path / folder).mkdir()
    for file in ("file", "src/file"):
        (tmp_path / file).write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        cli.main(["compare", *arguments], prog_name="swapstone", standalone_mode=False)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "src"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_source_file_is_named(tmp_path: Path, cache: str, source: Path) -> None:
    (source / "secret").write_text("x")
    (source / "secret").chmod(0)
    arguments = ("libc=glibc,musl", "--build", BUILD, "--source", "src", "--", "./prog")
    assert "secret can't be read" in compare(tmp_path, cache, *arguments, expect=2).stderr


def test_the_fake_target_refuses_an_own_program(tmp_path: Path, cache: str) -> None:
    programs = ("--program", "a=/bin/true", "--program", "b=/bin/false")
    result = compare(tmp_path, cache, *programs, "--target", fake(tmp_path), expect=2)
    assert "it can't simulate a program of yours" in result.stderr and "Leave --target out" in result.stderr


@needs_musl
@pytest.mark.parametrize(
    ("makefile", "words"),
    [
        (
            "prog:\n\t$(CC) $(CFLAGS) -DEXTRA=1 -o other prog.c\n\tcp other a.x\n",
            "Programs in its copy: ./a.x, ./other",
        ),
        ("prog:\n\t: $(CC)\n", "Programs in its copy: none"),
        ("prog:\n\t$(CC) -DEXTRA=1 -o prog prog.c\n\tchmod -x prog\n", "is not executable"),
        ("prog:\n\techo $(CC)\n\tsleep 300\n", "The build did not end within 1 s"),
    ],
)
def test_a_build_without_an_executable_is_an_error(
    tmp_path: Path, cache: str, source: Path, makefile: str, words: str
) -> None:
    (source / "Makefile").write_text(makefile)
    arguments = (
        "libc=glibc,musl",
        "--build",
        "make CC={cc} CFLAGS={cflags}",
        "--source",
        "src",
        "--build-timeout",
        "1s" if "sleep" in makefile else "10m",
    )
    result = compare(tmp_path, cache, *arguments, "--", "./prog", expect=4)
    assert words in result.stderr
    assert f"The log: {tmp_path}/r/builds/libc=glibc.log" in result.stderr


@needs_musl
def test_a_program_that_the_build_left_unchanged_is_refused(tmp_path: Path, cache: str, source: Path) -> None:
    subprocess.run(["make", "-C", source], check=True, capture_output=True)
    arguments = ("libc=glibc,musl", "--source", "src", "--build")
    result = compare(tmp_path, cache, *arguments, BUILD, "--", "./prog", "5", expect=4)
    assert "The build did not change ./prog" in result.stderr
    shutil.rmtree(tmp_path / "r")
    compare(tmp_path, cache, *arguments, f"make clean && {BUILD}", "--", "./prog", "5", blocks=1)
    assert {run["status"] for run in runs(tmp_path / "r")} == {"ok"}


def test_help_groups_the_options_and_has_an_example(tmp_path: Path) -> None:
    text = swapstone(tmp_path, "compare", "--help").stdout
    for heading in ("Your own program:", "How it runs and what it prints:", "Measuring:", "Record:"):
        assert heading in text
    assert "\\b" not in text
    assert "swapstone compare --program baseline=./old --program candidate=./new -- ARG\n" in text
    assert "[-- PROGRAM ARG...]" in " ".join(text.split())
    for option in ("--build ", "--source ", "--metric ", "--prepare ", "--suite ", "--resume "):
        assert option in text
