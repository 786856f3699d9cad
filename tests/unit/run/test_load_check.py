# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine's counters show whether a load was in force."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from swapstone.core.factors import Evidence, Recipe
from swapstone.core.model import IDLE, Load, LoadIndicator, Status, Variant
from swapstone.core.run.evidence import missing_load
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.run.variant_program import Program
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.workloads import LOADS, find_load, find_workload
from swapstone.parts.build.build import Build
from tests.unit.builders import trial_spec
from tests.unit.wire.test_cyclictest import OUTPUT

STAT = "cpu  {user} 0 102 {idle} {waits} 0 1 0 0 0\ncpu0 {user} 0 102 {idle} {waits} 0 1 0 0 0\nintr 8947 78\nctxt {ctxt}\nprocesses 93\n"
DISKS = (
    " 254       0 nullb0 3 0 24 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    " 254       1 loaddisk 149 1 4978 5 3605 1174 {sectors} 132 0 48 137 0 0 0 0 0 0\n"
)
NET = "Inter-|   Receive  |  Transmit\n face |bytes    packets|bytes    packets\n    lo:{bytes}       0    0    0    {bytes}       0\n"
SECTIONS = "/sys/module/planted/parameters/sections"
VM = "nr_free_pages 28379\nnr_anon_pages {pages}\nnr_mapped 2429\n"
QUIET = {"user": 10, "idle": 397, "waits": 5, "ctxt": 800, "sectors": 3000, "bytes": 0, "pages": 500, "sections": 1}
FACTS = (("user_us", 400_000), ("nvcsw", 10_000), ("nivcsw", 100))


def evidence(grown: Mapping[str, int], seconds: float = 1.0, facts: tuple[tuple[str, int], ...] = FACTS) -> Evidence:
    """Return a machine's counters around a trial. They grow as given; ``pages`` is a level, and is higher both times."""
    machine: list[tuple[str, str]] = []
    for when, up in (("before", 10.0), ("after", 10.0 + seconds)):
        numbers = {
            name: value + (grown.get(name, 0) if when == "after" or name == "pages" else 0)
            for name, value in QUIET.items()
        }
        machine += [
            (f"{when} /proc/stat", STAT.format(**numbers)),
            (f"{when} /proc/diskstats", DISKS.format(**numbers)),
            (f"{when} /proc/net/dev", NET.format(**numbers)),
            (f"{when} /proc/vmstat", VM.format(**numbers)),
            *([(f"{when} {SECTIONS}", f"{numbers['sections']}\n")] if "sections" in grown else []),
            (f"{when} /proc/uptime", f"{up:.2f} 3.97\n"),
        ]
    return Evidence(interp=None, objects=(), facts=facts, machine=tuple(machine))


OWN = {"user": 40, "ctxt": 20_000, "idle": 55}  # what the trial itself does to the counters
BUSY = {
    "ctxt": 10_900,
    "idle": 0,
}  # what a trial does that never sleeps: each of its switches is to another task of its own
IN_FORCE = {
    "idle": OWN,
    "cpu": OWN | {"user": 98, "idle": 0},
    "memory": OWN | {"user": 90, "idle": 0, "pages": 8000},
    "io": OWN | {"user": 60, "sectors": 80_000},
    "network": OWN | {"bytes": 1_000_000_000},
    "cyclictest": OWN | {"ctxt": 41_000},
    "planted": OWN | {"sections": 9},
}


def test_the_idle_time_of_all_processors_is_considered() -> None:
    """Two processors that were idle half of the time leave one second of two, of which the trial had 0.4 s."""
    found = evidence({"user": 90, "idle": 99})
    second = "cpu1 0 0 0 0 0 0 0 0 0 0\n"
    two = tuple((name, text + second if name == "before /proc/stat" else text) for name, text in found.machine)
    assert missing_load(IDLE, found) == ""  # by the time that was neither idle nor the trial's own
    assert "0.5 s of other programs" in missing_load(IDLE, msgspec.structs.replace(found, machine=two))


