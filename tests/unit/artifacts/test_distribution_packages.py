# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hints name packages that the distribution has. A script replaces apt-cache and lists the packages of a distribution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.artifacts import distribution_packages
from swapstone.core.artifacts.distribution_packages import install_command, missing_programs, packages_of
from swapstone.core.session import capabilities as capability_checks
from swapstone.core.session.capabilities import State, capabilities
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.net.artifacts import crates

BOOKWORM = "base-files 12|rustc 1.63.0+dfsg1-2|cargo 0.66.0|rustc-web 1.96.0+dfsg1|cargo-web 1.96.0+dfsg1|linux-perf 6.1|iproute2 6.1"
OLD = BOOKWORM.replace("1.96", "1.85")
UBUNTU = "base-files 13|rustc 1.93.0|cargo 1.93.0|linux-tools-generic 6.8|iproute2 6.1"
TRIXIE = "base-files 13|rustc 1.85.0|cargo 1.85.0|iproute2 6.1"


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """A distribution with the packages of the parameter, and with no other program on PATH."""
    rows = "\n".join(f"{row.replace(' ', ' | ')} | http://archive main" for row in request.param.split("|"))
    (tmp_path / "rows").write_text(rows + "\n")
    script = f'#!/bin/sh\nwhile read -r name rest; do [ "$name" = "$3" ] && echo "$name $rest"; done <{tmp_path}/rows\nexit 0\n'
    (tmp_path / "apt-cache").write_text(script)
    (tmp_path / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    cached = [one for one in vars(requirements).values() if hasattr(one, "cache_clear")]
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.parametrize(
    ("distribution", "packages", "expected"),
    [
        (BOOKWORM, "linux-perf", "sudo apt-get install linux-perf"),
        (BOOKWORM, "cargo-web rustc-web iproute2", "sudo apt-get install cargo-web rustc-web iproute2"),
        (UBUNTU, "cargo-web rustc-web iproute2", "sudo apt-get install cargo rustc iproute2"),
        (UBUNTU, "linux-perf", "sudo apt-get install linux-tools-generic"),
        (UBUNTU, "iproute2 musl-tools", "this distribution has no package musl-tools; Debian has it"),
        ("", "iproute2", "sudo apt-get update && sudo apt-get install iproute2"),
        (UBUNTU, packages_of(("apt-get",)), "use Debian, or a distribution made from it"),
    ],
    indirect=["distribution"],
)
def test_a_command_names_only_packages_that_the_distribution_has(
    distribution: None, packages: str, expected: str
) -> None:
    assert install_command(packages) == expected


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (BOOKWORM, "Install them: sudo apt-get install cargo-web rustc-web iproute2"),
        (UBUNTU, "Install them: sudo apt-get install cargo rustc iproute2"),
        (TRIXIE, "Install them: sudo apt-get install iproute2"),
        (OLD, "Install them: sudo apt-get install iproute2"),
        ("", "Install them: sudo apt-get update && sudo apt-get install cargo-web rustc-web iproute2"),
    ],
    indirect=["distribution"],
)
def test_one_command_installs_what_the_distribution_has_in_a_version_that_is_new_enough(
    distribution: None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution_packages, "ADMINISTRATORS", "")
    missing = missing_programs(("cargo", "rustc", "cargo", "ip", "a command that the table lacks"))
    assert missing is not None and missing.hint == expected


def test_a_study_whose_programs_are_missing_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study fs has no parts, and zram-vs-flash has some."""
    monkeypatch.setattr(capability_checks, "study_names", lambda: ("fs", "zram-vs-flash"))
    installed = distribution_packages.is_installed
    absent = {"mksquashfs", "qemu-system-x86_64", "qemu-system-aarch64"}
    monkeypatch.setattr(
        distribution_packages, "is_installed", lambda program: program not in absent and installed(program)
    )
    found = {one.name: one for one in capabilities() if one.name.startswith("study ")}
    assert set(found) == {"study fs", "study zram-vs-flash"}
    assert {one.state for one in found.values()} == {State.MISSING}
    assert "squashfs-tools" in found["study fs"].remedy


@pytest.mark.slow
@pytest.mark.parametrize("distribution", [BOOKWORM, UBUNTU], indirect=True)
def test_the_doctor_names_no_package_that_the_distribution_lacks(
    distribution: None, request: pytest.FixtureRequest
) -> None:
    rows = request.node.callspec.params["distribution"]
    there = {row.split()[0] for row in rows.split("|")}
    commands = [found.remedy for found in capabilities() if "apt-get install" in found.remedy]
    assert commands, "without compilers and tools, something is missing"
    from_targets = "On Debian: sudo apt-get install gcc libc6-dev"
    for command in commands:
        if command != from_targets:
            assert set(command.partition("apt-get install ")[2].split()) <= there, command


def test_the_packages_the_crates_and_the_checks_name_the_same_lowest_rust() -> None:
    top = Path(__file__).parents[3]
    lowest = f"{crates.OLDEST_RUST[0]}.{crates.OLDEST_RUST[1]}"
    assert f"rustc:{lowest} " in (top / "packages").read_text()
    assert f'rust-version = "{lowest}"' in (top / "crates" / "Cargo.toml").read_text()
