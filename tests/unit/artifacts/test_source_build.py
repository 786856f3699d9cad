# SPDX-License-Identifier: MIT OR Apache-2.0
"""The user's sources are copied, built, remembered, put back; and never touched."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from swapstone.core.artifacts.source_tree import copy_sources, digest_tree
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import OwnProgram, UnavailableError, UserError
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.source_build import SourceBuilder, build_tools, tool_variables
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts

RECIPE = resolve_recipe(SOURCE_RECIPE)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "my sources\n\u00fc"
    folder.mkdir()
    (folder / "a.c").write_text("int main(void) { return 0; }\n")
    return folder


def own(source: Path, build: str = "{cc} {cflags} -o prog a.c {ldflags}", **changed: object) -> OwnProgram:
    fields: dict[str, object] = {
        "name": "prog",
        "arguments": ("./prog",),
        "source": str(source),
        "build": build,
        **changed,
    }
    return OwnProgram(**fields)  # type: ignore[arg-type] # one of its fields at a time


def built(program: OwnProgram, logs: list[bytes] | None = None, *, rebuild: bool = False) -> Path:
    kept: list[bytes] = [] if logs is None else logs
    return SourceBuilder(program, rebuild=rebuild).build(RECIPE, lambda log: kept.append(log) or "the log").path  # type: ignore[func-returns-value] # both in one line


def test_equal_sources_are_built_once_and_other_ones_elsewhere(source: Path) -> None:
    logs: list[bytes] = []
    first = built(own(source), logs)
    stamp = first.stat().st_mtime_ns
    assert built(own(source), logs) == first and first.stat().st_mtime_ns == stamp
    assert (
        logs[0] == logs[1] and b"-O2 -g0 -frecord-gcc-switches -o prog a.c" in logs[0]
    )  # the log of a build is kept with it
    assert built(own(source), rebuild=True).stat().st_mtime_ns > stamp
    others = [built(own(source, "{cc} -O0 -o prog a.c"))]
    (source / "a.c").write_text("int main(void) { return 1; }\n")
    others.append(built(own(source)))
    assert len({first, *others}) == 3
    assert len({len(str(path)) for path in (first, *others)}) == 1


def test_files_that_a_trial_left_in_the_copy_are_removed_in_the_next_session(source: Path) -> None:
    (source / "data").write_text("as it was")
    path = built(own(source))
    program = path.read_bytes()
    (path.parent / "data").write_text("as a trial left it")
    (path.parent / "more").write_text("x")
    path.unlink()
    assert built(own(source)) == path
    assert (path.parent / "data").read_text() == "as it was"
    assert not (path.parent / "more").exists()
    assert path.read_bytes() == program


def test_a_copy_in_use_is_neither_put_back_nor_built_again(source: Path) -> None:
    path = built(own(source))
    (path.parent / "more").write_text("x")
    other = os.open(f"{path.parent.parent}.lock", os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(UserError, match="Another comparison uses"):
            built(own(source))
        assert (path.parent / "more").exists()
    finally:
        os.close(other)
    assert built(own(source)) == path and not (path.parent / "more").exists()


def test_a_build_that_fails_is_not_remembered(source: Path) -> None:
    logs: list[bytes] = []
    program = own(source, "for i in $(seq 1 40); do echo line $i; done; test -e ../../ok || exit 3; cc -o prog a.c")
    with pytest.raises(UserError, match="The build failed: for i") as caught:
        built(program, logs)
    assert "line 40\nThe log: the log" in caught.value.message
    assert "line 26\n" in caught.value.message and "line 25\n" not in caught.value.message
    assert b"line 1\n" in logs[0]
    Path(os.environ["XDG_CACHE_HOME"], "swapstone/own/ok").write_text("")
    assert built(program).is_file()


def test_a_build_finds_only_what_is_documented(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-nonsense")
    logs: list[bytes] = []
    built(own(source, "env | cut -d= -f1 | sort | tr '\\n' ' '; cat; cc -o prog a.c"), logs)
    names = set(logs[0].decode().splitlines()[2].split())
    given = set(tool_variables(build_tools(RECIPE, ("c++",))))
    assert (
        given >= {"CC", "CXX", "AR", "CFLAGS", "CXXFLAGS", "CMAKE_TOOLCHAIN_FILE", "CGO_ENABLED"} and "LD" not in given
    )
    assert names - {"HOME", "TMPDIR", "PWD", "OLDPWD", "_", "SHLVL"} == {"PATH", "LC_ALL", "SOURCE_DATE_EPOCH", *given}
    assert b"-nonsense" not in logs[0]


@pytest.mark.slow
def test_no_process_of_a_build_outlives_it(source: Path, tmp_path: Path) -> None:
    built(own(source, f"cc -o prog a.c; (sleep 1; touch '{tmp_path}/late') >/dev/null 2>&1 &"))
    import time

    time.sleep(1.3)
    assert not (tmp_path / "late").exists()


def test_a_missing_compiler_is_unavailable(source: Path) -> None:
    recipe = RECIPE.changed(Build, command=("no-such-cc",))
    with pytest.raises(UnavailableError, match="needs the command 'no-such-cc', which is not installed"):
        SourceBuilder(own(source)).build(recipe, lambda _: "")


def test_a_script_has_no_sizes_and_a_program_has_all(source: Path) -> None:
    (source / "run.sh").write_text("#!/bin/sh\n./prog\n")
    (source / "run.sh").chmod(0o755)
    script = SourceBuilder(own(source, arguments=("./run.sh",))).build(RECIPE, lambda _: "")
    assert script.sizes == () and script.facts is None
    program = SourceBuilder(own(source, "{cc} -g3 {cflags} -o prog a.c")).build(RECIPE, lambda _: "")
    assert dict(program.sizes)["file"] < program.path.stat().st_size  # stripped for measuring; the program is unchanged
    assert program.facts is not None and any(
        "-frecord-gcc-switches" in text or "-O2" in text for text in program.facts.of(BuildFacts).switches
    )


def test_links_times_and_permissions_are_kept_and_version_control_is_not(source: Path, tmp_path: Path) -> None:
    (source / "sub" / ".git").mkdir(parents=True)
    (source / ".git").write_text("gitdir: elsewhere\n")
    (source / "link").symlink_to("sub")
    (source / "broken").symlink_to("nowhere")
    (source / "sub" / "old").write_text("x")
    (source / "sub" / "old").chmod(0o755)
    os.utime(source / "sub" / "old", ns=(10**18, 10**18))
    os.utime(source / "sub", ns=(10**18, 10**18))
    os.mkfifo(source / "pipe")
    before = digest_tree(source)
    copy = tmp_path / "copy"
    copy_sources(source, copy)
    assert {str(path.relative_to(copy)) for path in copy.rglob("*")} == {"a.c", "broken", "link", "sub", "sub/old"}
    assert (copy / "link").readlink() == Path("sub") and (copy / "broken").is_symlink()
    assert (copy / "sub" / "old").stat().st_mtime_ns == (copy / "sub").stat().st_mtime_ns == 10**18
    assert os.access(copy / "sub" / "old", os.X_OK)
    assert digest_tree(source) == before == digest_tree(copy)
    (copy / "sub" / "old").chmod(0o644)
    assert digest_tree(copy) != before


def test_neither_the_cache_nor_a_record_is_copied(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("")
    (tmp_path / "cache/swapstone/own").mkdir(parents=True)
    record = tmp_path / "records" / "one"
    record.mkdir(parents=True)
    for name in ("record.json", "experiment.json", "runs.jsonl"):
        (record / name).write_text("{}")
    copy_sources(tmp_path, tmp_path / "cache/swapstone/own/x")
    there = {
        str(path.relative_to(tmp_path / "cache/swapstone/own/x"))
        for path in (tmp_path / "cache/swapstone/own/x").rglob("*")
    }
    assert there == {"a.c", "cache", "records"}
