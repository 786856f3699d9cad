# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the agent reads of the conditions that trials inherit, on files that no machine would have: quotas, governors, limits."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from swapstone.core.model.observation import changed_conditions
from tests.unit.agent.test_fake_proc import facts, lay_out

GOVERNOR = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
TWO = {"cpus": "3 64", "policy": "5", "proc/0/nice": "-4"}
LIMITS = {"limit/0/soft": "7", "limit/0/hard": "70", "limit/15/hard": "9"}


def conditions(
    program: Path, folder: Path, files: Mapping[str, str], after: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Return the facts of a trial; the agent was started with `files`, and has `after` now, or the same."""
    first = lay_out(folder / "a", files)
    return facts(program, "conditions", first, first if after is None else lay_out(folder / "b", after))


def crc(text: str) -> int:
    return zlib.crc32(text.encode())


def limits_crc(**numbers: int) -> int:
    every = [numbers.get(f"{kind}_{resource}", 0) for resource in range(16) for kind in ("soft", "hard")]
    return crc("".join(f"{each}\n" for each in every))


def test_conditions_are_those_of_the_agent(fake_proc: Path, tmp_path: Path) -> None:
    governors = {GOVERNOR.format(3): "powersave\n", GOVERNOR.format(64): "performance\n"}
    assert conditions(fake_proc, tmp_path, TWO | LIMITS | governors) == {
        "agent_cpus": 2,
        "agent_cpu_bits": 1 << 3,  # those below 63
        "agent_nice": -4,
        "agent_policy": 5,
        "agent_limits_crc": limits_crc(soft_0=7, hard_0=70, hard_15=9),
        "governor_crc": crc("powersave\nperformance\n"),
        "changed_conditions": 0,
    }


@pytest.mark.parametrize(("cpu", "bits"), [(0, 1), (62, 1 << 62), (63, 0), (4095, 0)])
def test_the_set_of_processors_has_63_bits(fake_proc: Path, tmp_path: Path, cpu: int, bits: int) -> None:
    found = conditions(fake_proc, tmp_path, {"cpus": str(cpu), GOVERNOR.format(cpu): "x\n"})
    assert (found["agent_cpus"], found["agent_cpu_bits"], found["governor_crc"]) == (1, bits, crc("x\nx\n"))


@pytest.mark.parametrize(("length", "read"), [(31, 31), (32, 31), (40, 31)])
def test_31_bytes_of_a_governor_are_read(fake_proc: Path, tmp_path: Path, length: int, read: int) -> None:
    found = conditions(fake_proc, tmp_path, {"cpus": "5", GOVERNOR.format(5): "g" * length})
    assert found["governor_crc"] == crc("g" * 2 * read)


@pytest.mark.parametrize("missing", [3, 64])
def test_a_governor_is_known_of_both_processors_or_not_at_all(fake_proc: Path, tmp_path: Path, missing: int) -> None:
    governors = {GOVERNOR.format(cpu): "performance\n" for cpu in (3, 64) if cpu != missing}
    assert "governor_crc" not in conditions(fake_proc, tmp_path, TWO | governors)


def test_what_can_not_be_read_is_unknown(fake_proc: Path, tmp_path: Path) -> None:
    assert conditions(fake_proc, tmp_path, {"policy": "-1", "limit/5/soft": "-1"}) == {"changed_conditions": 0}
    assert "agent_cpus" not in conditions(fake_proc, tmp_path / "none", {"cpus": ""})


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"cpus": "4 64"}, {"agent_cpu_bits"}),
        ({"cpus": "3 5 64"}, {"agent_cpus", "agent_cpu_bits"}),
        ({"cpus": "3 65"}, {"governor_crc"}),
        ({"proc/0/nice": "3"}, {"agent_nice"}),
        ({"policy": "3"}, {"agent_policy"}),
        ({"policy": "-1"}, {"agent_policy"}),
        ({"limit/0/soft": "6"}, {"agent_limits_crc"}),
        ({"limit/0/hard": "71"}, {"agent_limits_crc"}),
        ({"limit/15/hard": "8"}, {"agent_limits_crc"}),
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, {"cpu_quota_milli"}),
        ({GOVERNOR.format(64): "powersave\n"}, {"governor_crc"}),
    ],
)
def test_each_change_since_the_start_is_named(
    fake_proc: Path, tmp_path: Path, change: dict[str, str], names: set[str]
) -> None:
    files = (
        TWO | LIMITS | {GOVERNOR.format(cpu): "performance\n" for cpu in (3, 4, 64)} | {"proc/self/cgroup": "0::/\n"}
    )
    assert set(changed_conditions(conditions(fake_proc, tmp_path, files, files | change))) == names


def quota(program: Path, folder: Path, cgroup: str, **limits: str) -> int | None:
    """Return the fact for a process of this cgroup; `limits` are contents of cpu.max by folder, ``top`` for the uppermost."""
    names = {
        f"sys/fs/cgroup/{name.replace('_', '/')}/cpu.max".replace("top/", ""): text for name, text in limits.items()
    }
    return conditions(program, folder, {"proc/self/cgroup": cgroup, **names}).get("cpu_quota_milli")


@pytest.mark.parametrize(
    ("content", "milli"),
    [
        ("50000 100000\n", 500),
        ("250000 100000\n", 2500),
        ("1 3\n", 333),
        ("7 1\n", 7000),
        ("9223372036854775 1000000\n", 9223372036854),  # the largest number that can be multiplied by 1000
        ("9223372036854776 1000000\n", None),
        ("max 100000\n", None),
        ("50000 0\n", None),
        ("50000\n", None),
        ("50000 max\n", None),
        ("50000,100000\n", None),
        ("", None),
    ],
)
def test_a_quota_is_in_thousandths_of_a_processor(
    fake_proc: Path, tmp_path: Path, content: str, milli: int | None
) -> None:
    assert quota(fake_proc, tmp_path, "0::/a\n", a=content) == milli


@pytest.mark.parametrize("smallest", ["top", "a", "a_b", "a_b_c"])
def test_the_smallest_quota_of_a_cgroup_and_those_above_counts(fake_proc: Path, tmp_path: Path, smallest: str) -> None:
    limits = dict.fromkeys(("top", "a", "a_b", "a_b_c"), "90000 100000\n") | {smallest: "20000 100000\n"}
    assert quota(fake_proc, tmp_path, "0::/a/b/c\n", **limits, a_b_c_d="1 100000\n", x="1 100000\n") == 200


@pytest.mark.parametrize(
    ("cgroup", "milli"),
    [
        ("12:cpuset:/x\n1:name=systemd:/x\n0::/a\n", 400),  # version 1 beside version 2
        ("0::/a", 400),
        ("0::/a\n5:x:/x\n", 400),
        ("1:cpuacct:/a\n", None),
        ("", None),
    ],
)
def test_the_cgroup_is_that_of_version_2(fake_proc: Path, tmp_path: Path, cgroup: str, milli: int | None) -> None:
    assert quota(fake_proc, tmp_path, cgroup, a="40000 100000\n", x="10000 100000\n") == milli


@pytest.mark.parametrize(
    ("cgroup", "files", "milli"),
    [
        ("1:cpu:/a\n", {"a/cpu.cfs_quota_us": "40000\n", "a/cpu.cfs_period_us": "100000\n"}, 400),
        ("1:cpu,cpuacct:/a/b\n", {"a/cpu.cfs_quota_us": "40000\n", "a/cpu.cfs_period_us": "50000\n"}, 800),
        ("0::/\n7:cpuacct,cpu:/a", {"a/cpu.cfs_quota_us": "40000\n", "a/cpu.cfs_period_us": "100000\n"}, 400),
        ("1:cpu:/a\n", {"a/cpu.cfs_quota_us": "-1\n", "a/cpu.cfs_period_us": "100000\n"}, None),
        ("1:cpu:/a\n", {"a/cpu.cfs_quota_us": "40000\n"}, None),
        ("1:cpu:/a\n", {"a/cpu.cfs_quota_us": "40000\n", "a/cpu.cfs_period_us": "0\n"}, None),
        ("1:cpuset:/a\n", {"a/cpu.cfs_quota_us": "40000\n", "a/cpu.cfs_period_us": "100000\n"}, None),
        ("1:xcpu:/a\n", {"a/cpu.cfs_quota_us": "40000\n", "a/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_or_that_of_the_controller_of_version_1(
    fake_proc: Path, tmp_path: Path, cgroup: str, files: dict[str, str], milli: int | None
) -> None:
    named = {f"sys/fs/cgroup/cpu/{name}": text for name, text in files.items()}
    found = conditions(fake_proc, tmp_path, {"proc/self/cgroup": cgroup, **named})
    assert found.get("cpu_quota_milli") == milli


def stat(times: int) -> dict[str, str]:
    return {"sys/fs/cgroup/a/cpu.stat": f"usage_usec 7\nnr_periods 9\nnr_throttled {times}\nthrottled_usec 8\n"}


QUOTA = {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}


@pytest.mark.parametrize(
    ("first", "now", "growth"),
    [
        (QUOTA | stat(4), QUOTA | stat(4), 0),
        (QUOTA | stat(4), QUOTA | stat(9), 5),
        (QUOTA | stat(4), QUOTA | stat(3), None),
        (QUOTA | stat(2**63 - 1), QUOTA | stat(2**63 - 1), 0),
        (QUOTA, QUOTA | stat(4), None),
        (QUOTA | stat(4), QUOTA | {"sys/fs/cgroup/a/cpu.stat": ""}, None),
        (QUOTA | stat(4) | {"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, QUOTA | stat(4), None),
        (QUOTA | stat(4), QUOTA | stat(4) | {"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, None),
    ],
)
def test_how_often_a_quota_stopped_processes_is_counted(
    fake_proc: Path, tmp_path: Path, first: dict[str, str], now: dict[str, str], growth: int | None
) -> None:
    assert conditions(fake_proc, tmp_path, first, now).get("quota_throttled") == growth


def test_the_name_of_a_cgroup_may_be_long(fake_proc: Path, tmp_path: Path) -> None:
    """Of a name that does not fit only the folders above that fit are read."""
    assert quota(fake_proc, tmp_path, f"0::/{'n' * 200}\n", **{"n" * 200: "30000 100000\n"}) == 300
    assert quota(fake_proc, tmp_path / "cut", f"0::/a/{'n' * 8100}\n", a="30000 100000\n") == 300


GROUPS = {
    "proc/self/cgroup": "3:cpuset:/x\n0::/slice/unit\n",
    "sys/fs/cgroup/slice/unit/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/slice/cpu.max": "max 100000\n",
    "sys/fs/cgroup/other/cpu.max": "50000 100000\n",
}


@pytest.mark.parametrize(
    ("change", "milli"),
    [
        ({}, 1500),
        ({"sys/fs/cgroup/slice/unit/cpu.max": "20000 100000\n"}, 200),
        ({"sys/fs/cgroup/slice/unit/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/slice/cpu.max": "70000 100000\n"}, 700),
        ({"sys/fs/cgroup/cpu.max": "60000 100000\n"}, 600),  # this file did not exist
        ({"proc/self/cgroup": "0::/other\n"}, 500),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": ""}, None),
        ({"sys/fs/cgroup/slice/unit/cpu.max": ""}, None),  # as of a group that was removed
    ],
)
def test_a_quota_is_read_as_it_is_though_its_files_stay_open(
    fake_proc: Path, tmp_path: Path, change: dict[str, str], milli: int | None
) -> None:
    found = conditions(fake_proc, tmp_path, GROUPS, GROUPS | change)
    assert found.get("cpu_quota_milli") == milli
    assert set(changed_conditions(found)) == (set() if milli == 1500 else {"cpu_quota_milli"})


@pytest.mark.parametrize(("level", "milli"), [(17, 500), (16, None)])
def test_64_cgroups_are_read_from_the_lowest_on(fake_proc: Path, tmp_path: Path, level: int, milli: int | None) -> None:
    limits = {"_".join("g" * level): "50000 100000\n"}
    assert quota(fake_proc, tmp_path, "0::" + "/g" * 80 + "\n", **limits) == milli


@pytest.mark.parametrize("missing", [0, 3])
def test_processor_0_is_the_first_one(fake_proc: Path, tmp_path: Path, missing: int) -> None:
    files = {GOVERNOR.format(cpu): "performance\n" for cpu in (0, 2, 3) if cpu != missing}
    assert "governor_crc" not in conditions(fake_proc, tmp_path, {"cpus": "0 2 3", **files})
