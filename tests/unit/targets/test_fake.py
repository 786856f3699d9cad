# SPDX-License-Identifier: MIT OR Apache-2.0
"""The fake target simulates what its file describes, reproducibly, and through the decoders of all answers."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path

import msgspec
import numpy as np
import pytest

from swapstone.core.factors import Evidence, find_factor
from swapstone.core.model import UserError, WireError
from swapstone.core.session.study_file import decode_study
from swapstone.core.targets import TargetError, open_target
from swapstone.core.targets.fake import FakeTarget
from swapstone.core.targets.fake_spec import FAULTS, Behaviour, decode_spec
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest, WorkloadReport, decode_workload_report

TOP = Path(__file__).parents[3]


def made(tmp_path: Path, text: str) -> FakeTarget:
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return FakeTarget(path)


def ask(
    target: FakeTarget, trial: str = "1-0", variant: str = "libc=glibc", workload: str = "w", passes: int = 4
) -> AgentAnswer:
    arguments = (target.path_of(variant, workload), str(passes))
    return target.run(TrialRequest(id=trial, arguments=arguments, cwd=target.scratch(), timeout_ms=1000))


def report(target: FakeTarget, **where: object) -> WorkloadReport:
    return decode_workload_report(ask(target, **where).stdout)  # type: ignore[arg-type] # as `ask` takes them


def level(target: FakeTarget, block: int, variant: str = "libc=glibc", position: int = 0) -> float:
    """The logarithm of the ratio of a run's time to the requested median, 1e9 ns."""
    one = report(target, trial=f"{block}-{position}", variant=variant, passes=1)
    return float(np.log(one.passes[0].wall_ns / 1e9))


def test_without_noise_every_number_is_exact(tmp_path: Path) -> None:
    target = made(
        tmp_path,
        """
        [[behaviour]]
        wall_ns = 1_000_000
        cpu_share = 0.5
        start_ns = 7
        ops = 3
        virt_bytes = 11
        res_bytes = 12
        dirty_bytes = 13
        maxrss_bytes = 14
        minflt = 15
        nvcsw = 16
        pressure = 0.25
        """,
    )
    answer = ask(target, passes=4)
    got = decode_workload_report(answer.stdout)
    assert (answer.id, answer.outcome, answer.code) == ("1-0", ProcessOutcome.EXITED, 0)
    assert (got.name, got.ops, len(got.passes)) == ("w", 3, 4)
    assert {(p.wall_ns, p.cpu_ns, p.minflt, p.nvcsw) for p in got.passes} == {(1_000_000, 500_000, 15, 16)}
    assert got.memory is not None
    assert (got.memory.virt_bytes, got.memory.res_bytes, got.memory.dirty_bytes) == (11, 12, 13)
    facts = dict(answer.facts)
    assert facts["wall_ns"] == 4_000_007
    assert (facts["maxrss_bytes"], facts["minflt"], facts["nvcsw"]) == (14, 60, 64)
    assert facts["psi_cpu_us"] == 1000


def test_later_behaviours_override_earlier_ones_key_by_key(tmp_path: Path) -> None:
    target = made(
        tmp_path,
        """
        [[behaviour]]
        wall_ns = 100
        minflt = 1
        [[behaviour]]
        variant = "libc=musl*"
        wall_ns = 200
        [[behaviour]]
        variant = "libc=musl*"
        workload = "b_*"
        minflt = 2
        """,
    )
    seen = {
        (variant, workload): (one.passes[0].wall_ns, one.passes[0].minflt)
        for variant, workload in itertools.product(("libc=glibc", "libc=musl (again)"), ("a(b c)", "b_/%"))
        for one in [report(target, variant=variant, workload=workload)]
        if one.name == workload
    }
    assert seen == {
        ("libc=glibc", "a(b c)"): (100, 1),
        ("libc=glibc", "b_/%"): (100, 1),
        ("libc=musl (again)", "a(b c)"): (200, 1),
        ("libc=musl (again)", "b_/%"): (200, 2),
    }


NOISY = "seed = {}\n[[behaviour]]\nwall_ns = 1_000_000\nnoise = 0.1\npass_noise = 0.1\nwander = 0.1\n"


