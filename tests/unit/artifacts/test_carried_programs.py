# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of packages that are carried to a machine that Swapstone does not boot: with which files, and how they are started there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tools.small_elf import small_elf

from swapstone.core.model import UnavailableError
from swapstone.parts.vm.artifacts import image_assembly
from swapstone.parts.vm.artifacts.image_assembly import carried_programs
from tests.unit.artifacts.archive import Archive, lock_of

LOADER = "ld-linux-x86-64.so.2"
OBJECTS = ("libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1")


def test_programs_are_put_there_with_their_loader_and_libraries(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: f"lib/{name}" for name in (*OBJECTS, LOADER)}
    libc = msgspec.structs.replace(archive.add("libc6", dict.fromkeys(paths.values(), b"an object")), objects=paths)
    gcc = archive.add("libgcc-s1", {"lib/libgcc_s.so.1": b"an object"})
    gcc = msgspec.structs.replace(gcc, objects={"libgcc_s.so.1": "lib/libgcc_s.so.1"})
    program = small_elf(loader=f"/lib/{LOADER}", needed=["libc.so.6"])
    tool = msgspec.structs.replace(archive.add("memtester", {"sbin/memtester": program}), needs=("libc.so.6", LOADER))
    monkeypatch.setattr(image_assembly, "read_lock", lambda: lock_of(libc, gcc, tool))
    put: list[tuple[dict[str, bytes], str]] = []

    def install(files: Mapping[str, Path], what: str) -> str:
        assert all(path.stat().st_mode & 0o111 for path in files.values())
        put.append(({name: path.read_bytes() for name, path in files.items()}, what))
        return "/the re"

    place: Any = SimpleNamespace(architecture="x86_64", install=install)
    for _ in range(2):  # unpacked once, and put there each time
        commands, packages = carried_programs(("memtester",), place, lambda _: None)
        assert commands == {
            "memtester": f"'/the re/{LOADER}' --library-path '/the re' '/the re/memtester'",
        }
        assert packages == (("libc6", "1.0-1"), ("libgcc-s1", "1.0-1"), ("memtester", "1.0-1"))
    objects = dict.fromkeys((*OBJECTS, "libgcc_s.so.1", LOADER), b"an object")
    assert put == [({**objects, "memtester": program}, "packaged memtester")] * 2


def test_a_machine_without_packages_is_named() -> None:
    place: Any = SimpleNamespace(architecture="ppc64le")
    with pytest.raises(UnavailableError, match="no packages of cyclictest and stress-ng for the architecture ppc64le"):
        carried_programs(("cyclictest",), place, lambda _: None)
