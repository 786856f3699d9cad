# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exit statuses of `compare` and `study`: 3 where a candidate is worse, 4 where a variant gave no result."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import swapstone as api
from tests.e2e.cli import FAKE, TOP, command, environment, swapstone

WORSE = FAKE  # musl takes 1.5 times as long
BETTER = FAKE.replace("wall_ns = 3_000_000", "wall_ns = 1_000_000")
MORE_MEMORY = FAKE.replace(
    "wall_ns = 3_000_000", "wall_ns = 2_000_000\nres_bytes = 1_048_576\nmaxrss_bytes = 8_388_608"
)
CRASHES = FAKE + 'faults = [{ kind = "crash", probability = 1.0 }]\n'
WRONG_LEVEL = FAKE + 'faults = [{ kind = "wrong-level", probability = 1.0 }]\n'
ONE_CRASHES = FAKE + (
    '[[behaviour]]\nvariant = "libc=musl*"\nworkload = "b_malloc_tiny2"\nwall_ns = 2_000_000\n'
    'faults = [{ kind = "crash", probability = 1.0 }]\n'
)
ONE = ("--only", "b_malloc_tiny1")
TWO = (*ONE, "--only", "b_malloc_tiny2")


def _compare(folder: Path, spec: str, *more: str, expect: int, only: tuple[str, ...] = ONE) -> tuple[str, str]:
    (folder / "fake.toml").write_text(spec)
    target = ("--target", "fake:fake.toml", "--seed", "5", "--blocks", "12")
    result = swapstone(folder, "compare", "libc=glibc,musl", *target, *only, *more, expect=expect)
    return result.stdout, result.stderr.splitlines()[-1] if result.stderr else ""


def test_a_difference_alone_is_no_failure(tmp_path: Path) -> None:
    _, last = _compare(tmp_path, WORSE, expect=0)
    assert "Exit status" not in last


@pytest.mark.parametrize("condition", ["worse", "worse:5%", "worse:0.4", "cpu=worse", "wall=worse:40%"])
def test_3_where_a_candidate_is_worse_by_more_than_the_margin(tmp_path: Path, condition: str) -> None:
    printed, last = _compare(tmp_path, WORSE, "--fail-if", condition, expect=3)
    assert "musl takes 1.5 times as long" in printed
    assert last.startswith("Exit status 3: --fail-if: b_malloc_tiny1, libc=musl: ") and "is worse" in last


@pytest.mark.parametrize("condition", ["worse:60%", "maxrss=worse"])
def test_0_where_it_is_not(tmp_path: Path, condition: str) -> None:
    _compare(tmp_path, WORSE, "--fail-if", condition, expect=0)


def test_0_where_it_is_better_and_for_copies_of_the_baseline(tmp_path: Path) -> None:
    _compare(tmp_path, BETTER, "--fail-if", "worse", "--null", expect=0)


def test_memory_fails_only_by_its_name(tmp_path: Path) -> None:
    _compare(tmp_path, MORE_MEMORY, "--fail-if", "worse", expect=0)
    _, last = _compare(tmp_path, MORE_MEMORY, "--fail-if", "worse", "--fail-if", "maxrss=worse:10%", expect=3)
    assert "maxrss 4.000 is worse" in last


def test_4_where_a_candidate_has_no_result(tmp_path: Path) -> None:
    """As a kernel that never boots: its programs have sizes, and no run has a number."""
    printed, last = _compare(tmp_path, CRASHES, expect=4)
    assert "has no result" in printed
    assert last.startswith("Exit status 4: libc=musl has no result: ") and "SIGSEGV" in last
    _compare(tmp_path, WRONG_LEVEL, expect=4)


def test_a_row_whose_candidate_crashes_is_3_with_a_condition_only(tmp_path: Path) -> None:
    faster = ONE_CRASHES.replace("wall_ns = 3_000_000", "wall_ns = 2_000_000")
    _compare(tmp_path, faster, only=TWO, expect=0)
    _, last = _compare(tmp_path, faster, "--fail-if", "worse", only=TWO, expect=3)
    assert last.startswith("Exit status 3: --fail-if: b_malloc_tiny2, libc=musl: 100 %")


