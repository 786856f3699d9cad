# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers: the phases of their measurement, and counters that exclude the load generator."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import AgentAnswer, LoadGeneratorRequest, ProcessOutcome, TrialRequest
from swapstone.parts.own.subjects.server import free_port
from tests.unit.agent.harness import MARK, alive, one, request, run

SERVER = """
import http.server, os, signal, sys, threading, time
port = int(sys.argv[1])
mode = sys.argv[2] if len(sys.argv) > 2 else ""
if mode == "dies":
    print("no such luck", file=sys.stderr); sys.exit(7)
if mode == "deaf":
    print("I am here", flush=True); time.sleep(600)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die":
            os._exit(9)
        if self.path.startswith("/burn/"):
            end = time.process_time() + int(self.path[6:]) / 1000
            while time.process_time() < end: pass
        if self.path == "/sleep":
            time.sleep(0.001)  # the kernel counts at least one voluntary switch
        if self.path == "/touch":
            import mmap
            m = mmap.mmap(-1, 4096 * 5000)
            for i in range(5000): m[i * 4096] = 1
            m.close()
        self.send_response(200); self.end_headers()
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

LOAD_GENERATOR = """
import sys, time, urllib.request
for path in sys.argv[2:]:
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{path}").read()
    print("did", path, flush=True)
"""


# Makes requests of 20 ms and counts them. If ten were counted before, the warm-up is over.
WARMING = """
import os, sys, urllib.request
if os.path.exists("warm") and os.path.getsize("warm") >= 10:
    print("measured")
    sys.exit()
for _ in range(100 if not os.path.exists("warm") else 0):
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/burn/20").read()
    with open("warm", "a") as counted:
        counted.write("x")
