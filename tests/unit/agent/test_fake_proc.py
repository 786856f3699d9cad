# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent's readers of /proc, on files that no machine would have: counters that shrink, odd names, missing fields."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.shared import Shared
from tests.unit.agent.harness import compiled

CPU = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"


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
        "created_tasks": 0,
    }


def test_a_counter_that_shrank_is_unknown(fake_proc: Path, tmp_path: Path) -> None:
    """A counter of pressure can be reset, and idle time can go backwards (proc(5)). A negative growth is no measurement."""
    before = machine(psi=100, ticks=(0, 0, 0, 50, 0, 0, 0, 9))
    found = grown(fake_proc, tmp_path, before, machine(psi=99, ticks=(60, 0, 0, 49, 0, 0, 0, 9)))
    assert found == {"steal_ticks": 0, "cpu_ticks": 59, "ticks_ns": 0, "load1_milli": 0, "created_tasks": 0}


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


LARGE = f"cpu  {2**63 - 1} {2**63 - 1} 3 4 5 6 7 8\n"
"""Their sum has more than 64 bits."""


@pytest.mark.parametrize(
    "text", ["cpu  1 2 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 x 4 5 6 7 8\n", LARGE, ""]
)
def test_times_of_processors_that_are_incomplete_are_unknown(fake_proc: Path, tmp_path: Path, text: str) -> None:
    found = grown(fake_proc, tmp_path, machine(), machine(stat=text))
    assert not {"steal_ticks", "idle_ticks", "cpu_ticks", "ticks_ns"} & set(found)
    assert "psi_cpu_us" in found


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0.00", 0),
        ("0.44", 440),
        ("1.05", 1050),
        ("12.90", 12_900),
        ("0,44", None),
        ("1.x5", None),
        ("1.5x", None),
        ("0.99", 990),
        ("1000000.00", 1_000_000_000),
        ("1000001.00", None),
        ("88888888888888880.00", None),
    ],
)
def test_the_load_average_is_in_thousandths(fake_proc: Path, tmp_path: Path, text: str, milli: int | None) -> None:
    found = grown(fake_proc, tmp_path, machine(load=text), machine(load="9.99"))
    assert found.get("load1_milli") == milli


def test_run_queue_delay_affinity_and_nice_value_of_a_process(fake_proc: Path, tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path, {"proc/7/schedstat": "123 456 78\n", "proc/7/cpus": "3", "proc/7/nice": "-5", "proc/8/cpus": "-1"}
    )
    assert facts(fake_proc, "task", folder, "7") == {
        "main_cpu_ns": 123,
        "run_delay_ns": 456,
        "nice": -5,
        "cpus_allowed": 3,
    }
    assert facts(fake_proc, "task", folder, "8") == {}


@pytest.mark.parametrize(("cpus", "known"), [(0, None), (1, 1)])
def test_an_affinity_has_a_processor(fake_proc: Path, tmp_path: Path, cpus: int, known: int | None) -> None:
    assert facts(fake_proc, "task", lay_out(tmp_path, {"proc/7/cpus": str(cpus)}), "7").get("cpus_allowed") == known


@pytest.mark.parametrize(("earlier", "delay"), [(0, 456), (400, 56), (456, 0), (457, None), (-1, None)])
def test_run_queue_delay_is_counted_from_exec(fake_proc: Path, tmp_path: Path, earlier: int, delay: int | None) -> None:
    folder = lay_out(tmp_path, {"proc/7/schedstat": "123 456 78\n", "proc/7/earlier_delay_ns": str(earlier)})
    assert facts(fake_proc, "task", folder, "7").get("run_delay_ns") == delay


@pytest.mark.parametrize(("earlier", "time"), [(0, 123), (100, 23), (123, 0), (124, None), (-1, None)])
def test_processor_time_is_counted_from_exec(fake_proc: Path, tmp_path: Path, earlier: int, time: int | None) -> None:
    folder = lay_out(tmp_path, {"proc/7/schedstat": "123 456 78\n", "proc/7/earlier_cpu_ns": str(earlier)})
    assert facts(fake_proc, "task", folder, "7").get("main_cpu_ns") == time


@pytest.mark.parametrize(
    ("before", "after", "created"),
    [
        ("0.1 0.2 0.3 1/20 400", "0.1 0.2 0.3 1/20 400", 0),
        ("0.1 0.2 0.3 1/20 400", "9.1 8.2 7.3 6/50 437", 37),
        ("0.1 0.2 0.3 1/20 400", "0.1 0.2 0.3 1/20 399", None),  # the numbers began again
        ("0.1 0.2 0.3 1/20", "0.1 0.2 0.3 1/20 400", None),
        ("0.1 0.2 0.3 1/20 400", "0.1 0.2 0.3 1/20 x", None),
        ("0.1 0.2 0.3 1/20 400", "0.1 0.2", None),
    ],
)
def test_created_tasks_are_counted_by_their_numbers(
    fake_proc: Path, tmp_path: Path, before: str, after: str, created: int | None
) -> None:
    found = grown(fake_proc, tmp_path, *({**machine(), "proc/loadavg": f"{text}\n"} for text in (before, after)))
    assert found.get("created_tasks") == created


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