def test_equal_requests_get_equal_answers_in_any_order(tmp_path: Path) -> None:
    first, second, other = (made(tmp_path, NOISY.format(seed)) for seed in (1, 1, 2))
    trials = [f"{block}-{position}" for block in range(3) for position in range(3)]
    answers = {trial: ask(first, trial) for trial in trials}
    assert {trial: ask(second, trial) for trial in reversed(trials)} == answers
    assert all(ask(other, trial).stdout != answers[trial].stdout for trial in trials)
    assert len({answer.stdout for answer in answers.values()}) == len(trials)


@pytest.mark.slow
def test_noise_is_lognormal_about_the_median(tmp_path: Path) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1_000_000_000\nnoise = 0.1\n")
    levels = [level(target, block) for block in range(1, 801)]
    # standard errors: of the mean 0.1 / sqrt(800) = 0.0035, of the deviation 0.1 / sqrt(1600) = 0.0025
    assert statistics.fmean(levels) == pytest.approx(0.0, abs=0.015)
    assert statistics.stdev(levels) == pytest.approx(0.1, abs=0.01)


def test_drift_is_compounded_block_by_block(tmp_path: Path) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1_000_000_000\ndrift = 0.01\n")
    assert [level(target, block) for block in (0, 1, 100)] == pytest.approx([0, np.log(1.01), 100 * np.log(1.01)])


@pytest.mark.slow
def test_a_block_shares_its_wander_and_blocks_are_autocorrelated(tmp_path: Path) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1_000_000_000\nwander = 0.1\nautocorrelation = 0.8\n")
    levels = [level(target, block) for block in range(1, 601)]
    assert levels[:50] == [level(target, block, "libc=musl", 1) for block in range(1, 51)]
    assert statistics.stdev(levels) == pytest.approx(0.1, abs=0.03)
    assert np.corrcoef(levels[:-1], levels[1:])[0, 1] == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    ("variant", "loader", "library"),
    [("libc=glibc", "ld-linux", "libc.so.6"), ("libc=musl", "ld-musl", "linux-musl/libc.so")],
)
def test_the_c_library_is_visible_in_the_answer(tmp_path: Path, variant: str, loader: str, library: str) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1\n")
    answer = ask(target, variant=variant)
    assert answer.interp is not None
    assert loader in answer.interp
    assert any(library in path for path in answer.objects)
    assert decode_workload_report(answer.stdout).mapped == answer.objects


def with_fault(tmp_path: Path, kind: str) -> FakeTarget:
    return made(tmp_path, f'[[behaviour]]\nwall_ns = 1000\nfaults = [{{ kind = "{kind}", probability = 1.0 }}]\n')


@pytest.mark.parametrize("kind", ["truncate", "garbage", "silent", "negative", "nan"])
def test_a_fault_makes_the_report_invalid(tmp_path: Path, kind: str) -> None:
    answer = ask(with_fault(tmp_path, kind))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
    with pytest.raises(WireError):
        decode_workload_report(answer.stdout)


@pytest.mark.parametrize(
    ("kind", "how", "code"),
    [
        ("error", ProcessOutcome.EXITED, 1),
        ("crash", ProcessOutcome.SIGNALED, 11),
        ("timeout", ProcessOutcome.TIMEOUT, 0),
        ("overflow", ProcessOutcome.OVERFLOW, 0),
        ("disk", ProcessOutcome.DISK, 0),
        ("orphans", ProcessOutcome.ORPHANS, 2),
        ("unstarted", ProcessOutcome.UNSTARTED, 2),
    ],
)
def test_a_fault_changes_how_the_program_ends(tmp_path: Path, kind: str, how: ProcessOutcome, code: int) -> None:
    answer = ask(with_fault(tmp_path, kind))
    assert (answer.outcome, answer.code) == (how, code)


def test_the_fault_other_work_changes_the_checksum(tmp_path: Path) -> None:
    correct = report(made(tmp_path, "[[behaviour]]\nwall_ns = 1000\n"))
    other = report(with_fault(tmp_path, "other-work"))
    assert correct.check
    assert other.check not in ("", correct.check)


def test_the_fault_wrong_level_changes_the_c_library(tmp_path: Path) -> None:
    answer = ask(with_fault(tmp_path, "wrong-level"), variant="libc=glibc")
    assert answer.interp == "/lib/ld-musl-x86_64.so.1"
    assert decode_workload_report(answer.stdout).mapped == answer.objects


