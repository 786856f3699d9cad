# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that a store or workers give, with a script in place of QEMU: equal to local ones, damage named, lost workers replaced."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from fsspec.registry import _registry as used_file_systems

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.cpio import archive, folder
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.targets import TargetError, UnequalRunsError
from swapstone.core.wire import TrialRequest
from swapstone.parts.cluster.content_store import (
    MOST_BYTES,
    OBJECTS,
    RUNS,
    TRIALS,
    ContentStore,
    DamagedEntryError,
    get_run,
    get_trial,
    put_trial,
)
from swapstone.parts.cluster.shared_runs import (
    Answer,
    SharedRuns,
    WorkerPool,
    open_workers,
    share_runs,
    work,
    worker_name,
)
from swapstone.parts.vm.machine.qemu import GuestRun, VmImage
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.unit.targets.fake_emulator import emulator, runs

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the first process is built by this machine's compiler"
)


class Bench:
    """A target with a store, and workers that find the same emulator."""

    def __init__(self, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room, self.notes = room, list[str]()
        self.parts = VmImage(room / "kernel", room / "initrd", agent=room / "agent", init=room / "init")
        for name in ("kernel", "agent", "init"):
            (room / name).write_bytes(name.encode() * 10)
        (room / "initrd").write_bytes(archive({"etc": folder()}))
        self.program = room / "programs" / "p"
        self.program.parent.mkdir()
        self.program.write_bytes(b"#!/bin/sh\n")
        self.program.chmod(0o755)
        monkeypatch.setenv("XDG_CACHE_HOME", str(room / "worker"))
        monkeypatch.setenv("SWAPSTONE_QEMU", str(room / "q"))
        self.emulate()
        self.store = ContentStore(f"file://{room}/store")

    def emulate(self, acts: str = "") -> None:
        path = Path(emulator(self.room / "q", acts))
        (self.room / "q" / "qemu-system-x86_64").unlink(missing_ok=True)
        (self.room / "q" / "qemu-system-x86_64").hardlink_to(path)

    def target(self, sharing: RunSharing | None = None, *, cache: str = "cache", **options: object) -> VmTarget:
        made = VmOptions(cache=self.room / cache, snapshots=False)
        target = VmTarget(self.parts, dataclasses.replace(made, **options))  # type: ignore[arg-type] # one of its fields
        if sharing:
            share_runs(target, sharing, self.notes.append)
        return target

    def run(self, sharing: RunSharing, trial: str = "3-1", *, cache: str = "cache", **options: object) -> str:
        """Run a trial; return the run's name."""
        with self.target(sharing, cache=cache, **options) as target:
            request = TrialRequest(
                id=trial, arguments=(target.put(self.program),), cwd=target.scratch(), timeout_ms=1000
            )
            answer = target.run(request)
            assert dict(answer.facts) == {"wall_ns": 12345}
            return answer.name

    def planned(self) -> str:
        """Write the inputs of a run into the store; return its name."""
        with self.target() as target:
            request = TrialRequest(id="3-1", arguments=(target.put(self.program),), cwd="/", timeout_ms=1000)
            named = target.named_run(request)
            put_trial(self.store, named)
            return named.name

    def entry(self, kind: str, name: str) -> Path:
        return self.room / "store" / self.store.path_of(kind, name)

    @property
    def runs(self) -> int:
        return runs(self.room / "q")

    def sharing(self, **fields: object) -> RunSharing:
        return RunSharing(**{"store": self.store.url, **fields})  # type: ignore[arg-type] # its fields


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_finished_run_of_the_store_is_not_made_again(bench: Bench) -> None:
    name = bench.run(bench.sharing())
    assert bench.run(bench.sharing(), cache="other") == name
    assert bench.runs == 1
    assert bench.run(bench.sharing(), cache="third", no_cache=True) == name
    assert bench.runs == 2
    assert bench.notes == []


DAMAGES: dict[str, Callable[[Path, bytes], int | None]] = {
    "truncated": lambda path, data: path.write_bytes(data[:-7]),
    "edited": lambda path, data: path.write_bytes(data.replace(b'"end":"finished"', b'"end":"stopped!"')),
    "empty": lambda path, data: path.write_bytes(b""),
    "another run": lambda path, data: path.write_bytes(next(iter(_others(path))).read_bytes()),
    "no digest": lambda path, data: path.write_bytes(data.partition(b"\n")[2]),
    "a link": lambda path, data: _replaced(path).symlink_to(__file__),
    "a FIFO": lambda path, data: os.mkfifo(_replaced(path)),
    "a folder": lambda path, data: _replaced(path).mkdir(),
    "of a newer version": lambda path, data: _rewrite(path, data, lambda run: {**run, "new": 1}),
    "of an older version": lambda path, data: _rewrite(path, data, lambda run: {"end": run["end"]}),
}


def _rewrite(path: Path, data: bytes, change: Callable[[dict[str, object]], dict[str, object]]) -> int:
    """Write what another version would, whose run has other fields: with the digest of its name and content."""
    body = msgspec.json.encode(change(msgspec.json.decode(data.partition(b"\n")[2])))
    mark = hashlib.sha256(path.name.encode() + b"\n" + body).hexdigest()
    return path.write_bytes(mark.encode() + b"\n" + body)


def _replaced(path: Path) -> Path:
    path.unlink()
    return path


def _others(path: Path) -> Iterator[Path]:
    return (each for each in path.parent.parent.glob("*/*") if each != path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_refused_by_name_and_made_again(bench: Bench, damage: str) -> None:
    bench.run(bench.sharing(), "4-1")
    name = bench.run(bench.sharing())
    path = bench.entry(RUNS, name)
    DAMAGES[damage](path, path.read_bytes())
    with pytest.raises(DamagedEntryError, match=f"The store's entry runs/{name[:2]}/{name} is refused: "):
        get_run(bench.store, name)
    if damage == "a folder":
        with pytest.raises(UserError, match=r"The store .* can't be written"):
            bench.run(bench.sharing(), cache="other")
        return
    assert bench.run(bench.sharing(), cache="other") == name
    assert bench.runs == 3
    (note,) = bench.notes
    assert f"runs/{name[:2]}/{name} is refused" in note and note.endswith("The run is made again.")
    assert get_run(bench.store, name) is not None  # the new one took its place


@pytest.mark.parametrize("kind", ["kernel", "initrd", "order", "received", "trial"])
def test_a_worker_refuses_a_forged_input_and_gets_the_right_one(bench: Bench, kind: str) -> None:
    name = bench.planned()
    trial = msgspec.json.decode(bench.entry(TRIALS, name).read_bytes())
    digest = {**trial, "trial": name}[kind]
    path = bench.entry(TRIALS if kind == "trial" else OBJECTS, digest)
    whole = path.read_bytes()
    path.write_bytes(
        whole.replace(trial["order"].encode(), trial["kernel"].encode()) if kind == "trial" else whole[:-1] + b" "
    )
    _, refused = pickle.loads(pickle.dumps(work(bench.store.url, name, 60)))
    assert isinstance(refused, DamagedEntryError) and digest in refused.entry and refused.entry in refused.message
    assert bench.runs == 0
    # The one who gave the job writes the entry again.
    sharing = bench.sharing(executor=f"{__name__}:make_threads")
    with bench.target(sharing) as target:
        target.run(TrialRequest(id="3-1", arguments=(target.put(bench.program),), cwd="/", timeout_ms=1000))
    assert bench.runs == 1
    assert [note for note in bench.notes if digest in note and "written again" in note]


def test_a_machine_with_another_emulator_refuses(bench: Bench, tmp_path: Path) -> None:
    name = bench.planned()
    setup, inputs = get_trial(bench.store, name, tmp_path / "inputs")
    assert setup.kernel.read_bytes() == b"kernel" * 10 and len(inputs) == 6
    bench.emulate("echo another build; exit 1")
    with pytest.raises(
        UnavailableError, match=f"This machine would make another run than {name}: its QEMU is QEMU em.*SHA"
    ):
        get_trial(bench.store, name, tmp_path / "inputs")


def test_another_command_line_is_refused(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = bench.planned()
    monkeypatch.setattr("swapstone.parts.vm.machine.qemu.BARE", ("-nodefaults",))
    with pytest.raises(DamagedEntryError, match="its inputs have another name"):
        get_trial(bench.store, name, tmp_path / "inputs")
    monkeypatch.setattr("swapstone.parts.cluster.content_store.__version__", "99")
    with pytest.raises(UnavailableError, match=r"is another one here: Swapstone .* named it, and this is 99"):
        get_trial(bench.store, name, tmp_path / "inputs")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"wall": True}, "its machine is none on the virtual clock"),
        ({"memory_bytes": 1 << 50}, "its machine is none on the virtual clock"),
        ({"processors": 99}, "its machine is none on the virtual clock"),
        ({"ns_per_instruction": 3}, "its machine is none on the virtual clock"),
        ({"memory_bytes": 1 << 29}, "its inputs have another name"),
        ({"architecture": "x"}, "no architecture named 'x'"),
    ],
)
def test_another_machine_is_refused(bench: Bench, tmp_path: Path, field: dict[str, object], words: str) -> None:
    name = bench.planned()
    path = bench.entry(TRIALS, name)
    trial = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**trial, "machine": {**trial["machine"], **field}}))
    with pytest.raises(UserError, match=words):
        get_trial(bench.store, name, tmp_path / "inputs")


