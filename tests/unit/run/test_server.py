# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials of servers: their requests, and the judgement of their answers."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import ProgramFacts, Recipe
from swapstone.core.factors.free_factor import COMMAND_LINE
from swapstone.core.model import (
    Cpus,
    LoadGenerator,
    OwnProgram,
    Source,
    Status,
    UnavailableError,
    UserError,
    Variant,
    Workload,
)
from swapstone.core.model.load import filled
from swapstone.core.run.subject import BuildContext, Subject
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.run.variant_program import Program
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.target import RemoteProgram
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.core.wire.kept_answer import raw_output
from swapstone.core.workloads import find_workload, own_workload
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.own.subjects import server
from swapstone.parts.own.subjects.server import free_port
from tests.unit.builders import experiment, trial_spec

GENERATOR = LoadGenerator(
    command=("wrk", "http://127.0.0.1:{port}/"), reader="wrk", warm_ms=1, ready_ms=2, drain_ms=3, stop_ms=4
)
GOOD = (Path(__file__).parents[2] / "recorded" / "wrk-good.txt").read_bytes()


def asked(cpus: tuple[int, ...], pinned: Cpus) -> TrialRequest:
    workload = Workload(
        name="s",
        origin=Source(file="server.c", harness=False),
        arguments=("{port}",),
        description="serves",
        metrics=(),
        cpus=pinned,
        load_generator=GENERATOR,
    )
    recipe = Recipe(environment=(("PORT", "{port}"),), preload=("/a.so",))
    program = Program("/s", recipe, None, load_generator="/bin/wrk")
    return subject_of(workload).request(trial_spec(Variant(levels=()), program, cpus=cpus))


def test_a_server_is_judged_as_its_program_is() -> None:
    """With the same reasons, such as why another command line is seen."""
    own = OwnProgram(name="s", arguments=("/s", "{n}"), directory="/")
    variant = Variant(levels=(("{n}", "1"),))
    answer = AgentAnswer(
        id="a", outcome=ProcessOutcome.DRIVEN, code=0, driver_stdout=GOOD, observed=((COMMAND_LINE, "/other\x002\0"),)
    )
    judged = []
    for generators in ((), (GENERATOR,)):
        found = experiment(own=msgspec.structs.replace(own, load_generators=generators))
        outcome = ProcessOutcome.DRIVEN if generators else ProcessOutcome.EXITED
        program = Program("/s", Recipe(), None, folder="/")
        judged.append(
            subject_of(own_workload(found)).judge(
                trial_spec(variant, program), msgspec.structs.replace(answer, outcome=outcome), lambda _: None
            )
        )
    plain, server = judged
    assert plain.status is server.status is Status.REFUSED
    assert plain.reason == server.reason
    assert "it executed another program in its place" in server.reason


def test_a_server_has_what_its_program_has() -> None:
    workload = find_workload("server", "http(paced)")
    subject = subject_of(workload)
    inner = subject_of(msgspec.structs.replace(workload, load_generator=None))
    names = ("needs_compiler", "empty_programs", "aborts_early", "carries_files", "max_passes", "output_is_evidence")
    assert [getattr(subject, name) for name in names] == [getattr(inner, name) for name in names]
    methods = {name for name, each in vars(Subject).items() if callable(each) and not name.startswith("_")}
    own = {name for name in methods if getattr(getattr(subject, name), "__self__", None) is subject}
    assert own == {"check", "programs", "build", "request", "run"}


def test_a_template_is_filled_for_each_trial() -> None:
    generator = msgspec.structs.replace(GENERATOR, template="listen {address}:{port}; pid {folder}/pid; {other} {}")
    workload = Workload(
        name="s",
        origin=Source(file="server.c", harness=False),
        arguments=("-c", "{template}"),
        description="serves",
        metrics=(),
        load_generator=generator,
    )
    recipe = Recipe(environment=(("CONF", "{template}"),))
    subject = subject_of(workload)
    spec = trial_spec(Variant(levels=()), Program("/s", recipe, None, load_generator="/bin/wrk"), cpus=(0,))
    first, second = subject.request(spec), subject.request(spec)
    path = Path(second.arguments[-1])
    assert first.arguments == second.arguments == ("/s", "-c", str(path))
    assert second.environment == (("CONF", str(path)),)
    assert second.load_generator is not None
    port = second.load_generator.port
    assert path.read_text() == f"listen 127.0.0.1:{port}; pid {path.parent}/pid; {{other}} {{}}"


def test_the_port_is_filled_in_everywhere() -> None:
    made = asked((0, 1), Cpus.ONE)
    assert made.load_generator is not None
    port = str(made.load_generator.port)
    assert made.arguments == ("/s", port)
    assert made.environment == (("PORT", port), ("LD_PRELOAD", "/a.so"))
    assert made.load_generator.arguments == ("/bin/wrk", f"http://127.0.0.1:{port}/")
    assert made.load_generator.environment == (("PORT", "{port}"),), "nothing is preloaded into it"
    assert (
        made.load_generator.warm_ms,
        made.load_generator.ready_ms,
        made.load_generator.drain_ms,
        made.load_generator.stop_ms,
    ) == (1, 2, 3, 4)


