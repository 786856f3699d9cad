# SPDX-License-Identifier: MIT OR Apache-2.0
"""Roots of a request: a board of a lab boots them, also by names; elsewhere they are for a program of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import BOOT_ORDER, RANDOM_ORDER, FactorLevels, UnavailableError, UserError
from swapstone.core.session.request import resolve
from tests.small_records import request_of

ROOTS = (FactorLevels(factor="rootfs", levels=("musl", "glibc")),)
LAB = "labgrid:bench,env=/lab.yaml"


def test_a_board_of_a_lab_has_one_boot_for_each_root_in_a_block() -> None:
    found = resolve(request_of(name="t", factors=ROOTS, target=LAB))
    assert found.order == BOOT_ORDER
    assert {suite for suite, _ in found.workloads} == {"os"}
    held = resolve(
        request_of(
            name="t",
            factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
            hold=("rootfs=musl",),
            target=LAB,
        )
    )
    assert held.order == BOOT_ORDER
    with pytest.raises(UserError, match="on a board that boots for each variant"):
        resolve(request_of(name="t", factors=ROOTS, target=LAB, order="balanced"))
    other = (FactorLevels(factor="libc", levels=("glibc", "musl")),)
    assert resolve(request_of(name="t", factors=other, target=LAB)).order == RANDOM_ORDER


def test_a_board_boots_no_container_image() -> None:
    """Before any program is started for the image."""
    levels = ("docker:docker.io/library/alpine:3.20", "docker:docker.io/library/debian:12")
    with pytest.raises(UnavailableError, match="it is a container image, and a strategy deploys files"):
        resolve(request_of(name="t", factors=(FactorLevels(factor="rootfs", levels=levels),), target=LAB))


@pytest.mark.parametrize("target", [None, "host", "vm"])
def test_elsewhere_a_name_is_no_root(target: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"There is no folder or archive {tmp_path}/musl to use as a root"):
        resolve(request_of(name="t", factors=ROOTS, target=target))


@pytest.mark.parametrize("target", ["ssh:board", "virtual-board"])
def test_other_boards_name_the_target_that_boots_roots(target: str) -> None:
    with pytest.raises(UnavailableError, match="boots no root file systems") as caught:
        resolve(request_of(name="t", factors=ROOTS, target=target))
    assert caught.value.hint.endswith("--target labgrid:PLACE")


def test_elsewhere_a_root_needs_a_program(tmp_path: Path) -> None:
    levels = (str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(UserError, match="The factor rootfs is for a program of yours"):
        resolve(request_of(name="t", factors=(FactorLevels(factor="rootfs", levels=levels),), target="host"))
    image = (FactorLevels(factor="image", levels=("glibc", "musl")),)
    with pytest.raises(UserError, match="The factor image is for a program of yours"):
        resolve(request_of(name="t", factors=image, target=LAB))