@pytest.mark.parametrize(
    "variant",
    [
        "libc=musl,linking=static,compiler=clang,optimization=Os",
        "optimization=O0,compiler=gcc,linking=dynamic,libc=glibc",
        "libc=musl,compiler=clang",
        "linking=static",
        "linking=dynamic",
        "compiler=gcc",
        "optimization=Og (again)",
    ],
)
def test_every_level_is_observable(tmp_path: Path, variant: str) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1000\n")
    answer = ask(target, variant=variant)
    facts = target.inspect(target.path_of(variant, "w"))
    evidence = Evidence(interp=answer.interp, objects=answer.objects, program=facts)
    asked = dict(text.split("=") for text in variant.partition(" ")[0].split(","))
    assert {factor: find_factor(factor).observe(evidence) for factor in asked} == asked


@pytest.mark.parametrize("variant", ["linking=dynamic", "linking=static,compiler=gcc", "libc=musl,linking=static"])
def test_the_fault_wrong_level_changes_the_linking(tmp_path: Path, variant: str) -> None:
    target = with_fault(tmp_path, "wrong-level")
    answer = ask(target, variant=variant)
    facts = target.inspect(target.path_of(variant, "w"))
    evidence = Evidence(interp=answer.interp, objects=answer.objects, program=facts)
    assert find_factor("linking").observe(evidence) != dict(text.split("=") for text in variant.split(","))["linking"]


def test_a_wrong_level_that_is_not_observable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't simulate a wrong level of compiler, optimization") as caught:
        ask(with_fault(tmp_path, "wrong-level"), variant="compiler=gcc,optimization=O2")
    assert "libc, linking" in caught.value.hint


def test_other_files_have_no_program_facts(tmp_path: Path) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1000\n")
    assert target.inspect("/usr/lib/x86_64-linux-gnu/libm.so.6") is None
    assert target.inspect("/fake/scratch") is None


def test_a_broken_answer_does_not_break_the_next_trial(tmp_path: Path) -> None:
    target = made(tmp_path, '[[behaviour]]\nwall_ns = 1000\nfaults = [{ kind = "broken", trials = ["2-*"] }]\n')
    assert ask(target, "1-0").outcome is ProcessOutcome.EXITED
    with pytest.raises(TargetError, match=r"answer is invalid: Line .*the agent stopped inside the answer"):
        ask(target, "2-3")
    assert ask(target, "3-0").outcome is ProcessOutcome.EXITED


def test_every_fault_changes_the_answer(tmp_path: Path) -> None:
    correct = ask(made(tmp_path, "[[behaviour]]\nwall_ns = 1000\n"))
    for kind in FAULTS:
        try:
            assert ask(with_fault(tmp_path, kind)) != correct, kind
        except TargetError:
            assert kind == "broken"


@pytest.mark.slow
def test_faults_have_the_configured_frequency(tmp_path: Path) -> None:
    target = made(
        tmp_path,
        """
        [[behaviour]]
        wall_ns = 1000
        faults = [{ kind = "crash", probability = 0.1 }, { kind = "timeout", trials = ["*-7", "calibrate-*"] }]
        """,
    )
    ends = [ask(target, f"{number}-0").outcome for number in range(1000)]
    assert ends.count(ProcessOutcome.SIGNALED) == pytest.approx(100, abs=40)  # four standard deviations
    assert ends.count(ProcessOutcome.TIMEOUT) == 0
    assert ask(target, "calibrate-0-0").outcome in (ProcessOutcome.TIMEOUT, ProcessOutcome.SIGNALED)
    assert ask(target, "12-7").outcome in (ProcessOutcome.TIMEOUT, ProcessOutcome.SIGNALED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no fake target's file: .*behaviour"),
        ("[[behaviour]\n", "is not TOML"),
        ("[[behaviour]]\nwall = 1\n", "unknown field `wall`"),
        ("[[behaviour]]\nwall_ns = 0\n", r"Expected `int` >= 1.*behaviour\[0\].wall_ns"),
        ("[[behaviour]]\nwall_ns = 1.5\n", "Expected `int"),
        ("[[behaviour]]\nnoise = -0.1\n", "Expected `float` >= 0"),
        ("[[behaviour]]\nautocorrelation = 1.0\n", "Expected `float` < 1"),
        ('[[behaviour]]\nfaults = [{kind = "crash", probability = 2.0}]\n', "Expected `float` <= 1"),
        ('[[behaviour]]\nfaults = [{kind = "crush"}]\n', "There is no fault named 'crush'"),
    ],
)
def test_an_invalid_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made(tmp_path, text)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read: No such file"):
        open_target(f"fake:{tmp_path / 'absent.toml'}")


