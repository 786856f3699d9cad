# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a machine receives after it was saved, and which runs receive it."""

from __future__ import annotations

import dataclasses
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from swapstone.core.model import UserError
from swapstone.core.model.cpio import Entry, file, folder, link, unpack
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.targets.target import DEFAULT_MACHINE
from swapstone.core.wire import TrialRequest
from swapstone.core.wire.agent_request import LoadGeneratorRequest
from swapstone.parts.vm.machine import vm_target
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.file_pool import FOLDER, POOLS, encode_pool, pool_files
from swapstone.parts.vm.machine.run_cache import NamedRun
from swapstone.parts.vm.machine.vm_target import VmTarget
from tests.unit.targets.fake_emulator import emulator
from tests.unit.targets.test_vm import Bench

POOL = POOLS[0]
SIZES = POOL.sizes
TABLE = 4096 + POOL.entries * 512


class Received(NamedTuple):
    """An entry of the table, as native/guest/pool.c reads it, with its content in whole pages."""

    mode: int
    unused: bool
    size: int
    text: bytes
    content: bytes


def received(data: bytes | None) -> list[Received]:
    assert data is not None
    assert data[:16] == b"swapstone-pool 2"
    found, at = [], TABLE
    for start in range(4096, TABLE, 512):
        size, mode, unused, text = struct.unpack_from("<qII496s", data, start)
        pages = -(-size // 4096) * 4096
        found.append(Received(mode, bool(unused), size, text.rstrip(b"\0"), data[at : at + pages]))
        at += pages
    assert at == len(data)
    return found


def named(entries: Mapping[str, Entry]) -> dict[bytes, Received]:
    return {each.text: each for each in received(encode_pool(POOL, entries))}


def test_each_file_has_the_smallest_free_place_that_holds_it() -> None:
    contents = {"a": b"a" * 5000, "b": b"b" * 65537, "c": b"c" * 60000, "d": b"d" * 3000, "e": b"e" * (5 << 20)}
    entries = {name: file(content, executable=name == "a") for name, content in contents.items()}
    files = [each for each in received(encode_pool(POOL, entries)) if stat.S_ISREG(each.mode)]
    assert len(files) == len(SIZES)
    assert all(each.size <= size for each, size in zip(files, SIZES, strict=True))
    places = {each.text.decode(): SIZES[number] for number, each in enumerate(files) if each.size}
    assert places == {"/a": 65536, "/c": 65536, "/d": 65536, "/b": 262144, "/e": 8 << 20}
    for each in files:
        content = contents.get(each.text.decode().lstrip("/"), b"")
        assert each.content == content + bytes(-len(content) % 4096)
        assert stat.S_IMODE(each.mode) == (0o755 if each.text == b"/a" else 0o644)


def test_there_are_always_equally_many_files_and_equally_many_others() -> None:
    some = {"usr/lib/x": file(b"x"), "usr/l": link("lib"), "home/u/p": file(b"p")}
    for entries in ({}, some):
        kinds = [stat.S_ISREG(each.mode) for each in received(encode_pool(POOL, entries))]
        assert kinds == [False] * (POOL.entries - len(SIZES)) + [True] * len(SIZES)
    found = named(some)
    assert stat.S_ISDIR(found[b"/home/u"].mode)
    assert stat.S_ISLNK(found[b"/usr/l\0lib"].mode)
    order = list(found)
    assert order.index(b"/home") < order.index(b"/home/u") < order.index(b"/home/u/p")


@pytest.mark.parametrize(
    "entries",
    [
        {str(number): file(b"x") for number in range(len(SIZES) + 1)},
        {"a": file(bytes((8 << 20) + 1))},
        {"a": file(bytes(5 << 20)), "b": file(bytes(5 << 20))},
        {f"f{number}": folder() for number in range(POOL.entries - len(SIZES) + 1)},
        {"a": link("x" * 500)},
        {"a": Entry(mode=stat.S_IFCHR | 0o600, device=(1, 3))},
    ],
    ids=["too many files", "too large", "too large together", "too many folders", "a long text", "a device"],
)
def test_what_has_no_room_is_not_received(entries: dict[str, Entry]) -> None:
    assert encode_pool(POOL, entries) is None


def test_only_files_that_stay_empty_keep_the_pages_of_the_pool() -> None:
    found = named({"a": file(b"a"), "nothing": file(b"")})
    unused = {text for text, each in found.items() if each.unused}
    assert unused == {text for text in found if text.startswith(f"/{FOLDER}/empty".encode())}
    assert len(unused) == len(SIZES) - 2


def test_the_image_lists_the_sizes_that_the_host_uses() -> None:
    for pool, most in zip(POOLS, (20, 400), strict=True):
        entries, root_bytes, *listed = map(int, pool_files(pool, 100 << 20)[f"{FOLDER}/sizes"].content.splitlines())
        assert tuple(listed) == pool.sizes == tuple(sorted(pool.sizes))
        assert entries == pool.entries and entries % 8 == 0
        assert sum(pool.sizes) == most << 20 and root_bytes == (most + 50) << 20
        assert not any(size % 4096 for size in pool.sizes)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def carried(name: str, content: bytes = b"#!/bin/sh\n") -> CarriedFiles:
    return CarriedFiles({f"/home/{name}": file(content, executable=True)}, folders=("/home",))


def run_of(target: VmTarget, program: str, config: MachineConfig = DEFAULT_MACHINE, **changed: object) -> NamedRun:
    request = TrialRequest(id="0-0", arguments=(program,), cwd="/", timeout_ms=1000)
    return target.named_run(msgspec.structs.replace(request, **changed), config)


def texts(run: NamedRun) -> list[bytes]:
    """Return the paths of what a run receives."""
    assert run.setup.machine.receives
    found = [each.text for each in received(run.setup.received.read_bytes())]
    return [text for text in found if not text.startswith(f"/{FOLDER}/".encode())]


def test_a_run_receives_its_program_and_no_other(bench: Bench) -> None:
    with bench.target() as target:
        target.put_files(carried("a"))
        first = run_of(target, "/home/a")
        target.put_files(carried("b"))
        place = target.put(bench.program)
        assert run_of(target, "/home/a").name == first.name
        assert texts(run_of(target, "/home/a")) == [b"/home", b"/home/a"]
        assert texts(run_of(target, "/home/b")) == [b"/home", b"/home/b"]
        assert texts(run_of(target, place))[-1] == place.encode()
        names = {run_of(target, program).name for program in ("/home/a", "/home/b", place)}
        assert len(names) == 3
        initrd = unpack(run_of(target, place).setup.initrd.read_bytes()) or {}
        assert f"{FOLDER}/sizes" in initrd and not any(name.startswith(("home", "programs")) for name in initrd)
        assert {"home/a", "home/b", place.lstrip("/")} < target.files().keys()


def test_of_a_programs_folder_only_the_named_files_are_received(bench: Bench) -> None:
    """What else is there, such as how it was built, does not change the name of the run."""
    helper = bench.program.with_name("helper")
    helper.write_bytes(b"helper")
    with bench.target() as target:
        place = target.put(bench.program, (helper,))
        found = {text.rpartition(b"/")[2] for text in texts(run_of(target, place))}
        assert {b"p", b"helper"} < found
        before = run_of(target, place).name
    bench.program.with_name("facts.json").write_text("built elsewhere")
    with bench.target() as target:
        assert run_of(target, target.put(bench.program, (helper,))).name == before


def test_a_program_is_not_the_interpreter_of_another_program(bench: Bench) -> None:
    """Both have the interpreter's file: the script's run gets it, and the interpreter's run does not get the script."""
    shell = file(b"shell", executable=True)
    with bench.target() as target:
        target.put_files(CarriedFiles({"/home/script": file(b"#!/home/sh"), "/home/sh": shell}))
        target.put_files(CarriedFiles({"/home/sh": shell}, {"/home/link": "/home/sh"}))
        assert texts(run_of(target, "/home/script")) == [b"/home", b"/home/sh", b"/home/script"]
        for name in ("/home/sh", "/home/link"):
            assert texts(run_of(target, name)) == [b"/home", b"/home/link\0/home/sh", b"/home/sh"]


def test_a_preloaded_object_is_received_too(bench: Bench) -> None:
    with bench.target() as target:
        target.put_files(carried("a"))
        target.put_files(carried("l.so"))
        run = run_of(target, "/home/a", environment=(("LD_PRELOAD", "/home/l.so"),))
        assert set(texts(run)) == {b"/home", b"/home/a", b"/home/l.so"}


def test_one_saved_machine_serves_every_program(bench: Bench) -> None:
    with bench.target() as target:
        for name in ("a", "b"):
            target.put_files(carried(name))
        inputs = [dict(run_of(target, f"/home/{name}").inputs) for name in ("a", "b")]
        for each in inputs:
            each.pop("order")
        assert inputs[0].pop("received") != inputs[1].pop("received")
        assert inputs[0] == inputs[1]


def test_every_program_has_the_smallest_pool_that_holds_the_largest(bench: Bench) -> None:
    runs = []
    with bench.target() as target:
        for size in (1, 9 << 20):
            target.put_files(CarriedFiles({f"/home/p{size}": file(bytes(size))}))
            runs.append(run_of(target, "/home/p1"))
        with pytest.raises(UserError, match="A machine can't receive these 1 files") as caught:
            target.put_files(CarriedFiles({"/home/large": file(bytes(161 << 20))}))
        assert "--memory" in caught.value.hint
    usual = EmulatedMachine().memory_bytes
    assert [run.setup.machine.memory_bytes - usual for run in runs] == [sum(pool.sizes) for pool in POOLS]
    assert len({run.inputs["received"] for run in runs}) == len({run.inputs["initrd"] for run in runs}) == 2


@pytest.mark.parametrize("change", ["memory", "wall", "processors", "architecture"])
def test_an_archive_has_the_files_where_they_can_not_be_received(bench: Bench, change: str) -> None:
    changes: dict[str, dict[str, object]] = {
        "wall": {"wall": True},
        "processors": {"processors": 2},
        "architecture": {"architecture": "riscv64"},
    }
    machine = EmulatedMachine(**changes.get(change, {}))  # type: ignore[arg-type] # some of its fields
    bench.parts = dataclasses.replace(bench.parts, machine=machine)
    config = MachineConfig(memory_bytes=512 << 20) if change == "memory" else DEFAULT_MACHINE
    with bench.target(emulator=emulator(bench.room / "q10", version="QEMU emulator version 10.0")) as target:
        target.put_files(carried("a"))
        target.put_files(carried("b"))
        run = run_of(target, "/home/a", config)
        files = unpack(run.setup.received.read_bytes()) or {}
        assert files.keys() == {"home", "home/a"}
        assert f"{FOLDER}/sizes" not in (unpack(run.setup.initrd.read_bytes()) or {})
    assert not run.setup.machine.receives
    assert run.setup.machine.memory_bytes == (config.memory_bytes or machine.memory_bytes)
    assert b"RECEIVED" not in run.inputs["arguments"]


def test_an_archive_that_does_not_fit_into_the_machine_is_refused(bench: Bench) -> None:
    bench.parts = dataclasses.replace(bench.parts, machine=EmulatedMachine(architecture="riscv64"))
    with bench.target() as target, pytest.raises(UserError, match=r"larger than 53 MiB.* 256 MiB of memory") as caught:
        target.put_files(CarriedFiles({"/home/p": file(bytes(54 << 20))}))
    assert caught.value.hint == "Give the machine more: --memory 384M"


def test_files_that_no_pool_has_room_for_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_target, "POOLS", (POOL,))
    large = {f"/home/{number}": file(bytes((5 << 20) + number)) for number in range(2)}
    with bench.target() as target, pytest.raises(UserError) as caught:
        target.put_files(CarriedFiles(large))
    assert caught.value.message == (
        "A machine can't receive these 2 files: it has room for 17, the largest of 8, 4, 2, 2, 1, 1, 0.25 MiB."
    )
    assert caught.value.hint == "Give it the memory to boot with them: --memory 128M"