def test_a_worse_row_decides_before_one_without_result(tmp_path: Path) -> None:
    _, last = _compare(tmp_path, ONE_CRASHES, "--fail-if", "worse", only=TWO, expect=3)
    assert "b_malloc_tiny1, libc=musl" in last


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("better", "'better' is not [METRIC=]worse[:MARGIN]"),
        ("worse:", "is not [METRIC=]worse[:MARGIN]"),
        ("worse:x", "'x' is no value for --fail-if"),
        ("worse:1%", "below the experiment's margin of 2 %"),
        ("wal=worse", "the metric 'wal', which nothing here measures"),
    ],
)
def test_a_condition_that_can_not_be_judged_is_refused_before_measuring(
    tmp_path: Path, condition: str, message: str
) -> None:
    (tmp_path / "fake.toml").write_text(WORSE)
    arguments = ("compare", "libc=glibc,musl", "--target", "fake:fake.toml", "--blocks", "2", "--out", "record")
    assert message in swapstone(tmp_path, *arguments, "--fail-if", condition, expect=2).stderr
    assert not (tmp_path / "record").exists()


def test_resume_accepts_a_condition(tmp_path: Path) -> None:
    _compare(tmp_path, WORSE, "--out", "record", expect=0)
    swapstone(tmp_path, "compare", "--resume", "record", "--budget", "1h", "--fail-if", "worse", expect=3)


