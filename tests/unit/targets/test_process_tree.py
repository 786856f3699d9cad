# SPDX-License-Identifier: MIT OR Apache-2.0
"""The cgroups of a run's process tree: what they count, and that none is left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model.observation import LATER_RUN, NO_CGROUP, UNCOUNTED
from swapstone.core.targets.host import COUNTED_RUNS, HostTarget, had_children
from swapstone.core.targets.memory_cgroup import Place, TreeCgroup, tree_places, usable_place
from swapstone.core.wire import LoadGeneratorRequest, ProcessOutcome, TrialRequest
from swapstone.parts.own.subjects.server import free_port

MIB = 1 << 20
BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
CHILD = "import os, signal\n{}\nif os.fork() == 0:\n    {}\n    os._exit(0)\n"
IGNORED = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
SERVER = f"""
import os, signal, socket, sys
def serve(peer):
    if peer.recv(1):
{textwrap.indent(BURN, " " * 8)}        peer.send(b".")
signal.signal(signal.SIGCHLD, signal.SIG_IGN if sys.argv[2] == "forks" else signal.SIG_DFL)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    peer, _ = listener.accept()
    if sys.argv[2] == "alone":
        serve(peer)
    elif os.fork() == 0:
        serve(peer)
        os._exit(0)
    peer.close()
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    peer.send(b".")
    assert peer.recv(1)
