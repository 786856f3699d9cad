# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boards: trials, files, the lock and lost connections, with a program in ssh's place that runs the commands here."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.targets import AgentStartError, MachineConfig, SettledFile, TargetError, agent_build, parse_target
from swapstone.core.wire import ProcessOutcome, TrialRequest
from swapstone.parts.boards.targets import board_scripts
from swapstone.parts.boards.targets import ssh_target as module
from swapstone.parts.boards.targets.board import BoardAnswer, BoardFolder, clean_board
from swapstone.parts.boards.targets.ssh_connection import ANSWER_S, SshConnection
from swapstone.parts.boards.targets.ssh_target import SshSpec, SshTarget
from tests.fake_ssh import FakeSsh

PLACE = BoardFolder(host="board", user="me", port=2222)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    found = FakeSsh(tmp_path / "board")
    monkeypatch.setenv("PATH", found.path)
    return found


@pytest.fixture
def target(ssh: FakeSsh) -> Iterator[SshTarget]:
    with SshTarget(PLACE) as found:
        yield found


def asked(target: SshTarget, *arguments: str, trial: str = "1-0") -> TrialRequest:
    return TrialRequest(
        id=trial, arguments=arguments, environment=(("LC_ALL", "C"),), cwd=target.scratch(), timeout_ms=20_000
    )


def test_a_trial_finds_an_empty_folder_and_its_own_environment_only(target: SshTarget) -> None:
    first = target.run(asked(target, "/bin/sh", "-c", "mkdir d; touch d/f; chmod 0 d; env; pwd"))
    assert first.outcome is ProcessOutcome.EXITED
    assert first.stdout.decode().splitlines() == ["LC_ALL=C", f"PWD={target.scratch()}", target.scratch()]
    again = target.run(asked(target, "/bin/sh", "-c", "echo *", trial="1-1"))
    assert again.stdout == b"*\n"
    assert "reconnects" not in dict(again.facts)


def test_the_description_is_that_of_the_board(target: SshTarget) -> None:
    found = target.describe()
    assert found.kernel.split()[:2] == [os.uname().sysname, os.uname().release]
    assert found.architecture == target.architecture == os.uname().machine
    assert set(found.cpus) == os.sched_getaffinity(0)
    assert dict(target.tools())["board"].startswith("me@board:2222, folder ")


def test_the_users_configuration_decides_and_host_keys_are_checked(target: SshTarget, ssh: FakeSsh) -> None:
    target.run(asked(target, "/bin/true"))
    calls = ssh.called().split("-o\nBatchMode=yes\n")[1:]
    assert len(calls) >= 3  # the shell, a copy, the agent
    for words in calls:
        assert "StrictHostKeyChecking=yes\n" in words
        assert "\n-p\n2222\n-l\nme\n" in words
        assert "\n--\nboard\n" in words
    assert sum("ControlMaster=yes" in words for words in calls) == 1
    assert "KnownHosts" not in ssh.called()


@pytest.mark.slow
def test_files_go_over_once_and_are_found_again_by_content(ssh: FakeSsh, tmp_path: Path) -> None:
    programs = [tmp_path / name / "program" for name in ("a", "b")]
    for number, path in enumerate(programs):
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho {number}\n")
        path.chmod(0o755)
    with SshTarget(PLACE) as target:
        places = [target.put(path) for path in programs]
        assert len(set(places)) == 2 and len({len(place) for place in places}) == 1
        assert target.run(asked(target, places[1])).stdout == b"1\n"
        assert stat.S_IMODE(Path(places[0]).stat().st_mode) == 0o700
    copies = ssh.called().count("cat >")
    with SshTarget(PLACE) as target:
        assert [target.put(path) for path in programs] == places
        target.run(asked(target, places[0]))
    assert ssh.called().count("cat >") == copies
    Path(places[0]).write_text("#!/bin/sh\necho changed\n")
    with SshTarget(PLACE) as target:
        target.put(programs[0])
        assert target.run(asked(target, places[0])).stdout == b"0\n"
    assert ssh.called().count("cat >") == copies + 1