@pytest.mark.parametrize(
    ("text", "message"), [("fake", "needs the file"), ("host:1", "takes nothing"), ("hose", "no target")]
)
def test_an_invalid_target_name_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_target(text)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("libc=newlib", r"can't simulate libc=newlib"),
        ("kernel=rt", "can't simulate kernel=rt"),
        ("odd", "simulate odd"),
    ],
)
def test_a_level_that_cannot_be_simulated_is_an_error(tmp_path: Path, variant: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ask(made(tmp_path, "[[behaviour]]\nwall_ns = 1\n"), variant=variant)


def test_a_program_without_a_time_is_an_error(tmp_path: Path) -> None:
    target = made(tmp_path, '[[behaviour]]\nworkload = "a*"\nwall_ns = 1\n')
    with pytest.raises(UserError, match="gives no wall_ns for w of libc=glibc"):
        ask(target)


def test_other_programs_are_refused(tmp_path: Path) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1\n")
    with pytest.raises(UserError, match="can't run /bin/true"):
        target.run(TrialRequest(id="1-0", arguments=("/bin/true", "1"), cwd="/", timeout_ms=1))


def test_the_documented_example_works(tmp_path: Path) -> None:
    text = (TOP / "docs" / "fake-target.md").read_text()
    start = text.index("    seed = 7")
    lines = itertools.takewhile(lambda line: not line or line.startswith("    "), text[start:].splitlines())
    example = "\n".join(line[4:] for line in lines)
    target = made(tmp_path, example)
    assert target.describe().cpu == "Fake 9000"
    assert ask(target, variant="libc=musl", workload="b_malloc_tiny1", trial="3-1").outcome in (
        ProcessOutcome.TIMEOUT,
        ProcessOutcome.SIGNALED,
    )
    assert ask(target, variant="libc=glibc", workload="b_malloc_tiny1", trial="3-1").outcome is ProcessOutcome.EXITED


def test_the_documentation_names_every_key_and_fault() -> None:
    text = (TOP / "docs" / "fake-target.md").read_text()
    for kind in FAULTS:
        assert f"`{kind}`" in text
    for key in Behaviour.__struct_fields__:
        assert f"`{key}`" in text, key


@pytest.mark.parametrize(
    ("variant", "interp", "served"),
    [
        ("allocator=default", "ld-linux-x86-64.so.2", "default"),
        ("allocator=snmalloc", "ld-linux-x86-64.so.2", "snmalloc"),
        ("allocator=mimalloc,libc=musl", "ld-musl-x86_64.so.1", "mimalloc"),
        ("libc=musl,allocator=default (again)", "ld-musl-x86_64.so.1", "default"),
    ],
)
def test_allocators_are_simulated_as_mapped_files(tmp_path: Path, variant: str, interp: str, served: str) -> None:
    target = made(tmp_path, "[[behaviour]]\nwall_ns = 1\n")
    answer = ask(target, variant=variant)
    libraries = tuple(filter(None, map(target.inspect, answer.objects)))
    malloc = decode_workload_report(answer.stdout).malloc
    evidence = Evidence(interp=answer.interp, objects=answer.objects, libraries=libraries, malloc=malloc)
    assert answer.interp is not None and answer.interp.endswith(interp)
    assert find_factor("allocator").observe(evidence) == served
    for path in (malloc, ""):
        assert find_factor("allocator").observe(msgspec.structs.replace(evidence, malloc=path)) == served


@pytest.mark.parametrize(
    "content",
    [
        b"seed = " + b"9" * 5000,
        b"seed = 0x" + b"f" * 5000,
        b"a = " + b"[" * 5000,
        b"\xff",
        b"a" + b".a" * 100 + b" = 1",
    ],
    ids=["digits", "hexadecimal digits", "nesting", "not UTF-8", "dotted key"],
)
def test_what_no_toml_decoder_should_accept_is_an_error(content: bytes) -> None:
    with pytest.raises(UserError, match="mine is not TOML"):
        decode_spec(content, "mine")
    with pytest.raises(UserError, match="mine is not a study"):
        decode_study(content, "mine")