def test_names_and_sizes_of_entries_are_checked(bench: Bench, tmp_path: Path) -> None:
    for name in ("../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n"):
        with pytest.raises(UserError, match="no name of a store's entry"):
            bench.store.get(RUNS, name)
    large = bench.entry(RUNS, "a" * 64)
    large.parent.mkdir(parents=True)
    with large.open("wb") as handle:
        handle.truncate(MOST_BYTES[RUNS] + 1)
    with pytest.raises(DamagedEntryError, match="it is too large"):
        get_run(bench.store, "a" * 64)
    assert MOST_BYTES[TRIALS] < MOST_BYTES[RUNS] < MOST_BYTES[OBJECTS]


@pytest.mark.parametrize("depth", [1, 2])
def test_nothing_is_read_written_or_removed_through_a_folder_that_is_a_link(
    bench: Bench, tmp_path: Path, depth: int
) -> None:
    outside = tmp_path / "outside"
    name = "a" * 64
    folder = bench.entry(RUNS, name).parents[depth - 1]
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(outside)
    kept = outside / bench.entry(RUNS, name).relative_to(folder)
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    for use in (
        lambda: bench.store.get(RUNS, name),
        lambda: bench.store.size(RUNS, name),
        lambda: bench.store.put(RUNS, name, b"x"),
    ):
        with pytest.raises(DamagedEntryError, match="its folder is a symbolic link"):
            use()
    bench.store.remove(RUNS, name)
    assert [path.read_text() for path in outside.rglob("*") if path.is_file()] == ["kept"]


