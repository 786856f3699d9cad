# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent's readers of /proc, on files that no machine would have: counters that shrink, odd names, missing fields."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
NATIVE = TOP / "native"

CPU = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"


@pytest.fixture(scope="session")
def fake_proc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the readers with files of a folder in place of those of the machine."""
    program = tmp_path_factory.mktemp("fake-proc") / "fake_proc"
    sources = [Path(__file__).parent / "fake_proc.c"]
    sources += [NATIVE / "agent" / f"{name}.c" for name in ("observe", "counters", "text")]
    subprocess.run(["cc", "-std=gnu11", "-O1", "-o", program, *sources, NATIVE / "wire" / "words.c"], check=True)
    return program


def lay_out(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def facts(program: Path, what: str, first: Path, second: Path | str) -> dict[str, int]:
    printed = subprocess.run([program, what, first, second], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split(" ") for line in printed.splitlines())}


def machine(
    *, psi: int = 0, ticks: tuple[int, ...] = (0,) * 10, now_ns: int = 0, load: str = "0.00", **changed: str
) -> dict[str, str]:
    return {
        "proc/pressure/cpu": CPU.format(psi),
        "proc/pressure/memory": CPU.format(2 * psi),
        "proc/pressure/io": CPU.format(3 * psi),
        "proc/stat": f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 1\n",
        "proc/loadavg": f"{load} 0.10 0.20 1/200 4000\n",
        "now_ns": str(now_ns),
        **{f"proc/{name}": text for name, text in changed.items()},
    }


def grown(program: Path, tmp_path: Path, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, int]:
    return facts(program, "machine", lay_out(tmp_path / "before", before), lay_out(tmp_path / "after", after))


def test_counters_of_the_machine_are_those_of_the_trial_alone(fake_proc: Path, tmp_path: Path) -> None:
    before = machine(psi=100, ticks=(1, 2, 3, 40, 5, 6, 7, 8, 1000, 1000), now_ns=10**9, load="1.25")
    after = machine(psi=140, ticks=(11, 22, 33, 440, 55, 66, 77, 88, 2000, 2000), now_ns=3 * 10**9, load="7.00")
    assert grown(fake_proc, tmp_path, before, after) == {
        "psi_cpu_us": 40,
        "psi_memory_us": 80,
        "psi_io_us": 120,
        "steal_ticks": 80,
        "idle_ticks": 450,  # of idle and iowait
        "cpu_ticks": 720,  # the first eight fields: guest time is a part of user time
        "ticks_ns": 2 * 10**9,
        "load1_milli": 1250,  # before the trial
    }


def test_a_counter_that_shrank_is_unknown(fake_proc: Path, tmp_path: Path) -> None:
    """A counter of pressure can be reset, and idle time can go backwards (proc(5)). A negative growth is no measurement."""
    before = machine(psi=100, ticks=(0, 0, 0, 50, 0, 0, 0, 9))
    found = grown(fake_proc, tmp_path, before, machine(psi=99, ticks=(60, 0, 0, 49, 0, 0, 0, 9)))
    assert found == {"steal_ticks": 0, "cpu_ticks": 59, "ticks_ns": 0, "load1_milli": 0}


def test_a_counter_without_growth_is_known(fake_proc: Path, tmp_path: Path) -> None:
    found = grown(fake_proc, tmp_path, machine(psi=100), machine(psi=100))
    assert {found[name] for name in ("psi_cpu_us", "psi_memory_us", "psi_io_us", "cpu_ticks")} == {0}


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("pressure/cpu", {"psi_cpu_us"}),
        ("pressure/memory", {"psi_memory_us"}),
        ("pressure/io", {"psi_io_us"}),
        ("stat", {"steal_ticks", "idle_ticks", "cpu_ticks", "ticks_ns"}),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_counter_that_can_not_be_read_at_both_ends_is_unknown(
    fake_proc: Path, tmp_path: Path, name: str, lost: set[str], when: str
) -> None:
    files = {"before": machine(psi=1), "after": machine(psi=2)}
    everything = set(grown(fake_proc, tmp_path / "whole", files["before"], files["after"]))
    del files[when][f"proc/{name}"]
    assert set(grown(fake_proc, tmp_path, files["before"], files["after"])) == everything - lost


@pytest.mark.parametrize("text", ["cpu  1 2 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 x 4 5 6 7 8\n", ""])
def test_times_of_processors_that_are_incomplete_are_unknown(fake_proc: Path, tmp_path: Path, text: str) -> None:
    found = grown(fake_proc, tmp_path, machine(), machine(stat=text))
    assert not {"steal_ticks", "idle_ticks", "cpu_ticks", "ticks_ns"} & set(found)
    assert "psi_cpu_us" in found


@pytest.mark.parametrize(
    ("text", "milli"),
    [("0.00", 0), ("0.44", 440), ("1.05", 1050), ("12.90", 12_900), ("0,44", None), ("1.x5", None), ("1.5x", None)],
)
def test_the_load_average_is_in_thousandths(fake_proc: Path, tmp_path: Path, text: str, milli: int | None) -> None:
    found = grown(fake_proc, tmp_path, machine(load=text), machine(load="9.99"))
    assert found.get("load1_milli") == milli


def test_run_queue_delay_affinity_and_nice_value_of_a_process(fake_proc: Path, tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path, {"proc/7/schedstat": "123 456 78\n", "proc/7/cpus": "3", "proc/7/nice": "-5", "proc/8/cpus": "-1"}
    )
    assert facts(fake_proc, "task", folder, "7") == {"run_delay_ns": 456, "nice": -5, "cpus_allowed": 3}
    assert facts(fake_proc, "task", folder, "8") == {}


def process(
    pid: int, parent: int, scale: int, *, threads: tuple[int, ...] = (), name: str = "serv er)"
) -> dict[str, str]:
    """Return the files of a process. Each number differs from all others, and grows with `scale`."""
    fields = [f"{pid}", f"({name})", "S", str(parent), "3", "3", "0", "-1", "0"]
    fields += [str(scale * number) for number in (100, 7, 20, 3, 50, 9, 30, 5)]  # minflt ... cstime
    memory = f"Name:\tx\nVmHWM:\t{scale * 900} kB\nVmRSS:\t  {scale * 800} kB\n"
    files = {
        f"proc/{pid}/stat": " ".join(fields) + " 20 0 1\n",
        f"proc/{pid}/status": memory + switches(scale),
        f"proc/{pid}/cpu_ns": str(scale * 1_000_000),
        f"proc/{pid}/task/{pid}/status": "",
    }
    return (
        files
        | {f"proc/{thread}/status": memory + switches(10 * scale) for thread in threads}
        | {f"proc/{pid}/task/{thread}/status": "" for thread in threads}
    )


def switches(scale: int) -> str:
    return f"voluntary_ctxt_switches:\t{scale * 11}\nnonvoluntary_ctxt_switches:\t{scale * 4}\n"


def test_a_server_is_counted_with_its_descendants_and_threads(fake_proc: Path, tmp_path: Path) -> None:
    def server(scale: int) -> dict[str, str]:
        other = process(30, 99, 1000)  # of another parent
        return process(5, 1, scale, threads=(6, 7)) | process(20, 5, scale) | process(21, 20, scale) | other

    found = facts(fake_proc, "server", lay_out(tmp_path / "a", server(1)), lay_out(tmp_path / "b", server(3)))
    grew = 2 * 3  # from scale 1 to scale 3, three processes
    assert found == {
        "server_processes": 3,
        "server_threads": 5,
        "server_cpu_ns": grew
        * (1_000_000 + (30 + 5) * 10_000_000),  # children that ended are counted in ticks of 10 ms
        "server_user_us": grew * (50 + 30) * 10_000,
        "server_system_us": grew * (9 + 5) * 10_000,
        "server_minflt": grew * (100 + 7),
        "server_majflt": grew * (20 + 3),
        "server_nvcsw": 2 * 11 * (3 + 2 * 10),
        "server_nivcsw": 2 * 4 * (3 + 2 * 10),
        "server_rss_bytes": 3 * 3 * 800 * 1024,  # a level: at the end of the window
        "server_peak_bytes": 3 * 3 * 900 * 1024,
    }


def test_a_server_of_which_something_is_unreadable_has_no_counters(fake_proc: Path, tmp_path: Path) -> None:
    whole = process(5, 1, 1)
    for number, name in enumerate(("proc/5/stat", "proc/5/status", "proc/5/cpu_ns")):
        files = {each: text for each, text in whole.items() if each != name}
        if name == "proc/5/stat":
            files[name] = "5 (x) S 1 3\n"
        folder = tmp_path / str(number)
        found = facts(fake_proc, "server", lay_out(folder / "a", whole), lay_out(folder / "b", files))
        assert set(found) == {"server_processes", "server_threads"}, name
    nothing = lay_out(tmp_path / "none", {"proc/9/stat": "9 (x) S 2 9\n"})
    assert facts(fake_proc, "server", nothing, nothing) == {"server_processes": 0, "server_threads": 0}


def test_a_counter_of_a_server_that_shrank_is_unknown(fake_proc: Path, tmp_path: Path) -> None:
    first, second = lay_out(tmp_path / "a", process(5, 1, 2)), lay_out(tmp_path / "b", process(5, 1, 1))
    levels = {"server_processes", "server_threads", "server_rss_bytes", "server_peak_bytes"}
    assert set(facts(fake_proc, "server", first, second)) == levels
