# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Containerfile names only commands, packages and paths that exist. docs/container.md states how it was tried as a whole."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from swapstone.core.artifacts.distribution_packages import package_versions
from tests.e2e.cli import TOP

_IN_EVERY_DEBIAN = {"apt-get", ".", "here=/swapstone"}


def _instructions() -> list[tuple[str, str]]:
    text = (TOP / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_every_command_of_a_run_line_is_there_when_it_runs() -> None:
    there = set(_IN_EVERY_DEBIAN)
    functions = set(re.findall(r"^(\w+)\(\) \{", (TOP / "tools" / "setup.sh").read_text(), re.MULTILINE))
    runs = [rest for word, rest in _instructions() if word == "RUN"]
    assert len(runs) == 3
    for run in runs:
        for command in run.split("&&"):
            words = shlex.split(command)
            assert words[0] in there, run
            if words[0] == ".":
                assert (TOP / words[1]).is_file()
                there |= functions
            if words[:2] == ["apt-get", "install"]:
                there |= set(words[2:])


@pytest.mark.slow  # apt-cache reads all lists
def test_every_package_of_a_run_line_exists_in_the_distribution() -> None:
    """Only where the package lists are there; ./test fetches them when it installs a package."""
    if not package_versions("base-files"):
        return
    runs = [shlex.split(rest) for word, rest in _instructions() if word == "RUN" and "apt-get install" in rest]
    names = [word for run in runs for word in run[run.index("install") + 1 :] if not word.startswith("-")]
    assert {"git", "python3", "linux-perf"} <= set(names)
    listed = subprocess.run(["apt-cache", "madison", "--", *names], capture_output=True, text=True, check=True).stdout
    assert set(names) <= {line.split("|")[0].strip() for line in listed.splitlines()}  # one call: each reads all lists


def test_paths_and_programs_of_the_image_are_those_of_the_repository() -> None:
    found = dict(_instructions())
    assert found["COPY"] == ". /swapstone" and found["WORKDIR"] == "/swapstone"
    assert found["ENTRYPOINT"] == '["/swapstone/swapstone"]' and (TOP / "swapstone").is_file()
    assert found["VOLUME"] == '["/records"]', "programs can't be started from a volume with noexec"
    ignored = (TOP / ".containerignore").read_text().split()
    assert {".venv", "records", "crates/target"} <= set(ignored)
    assert not {"packages", "tools", "requirements-dev.lock", ".git"} & set(ignored), "the image is built from these"


def test_the_page_names_the_rights_for_each_feature() -> None:
    page = (TOP / "docs" / "container.md").read_text()
    for option in ("--cap-add PERFMON", "--cap-add NET_ADMIN", "/dev/net/tun", "--device /dev/kvm", "SYS_PTRACE"):
        assert option in page