"""


def served(folder: Path, *paths: str, mode: str = "", script: str = LOAD_GENERATOR, **drive: object) -> TrialRequest:
    """Return a request for the server above, with a load generator that fetches these paths."""
    port = free_port()
    (folder / "server.py").write_text(SERVER)
    (folder / "load_generator.py").write_text(script)
    arguments = (sys.executable, str(folder / "load_generator.py"), str(port), *paths)
    fields: dict[str, object] = {
        "port": port,
        "arguments": arguments,
        "environment": (("PATH", "/usr/bin:/bin"), (MARK, str(folder))),
        **drive,
    }
    asked = LoadGeneratorRequest(**fields)  # type: ignore[arg-type] # one of its fields at a time
    return request(folder, sys.executable, folder / "server.py", str(port), mode, load_generator=asked)


def facts(answer: AgentAnswer) -> dict[str, int]:
    return dict(answer.facts)


def test_a_server_is_loaded_measured_and_stopped(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, served(tmp_path, "/", "/"))
    assert (answer.outcome, answer.code) == (ProcessOutcome.DRIVEN, 0), answer
    assert answer.driver_stdout == b"did /\ndid /\n"
    assert answer.stdout == b""
    assert answer.interp is not None
    assert any(path.endswith("libc.so.6") for path in answer.objects)
    seen = facts(answer)
    assert 0 < seen["driven_ns"] < seen["wall_ns"]
    assert seen["ready_ns"] > 0
    assert seen["server_processes"] == 1
    assert seen["server_threads"] == 1
    assert 0 < seen["server_rss_bytes"] <= seen["server_peak_bytes"]
    assert seen["driver_user_us"] + seen["driver_system_us"] > 0
    assert not alive(tmp_path)


@pytest.mark.slow
def test_server_cpu_time_covers_only_the_server_in_the_measured_window(agent: Path, tmp_path: Path) -> None:
    busy = LOAD_GENERATOR + "\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    answer = one(agent, served(tmp_path, "/burn/200", script=busy))
    seen = facts(answer)
    assert answer.outcome is ProcessOutcome.DRIVEN, answer
    # Without the server's start, which takes about as long, and without the 300 ms of the load generator.
    assert 200e6 <= seen["server_cpu_ns"] < 300e6
    assert abs(seen["server_user_us"] + seen["server_system_us"] - seen["server_cpu_ns"] / 1000) < 60_000
    assert seen["driver_user_us"] + seen["driver_system_us"] >= 300_000


@pytest.mark.slow
def test_page_faults_of_the_server_are_counted(agent: Path, tmp_path: Path) -> None:
    idle, touching = (facts(one(agent, served(tmp_path, path))) for path in ("/", "/touch"))
    assert 4900 < touching["server_minflt"] - idle["server_minflt"] < 5600
    assert touching["server_peak_bytes"] - idle["server_peak_bytes"] > 15 << 20
    assert touching["server_peak_bytes"] > touching["server_rss_bytes"] + (15 << 20)


@pytest.mark.slow
def test_context_switches_of_the_server_are_counted(agent: Path, tmp_path: Path) -> None:
    few, many = (facts(one(agent, served(tmp_path, *["/sleep"] * count))) for count in (1, 41))
    # On a busy machine, a request may be there before the server waits for it. So each request sleeps.
    assert 40 <= many["server_nvcsw"] - few["server_nvcsw"] <= 400
    assert many["server_unseen_switches"] < 40  # of its end


@pytest.mark.slow
def test_the_warm_up_is_not_in_the_window(agent: Path, tmp_path: Path) -> None:
    for warm_ms in (
        300,
        1000,
        5000,
        20_000,
    ):  # on a busy machine, the load generator needs longer to warm the server up
        (tmp_path / "warm").unlink(missing_ok=True)
        answer = one(agent, served(tmp_path, script=WARMING, warm_ms=warm_ms, drain_ms=100, ready_ms=60_000))
        assert answer.outcome is ProcessOutcome.DRIVEN, answer
        # The window may have the rest of the last request of the warm-up, which had 200 ms or more.
        without = answer.driver_stdout and facts(answer)["server_cpu_ns"] * 2 < facts(answer)["user_us"] * 1000
        if without and facts(answer)["server_cpu_ns"] < 60e6:
            break
    assert answer.driver_stdout == b"measured\n"
    assert facts(answer)["server_cpu_ns"] < 60e6
    assert facts(answer)["user_us"] * 1000 > 2 * facts(answer)["server_cpu_ns"]


def test_a_server_that_exits_at_once_is_reported(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, served(tmp_path, "/", mode="dies"))
    assert (answer.outcome, answer.code, answer.stderr) == (ProcessOutcome.EXITED, 7, b"no such luck\n")
    assert answer.notes == ("the server ended before it accepted connections",)


def test_a_note_does_not_go_on_with_that_of_the_trial_before(agent: Path, tmp_path: Path) -> None:
    left = request(tmp_path, "/bin/sh", "-c", "sleep 60 & exit 0")
    before, server, _, absent = run(agent, left, served(tmp_path, mode="dies"), left, request(tmp_path, "/absent"))
    assert server.notes == ("the server ended before it accepted connections",)
    assert absent.notes == ("could not execute it",)
    assert len(before.notes[0]) > len(server.notes[0])


def test_a_server_that_exits_under_load_is_reported(agent: Path, tmp_path: Path) -> None:
    script = "import sys, time, urllib.request\ntry: urllib.request.urlopen(f'http://127.0.0.1:{sys.argv[1]}/die')\n"
    answer = one(agent, served(tmp_path, script=script + "except Exception: time.sleep(30)\n"))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 9)
    assert answer.notes == ("the server ended before SIGTERM",)
    assert "server_cpu_ns" not in facts(answer)
    assert not alive(tmp_path)


def test_a_server_that_never_listens_is_unready(agent: Path, tmp_path: Path) -> None:
    """On a busy machine it may have printed nothing by then. So the time is doubled until it has, however slow the machine is."""
    for doubled in range(8):
        asked = served(tmp_path, "/", mode="deaf", ready_ms=200 << doubled)
        answer = one(agent, msgspec.structs.replace(asked, timeout_ms=50_000))
        assert (answer.outcome, answer.code) == (ProcessOutcome.UNREADY, 0)
        assert answer.notes == ("the server accepted no connection on its port in time",)
        assert not alive(tmp_path)
        if answer.stdout:
            break
    assert answer.stdout == b"I am here\n"


def test_a_server_that_ignores_sigterm_is_killed(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, served(tmp_path, "/", mode="stubborn", stop_ms=200))
    assert (answer.outcome, answer.code) == (ProcessOutcome.DRIVEN, 0)
    assert answer.notes == ("the server did not end after SIGTERM and was killed",)
    assert answer.objects
    assert not alive(tmp_path)


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("import sys; print('half', flush=True); sys.exit(3)", "the load generator: it ended with status 3"),
        (
            "import os; print('half', flush=True); os.kill(os.getpid(), 11)",
            "the load generator: it was killed by signal 11",
        ),
    ],
)
@pytest.mark.parametrize("warm_ms", [0, 20_000])
def test_a_failing_load_generator_is_reported(
    agent: Path, tmp_path: Path, script: str, note: str, warm_ms: int
) -> None:
    answer = one(agent, served(tmp_path, script=script, warm_ms=warm_ms))
    assert (answer.outcome, answer.code, answer.driver_stdout) == (ProcessOutcome.UNDRIVEN, 0, b"half\n")
    assert answer.notes == (note,)
    assert not alive(tmp_path)


def test_a_missing_load_generator_is_reported(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, served(tmp_path, arguments=("/no/such/driver",)))
    assert (answer.outcome, answer.code) == (ProcessOutcome.UNDRIVEN, 2)
    assert answer.notes == ("the load generator: could not execute it",)


def test_a_load_generator_that_hangs_ends_at_the_time_out(agent: Path, tmp_path: Path) -> None:
    asked = served(tmp_path, script="import time; time.sleep(60)")
    answer = one(agent, TrialRequest(**{**{n: getattr(asked, n) for n in asked.__struct_fields__}, "timeout_ms": 900}))
    assert answer.outcome is ProcessOutcome.TIMEOUT
    assert not alive(tmp_path)


def test_processes_that_a_load_generator_leaves_are_killed(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, served(tmp_path, arguments=("/bin/sh", "-c", "sleep 60 & echo done")))
    assert (answer.outcome, answer.driver_stdout) == (ProcessOutcome.DRIVEN, b"done\n")
    assert not alive(tmp_path)


def test_load_generator_output_beyond_the_limit_ends_the_trial(agent: Path, tmp_path: Path) -> None:
    answer = one(agent, served(tmp_path, arguments=("/bin/sh", "-c", "exec yes")))
    assert answer.outcome is ProcessOutcome.OVERFLOW
    assert not alive(tmp_path)


@pytest.mark.slow
def test_processes_of_a_server_are_counted_together(agent: Path, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "forks.py").write_text("import os, sys\nif os.fork() == 0: pass\nelse:\n    os.wait()\n" + SERVER)
    (tmp_path / "load_generator.py").write_text(LOAD_GENERATOR)
    generator = LoadGeneratorRequest(
        port=port,
        arguments=(sys.executable, str(tmp_path / "load_generator.py"), str(port), "/burn/200"),
        environment=(("PATH", "/usr/bin:/bin"), (MARK, str(tmp_path))),
    )
    answer = one(agent, request(tmp_path, sys.executable, tmp_path / "forks.py", str(port), load_generator=generator))
    assert facts(answer)["server_processes"] == 2
    assert 200e6 <= facts(answer)["server_cpu_ns"] < 300e6


@pytest.mark.slow
def test_a_trial_after_a_server_has_no_server_facts(agent: Path, tmp_path: Path) -> None:
    from tests.unit.agent.harness import run

    first, second = run(agent, served(tmp_path, "/"), request(tmp_path, "/bin/echo", "hello"))
    assert (first.outcome, second.outcome, second.stdout) == (ProcessOutcome.DRIVEN, ProcessOutcome.EXITED, b"hello\n")
    assert (second.driver_stdout, second.driver_stderr) == (b"", b"")
    assert not [name for name in facts(second) if name.startswith(("server_", "driver_", "driven", "ready"))]


def test_a_trial_without_a_server_is_answered_before_the_next_request(agent: Path, tmp_path: Path) -> None:
    with HostTarget(
        agent=agent, slack_s=5
    ) as target:  # the target waits for each answer before it sends the next request
        for _ in range(2):
            answer = target.run(request(tmp_path, "/bin/echo", "hello"))
            assert (answer.outcome, answer.stdout) == (ProcessOutcome.EXITED, b"hello\n")


def test_the_load_generator_runs_on_its_own_processors(agent: Path, tmp_path: Path) -> None:
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    asked = served(tmp_path, script=script, cpus=(0,))
    assert one(agent, asked).driver_stdout == b"[0]\n"