def test_an_entry_that_becomes_a_fifo_or_a_link_after_its_check_is_not_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, path = "a" * 64, bench.entry(RUNS, "a" * 64)
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(ContentStore, "size", lambda *_: 1)
    os.mkfifo(path)
    with pytest.raises(UserError, match="not a regular file"):
        bench.store.get(RUNS, name)
    _replaced(path).symlink_to(__file__)
    with pytest.raises(UserError, match="a symbolic link"):
        bench.store.get(RUNS, name)


def test_a_store_that_can_not_be_used_is_an_error_of_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"can't be (read|written)") as caught:
        bench.run(bench.sharing(store=f"{tmp_path}/file/store"))
    assert "Nothing that was measured is lost" in caught.value.hint
    with pytest.raises(UserError, match="The store nosuch://x can't be opened"):
        ContentStore("nosuch://x")
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed, and had not been used
    monkeypatch.delitem(used_file_systems, "s3", raising=False)
    with pytest.raises(UserError, match=r"The store s3://\.\.\.@b can't be opened") as caught:
        ContentStore("s3://user:secret@b")
    assert "pip install s3fs" in caught.value.hint and "secret" not in str(caught.value)


def test_workers_make_the_same_runs(bench: Bench) -> None:
    names = [bench.run(RunSharing(), f"{block}-0", cache="local") for block in (1, 2)]
    for kind, count in (("threads:2", 2), (f"{__name__}:make_threads@3", 3)):
        made = bench.sharing(executor=kind)
        with bench.target(made, cache=kind[:4]) as target:
            assert target.at_once == count
        assert [bench.run(made, f"{block}-0", cache=kind[:4]) for block in (1, 2)] == names
    assert bench.runs == 4  # the second kind found the runs of the first one