"""
WAIT_FOR_ALL = "try:\n    while True: os.wait()\nexcept ChildProcessError: pass\n"


@pytest.fixture(scope="module")
def target() -> Iterator[HostTarget]:
    """This machine, if it counts processes in cgroups."""
    if not tree_places()[0]:
        pytest.skip("no cgroup can be made here")
    with HostTarget() as opened:
        yield opened


def facts(target: HostTarget, code: str, *, counted: bool = True) -> dict[str, int]:
    arguments = (sys.executable, "-c", code)
    request = TrialRequest(id="a", arguments=arguments, cwd=target.scratch(), timeout_ms=60_000, counted=counted)
    answer = target.run(request)
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0), (answer.notes, answer.stderr)
    assert (answer.observed, answer.absent) == ((), ())
    return dict(answer.facts)


def served(target: HostTarget, mode: str) -> dict[str, int]:
    """Return the facts of a server that computes for 200 ms, on a port of its own, in a process of each connection or in its own."""
    port = free_port()
    request = TrialRequest(
        id="a",
        arguments=(sys.executable, "-c", SERVER, str(port), mode),
        cwd=target.scratch(),
        timeout_ms=60_000,
        counted=True,
        load_generator=LoadGeneratorRequest(port=port, arguments=(sys.executable, "-c", CLIENT, str(port))),
    )
    answer = target.run(request)
    assert answer.outcome is ProcessOutcome.DRIVEN, (answer.notes, answer.stderr, answer.driver_stderr)
    return dict(answer.facts)


def test_a_child_that_was_not_waited_for_is_counted(target: HostTarget) -> None:
    burn = BURN.replace("\n", "; ", 1).replace("import time; ", "exec('''import time\\n").strip() + "''')"
    found = facts(target, CHILD.format(IGNORED, burn) + WAIT_FOR_ALL)
    assert found["tree_cpu_us"] - found["user_us"] - found["system_us"] > 150_000
    assert found["children"] == 1


def test_memory_of_processes_at_once_is_added(target: HostTarget) -> None:
    code = (
        "import os\nready, done = os.pipe(), os.pipe()\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.close(done[1]); x = bytearray(32 << 20); os.write(ready[1], b'.'); os.read(done[0], 1); os._exit(0)\n"
        "for _ in range(3): os.read(ready[0], 1)\n"
        "os.close(done[1])\n" + WAIT_FOR_ALL
    )
    found = facts(target, code)
    assert found["tree_memory_bytes"] > 96 * MIB
    assert found["maxrss_bytes"] < 96 * MIB
    assert found["children"] == 1


def test_one_process_has_its_own_time_only(target: HostTarget) -> None:
    found = facts(target, BURN)
    assert abs(found["tree_cpu_us"] - found["user_us"] - found["system_us"]) < 50_000
    assert found["children"] == 0


@pytest.mark.usefixtures("target")
def test_only_first_runs_are_counted_until_one_has_several_processes() -> None:
    with HostTarget() as opened:
        found = [facts(opened, "") for _ in range(COUNTED_RUNS + 1)]
        assert ["tree_cpu_us" in each for each in found] == [True] * COUNTED_RUNS + [False]
        assert "tree_cpu_us" in facts(opened, "pass"), "another command line"
        found = [facts(opened, "import os\nif os.fork() == 0: os._exit(0)\nos.wait()") for _ in range(COUNTED_RUNS + 1)]
        assert all("tree_cpu_us" in each and each["children"] for each in found)
        assert "tree_cpu_us" in facts(opened, ""), "so that all variants run alike"


def test_what_need_not_be_counted_is_not_disturbed(target: HostTarget) -> None:
    found = facts(target, "import os\nif os.fork() == 0: os._exit(0)\nos.wait()", counted=False)
    assert not {"children", "uncounted", "tree_cpu_us", "tree_memory_bytes"} & found.keys()


@pytest.mark.usefixtures("target")
def test_a_child_in_a_later_run_is_not_counted_and_the_reason_is_that_it_is_late(tmp_path: Path) -> None:
    code = (
        f"import os\nruns = open('{tmp_path}/runs', 'a+'); runs.write('.'); runs.seek(0); runs.flush()\n"
        f"if os.path.getsize(runs.name) > {COUNTED_RUNS} and os.fork() == 0: os._exit(0)\n" + WAIT_FOR_ALL
    )
    with HostTarget() as opened:
        found = [facts(opened, code) for _ in range(COUNTED_RUNS + 2)]
    assert ["tree_cpu_us" in each for each in found] == [True] * COUNTED_RUNS + [False, True]
    assert [each.get(UNCOUNTED, 0) for each in found] == [0] * COUNTED_RUNS + [LATER_RUN, 0]


def test_where_no_group_can_be_made_the_reason_is_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapstone.core.targets.host.tree_places", lambda: ((), "no controller"))
    with HostTarget() as opened:
        assert UNCOUNTED not in facts(opened, "")
        found = facts(opened, "import os\nif os.fork() == 0: os._exit(0)\nos.wait()")
    assert (found["children"], found[UNCOUNTED]) == (1, NO_CGROUP)
    assert "tree_cpu_us" not in found


def test_processes_of_a_server_that_nobody_waits_for_are_counted(target: HostTarget) -> None:
    found = served(target, "forks")
    reaped_us = found["trial_cpu_us"] - found["driver_user_us"] - found["driver_system_us"]
    assert found["tree_cpu_us"] - reaped_us > 150_000
    assert found["children"] == 1
    assert found["tree_memory_bytes"] > 0


@pytest.mark.usefixtures("target")
def test_a_server_on_another_port_is_the_same_command_line() -> None:
    with HostTarget() as opened:
        found = [served(opened, "alone") for _ in range(COUNTED_RUNS + 1)]
    assert ["tree_cpu_us" in each for each in found] == [True] * COUNTED_RUNS + [False]
    reaped_us = found[0]["trial_cpu_us"] - found[0]["driver_user_us"] - found[0]["driver_system_us"]
    assert abs(found[0]["tree_cpu_us"] - reaped_us) < 50_000


def test_no_group_is_left(target: HostTarget) -> None:
    facts(target, "")
    own = f"swapstone-run-{os.getpid():06x}-*"  # other tests run at the same time
    assert not [left for place in tree_places()[0] for left in place.path.glob(own)]


@pytest.mark.usefixtures("target")  # which skips where no group can be made
def test_groups_that_a_killed_process_left_are_removed() -> None:
    code = (
        "import os; from swapstone.core.targets.memory_cgroup import TreeCgroup, tree_places; "
        "tree = TreeCgroup(tree_places()[0]); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code])
    assert killed.wait() == -9
    usable_place.cache_clear()
    tree_places.cache_clear()
    left = f"swapstone-run-{killed.pid:06x}-*"
    assert not [path for place in tree_places()[0] for path in place.path.glob(left)]


def test_the_files_of_version_2(tmp_path: Path) -> None:
    with TreeCgroup([Place(tmp_path, tmp_path, 2)]) as tree:
        (entrance,) = tree.entrances
        group = Path(entrance).parent
        assert Path(entrance).name == "cgroup.procs"
        assert tree.facts() == ()
        (group / "cpu.stat").write_text("usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n")
        (group / "memory.peak").write_text("4096\n")
        assert dict(tree.facts()) == {"tree_cpu_us": 1234, "tree_memory_bytes": 4096}
        (group / "memory.peak").write_text("-1\n")
        (group / "cpu.stat").unlink()
        assert tree.facts() == ()
        (group / "memory.peak").unlink()
    assert list(tmp_path.iterdir()) == []


def test_without_its_groups_a_run_is_not_counted(tmp_path: Path) -> None:
    with TreeCgroup([Place(tmp_path, tmp_path, 2), Place(tmp_path / "missing", tmp_path, 1)]) as tree:
        assert (tree.entrances, tree.facts()) == ((), ())
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("faults", "ignored", "expected"), [(0, 0, 0), (7, 0, 1), (0, 1 << 16, 1), (0, 1 << 12, 0), (3, 1 << 16, 1)]
)
def test_children_are_known_by_their_faults_or_because_their_end_is_ignored(
    faults: int, ignored: int, expected: int
) -> None:
    fields = ["S", *("0" for _ in range(49))]
    fields[11 - 3], fields[33 - 3] = str(faults), str(ignored)
    assert had_children(f"1 (a ) b) {' '.join(fields)}") == bool(expected)


def test_a_short_line_has_no_children() -> None:
    assert not had_children("1 (a) S 0")