@pytest.mark.parametrize(("ticks", "whole"), [(450359962, True), (450359963, False), (333333333383666, False)])
def test_a_server_whose_children_ended_with_more_time_than_can_be_summed_has_no_counters(
    fake_proc: Path, tmp_path: Path, ticks: int, whole: bool
) -> None:
    files = process(5, 1, 1)
    stat = files["proc/5/stat"].split(" ")
    many = files | {"proc/5/stat": " ".join([*stat[:-5], str(ticks), "0", *stat[-3:]])}
    assert len(many["proc/5/stat"].split()) == len(files["proc/5/stat"].split())
    found = facts(fake_proc, "server", lay_out(tmp_path / "a", files), lay_out(tmp_path / "b", many))
    assert ("server_cpu_ns" in found) == whole


@pytest.mark.parametrize("thread", [6, 7])
@pytest.mark.parametrize("name", ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"])
@pytest.mark.parametrize("instead", ["other:\t", "{}:\tx"])
def test_a_server_of_which_one_thread_lacks_a_counter_has_none(
    fake_proc: Path, tmp_path: Path, thread: int, name: str, instead: str
) -> None:
    whole = process(5, 1, 1, threads=(6, 7))
    status = whole[f"proc/{thread}/status"]
    harmed = whole | {f"proc/{thread}/status": status.replace(f"\n{name}:\t", f"\n{instead.format(name)}")}
    assert harmed != whole
    found = facts(fake_proc, "server", lay_out(tmp_path / "a", whole), lay_out(tmp_path / "b", harmed))
    assert found == {"server_processes": 1, "server_threads": 3}


@pytest.mark.parametrize("harmed", [5, 20])
@pytest.mark.parametrize("name", ["VmRSS", "VmHWM"])
def test_a_server_of_which_one_process_lacks_its_memory_has_no_counters(
    fake_proc: Path, tmp_path: Path, harmed: int, name: str
) -> None:
    """As a process that has just ended, of which the first or the last one is read."""
    whole = process(5, 1, 1) | process(20, 5, 1)
    status = f"proc/{harmed}/status"
    lacks = whole | {status: whole[status].replace(name, "VmPTE")}
    found = facts(fake_proc, "server", lay_out(tmp_path / "a", whole), lay_out(tmp_path / "b", lacks))
    assert found == {"server_processes": 2, "server_threads": 2}
    found = facts(fake_proc, "server", tmp_path / "b", tmp_path / "a")
    assert found == {"server_processes": 2, "server_threads": 2}


def test_a_thread_that_has_just_ended_is_not_counted(fake_proc: Path, tmp_path: Path) -> None:
    """It was listed, and its files are gone."""
    files = process(5, 1, 1, threads=(6,)) | {"proc/5/task/9/status": "", "proc/5/task/7/status": ""}
    folder = lay_out(tmp_path, files)
    found = facts(fake_proc, "server", folder, folder)
    assert (found["server_threads"], found["server_nvcsw"]) == (2, 0)
    later = lay_out(tmp_path / "later", process(5, 1, 1, threads=(6, 7, 9)))
    assert facts(fake_proc, "server", folder, later)["server_nvcsw"] == 2 * 110


def test_counters_of_a_server_that_did_nothing_are_0(fake_proc: Path, tmp_path: Path) -> None:
    folder = lay_out(tmp_path, process(5, 1, 1))
    found = facts(fake_proc, "server", folder, folder)
    levels = ("server_processes", "server_threads", "server_rss_bytes", "server_peak_bytes")
    assert all(found.pop(name) > 0 for name in levels)
    assert found == dict.fromkeys(
        [
            *("server_cpu_ns", "server_user_us", "server_system_us", "server_minflt", "server_majflt"),
            *("server_nvcsw", "server_nivcsw"),
        ],
        0,
    )


def test_a_counter_of_a_server_that_shrank_is_unknown(fake_proc: Path, tmp_path: Path) -> None:
    first, second = lay_out(tmp_path / "a", process(5, 1, 2)), lay_out(tmp_path / "b", process(5, 1, 1))
    levels = {"server_processes", "server_threads", "server_rss_bytes", "server_peak_bytes"}
    assert set(facts(fake_proc, "server", first, second)) == levels


INTERP = b"/lib/ld-test.so.1\0"
MAPS = (
    "00400000-00401000 r--p 00000000 08:01 11                 /bin/prog\n"
    "00401000-00402000 r-xp 00001000 08:01 11                 /bin/prog\n"
    "00402000-00403000 r-xp 00001000 08:01 11                 /bin/prog\n"
    "7f0000000000-7f0000001000 r-xp 00000000 08:01 12         /lib/a b.so (deleted)\n"
    "7f0000001000-7f0000002000 r-xp 00000000 00:00 0          [vdso]\n"
    "7f0000002000-7f0000003000 rw-p 00000000 08:01 13         /lib/data.so\n"
    "7f0000003000-7f0000004000 r-xp 00000000 00:00 0 \n"
)


def elf(
    interp: bytes = INTERP,
    *,
    wide: bool = True,
    big: bool = False,
    before: int = 2,
    size: int | None = None,
    stated_headers: int | None = None,
) -> bytes:
    """Return an ELF file with so many other program headers before PT_INTERP.

    `size` is the stated size of the path, `stated_headers` the stated number of program headers.
    """
    order, word = ">" if big else "<", "Q" if wide else "I"
    ident = b"\x7fELF" + bytes([2 if wide else 1, 2 if big else 1, 1]) + bytes(9)
    head, entry = (64, 56) if wide else (52, 32)
    start = head + entry * (before + 1)
    stated = len(interp) if size is None else size

    def header(kind: int, offset: int, length: int) -> bytes:
        if wide:
            return struct.pack(f"{order}IIQQQQQQ", kind, 4, offset, 0, 0, length, length, 1)
        return struct.pack(f"{order}IIIIIIII", kind, offset, 0, 0, length, length, 4, 1)

    count = before + 1 if stated_headers is None else stated_headers
    fields = struct.pack(f"{order}HHI{word}{word}{word}IHHHH", 3, 62, 1, 0, head, 0, 0, head, entry, count, 0x4040)
    data = (ident + fields).ljust(head, b"\0") + header(1, 0, 64) * before + header(3, start, stated) + interp
    return data.ljust(64, b"\0")


def image(program: Path, folder: Path, exe: bytes | None, maps: str | None = MAPS) -> list[str]:
    """Return the lines that are printed of a process with this program and these mappings."""
    process = folder / "proc/7"
    process.mkdir(parents=True)
    (process / "comm").write_text("prog\n")
    if exe is not None:
        (process / "exe").write_bytes(exe)
    if maps is not None:
        (process / "maps").write_text(maps)
    return subprocess.run(
        [program, "image", folder, "7"], capture_output=True, text=True, check=True
    ).stdout.splitlines()


OBJECTS = ["object /bin/prog", "object /lib/a b.so (deleted)"]


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("big", [True, False])
@pytest.mark.parametrize("before", [0, 3, 63])
def test_loader_and_objects_are_read_of_both_classes_and_byte_orders(
    fake_proc: Path, tmp_path: Path, wide: bool, big: bool, before: int
) -> None:
    found = image(fake_proc, tmp_path, elf(wide=wide, big=big, before=before))
    assert found == ["interp /lib/ld-test.so.1", *OBJECTS]


@pytest.mark.parametrize(
    ("interp", "size", "known"),
    [
        (b"/\0", None, "interp /"),  # the shortest
        (b"/" + b"a" * 4094 + b"\0", None, "interp /" + "a" * 4094),  # the longest
        (b"/" + b"a" * 4095 + b"\0", None, ""),
        (b"\0", None, ""),
        (b"", None, ""),
        (b"/short\0", 200, ""),  # more than there is
        (b"/a\0", 2**40, ""),
        (b"/lib/ldx", None, "interp /lib/ld"),  # its last byte counts as its end, whatever it is
    ],
)
def test_a_loader_of_an_impossible_length_is_unknown(
    fake_proc: Path, tmp_path: Path, interp: bytes, size: int | None, known: str
) -> None:
    found = image(fake_proc, tmp_path, elf(interp, size=size))
    assert found == [*([known] if known else []), *OBJECTS]


def test_only_the_first_64_program_headers_are_read(fake_proc: Path, tmp_path: Path) -> None:
    assert image(fake_proc, tmp_path, elf(before=64)) == OBJECTS


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("big", [True, False])
@pytest.mark.parametrize(("stated", "known"), [(0, False), (2, False), (3, True)])
def test_only_the_stated_number_of_program_headers_is_read(
    fake_proc: Path, tmp_path: Path, *, wide: bool, big: bool, stated: int, known: bool
) -> None:
    found = image(fake_proc, tmp_path, elf(wide=wide, big=big, stated_headers=stated))
    assert found == [*(["interp /lib/ld-test.so.1"] if known else []), *OBJECTS]


def test_nothing_of_a_process_is_in_the_image_of_the_next(fake_proc: Path, tmp_path: Path) -> None:
    image(fake_proc, tmp_path, elf())
    lay_out(tmp_path, {"proc/8/comm": "other\n", "proc/8/exe": "", "proc/8/maps": "1-2 r-xp 0 0:0 1   /other\n"})
    printed = subprocess.run([fake_proc, "image", tmp_path, "7", "8"], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == ["interp /lib/ld-test.so.1", *OBJECTS, "object /other"]


@pytest.mark.parametrize(("last", "listed"), [(4095, 64), (4096, 63)])
def test_objects_are_listed_as_long_as_they_fit(fake_proc: Path, tmp_path: Path, last: int, listed: int) -> None:
    """Nothing of a path that does not fit is listed, and nothing after it."""
    paths = [f"/{number:04}{'p' * 4090}" for number in range(63)] + ["/last".ljust(last, "p"), "/s"]
    maps = "".join(f"1-2 r-xp 0 0:0 1   {path}\n" for path in paths)
    found = image(fake_proc, tmp_path, elf(), maps)[1:]
    assert found == [f"object {path}" for path in paths[:listed]]


@pytest.mark.parametrize(
    ("text", "room", "length"), [("abc", 4, 3), ("abc", 3, 2), ("abc", 2, 1), ("abc", 9, 3), ("a", 9, 1), ("", 9, -1)]
)
def test_a_text_is_read_as_far_as_there_is_room_for_its_end(
    fake_proc: Path, tmp_path: Path, text: str, room: int, length: int
) -> None:
    folder = lay_out(tmp_path, {"text": text})
    assert facts(fake_proc, "text", folder, str(room)) == {"read": length, "again": length}


def test_a_text_that_can_not_be_opened_is_not_read(fake_proc: Path, tmp_path: Path) -> None:
    assert facts(fake_proc, "text", tmp_path, "9") == {"read": -1, "again": -1}


@pytest.mark.parametrize("exe", [b"", b"#!/bin/sh\n" * 9, elf()[:63], elf()[:100], b"\x7fELG" + elf()[4:]])
def test_what_is_no_elf_file_has_no_loader(fake_proc: Path, tmp_path: Path, exe: bytes) -> None:
    assert image(fake_proc, tmp_path, exe) == OBJECTS


def test_what_can_not_be_read_is_named_by_its_error(fake_proc: Path, tmp_path: Path) -> None:
    assert image(fake_proc, tmp_path / "a", None) == [*OBJECTS, "failed 2"]
    assert image(fake_proc, tmp_path / "b", elf(), None) == ["interp /lib/ld-test.so.1", "failed 2"]
    assert image(fake_proc, tmp_path / "c", elf(), "") == ["interp /lib/ld-test.so.1"]


@pytest.mark.parametrize(("size", "known"), [(8191, True), (8192, False)])
def test_mappings_are_read_to_the_first_line_that_is_too_long(
    fake_proc: Path, tmp_path: Path, size: int, known: bool
) -> None:
    start = "1-2 r-xp 0 0:0 1   "
    path = "/" + "p" * (size - len(start) - 1)
    found = image(fake_proc, tmp_path, elf(), f"{MAPS.splitlines()[0]}\n{start}{path}\n{start}/after\n")
    assert found[0] == "interp /lib/ld-test.so.1"
    assert found[-2:] == ([f"object {path}", "object /after"] if known else found[-2:])
    assert ("object /after" in found) == known


FEW = 16


@pytest.mark.slow
def test_a_server_of_more_processes_than_are_counted_has_no_counters(shared: Shared, tmp_path: Path) -> None:
    """With a smaller limit: the files of each process are read for each of them, of the usual 1024 for a minute."""
    program = compiled(shared, "fake_proc", ("conditions", "counters", "observe", "text"), MOST_PROCESSES=FEW)
    for count, whole in ((FEW, True), (FEW + 1, False)):
        assert _of_processes(program, tmp_path / str(count), count) == (FEW, FEW, whole), count


def test_1024_processes_are_counted() -> None:
    counters = Path(__file__).parents[3] / "native" / "agent" / "counters.c"
    assert "MOST_PROCESSES = 1024," in counters.read_text()


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(("count", "whole"), [(1024, True), (1025, False)])
def test_a_server_of_a_thousand_processes_is_counted(fake_proc: Path, tmp_path: Path, count: int, whole: bool) -> None:
    assert _of_processes(fake_proc, tmp_path, count) == (1024, 1024, whole)


def _of_processes(program: Path, folder: Path, count: int) -> tuple[int, int, bool]:
    """Return the numbers of processes and threads of a server of so many processes, and whether its counters are whole."""
    files: dict[str, str] = {}
    for number in range(count):
        files |= process(5000 + number, 1, 1)
    top = lay_out(folder, files)
    found = facts(program, "server", top, top)
    return found["server_processes"], found["server_threads"], "server_cpu_ns" in found