@pytest.mark.parametrize(("own", "refused"), [("950000", False), ("450000", True), ("", True), ("9" * 30, True)])
def test_writing_a_large_answer_is_no_load(own: str, refused: bool) -> None:
    found = evidence({"user": 90, "idle": 5})  # one second, of which 0.4 s are the trial's own
    machine = (*found.machine, ("after own-cpu-us", own))
    assert bool(missing_load(IDLE, msgspec.structs.replace(found, machine=machine))) == refused


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_machine_that_lost_all_readings_of_one_side_does_not_pass_as_idle(lost: str) -> None:
    kept = tuple(each for each in evidence(OWN).machine if not each[0].startswith(lost))
    assert "does not report" in missing_load(IDLE, Evidence(interp=None, objects=(), machine=kept))
    assert missing_load(IDLE, Evidence(interp=None, objects=(), machine=(("after /proc/swaps", ""),))) == ""


def test_every_load_has_an_indicator() -> None:
    assert {load.name for load in LOADS if load.indicators} >= set(IN_FORCE)


@pytest.mark.parametrize("name", IN_FORCE)
def test_a_load_in_force_is_seen_and_a_quiet_machine_is_no_load(name: str) -> None:
    load = find_load(name)
    assert missing_load(load, evidence(IN_FORCE[name])) == ""
    if name != "idle":
        quiet = BUSY if name == "cyclictest" else OWN
        assert f"the load {name} was requested, but" in missing_load(load, evidence(quiet))


def test_a_busy_trial_hides_half_of_the_switches_of_the_load_cyclictest() -> None:
    """Measured with eight tasks beside it: 10100 to 10800 a second that are not the trial's own."""
    assert missing_load(find_load("cyclictest"), evidence({"ctxt": 20_200})) == ""


def test_the_reason_says_what_was_seen_and_what_is_wanted() -> None:
    assert missing_load(find_load("network"), evidence(OWN)) == (
        "the load network was requested, but there were 0 bytes through lo per second; it has at least 1e+07"
    )
    assert missing_load(find_load("memory"), evidence(OWN | {"user": 90})) == (
        "the load memory was requested, but there were 500 anonymous pages; it has at least 6000"
    )


def test_an_idle_machine_runs_nothing_but_the_trial() -> None:
    assert missing_load(IDLE, evidence({"user": 45, "idle": 0})) == ""  # half a tenth, in steps of a hundredth
    assert "0.2 s of other programs' processor time per second; it has at most 0.1" in missing_load(
        IDLE, evidence({"user": 60})
    )
    busy = (("user_us", 600_000),)
    assert missing_load(IDLE, evidence({"user": 60}, facts=busy)) == ""  # its own


def test_times_that_are_sampled_in_step_with_the_trial_prove_nothing() -> None:
    """Seen with cyclictest: it wakes every 100 us, and each tick found it awake."""
    own = (("user_us", 30_000), ("system_us", 20_000))
    assert missing_load(IDLE, evidence({"user": 89, "idle": 88}, facts=own)) == ""
    assert missing_load(IDLE, evidence({"user": 89, "idle": 40, "waits": 48}, facts=own)) == ""
    assert "0.86 s of other programs" in missing_load(IDLE, evidence({"user": 89, "idle": 80}, facts=own))
    # And a load whose ticks all found the kernel at work is a load.
    assert missing_load(find_load("cpu"), evidence({"user": 3, "idle": 2}, facts=own)) == ""
    assert "0 s of other programs" in missing_load(find_load("cpu"), evidence({"user": 3, "idle": 90}, facts=own))


def test_a_servers_load_generator_is_part_of_the_trial() -> None:
    """The server used 0.03 s, its load generator 0.8 s; the machine was idle for 0.1 s."""
    server = (("user_us", 20_000), ("system_us", 10_000))
    grown = {"user": 60, "idle": 10}
    assert "0.58 s of other programs" in missing_load(IDLE, evidence(grown, facts=server))
    assert missing_load(IDLE, evidence(grown, facts=(*server, ("trial_cpu_us", 830_000)))) == ""
    assert "0.58 s of other programs" in missing_load(IDLE, evidence(grown, facts=(*server, ("trial_cpu_us", 700_000))))


def test_planted_sections_are_counted() -> None:
    planted = find_load("planted")
    assert missing_load(planted, evidence({"sections": 3})) == (
        "the load planted was requested, but there were 3 planted sections per second; it has at least 4"
    )
    assert "does not report the number of planted sections" in missing_load(planted, evidence({})), (
        "the module isn't loaded"
    )