def test_a_root_is_in_every_machine_and_its_trials_receive_all_files(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "root" / "bin").mkdir(parents=True)
    with bench.target() as target:
        target.put_files(carried("a"))
        root = target.put_root(tmp_path / "root", "0" * 64)
        plain, rooted = run_of(target, "/home/a"), run_of(target, "/bin/sh", root=root)
        assert f"{root}/bin".lstrip("/") in (unpack(rooted.setup.initrd.read_bytes()) or {})
        assert plain.setup.initrd == rooted.setup.initrd
        assert texts(rooted) == [b"/home", b"/home/a"]


def test_both_programs_of_a_server_are_received(bench: Bench) -> None:
    with bench.target() as target:
        target.put_files(carried("server"))
        target.put_files(carried("load"))
        run = run_of(target, "/home/server", load_generator=LoadGeneratorRequest(port=80, arguments=("/home/load",)))
        assert set(texts(run)) == {b"/home", b"/home/load", b"/home/server"}


def test_what_is_received_is_an_argument_of_the_emulator(bench: Bench) -> None:
    bench.acts = f'echo "$@" >{bench.room}/words; cat {bench.room}/q/channel >"$channel"; exit 65'
    bench.run(no_cache=True)
    assert "name=opt/swapstone/files,file=/" in (bench.room / "words").read_text()


def test_an_archive_follows_the_initrd(bench: Bench) -> None:
    bench.parts = dataclasses.replace(bench.parts, machine=EmulatedMachine(wall=True))
    bench.acts = f'while [ $1 != -initrd ]; do shift; done; cp $2 {bench.room}/seen; cat {bench.room}/q/channel >"$channel"; exit 65'
    with bench.target() as target:
        named = target.named_run(bench.ask(target))
        target.run(bench.ask(target))
        parts = (named.setup.initrd.read_bytes(), named.setup.received.read_bytes())
    assert (bench.room / "seen").read_bytes() == b"".join(parts)
