# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens a target of each kind for the contract tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.core.targets import Target, open_target, parse_target
from tests.contract.vm_fixture import vm_fixture
from tests.fake_ssh import FakeSsh
from tests.shared import Shared

SPEC = """
seed = 3
[[behaviour]]
wall_ns = 1_000_000
noise = 0.05
[[behaviour]]
workload = "crash"
faults = [{ kind = "crash", probability = 1.0 }]
[[behaviour]]
workload = "absent"
faults = [{ kind = "unstarted", probability = 1.0 }]
"""


def _fake(folder: Path, shared: Shared) -> Target:
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    return open_target(f"fake:{spec}")


def _vm(folder: Path, shared: Shared) -> Target:
    if os.uname().machine != "x86_64":
        pytest.skip("the image's library is this machine's, and the emulated one is an x86_64")
    return vm_fixture(shared).open()


def _ssh(folder: Path, shared: Shared) -> Target:
    with FakeSsh(folder / "board").first():
        return open_target("ssh:board")


def _labgrid(folder: Path, shared: Shared) -> Target:
    """Open a board of a lab without coordinator and strategy, which labgrid therefore takes as it is."""
    (folder / "lab.yaml").write_text(
        "targets: {bench: {resources: [NetworkService: {address: board, username: me}], drivers: []}}\n"
    )
    with FakeSsh(folder / "board").first():
        return open_target(f"labgrid:bench,env={folder}/lab.yaml")


def _virtual_board(folder: Path, shared: Shared) -> Target:
    """Open a virtual board of this machine's architecture, for which the programs of these tests are compiled."""
    here = next((each.name for each in ARCHITECTURES if each.machine == os.uname().machine), "")
    return parse_target(f"virtual-board:{here}").open(None, print)


OPENERS: dict[str, Callable[[Path, Shared], Target]] = {
    "fake": _fake,
    "vm": _vm,
    "ssh": _ssh,
    "labgrid": _labgrid,
    "virtual-board": _virtual_board,
}
"""Functions that open a target, by kind. Kinds that are not listed open by their name alone."""

SLOW = frozenset({"vm"})

OF_AN_EMULATOR = frozenset({"qemu-arm"})
"""Kinds without the contract of a target: an emulator's process is observed, not the program's."""

EXHAUSTIVE = frozenset({"virtual-board"})
"""Kinds that run the same code as another one, on a machine that takes long to boot."""


def open_kind(name: str, folder: Path, shared: Shared) -> Target:
    """Open a target of a kind.

    Args:
        name: of the kind.
        folder: for files that it needs.
        shared: folders of all workers.
    """
    return OPENERS[name](folder, shared) if name in OPENERS else open_target(name)
