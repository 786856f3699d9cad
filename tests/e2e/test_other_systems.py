# SPDX-License-Identifier: MIT OR Apache-2.0
"""The start on systems other than Linux, as far as Linux can imitate them: `sys.platform`, and the names that Python lacks there."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from swapstone.systems import READING
from tests.e2e.cli import TOP, environment

pytestmark = pytest.mark.quick

RECORDS = TOP / "tests" / "recorded" / "records-described"
COMMANDS = {
    "show": ("records/fake",),
    "report": ("records/fake", "--markdown"),
    "export": ("records/fake", "--format", "csv"),
    "verify": ("records/fake",),
    "agree": ("records/fake", "records/fake-lines"),
    "query": ("SELECT count(*) FROM comparisons",),
    "list": ("records",),
    "published": ("check",),
    "docs": ("studies",),
    "completion": ("bash",),
}

# The standard library's own modules choose by sys.platform when they are imported.
IMITATE = """
import os, resource, select, signal, sys
import asyncio, ctypes.util, multiprocessing.connection, selectors, shutil, socket, subprocess, sysconfig, tempfile, webbrowser, zipfile
system, *sys.argv = sys.argv[1:]
absent = {
    os: "O_PATH O_TMPFILE O_DIRECT O_NOATIME copy_file_range eventfd fdatasync getrandom memfd_create pidfd_open posix_fadvise "
    "posix_fallocate sched_getaffinity sched_setaffinity setns splice unshare getxattr setxattr listxattr sched_setscheduler",
    resource: "prlimit RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_SIGPENDING",
    select: "epoll",
    signal: "sigtimedwait sigwaitinfo SIGPOLL SIGSTKFLT SIGRTMIN SIGRTMAX",
    socket: "AF_NETLINK AF_PACKET AF_VSOCK SO_BINDTODEVICE TCP_USER_TIMEOUT",
}
for module, names in absent.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
if system == "win32":
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    del signal.pthread_sigmask, os.fork, os.uname
sys.platform = system
"""
START = f"{IMITATE}from swapstone.__main__ import main\nmain()\n"
EACH = f"""{IMITATE}
import contextlib, io, json
from swapstone.cli.main import main
for sys.argv in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            assert not end.code, (sys.argv, end.code)
    assert out.getvalue(), sys.argv
"""
"""Runs several commands in one process."""


def start(folder: Path, system: str, *words: str, script: str = START) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, system, "swapstone", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120, check=False
    )


def test_commands_that_read_records_work_on_macos(tmp_path: Path) -> None:
    assert set(COMMANDS) == set(READING)
    for name in ("fake", "fake-lines"):
        with tarfile.open(RECORDS / f"{name}.tar.xz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(tmp_path / "records")
    commands = [["swapstone", name, *words] for name, words in COMMANDS.items()]
    done = start(tmp_path, "darwin", json.dumps(commands), script=EACH)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("system", "words", "line"),
    [
        (
            "darwin",
            ("compare", "./a", "./b"),
            f"macOS: {', '.join(READING)} work; trials need Linux, for example in a virtual machine.",
        ),
        (
            "win32",
            ("show",),
            "Windows: no command works; Swapstone needs Linux, for example in a virtual machine or WSL 2.",
        ),
        ("win32", (), "Windows: no command works; Swapstone needs Linux, for example in a virtual machine or WSL 2."),
    ],
)
def test_another_system_is_refused_in_one_line(tmp_path: Path, system: str, words: tuple[str, ...], line: str) -> None:
    done = start(tmp_path, system, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{line}\n")


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("compare", "--help")])
def test_help_is_printed_on_macos(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = start(tmp_path, "darwin", *words)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_package_is_imported_everywhere(tmp_path: Path, system: str) -> None:
    done = start(tmp_path, system, script=f"{IMITATE}import swapstone\nprint(swapstone.__version__)\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_builds_names_what_another_distribution_lacks(tmp_path: Path) -> None:
    script = (
        "import os, platform, sys\n"
        "platform.freedesktop_os_release = lambda: {'ID': 'fedora', 'PRETTY_NAME': 'Fedora Linux'}\n"
        "os.environ['PATH'], sys.argv = '/nowhere', sys.argv[2:]\n"
        "from swapstone.__main__ import main\nmain()\n"
    )
    assert start(tmp_path, "linux", "show", script=script).stderr.startswith("Usage")
    done = start(tmp_path, "linux", "compare", script=script)
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith("Fedora Linux: programs that exist are compared; to build programs: sudo dnf install gcc")
    assert rest