def test_the_address_is_that_of_this_machine_unless_another_one_reaches_it() -> None:
    assert filled(("{address}:{port}", "{port}"), 20000) == ("127.0.0.1:20000", "20000")
    assert filled(GENERATOR.command, 20000, "10.0.0.2") == ("wrk", "http://127.0.0.1:20000/")
    assert filled(("--listen={address}",), 1, "10.0.0.2") == ("--listen=10.0.0.2",)


@pytest.mark.parametrize(
    ("cpus", "pinned", "server", "driver"),
    [
        ((0, 1), Cpus.ONE, (1,), (0,)),
        ((0, 2, 5), Cpus.ONE, (5,), (0, 2)),
        ((3,), Cpus.ONE, (), ()),
        ((0, 1), Cpus.ALL, (), ()),
    ],
)
def test_server_and_driver_are_apart_where_there_are_processors(
    cpus: tuple[int, ...], pinned: Cpus, server: tuple[int, ...], driver: tuple[int, ...]
) -> None:
    made = asked(cpus, pinned)
    assert made.load_generator is not None
    assert (made.cpus, made.load_generator.cpus) == (server, driver)


def test_a_port_is_free_and_has_five_digits() -> None:
    taken = socket.socket()
    with taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"No port from {number} to {number} is free"):
            free_port(ports=(number,))
    assert free_port(ports=(number,)) == number
    assert {len(str(free_port())) for _ in range(50)} == {5}


class Guest(FakeTarget):
    """A target that gets files; it keeps them."""

    offers = frozenset({"runs_programs", "carries_files", "has_load_generators"})

    def __init__(self) -> None:
        self.carried = CarriedFiles({})

    def put_files(self, carried: CarriedFiles) -> None:
        self.carried = self.carried.joined(carried)

    def inspect(self, path: str) -> ProgramFacts | None:
        return None


def test_in_a_machine_both_programs_are_carried_and_meet_on_a_fixed_port() -> None:
    """A free port of this machine would make equal trials different runs."""
    generator = msgspec.structs.replace(GENERATOR, command=("/bin/ls", "{port}"))
    own = OwnProgram(name="s", arguments=("/bin/cat", "{port}"), directory="/", load_generators=(generator,))
    workload = own_workload(msgspec.structs.replace(experiment(), own=own))
    variant, subject, guest = Variant(levels=()), subject_of(workload), Guest()
    program = subject.build(variant, subject.base_recipe(variant, Recipe()), BuildContext("own", guest))
    assert {os.path.realpath("/bin/cat"), os.path.realpath("/bin/ls")} <= guest.carried.files.keys()
    trial = trial_spec(variant, program)
    first, second = subject.request(trial), subject.request(trial)
    assert first == second
    assert first.arguments == ("/bin/cat", "20000")


def test_a_server_of_the_suite_takes_its_load_generator_into_the_machine() -> None:
    workload = find_workload("server", "http(paced)")
    variant, subject, guest = Variant(levels=()), subject_of(workload), Guest()
    subject.check(experiment(), guest)
    program = subject.build(variant, resolve_recipe(BASE_RECIPE), BuildContext("server", guest))
    assert list(guest.carried.files) == [program.load_generator], "linked statically, it needs nothing else"
    assert "busybox" in workload.parts  # has ip
    request = subject.request(trial_spec(variant, program))
    assert request.load_generator is not None
    assert request.load_generator.arguments[:5] == (program.load_generator, "--address", "127.0.0.1", "--port", "20000")


def test_a_load_generator_of_another_architecture_fails_that_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_load_generator", lambda *_, **__: Path("/bin/ls").resolve())
    monkeypatch.setattr(Guest, "architecture", "sparc")
    variant, subject = Variant(levels=()), subject_of(find_workload("server", "http(c=10,t=1)"))
    monkeypatch.setattr("swapstone.parts.build.subjects.own_program_carried._MACHINES", {"sparc": ("EM_SPARC", 32)})
    with pytest.raises(UserError, match="the machine is sparc"):
        subject.build(variant, resolve_recipe(BASE_RECIPE), BuildContext("server", Guest()))


class OtherMachine:
    """A machine of load generators that has the named ones."""

    def __init__(self, *installed: str) -> None:
        self.installed = installed
        self.copied: list[Path] = []

    def find(self, name: str) -> RemoteProgram:
        if name not in self.installed:
            raise UnavailableError(f"The load generator {name} is not installed there.", "Install it.")
        return RemoteProgram(path=f"/usr/bin/{name}", sha256="0" * 64)

    def copy(self, path: Path) -> RemoteProgram:
        self.copied.append(path)
        return RemoteProgram(path=f"/tmp/{path.name}", sha256="1" * 64)


