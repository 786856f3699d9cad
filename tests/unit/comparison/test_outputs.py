# SPDX-License-Identifier: MIT OR Apache-2.0
"""Variants that do other work are invalid, whichever side is wrong; outputs that vary are compared in what they have in common."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from swapstone.core.comparison import outputs
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.comparison.outputs import Agreement, agreement, agreement_text
from swapstone.core.comparison.run_table import as_table
from swapstone.core.comparison.storage import SMALL_BYTES
from swapstone.core.model import (
    VIRTUAL_CLOCK,
    Analysis,
    CaveatKind,
    CommandLine,
    Experiment,
    FactorLevels,
    OwnProgram,
    Run,
    Sample,
    Status,
    Trial,
    Verdict,
)
from swapstone.core.plan import variants
from swapstone.core.wire.own_program_output import OutputDigests
from swapstone.core.workloads import own_workload, parse_metric

PLACE = ("own", "p", "idle")
BASE, CANDIDATE = "command=a", "command=b"
EMPTY: tuple[tuple[str, str], ...] = ()


def experiment(**changes: object) -> Experiment:
    """Return a comparison of two command lines by the current rules."""
    own = OwnProgram(
        name="p",
        arguments=(),
        commands=(CommandLine(name="a", words=("/a",)), CommandLine(name="b", words=("/b",))),
    )
    return Experiment(
        name="compare",
        factors=(FactorLevels(factor="command", levels=("a", "b")),),
        workloads=(("own", "p"),),
        budget_ns=10**12,
        margin=0.02,
        confidence=0.95,
        seed=1,
        rules=2,
        own=msgspec.structs.replace(own, **changes),
    )


def side(
    label: str, printed: Sequence[bytes | None], wall_ns: float, files: Sequence[bytes | None] = (), **changes: object
) -> list[Run]:
    """Return a warm-up and further runs of one variant: each with an output, and the content of the file ``out``."""
    digests = OutputDigests()
    found = []
    for block, stdout in enumerate(printed):
        kept = EMPTY if stdout is None else digests.of_bytes("stdout", stdout)
        content = files[block] if files else None
        kept += EMPTY if content is None else digests.of_bytes("out", content)
        trial = Trial(suite="own", workload="p", load="idle", variant=label, block=block, position=0)
        wall = Sample(metric="wall", values=(wall_ns * (1 + block / 1000),))
        fields: dict[str, object] = {"samples": (wall,), "digests": kept, **changes}
        found.append(Run(trial=trial, status=Status.OK, **fields))  # type: ignore[arg-type] # one of its fields at a time
    return found


@pytest.mark.parametrize("without", ["both", "blocks"])
def test_other_work_is_invalid_even_where_no_pair_has_a_value(without: str) -> None:
    def lost(runs: list[Run]) -> list[Run]:
        return [msgspec.structs.replace(run, samples=()) for run in runs]

    before, after = side(BASE, [b"1"] * 4, 1e6), side(CANDIDATE, [b"2"] * 4, 1e6)
    if without == "both":
        before, after = lost(before), lost(after)
    else:  # no block has a value on both sides
        before, after = [*before[:2], *lost(before[2:])], [*lost(after[:2]), *after[2:]]
    word, reason = verdict(experiment(), [*before, *after])
    assert word is Verdict.INVALID and reason.startswith("prints other output: ")
    word, reason = verdict(experiment(output_may_differ=True), [*before, *after])
    assert (word, reason) == (Verdict.UNAVAILABLE, "no pair of runs gave a value of wall")


def analysed(subject: Experiment, runs: Sequence[Run]) -> Analysis:
    workload = own_workload(subject)
    return analyse(subject, variants(subject), {workload.name: workload}, runs)


def verdict(subject: Experiment, runs: Sequence[Run]) -> tuple[Verdict, str]:
    row = next(c for c in analysed(subject, runs).comparisons if c.metric.name == "wall")
    return row.verdict, row.reason


def relation(subject: Experiment, runs: Sequence[Run], name: str = "stdout") -> Agreement:
    return agreement(subject, PLACE, BASE, CANDIDATE, as_table(runs))[name].agreement


def caveats(subject: Experiment, runs: Sequence[Run]) -> list[CaveatKind]:
    return [caveat.kind for caveat in analysed(subject, runs).caveats]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_wrong_answer_with_half_the_work_is_invalid_in_both_orders(swapped: bool) -> None:
    answers = (b"5000\n", b"2500\n")[:: -1 if swapped else 1]
    times = (1000.0, 500.0)[:: -1 if swapped else 1]
    runs = [*side(BASE, [answers[0]] * 30, times[0]), *side(CANDIDATE, [answers[1]] * 30, times[1])]
    found, reason = verdict(experiment(), runs)
    assert found is Verdict.INVALID
    assert reason.startswith("prints other output: sha256 ") and reason.endswith("--output-may-differ")
    without_values = {Verdict.INVALID, Verdict.UNAVAILABLE}
    assert {c.verdict for c in analysed(experiment(), runs).comparisons} <= without_values
    allowed = experiment(output_may_differ=True)
    assert verdict(allowed, runs)[0] in {Verdict.BETTER, Verdict.WORSE}
    assert relation(allowed, runs) is Agreement.ALLOWED
    equal = [*side(BASE, [answers[0]] * 30, times[0]), *side(CANDIDATE, [answers[0]] * 30, times[1])]
    assert verdict(experiment(), equal)[0] in {Verdict.BETTER, Verdict.WORSE}
    assert relation(experiment(), equal) is Agreement.EQUAL


def test_records_by_the_first_rules_are_judged_as_before() -> None:
    runs = [*side(BASE, [b"1\n"] * 30, 1000.0), *side(CANDIDATE, [b"2\n"] * 30, 500.0)]
    assert verdict(msgspec.structs.replace(experiment(), rules=1), runs)[0] is Verdict.BETTER


def test_a_measurement_of_other_work_ends() -> None:
    subject = experiment()
    runs = [*side(BASE, [b"1\n"] * 3, 1000.0), *side(CANDIDATE, [b"2\n"] * 3, 500.0)]
    workload = own_workload(subject)
    found = precision(subject, variants(subject), {workload.name: workload}, runs)
    assert found[PLACE].lost.startswith("prints other output")
    runs[-1] = msgspec.structs.replace(runs[-1], digests=runs[0].digests)
    assert precision(subject, variants(subject), {workload.name: workload}, runs)[PLACE].lost == ""


def test_one_run_of_each_shows_nothing() -> None:
    runs = [*side(BASE, [b"1\n"], 1000.0), *side(CANDIDATE, [b"2\n"], 500.0)]
    assert agreement(experiment(), PLACE, BASE, CANDIDATE, as_table(runs)) == {}
    runs = [*side(BASE, [b"1\n"] * 2, 1000.0), *side(CANDIDATE, [b"2\n"] * 2, 500.0)]
    assert relation(experiment(), runs) is Agreement.DIFFERENT


def printed(text: str, n: int = 30, first: int = 0) -> list[bytes]:
    """Return outputs with a time stamp that differs in each."""
    return [f"{text}\nat 20:14:{first + number}.{number * 37}\npid {number * 991}\n".encode() for number in range(n)]


def test_time_stamps_may_differ_and_results_beside_them_may_not() -> None:
    same = [*side(BASE, printed("sum 5"), 1000.0), *side(CANDIDATE, printed("sum 5", first=500), 500.0)]
    assert relation(experiment(), same) is Agreement.SIMILAR
    assert verdict(experiment(), same)[0] is Verdict.BETTER
    assert CaveatKind.OUTPUT_NOT_COMPARED not in caveats(experiment(), same)
    other = [*side(BASE, printed("sum 5"), 1000.0), *side(CANDIDATE, printed("sum 6", first=500), 500.0)]
    found, reason = verdict(experiment(), other)
    assert found is Verdict.INVALID and "a part that is the same in all runs differs" in reason
    text = [*side(BASE, printed("sum 5"), 1000.0), *side(CANDIDATE, printed("error 5", first=500), 500.0)]
    assert "its text without numbers differs" in verdict(experiment(), text)[1]
    silent = [*side(BASE, printed("sum 5"), 1000.0), *side(CANDIDATE, [b""] * 30, 500.0)]
    assert verdict(experiment(), silent)[0] is Verdict.INVALID


def test_lines_in_another_order_are_no_other_output() -> None:
    orders = [b"a\nb\nc\n", b"c\nb\na\n", b"b\na\nc\n"]
    runs = [*side(BASE, orders * 4, 1000.0), *side(CANDIDATE, (orders[1:] + orders[:1]) * 4, 1000.0)]
    assert relation(experiment(), runs) is Agreement.SIMILAR


def test_random_text_is_a_caveat_and_no_verdict() -> None:
    words = [b"red\n", b"green\n", b"blue\n", b"black\n"]
    runs = [*side(BASE, words, 1000.0), *side(CANDIDATE, [b"white\n", *words[:3]], 500.0)]
    assert verdict(experiment(), runs)[0] is not Verdict.INVALID
    assert caveats(experiment(), runs).count(CaveatKind.OUTPUT_NOT_COMPARED) == 1
    assert CaveatKind.OUTPUT_NOT_COMPARED not in caveats(experiment(output_may_differ=True), runs)


def test_a_caveat_names_a_workload_once_whatever_the_number_of_its_variants() -> None:
    names = ("a", "b", "c")
    commands = tuple(CommandLine(name=name, words=(f"/{name}",)) for name in names)
    subject = msgspec.structs.replace(
        experiment(commands=commands), factors=(FactorLevels(factor="command", levels=names),)
    )
    words = [b"red\n", b"green\n", b"blue\n", b"black\n"]
    runs = [run for name in names for run in side(f"command={name}", [name.encode(), *words[:3]], 500.0)]
    (caveat,) = [each for each in analysed(subject, runs).caveats if each.kind is CaveatKind.OUTPUT_NOT_COMPARED]
    assert "is not known for p: standard output varies" in caveat.message


def test_silent_programs_get_no_caveat() -> None:
    runs = [*side(BASE, [b""] * 20, 1000.0), *side(CANDIDATE, [b""] * 20, 500.0)]
    assert relation(experiment(), runs) is Agreement.NONE
    assert CaveatKind.OUTPUT_NOT_COMPARED not in caveats(experiment(), runs)
    one = [*side(BASE, [b"x\n"] * 20, 1000.0), *side(CANDIDATE, [b""] * 20, 500.0)]
    assert "nothing in every run, and the baseline sha256" in verdict(experiment(), one)[1]


def test_a_discarded_output_is_a_caveat() -> None:
    runs = [*side(BASE, [None] * 20, 1000.0), *side(CANDIDATE, [None] * 20, 500.0)]
    subject = experiment(output="/dev/null")
    assert relation(subject, runs) is Agreement.DISCARDED
    assert CaveatKind.OUTPUT_NOT_COMPARED in caveats(subject, runs)
    allowed = experiment(output="/dev/null", output_may_differ=True)
    assert CaveatKind.OUTPUT_NOT_COMPARED not in caveats(allowed, runs)


def test_an_output_in_a_file_that_could_not_be_read_is_a_caveat() -> None:
    runs = [*side(BASE, [None] * 20, 1000.0), *side(CANDIDATE, [None] * 20, 500.0)]
    assert CaveatKind.OUTPUT_NOT_COMPARED in caveats(experiment(output="/tmp/out"), runs)


def test_an_output_with_a_metric_is_compared_by_its_shape() -> None:
    subject = experiment(numbers=(parse_metric("n=regex:n ([0-9]+)"),))
    other_number = [*side(BASE, [b"n 1\n"] * 20, 1000.0), *side(CANDIDATE, [b"n 2\n"] * 20, 500.0)]
    assert relation(subject, other_number) is Agreement.SIMILAR
    other_text = [*side(BASE, [b"n 1\n"] * 20, 1000.0), *side(CANDIDATE, [b"n 1\nfailed\n"] * 20, 500.0)]
    assert verdict(subject, other_text)[0] is Verdict.INVALID
    random = [*side(BASE, [b"n 1\nred\n", b"n 1\n"] * 10, 1000.0), *side(CANDIDATE, [b"n 1\n"] * 20, 500.0)]
    assert relation(subject, random) is Agreement.ALLOWED
    assert CaveatKind.OUTPUT_NOT_COMPARED not in caveats(subject, random)


def test_files_are_compared_even_if_the_output_may_differ() -> None:
    subject = experiment(output_may_differ=True, artifacts=("out",))
    old, new = side(BASE, [b"1"] * 20, 1000.0, [b"x"] * 20), side(CANDIDATE, [b"2"] * 20, 500.0, [b"y"] * 20)
    found, reason = verdict(subject, [*old, *new])
    assert found is Verdict.INVALID and reason.startswith("writes another file 'out': sha256 ")
    assert relation(subject, [*old, *new], "out") is Agreement.DIFFERENT
    same = side(CANDIDATE, [b"2"] * 20, 500.0, [b"x"] * 20)
    assert verdict(subject, [*old, *same])[0] is Verdict.BETTER
    text = agreement_text(agreement(subject, PLACE, BASE, CANDIDATE, as_table([*old, *same])))
    assert text.startswith("output: not compared, 'out': equal (sha256 ")


def test_another_exit_status_is_another_result() -> None:
    subject = experiment(ignore_failure=True)

    def with_status(label: str, statuses: Sequence[float], wall_ns: float) -> list[Run]:
        found = side(label, [b""] * len(statuses), wall_ns)
        return [
            msgspec.structs.replace(run, samples=(*run.samples, Sample(metric="exit_status", values=(status,))))
            for run, status in zip(found, statuses, strict=True)
        ]

    other = [*with_status(BASE, [0.0] * 20, 1000.0), *with_status(CANDIDATE, [1.0] * 20, 500.0)]
    found, reason = verdict(subject, other)
    assert found is Verdict.INVALID and "exits with status 1 in every run, and the baseline with 0" in reason
    varying = [*with_status(BASE, [0.0, 1.0] * 10, 1000.0), *with_status(CANDIDATE, [1.0] * 20, 500.0)]
    assert verdict(subject, varying)[0] is Verdict.BETTER
    strange = [*with_status(BASE, [0.0] * 20, 1000.0), *with_status(CANDIDATE, [1e300] * 20, 500.0)]
    assert "status 1e+300" in verdict(subject, strange)[1]


@pytest.mark.parametrize("unknown", [BASE, CANDIDATE])
@pytest.mark.parametrize("lacking", [[None] * 20, [None, *[b"1"] * 19]])
def test_an_output_that_some_runs_of_one_side_lack_is_not_compared(unknown: str, lacking: list[bytes | None]) -> None:
    sides = {label: side(label, lacking if label == unknown else [b"1"] * 20, 1000.0) for label in (BASE, CANDIDATE)}
    assert relation(experiment(), [*sides[BASE], *sides[CANDIDATE]]) is Agreement.UNKNOWN


def test_hostile_digests_of_a_record_are_not_printed() -> None:
    old, new = side(BASE, [b"1"] * 20, 1000.0), side(CANDIDATE, [b"2"] * 20, 500.0)
    hostile = (("stdout", "\x1b[31m\n"), ("stdout", "\x1b[31m\n"), ("shape:stdout", ""))
    new = [msgspec.structs.replace(run, digests=hostile) for run in new]
    found, reason = verdict(experiment(), [*old, *new])
    assert found is Verdict.INVALID and reason.isprintable()
    cut = (("stdout", f"{number}") for number in range(40))
    uneven = [
        msgspec.structs.replace(run, digests=(next(cut), ("shape:stdout", "s"), ("sections:stdout", "abc" * number)))
        for number, run in enumerate([*old, *new])
    ]
    assert relation(experiment(), uneven) is Agreement.SIMILAR


def test_servers_and_bundled_workloads_are_not_compared() -> None:
    runs = [*side(BASE, [b"1"] * 20, 1000.0), *side(CANDIDATE, [b"2"] * 20, 500.0)]
    subject = msgspec.structs.replace(experiment(), own=None)
    assert outputs.check(subject, variants(subject), {}, as_table(runs)).excluded == {}
    assert agreement(subject, PLACE, BASE, CANDIDATE, as_table(runs)) == {} and agreement_text({}) == ""


def test_runs_that_use_storage_are_a_caveat() -> None:
    def with_facts(label: str, written: int, read: int) -> list[Run]:
        return side(label, [b"1"] * 20, 1000.0, facts=(("write_bytes", written), ("read_bytes", read)))

    def messages(*runs: Run) -> list[str]:
        return [c.message for c in analysed(experiment(), runs).caveats if c.kind is CaveatKind.WRITES_FILES]

    assert messages(*with_facts(BASE, SMALL_BYTES - 1, 0), *with_facts(CANDIDATE, 0, SMALL_BYTES - 1)) == []
    assert len(messages(*with_facts(BASE, SMALL_BYTES, 0), *with_facts(CANDIDATE, 0, 0))) == 1
    runs = [*with_facts(BASE, 3 << 20, 0), *with_facts(CANDIDATE, 0, 0)]
    virtual = msgspec.structs.replace(experiment(), clock=VIRTUAL_CLOCK, target="vm")
    assert not [c for c in analysed(virtual, runs).caveats if c.kind is CaveatKind.WRITES_FILES]
    (found,) = messages(*runs)
    assert "write 3 (command=a), 0 (command=b) MiB a run" in found and "read" not in found.split(":")[1]
    (found,) = messages(*with_facts(BASE, 0, 1 << 20), *with_facts(CANDIDATE, 0, 2 << 20))
    assert "read 1 (command=a), 2 (command=b) MiB a run" in found
    assert messages(*side(BASE, [b"1"] * 20, 1.0), *side(CANDIDATE, [b"1"] * 20, 1.0)) == []  # an older agent


def test_files_that_runs_leave_are_a_caveat() -> None:
    runs = side(BASE, [b"1"] * 20, 1000.0) + side(CANDIDATE, [b"1"] * 20, 1000.0, found_files=("a\x1b[31m", "b", "..."))
    (found,) = (c.message for c in analysed(experiment(), runs).caveats if c.kind is CaveatKind.WRITES_FILES)
    assert "leave files in their working folder" in found and r"'a\x1b[31m', 'b', ..." in found
    runs[:20] = side(BASE, [b"1"] * 20, 1000.0, found_files=("c", "/dev/shm/\x1b[31m"))
    inside, outside = (c.message for c in analysed(experiment(), runs).caveats if c.kind is CaveatKind.WRITES_FILES)
    assert inside.endswith(r": 'c', 'a\x1b[31m', 'b', ....")
    assert "outside their working folder grew" in outside and outside.endswith(r"'/dev/shm/\x1b[31m'.")