def test_a_build_that_fails_for_one_variant(tmp_path: Path) -> None:
    """With another variant left, the rest is measured; without one, nothing can be compared. Both are status 4."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "prog").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "src" / "prog").chmod(0o755)
    own = ("--source", "src", "--blocks", "1", "--build", 'test "{N}" != 2', "--", "./prog", "{N}")
    result = swapstone(tmp_path, "compare", "--vary", "N=1,2,3", *own, expect=4)
    assert "Exit status 4: {N}=2 has no result: unavailable: " in result.stderr
    swapstone(tmp_path, "compare", "--vary", "N=1,2,3", "--fail-if", "worse", *own, expect=3)
    for levels, status in (("1,2", 3), ("2,1", 4)):
        result = swapstone(tmp_path, "compare", "--vary", f"N={levels}", *own, expect=4)
        assert "Nothing can be compared." in result.stderr
        result = swapstone(tmp_path, "compare", "--vary", f"N={levels}", "--fail-if", "worse", *own, expect=status)
        assert result.stderr.splitlines()[-1].startswith(f"Exit status {status}: the ")


@pytest.mark.parametrize(
    ("baseline", "candidate", "status"),
    [
        ("true", "false", 3),
        ("true", "sh -c 'kill -SEGV $$'", 3),
        ("false", "true", 4),
        ("false", "sh -c 'exit 3'", 4),
        ("echo 1", "echo 2", 3),
        ("true", "sleep 9", 3),
    ],
)
def test_own_programs_that_always_fail_or_do_other_work(
    tmp_path: Path, baseline: str, candidate: str, status: int
) -> None:
    """The order of the first block is random; whether the baseline works is known before a candidate is blamed."""
    compared = ("compare", baseline, candidate, "--blocks", "12", "--timeout", "1s")
    for seed in "12":
        result = swapstone(tmp_path, *compared, "--seed", seed, expect=4)
        judged = swapstone(tmp_path, *compared, "--seed", seed, "--fail-if", "worse", expect=status)
        assert judged.stderr.splitlines()[-1].startswith(f"Exit status {status}: ")
        assert ("can't be measured with command=" in result.stderr) == (baseline != "echo 1")


def test_no_command_about_a_record_without_a_number_ends_silently(tmp_path: Path) -> None:
    _compare(tmp_path, CRASHES, "--out", "crashes", expect=4)
    swapstone(tmp_path, "compare", "false", "true", "--blocks", "1", "--out", "empty", expect=4)
    for name in ("crashes", "empty"):
        for words in (("show",), ("show", "--all"), ("report", "--markdown"), ("export", "--format", "csv")):
            assert "invalid" in swapstone(tmp_path, words[0], name, *words[1:]).stdout
        assert swapstone(tmp_path, "explain", name, expect=2).stderr.startswith("error: ")
        assert "Exit status 4: " in swapstone(tmp_path, "rerun", name, expect=4).stderr
    (tmp_path / "none").mkdir()
    assert "error: There are no runs" in swapstone(tmp_path / "none", "query", "SELECT 1", expect=2).stderr


@pytest.mark.slow
def test_studies_have_the_same_statuses(tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(WORSE)
    keys = 'title = "t"\nquestion = "q"\nonly = ["b_malloc_tiny1"]\nblocks = 12\nseed = 5\ntarget = "fake:fake.toml"\n'
    keys += '[[factor]]\nname = "libc"\nlevels = ["glibc", "musl"]\n'
    parts = '[[part]]\nname = "a"\ntitle = "A"\n[[part]]\nname = "b"\ntitle = "B"\n'
    (tmp_path / "one.toml").write_text(keys)
    swapstone(tmp_path, "study", "one.toml", expect=0)
    crashing = CRASHES.replace("musl*", "glibc*")
    (tmp_path / "two.toml").write_text(keys + parts)
    for spec, status in ((CRASHES, 3), (crashing, 4)):
        (tmp_path / "fake.toml").write_text(spec)
        swapstone(tmp_path, "study", "two.toml", expect=4)
        swapstone(tmp_path, "study", "two.toml", "--fail-if", "worse", expect=status)
    (tmp_path / "fake.toml").write_text(WORSE)
    for name, text in (("one", keys), ("two", keys + parts)):
        (tmp_path / f"{name}.toml").write_text(text)
        last = swapstone(tmp_path, "study", f"{name}.toml", "--fail-if", "worse", expect=3).stderr.splitlines()[-1]
        assert last.startswith("Exit status 3: --fail-if: b_malloc_tiny1")
        swapstone(tmp_path, "study", f"{name}.toml", "--fail-if", "wal=worse", expect=2)


def test_python_needs_no_parsing(tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(WORSE)
    record = api.compare(
        api.Workloads(only="b_malloc_tiny1"),
        api.Measuring(blocks=12),
        api.Place(target=f"fake:{tmp_path}/fake.toml"),
        libc=["glibc", "musl"],
        out=tmp_path / "r",
    )
    found = [(row.workload, row.candidate.label, row.metric.name) for row in record.worse()]
    assert found == [("b_malloc_tiny1", "libc=musl", metric) for metric in ("wall", "cpu")]
    assert record.worse(margin="60%") == () and record.worse(metric="maxrss") == ()
    assert record.without_result() == ()
    with pytest.raises(api.UserError, match="nothing here measures"):
        record.worse(metric="wal")


COST = "#!/bin/sh\necho cost {cost}\n"


def _bisect_script() -> str:
    """Return the script of docs/exit-statuses.md."""
    page = (TOP / "docs" / "exit-statuses.md").read_text()
    return page.split("```sh\n", 1)[1].split("```", 1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("bad", [COST.format(cost=120), "#!/bin/sh\nexit 1\n"], ids=["slower", "fails"])
def test_git_bisect_finds_the_commit_that_made_a_program_worse(tmp_path: Path, bad: str) -> None:
    """The script of the documentation, on a history of six commits: the third can't be built, the fifth is worse, or always fails."""
    repository = tmp_path / "repository"
    repository.mkdir()
    variables = {**environment(tmp_path), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    variables |= {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=repository, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("git", "init", "-q")
    for name, text in (
        ("one", COST.format(cost=100)),
        ("two", COST.format(cost=101)),
        ("broken", "#!/bin/sh\nunbuildable\n"),
        ("four", COST.format(cost=102)),
        ("bad", bad),
        ("last", f"{bad}: last\n"),
    ):
        (repository / "prog").write_text(text)
        (repository / "prog").chmod(0o755)
        run("git", "add", "prog")
        run("git", "commit", "-q", "-m", name)
    shutil.copy(repository / "prog", tmp_path / "prog-1.0")
    (tmp_path / "prog-1.0").write_text(COST.format(cost=100))
    script = (
        _bisect_script()
        .replace("/opt/prog-1.0", str(tmp_path / "prog-1.0"))
        .replace("make -s", "! grep -q unbuildable prog")
    )
    # On one processor no other work takes one that it needs, which would leave the row without a result.
    script = script.replace("swapstone compare", f"{shlex.join(command('compare'))} --blocks 12 --pin")
    assert script.count("--fail-if worse:5%") == 1
    metric = "--metric 'cost[1,lower]=regex:cost ([0-9]+)' --fail-if cost=worse:5%"
    (tmp_path / "bisect.sh").write_text(script.replace("--fail-if worse:5%", metric))
    (tmp_path / "bisect.sh").chmod(0o755)
    run("git", "bisect", "start", "HEAD", "HEAD~5")
    found = run("git", "bisect", "run", str(tmp_path / "bisect.sh"))
    log = run("git", "bisect", "log")
    assert log.splitlines()[-1].endswith("bad") and "first bad commit" in log.splitlines()[-1], found
    assert any(line.startswith("# skip") and line.endswith("broken") for line in log.splitlines())


def test_a_process_without_memory_for_libraries_is_refused(tmp_path: Path) -> None:
    """OpenBLAS would end it with status 1, and DuckDB by SIGSEGV."""
    limited = ["/bin/sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", *command("query", "SELECT 1")]
    result = subprocess.run(
        limited, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: This process may use 195 MiB of memory, and needs 384 MiB.\n")
