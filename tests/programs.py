# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs that tests need: a test names each, and is skipped where one is missing.

The file `packages` has the package of each, so that `./test` installs it; tests/style/test_programs.py compares them.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"

BESIDE: Mapping[str, str] = {
    **dict.fromkeys(("addr2line", "ar", "c++filt", "ld", "nm", "objdump", "readelf", "strip"), "binutils"),
    **dict.fromkeys(("arm-linux-gnueabihf-as", "arm-linux-gnueabihf-objcopy"), "gcc-arm-linux-gnueabihf"),
    "arm-linux-gnueabihf-readelf": "gcc-arm-linux-gnueabihf",
    "clang++": "clang",
    **dict.fromkeys(("gcc", "gcov"), "gcc"),
    **dict.fromkeys(("qemu-aarch64", "qemu-x86_64"), "qemu-user"),
}
"""The packages of programs that are not the probe of a line of `packages`, and that come with a package there."""

EVERYWHERE = (
    *(
        "bash",
        "cat",
        "chmod",
        "mount",
        "nice",
        "readlink",
        "script",
        "sh",
        "sha256sum",
        "sleep",
        "stat",
        "tar",
        "true",
        "umount",
        "unshare",
    ),
    *("apt-cache", "apt-get", "dpkg", "dpkg-deb", "ldconfig", "ldd", "python3"),
)
"""Programs of the packages that a Debian has always, and those that the README requires."""

ELSEWHERE: Mapping[str, str] = {
    "benchstat": "Debian has none: tests build it by Go, and benchmarks/verdicts --others takes it from PATH",
    **dict.fromkeys(("rust-lld", "rustup"), "another source of Rust than Debian has it"),
    "sshd": "its package starts a server: tests unpack it (tests/e2e/ssh_server.py)",
    "swapstone": "a name in a test of the shell",
}
"""Programs that are used where they are, and never installed, with the reason."""


@functools.cache
def listed() -> Mapping[str, str]:
    """Return the package of each program that `packages` has as a probe; of several, the first."""
    lines = [line.split() for line in PACKAGES.read_text().splitlines() if line and not line.startswith("#")]
    probes = {words[2]: words[1].partition("|")[0] for words in lines}
    return {probe.partition(":")[0]: package for probe, package in probes.items() if not probe.startswith(("/", "py:"))}


def package_of(program: str) -> str | None:
    """Return the package of `packages` that installs a program; empty if every Debian has it, None if no list has it."""
    if program in EVERYWHERE:
        return ""
    return listed().get(program) or BESIDE.get(program)


def missing(*programs: str) -> str:
    """Return which programs are not installed, with their packages; empty if all are.

    Raises:
        ValueError: `packages` does not name the package of one.
    """
    if unknown := [name for name in programs if package_of(name) is None]:
        raise ValueError(f"name the package of {', '.join(unknown)} in the file `packages`, or in tests/programs.py")
    absent = [f"{name} ({package_of(name)})" for name in programs if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs programs: it is skipped where one is missing."""
    reason = missing(*programs)
    return pytest.mark.skipif(bool(reason), reason=reason or "all are installed")


def require(*programs: str) -> None:
    """Skip the running test if one of the programs that it needs is missing."""
    if reason := missing(*programs):
        pytest.skip(reason)


def with_nice_0() -> list[str]:
    """Return the words before a command that start it with the nice value 0; skip the running test if that is not permitted.

    A test that takes the right to lower the nice value from a session needs them: under `nice ./test` the session is refused otherwise.
    """
    words = ["nice", "-n", str(-os.getpriority(os.PRIO_PROCESS, 0))]
    if subprocess.run([*words, "nice"], capture_output=True, text=True, check=False).stdout.strip() != "0":
        pytest.skip("this process may not lower its nice value")
    return words