def make_threads() -> concurrent.futures.Executor:
    return concurrent.futures.ThreadPoolExecutor(2)


def make_nothing() -> object:
    return None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slurm", "'slurm' is no executor"),
        ("threads:0", "'threads:0' is no executor"),
        ("processes:2", "'processes:2' is no executor"),
        ("dask:", "'dask:' is no executor"),
        ("nosuchmodule:make", "gives no workers: ModuleNotFoundError"),
        (f"{__name__}:make_nothing", "it returned NoneType, which is no concurrent.futures.Executor"),
    ],
)
def test_an_executor_that_there_is_not(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        open_workers(text)
    assert caught.value.hint


def test_without_dask_the_error_has_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match="gives no workers: ModuleNotFoundError") as caught:
        open_workers("dask:tcp://127.0.0.1:1")
    assert "pip install 'swapstone[dask]'" in caught.value.hint


class _Scripted(WorkerPool):
    """Workers with a behaviour for each call; the last one repeats."""

    def __init__(self, *behaviours: Callable[..., Answer]) -> None:
        super().__init__(concurrent.futures.ThreadPoolExecutor(1), 1)
        self.behaviours = list(behaviours)
        self.avoided: list[str] = []

    def submit(
        self, url: str, name: str, host_s: float, snapshots: bool, avoid: str = ""
    ) -> concurrent.futures.Future[Answer]:
        self.avoided.append(avoid)
        act = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
        return self.executor.submit(act, url, name, host_s, snapshots)


def _dies(*_: object) -> Answer:
    raise concurrent.futures.BrokenExecutor("a process died")


def _by(worker: str) -> Callable[..., Answer]:
    return lambda *job: (worker, work(*job)[1])


def _wrongly(url: str, name: str, host_s: float, snapshots: bool) -> Answer:
    _, run = work(url, name, host_s, snapshots)
    assert isinstance(run, GuestRun)
    return "host-b:2", msgspec.structs.replace(run, output=run.output + b"x")


def _pool(monkeypatch: pytest.MonkeyPatch, *behaviours: Callable[..., Answer]) -> _Scripted:
    pool = _Scripted(*behaviours)
    monkeypatch.setattr("swapstone.parts.cluster.shared_runs.open_workers", lambda text: (pool, 1))
    return pool


def test_a_worker_that_dies_loses_its_trial_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    _pool(monkeypatch, _dies, _dies, work)
    bench.run(bench.sharing(executor="x:x"))
    assert bench.runs == 1
    assert len(bench.notes) == 2 and all("a worker was lost (BrokenExecutor)" in note for note in bench.notes)


