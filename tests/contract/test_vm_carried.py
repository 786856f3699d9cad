# SPDX-License-Identifier: MIT OR Apache-2.0
"""Own programs in a virtual machine: dynamic programs of this machine run there with their own loader, libraries and files."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.factors import read_facts
from swapstone.core.model import OwnProgram
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.build.subjects.own_program_carried import carried_files
from swapstone.parts.vm.machine.vm_target import VmTarget
from tests.contract.test_vm import hog
from tests.contract.vm_fixture import VmFixture, vm_fixture
from tests.shared import Shared
from tests.uncompared_snapshots import leave_out_cold_starts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine of this test is of x86_64"),
]

LIBRARY = "int answer(int n) { return n * 2; }\n"
PROGRAM = r"""
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int answer(int n);
static void *work(void *n) { pthread_exit((void *)(long)answer(*(int *)n)); }
int main(int argc, char **argv) {
    char text[64] = "", folder[256]; int n = 21; void *result; pthread_t thread;
    pthread_create(&thread, 0, work, &n);
    pthread_join(thread, &result);
    FILE *file = fopen(argv[1], "r");
    if (!file || !fgets(text, sizeof text, file)) return 3;
    printf("%ld %s", (long)result, text);
    DIR *here = opendir(".");
    for (struct dirent *entry; (entry = readdir(here)); ) if (entry->d_name[0] != '.') printf("%s\n", entry->d_name);
    printf("%s\n%d\n", getcwd(folder, sizeof folder), access("/etc/hostname", F_OK));
}
"""


@pytest.fixture(scope="module")
def vm(shared: Shared) -> VmFixture:
    return vm_fixture(shared)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A dynamic program whose library is found by $ORIGIN, in a folder that a machine would mount over."""
    for name, text in (("lib.c", LIBRARY), ("main.c", PROGRAM)):
        (tmp_path / name).write_text(text)
    for name in ("bin", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "data.txt").write_text("data\n")
    library, path = tmp_path / "lib" / "libanswer.so.1", tmp_path / "bin" / "prog"
    _cc("-shared", "-fPIC", "-o", str(library), str(tmp_path / "lib.c"))
    link = ("-Wl,-rpath,$ORIGIN/../lib", "-o", str(path), str(tmp_path / "main.c"), str(library))
    _cc("-O1", *link, "-pthread")
    return path


def _cc(*arguments: str) -> None:
    subprocess.run(["cc", *arguments], check=True)


def carried_of(program: Path, *files: str) -> CarriedFiles:
    folder = str(program.parents[1])
    own = OwnProgram(name="prog", arguments=(str(program),), directory=folder, files=files)
    return carried_files(own, str(program), folder, "x86_64")


def run(target: VmTarget, program: Path, block: int = 0, file: str = "data.txt") -> AgentAnswer:
    return target.run(request(program, block, file))


def request(program: Path, block: int = 0, file: str = "data.txt") -> TrialRequest:
    return TrialRequest(
        id=f"{block}-0",
        arguments=(str(program), file),
        environment=(("LC_ALL", "C"),),
        cwd=str(program.parents[1]),
        timeout_ms=10_000,
    )


def opened(vm: VmFixture, carried: CarriedFiles) -> VmTarget:
    target = vm.open(no_cache=True)
    target.put_files(carried)
    return target


def test_a_program_with_libraries_and_files_runs_equally_again(
    vm: VmFixture, program: Path, exhaustive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --exhaustive also from a boot, and beside busy programs; tests/contract/test_vm.py does that with a program that is put."""
    leave_out_cold_starts(monkeypatch.setattr)
    (program.parents[1] / "other.txt").write_text("of this machine\n")
    carried = carried_of(program, "data.txt")
    with opened(vm, carried) as target:
        first = run(target, program)
        assert (first.outcome, first.code, first.stderr) == (ProcessOutcome.EXITED, 0, b"")
        # Of the working folder, only what belongs to the program is there; /etc/hostname of this machine is not.
        shown = first.stdout.decode().splitlines()
        assert shown[0] == "42 data"
        assert sorted(shown[1:-2]) == ["bin", "data.txt", "lib"]
        assert shown[-2:] == [str(program.parents[1]), "-1"]
        assert target.real_path(str(program)) in first.objects
        library = next(path for path in first.objects if path.endswith("libanswer.so.1"))
        facts, here = target.inspect(library), read_facts(program.parents[1] / "lib" / "libanswer.so.1")
        assert facts is not None and here is not None
        assert facts.of(BuildFacts).sections and facts.pieces == here.pieces
        with hog() if exhaustive else contextlib.nullcontext():
            assert run(target, program) == first
        assert run(target, program, block=1) != first
        unnamed = run(target, program, file="other.txt")
        assert (unnamed.outcome, unnamed.code) == (ProcessOutcome.EXITED, 3), "a file that was not named is not there"
    if exhaustive:  # the target above has made the run twice
        with opened(vm, carried) as again:
            assert run(again, program) == first


def test_each_byte_of_a_file_is_in_the_name_of_a_run(vm: VmFixture, program: Path) -> None:
    names = []
    for text in ("data\n", "datb\n", "data\n"):
        (program.parents[1] / "data.txt").write_text(text)
        with opened(vm, carried_of(program, "data.txt")) as target:
            names.append(target.named_run(request(program)).name)
    assert names[0] == names[2] != names[1]
