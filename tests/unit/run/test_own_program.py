# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's program between its build and its run: each variant by itself, and what distinguishes variants reaches the build."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import swapstone.core.factors
from swapstone.core.factors import Evidence, Level, ProgramFacts, Recipe, Stage, read_facts
from swapstone.core.model import Experiment, FactorLevels, OwnProgram, Status, UnavailableError, UserError, Variant
from swapstone.core.plan import variants
from swapstone.core.run.own_program import UserProgram, new_artifact, taken, with_equal_environments
from swapstone.core.run.prepare import check_levels, manifest_of, prepare
from swapstone.core.run.subject import BuildContext
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.run.variant_program import Program, stamp_of
from swapstone.core.targets import Target, open_target
from swapstone.core.targets.agent_build import build_agent
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.core.wire.output_reading import first_lines
from swapstone.core.workloads import own_workload
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.build.factors.libc import LIBC
from swapstone.parts.own.subjects.own_program_build import OwnProgramBuild, check_recipes
from tests.shared import Shared
from tests.unit.builders import experiment, trial_spec

_ALIGN = {"red": 16, "green": 32, "blue": 64}


class Shade:
    """A factor of three levels that reaches the program through its flags, and is seen in its recorded switches."""

    name = "shade"
    stage = Stage.COMPILE
    description = "for tests"
    levels = tuple(Level(name=name, description=name) for name in ("red", "green", "blue"))

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        return recipe.changed(
            Build, cflags=(*recipe.of(Build).cflags, f"-DSHADE_{level}", f"-falign-loops={_ALIGN[level]}")
        )

    def observe(self, evidence: Evidence) -> str | None:
        switches = " ".join(evidence.program.of(BuildFacts).switches) if evidence.program else ""
        return next((level.name for level in self.levels if f"-falign-loops={_ALIGN[level.name]}" in switches), None)


class Preload:
    """A factor that preloads an object into the program."""

    name = "preload"
    stage = Stage.LAUNCH
    description = "for tests"
    levels = tuple(Level(name=name, description=name) for name in ("none", "some"))

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        return msgspec.structs.replace(recipe, preload=("/lib/some.so",) if level == "some" else ())

    def observe(self, evidence: Evidence) -> str | None:
        return "none"


@pytest.fixture(autouse=True)
def _world(tmp_path: Path, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(shared.folder("agents", build_agent), tmp_path / "cache/swapstone/agents")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(swapstone.core.factors, "all_factors", lambda: (LIBC, Shade(), Preload()))


@pytest.fixture
def host() -> Iterator[Target]:
    with open_target("host") as target:
        yield target


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.c").write_text(
        "#ifdef SHADE_green\n#error no green here\n#endif\n"
        '#include <stdio.h>\nint main(void) { puts("done"); return 0; }\n'
    )
    return folder


def asked(own: OwnProgram, factor: str = "shade", levels: tuple[str, ...] = ("red", "green", "blue")) -> Experiment:
    factors = (FactorLevels(factor=factor, levels=levels),)
    return experiment(own=own, factors=factors, workloads=(("own", "prog"),))


def own(source: Path, **changed: object) -> OwnProgram:
    fields: dict[str, object] = {
        "name": "prog",
        "arguments": ("./prog",),
        "source": str(source),
        "build": "{cc} {cflags} -o prog a.c {ldflags}",
        **changed,
    }
    return OwnProgram(**fields)  # type: ignore[arg-type] # one of its fields at a time


@pytest.mark.slow
def test_a_build_that_fails_on_one_variant_leaves_the_others(source: Path, host: Target) -> None:
    subject = asked(own(source))
    logs: dict[str, bytes] = {}

    def keep(label: str, log: bytes) -> str:
        logs[label] = log
        return label

    check_levels(subject, host)
    prepared = prepare(subject, host, lambda *_: None, keep_log=keep)
    assert set(prepared.programs) == {("own", "prog", "shade=red"), ("own", "prog", "shade=blue")}
    assert set(logs) == {"shade=red", "shade=green", "shade=blue"}
    reason = prepared.refused["own", "prog", "shade=green"]
    assert "no green here" in reason and "The log: shade=green" in reason
    assert b"no green here" in logs["shade=green"]
    manifest = manifest_of(prepared, host, {})
    assert [artifact.variant for artifact in manifest.artifacts] == ["shade=red", "shade=blue"]
    for key, program in prepared.programs.items():
        spec = trial_spec(prepared.variants[key[2]], program, identity="1-0")
        made = prepared.subjects[key[:2]].run(spec, host)
        assert made.judgement.status is Status.OK, made.judgement.reason
        assert made.judgement.observed == (
            ("shade", key[2].partition("=")[2]),
        )  # seen in the switches that were recorded
        assert b"done" in made.output


