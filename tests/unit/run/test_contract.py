# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of subjects: one class for each origin, and what all of them share."""

from __future__ import annotations

import ast
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import swapstone.core.run
from swapstone.core.factors import Recipe
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import (
    FactorLevels,
    LoadGenerator,
    MachineNeeds,
    OwnProgram,
    PartOrigin,
    Sample,
    Source,
    Status,
    UnavailableError,
    UserError,
    UserSupplied,
    Variant,
    WireError,
    Workload,
)
from swapstone.core.model.parts import provided
from swapstone.core.model.workload import Origin
from swapstone.core.run.own_program import UserProgram
from swapstone.core.run.prepare import check_levels
from swapstone.core.run.subject import BuildContext, Subject
from swapstone.core.run.subject_kinds import subject_of, subjects_of
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import open_target
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.core.wire.output_reading import Measured, OutputReader
from swapstone.core.workloads import all_suites, find_workload, own_workload, workloads_of
from swapstone.parts.build.build import Build
from swapstone.parts.build.subjects.bundled import Bundled
from swapstone.parts.net.subjects.crate import CrateProgram
from swapstone.parts.own.subjects.own_program_build import SourceProgram
from swapstone.parts.own.subjects.server import Server
from swapstone.parts.vm.subjects.image_tool import ImageProgram
from tests.unit.builders import experiment, trial_spec

OWN = OwnProgram(name="prog", arguments=("/bin/true",), directory="/")
GLIBC = Variant(levels=(("libc", "glibc"),))
EVERY = [workload for suite in all_suites() for workload in suite.workloads]


