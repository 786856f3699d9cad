# SPDX-License-Identifier: MIT OR Apache-2.0
"""The certificate of the exact clock: this host gives the outputs that are shipped, and so does an emulated older processor."""

from __future__ import annotations

import dataclasses
import os
import shlex
import stat
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UserError
from swapstone.core.targets.health import State
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.vm_target import VmOptions
from swapstone.parts.vm.session.host_certificate import (
    CERTIFICATE,
    MACHINES,
    CertifiedRun,
    certified,
    compared,
    runs_here,
)
from tests.contract.vm_images import need_emulator
from tests.programs import require

KNOWN = CertifiedRun(tools=("QEMU 7.2", "gcc 12"), inputs={"emulator": "e", "initrd": "i"}, output="o")


@pytest.mark.parametrize(
    ("run", "state", "words"),
    [
        (KNOWN, State.GOOD, "output as certified"),
        (msgspec.structs.replace(KNOWN, output="p"), State.MISSING, "equal inputs gave another output"),
        (
            CertifiedRun(tools=("QEMU 10.0", "gcc 12"), inputs={"emulator": "f", "initrd": "i"}, output="p"),
            State.UNKNOWN,
            "QEMU with its firmware differs from the certified one (QEMU 7.2, here QEMU 10.0)",
        ),
        (
            msgspec.structs.replace(KNOWN, inputs={"emulator": "f"}),
            State.UNKNOWN,
            "QEMU with its firmware, image, with the agent that was compiled here differ",
        ),
        (UserError("There is no qemu-system-x86_64.", "Install it."), State.MISSING, "There is no qemu-system-x86_64."),
    ],
)
def test_a_run_is_compared_with_the_certified_one(run: CertifiedRun | UserError, state: State, words: str) -> None:
    (finding,) = compared({"amd64 generic": KNOWN}, [("amd64 generic", run)])
    assert finding.state is state and finding.name == "exact clock, amd64 generic"
    assert words in f"{finding.found} {finding.meaning}"


ANEW = VmOptions(no_cache=True, snapshots=False)
WRITES = os.environ.get("SWAPSTONE_UPDATE_GOLDENS") == "1"


@pytest.fixture(scope="module")
def here(exhaustive: bool) -> dict[str, CertifiedRun | UserError]:
    """Return the runs of the certificate as this host makes them: of one kernel for each architecture, or all."""
    need_emulator()
    need_emulator("aarch64")
    return dict(runs_here(ANEW, print, [each for each in MACHINES if each[1] == "generic" or exhaustive or WRITES]))


@pytest.mark.slow
def test_this_host_gives_the_certified_outputs(here: dict[str, CertifiedRun | UserError]) -> None:
    """With SWAPSTONE_UPDATE_GOLDENS=1 the certificate is written: look at the difference.

    With another emulator or compiler than certified, inputs differ; with both equal, they differ only because the project changed.
    """
    made = list(here.items())
    assert not [run for _, run in made if isinstance(run, UserError)]
    if WRITES:
        CERTIFICATE.write_bytes(msgspec.json.format(msgspec.json.encode(here), indent=1) + b"\n")
    known = certified()
    for (name, run), finding in zip(made, compared(known, made), strict=True):
        assert isinstance(run, CertifiedRun), run
        if finding.state is not State.GOOD and (
            run.tools != known[name].tools or run.inputs["emulator"] != known[name].inputs["emulator"]
        ):
            pytest.skip(f"{finding.found}: {finding.meaning}")
        assert finding.state is State.GOOD, (
            f"{finding}: if agent, image or order were changed, run ./test --update-goldens"
        )


_WITHOUT_SANDBOX = """#!/bin/sh
skip=
for word; do
    shift
    if [ "$word" = -sandbox ]; then skip=1; elif [ "$skip" ]; then skip=; else set -- "$@" "$word"; fi
done
"""
"""The emulator of programs has no seccomp(2)."""


@pytest.mark.slow
@pytest.mark.exhaustive  # test_vm_host.py has an emulator whose C library finds no AVX
@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_an_emulated_older_processor_gives_the_same_output(
    here: dict[str, CertifiedRun | UserError], tmp_path: Path, architecture: str
) -> None:
    """The emulator itself is emulated: it finds no AVX, and its floating-point instructions are those of another emulator."""
    require("qemu-x86_64")
    real = find_emulator(EmulatedMachine(architecture=find_machine_architecture(architecture).machine)).path
    script = tmp_path / Path(real).name
    script.write_text(_WITHOUT_SANDBOX + f'exec qemu-x86_64 -cpu Nehalem {shlex.quote(real)} "$@"\n')
    script.chmod(stat.S_IRWXU)
    ((name, there),) = runs_here(dataclasses.replace(ANEW, emulator=str(script)), print, [(architecture, "generic")])
    native = here[name]
    assert isinstance(native, CertifiedRun) and isinstance(there, CertifiedRun), (native, there)
    assert native.output == there.output and native.inputs["emulator"] != there.inputs["emulator"]