def test_files_beside_a_program_are_beside_it_on_the_board(ssh: FakeSsh, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / "program").write_text('#!/bin/sh\ncat "${0%/*}/data.so"\n')
        (folder / "program").chmod(0o755)
        (folder / "data.so").write_text(f"of {folder.name}\n")
        (folder / "other").write_text("not named\n")
    with SshTarget(PLACE) as target:
        places = [target.put(folder / "program", (folder / "data.so",)) for folder in folders]
        assert len(set(places)) == 2 and len({len(place) for place in places}) == 1
        outputs = [target.run(asked(target, place)).stdout for place in places]
        assert outputs == [b"of a\n", b"of b\n"]
        assert sorted(path.name for path in Path(places[0]).parent.iterdir()) == ["data.so", "program"]
        copies = ssh.called().count("cat >")
        assert target.put(folders[0] / "program", (folders[0] / "data.so",)) == places[0]
        assert ssh.called().count("cat >") == copies


def test_a_file_that_was_copied_is_written_once_more_with_the_same_content(
    target: SshTarget,
) -> None:
    """So that files of earlier sessions, and those that ssh brought in other pieces, lie in the page cache alike."""
    place, content = Path(target.put(Path("/bin/true"))), Path("/bin/true").read_bytes()
    before = place.stat()
    found = target.settle(str(place))
    assert found == SettledFile(hashlib.sha256(content).hexdigest(), len(content), "")
    after = place.stat()
    assert after.st_ino != before.st_ino and after.st_mode == before.st_mode
    assert place.read_bytes() == content
    assert [each.name for each in place.parent.iterdir()] == [place.name]
    assert target.run(asked(target, str(place))).outcome is ProcessOutcome.EXITED
    assert target.settle("/bin/sh") is None, "a file of the board, which all variants share"


@pytest.mark.parametrize(
    ("cat", "reason"),
    [
        ("echo No space left >&2; return 1", "it could not be written anew there: No space left"),
        ('head -c 99 "$1"', "it could not be written anew there: its content was another one then"),
    ],
)
def test_a_file_that_can_t_be_written_once_more_stays_as_it_is(target: SshTarget, cat: str, reason: str) -> None:
    place, content = Path(target.put(Path("/bin/true"))), Path("/bin/true").read_bytes()
    target.board.ask(f"cat() {{ {cat}; }}")
    found = target.settle(str(place))
    assert found is not None and found.kept == reason
    assert place.read_bytes() == content
    assert [each.name for each in place.parent.iterdir()] == [place.name]


def test_a_copy_for_a_null_comparison_has_an_equally_long_path_and_the_same_files_beside_it(
    target: SshTarget, tmp_path: Path
) -> None:
    (tmp_path / "data.so").write_text("beside\n")
    (tmp_path / "program").write_text('#!/bin/sh\ncat "${0%/*}/data.so"\n')
    (tmp_path / "program").chmod(0o755)
    alone, with_data = target.put(Path("/bin/true")), target.put(tmp_path / "program", (tmp_path / "data.so",))
    for place in (alone, with_data):
        copy = target.copied(place)
        assert copy != place and len(copy) == len(place)
        assert Path(copy).read_bytes() == Path(place).read_bytes()
        facts = target.inspect(place)
        assert target.inspect(copy) == (msgspec.structs.replace(facts, path=copy) if facts else None)
    assert target.run(asked(target, copy)).stdout == b"beside\n"
    assert target.copied("/bin/sh") == ""