@pytest.mark.parametrize(
    ("build", "choice", "words"),
    [
        ("cc -o prog a.c", ("libc", ("glibc", "musl")), "libc differ in {cc}"),
        ("cc {cc} -o prog a.c", ("shade", ("red", "blue")), "shade differ in {cflags}"),
    ],
)
def test_what_does_not_reach_the_build_is_refused_before_it(
    source: Path, host: Target, build: str, choice: tuple[str, tuple[str, ...]], words: str
) -> None:
    with pytest.raises(UserError) as caught:
        check_levels(asked(own(source, build=build), *choice), host)
    assert words in caught.value.message
    assert "{c" in caught.value.hint


def test_what_was_provided_must_reach_the_build_too(source: Path) -> None:
    """An allocator that is linked in shows in the flags only once it is provided."""
    pair = [Variant(levels=(("preload", level),)) for level in ("none", "some")]
    recipes = {pair[0].label: Recipe(), pair[1].label: Recipe(pieces=(Build(ldflags=("/lib/some.a",)),))}
    with pytest.raises(UserError, match=r"preload differ in \{ldflags\}"):
        check_recipes(own(source, build="{cc} -o prog a.c"), pair, recipes)
    check_recipes(own(source, build="{cc} {ldflags}"), pair, recipes)
    check_recipes(own(source, build="{cc}"), pair, {pair[0].label: Recipe()})  # the other can't be had


def test_a_null_copy_is_the_same_program_again(source: Path) -> None:
    subject = msgspec.structs.replace(asked(own(source)), null=True)
    assert [variant.label for variant in variants(subject)] == [
        "shade=red",
        "shade=red (again)",
        "shade=green",
        "shade=blue",
    ]


def test_a_static_program_can_not_be_preloaded_into(tmp_path: Path, host: Target) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", tmp_path / "prog", tmp_path / "a.c"], check=True)
    program = OwnProgram(name="prog", arguments=(str(tmp_path / "prog"),), directory=str(tmp_path))
    makes, context = OwnProgramBuild(), BuildContext(suite="own", target=host)
    variant = Variant(levels=(("preload", "some"),))
    with pytest.raises(UnavailableError, match="is linked statically"):
        makes.program(program, "prog", variant, Recipe(preload=("/lib/some.so",)), context)
    assert makes.program(program, "prog", variant, Recipe(), context).artifact is not None
    subprocess.run(["cc", "-o", tmp_path / "prog", tmp_path / "a.c"], check=True)
    with pytest.raises(UserError, match="--env LD_PRELOAD"):
        recipe = Recipe(preload=("/lib/some.so",), environment=(("LD_PRELOAD", "x"),))
        makes.program(program, "prog", variant, recipe, context)


@pytest.mark.parametrize(("compiler", "libc"), [("cc", "glibc"), ("musl-gcc", "musl")])
def test_a_program_that_is_there_already_says_which_c_library_it_has(tmp_path: Path, compiler: str, libc: str) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run([compiler, "-o", tmp_path / "prog", tmp_path / "a.c"], check=True)
    program = OwnProgram(
        name="prog",
        arguments=(str(tmp_path / "prog"),),
        directory=str(tmp_path),
        environment=(("A", "b"), ("PATH", "/x")),
    )
    recipe = user_program(program).base_recipe(Variant(levels=()), Recipe())
    assert recipe.of(Build).libc == libc
    assert dict(recipe.environment) == {"PATH": "/x", "LC_ALL": "C", "TMPDIR": "/tmp", "A": "b"}


def user_program(own: OwnProgram) -> UserProgram:
    subject = subject_of(own_workload(experiment(own=own)))
    assert isinstance(subject, UserProgram)
    return subject


def requested(own: OwnProgram, path: str) -> TrialRequest:
    return user_program(own).request(trial_spec(Variant(levels=()), program(path), cpus=(0, 1)))


def program(path: str, *preload: str) -> Program:
    return Program(path, Recipe(preload=preload, environment=(("A", "b"),)), None, None, "/folder")


