# SPDX-License-Identifier: MIT OR Apache-2.0
"""Missing programs of all that was asked for are named in one command, and installed as the launcher of a checkout does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from swapstone.core.session.study_file import study_names
from tests.e2e.cli import TOP, command, environment, runs_of, swapstone

X86 = os.uname().machine == "x86_64"
EVERYWHERE = {"gcc"}
"""The packages that each study needs on a machine without programs."""

MACHINE = {"util-linux", "qemu-system-x86"} if X86 else {"util-linux"}
NEEDS = {
    "float-abi": {"util-linux", "qemu-user", "qemu-system-arm", "gcc-arm-linux-gnueabi", "gcc-arm-linux-gnueabihf"},
    "fs": {"squashfs-tools", "erofs-utils", *MACHINE},
    "lwip-vs-smoltcp": {"cargo-web", "rustc-web", "apache2-utils", "qemu-system-misc", "gcc-riscv64-linux-gnu"},
    "musl-malloc": {"musl-tools", "make", "g++", "wrk"},
    "musl-vs-glibc": {"musl-tools", "make", "tcl", "patch", *MACHINE},
    "musl-vs-glibc-arm64": {"util-linux", *({"qemu-system-arm", "gcc-aarch64-linux-gnu"} if X86 else ())},
    "netstack-link": {"cargo-web", "rustc-web"},
    "preempt-rt": {"make", *MACHINE, *({"gcc-12", "qemu-system-arm", "gcc-aarch64-linux-gnu"} if X86 else ())},
    "zram-vs-flash": MACHINE,
}
ROOT = {"lwip-vs-smoltcp", "netstack-link"}
"""Studies whose parts only root can run."""


def _bin(folder: Path, *names: str) -> Path:
    """Return a folder with some programs of this machine."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or "/nonexistent")
    return folder


def test_every_shipped_study_is_here() -> None:
    assert set(study_names()) == set(NEEDS)


@pytest.mark.parametrize("study", NEEDS)
def test_all_packages_of_all_parts_of_a_study_are_named_at_once(tmp_path: Path, study: str) -> None:
    if study in ROOT and (os.geteuid() != 0 or not Path("/dev/net/tun").exists()):
        pytest.skip("its parts are refused for another reason first")
    done = swapstone(tmp_path, "study", study, "--out", "out", expect=2, PATH=str(_bin(tmp_path / "bin", "sh")))
    message, *lines, command = done.stderr.splitlines()
    assert message == "error: Packages are missing:"
    named = set(command.partition("apt-get install ")[2].split())
    assert named >= NEEDS[study] | EVERYWHERE
    assert {line.strip().partition(":")[0] for line in lines} == named, "each with its reason"
    assert command.startswith("Install them: sudo apt-get ") and not (tmp_path / "out").exists()


def test_a_missing_program_of_one_candidate_refuses_the_comparison(tmp_path: Path) -> None:
    tools = _bin(tmp_path / "bin", "cc", "gcc", "as", "ld", "strip")
    asked = ("compare", "compiler=gcc,clang", "libc=glibc,musl", "--only", "b_string_strlen", "--out", "out")
    done = swapstone(tmp_path, *asked, expect=2, PATH=str(tools))
    assert done.stderr.splitlines()[-1].endswith("sudo apt-get install musl-tools clang")
    assert not (tmp_path / "out").exists()


def test_of_a_level_that_no_package_brings_the_others_are_measured(tmp_path: Path) -> None:
    """The distribution has no package of clang: the level is left out with the reason, and two others are compared."""
    tools = _bin(
        tmp_path / "bin",
        *("cc", "gcc", "musl-gcc", "as", "ld", "strip", "objcopy", f"{os.uname().machine}-linux-gnu-gcc"),
    )
    (tools / "apt-cache").write_text('#!/bin/sh\n[ "$3" = base-files ] && echo "base-files | 12 | archive"\nexit 0\n')
    (tools / "apt-cache").chmod(0o755)
    asked = ("libc=glibc,musl", "compiler=gcc,clang", "--only", "b_string_strlen", "--blocks", "1", "--out", "out")
    done = swapstone(tmp_path, "compare", *asked, expect=4, PATH=str(tools))  # a candidate has no result
    assert "this distribution has no package clang" in done.stderr
    measured = {run["trial"]["variant"] for run in runs_of(tmp_path / "out") if run["status"] == "ok"}
    assert measured == {"libc=glibc,compiler=gcc", "libc=musl,compiler=gcc"}


