# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a killed Swapstone leaves of its machines: no process, and a folder that the next start removes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from swapstone.core.model.temporary_folder import remove_stale_folders
from tests.processes import ends, is_running
from tests.unit.targets.fake_emulator import emulator

_SESSION = """
import sys, tempfile
from pathlib import Path
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.emulator import find_emulator
from swapstone.parts.vm.machine.qemu import Guest, Limits, Setup

folder = Path(sys.argv[1])
tempfile.tempdir = str(folder / "temporary")
machine = EmulatedMachine()
(folder / "initrd").write_bytes(b"")
setup = Setup(find_emulator(machine, sys.argv[2]), machine, folder / "kernel", folder / "initrd", b"order")
with Guest(setup, Limits()) as guest:
    print(guest.process.pid, flush=True)
    guest.wait()
"""


def test_no_machine_survives_a_killed_session_and_the_next_start_removes_its_folder(tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    program = emulator(tmp_path / "q", f"touch {tmp_path}/started; exec sleep 1000")
    command = [sys.executable, "-c", _SESSION, str(tmp_path), program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        pid = int(session.stdout.readline())
        while not (tmp_path / "started").exists():
            assert session.poll() is None
            time.sleep(0.01)
        assert is_running(pid)
        session.kill()
    assert ends(pid)
    (left,) = place.iterdir()
    assert left.name.startswith("swapstone-vm-")
    assert remove_stale_folders(place) == (left,)