def test_every_variants_environment_is_equally_large() -> None:
    made = with_equal_environments({"a": program("/p/a"), "b": program("/p/longer", "/lib/one.so", "/lib/two.so")})
    sizes = {2 * len(p.path) + sum(len(name) + len(value) for name, value in p.added) for p in made.values()}
    assert len(sizes) == 1
    assert {tuple(name for name, _ in p.added) for p in made.values()} == {("LD_PRELOAD", "SWAPSTONE_PADDING")}
    assert (
        dict(made["b"].added)["LD_PRELOAD"] == "/lib/one.so:/lib/two.so" and dict(made["a"].added)["LD_PRELOAD"] == ""
    )
    assert all(p.added == () for p in with_equal_environments({"a": program("/p/a"), "b": program("/p/b")}).values())


def test_what_is_preloaded_is_for_the_program_alone(tmp_path: Path, host: Target) -> None:
    """Its helpers would be other programs with it, and an object of the wrong C library would break them."""
    script = tmp_path / "prog"
    script.write_text('#!/bin/sh\necho "program:$LD_PRELOAD:$SWAPSTONE_PADDING"\n')
    script.chmod(0o755)
    helper = f'echo "helper:$LD_PRELOAD:$SWAPSTONE_PADDING" >> {tmp_path}/helped'
    subject = OwnProgram(name="prog", arguments=(str(script),), setup=helper, prepare=helper, conclude=helper)
    started = Program(
        str(script),
        Recipe(),
        None,
        None,
        str(tmp_path),
        stamp_of(str(script)),
        (("LD_PRELOAD", ""), ("SWAPSTONE_PADDING", "x")),
    )
    made = user_program(subject).run(trial_spec(Variant(levels=()), started), host)
    assert made.judgement.status is Status.OK, made.judgement.reason
    assert b"program::x" in made.output
    assert (tmp_path / "helped").read_text() == "helper::\n" * 3


def test_a_request_has_the_arguments_as_typed() -> None:
    subject = OwnProgram(name="p", arguments=("./p", "-n", "a b"), stdin="/in", output="/out", timeout_ms=5)
    request = requested(subject, "/copy/p")
    assert request.arguments == ("/copy/p", "-n", "a b")
    assert (request.cwd, request.cpus, request.timeout_ms, request.stdin, request.stdout) == (
        "/folder",
        (),
        5,
        "/in",
        "/out",
    )
    named = msgspec.structs.replace(subject, arguments=("-n",), programs=(("a", "/x/p"),))
    assert requested(named, "/x/p").arguments == ("/x/p", "-n")


def judged(
    answer: AgentAnswer, subject: OwnProgram | None = None, facts: ProgramFacts | None = None
) -> tuple[Status, str]:
    subject = subject or OwnProgram(name="p", arguments=("/bin/sh",))
    started = Program("/bin/sh", Recipe(pieces=(Build(command=("musl-gcc",)),)), None, facts, "/", stamp_of("/bin/sh"))
    spec = trial_spec(Variant(levels=(("libc", "musl"),)), started)
    verdict = user_program(subject).judge(spec, answer, lambda _: None)
    assert (verdict.measured.samples == ()) == (verdict.status is not Status.OK)
    return verdict.status, verdict.reason


MUSL = {"interp": "/lib/ld-musl-x86_64.so.1", "objects": ("/lib/ld-musl-x86_64.so.1",), "facts": (("wall_ns", 5),)}