def test_growth_is_that_of_a_second() -> None:
    network = find_load("network")
    assert missing_load(network, evidence({"bytes": 6_000_000}, seconds=0.5)) == ""
    assert missing_load(network, evidence({"bytes": 6_000_000}, seconds=2.0))


def test_of_a_short_measurement_only_levels_tell() -> None:
    assert missing_load(find_load("network"), evidence({}, seconds=0.2)) == ""
    assert missing_load(find_load("memory"), evidence({}, seconds=0.2))


def test_a_level_counts_before_and_after() -> None:
    load = Load(
        name="l",
        description="",
        indicators=(LoadIndicator(what="pages", file="/f", line="n", field=0, least=2, level=True),),
    )
    uptime = tuple((f"{when} /proc/uptime", "1.00 1") for when in ("before", "after"))

    def missing(before: int, after: int) -> str:
        counters = (("before /f", f"n {before}\n"), ("after /f", f"n {after}\n"), *uptime)
        return missing_load(load, Evidence(interp=None, objects=(), machine=counters))

    assert missing(2, 2) == ""
    assert missing(1, 2) and missing(2, 1)


def test_a_level_that_a_load_lowers_and_raises_has_a_lower_bound_for_the_second_reading() -> None:
    """stress-ng unmaps its memory and maps it again: one reading of 4 ns for an instruction had 5005 pages."""
    memory = find_load("memory")

    def missing(before: int, after: int) -> str:
        found = evidence(IN_FORCE["memory"])
        pages = {"before": before, "after": after}
        machine = tuple(
            (name, VM.format(pages=pages[name.split()[0]]) if name.endswith("vmstat") else text)
            for name, text in found.machine
        )
        return missing_load(memory, msgspec.structs.replace(found, machine=machine))

    assert missing(6000, 2500) == ""
    assert missing(5999, 9000).endswith("5999 anonymous pages; it has at least 6000")
    assert missing(9000, 2499).endswith("2499 anonymous pages; it has at least 2500")


@pytest.mark.parametrize("lost", ["before /proc/net/dev", "after /proc/net/dev", "before /proc/uptime"])
def test_a_machine_that_is_silent_proves_nothing(lost: str) -> None:
    whole = evidence(IN_FORCE["network"])
    silent = msgspec.structs.replace(whole, machine=tuple(pair for pair in whole.machine if pair[0] != lost))
    assert "the machine does not report the number of bytes through lo" in missing_load(find_load("network"), silent)


def test_where_no_machine_was_started_there_is_nothing_to_look_at() -> None:
    assert missing_load(IDLE, Evidence(interp=None, objects=())) == ""


def verdict(load: str, grown: Mapping[str, int]) -> tuple[Status, str]:
    """Judge a recorded trial of cyclictest in a machine whose counters grew as given."""
    seen = evidence(grown)
    answer = AgentAnswer(
        id="1-0",
        facts=FACTS,
        outcome=ProcessOutcome.EXITED,
        code=0,
        stdout=OUTPUT,
        machine=(*seen.machine, ("version", "#1 SMP")),
    )
    variant = Variant(levels=(("kernel", "generic"),))
    program = Program("/bin/sh", Recipe(pieces=(Build(compiler="cc"),)), None, None)
    spec = trial_spec(variant, program, load=find_load(load))
    outcome = subject_of(find_workload("latency", "cyclictest")).judge(spec, answer, lambda _path: None)
    assert bool(outcome.measured.samples) == bool(outcome.measured.histogram) == (outcome.status is Status.OK)
    return outcome.status, outcome.reason


def test_a_run_without_its_load_is_refused() -> None:
    assert verdict("io", IN_FORCE["io"]) == (Status.OK, "")
    status, reason = verdict("io", OWN)
    assert status is Status.REFUSED
    assert reason.startswith("the load io was requested, but there were 0 sectors written per second")


@pytest.mark.parametrize("pair", [("board /proc/swaps", "Filename"), ("cgroup_oom_kills", "0")])
def test_where_no_counters_are_read_an_idle_machine_is_not_checked(pair: tuple[str, str]) -> None:
    shown = Evidence(interp=None, objects=(), machine=(pair,))
    assert missing_load(IDLE, shown) == ""
    half = msgspec.structs.replace(shown, machine=(pair, ("before /proc/stat", "cpu 1 2 3 4 5\n")))
    assert "does not report" in missing_load(IDLE, half)
    assert "does not report" in missing_load(find_load("cyclictest"), shown)
