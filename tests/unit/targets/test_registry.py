# SPDX-License-Identifier: MIT OR Apache-2.0
"""The target registry: names, options, clocks, capabilities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapstone.cli.listing import list_command
from swapstone.core.model import VIRTUAL_CLOCK, UserError
from swapstone.core.targets import (
    Target,
    TargetOptions,
    default_target,
    find_target_kind,
    parse_target,
    spec_of,
    target_below,
    target_kinds,
)
from swapstone.core.targets.fake import FakeTargetSpec
from swapstone.core.targets.host import HostSpec, HostTarget
from swapstone.parts.boards.session import board_images
from swapstone.parts.vm.session import vm_images
from swapstone.parts.vm.session.vm_kind import VmSpec
from tests.unit import builders


def test_each_kind_is_one_entry_with_a_unique_name() -> None:
    names = [kind.name for kind in target_kinds()]
    assert names == ["host", "fake", "vm", "qemu-arm", "ssh", "virtual-board", "labgrid", "bare-riscv64"]
    assert all(kind.description and kind.usage.startswith(kind.name) and kind.clocks for kind in target_kinds())
    assert all(issubclass(kind.opens, Target) for kind in target_kinds())


def test_each_kind_parses_into_its_own_type() -> None:
    assert parse_target("host") == HostSpec()
    assert parse_target("fake:a.toml") == FakeTargetSpec(path="a.toml")
    assert parse_target("vm") == VmSpec(clock=VIRTUAL_CLOCK)
    options = TargetOptions(architecture="arm64", no_cache=True)
    whole = VmSpec(kernel="/k", architecture="arm64", clock=VIRTUAL_CLOCK, no_cache=True)
    assert parse_target("vm:/k", options) == whole


def test_the_user_emulator_runs_programs_of_one_architecture() -> None:
    assert parse_target("qemu-arm") == parse_target("qemu-arm", TargetOptions(architecture="armhf"))
    for text, options in (("qemu-arm:x", TargetOptions()), ("qemu-arm", TargetOptions(architecture="arm64"))):
        with pytest.raises(UserError, match="runs programs of armhf"):
            parse_target(text, options)


def test_an_experiment_has_a_specification() -> None:
    subject = builders.experiment(target="vm:rt", clock=VIRTUAL_CLOCK, architecture="arm64")
    assert spec_of(subject, no_cache=True) == VmSpec(
        kernel="rt", architecture="arm64", clock=VIRTUAL_CLOCK, no_cache=True
    )
    assert spec_of(builders.experiment(target="host")) == HostSpec()
    subject = builders.experiment(target="vm", clock=VIRTUAL_CLOCK, ns_per_instruction=4, processors=2)
    assert spec_of(subject) == VmSpec(clock=VIRTUAL_CLOCK, ns_per_instruction=4, processors=2)


@pytest.mark.parametrize(
    ("text", "options", "message", "hint"),
    [
        ("vn", TargetOptions(), "There is no target named 'vn'", "vm"),
        ("host:x", TargetOptions(), "host takes nothing after its name", "--target host"),
        ("fake", TargetOptions(), "fake needs the file", "fake:SPEC.toml"),
        ("host", TargetOptions(clock=VIRTUAL_CLOCK), "The target host has a wall clock.", "--target vm"),
        (
            "host",
            TargetOptions(architecture="arm64"),
            "--arch is the architecture of a virtual machine",
            "Add: --target vm",
        ),
        (
            "fake:x",
            TargetOptions(architecture="arm64"),
            "--arch is the architecture of a virtual machine",
            "Add: --target vm",
        ),
        ("host", TargetOptions(ns_per_instruction=2), "--ns-per-instruction is of the virtual clock", "--target vm"),
        ("fake:x", TargetOptions(ns_per_instruction=2), "--ns-per-instruction is of the virtual clock", "--target vm"),
        ("host", TargetOptions(processors=2), "--smp is of an emulated machine", "Add: --target vm"),
        ("vm", TargetOptions(processors=9), "can't have 9 processors", "1 to 8"),
        ("vm", TargetOptions(ns_per_instruction=3), "can't count 3 ns for an instruction", "one of: 1, 2, 4"),
    ],
)
def test_an_invalid_target_is_refused(text: str, options: TargetOptions, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_target(text, options)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_default_depends_on_whether_machines_are_booted() -> None:
    assert default_target(boots=False) == "host"
    assert default_target(boots=True) == "vm"


def test_capabilities_are_read_before_a_target_is_open() -> None:
    host, vm = find_target_kind("host").opens, find_target_kind("vm:rt").opens
    shown = {"boots", "shares_files", "runs_instruments", "has_load_generators"}
    assert host.offers & shown == shown - {"boots"}
    assert vm.offers & shown == {"boots"}
    assert "runs_instruments" not in find_target_kind("fake:x").opens.offers


def test_a_virtual_machine_needs_an_experiment() -> None:
    with pytest.raises(UserError, match="needs an experiment"):
        parse_target("vm").open(None, print)
    with parse_target("host").open(None, print) as opened:
        assert isinstance(opened, HostTarget)


def test_builders_get_what_the_text_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class BuiltError(Exception):
        pass

    given: list[tuple[object, ...]] = []

    def build(*arguments: object) -> None:
        given.append(arguments)
        raise BuiltError

    monkeypatch.setattr(vm_images, "build_vm_images", build)
    monkeypatch.setattr(board_images, "board_image", build)
    subject, spec = builders.experiment(target="vm:rt"), parse_target("vm:rt")
    with pytest.raises(BuiltError):
        spec.open(subject, print)
    with pytest.raises(BuiltError):
        parse_target("virtual-board:armhf").open(None, print)
    assert given == [(subject, "rt", spec, print), ("armhf", print)]


def test_no_target_is_tested_by_its_name_outside_targets() -> None:
    """Other packages use capabilities, so that a new kind of target is one entry."""
    source = Path(__file__).parents[3] / "src" / "swapstone"
    kinds = {f'"{kind.name}"' for kind in target_kinds()}
    found = [
        f"{path.relative_to(source)}:{number}"
        for path in source.rglob("*.py")
        if path.relative_to(source).parts[0] != "targets"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(f"{operator} {kind}" in line for operator in ("==", "!=") for kind in kinds)
    ]
    assert not found, "test a capability of the target"


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("", ""),
        ("host", "host"),
        ("vm", "vm"),
        ("vm:rt", "vm:rt"),
        ("vm:./bzImage", "vm:/f/bzImage"),
        ("vm:/k/bzImage", "vm:/k/bzImage"),
        ("fake:spec.toml", "fake:/f/spec.toml"),
        ("labgrid:bench", "labgrid:bench"),
        ("labgrid:bench,env=lab.yaml", "labgrid:bench,env=/f/lab.yaml"),
        ("labgrid:bench,state=on,env=./a/lab.yaml,folder=/x", "labgrid:bench,state=on,env=/f/a/lab.yaml,folder=/x"),
        ("labgrid:bench,env=/k/lab.yaml", "labgrid:bench,env=/k/lab.yaml"),
        ("ssh:pi,folder=/x,governor=performance", "ssh:pi,folder=/x,governor=performance"),
    ],
)
def test_a_path_in_a_target_is_relative_to_a_folder(text: str, below: str) -> None:
    assert target_below(text, "/f") == below
    assert target_below(text, "") == text


def test_each_kind_is_listed() -> None:
    result = CliRunner().invoke(list_command, ["targets", "--json"])
    assert [row["target"] for row in json.loads(result.output)["rows"]] == [kind.name for kind in target_kinds()]
