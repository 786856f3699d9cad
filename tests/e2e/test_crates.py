# SPDX-License-Identifier: MIT OR Apache-2.0
"""The crates' own test command, and the suite that runs each test on each stack."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from swapstone.parts.build.artifacts.lwip_source import lwip_source
from tests.rust_toolchain import CRATES, copied_crates, require_rust

BACKENDS = {"lwip", "smoltcp"}


@pytest.mark.parametrize(
    "step", ["format", *(pytest.param(step, marks=pytest.mark.slow) for step in ("lint", "doc", "package"))]
)
def test_a_step_of_the_crates_own_test_command_passes(step: str, exhaustive: bool) -> None:
    require_rust()
    more = (
        ("--verify",) if exhaustive and step == "package" else ()
    )  # else they are packed, and not built from the packages
    with copied_crates() as crates:
        done = run("./test", step, *more, folder=crates)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.first
@pytest.mark.slow
def test_the_crates_tests_pass() -> None:
    require_rust()
    with copied_crates() as crates:
        done = run("./test", "unit", folder=crates)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.slow
def test_every_stack_passes_the_conformance_suite() -> None:
    found = conformance()
    assert {row["backend"] for row in found if row["outcome"] == "ok"} == BACKENDS


@pytest.mark.slow
@pytest.mark.exhaustive  # the suite above binds all ports over IPv4
def test_each_stack_names_the_limit_of_ports_of_udp_over_ipv6() -> None:
    found = conformance("ports: of UDP over IPv6", "--slow")
    assert [(row["backend"], row["outcome"]) for row in found] == [("smoltcp", "ok"), ("lwip", "ok")]


def test_an_unknown_step_is_refused_and_help_needs_no_rust() -> None:
    assert run("./test", "unti").returncode == 2
    done = run("./test", "--help")
    assert done.returncode == 0 and all(f"  {step}  " in done.stdout for step in ("unit", "suite", "package"))


@pytest.mark.slow
def test_the_build_script_fetches_nothing(tmp_path: Path) -> None:
    require_rust()
    target = {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    build = ("cargo", "build", "--package", "swapstone-net-lwip-sys")
    missing = run(*build, environment={**target, "XDG_CACHE_HOME": str(tmp_path), "LWIP_DIR": ""})
    assert missing.returncode != 0
    assert f"The source of lwIP is missing. Fetch it: {CRATES.parent}/tools/fetch-lwip" in missing.stderr
    wrong = run(*build, environment={**target, "LWIP_DIR": str(tmp_path)})
    assert wrong.returncode != 0
    assert f"{tmp_path} is not the source of lwIP" in wrong.stderr
    built = run(*build, environment={**target, "XDG_CACHE_HOME": str(tmp_path), "LWIP_DIR": str(lwip_source())})
    assert built.returncode == 0, built.stderr[-4000:]


def test_every_crate_says_whether_it_is_published() -> None:
    table = (CRATES / "README.md").read_text()
    libraries, programs = table.split("## Programs and tests")
    for manifest in CRATES.glob("*/Cargo.toml"):
        package = tomllib.loads(manifest.read_text())["package"]
        name = manifest.parent.name
        if package.get("publish") is False:
            assert f"| `{name}` |" in programs
        else:
            assert f"[`{name}`]" in libraries
            assert {"description", "readme", "documentation", "keywords", "categories"} <= set(package), name
            assert (manifest.parent / package["readme"]).is_file()


NOTHING: Mapping[str, str] = {}


def conformance(*arguments: str) -> list[dict[str, str]]:
    """Run the conformance suite, or a part of it; no test may fail."""
    require_rust()
    with copied_crates() as crates:
        done = run("./test", "suite", "--json", *arguments, folder=crates)
    assert done.stdout.lstrip().startswith("["), done.stdout[-2000:] + done.stderr[-4000:]
    found: list[dict[str, str]] = json.loads(done.stdout)
    failed = [row for row in found if row["outcome"] == "failed"]
    assert not failed, failed[:5]
    assert done.returncode == 0, done.stderr[-2000:]
    return found


def run(
    *command: str, folder: Path = CRATES, environment: Mapping[str, str] = NOTHING
) -> subprocess.CompletedProcess[str]:
    """Run a command in the workspace, or a copy of it, with additional environment variables."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
