# SPDX-License-Identifier: MIT OR Apache-2.0
"""What surrounds the processes of both variants: how it is read, and which of it an explanation names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Observation
from swapstone.core.model.observation import cgroup_file, process_file
from swapstone.core.report.render import terminal
from swapstone.core.targets import open_target
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.explanation.row_answer import explain_measurements as explain
from swapstone.parts.explain.explanation.surroundings import (
    MOST_LINES,
    NEITHER,
    READY,
    part_differences,
    read_counts,
    read_limits,
    read_surroundings,
    surrounding_lines,
)
from swapstone.parts.explain.instruments.acquisition import observed
from swapstone.parts.explain.model.explanation import SURROUNDINGS, Count, ProcessorTaken, RowMeasurements
from swapstone.parts.explain.report.explanation_document import document_of
from tests.unit.explanation.rows import BASE, CANDIDATE, OWN, elapsed, reference, result, row

STATUS = "Name:\tx\nVmLck:\t       8 kB\nTHP_enabled:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\nCpus_allowed_list:\t0-1\n"
STAT = f"7 (a) b) S {' '.join(['1'] * 15)} -5 {' '.join(['2'] * 20)} 40 5 0"
LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax stack size             unlimited   unlimited   bytes\n"


def texts(**more: str) -> dict[Observation, str]:
    given = {
        "status": STATUS,
        "stat": STAT,
        "limits": LIMITS,
        "environ": "A=1\0LC_ALL=C\0PWD=/x\0SET=y\0SWAPSTONE_X=x\0NO=\0",
        **more,
    }
    return {process_file(name): text for name, text in given.items()}


def test_quantities_are_read_from_the_texts_of_a_process(tmp_path: Path) -> None:
    objects = ("/lib/libc.so.6", "/opt/libz.so.1", "/bin/dash")
    found = read_surroundings(texts(), objects, (("SET", "y"),), tmp_path)
    assert found == {
        "processor quota and its period in us": "none",
        "CPU affinity": "0-1",
        "nice value": "-5",
        "scheduling policy": "SCHED_IDLE",
        "real-time priority": "40",
        "seccomp mode": "filter",
        "seccomp filters": "3",
        "huge pages permitted (THP_enabled)": "1",
        "locked memory": "8 kB",
        "environment variable {}": "",
        "environment variable A": "1",
        "environment variable LC_ALL": "C",
        "environment variable NO": "empty",
        "limit of {}": "",
        "limit of stack size": "unlimited",
        "mapped object {}": "",
        "mapped object libz.so.1": "/opt/libz.so.1",
    }


@pytest.mark.parametrize("version", [1, 2])
def test_a_quota_is_found_in_the_groups_above_with_its_stops(tmp_path: Path, version: int) -> None:
    group = tmp_path / ("cpu" if version == 1 else "") / "a"
    (group / "b").mkdir(parents=True)
    if version == 1:
        (group / "cpu.cfs_quota_us").write_text("50000\n")
        (group / "cpu.cfs_period_us").write_text("100000\n")
    else:
        (group / "cpu.max").write_text("50000 100000\n")
        (group / "b" / "cpu.max").write_text("max 100000\n")
    (group / "cpu.stat").write_text("nr_periods 9\nnr_throttled 4\n")
    seen = texts(cgroup="1:name=x:/\n3:cpuset,cpu:/a/b\n" if version == 1 else "0::/a/b\n", io="rchar: 70\nother: 1\n")
    assert read_surroundings(seen, (), (), tmp_path)["processor quota and its period in us"] == "50000 100000"
    assert read_counts(seen, tmp_path) == {"rchar": 70, "nr_throttled": 4}
    escape = texts(cgroup="0::/../a\n3:cpu:/../../a\n")
    assert read_surroundings(escape, (), (), tmp_path / "b")["processor quota and its period in us"] == "none"
    gone = {**texts(cgroup="0::/gone\n"), cgroup_file("cpu.max"): "7 9\n"}
    assert read_surroundings(gone, (), (), tmp_path / "b")["processor quota and its period in us"] == "7 9"


def test_what_keeps_processors_from_a_process_is_read_while_it_runs(tmp_path: Path) -> None:
    group, process = tmp_path / "groups" / "a", tmp_path / "7"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("15000 100000\n")
    process.mkdir()
    assert read_limits(process, tmp_path / "groups") == {}, "it has ended"
    for name, text in (("status", STATUS), ("stat", STAT), ("cgroup", "0::/a\n")):
        (process / name).write_text(text)
    assert read_limits(process, tmp_path / "groups") == {
        "processor quota and its period in us": "15000 100000",
        "CPU affinity": "0-1",
        "nice value": "-5",
        "scheduling policy": "SCHED_IDLE",
        "real-time priority": "40",
    }


def test_a_limit_that_is_gone_at_the_end_is_named() -> None:
    quota = "processor quota and its period in us"

    def limited(slow: tuple[str, ...], fast: tuple[str, ...]) -> tuple[str, ...]:
        seen = surrounded({quota: ("none",)}, {quota: ("none",)}, WAITS)
        runs = (result("pages", BASE, limits=((quota, fast),)), result("pages", CANDIDATE, limits=((quota, slow),)))
        return surrounding_lines(msgspec.structs.replace(seen, runs=runs), ())[1:]

    named = f"{quota}, while it ran: 15000 100000 with musl, none with glibc."
    assert limited(("none", "15000 100000"), ("none",)) == (named,)
    assert limited(("none",), ("none", "15000 100000")) == limited(("7 9",), ()) == ()


def test_texts_of_other_forms_have_no_quantities(tmp_path: Path) -> None:
    damaged = dict.fromkeys((*texts(cgroup="", io=""), cgroup_file("cpu.max")), "\x00\n:::\n)")
    found = read_surroundings(damaged, (), (), tmp_path)
    assert {name for name in found if "{}" not in name} == {"processor quota and its period in us"}
    assert read_counts(damaged, tmp_path) == {}


Around = Mapping[str, tuple[str, ...]]
Parts = Mapping[str, tuple[float, float]]


def surrounded(slow: Around, fast: Around, parts: Parts | None = None, metric: str = "wall") -> RowMeasurements:
    """Return a row of 1 ms against 3 ms with these surroundings, and parts of the time in ns."""
    seen = row(([{OWN: 1}], [1e6]), ([{OWN: 1}], [3e6]), metric=metric)
    sides = [
        msgspec.structs.replace(
            reference(name, [whole], [whole], **{part: values[n] for part, values in (parts or {}).items()}),
            surroundings=tuple(around.items()),
        )
        for n, (name, whole, around) in enumerate(((BASE, 1e6, fast), (CANDIDATE, 3e6, slow)))
    ]
    return msgspec.structs.replace(seen, references=(sides[0], sides[1]))


WAITS = {"user": (1e6, 1e6), "system": (0.0, 0.0), NEITHER: (0.0, 2e6), READY: (0.0, 1.5e6), "counted": (1e9, 1e9)}


def test_the_kernels_counts_divide_the_difference() -> None:
    assert surrounding_lines(surrounded({}, {}, WAITS), ()) == (
        "+2 ms (wall) by the kernel's own counts: 0 ns in user mode, 0 ns in the kernel, +2 ms neither, that is waiting or without a "
        "processor; 1.50 ms of that ready to run.",
    )
    few = {**WAITS, "counted": (1e6, 1e6)}
    (line,) = surrounding_lines(surrounded({}, {}, few), ())
    assert ": 0 ns on a processor, +2 ms neither" in line
    several = {name: each for name, each in WAITS.items() if name not in {NEITHER, READY}}
    assert surrounding_lines(surrounded({}, {}, several), ()) == (), "threads that run at the same time have no rest"
    assert part_differences(surrounded({}, {}, {**WAITS, "user": (1e6, 3e6)}, "cpu")) == {
        "user": 2e6,
        "system": 0.0,
        READY: 3e6 / 3e6 * 1.5e6,
    }


def test_only_what_differs_in_all_runs_and_may_account_for_the_time_is_named() -> None:
    slow = {"nice value": ("19",), "seccomp filters": ("1",), "CPU affinity": ("0", "0-1"), "limit of {}": ("",)}
    fast = {"nice value": ("0",), "seccomp filters": ("0",), "CPU affinity": ("0-1",), "limit of {}": ("",)}
    one, rest = "limit of stack size", ("8",)
    lines = surrounding_lines(surrounded({**slow, one: rest}, fast, WAITS), ())[1:]
    assert lines == ("nice value: 19 with musl, 0 with glibc.", "limit of stack size: 8 with musl, none with glibc.")
    # Without a known division, all of it may; a set that was not read has no value.
    unread = {name: each for name, each in fast.items() if name != "limit of {}"}
    assert surrounding_lines(surrounded({**slow, one: rest}, unread), ()) == (
        "nice value: 19 with musl, 0 with glibc.",
        "seccomp filters: 1 with musl, 0 with glibc.",
    )
    kernel = {**WAITS, "system": (0.0, 2e6), NEITHER: (0.0, 0.0), READY: (0.0, 0.0)}
    assert surrounding_lines(surrounded(slow, fast, kernel), ())[1:] == ("seccomp filters: 1 with musl, 0 with glibc.",)


def test_more_lines_than_a_screen_has_are_counted() -> None:
    many = {"environment variable {}": ("",), **{f"environment variable V{n}": ("x",) for n in range(9)}}
    lines = surrounding_lines(surrounded(many, {"environment variable {}": ("",)}), ())
    assert lines[0] == "environment variable V0: x with musl, none with glibc."
    assert lines[MOST_LINES:] == ("3 more of the surroundings differ; the stored evidence has them.",)


@pytest.mark.parametrize(
    ("name", "base", "candidate", "named"),
    [
        ("bytes read", 0.0, 1e6, True),
        ("bytes read", 1e6, 0.0, False),
        ("bytes read", 1e6, 1.1e6, False),
        ("read calls", 2.0, 9.0, False),
        ("stops by the processor quota", 0.0, 4.0, True),
    ],
)
def test_counts_of_which_the_slower_variant_has_more_are_named(
    name: str, base: float, candidate: float, named: bool
) -> None:
    count = Count(group=SURROUNDINGS, name=name, baseline=base, candidate=candidate)
    lines = surrounding_lines(surrounded({}, {}, WAITS), (count,))[1:]
    assert len(lines) == named and all(line.startswith(f"{name}: ") and line.endswith(" with glibc.") for line in lines)
    on_cpu = {**WAITS, "user": (1e6, 3e6), NEITHER: (0.0, 0.0), READY: (0.0, 0.0)}
    assert len(surrounding_lines(surrounded({}, {}, on_cpu), (count,))) == 1


def test_time_without_a_processor_is_first_that_of_what_differs() -> None:
    taken = (ProcessorTaken(whose="hog", total_ns=2e6),)
    sides = [
        result("off-cpu", name, elapsed=elapsed([{}], 1e6, ready)) for name, ready in ((BASE, 0.0), (CANDIDATE, 2e6))
    ]
    more = (*sides, result("waits", BASE), result("waits", CANDIDATE, taken=taken))
    quota: Around = {"processor quota and its period in us": ("30000 100000",)}
    none: Around = {"processor quota and its period in us": ("none",)}
    cases: tuple[tuple[tuple[Around, Around], str], ...] = (
        (
            (quota, none),
            "consistent with processor quota and its period in us: 30000 100000 with musl, none with glibc;",
        ),
        (
            (none, none),
            "taken by hog for 2 ms, while the variants took turns; at the end their quotas, priorities and processors were equal;",
        ),
        (({}, {}), "taken by hog for 2 ms;"),
    )
    for around, text in cases:
        seen = surrounded(*around)
        on_cpu = [
            msgspec.structs.replace(
                reference(each.variant, [dict(each.metrics)["wall"]], [1e6]), surroundings=each.surroundings
            )
            for each in seen.references
        ]
        found = explain(msgspec.structs.replace(seen, references=(on_cpu[0], on_cpu[1]), runs=(*seen.runs, *more)))
        assert any("is time ready without a processor, " + text in line for line in found.unknown), found.unknown
        lead = "with glibc: 100 % of the difference is time ready without a processor, consistent with processor quota"
        assert (lead in found.sentence) == (around[0] is quota), found.sentence


def test_a_quota_is_the_answer_without_a_profile_too() -> None:
    seen = surrounded({"nice value": ("19",)}, {"nice value": ("0",)}, WAITS)
    refused = msgspec.structs.replace(seen, runs=())
    assert explain(refused).sentence == (
        "w takes 3 ms (wall) with musl instead of 1 ms with glibc: which function accounts for it is not known: there is no on-CPU profile "
        "of both variants."
    )
    late = msgspec.structs.replace(
        surrounded({"nice value": ("19",)}, {"nice value": ("0",)}, {**WAITS, READY: (0.0, 1.9e6)}), runs=()
    )
    assert explain(late).sentence == (
        "w takes 3 ms (wall) with musl instead of 1 ms with glibc: 95 % of the difference is time ready without a processor, consistent "
        "with nice value: 19 with musl, 0 with glibc."
    )
    # After each wait a thread waits for a processor, so a variant that waits more often is delayed more by the same load.
    often = [
        msgspec.structs.replace(each, metrics=(*each.metrics, ("nvcsw", number)))
        for each, number in zip(late.references, (30.0, 3900.0), strict=True)
    ]
    waits = msgspec.structs.replace(late, references=(often[0], often[1]))
    assert explain(waits).sentence == explain(refused).sentence


def test_the_surroundings_are_shown_of_runs_that_differ_now() -> None:
    seen = surrounded({"nice value": ("19",)}, {"nice value": ("0",)})
    sides = [
        msgspec.structs.replace(reference(each.variant, [time + n for n in range(12)]), surroundings=each.surroundings)
        for each, time in zip(seen.references, (1e6, 3e6), strict=True)
    ]
    now = msgspec.structs.replace(seen, differs=False, references=(sides[0], sides[1]))
    assert explain(now).surroundings == ("nice value: 19 with musl, 0 with glibc.",)


def test_the_first_screen_has_the_surroundings_before_what_is_not_known() -> None:
    seen = surrounded({"nice value": ("19",)}, {"nice value": ("0",)})
    printed = terminal.render(document_of(explain(seen)))
    assert "\nSurroundings\n- nice value: 19 with musl, 0 with glibc.\n" in printed
    equal = msgspec.structs.replace(seen, differs=False)
    assert explain(equal).surroundings == ()


def test_an_agent_reads_the_surroundings_of_a_process() -> None:
    with open_target("host") as target:

        def seen(*before: str) -> dict[str, str]:
            request = TrialRequest(
                id="x", arguments=("/usr/bin/env", *before, "/bin/true"), cwd=target.scratch(), timeout_ms=30_000
            )
            answer = target.run(observed(request))
            assert read_counts(dict(answer.observed))["rchar"] > 0
            return read_surroundings(dict(answer.observed), answer.objects, ())

        plain = seen("LC_ALL=C")
        other = seen("LC_ALL=POSIX", "nice", "-n", "5", "prlimit", "--stack=1048576:")
    unlike = {
        name: (plain.get(name), other.get(name)) for name in {*plain, *other} if plain.get(name) != other.get(name)
    }
    assert unlike == {
        "nice value": (plain["nice value"], str(min(19, int(plain["nice value"]) + 5))),
        "environment variable LC_ALL": ("C", "POSIX"),
        "limit of stack size": (plain["limit of stack size"], "1048576"),
    }