def answer(how: ProcessOutcome = ProcessOutcome.EXITED, code: int = 0, **changed: object) -> AgentAnswer:
    fields: dict[str, object] = {"id": "1-1", "outcome": how, "code": code, **MUSL, **changed}
    return AgentAnswer(**fields)  # type: ignore[arg-type] # one of its fields at a time


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        (answer(), Status.OK, ""),
        (answer(code=3, stderr=b"oh no\n"), Status.FAILED, "it ended with status 3; its last line: 'oh no'"),
        (answer(ProcessOutcome.SIGNALED, 11), Status.FAILED, "it was killed by SIGSEGV"),
        (answer(ProcessOutcome.TIMEOUT), Status.FAILED, "--timeout allows more"),
        (answer(ProcessOutcome.OVERFLOW), Status.FAILED, "--output null"),
        (answer(ProcessOutcome.DISK), Status.FAILED, "wrote more than 16384 MiB"),
        (answer(ProcessOutcome.ORPHANS, 2), Status.FAILED, "keep it in the foreground"),
        (answer(code=1, stderr=b"stdin: is not a tty\n"), Status.FAILED, "script -qec"),
        (answer(code=1, stderr=b"Error opening terminal: unknown.\n"), Status.FAILED, "--input"),
        (answer(code=1, stderr=b"TERM environment variable not set.\n"), Status.FAILED, "need a terminal"),
        (answer(code=1), Status.FAILED, "it printed nothing; if it needs a terminal, it finds none"),
        (answer(code=1, stdout=b"x: Inappropriate ioctl for device"), Status.FAILED, "need a terminal"),
        (answer(interp="/lib64/ld-linux-x86-64.so.2", objects=()), Status.REFUSED, "but glibc was in force"),
        (answer(interp=None, objects=()), Status.REFUSED, "could not be observed"),
    ],
)  # fmt: skip
def test_what_an_answer_amounts_to(given: AgentAnswer, status: Status, words: str) -> None:
    found, reason = judged(given)
    assert found is status
    assert words in reason


def test_a_wrong_level_of_what_was_built_says_how_it_was_built() -> None:
    subject = OwnProgram(name="p", arguments=("/bin/sh",), source="/s", build="make")
    facts = ProgramFacts(
        path="/bin/sh", interp="/lib64/ld-linux-x86-64.so.2", pieces=(BuildFacts(comments=("GCC: (Debian) 12",)),)
    )
    _, reason = judged(answer(interp="/lib64/ld-linux-x86-64.so.2", objects=()), subject, facts)
    assert "does the build ignore {cc}" in reason
    assert "{cc} was 'musl-gcc'" in reason and "built by GCC: (Debian) 12, its loader is /lib64/" in reason


def test_another_status_counts_only_where_that_is_accepted() -> None:
    subject = OwnProgram(name="p", arguments=("/bin/sh",), ignore_failure=True)
    assert judged(answer(code=3), subject) == (Status.OK, "")
    assert judged(answer(ProcessOutcome.SIGNALED, 6), subject)[0] is Status.FAILED
    assert judged(answer(ProcessOutcome.TIMEOUT), subject)[0] is Status.FAILED


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_text("#!/bin/sh\n")
    started = Program(str(file), Recipe(), None, None, "/", stamp_of(str(file)))
    subject = OwnProgram(name="p", arguments=(str(file),))
    file.write_text("#!/bin/sh\necho another\n")
    spec = trial_spec(Variant(levels=()), started)
    verdict = user_program(subject).judge(spec, answer(), lambda _: None)
    assert (verdict.status, verdict.measured.samples) == (Status.REFUSED, ())
    assert "was changed since the comparison began" in verdict.reason
    file.unlink()
    assert "is gone since" in user_program(subject).judge(spec, answer(), lambda _: None).reason


def test_the_first_lines_do_not_have_the_observed_memory() -> None:
    raw = b"--- stdout\nx\n--- observed\nproc smaps_rollup = 'a'\n--- agent\nno cgroup\n"
    assert first_lines(raw) == "--- stdout\nx\n--- agent\nno cgroup"
    assert first_lines(raw[raw.index(b"--- obs") : raw.index(b"--- agent")]) == "(it printed nothing)"
    assert first_lines(raw.replace(b"--- agent\n", b"env A = '1'\n")).splitlines()[2:] == [
        "--- observed",
        "env A = '1'",
        "no cgroup",
    ]


def test_the_first_lines_are_few_and_short() -> None:
    shown = first_lines(b"\n".join(b"%d" % number + b"x" * 500 for number in range(100)))
    assert len(shown.splitlines()) == 13 and max(map(len, shown.splitlines())) <= 200
    assert shown.endswith("and 88 more lines, kept in the record")
    assert first_lines(b"") == "(it printed nothing)"


def test_a_loader_that_is_given_a_program_has_no_size_of_it() -> None:
    def sizes(*arguments: str) -> tuple[tuple[str, int], ...]:
        own = OwnProgram(name="p", arguments=arguments, directory="/")
        return taken(own, new_artifact("own", "p", Variant(levels=()))).sizes

    facts = read_facts(Path("/bin/ls"))
    assert facts is not None and facts.interp is not None
    assert sizes("/bin/ls")
    assert sizes(facts.interp, "/bin/ls") == ()