def test_without_sha256sum_files_are_read_back(ssh: FakeSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("cat", "chmod", "dd", "df", "env", "id", "mkdir", "mv", "rm", "sh", "sleep", "uname"):
        (few / name).symlink_to(str(shutil.which(name)))
    script = (ssh.bin / "ssh").read_text().replace('exec /bin/sh -c "$*"', f'PATH={few} exec /bin/sh -c "$*"')
    (ssh.bin / "ssh").write_text(script)
    with SshTarget(PLACE) as target:
        place = target.put(Path("/bin/true"))
        assert Path(place).read_bytes() == Path("/bin/true").read_bytes()
        assert target.run(asked(target, place)).outcome is ProcessOutcome.EXITED
        Path(place).write_bytes(b"other")
        assert not target.board.has_file(place, Path("/bin/true").read_bytes())


def test_one_user_at_a_time_and_dead_locks_are_ignored(ssh: FakeSsh) -> None:
    stale = ssh.folder / "swapstone-board-lock-1-999999999999"
    stale.write_text("x user@elsewhere\n")
    with SshTarget(PLACE) as target:
        assert not stale.exists()
        target.run(asked(target, "/bin/true"))
        with pytest.raises(UserError, match=r"in use by .*@") as raised:
            SshTarget(PLACE)
        assert "kill" in raised.value.hint
        with pytest.raises(UserError, match="in use by"):
            clean_board(PLACE)
        assert target.run(asked(target, "/bin/true", trial="1-1")).outcome is ProcessOutcome.EXITED
        assert Path(target.scratch()).is_dir()
    assert not list(ssh.folder.glob("swapstone-board-lock-*"))
    assert not list(ssh.board.glob("scratch-*"))
    SshTarget(PLACE).close()


def test_clean_removes_what_was_copied(ssh: FakeSsh) -> None:
    with SshTarget(PLACE) as target:
        target.put(Path("/bin/true"))
    assert ssh.board.is_dir()
    folder, kib = clean_board(PLACE)
    assert folder == str(ssh.board) and kib
    assert not ssh.board.exists()
    assert clean_board(PLACE) == (str(ssh.board), None)


def test_sensors_are_read_before_a_trial_and_at_its_end(ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/proc/sys/kernel/ostype"
    for each in (board_scripts, module):
        monkeypatch.setattr(each, "SENSORS", (path,))

    def facts(files: Mapping[str, bytes], when: str) -> dict[str, int]:
        return {f"board_{when}": int(files.get(path, b"").strip() == b"Linux")}

    monkeypatch.setattr(module, "sensor_facts", facts)
    with SshTarget(PLACE) as target:
        answer = target.run(asked(target, "/bin/true"))
    found = dict(answer.facts)
    assert (found["board_before"], found["board_after"]) == (1, 1)
    assert answer.observed == () and answer.absent == ()  # factors find what they observe, and nothing else


def cut_during(ssh: FakeSsh, started: Path) -> threading.Thread:
    """End the connection once a trial has created a file."""

    def wait() -> None:
        while not started.exists():
            time.sleep(0.01)
        ssh.cut()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_after_a_lost_connection_the_trial_is_made_again_and_the_answer_states_it(
    target: SshTarget, ssh: FakeSsh, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    # The first time it waits to be killed.
    script = f'echo $$ >>{log}; [ "$(wc -l <{log})" = 1 ] && exec sleep 60; echo done'
    cutter = cut_during(ssh, log)
    answer = target.run(asked(target, "/bin/sh", "-c", script))
    cutter.join()
    assert answer.stdout == b"done\n"
    assert dict(answer.facts)["reconnects"] == 1
    assert "board_boots" not in dict(answer.facts)
    first, second = map(int, log.read_text().split())
    assert first != second and not Path(f"/proc/{first}").exists()
    assert "reconnects" not in dict(target.run(asked(target, "/bin/true", trial="1-1")).facts)
    assert len(list(ssh.folder.glob("swapstone-board-lock-*"))) == 1


def test_a_connection_that_ends_between_trials_is_made_again(target: SshTarget, ssh: FakeSsh) -> None:
    target.run(asked(target, "/bin/true"))
    place = Path(target.put(Path("/bin/true")))
    ssh.cut()
    place.unlink()
    answer = target.run(asked(target, str(place), trial="1-1"))
    assert (answer.outcome, dict(answer.facts)["reconnects"]) == (ProcessOutcome.EXITED, 1)


def test_a_long_path_of_temporary_files_is_too_long_for_a_socket_only(
    ssh: FakeSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("t" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with SshTarget(PLACE) as target:
        folder = target.board.connection.folder
        assert folder.parent == Path("/tmp") and stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert target.run(asked(target, "/bin/true")).outcome is ProcessOutcome.EXITED
    assert not folder.exists() and not list(long.iterdir())


def test_the_socket_of_a_killed_ssh_is_removed(target: SshTarget, ssh: FakeSsh) -> None:
    socket = target.board.connection.folder / "s"
    socket.touch()
    ssh.cut()
    assert dict(target.run(asked(target, "/bin/true")).facts)["reconnects"] == 1
    assert not socket.exists()


@pytest.mark.slow
def test_a_trial_that_always_cuts_the_connection_fails(target: SshTarget, ssh: FakeSsh) -> None:
    pids = f"{ssh.folder}/pids"
    kill = f"pids=$(cat {pids}); : >{pids}; kill -9 $pids; sleep 60"
    with pytest.raises(TargetError, match="ended 3 times during this trial"):
        target.run(asked(target, "/bin/sh", "-c", kill))
    assert target.run(asked(target, "/bin/true", trial="1-1")).outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize("step_ns", [3_600_000_000_000, -7_200_000_000_000])
def test_a_clock_that_is_set_on_the_board_during_a_trial_is_a_fact(
    ssh: FakeSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """The board's agent is compiled with another reading of CLOCK_REALTIME: each is a step later than it should be."""
    sources = []
    for path in agent_build.agent_sources():
        copy = tmp_path / "native" / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        text, reading = path.read_text(), "read_clock(CLOCK_REALTIME_ID)"
        assert (reading in text) == (path.name == "linux.c")
        later = f"({reading} + {step_ns}LL * readings++)"
        copy.write_text(f"static long long readings;\n{text}".replace(reading, later) if reading in text else text)
        sources.append(copy)
    monkeypatch.setattr(agent_build, "agent_sources", lambda: tuple(sources))
    with SshTarget(PLACE) as target:
        steps = [dict(target.run(asked(target, "/bin/true", trial=f"1-{n}")).facts)["clock_step_ns"] for n in (0, 1)]
    assert all(0.9 < step / step_ns <= 1 for step in steps)


def limits(ssh: FakeSsh) -> list[int]:
    """Return how many questions of ssh each connection leaves unanswered before it counts as lost."""
    calls = ssh.called().split("-o\nBatchMode=yes\n")[1:]
    found = []
    for words in calls:
        if "ControlMaster=yes" in words:
            assert "ServerAliveInterval=5\n" in words
            found.append(int(words.partition("ServerAliveCountMax=")[2].split("\n")[0]))
    return found


def test_a_real_time_trial_may_keep_the_ssh_server_from_answering(target: SshTarget, ssh: FakeSsh) -> None:
    """The limit of the connection follows the trial's own limit, from the first such trial on, and no connection counts as lost."""
    answers = [target.run(asked(target, "/bin/true"))]
    assert limits(ssh) == [3]
    for number in (1, 2):
        answers.append(target.run(asked(target, "/bin/true", trial=f"1-{number}"), MachineConfig(real_time=True)))
    assert limits(ssh) == [3, (20 + 15) // 5]
    answers.append(target.run(asked(target, "/bin/true", trial="1-3")))
    longer = msgspec.structs.replace(asked(target, "/bin/true", trial="1-4"), timeout_ms=100_000)
    answers.append(target.run(longer, MachineConfig(real_time=True)))
    assert limits(ssh) == [3, 7, 23]
    assert all(answer.outcome is ProcessOutcome.EXITED for answer in answers)
    assert not any({"reconnects", "board_boots"} & dict(answer.facts).keys() for answer in answers)
    assert len(list(ssh.folder.glob("swapstone-board-lock-*"))) == 1


def test_a_board_that_is_gone_before_a_real_time_trial_is_awaited(
    target: SshTarget, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target.describe().kernel
    monkeypatch.setattr(module, "RECONNECT_S", 0.1)
    (ssh.folder / "down").touch()
    with pytest.raises(AgentStartError, match="can't be made again"):
        target.run(asked(target, "/bin/true"), MachineConfig(real_time=True))


@pytest.mark.slow
def test_a_real_time_trial_that_ends_the_connection_names_the_priority(target: SshTarget, ssh: FakeSsh) -> None:
    pids = f"{ssh.folder}/pids"
    kill = f"pids=$(cat {pids}); : >{pids}; kill -9 $pids; sleep 60"
    with pytest.raises(TargetError, match="ended 3 times during this trial") as caught:
        target.run(asked(target, "/bin/sh", "-c", kill), MachineConfig(real_time=True))
    runtime = Path("/proc/sys/kernel/sched_rt_runtime_us")
    known = runtime.read_text().strip() if runtime.exists() else "unknown"
    assert f"sched_rt_period_us; it is {known}. Compare a lower priority" in caught.value.hint


def test_a_reboot_is_counted(target: SshTarget, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch) -> None:
    target.run(asked(target, "/bin/true"))
    monkeypatch.setattr(BoardAnswer, "boot", "another")
    ssh.cut()
    assert dict(target.run(asked(target, "/bin/true", trial="1-1")).facts)["board_boots"] == 1
    facts = dict(target.run(asked(target, "/bin/true", trial="1-2")).facts)
    assert facts["board_boots"] == 1 and "reconnects" not in facts


def test_a_board_that_stays_away_or_changes_ends_the_session(
    target: SshTarget, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target.describe().kernel
    monkeypatch.setattr(module, "RECONNECT_S", 0.1)
    (ssh.folder / "down").touch()
    ssh.cut()
    with pytest.raises(AgentStartError, match=r"can't be made again: me@board:2222 can't be reached.*refused"):
        target.run(asked(target, "/bin/true"))
    (ssh.folder / "down").unlink()
    monkeypatch.setattr(module, "cpus_of", lambda _: (0, 77))
    with pytest.raises(AgentStartError, match="another machine"):
        target.run(asked(target, "/bin/true"))


def test_an_agent_that_ends_while_the_connection_lasts_is_the_targets_failure(target: SshTarget) -> None:
    with pytest.raises(TargetError, match="ended"):
        target.run(asked(target, "/bin/sh", "-c", "kill -9 $PPID; sleep 60"))
    assert target.run(asked(target, "/bin/true", trial="1-1")).outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize(
    ("rest", "message", "hint"),
    [
        ("echo 'Host key verification failed.' >&2; exit 255", "Host key verification failed", "ssh -p 2222 me@board"),
        ("echo 'me@board: Permission denied (publickey,password).' >&2; exit 255", "Permission denied", "ssh-copy-id"),
        ("exit 0", "without a message", "BatchMode"),
    ],
)
def test_a_board_that_can_t_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, message: str, hint: str
) -> None:
    monkeypatch.setenv("PATH", FakeSsh(tmp_path / "b", rest).path)
    with pytest.raises(UnavailableError, match=message) as raised:
        SshTarget(PLACE)
    assert hint in raised.value.hint


def test_a_login_shell_that_prints_before_each_command_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text would be taken for output of the agent."""
    ssh = FakeSsh(tmp_path / "b", 'echo Welcome; exec /bin/sh -c "$*"')
    monkeypatch.setenv("PATH", ssh.path)
    with pytest.raises(UnavailableError, match=r"prints text before each command, here 'Welcome'\.") as raised:
        SshTarget(PLACE)
    assert raised.value.hint.endswith("This must print nothing: ssh -p 2222 me@board true")
    assert not list(ssh.folder.glob("swapstone-board-lock-*"))


def test_a_server_that_allows_one_session_is_named_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "echo 'mux_client_request_session: session request failed: Session open refused by peer' >&2; exit 255"
    rest = f'case "$*" in *"/bin/sh -s") exec /bin/sh -c "$*" ;; esac; {refused}'
    monkeypatch.setenv("PATH", FakeSsh(tmp_path / "b", rest).path)
    with pytest.raises(UnavailableError, match="refuses a second session of a connection") as raised:
        SshTarget(PLACE)
    assert "MaxSessions 10" in raised.value.hint


def test_an_account_without_a_shell_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /usr/sbin/nologin, which prints its sentence as output."""
    monkeypatch.setenv("PATH", FakeSsh(tmp_path / "b", "echo This account is not available.; exit 1").path)
    with pytest.raises(UnavailableError, match=r"ended the session: This account is not available\.") as raised:
        SshTarget(PLACE)
    assert "This must print yes: ssh -o BatchMode=yes -p 2222 me@board echo yes" in raised.value.hint


def test_the_login_shell_need_not_be_posix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are a single word of quotes after ``exec /bin/sh``, as csh and fish understand it; fish refuses ``$$`` outside quotes."""
    shell = tmp_path / "shell"
    unquoted = "printf '%s' \"$2\" | sed \"s/'[^']*'//g\""
    shell.write_text(
        f'#!/bin/sh\ncase $({unquoted}) in *[\\$\\&\\;]*) echo "no syntax of this shell: $2" >&2; exit 127 ;; esac\n'
        'exec /bin/sh -c "$2"\n'
    )
    shell.chmod(0o755)
    monkeypatch.setenv("PATH", FakeSsh(tmp_path / "b", f'exec {shell} -c "$*"').path)
    with SshTarget(PLACE) as target:
        answer = target.run(asked(target, target.put(Path("/bin/true"))))
        assert answer.outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("ssh://pi@board", "Leave out the slashes. For example: --target ssh:pi@board.example"),
        ("ssh:pi@fe80::1", "An IPv6 address is written in brackets, as [fe80::1%eth0]. For example: "),
        ("ssh:DOMAIN\\me@board:22", "belongs into ~/.ssh/config, as User of a Host. For example: "),
        ("ssh:board:", "For example: "),
    ],
)
def test_an_address_of_another_form_has_the_form_that_is_meant(text: str, remark: str) -> None:
    with pytest.raises(UserError, match="names no board") as raised:
        parse_target(text)
    assert remark in raised.value.hint


def test_an_address_of_one_link_has_the_name_of_its_interface() -> None:
    found = parse_target("ssh:pi@[fe80::1%eth0]:2222")
    assert isinstance(found, SshSpec)
    assert (found.place.host, found.place.words) == ("[fe80::1%eth0]", "-p 2222 pi@fe80::1%eth0")


def test_a_slow_link_has_time_for_a_large_file(
    target: SshTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 1 MiB may take four minutes more than a short answer, here and back."""
    limits: list[float] = []
    read = SshConnection._read

    def noted(self: SshConnection, *words: Any, **named: Any) -> tuple[bytes, bytes]:
        limits.append(ANSWER_S + named.get("beside_s", 0.0))
        return read(self, *words, **named)

    monkeypatch.setattr(SshConnection, "_read", noted)
    large = tmp_path / "large"
    large.write_bytes(bytes(1 << 20))
    large.chmod(0o755)
    target.put(large)
    assert ANSWER_S + 256 in limits and ANSWER_S in limits
    target.board.connection.call("true", most_bytes=(1 << 20) + (16 << 10))
    assert limits[-1] == ANSWER_S + 256


@pytest.mark.slow
def test_a_board_that_reboots_in_a_loop_fails_its_trial_and_the_error_states_it(
    target: SshTarget, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = iter(f"boot-{number}" for number in range(100))
    monkeypatch.setattr(BoardAnswer, "boot", property(lambda _: next(boots)))
    pids = f"{ssh.folder}/pids"
    kill = f"pids=$(cat {pids}); : >{pids}; kill -9 $pids; sleep 60"
    with pytest.raises(TargetError, match=r"ended 3 times during this trial, and the board rebooted 3 times\."):
        target.run(asked(target, "/bin/sh", "-c", kill))


def test_a_folder_that_can_t_be_written_is_refused_with_the_next_step(ssh: FakeSsh) -> None:
    with pytest.raises(UnavailableError, match="/proc/none") as raised:
        SshTarget(BoardFolder(host="board", folder="/proc/none"))
    assert "--target ssh:board,folder=/path" in raised.value.hint


def test_the_target_s_text() -> None:
    assert parse_target("ssh:pi@board:22,folder=/data/s") == SshSpec(
        place=BoardFolder(host="board", user="pi", port=22, folder="/data/s")
    )
    for text in (
        "ssh:",
        "ssh:-oProxyCommand=x",
        "ssh:a b",
        "ssh:board,folder=x",
        "ssh:board,folder=/a/../b",
        "ssh:b,x=/y",
        "ssh:[fe80::1%a b]",
    ):
        with pytest.raises(UserError, match="names no board"):
            parse_target(text)
