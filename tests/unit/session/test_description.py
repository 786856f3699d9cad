# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record describes itself: commands that read it look up no suite, factor or target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import swapstone
from swapstone.core.model import Direction, UserError
from swapstone.core.record import load, record_format, validation
from swapstone.core.session.analysis import analyse_record, record_verdicts
from swapstone.core.session.description import describe
from swapstone.core.session.report_context import description_of, works_of
from tests.e2e.cli import fake
from tests.unit.recipes.extending import run_python

TOP = Path(__file__).parents[3]
LABORATORY = {"artifacts", "factors", "instruments", "machine", "run", "subjects", "targets", "workloads"}
"""Packages that build, run or observe."""

_LIST_MODULES = """
import sys
from swapstone.cli.main import main
sys.argv = ["swapstone", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
ours = [name.split(".") for name in sys.modules if name.startswith(("swapstone.core.", "swapstone.parts."))]
names = {name[3] for name in ours if name[1] == "parts" and len(name) > 3} | {name[2] for name in ours if name[1] == "core"}
names |= {name for name in sys.modules if name.startswith("numpy.")}
print("modules:", *sorted(names | {name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described")
    record = swapstone.compare(
        swapstone.Workloads(only=["b_string_strlen", "b_malloc_tiny1"]),
        swapstone.Measuring(blocks=7),
        swapstone.Place(target=fake(folder)),
        libc=["glibc", "musl"],
        out=folder / "r",
    )
    return record.path


_COUNT_THREADS = """
import os, sys
from swapstone.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("threads:", len(os.listdir("/proc/self/task")), "numpy" in sys.modules, file=sys.stderr)
"""


def _packages(record: Path, *arguments: str) -> Iterator[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWAPSTONE_")}
    environment = {**kept, "PYTHONPATH": str(TOP / "src"), "SWAPSTONE_RECORDS": str(record.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", _LIST_MODULES, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = (line for line in ended.stderr.splitlines() if line.startswith("modules: "))
    yield from line.split()[1:]


@pytest.mark.parametrize(
    "command", ["show", "show --json", "show --all", "report --markdown", "report --html", "export", "query", "verify"]
)
def test_reading_a_record_imports_nothing_that_builds_runs_or_observes(made: Path, command: str) -> None:
    name, *options = command.split()
    arguments = {
        "query": ["query", "SELECT count(*) FROM comparisons"],
        "export": ["export", str(made), "--format", "csv"],
        "report": ["report", str(made), *options, "--out", os.devnull],
    }.get(name, [name, str(made), *options])
    imported = set(_packages(made, *arguments))
    assert "comparison" in imported or name == "query"
    # What the levels in force were, and what was measured, is read again from the kept answers.
    assert imported & LABORATORY == ({"factors", "workloads"} if name == "verify" else set())
    needed = {"query": {"duckdb"}, "report --html": {"jinja2"}, "verify": {"attr"}}.get(command, set())
    assert imported & {"attr", "duckdb", "jinja2", "scipy"} <= needed
    assert "numpy.ma" not in imported  # `swapstone.core.stats.distinct` does without
    assert "xml" not in imported or command not in {"show", "show --all", "verify"}


def test_what_reads_the_output_of_a_work_imports_nothing_that_builds_runs_or_observes() -> None:
    script = "for suite in all_suites():\n for work in suite.workloads:\n  reader_of(work)\nprint(*sys.modules)"
    imports = (
        "import sys",
        "from swapstone.core.workloads import all_suites",
        "from swapstone.core.wire.output_reading import reader_of",
    )
    modules = {
        name
        for each in run_python(TOP / "src", "\n".join((*imports, script))).split()
        for name in each.split(".")[2:-1]
    }
    assert {"net", "own", "vm"} <= modules
    assert modules & LABORATORY == {"factors", "workloads"}


def test_an_analysis_starts_no_threads(made: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", _COUNT_THREADS, "show", str(made), "--all"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1:] == ["threads: 1 True"], ended.stderr


def test_a_record_is_shown_again_without_its_analysis(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert {"numpy", "comparison"} <= set(_packages(made, "show", str(made)))
    imported = set(_packages(made, "show", str(made)))
    assert imported.isdisjoint({"numpy", "comparison", "explain", *LABORATORY})


def test_the_description_gives_the_verdicts_of_today_s_suites(made: Path) -> None:
    view = load(made)
    assert view.meta.description == describe(view.experiment)
    without = msgspec.structs.replace(view.meta, description=None)
    assert description_of(without, view.experiment) == view.meta.description
    assert record_verdicts(view) == view.seal.verdicts if view.seal else False


def test_a_workload_that_this_version_lacks_is_still_analysed(made: Path, tmp_path: Path) -> None:
    # As after a suite was renamed: only the record knows the metrics.
    for path in made.iterdir():
        if path.name in {"record.json", "experiment.json", "runs.jsonl", "manifest.json"}:
            text = path.read_text().replace("b_string_strlen", "b_string_former")
            (tmp_path / path.name).write_text(text)
    _rechain(tmp_path / "runs.jsonl")
    view = load(tmp_path)
    assert not view.damages
    with pytest.raises(UserError, match="b_string_former"):
        describe(view.experiment)
    found = {each.workload: each for each in analyse_record(view).comparisons if each.metric.name == "wall"}
    before = {each.workload: each for each in analyse_record(load(made)).comparisons if each.metric.name == "wall"}
    assert found["b_string_former"].effect == before["b_string_strlen"].effect is not None


def test_levels_have_their_text_and_the_place_its_facts(made: Path) -> None:
    description = load(made).meta.description
    assert description is not None
    texts = {(each.factor, each.level): each.description for each in description.levels}
    assert set(texts) == {("libc", "glibc"), ("libc", "musl")} and all(texts.values())
    assert description.place == record_format.PlaceFacts(exact=False, boots=False, bare=False, explains=False)
    assert {metric.name: metric.unit for metric in works_of(load(made))["b_string_strlen"].metrics}["wall"] == "ns"


def test_verify_finds_a_metric_whose_direction_was_turned(made: Path, tmp_path: Path) -> None:
    for path in made.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "raw").mkdir()
    for path in (made / "raw").iterdir():
        (tmp_path / "raw" / path.name).write_bytes(path.read_bytes())
    assert not swapstone.load(tmp_path).verify().problems
    content = json.loads((tmp_path / "record.json").read_text())
    for metric in content["description"]["metrics"]:
        metric["better"] = {"lower": "higher", "higher": "lower"}.get(metric["better"], metric["better"])
    (tmp_path / "record.json").write_text(json.dumps(content))
    seal = json.loads((tmp_path / "seal.json").read_text())
    seal["record"] = record_format.file_sha256((tmp_path / "record.json").read_bytes())
    forged = load(tmp_path)
    seal["verdicts"] = record_verdicts(forged)
    (tmp_path / "seal.json").write_text(json.dumps(seal))
    problems = swapstone.load(tmp_path).verify().problems
    assert any("describes libc/b_malloc_tiny1 otherwise" in problem for problem in problems), problems


def test_a_description_that_can_t_be_computed_with_is_refused(made: Path) -> None:
    view = load(made)
    description = view.meta.description
    assert description is not None
    first = description.works[0]

    def problem(**changes: object) -> str:
        changed = msgspec.structs.replace(description, **changes)
        meta = msgspec.structs.replace(view.meta, description=changed)
        return validation.meta_problem(meta) or validation.description_problem(changed, view.experiment)

    assert problem() == ""
    assert "not described" in problem(works=(msgspec.structs.replace(first, metrics=(10_000,)),))
    assert "described twice" in problem(works=(*description.works, first))
    assert "occurs twice" in problem(works=(msgspec.structs.replace(first, metrics=(0, 0)),))
    assert "does not describe the workload" in problem(works=description.works[1:])
    assert "no metric of it" in problem(works=(msgspec.structs.replace(first, metrics=()), *description.works[1:]))
    negative = msgspec.structs.replace(description.metrics[0], resolution=-1.0, better=Direction.LOWER)
    assert "resolution" in problem(metrics=(negative, *description.metrics[1:]))


def _rechain(path: Path) -> None:
    """Number the lines of a `runs.jsonl` again, so that changed runs are no damage."""
    previous, lines = "", []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        run = bytes(msgspec.json.decode(line, type=record_format.Line).run)
        chain = record_format.chain_value(number, previous, run)
        made = record_format.Line(number=number, previous=previous, chain=chain, run=msgspec.Raw(run))
        lines.append(msgspec.json.encode(made))
        previous = chain
    path.write_bytes(b"".join(line + b"\n" for line in lines))
