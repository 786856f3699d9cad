# SPDX-License-Identifier: MIT OR Apache-2.0
"""Other work that shows in some runs only: what is the same in every run of one variant is compared, number by number."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest

from swapstone.core.comparison.analyse_runs import precision
from swapstone.core.comparison.outputs import Agreement, agreement, variations
from swapstone.core.comparison.run_table import EXIT_STATUS, as_table
from swapstone.core.model import CURRENT_RULES, Caveat, CaveatKind, Experiment, Run, Sample, Status, Trial, Verdict
from swapstone.core.plan import variants
from swapstone.core.wire.own_program_output import OutputDigests, columns_of
from swapstone.core.workloads import own_workload, parse_metric
from tests.unit.comparison.test_outputs import BASE, CANDIDATE, PLACE, analysed
from tests.unit.comparison.test_outputs import experiment as earlier_experiment

RUNS = 51
Print = Callable[[random.Random, int], str]
"""Makes an output from random numbers and the number of the run."""


def experiment(**changes: object) -> Experiment:
    """Return a comparison of two command lines by the current rules."""
    return msgspec.structs.replace(earlier_experiment(**changes), rules=CURRENT_RULES)


def runs_of(
    subject: Experiment,
    baseline: Print,
    candidate: Print,
    *,
    errors: Sequence[Print] = (),
    statuses: Sequence[Callable[[int], int]] = (),
    file: bool = False,
    count: int = RUNS,
) -> list[Run]:
    """Return runs of both variants in turn; what they print, or write to the file ``out``, depends on the number of the run."""
    assert subject.own is not None
    outputs, dice, found = OutputDigests(), random.Random(7), []
    for number in range(count):
        for position, (label, text) in enumerate(((BASE, baseline), (CANDIDATE, candidate))):
            error = errors[position](dice, number).encode() if errors else b""
            stdout = text(dice, number).encode()
            digests = outputs.of_printed(subject.own, b"" if file else stdout, error)
            digests += outputs.of_bytes("out", stdout) if file else ()
            samples = [Sample(metric="wall", values=(1e6 * (1 + position) * (1 + number / 1000),))]
            samples += [Sample(metric="exit_status", values=(statuses[position](number),))] if statuses else []
            trial = Trial(suite="own", workload="p", load="idle", variant=label, block=number, position=position)
            found.append(Run(trial=trial, status=Status.OK, samples=tuple(samples), digests=digests))
    return found


def verdict(subject: Experiment, runs: Sequence[Run]) -> tuple[Verdict, str]:
    row = next(each for each in analysed(subject, runs).comparisons if each.metric.name == "wall")
    return row.verdict, row.reason


def seconds(dice: random.Random) -> str:
    return f"{dice.uniform(0.1, 0.2):.6f}"


def sometimes(number: int, right: str, wrong: str, every: int = 3) -> str:
    """Return the wrong text in every third run, in others the right one."""
    return wrong if number % every == 1 else right


SAME_WORK: dict[str, tuple[Print, Print]] = {
    "a printed time": (lambda d, _: f"sum 5 took {seconds(d)} s\n",) * 2,
    "times in units that fit": (
        lambda d, _: f"took {d.choice(['1.2 ms', '900 us', '2 ms'])}\n",
        lambda d, _: f"took {d.randrange(300, 999)} us\n",
    ),
    "identifiers and addresses": (lambda d, _: f"pid {d.randrange(9999)} at 0x{d.getrandbits(40):x}\nsum 5\n",) * 2,
    "a date that changes": (lambda _, n: f"hour {1 + (n > 20)}\nsum 5\n",) * 2,
    "an hour that changes after the last run of the baseline": (
        lambda _, n: "hour 1 sum 5\n",
        lambda _, n: f"hour {1 + (n == RUNS - 1)} sum 5\n",
    ),
    "a first run that finds no cache": (
        lambda _, n: "cache miss 5\n" if n == 0 else "cache hit 5\n",
        lambda _, n: "cache hit 5\n",
    ),
    "lines in any order": (lambda d, _: "".join(d.sample([f"part {n} is {n * n}\n" for n in range(5)], 5)),) * 2,
    "lines with times in any order": (
        lambda d, _: "".join(d.sample([f"part {n} is {n * n}, {seconds(d)} s\n" for n in range(5)], 5)),
    )
    * 2,
    "both wrong now and then": (lambda _, n: f"sum {sometimes(n, '5', '6')}\n",) * 2,
    "numbers in groups of three digits": (lambda d, _: f"cycles {d.randrange(500, 2_000_000):,}\nsum 5\n",) * 2,
    "another width": (lambda d, _: f"{d.randrange(1, 20000):8d} ms, sum 5\n",) * 2,
}

OTHER_WORK: dict[str, tuple[Print, Print]] = {
    "a wrong number": (lambda _, n: "sum 5\n", lambda _, n: f"sum {sometimes(n, '5', '6')}\n"),
    "wrong numbers of the baseline": (lambda _, n: f"sum {sometimes(n, '5', str(n))}\n", lambda _, n: "sum 5\n"),
    "a number that is never right": (lambda _, n: "sum 5\n", lambda _, n: f"sum {n + 9}\n"),
    "a checksum beside a time": (
        lambda d, _: f"sum 5 took {seconds(d)} s\n",
        lambda d, n: f"sum {sometimes(n, '5', '6')} took {seconds(d)} s\n",
    ),
    "a checksum beside a time that is always wrong": (
        lambda d, _: f"sum 5 took {seconds(d)} s\n",
        lambda d, _: f"sum 6 took {seconds(d)} s\n",
    ),
    "a digest beside a time": (
        lambda d, _: f"{0xDEADBEEF12:x} {seconds(d)}\n",
        lambda d, n: f"{0xDEADBEEF12 + (n % 4 == 2):x} {seconds(d)}\n",
    ),
    "words for numbers in one run": (
        lambda d, _: f"sum 5 took {seconds(d)} s\n",
        lambda d, n: "failed\n" if n == 30 else f"sum 5 took {seconds(d)} s\n",
    ),
    "nan": (lambda d, _: f"x {seconds(d)}\n", lambda d, n: f"x {sometimes(n, seconds(d), 'nan', 20)}\n"),
    "nothing": (lambda d, _: f"x {seconds(d)}\n", lambda d, n: sometimes(n, f"x {seconds(d)}\n", "", 20)),
    "a line more": (lambda d, _: f"x {seconds(d)}\n", lambda d, n: f"x {seconds(d)}\n{sometimes(n, '', 'retry 1')}\n"),
    "a field of a table": (
        lambda d, _: f"a,5,{seconds(d)}\n",
        lambda d, n: f"a,{sometimes(n, '5', '6')},{seconds(d)}\n",
    ),
    "a field of JSON": (
        lambda d, _: f'{{"sum":5,"time":{seconds(d)}}}\n',
        lambda d, n: f'{{"sum":{sometimes(n, "5", "6")},"time":{seconds(d)}}}\n',
    ),
    "a sign": (lambda d, _: f"x 5 {seconds(d)}\n", lambda d, n: f"x {sometimes(n, '5', '-5')} {seconds(d)}\n"),
    "two numbers in each other's place": (
        lambda d, _: f"a 1\na 2\n{seconds(d)}\n",
        lambda d, n: f"{sometimes(n, 'a 1', 'a 2')}\n{sometimes(n, 'a 2', 'a 1')}\n{seconds(d)}\n",
    ),
    "a list that is not always sorted": (
        lambda d, _: f"b\nc\na {seconds(d)}\n",
        lambda d, n: f"{sometimes(n, 'b', 'c')}\n{sometimes(n, 'c', 'b')}\na {seconds(d)}\n",
    ),
    "a wrong part among lines in any order": (
        lambda d, _: "".join(d.sample([f"part {n} is {n * n}\n" for n in range(5)], 5)),
        lambda d, r: "".join(d.sample([f"part {n} is {n * n + (n == r % 9)}\n" for n in range(5)], 5)),
    ),
    "one number of a large table beside times": (
        lambda d, _: "".join(f"row{chr(97 + n % 26)}{'x' * (n // 26)} {n} {seconds(d)}\n" for n in range(120)),
        lambda d, r: "".join(
            f"row{chr(97 + n % 26)}{'x' * (n // 26)} {n + (n == 100 and r % 5 == 1)} {seconds(d)}\n" for n in range(120)
        ),
    ),
    "a constant line beside random words": (
        lambda d, _: f"{d.choice(['red', 'green', 'blue'])}\nsum 5\n",
        lambda d, n: f"{d.choice(['red', 'green', 'blue'])}\nsum {sometimes(n, '5', '6')}\n",
    ),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("case", OTHER_WORK)
def test_other_work_in_some_runs_is_no_result(case: str, swapped: bool) -> None:
    baseline, candidate = OTHER_WORK[case][:: -1 if swapped else 1]
    word, reason = verdict(experiment(), runs_of(experiment(), baseline, candidate))
    assert word is Verdict.INVALID and reason.startswith("prints other output: ")
    in_file = experiment(artifacts=("out",))
    word, reason = verdict(in_file, runs_of(in_file, baseline, candidate, file=True))
    assert word is Verdict.INVALID and reason.startswith("writes another file 'out': ")
    word, reason = verdict(experiment(), runs_of(experiment(), *([lambda *_: "x"] * 2), errors=(baseline, candidate)))
    assert word is Verdict.INVALID and reason.startswith("prints another text on standard error: ")
    allowed = experiment(output_may_differ=True)
    assert verdict(allowed, runs_of(allowed, baseline, candidate))[0] is not Verdict.INVALID


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("case", SAME_WORK)
def test_what_varies_on_both_sides_is_no_other_work(case: str, swapped: bool) -> None:
    baseline, candidate = SAME_WORK[case][:: -1 if swapped else 1]
    if swapped and case in {
        "a first run that finds no cache",
        "an hour that changes after the last run of the baseline",
    }:
        return  # the second run, or the last but one, is between two of the other side
    runs = runs_of(experiment(), baseline, candidate)
    assert verdict(experiment(), runs)[0] is Verdict.WORSE


def test_the_reason_counts_the_runs() -> None:
    runs = runs_of(experiment(), *OTHER_WORK["a wrong number"])
    text = "17 of 51 runs differ in what all the baseline's 51 runs have in common"
    assert text in verdict(experiment(), runs)[1]
    runs = runs_of(experiment(), *OTHER_WORK["a wrong number"][::-1])
    text = "17 of 51 runs of the baseline differ in what all this variant's 51 runs have in common"
    assert text in verdict(experiment(), runs)[1]


def test_a_rate_that_both_sides_may_have_is_stated_as_such() -> None:
    runs = runs_of(experiment(), *OTHER_WORK["words for numbers in one run"])
    text = "1 of 51 runs differ in what all the baseline's 51 runs have in common, so rarely that the other side may have such"
    assert text in verdict(experiment(), runs)[1]


def test_in_few_runs_a_part_that_varies_on_one_side_shows_nothing() -> None:
    pair: tuple[Print, Print] = (lambda *_: "a, b", lambda _, n: ("a, b", "b, a")[n % 2])  # of an order that varies
    for count, expected in ((2, Agreement.UNKNOWN), (4, Agreement.UNKNOWN), (5, Agreement.DIFFERENT)):
        runs = runs_of(experiment(), *pair, count=count)
        assert agreement(experiment(), PLACE, BASE, CANDIDATE, as_table(runs))["stdout"].agreement is expected
        assert (verdict(experiment(), runs)[0] is Verdict.INVALID) is (expected is Agreement.DIFFERENT)
    numbers = runs_of(experiment(), *OTHER_WORK["a wrong number"], count=4)
    found = agreement(experiment(), PLACE, BASE, CANDIDATE, as_table(numbers))["stdout"]
    assert found.agreement is Agreement.UNKNOWN, "nor that they are equal but for it"
    failing = experiment(ignore_failure=True)
    runs = runs_of(failing, *([lambda *_: ""] * 2), statuses=(lambda _: 0, lambda n: int(n == 1)), count=4)
    assert agreement(failing, PLACE, BASE, CANDIDATE, as_table(runs))[EXIT_STATUS].agreement is Agreement.UNKNOWN
    assert verdict(experiment(), runs_of(experiment(), lambda *_: "5", lambda *_: "6", count=2))[0] is Verdict.INVALID


def test_earlier_rules_compare_what_is_constant_on_both_sides() -> None:
    runs = runs_of(experiment(), *OTHER_WORK["a wrong number"])
    assert verdict(earlier_experiment(), runs)[0] is Verdict.WORSE


def test_a_metric_may_vary_and_all_else_counts() -> None:
    subject = experiment(numbers=(parse_metric("n[s,lower]=regex:took ([0-9.]+)"),))
    one: Print = lambda d, n: f"sum 5 took {n // 20}.5 s\n"  # noqa: E731 # beside the next one
    other: Print = lambda d, n: "sum 5 took 0.5 s\n"  # noqa: E731
    wrong: Print = lambda d, n: f"sum {sometimes(n, '5', '6', 20)} took {n // 20}.5 s\n"  # noqa: E731
    for pair in ((one, other), (other, one)):
        runs = runs_of(subject, *pair)
        assert agreement(subject, PLACE, BASE, CANDIDATE, as_table(runs))["stdout"].agreement is Agreement.SIMILAR
        assert verdict(experiment(), runs_of(experiment(), *pair))[0] is Verdict.INVALID
    assert verdict(subject, runs_of(subject, one, wrong))[0] is Verdict.INVALID
    assert verdict(subject, runs_of(subject, other, lambda *_: "sum 6 took 0.5 s\n"))[0] is Verdict.INVALID


def test_a_metric_on_standard_error_beside_an_output_in_a_file() -> None:
    subject = experiment(numbers=(parse_metric("n[s,lower]=regex:took ([0-9.]+)"),), output="/tmp/out")
    errors: list[Print] = [lambda *_: "took 1.5 s, sum 5", lambda *_: "took 2.5 s, sum 5"]
    runs = runs_of(subject, *([lambda *_: ""] * 2), errors=errors)
    assert agreement(subject, PLACE, BASE, CANDIDATE, as_table(runs))["stderr"].agreement is Agreement.SIMILAR
    errors[1] = lambda *_: "took 1.5 s, sum 6"
    runs = runs_of(subject, *([lambda *_: ""] * 2), errors=errors)
    assert agreement(subject, PLACE, BASE, CANDIDATE, as_table(runs))["stderr"].agreement is Agreement.DIFFERENT


def test_an_exit_status_that_varies_on_one_side_is_another_result() -> None:
    subject = experiment(ignore_failure=True)
    runs = runs_of(subject, *([lambda *_: ""] * 2), statuses=(lambda _: 0, lambda n: int(n == 25)))
    word, reason = verdict(subject, runs)
    assert word is Verdict.INVALID and reason.startswith("exits with another status: 1 of 51 runs differ")
    both = runs_of(subject, *([lambda *_: ""] * 2), statuses=(lambda n: int(n == 9), lambda n: int(n == 25)))
    assert verdict(subject, both)[0] is not Verdict.INVALID


def test_standard_error_that_varies_in_words_is_no_caveat() -> None:
    def words(dice: random.Random, number: int) -> str:
        del number
        return "".join(dice.choices("abcdef", k=9))

    runs = runs_of(experiment(), *([lambda *_: "sum 5"] * 2), errors=(words, words))
    found = agreement(experiment(), PLACE, BASE, CANDIDATE, as_table(runs))
    assert (found["stdout"].agreement, found["stderr"].agreement) == (Agreement.EQUAL, Agreement.UNKNOWN)
    caveats: tuple[Caveat, ...] = analysed(experiment(), runs).caveats
    assert CaveatKind.OUTPUT_NOT_COMPARED not in {each.kind for each in caveats}


@pytest.mark.parametrize(("count", "lost"), [(10, False), (40, True)])
def test_a_measurement_ends_when_one_side_varies_in_many_runs(count: int, lost: bool) -> None:
    subject = experiment()
    work = own_workload(subject)
    runs = runs_of(subject, *OTHER_WORK["a wrong number"], count=count)
    found = precision(subject, variants(subject), {work.name: work}, runs)[PLACE].lost
    assert found.startswith("prints other output: ") is lost


def test_variations_have_the_runs_of_each_side() -> None:
    runs = runs_of(experiment(), *OTHER_WORK["a checksum beside a time"])
    found = variations(experiment(), PLACE, BASE, CANDIDATE, as_table(runs))["stdout"]
    shown = [(len(each.baseline), len(each.candidate), each.other.size) for each in found]
    assert shown == [(1, 2, 17), (51, 51, 0)]
    assert [number for each in columns_of(b"sum 5 took 2 s\n").values() for number in each] == [
        b"sum # took #",
        b"",
        b"5",
        b"2 s",
        b"",
    ]
