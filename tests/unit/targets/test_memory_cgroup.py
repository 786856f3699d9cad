# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory cgroups: where they are made, and that none is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.targets.memory_cgroup import (
    OOM_KILLS,
    PEAK_BYTES,
    MemoryCgroup,
    Place,
    find_places,
    remove_left_groups,
    usable_place,
)

MIB = 1 << 20
VERSION_1 = "40 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
VERSION_2 = "29 22 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
CONTAINER = "50 40 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"


def _place() -> Place:
    try:
        return usable_place()
    except UnavailableError as error:
        pytest.skip(error.message)


def test_the_own_group_comes_first_and_then_those_above_it() -> None:
    places = find_places(VERSION_2, "0::/user.slice/user-1000.slice/a.scope\n")
    assert [str(place.path) for place in places] == [
        "/sys/fs/cgroup/user.slice/user-1000.slice/a.scope",
        "/sys/fs/cgroup/user.slice/user-1000.slice",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ]
    assert {place.version for place in places} == {2}


def test_version_1_is_preferred_where_it_has_the_controller() -> None:
    places = find_places(VERSION_2 + VERSION_1, "4:cpu,memory:/one\n0::/other\n")
    assert [(str(place.path), place.version) for place in places] == [
        ("/sys/fs/cgroup/memory/one", 1),
        ("/sys/fs/cgroup/memory", 1),
        ("/sys/fs/cgroup/other", 2),
        ("/sys/fs/cgroup", 2),
    ]


def test_the_group_of_a_container_is_relative_to_its_mount() -> None:
    assert [str(place.path) for place in find_places(CONTAINER, "4:memory:/docker/ab/in\n")] == [
        "/sys/fs/cgroup/memory/in",
        "/sys/fs/cgroup/memory",
    ]


@pytest.mark.parametrize("own", ["", "4:memory:/../../etc\n", "nonsense\n0\n::\n"])
def test_no_place_is_outside_of_the_mount(own: str) -> None:
    places = find_places(VERSION_1 + "short - cgroup2\n- \n", own)
    assert places
    assert all(str(place.path).startswith("/sys/fs/cgroup/memory") for place in places)


def test_without_a_controller_there_is_no_place() -> None:
    assert find_places("1 1 0:1 / /proc rw - proc proc rw\n", "0::/\n") == ()


def test_a_place_that_gives_no_controller_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapstone.core.targets.memory_cgroup.find_places", lambda *_: (Place(tmp_path, tmp_path, 2),))
    with pytest.raises(UnavailableError, match="gives no memory controller to its groups") as caught:
        usable_place.__wrapped__()
    assert "systemd-run --user --scope -p Delegate=yes" in caught.value.hint
    assert "+memory" not in caught.value.message
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    with pytest.raises(UnavailableError, match=f"echo [+]memory >{tmp_path}/cgroup.subtree_control"):
        usable_place.__wrapped__()


def test_a_process_that_exceeds_the_limit_is_killed_with_its_group_gone_afterwards() -> None:
    place = _place()
    with MemoryCgroup(24 * MIB, place) as group:
        command = group.command(Path(sys.executable), "-c", "x = bytearray(64 << 20); print(len(x))")
        ended = subprocess.run(command, capture_output=True, check=False)
        report = dict(group.report())
        assert (ended.returncode, ended.stdout) == (-9, b"")
        assert int(report[OOM_KILLS]) >= 1
        assert 0 < int(report.get(PEAK_BYTES, 24 * MIB)) <= 24 * MIB
        path = group.path
    assert not path.exists()


def test_children_are_in_the_group_and_are_killed_with_it() -> None:
    with MemoryCgroup(0, _place()) as group:
        script = (
            "import subprocess, time; subprocess.Popen(['sleep', '600']); print('ready', flush=True); time.sleep(600)"
        )
        with subprocess.Popen(group.command(Path(sys.executable), "-c", script), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert len((group.path / "cgroup.procs").read_text().split()) == 2
            group.close()
            assert process.wait() == -9
    assert not group.path.exists()


def test_swap_is_excluded_where_the_kernel_can() -> None:
    place = _place()
    with MemoryCgroup(24 * MIB, place) as group:
        swap = group.path / place.files.swap
        if not swap.exists():
            pytest.skip("this kernel limits no swap of a group")
        assert swap.read_text().strip() == (str(24 * MIB) if place.files.swap_is_sum else "0")
        assert (group.path / place.files.limit).read_text().strip() == str(24 * MIB)


def test_groups_that_a_program_made_in_its_group_are_removed_with_what_runs_in_them() -> None:
    with MemoryCgroup(0, _place()) as group:
        script = 'mkdir "$1/inner" && echo $$ >"$1/inner/cgroup.procs" && echo ready && exec sleep 600'
        command = group.command(Path("/bin/sh"), "-c", script, "sh", str(group.path))
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            group.close()
            assert process.wait() == -9
    assert not group.path.exists()


def test_the_first_use_of_a_process_removes_what_a_killed_one_left() -> None:
    place = _place()
    left = place.path / "swapstone-memory-000001-000000001-00000000"
    left.mkdir()
    try:
        assert usable_place.__wrapped__() == place
        assert not left.exists()
    finally:
        if left.exists():
            left.rmdir()


@pytest.mark.slow
def test_groups_of_processes_that_were_killed_are_removed_and_those_of_others_stay() -> None:
    place = _place()
    script = (
        "import os, subprocess, sys, time\nfrom pathlib import Path\n"
        "from swapstone.core.targets.memory_cgroup import MemoryCgroup\n"
        "group = MemoryCgroup()\n"
        "subprocess.Popen(group.command(Path('/bin/sleep'), '600'), start_new_session=True)\n"
        "while not (group.path / 'cgroup.procs').read_text(): time.sleep(0.01)\n"
        "print(group.path, flush=True)\ntime.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().decode().strip())
        remove_left_groups(place.top)
        assert path.is_dir()
        process.kill()
        process.wait()
    with MemoryCgroup(0, place) as mine:
        deadline = time.monotonic() + 10
        while path.exists() and time.monotonic() < deadline:
            remove_left_groups(place.top)
        assert not path.exists()
        assert mine.path.is_dir()