class RemoteDriver(FakeTarget):
    def __init__(self, driver: OtherMachine) -> None:
        self.driver = driver  # type: ignore[assignment] # the two calls that are made of it


@pytest.mark.parametrize(("installed", "copied"), [(("redis-benchmark",), []), ((), [Path("/built/redis-benchmark")])])
def test_a_load_generator_that_is_not_on_the_other_machine_is_built_and_copied_before_the_server_is_built(
    installed: tuple[str, ...], copied: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "build_static_load_generator", lambda name: Path("/built") / name)
    subject = subject_of(find_workload("server", "redis_set(200kB)"))
    there = OtherMachine(*installed)
    made = []
    monkeypatch.setattr(type(subject._inner), "build", lambda *_: made.append(list(there.copied)))  # type: ignore[attr-defined] # a server has it
    subject.build(Variant(levels=()), Recipe(), BuildContext("server", RemoteDriver(there)))
    assert (there.copied, made) == (copied, [copied])


def test_one_that_is_not_built_here_must_be_on_the_other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(find_workload("server", "http(c=10,t=1)"))
    monkeypatch.setattr(type(subject._inner), "build", lambda *_: pytest.fail("the server was built"))  # type: ignore[attr-defined] # a server has it
    with pytest.raises(UnavailableError, match="wrk is not installed there"):
        subject.build(Variant(levels=()), Recipe(), BuildContext("server", RemoteDriver(OtherMachine())))


def test_a_target_that_can_neither_run_nor_take_load_generators_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(find_workload("server", "http(paced)"))
    monkeypatch.setattr(Guest, "offers", frozenset({"runs_programs"}))
    with pytest.raises(UnavailableError, match="has no load generators"):
        subject.check(experiment(), Guest())


def verdict(how: ProcessOutcome, code: int = 0, **changed: object) -> tuple[Status, str]:
    fields: dict[str, object] = {
        "id": "a",
        "outcome": how,
        "code": code,
        "interp": "/lib64/ld-linux-x86-64.so.2",
        "objects": ("/usr/lib/libc.so.6",),
        "facts": (("server_cpu_ns", 10**9),),
        **changed,
    }
    answer = AgentAnswer(**fields)  # type: ignore[arg-type] # one of its fields at a time
    workload = find_workload("server", "http(c=10,t=1)")
    variant = Variant(levels=(("libc", "glibc"),))
    program = Program("/s", Recipe(), None)
    found = subject_of(workload).judge(trial_spec(variant, program), answer, lambda _: None)
    return found.status, found.reason


def test_a_good_run() -> None:
    assert verdict(ProcessOutcome.DRIVEN, driver_stdout=GOOD) == (Status.OK, "")


def test_the_level_is_the_servers() -> None:
    status, reason = verdict(
        ProcessOutcome.DRIVEN, driver_stdout=GOOD, interp="/lib/ld-musl-x86_64.so.1", objects=("/s",)
    )
    assert status is Status.REFUSED
    assert "libc=glibc was requested, but musl was in force" in reason


@pytest.mark.parametrize(
    ("how", "code", "changed", "reason"),
    [
        (
            ProcessOutcome.UNREADY,
            0,
            {"stderr": b"x\nno such address\n"},
            "the server accepted no connection on its port in time; its last line: 'no such address'",
        ),
        (
            ProcessOutcome.EXITED,
            0,
            {"notes": ("the server ended before it accepted connections",)},
            "the server ended before it accepted connections, with status 0; it printed nothing",
        ),
        (
            ProcessOutcome.SIGNALED,
            11,
            {"notes": ("the server ended by itself",)},
            "the server ended by itself, with signal 11; it printed nothing",
        ),
        (
            ProcessOutcome.UNDRIVEN,
            2,
            {"notes": ("the load generator: could not execute it",)},
            "the load generator: could not execute it; is it installed?; it printed nothing",
        ),
        (
            ProcessOutcome.UNDRIVEN,
            0,
            {"notes": ("the load generator: it ended with status 1",), "driver_stderr": b"no route\n"},
            "the load generator: it ended with status 1; its last line: 'no route'",
        ),
        (ProcessOutcome.DRIVEN, 0, {"driver_stdout": GOOD[:-30]}, "wrk's output has no line like"),
        (ProcessOutcome.TIMEOUT, 0, {}, "it did not end within its time and was stopped"),
    ],
)
def test_whatever_goes_wrong_is_a_failed_run_with_its_reason(
    how: ProcessOutcome, code: int, changed: dict[str, object], reason: str
) -> None:
    status, why = verdict(how, code, **changed)
    assert status is Status.FAILED
    assert why.startswith(reason)


def test_what_the_driver_said_is_kept() -> None:
    answer = AgentAnswer(
        id="a", outcome=ProcessOutcome.DRIVEN, code=0, stdout=b"s\n", driver_stdout=b"d\n", driver_stderr=b"e\n"
    )
    assert raw_output(answer) == b"--- stdout\ns\n--- driver stdout\nd\n--- driver stderr\ne\n"
