# SPDX-License-Identifier: MIT OR Apache-2.0
"""A run in a virtual machine depends on its named inputs, and on nothing of the host."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone import version
from swapstone.core.model.directories import cache_dir
from swapstone.core.wire import ProcessOutcome
from swapstone.parts.vm.machine.emulator import EmulatedMachine, Emulator, find_emulator
from swapstone.parts.vm.machine.qemu import Setup
from swapstone.parts.vm.machine.run_cache import run_inputs
from tests.contract.test_vm import hog
from tests.contract.vm_fixture import vm_fixture
from tests.contract.vm_images import image_parts
from tests.shared import Shared

SOURCE = str(Path(version.__file__).parents[1])

MASKS = "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-AVX2_Usable,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-SSE4_2,-SSSE3,-BMI2"
"""Rules out the variants of the host's C library that use these instructions (glibc manual, "Hardware Capability Tunables")."""

OTHER = {
    "GLIBC_TUNABLES": MASKS,
    "LC_ALL": "C.UTF-8",
    "LANG": "tr_TR.UTF-8",
    "TZ": "Pacific/Kiritimati",
    "COLUMNS": "37",
}


def test_these_are_all_inputs_of_a_run(tmp_path: Path) -> None:
    """Who adds an input to a run adds it here, and to the section "A run's name" of docs/virtual-machine-runs.md."""
    machine = EmulatedMachine()
    setup = Setup(Emulator(path="qemu", version="7.2", build="b"), machine, tmp_path / "k", tmp_path / "i", b"order")
    inputs = run_inputs(setup, b"1", b"2", b"3")
    assert sorted(inputs) == ["arguments", "emulator", "initrd", "kernel", "order", "received"]
    words = inputs["arguments"].split(b"\0")
    assert words[-2] == b"-append" and not any(str(tmp_path).encode() in word for word in words)
    # Each field of the machine changes the name of a run.
    changed = {
        "architecture": "aarch64",
        "cpu": "Nehalem",
        "memory_bytes": 64 << 20,
        "options": ("preempt=none",),
        "parameters": ("threadirqs",),
        "dropped": ("nokaslr",),
        "wall": True,
        "ns_per_instruction": 2,
        "processors": 2,
        "receives": True,
    }
    assert set(changed) == set(EmulatedMachine.__struct_fields__)
    for field, value in changed.items():
        other = Setup(setup.emulator, EmulatedMachine(**{field: value}), setup.kernel, setup.initrd, setup.order)  # type: ignore[arg-type] # one of its fields
        assert run_inputs(other, b"1", b"2", b"3")["arguments"] != inputs["arguments"], field


def _elsewhere(folder: Path) -> Path:
    """Write a QEMU that runs with masked variants of the C library, another locale and time zone, on one processor."""
    real = find_emulator(EmulatedMachine()).path
    cpu = min(os.sched_getaffinity(0))
    settings = " ".join(f"{name}='{value}'" for name, value in OTHER.items())
    script = folder / "qemu-system-x86_64"
    exported = b"qemu_plugin_register_vcpu_mem_cb"
    assert exported in Path(real).read_bytes()  # by it an emulator is known to load plugins
    script.write_text(f'#!/bin/sh\n# {exported.decode()}\ncd /\nexec env {settings} taskset -c {cpu} {real} "$@"\n')
    script.chmod(stat.S_IRWXU)
    return script


@pytest.mark.slow
def test_the_host_s_c_library_locale_processors_and_load_change_no_byte(
    shared: Shared, tmp_path: Path, exhaustive: bool
) -> None:
    """One run is from a snapshot, and one from a boot; the order is longer than what is read at a time.

    With --exhaustive beside busy programs: tests/contract/test_vm.py compares runs from a snapshot beside these.
    """
    vm = vm_fixture(shared)
    words = (*(f"{number:0100}" for number in range(200)), "100000")
    first = vm.run("works", *words, no_cache=True)
    emulator = str(_elsewhere(tmp_path))
    with hog() if exhaustive else contextlib.nullcontext():
        second = vm.run("works", *words, no_cache=True, snapshots=False, emulator=emulator, cache=tmp_path / "other")
    assert first.outcome is ProcessOutcome.EXITED
    assert first.name != second.name  # another file is called as the emulator
    assert [getattr(first, field) for field in first.__struct_fields__ if field != "name"] == [
        getattr(second, field) for field in second.__struct_fields__ if field != "name"
    ]


_NAME = """
import sys
from pathlib import Path
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from swapstone.core.wire import TrialRequest

built = build_image(ImageRequest(architecture="x86_64", modules=(), parts=("busybox", "musl")))
with VmTarget(VmImage(built.kernel, built.initrd, EmulatedMachine()), VmOptions()) as target:
    place = target.put(Path(sys.argv[1]))
    request = TrialRequest(id="1-0", arguments=(place,), environment=(), cwd=target.scratch(), timeout_ms=1000)
    print(target.named_run(request).name)
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_image_and_programs_are_the_same_in_another_folder_and_environment(tmp_path: Path) -> None:
    """Image, agent, first process and programs of the usual cache are made again, from packages that are in it."""
    image_parts("x86_64")  # fetches the packages, or skips the test
    names = []
    for number, environment in enumerate(({}, OTHER)):
        cache = tmp_path / "cache-elsewhere" / cache_dir().name if number else cache_dir()
        if number:
            cache.mkdir(parents=True)
            for part in ("packages", "apt"):
                (cache / part).symlink_to(cache_dir() / part)
        program = tmp_path / f"programs{number}" / "program"
        program.parent.mkdir()
        for name in ("program", "b", "a", "c")[
            :: -1 if number else 1
        ]:  # folders list their files in the order of creation
            (program.parent / name).write_text("#!/bin/sh\n")
            (program.parent / name).chmod(0o755)
            os.utime(program.parent / name, (number, number))
        whole = {**os.environ, "XDG_CACHE_HOME": str(cache.parent), "PYTHONPATH": SOURCE, **environment}
        command = [
            "sh",
            "-c",
            f'umask {("022", "077")[number]}; exec "$@"',
            "sh",
            sys.executable,
            "-c",
            _NAME,
            str(program),
        ]
        done = subprocess.run(command, env=whole, cwd=program.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        names.append(done.stdout.strip())
    assert names[0] == names[1] and len(names[0]) == 64
