# SPDX-License-Identifier: MIT OR Apache-2.0
"""The set-up of ./swapstone without packages or Python. A script replaces apt-get, so that no network is needed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from swapstone.cli.main import COMMANDS as COMMANDS_OF_SWAPSTONE
from tests.e2e.cli import TOP

COMMANDS = (
    *("sh", "cmp", "dirname", "readlink", "env", "cat", "rm", "tail", "cp", "basename", "true", "grep", "mkdir"),
    *("date", "sleep", "flock", "chmod", "touch"),
)
APT = "apt-get -o DPkg::Lock::Timeout=300"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the files that set-up needs; the file of one package is missing."""
    for name in ("swapstone", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(TOP / name, tmp_path / name)
    (tmp_path / "tools").mkdir()
    shutil.copy(TOP / "tools" / "setup.sh", tmp_path / "tools" / "setup.sh")
    (tmp_path / "packages").write_text(
        f"# a comment\nrun  odd-tools  {tmp_path}/odd  what for\nrun  dash  sh  a shell\ntest  other-tools  {tmp_path}/other  tests\n"
    )
    return tmp_path


def _run(
    checkout: Path,
    *arguments: str,
    user: int,
    sudo: bool = False,
    apt: str | None = "exit 0",
    scripts: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    tools = checkout / "bin"
    tools.mkdir()
    for command in COMMANDS:
        (tools / command).symlink_to(shutil.which(command) or f"/bin/{command}")
    scripts = {"id": f"echo {user}", "python3": "exit 1"} | (scripts or {})
    if sudo:
        # Keeps what had been printed before it ran.
        scripts["sudo"] = (
            f'tail -n 1 {checkout}/stderr >>{checkout}/sudo; echo "ran: sudo $*" >>{checkout}/sudo; shift; exec "$@"'
        )
    if apt is not None:
        scripts["apt-get"] = f'echo "apt-get $*" >>{checkout}/asked; {apt}'
    for name, body in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    with (checkout / "stderr").open("w+") as stderr:
        result = subprocess.run(
            [checkout / "swapstone", *(arguments or ("compare", "libc=glibc,musl"))],
            env={"PATH": str(tools), "TMPDIR": str(checkout)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=60,
            check=False,
        )
    return subprocess.CompletedProcess(result.args, result.returncode, result.stdout, (checkout / "stderr").read_text())


def test_without_root_and_sudo_setup_prints_the_command_and_exits_with_2(checkout: Path) -> None:
    result = _run(checkout, user=1000)
    assert result.returncode == 2
    assert "sudo apt-get update && sudo apt-get install -y --no-install-recommends odd-tools\n" in result.stderr
    assert not (checkout / "asked").exists()
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("user", "sudo", "packages"), [(0, False, "packages: odd-tools"), (1000, True, "packages through sudo: odd-tools")]
)
def test_as_root_or_through_sudo_setup_installs_and_reports_it(
    checkout: Path, user: int, sudo: bool, packages: str
) -> None:
    result = _run(checkout, user=user, sudo=sudo)
    asked = (checkout / "asked").read_text().splitlines()
    assert asked[0] == f"{APT} update -qq"
    assert asked[1].endswith("install -y -qq --no-install-recommends odd-tools")
    assert f"Installing Debian {packages}" in result.stderr
    # The replaced python3 is too old, which the next step reports.
    assert result.returncode == 2
    assert "Swapstone needs Python 3.11 or newer" in result.stderr and "SWAPSTONE_PYTHON" in result.stderr


@pytest.mark.parametrize("found", [True, False])
def test_a_file_of_any_version_is_looked_for(checkout: Path, found: bool) -> None:
    (checkout / "packages").write_text(f"run odd-tools {checkout}/lib-*/libodd-*.a what for\n")
    (checkout / "lib-14").mkdir()
    if found:
        (checkout / "lib-14" / "libodd-x86_64.a").touch()
    result = _run(checkout, user=0)
    assert ("odd-tools" in result.stderr) != found
    assert (checkout / "asked").exists() != found


def test_each_sudo_is_printed_with_its_reason_before_it_runs(checkout: Path) -> None:
    result = _run(checkout, user=1000, sudo=True)
    assert "Debian packages are missing:\n    odd-tools: what for\n" in result.stderr
    lines = (checkout / "sudo").read_text().splitlines()
    assert len(lines) == 6, "a test whether sudo works, the update and the installation, each after its announcement"
    for printed, ran in zip(lines[::2], lines[1::2], strict=True):
        command = ran.removeprefix("ran: ")
        assert printed.startswith(("Running: ", "Installing them needs root. Running")) and printed.endswith(command)


@pytest.mark.parametrize("what", ["update", "install"])
def test_apts_lock_is_waited_for(checkout: Path, what: str) -> None:
    held = "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1' >&2; exit 100"
    once = f'case "$*" in *{what}*) [ -e {checkout}/held ] || {{ touch {checkout}/held; {held}; }};; esac'
    result = _run(checkout, user=0, apt=once)
    assert result.stderr.count("Another program holds apt's lock; waiting for up to 300 s.") == 1
    assert [line.split()[3] for line in (checkout / "asked").read_text().splitlines()].count(what) == 2
    assert "apt-get failed" not in result.stderr


def test_no_temporary_file_has_a_predictable_name(checkout: Path) -> None:
    """Output is kept in a variable; another user could have prepared a link with the name of a file."""
    result = _run(checkout, user=0, apt=f"echo {checkout}/* >&2; exit 100")
    assert "apt-get failed" in result.stderr
    known = {"swapstone", "requirements.lock", "requirements-dev.lock", "tools", "packages", "bin", "asked", "stderr"}
    listed = next(line for line in result.stderr.splitlines() if line.startswith(f"{checkout}/"))
    assert {Path(word).name for word in listed.split()} == known, "what exists while apt-get runs"


def test_two_first_starts_make_the_environment_once(checkout: Path) -> None:
    """The second start waits for the lock, and finds everything done."""
    (checkout / "packages").write_text("")
    python = f'#!/bin/sh\ncase $2 in */__main__.py) echo started ;; -m) echo "$3" >>{checkout}/log ;; esac\n'
    (checkout / "venv-python").write_text(python)
    (checkout / "python3").write_text(
        f"""#!/bin/sh
[ "$2" = -m ] || exit 0
echo venv >>{checkout}/log
while [ ! -e {checkout}/go ]; do sleep 0.05; done
mkdir -p {checkout}/.venv/bin
cp {checkout}/venv-python {checkout}/.venv/bin/python
"""
    )
    for name in ("python3", "venv-python"):
        (checkout / name).chmod(0o755)
    environment = {**os.environ, "SWAPSTONE_PYTHON": str(checkout / "python3")}

    def start() -> subprocess.Popen[str]:
        command = [str(checkout / "swapstone"), "list"]
        return subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=checkout
        )

    started = [start()]
    try:
        deadline = time.monotonic() + 60
        while not (checkout / "log").exists():
            assert time.monotonic() < deadline and started[0].poll() is None
            time.sleep(0.02)
        with (checkout / ".venv.lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        started.append(start())
        assert started[1].stderr is not None
        assert started[1].stderr.readline() == f"Another process sets up {checkout}; waiting for it.\n"
    finally:
        (checkout / "go").touch()
        ended = [(process.communicate(timeout=60)[0], process.returncode) for process in started]
    assert ended == [("started\n", 0)] * 2
    assert (checkout / "log").read_text().split() == ["venv", "pip", "compileall"]


def test_a_checkout_that_cannot_be_written_is_an_error_with_the_next_step(checkout: Path) -> None:
    (checkout / ".venv.lock").mkdir()
    result = _run(checkout, user=1000)
    assert result.returncode == 2 and "as the owner of that folder" in result.stderr
    assert not (checkout / "asked").exists()


NEED_NOTHING = [
    "",
    "--help",
    "show last",
    "report last --html",
    "list factors",
    "compare --help",
    "compare x --target fake:",
]


@pytest.mark.parametrize("words", NEED_NOTHING)
def test_commands_that_build_nothing_neither_miss_a_compiler_nor_call_apt_get(checkout: Path, words: str) -> None:
    """No compiler is on PATH, and apt-get fails: only Python is set up."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    # It replaces the checkout's Python; pip is there.
    python.write_text('#!/bin/sh\ncase $2 in */swapstone/__main__.py) shift 2; echo "called: $*" ;; esac\n')
    python.chmod(0o755)
    result = _run(checkout, *words.split() or ["--version"], user=1000, apt="exit 100", scripts={"python3": "exit 0"})
    assert (result.returncode, result.stdout) == (0, f"called: {words or '--version'}\n"), result.stderr
    assert not (checkout / "asked").exists()


def test_the_launcher_knows_every_command_that_builds_nothing() -> None:
    """A new command is put on one of the two lists on purpose."""
    line = next(line for line in (TOP / "swapstone").read_text().splitlines() if "| show |" in line)
    builds_nothing = set(line.partition(")")[0].replace("|", " ").split()) - {'""', "-*"}
    assert set(COMMANDS_OF_SWAPSTONE) - builds_nothing == {
        "compare",
        "study",
        "explain",
        "profile",
        "rerun",
        "image",
        "sdk",
        "conform",
        "plan",
        "run-trial",
        "collect",
        "gate",
        "bisect",
        "history",
    }
    assert builds_nothing <= set(COMMANDS_OF_SWAPSTONE)


RUST = "test rustc-web|rustc rustc:1.91 stacks\n"


@pytest.mark.parametrize(
    ("lists", "chosen"), [("rustc-web | 1.96\nrustc | 1.63", "rustc-web"), ("rustc | 1.99", "rustc"), ("", "rustc")]
)
def test_of_alternatives_the_first_that_the_distribution_has_is_named(checkout: Path, lists: str, chosen: str) -> None:
    (checkout / "packages").write_text(RUST.replace("test", "run", 1))
    madison = f"printf '%s\\n' '{lists}' | grep \"^$2 \""
    result = _run(checkout, user=1000, scripts={"apt-cache": madison})
    assert f"--no-install-recommends {chosen}\n" in result.stderr


@pytest.mark.parametrize(
    ("version", "sufficient"),
    [
        ("1.91.0", True),
        ("1.96.0 (abc)", True),
        ("2.0.0", True),
        ("1.63.0", False),
        ("0.99.1", False),
        ("nonsense", False),
    ],
)
def test_a_rust_that_is_too_old_after_the_installation_is_reported(
    checkout: Path, version: str, sufficient: bool
) -> None:
    (checkout / "packages").write_text(RUST.replace("test", "run", 1))
    result = _run(checkout, user=0, scripts={"rustc": f"echo 'rustc {version}'"})
    warning = "warning: this distribution's rustc-web|rustc is not sufficient; what needs it is unavailable:\nrun rustc"
    assert (warning in result.stderr) == (not sufficient)
    assert "Swapstone needs Python 3.11 or newer" in result.stderr, "the set-up continues"


@pytest.mark.parametrize("sysroot", ["/usr", "/home/u/.rustup/toolchains/stable", None])
def test_the_source_of_rust_is_installed_for_the_rust_of_debian_only(checkout: Path, sysroot: str | None) -> None:
    (checkout / "packages").write_text("run rust-web-src rust-source what for\n")
    result = _run(checkout, user=0, scripts={"rustc": f"echo {sysroot}" if sysroot else "exit 1"})
    there = sysroot == "/usr" and Path("/usr/lib/rustlib/src/rust/library/Cargo.lock").exists()
    assert ("rust-web-src" in result.stderr) == (not there and sysroot in {"/usr", None})


def test_a_failing_apt_get_prints_its_output(checkout: Path) -> None:
    result = _run(checkout, user=0, apt="echo E: no such package; exit 100")
    assert result.returncode == 2
    assert "E: no such package" in result.stderr and "apt-get failed. Try:" in result.stderr


def test_without_apt_get_setup_names_the_missing_packages(checkout: Path) -> None:
    result = _run(checkout, user=0, apt=None)
    assert result.returncode == 2
    assert "no apt-get" in result.stderr and "odd-tools" in result.stderr


def test_the_list_of_packages_is_well_formed() -> None:
    lines = [line.split() for line in (TOP / "packages").read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    for when, package, probe, *why in lines:
        assert when in {"python", "run", "use", "test", "other"}
        assert package and probe and why
    assert len({line[2].partition(":")[0] for line in lines if line[0] != "python"}) == len(lines) - 1, (
        "each program once"
    )
