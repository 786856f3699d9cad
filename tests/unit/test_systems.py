# SPDX-License-Identifier: MIT OR Apache-2.0
"""The line about a system other than Debian, as a function of its facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.systems import missing_packages, os_release, system_line

ALL = ("gcc", "libc6-dev", "musl-tools", "g++")
FEDORA = {"ID": "fedora", "PRETTY_NAME": "Fedora Linux 43"}
ROCKY = {"ID": "rocky", "ID_LIKE": "rhel centos fedora", "PRETTY_NAME": "Rocky Linux 9"}
ALPINE = {"ID": "alpine", "PRETTY_NAME": "Alpine Linux v3.22"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian", "PRETTY_NAME": "Ubuntu 24.04"}
ARCH = {"ID": "arch", "PRETTY_NAME": "Arch Linux"}
APT = "what comes as Debian's packages (allocators, servers, kernels, images) needs apt-get"


@pytest.mark.parametrize(
    ("release", "missing", "expected"),
    [
        ({"ID": "debian"}, ALL, ""),
        (FEDORA, (), ""),
        (ALPINE, ("musl-tools",), ""),
        (
            UBUNTU,
            ("gcc", "g++"),
            "Ubuntu 24.04: programs that exist are compared; to build programs: sudo apt-get install gcc g++.",
        ),
        (
            FEDORA,
            ALL,
            "Fedora Linux 43: programs that exist are compared; "
            f"to build programs: sudo dnf install gcc glibc-devel musl-gcc gcc-c++; {APT}.",
        ),
        (
            ROCKY,
            ("g++",),
            f"Rocky Linux 9: programs that exist are compared; to build programs: sudo dnf install gcc-c++; {APT}.",
        ),
        (
            ALPINE,
            ALL,
            "Alpine Linux v3.22: programs that exist are compared; to build programs: sudo apk add gcc musl-dev g++; "
            f"{APT}.",
        ),
        (
            ARCH,
            ("gcc",),
            f"Arch Linux: programs that exist are compared; to build programs: install what Debian names gcc; {APT}.",
        ),
        (
            {},
            ("gcc",),
            f"This Linux: programs that exist are compared; to build programs: install what Debian names gcc; {APT}.",
        ),
    ],
)
def test_a_linux_is_told_what_works_and_what_to_install(
    release: dict[str, str], missing: tuple[str, ...], expected: str
) -> None:
    assert system_line("linux", release, missing) == expected


def test_a_name_from_the_system_is_printed_without_control_characters() -> None:
    assert system_line("linux", {"PRETTY_NAME": "\x1b[31mX\n" * 99}, ("gcc",)).startswith(f"{('[31mX' * 99)[:60]}: ")


def test_packages_are_missing_whose_command_or_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {"gcc", "musl-tools"} <= set(missing_packages())
    for name in ("cc", "musl-gcc"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert not {"gcc", "musl-tools"} & set(missing_packages())
    assert "binutils" in missing_packages() and "qemu-system-x86" not in missing_packages()


def test_a_system_without_os_release_has_no_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr("platform.freedesktop_os_release", fail)
    assert os_release() == {}
