# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/trace-accesses: what it reads from strace, and that an access without a reason is an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.trace_accesses import (
    BEGIN,
    END,
    JOBS,
    NETWORK,
    PAGE,
    PRIVILEGED,
    TITLES,
    WRITE,
    Access,
    Reason,
    accesses,
    explained,
    generalised,
    main,
    read_reasons,
    tables,
)

from tests.programs import needs

PARENT = r"""execve("/bin/sh", ["sh", "-c", "x"], 0x5581 /* 35 vars */) = 0
openat(AT_FDCWD</work>, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3</etc/ld.so.cache>
openat(AT_FDCWD</work>, "log", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3</real/log>
openat(AT_FDCWD</work>, "absent/x", O_WRONLY|O_CREAT, 0666) = -1 ENOENT (No such file or directory)
openat(AT_FDCWD</work>, "/tmp", O_RDWR|O_EXCL|O_TMPFILE, 0600) = 3</tmp/#123 (deleted)>
chdir("sub") = 0
clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 12
clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 13
chdir("/elsewhere") = 0
rename("a\303\251", "../b") = 0
unlinkat(5</dir>, "c d", 0) = 0
utimensat(0</dir/touched>, NULL, NULL, 0) = 0
symlink("/target/is/not/written", "link") = 0
mount("proc", "/proc", "proc", 0, NULL) = -1 EPERM (Operation not permitted)
+++ exited with 0 +++
"""
CHILD = r"""mkdir("made", 0777) = 0
connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("192.0.2.7")}, 16) = -1 EINPROGRESS (now)
connect(3<socket:[1]>, {sa_family=AF_INET6, sin6_port=htons(53), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0
connect(3<socket:[1]>, {sa_family=AF_UNIX, sun_path="/run/nscd/socket"}, 110) = -1 ENOENT (No such file or directory)
sendto(4<socket:[2]>, [{nlmsg_len=20}], 20, 0, {sa_family=AF_NETLINK, nl_pid=0, nl_groups=00000000}, 12) = 20
sendto(3<socket:[1]>, "x", 1, 0, NULL, 0) = 1
execve("/usr/bin/sudo", ["sudo", "-n", "true"], 0x5581 /* 35 vars */) = 0
"""


def test_accesses_are_read_with_the_current_folder_of_each_process(tmp_path: Path) -> None:
    (tmp_path / "trace.11").write_text(PARENT)
    (tmp_path / "trace.12").write_text(CHILD)
    (tmp_path / "trace.13").write_text("perf_event_open({type=PERF_TYPE_HARDWARE}, 0, -1, -1, 0) = 4<anon_inode:x>\n")
    assert list(accesses(tmp_path, 11, "/work")) == [
        Access(WRITE, "/real/log"),
        Access(WRITE, "/tmp"),
        Access(WRITE, "/elsewhere/aé"),
        Access(WRITE, "/b"),
        Access(WRITE, "/dir/c d"),
        Access(WRITE, "/dir/touched"),
        Access(WRITE, "/elsewhere/link"),
        Access(WRITE, "/work/sub/made"),
        Access(NETWORK, "192.0.2.7 port 443"),
        Access(NETWORK, "::1 port 53"),
        Access(NETWORK, "unix /run/nscd/socket"),
        Access(NETWORK, "netlink"),
        Access(PRIVILEGED, "execve sudo"),
        Access(PRIVILEGED, "perf_event_open"),
    ]


def test_an_access_without_a_reason_is_kept_apart() -> None:
    places = {"folder": "/t", "record": "/t/records/r", "home": "/root"}
    seen = {
        generalised(Access(WRITE, "/t/records/r/runs.jsonl"), places): {"compare"},
        generalised(Access(WRITE, "/root/.bashrc"), places): {"report"},
        generalised(Access(WRITE, "/tx"), places): {"report"},
    }
    reasons = (Reason(WRITE, "{record}/*", "the record"), Reason(NETWORK, "*", "not of this kind"))
    used, unknown = explained(seen, reasons)
    assert used == {reasons[0]: {"compare"}}
    assert unknown == {Access(WRITE, "{home}/.bashrc"): {"report"}, Access(WRITE, "/tx"): {"report"}}
    assert "| `{record}/*` | the record | compare |" in tables(used, reasons)
    assert "| `*` | not of this kind | not traced |" in tables(used, reasons)


def test_every_reason_is_a_sentence_of_its_own_and_on_the_page() -> None:
    reasons = read_reasons()
    assert {one.kind for one in reasons} == set(TITLES)
    assert len({(one.kind, one.pattern) for one in reasons}) == len(reasons)
    page = PAGE.read_text()
    listed = page[page.index(BEGIN) : page.index(END)]
    rows = [line.rpartition(" | ")[0] for line in listed.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{one.pattern}` | {one.reason}" for kind in TITLES for one in reasons if one.kind == kind], (
        "run tools/trace-accesses --write-docs"
    )
    assert all("not traced" not in line for line in listed.splitlines() if line.startswith("| `{record}"))


@needs("strace")
def test_a_command_is_traced_and_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if subprocess.run(["strace", "-qq", "-o", tmp_path / "x", "true"], check=False).returncode != 0:
        pytest.skip("this machine does not allow tracing")
    assert JOBS[0].name == "list"
    status = main(["--jobs", "list"])
    printed = capsys.readouterr()
    assert (status, "no reason" in printed.out) == (0, False), printed
    (tmp_path / "reasons.toml").write_text('[[access]]\nkind = "network"\npattern = "*"\nreason = "x"\n')
    monkeypatch.setattr("tools.trace_accesses.read_reasons", lambda: read_reasons(tmp_path / "reasons.toml"))
    monkeypatch.setattr("tools.trace_accesses.JOBS", (JOBS[0].__class__("touch", ("touch", "{folder}/new")),))
    assert main([]) == 1
    assert "no reason: write: {folder}/new (touch)\n" in capsys.readouterr().out
