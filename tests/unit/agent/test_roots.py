# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials with a root file system of their own: what the process finds there, and what it leaves."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swapstone.core.model import ROOT_FILES, process_file
from swapstone.core.wire import (
    AnswerReader,
    ProcessOutcome,
    TrialRequest,
    decode_answers,
    encode_plan_header,
    encode_request,
)
from tests.unit.agent.harness import finish, one, request, run
from tests.unit.agent.test_descriptors import settled, worker_of

# Each argument is a letter, a path, and a colon between them.
PROGRAM = r"""
    #include <errno.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        char buffer[4096];
        for (int i = 1; i < argc; i++) {
            const char *path = argv[i] + 2;
            struct stat status;
            int fd;
            errno = 0;
            if (argv[i][0] == 'r' || argv[i][0] == 'w') {
                fd = open(path, argv[i][0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0644);
                long size = fd < 0 ? -1 : argv[i][0] == 'r' ? read(fd, buffer, sizeof buffer) : write(fd, "new", 3);
                printf("%s %.*s\n", strerror(errno), argv[i][0] == 'r' && size > 0 ? (int)size : 0, buffer);
            } else if (argv[i][0] == 'u') {
                unlink(path);
                puts(strerror(errno));
            } else if (argv[i][0] == 's') {
                if (stat(path, &status))
                    puts(strerror(errno));
                else
                    printf("there %o\n", status.st_mode);
            } else {
                puts(getcwd(buffer, sizeof buffer));
            }
        }
        return 0;
    }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-static", "-O1", "-o", folder / "p", folder / "p.c"], check=True)
    return folder / "p"


@pytest.fixture
def place(tmp_path: Path, program: Path) -> Path:
    """A folder with a root, the mount point of a layer, and files."""
    for name in ("root", "layer", "files", "root/bin", "root/etc"):
        (tmp_path / name).mkdir()
    (tmp_path / "root/bin/p").write_bytes(program.read_bytes())
    (tmp_path / "root/bin/p").chmod(0o755)
    (tmp_path / "root/etc/name").write_text("of the root")
    (tmp_path / "files/name").write_text("of the user")
    return tmp_path


def rooted(place: Path, *arguments: str, **changed: object) -> TrialRequest:
    fields: dict[str, object] = {
        "cwd": "/",
        "root": str(place / "root"),
        "root_layer": str(place / "layer"),
        "root_files": str(place / "files"),
        **changed,
    }
    return request(place, "/bin/p", *arguments, **fields)


# The agent's kinds of mounts, made by other programs: an agent that can't make them is no reason to skip a test.
MOUNTS = """
    mount -t tmpfs none "$1" && mkdir "$1/root" "$1/upper" "$1/work" &&
    mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" none "$1/root" &&
    mkdir "$1/root/proc" "$1/root/sys" && mount --rbind /proc "$1/root/proc" && mount --rbind /sys "$1/root/sys"