@pytest.mark.parametrize(
    ("workload", "kind"),
    [
        (find_workload("libc", "b_malloc_tiny1"), Bundled),
        (find_workload("swap", "fill (50 % random)"), Bundled),
        (find_workload("latency", "cyclictest"), ImageProgram),
        (find_workload("netstack", "ab"), CrateProgram),
        (find_workload("server", "http(c=1,t=1)"), Server),
        (find_workload("server", "redis_set(200kB)"), Server),
        (own_workload(experiment(own=OWN)), SourceProgram),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_origin_decides_the_class(workload: Workload, kind: type[Subject]) -> None:
    subject = subject_of(workload)
    assert type(subject) is kind
    assert subject.workload is workload


def test_every_origin_has_a_class() -> None:
    kinds = {kind.runs for kind in provided("subject", type)}
    assert {*typing.get_args(Origin)} - {PartOrigin} == kinds - {LoadGenerator}


def test_plain_commands_need_no_part_and_builds_do() -> None:
    built = msgspec.structs.replace(OWN, build="make", source="/")
    with open_target("host") as host:
        for own in (OWN, built):
            work = own_workload(experiment(own=own))
            assert isinstance(work.origin, UserSupplied)
            subject = UserProgram(work, work.origin)
            if own is OWN:
                subject.check(experiment(own=own, factors=()), host)
                program = subject.build(
                    GLIBC, subject.base_recipe(GLIBC, Recipe()), BuildContext(suite="own", target=host)
                )
                assert program.path == "/bin/true"
            else:
                with pytest.raises(UnavailableError, match="No installed part builds"):
                    subject.check(experiment(own=own, factors=()), host)


def test_only_programs_with_the_harness_take_a_number_of_passes() -> None:
    for workload in EVERY:
        harness = isinstance(workload.origin, Source) and workload.origin.harness
        request = subject_of(workload).request(trial_spec(GLIBC, Program("/p/prog", Recipe(), None), passes=7))
        assert bool(subject_of(workload).max_passes) == harness
        assert (request.arguments[1:2] == ("7",)) == harness, workload.name
        assert (request.load_generator is None) == (workload.load_generator is None)


def test_a_package_starts_from_the_recipe_for_programs_with_a_build_system() -> None:
    default = Recipe(pieces=(Build(cflags=("-DDEFAULT",)),))
    assert subject_of(find_workload("server", "redis_set(200kB)")).base_recipe(GLIBC, default) == SOURCE_RECIPE
    assert subject_of(find_workload("server", "http(c=1,t=1)")).base_recipe(GLIBC, default) == default


def test_the_workloads_of_one_own_program_share_its_set_up(tmp_path: Path) -> None:
    generators = tuple(LoadGenerator(command=("wrk",), reader="wrk", connections=number) for number in (1, 10))
    helped = tmp_path / "helped"
    own = msgspec.structs.replace(OWN, load_generators=generators, setup=f"echo setup >> {helped}")
    names = ("prog(c=1)", "prog(c=10)")
    found = subjects_of(workloads_of(experiment(own=own, workloads=tuple(("own", name) for name in names))))
    spec = trial_spec(Variant(levels=()), Program("/bin/true", Recipe(), None, folder="/"))
    with open_target("host") as host:
        for subject in found.values():
            assert isinstance(subject, Server)
            outcome = subject.before(spec, host)
            assert outcome is not None and "since the comparison began" in outcome.judgement.reason  # it has no stamp
    assert helped.read_text() == "setup\n"


class FixedReader(OutputReader):
    """A reader with a fixed result."""

    result: Measured | UserError

    def read(self, _: AgentAnswer) -> Measured:
        if isinstance(self.result, UserError):
            raise self.result
        return self.result


class Fixed(Subject):
    """A subject with such a reader."""

    def __init__(self, result: Measured | UserError) -> None:
        super().__init__(find_workload("libc", "b_malloc_tiny1"))
        self.reader = FixedReader(self.workload)
        self.reader.result = result

    def build(self, *_: object) -> Program:
        raise NotImplementedError

    def request(self, *_: object) -> TrialRequest:
        raise NotImplementedError


class FixedEvidence(Fixed):
    """A subject whose output is evidence."""

    output_is_evidence = True


OK = AgentAnswer(
    id="t", outcome=ProcessOutcome.EXITED, code=0, interp="/lib64/ld-linux-x86-64.so.2", objects=("/lib/libc.so.6",)
)
MUSL = msgspec.structs.replace(OK, interp="/lib/ld-musl-x86_64.so.1", objects=("/lib/ld-musl-x86_64.so.1",))
SAMPLES = (Sample(metric="wall", values=(1.0,)),)
UNREADABLE = WireError("its output is cut off", "Look at it.")


@pytest.mark.parametrize(
    ("subject", "answer", "check", "status", "reason"),
    [
        (Fixed(Measured(SAMPLES, check="1")), OK, "1", Status.OK, ""),
        (Fixed(Measured(SAMPLES, check="1")), OK, "", Status.OK, ""),
        (Fixed(Measured(SAMPLES, check="2")), OK, "1", Status.REFUSED, "it did other work: its checksum is 2, not 1"),
        (Fixed(Measured(SAMPLES)), OK, "1", Status.REFUSED, "it did other work: its checksum is missing, not 1"),
        (Fixed(Measured(SAMPLES)), MUSL, "", Status.REFUSED, "libc=glibc was requested, but musl was in force"),
        (Fixed(UNREADABLE), OK, "", Status.FAILED, "its output is cut off; Look at it."),
        (Fixed(UNREADABLE), MUSL, "", Status.REFUSED, "libc=glibc was requested, but musl was in force"),
        (FixedEvidence(UNREADABLE), MUSL, "", Status.FAILED, "its output is cut off; Look at it."),
        (
            Fixed(Measured(SAMPLES)),
            msgspec.structs.replace(OK, code=3, stderr=b"oh no\n"),
            "",
            Status.FAILED,
            "it ended with status 3; its last line: 'oh no'",
        ),
    ],
)
def test_a_judgement_is_a_status_with_its_reason(
    subject: Subject, answer: AgentAnswer, check: str, status: Status, reason: str
) -> None:
    spec = trial_spec(GLIBC, Program("/p/prog", Recipe(), None), check=check)
    judgement = subject.judge(spec, answer, lambda _: None)
    assert judgement.status is status
    assert judgement.reason.startswith(reason) and bool(judgement.reason) == bool(reason)
    assert bool(judgement.measured.samples) == (status is Status.OK)


@pytest.mark.parametrize(
    ("suite", "name", "words"),
    [("swap", "fill (50 % random)", "needs one")],
)
def test_a_workload_with_a_machine_of_its_own_is_refused_on_the_host(suite: str, name: str, words: str) -> None:
    with open_target("host") as host, pytest.raises(UnavailableError, match=words):
        check_levels(experiment(workloads=((suite, name),)), host)


def test_a_workload_that_needs_memory_only_runs_on_boards_that_compare_swap_devices() -> None:
    workloads = (("swap", "fill (50 % random)"), ("swap", "touch (random, 1.25)"))
    board: Any = SimpleNamespace(name="ssh", offers=frozenset({"sets_swap"}))
    swaps = (FactorLevels(factor="swap", levels=("file", "none")),)
    kernels = (FactorLevels(factor="kernel", levels=("generic", "rt")),)
    for name in workloads:
        subject_of(find_workload(*name)).check(experiment(workloads=(name,), factors=swaps), board)
        with pytest.raises(UnavailableError, match="needs one") as caught:
            subject_of(find_workload(*name)).check(experiment(workloads=(name,)), board)
        assert "swap=file,zram:lzo-rle" in caught.value.hint
        with pytest.raises(UnavailableError, match="needs one"):  # another kernel limits no memory
            subject_of(find_workload(*name)).check(experiment(workloads=(name,), factors=kernels), board)
    prepared = msgspec.structs.replace(
        find_workload(*workloads[0]), machine=MachineNeeds(memory_bytes=1, prepare=("x",))
    )
    with pytest.raises(UnavailableError, match="needs one") as caught:
        subject_of(prepared).check(experiment(factors=swaps), board)
    assert caught.value.hint == "Measure on --target vm."


def test_the_engine_knows_only_the_contract() -> None:
    """Nothing of `swapstone.core.run` but the subjects reads the origin of a workload, or imports the class of one kind."""
    subjects = {
        "machine_config",
        "own_program",
        "own_program_levels",
        "own_program_variant",
        "subject_kinds",
    }
    paths = list(Path(next(iter(swapstone.core.run.__path__))).glob("*.py"))
    assert subjects < {path.stem for path in paths}
    for path in paths:
        if path.stem in subjects:
            continue
        tree = ast.parse(path.read_text())
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not attributes & {"origin", "own", "load_generators", "harness"}, path.name
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert "swapstone.core.run.own_program" not in modules, path.name