def test_a_trial_that_ends_every_worker_ends_the_trial(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    _pool(monkeypatch, _dies)
    with pytest.raises(TargetError, match="ended 3 workers, the last one so: BrokenExecutor: a process died"):
        bench.run(bench.sharing(executor="x:x"))
    assert len(bench.notes) == 3


def test_a_scheduler_that_is_gone_is_an_error_with_the_next_step(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _pool(monkeypatch, _dies)
    monkeypatch.setattr(pool, "trouble", lambda: "the connection to it is closed")
    with pytest.raises(UserError, match="The executor is gone: the connection to it is closed") as caught:
        bench.run(bench.sharing(executor="x:x"))
    assert "swapstone compare --resume last" in caught.value.hint


def test_runs_are_made_twice_on_different_workers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _pool(monkeypatch, _by("host-a:1"), _by("host-b:2"))
    bench.run(bench.sharing(executor="x:x", recheck=1.0))
    assert bench.runs == 2 and pool.avoided == ["", "host-a:1"]
    assert bench.notes == ["recheck: 1 runs were made twice, 1 by two workers, and were equal"]


def test_unequal_runs_are_refused_and_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    _pool(monkeypatch, _by("host-a:1"), _wrongly)
    words = "the run [0-9a-f]{64} was made twice and differs: by worker host-a:1, and by worker host-b:2"
    with pytest.raises(UnequalRunsError, match=words):
        bench.run(bench.sharing(executor="x:x", recheck=1.0))
    assert not [note for note in bench.notes if "none of" in note]


def test_a_forged_run_with_a_right_digest_is_found_by_recheck(bench: Bench) -> None:
    """Who can write to a store can compute its digests too: that is what --recheck is for."""
    name = bench.run(bench.sharing())
    run = get_run(bench.store, name)
    assert run is not None
    from swapstone.parts.cluster.content_store import put_run

    put_run(bench.store, name, msgspec.structs.replace(run, output=run.output.replace(b"12345", b"12346")))
    with pytest.raises(UnequalRunsError, match="the store, the cache or this process"):
        bench.run(bench.sharing(recheck=1.0), cache="other")


NAMES = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(10_000)]


def _drawn(bench: Bench, share: float) -> set[str]:
    shared = bench.target(bench.sharing(recheck=share))._shared
    assert isinstance(shared, SharedRuns)
    chosen = {name for name in NAMES if shared.is_rechecked(name)}
    assert chosen == {name for name in NAMES if shared.is_rechecked(name)}
    return chosen


def test_the_share_of_runs_is_made_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_bytes", lambda size: b"k" * size)  # so the number does not vary
    assert 150 < len(_drawn(bench, 0.02)) < 250
    assert len(_drawn(bench, 1.0)) == len(NAMES)
    assert not _drawn(bench, 0.0)


def test_names_and_share_do_not_determine_which_runs_are_made_twice(bench: Bench) -> None:
    """An attacker with write access to the store can read both. Each session has a random key."""
    first, second = _drawn(bench, 0.5), _drawn(bench, 0.5)
    assert len(first ^ second) > 4000  # expected 5000, with a standard deviation of 50


def test_a_share_that_draws_no_run_is_reported(bench: Bench) -> None:
    bench.run(bench.sharing(recheck=1e-9))
    assert bench.notes == ["note: recheck: none of the 1 runs was drawn to be made twice; --recheck 100% draws all"]


def test_a_worker_says_that_it_is_the_one_to_avoid(bench: Bench) -> None:
    here = worker_name()
    assert work(bench.store.url, "a" * 64, 1, avoid=here) == (here, None)


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("swapstone.parts.cluster.shared_runs._CONNECT_S", 0.5)
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port = candidate.getsockname()[1]
    with pytest.raises(UserError, match=r"--executor dask:tcp://127.0.0.1:\d+ gives no workers: OSError: ") as caught:
        open_workers(f"dask:tcp://127.0.0.1:{port}")
    assert "dask scheduler; dask worker" in caught.value.hint