"""


def require_mounts(place: Path, *namespaces: str, **user: Any) -> None:
    """Skip the test, with the reason, where a mount namespace or an overlay is not permitted.

    Args:
        place: the fixture.
        namespaces: options of unshare(1).
        user: who makes the mounts: arguments of `subprocess.run`.
    """
    command = ["unshare", *namespaces, "--mount", "sh", "-c", MOUNTS, "sh", str(place / "layer"), str(place / "root")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **user)
    if done.returncode != 0:
        pytest.skip(f"this machine can't: {done.stderr}")


def require_root(place: Path) -> None:
    require_mounts(place, *(() if os.geteuid() == 0 else ("--map-root-user",)))


def lines(agent: Path, asked: TrialRequest) -> list[str]:
    answer = one(agent, asked)
    assert answer.outcome is ProcessOutcome.EXITED, answer.notes
    return [line.strip() for line in answer.stdout.decode().splitlines() if line.strip()]


def test_a_process_finds_its_root_and_its_files(agent: Path, place: Path) -> None:
    require_root(place)
    asked = rooted(place, "r:/etc/name", f"r:{ROOT_FILES}/name", "r:name", "d:", f"s:{place}", cwd=ROOT_FILES)
    found = lines(agent, asked)
    assert found[:4] == ["Success of the root", "Success of the user", "Success of the user", ROOT_FILES]
    assert found[4].startswith("No such file")


def test_what_a_process_writes_is_gone_at_its_end(agent: Path, place: Path) -> None:
    require_root(place)
    asked = rooted(place, "w:/etc/name", "r:/etc/name", "w:/new", "u:/bin/p", "w:/tmp/x", "w:/dev/shm/x")
    assert lines(agent, asked) == ["Success", "Success new", "Success", "Success", "Success", "Success"]
    assert lines(agent, rooted(place, "r:/etc/name", "s:/new", "s:/tmp/x"))[0] == "Success of the root"
    assert sorted(path.name for path in (place / "root").iterdir()) == ["bin", "etc"]
    assert list((place / "layer").iterdir()) == []


def test_files_of_the_user_are_read_only(agent: Path, place: Path) -> None:
    require_root(place)
    assert lines(agent, rooted(place, f"w:{ROOT_FILES}/name", f"u:{ROOT_FILES}/name")) == ["Read-only file system"] * 2
    assert (place / "files/name").read_text() == "of the user"


def test_there_are_devices_and_proc(agent: Path, place: Path) -> None:
    require_root(place)
    found = lines(agent, rooted(place, "w:/dev/null", "r:/proc/self/comm", "s:/sys/kernel", "s:/dev/shm", "s:/dev/sda"))
    assert found[:2] == ["Success", "Success p"]
    assert found[2] == "there 40755"
    assert found[3:] == ["there 41777", "No such file or directory"]


def test_the_process_is_observed_by_paths_in_its_root(agent: Path, place: Path) -> None:
    require_root(place)
    answer = one(agent, rooted(place, observe=(process_file("mountinfo"),)))
    (mapped,) = answer.objects
    # From within a chroot, the kernel shows a path that is not below that root from the root of the mount namespace.
    assert mapped.endswith("/bin/p") and str(place) not in mapped
    ((_, mounts),) = answer.observed
    (line,) = [line for line in mounts.splitlines() if line.split()[4] == "/"]
    assert f"lowerdir={place / 'root'}," in line


def test_standard_input_and_output_are_files_outside(agent: Path, place: Path) -> None:
    require_root(place)
    answer = one(agent, rooted(place, "d:", stdout=str(place / "out")))
    assert answer.outcome is ProcessOutcome.EXITED
    assert (place / "out").read_text() == "/\n"


def test_without_a_layer_the_root_itself_is_written(agent: Path, place: Path) -> None:
    require_root(place)
    assert lines(agent, rooted(place, "w:/new", root_layer="")) == ["Success"]
    assert (place / "root/new").read_text() == "new"


def test_no_trial_leaves_a_descriptor_of_its_namespace(agent: Path, place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can list the descriptors of the agent")
    require_root(place)
    process = subprocess.Popen([agent, "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    reader = AnswerReader()
    process.stdin.write(encode_plan_header())
    try:
        found = []
        for _ in range(3):
            process.stdin.write(encode_request(rooted(place)))
            process.stdin.flush()
            while not (answers := reader.feed(process.stdout.readline())):
                pass
            assert answers[0].outcome is ProcessOutcome.EXITED
            found.append(settled(worker_of(process.pid)))
        assert found[1] == found[2]
    finally:
        finish(process)


NOBODY = 65534


def test_a_user_without_privilege_has_a_root(agent: Path, place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this test starts the agent as another user, which needs root")
    require_root(place)
    with tempfile.TemporaryDirectory() as name:  # pytest's folders are private
        public = Path(name)
        shutil.copytree(place, public, dirs_exist_ok=True)
        shutil.copy(agent, public / "agent")
        for path in (public, *public.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        require_mounts(public, "--map-root-user", **nobody)
        plan = encode_plan_header() + encode_request(rooted(public, "w:/etc/name", "r:/etc/name", "w:/swapstone/name"))
        result = subprocess.run(
            [public / "agent", "-"],
            input=plan,
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
            process_group=0,
            **nobody,
        )
    (answer,) = decode_answers(result.stdout)
    assert answer.stdout == b"Success \nSuccess new\nRead-only file system \n"
    assert answer.objects == ("/bin/p",)


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"root": "{place}/none"}, "could not mount its root file system"),
        ({"root_layer": "{place}/none"}, "could not mount its root file system"),
        ({"root_files": "{place}/none"}, "could not mount its files in its root file system"),
        ({"cwd": "/none"}, "could not enter its folder"),
        ({"arguments": ("/bin/missing",)}, "could not execute it"),
    ],
)
def test_a_step_that_fails_is_named(agent: Path, place: Path, changed: dict[str, Any], note: str) -> None:
    require_root(place)
    paths = {name: value.format(place=place) if isinstance(value, str) else value for name, value in changed.items()}
    answer = one(agent, msgspec.structs.replace(rooted(place), **paths))
    assert answer.outcome is ProcessOutcome.UNSTARTED
    assert answer.code == errno.ENOENT
    assert answer.notes == (note,)


def test_the_next_trial_has_the_root_of_the_agent(agent: Path, place: Path) -> None:
    require_root(place)
    inside, outside = run(agent, rooted(place, "s:/etc/name"), request(place, place / "root/bin/p", f"s:{place}"))
    assert inside.stdout.startswith(b"there")
    assert outside.stdout.startswith(b"there")
    assert outside.objects == (str(place / "root/bin/p"),)