def test_all_architectures_of_a_comparison_are_named_at_once(tmp_path: Path) -> None:
    asked = ("compare", "libc=glibc,musl", "--target", "vm", "--arch", "arm64,riscv64", "--out", "out")
    done = swapstone(tmp_path, *asked, expect=2, PATH=str(_bin(tmp_path / "bin")))
    named = set(done.stderr.splitlines()[-1].split())
    assert {"qemu-system-misc", "gcc-riscv64-linux-gnu"} <= named
    assert not X86 or {"qemu-system-arm", "gcc-aarch64-linux-gnu"} <= named


def test_doctor_calls_a_study_ready_only_if_its_programs_are_there(tmp_path: Path) -> None:
    found = json.loads(swapstone(tmp_path, "doctor", "--json", PATH=str(_bin(tmp_path / "bin"))).stdout)["can"]
    missing = {each["name"]: each["remedy"] for each in found if each["state"] == "missing"}
    for name in ("study zram-vs-flash", "study preempt-rt", "swap=zram:lz4", "kernel=rt"):
        assert "qemu-system-x86" in missing[name] or not X86, name
    assert "study musl-vs-glibc" in missing, "one of its parts starts sh, which is not there either"
    assert "wrk" in missing["study musl-malloc"]
    assert "gcc-arm-linux-gnueabi" in missing["study float-abi"] and "qemu-system-arm" in missing["study float-abi"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout's files that set-up and a comparison need; its launcher prints that it was started again."""
    shutil.copytree(TOP / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(TOP / "native", tmp_path / "native")
    (tmp_path / "tools").mkdir()
    shutil.copy(TOP / "tools" / "setup.sh", tmp_path / "tools" / "setup.sh")
    shutil.copy(TOP / "packages", tmp_path / "packages")
    (tmp_path / "swapstone").write_text('#!/bin/sh\necho "again: $*"\n')
    (tmp_path / "swapstone").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("user", [0, 1000])
def test_the_launcher_of_a_checkout_installs_them_as_root_and_starts_again(checkout: Path, user: int) -> None:
    tools = _bin(
        checkout / "bin", "sh", "cc", "gcc", "ld", "dirname", "readlink", "env", "date", "tail", "grep", "chmod"
    )
    scripts = {
        "id": f"echo {user}",
        "apt-get": f'echo "$*" >>{checkout}/asked; [ "$3" = update ] || for name in musl-gcc clang; do '
        f'echo "#!/bin/sh" >{tools}/$name; chmod +x {tools}/$name; done',
    }
    for name, body in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    asked = ("compare", "compiler=gcc,clang", "libc=glibc,musl", "--only", "b_string_*", "--out", "out")
    launcher = str(checkout / "swapstone")
    changes = {"PATH": str(tools), "SWAPSTONE_COMMAND": launcher, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        command(*asked), capture_output=True, text=True, check=False, cwd=checkout, env=environment(checkout, **changes)
    )
    assert done.returncode == 2 * (user != 0), done.stderr
    assert "Debian packages are missing:\n    musl-tools: the musl level of the factor libc\n    clang: " in done.stderr
    if user == 0:
        assert done.stdout == f"again: {' '.join(asked)}\n"
        assert (checkout / "asked").read_text().splitlines()[1].endswith("--no-install-recommends musl-tools clang")
    else:
        assert (
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends musl-tools clang\n" in done.stderr
        )
        assert done.stdout == "" and not (checkout / "asked").exists()
    assert not (checkout / "out").exists()
