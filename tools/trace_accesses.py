# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run Swapstone's commands under strace, and list each privileged call, each write outside a record, and each network access.

    tools/trace-accesses [--jobs NAME,...] [--write-docs]

The cache is empty at the beginning, so that everything is fetched and built. tools/accesses.toml has a reason for each access. One
without a reason is printed, and the exit status is 1. The accesses of all child processes count: compilers, emulators, package managers,
programs under test. --write-docs renews the tables of docs/security-accesses.md.

A call that fails is left out, except for connections. The agent cannot trace a program that strace traces already, so trials on the
host are refused here; what they access up to that is listed. Later jobs read a record that was made without strace.
Operations of io_uring are not listed.
"""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.fake_ssh import FakeSsh

TOP = Path(__file__).resolve().parents[1]
REASONS = TOP / "tools" / "accesses.toml"
PAGE = TOP / "docs" / "security-accesses.md"
BEGIN, END = "<!-- tools/trace-accesses: begin -->", "<!-- tools/trace-accesses: end -->"

WRITE, NETWORK, PRIVILEGED = "write", "network", "privileged"
TITLES = {
    PRIVILEGED: "Privileged calls and programs",
    WRITE: "Writes",
    NETWORK: "Sockets",
}

_PATHS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("open", "openat", "openat2", "creat", "truncate", "chdir", "execve", "execveat"), (0,)),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod", "mknodat"), (0,)),
    **dict.fromkeys(
        ("chmod", "fchmodat", "chown", "lchown", "fchownat", "utime", "utimes", "utimensat", "setxattr"), (0,)
    ),
    **dict.fromkeys(("rename", "renameat", "renameat2"), (0, 1)),
    **dict.fromkeys(("link", "linkat", "symlink", "symlinkat"), (1,)),
}
"""Which of a call's texts are paths that it changes, opens or enters."""

_OPENS = ("open", "openat", "openat2", "creat")
_STARTS = ("clone", "clone3", "fork", "vfork")
_SOCKETS = ("connect", "sendto", "sendmsg", "sendmmsg")
_RIGHTS = (
    *("mount", "umount2", "chroot", "pivot_root", "unshare", "setns", "init_module", "finit_module", "perf_event_open"),
    *("bpf", "ptrace", "swapon", "swapoff", "reboot", "sethostname", "setuid", "setgid", "setresuid", "setresgid"),
)
"""Calls that need a privilege, or that a system may restrict."""

_PROGRAMS = (
    "sudo",
    "su",
    "doas",
    "pkexec",
    "apt-get",
    "ip",
    "mount",
    "umount",
    "insmod",
    "modprobe",
    "unshare",
    "nsenter",
    "setpriv",
)
"""Programs that exist to use a privilege; besides these, all with the set-user-ID bit."""

_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+|\?|0x[0-9a-f]+)(?P<rest>.*)")
_TEXT = re.compile(r'(?:(?:AT_FDCWD|-?\d+)<(?P<folder>[^>]*)>, )?"(?P<path>(?:[^"\\]|\\.)*)"')
_OPENED = re.compile(r"<(?P<path>/[^>]*?)(?: \(deleted\))?>")
_CHANGES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_FAMILY = re.compile(r"sa_family=AF_(?P<family>\w+)")
_ADDRESS = re.compile(
    r'sin_port=htons\((?P<port>\d+)\), sin_addr=inet_addr\("(?P<address>[^"]+)"\)'
    r'|sin6_port=htons\((?P<port6>\d+)\).*?inet_pton\(AF_INET6, "(?P<address6>[^"]+)"'
)
_SOCKET_PATH = re.compile(r'sun_path=@?"(?P<path>[^"]*)"')


@dataclasses.dataclass(frozen=True, order=True)
class Access:
    """An access of a process.

    Attributes:
        kind: ``write``, ``network`` or ``privileged``.
        place: path, address or call, with the placeholders of `Places`.
    """

    kind: str
    place: str


@dataclasses.dataclass(frozen=True)
class Reason:
    """An entry of tools/accesses.toml.

    Attributes:
        kind: see `Access`.
        pattern: of places, as for fnmatch.
        reason: why.
        traced: false for an access that needs a machine or an option that the traced jobs don't have.
    """

    kind: str
    pattern: str
    reason: str
    traced: bool = True


@dataclasses.dataclass(frozen=True)
class Job:
    """A command to trace.

    Attributes:
        name: for the table.
        command: with the placeholders ``{record}``, ``{folder}`` and ``{top}``.
        expect: allowed exit statuses.
        traced: false for one that only makes what later jobs read.
    """

    name: str
    command: tuple[str, ...]
    expect: tuple[int, ...] = (0,)
    traced: bool = True


def _job(name: str, line: str, *expect: int) -> Job:
    return Job(name, tuple(shlex.split(line)), expect or (0,))


_COMPARE = "{top}/swapstone compare libc=glibc,musl --only b_string_strlen --blocks"
_BOARD = "PATH={folder}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""With a program in ssh's place that runs the board's commands on this machine: ssh's own accesses are not Swapstone's."""
JOBS: tuple[Job, ...] = (
    _job("list", "{top}/swapstone list factors"),
    _job("doctor", "{top}/swapstone doctor", 0, 2),
    _job("compare", f"{_COMPARE} 3", 0, 4),
    _job(
        "compare --build",
        "{top}/swapstone compare libc=glibc,musl --blocks 3 --source {folder}/src --build"
        " '{{cc}} {{cflags}} x.c -o x' -- ./x",
        0,
        4,
    ),
    _job(
        "compare allocator", "{top}/swapstone compare allocator=default,mimalloc --only b_malloc_tiny1 --blocks 3", 0, 4
    ),
    _job("compare --target vm", f"{_COMPARE} 2 --target vm"),
    _job(
        "compare --suite server --target vm",
        "{top}/swapstone compare libc=glibc,musl --suite server --only http* --blocks 1 --target vm",
        0,
        4,
    ),
    _job("compare --target vm -- PROGRAM", "{top}/swapstone compare kernel=generic,rt --blocks 1 -- /bin/true", 0, 4),
    _job(
        "compare --fit-memory",
        "{top}/swapstone compare allocator=default,mimalloc --fit-memory --fit-resolution 4M -- /bin/true",
        0,
        2,
        4,
    ),
    _job("compare rootfs", "{top}/swapstone compare rootfs={folder}/root-a,{folder}/root-b --blocks 1 -- /x", 0, 2, 4),
    _job(
        "compare --server",
        "{top}/swapstone compare --blocks 3 --vary env:X=1,2 --server"
        " 'python3 -m http.server --bind 127.0.0.1 {{port}}' --load-generator"
        " 'ab -t 1 -c {{connections}} http://127.0.0.1:{{port}}/' --connections 1",
        0,
        2,
        4,
    ),
    _job("compare --target ssh", f"env {_BOARD} {_COMPARE} 1 --target ssh:board", 0, 4),
    _job("doctor --target ssh", f"env {_BOARD} {{top}}/swapstone doctor --target ssh:board"),
    _job("target clean", f"env {_BOARD} {{top}}/swapstone target clean ssh:board"),
    _job("compare --target fake", f"{_COMPARE} 3 --target fake:{{folder}}/fake.toml --out {{records}}/first"),
    _job("compare --resume", "{top}/swapstone compare --resume {records}/first --budget 10s"),
    _job("rerun", "{top}/swapstone rerun {records}/first --out {records}/again"),
    _job("agree", "{top}/swapstone agree {records}/first {records}/again"),
    # As late as possible, so that what the first record of a user needs is traced.
    Job("record", tuple(f"{_COMPARE} 5 --out {{record}}".split()), traced=False),
    _job("show", "{top}/swapstone show {record}"),
    _job("report --html", "{top}/swapstone report {record} --html"),
    _job("explain", "{top}/swapstone explain {record}", 0, 2),
    _job("explain --confirm", "{top}/swapstone explain {record} --confirm", 0, 2),
    _job("profile", "{top}/swapstone profile {record}", 0, 2),
    _job("query", "{top}/swapstone query 'SELECT count(*) FROM comparisons'"),
    _job("verify", "{top}/swapstone verify {record}"),
    _job("export", "{top}/swapstone export {record} --format csv --out {folder}/table.csv"),
    _job("study", "{top}/swapstone study {folder}/study.toml --target fake:{folder}/fake.toml --out {records}/study"),
    _job("study --resume", "{top}/swapstone study --resume {records}/study --budget 20s"),
    _job("image build", "{top}/swapstone image build"),
    _job("image build --libc", "{top}/swapstone image build --libc musl --out {folder}/image"),
    _job("sdk", "{top}/swapstone sdk --libc musl --out {folder}/sdk"),
    _job("image list", "{top}/swapstone image list"),
    _job("image gc", "{top}/swapstone image gc"),
    _job("set-up", "{folder}/checkout/swapstone --version"),
)

STUDY = """
title = "A study to trace"
question = "Which files does a study write?"
only = ["b_string_strlen"]
blocks = 2

[[factor]]
name = "libc"
levels = ["glibc", "musl"]
"""
FAKE = "seed = 3\n[[behaviour]]\nwall_ns = 2_000_000\nnoise = 0.01\n"


def accesses(folder: Path, root: int, cwd: str) -> Iterator[Access]:
    """Yield the accesses in a trace of ``strace -ff -y``.

    Args:
        folder: with a file ``trace.PID`` for each process.
        root: ID of the first process.
        cwd: its current folder.
    """
    folders = {root: cwd}
    waiting = [root, *sorted(int(path.suffix[1:]) for path in folder.glob("trace.*") if path.suffix != f".{root}")]
    done: set[int] = set()
    while waiting:
        # A process comes after its parent, whose folder it inherits; one without a known parent comes last.
        pid = next((one for one in waiting if one in folders), waiting[0])
        waiting.remove(pid)
        done.add(pid)
        path = folder / f"trace.{pid}"
        here = folders.setdefault(pid, cwd)
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
            match = _CALL.match(line)
            if match is None:
                continue
            name, succeeded = match["name"], not match["result"].startswith("-")
            if name in _STARTS and succeeded and match["result"].isdigit():
                folders[int(match["result"])] = here
            elif name == "chdir" and succeeded:
                here = _paths(match, here)[0]
            elif name == "fchdir" and succeeded and (opened := _OPENED.search(match["arguments"])):
                here = opened["path"]
            else:
                yield from _of_call(match, here, succeeded)


def _of_call(match: re.Match[str], here: str, succeeded: bool) -> Iterator[Access]:
    name = match["name"]
    if name in _SOCKETS:
        yield from _of_socket(match["arguments"])
    elif not succeeded:
        return
    elif name in _RIGHTS:
        yield Access(PRIVILEGED, name)
    elif name in {"execve", "execveat"}:
        program = _paths(match, here)[0]
        if Path(program).name in _PROGRAMS or _has_set_user_id(program):
            yield Access(PRIVILEGED, f"execve {Path(program).name}")
    elif name in _OPENS:
        if name == "creat" or _CHANGES.search(match["arguments"]):
            opened = _OPENED.match(match["rest"])
            temporary = "O_TMPFILE" in match["arguments"]
            yield Access(WRITE, opened["path"] if opened and not temporary else _paths(match, here)[0])
    elif name in _PATHS:
        yield from (Access(WRITE, path) for path in _paths(match, here))


def _of_socket(arguments: str) -> Iterator[Access]:
    family = _FAMILY.search(arguments)
    if family is None:
        return  # of a connected socket
    address, path = _ADDRESS.search(arguments), _SOCKET_PATH.search(arguments)
    if address:
        host = address["address"] or address["address6"]
        yield Access(NETWORK, f"{host} port {address['port'] or address['port6']}")
    elif family["family"] in {"UNIX", "LOCAL"}:
        yield Access(NETWORK, f"unix {path['path'] if path else ''}")
    elif family["family"] != "UNSPEC":
        yield Access(NETWORK, family["family"].lower())


def _paths(match: re.Match[str], here: str) -> list[str]:
    """Return the absolute paths of a call."""
    texts = list(_TEXT.finditer(match["arguments"]))
    found = []
    for index in _PATHS[match["name"]]:
        if index < len(texts):
            base = texts[index]["folder"] or here
            text = codecs.decode(texts[index]["path"].encode("latin-1", "replace"), "unicode_escape")
            path = text.encode("latin-1", "replace").decode(errors="replace")  # strace escapes bytes
            found.append(os.path.normpath(os.path.join(base, path)))  # noqa: PTH118 - of a process that has ended
    if not found and (opened := _OPENED.search(match["arguments"])):
        return [opened["path"]]  # utimensat of an open file
    return found or [here]


def _has_set_user_id(program: str) -> bool:
    try:
        return bool(Path(program).stat().st_mode & stat.S_ISUID)
    except OSError:
        return False


def generalised(access: Access, places: Mapping[str, str]) -> Access:
    """Return an access with placeholders instead of the folders of this run, the longest folder first."""
    if access.kind == PRIVILEGED or not (access.place.startswith("/") or access.place.startswith("unix /")):
        return access
    for name, folder in sorted(places.items(), key=lambda item: -len(item[1])):
        before, found, after = access.place.partition(folder)
        if found and before in {"", "unix "} and after[:1] in {"", "/"}:
            return Access(access.kind, f"{before}{{{name}}}{after}")
    return access


def read_reasons(path: Path = REASONS) -> tuple[Reason, ...]:
    """Read the table of reasons."""
    return tuple(Reason(**entry) for entry in tomllib.loads(path.read_text())["access"])


def explained(
    seen: Mapping[Access, Iterable[str]], reasons: Sequence[Reason]
) -> tuple[dict[Reason, set[str]], dict[Access, set[str]]]:
    """Return the jobs of each reason, and the accesses without a reason.

    Args:
        seen: the jobs of each access.
        reasons: the first that matches is used.
    """
    used: dict[Reason, set[str]] = {}
    unknown: dict[Access, set[str]] = {}
    for access, jobs in seen.items():
        match = (one for one in reasons if one.kind == access.kind and fnmatchcase(access.place, one.pattern))
        reason = next(match, None)
        if reason is None:
            unknown.setdefault(access, set()).update(jobs)
        else:
            used.setdefault(reason, set()).update(jobs)
    return used, unknown


def tables(used: Mapping[Reason, Iterable[str]], reasons: Sequence[Reason]) -> str:
    """Return the Markdown tables of all reasons: those that no job met have ``not traced``."""
    order = [job.name for job in JOBS if job.traced]
    lines = []
    for kind, title in TITLES.items():
        lines += [f"### {title}", "", "| place | reason | commands |", "|---|---|---|"]
        for one in reasons:
            if one.kind == kind:
                jobs = sorted(used.get(one, ()), key=order.index)
                by = "all" if len(jobs) > len(order) - 3 else ", ".join(jobs)
                lines.append(f"| `{one.pattern}` | {one.reason} | {by or 'not traced'} |")
        lines.append("")
    return "\n".join(lines)


def trace(job: Job, folder: Path, environment: Mapping[str, str], names: Mapping[str, str]) -> set[Access]:
    """Run a job under strace, and return its accesses with placeholders.

    Raises:
        SystemExit: the job failed.
    """
    work = folder / "traces" / job.name.replace(" ", "-")
    work.mkdir(parents=True)
    calls = ",".join(f"?{name}" for name in (*_PATHS, *_STARTS, *_SOCKETS, *_RIGHTS, "fchdir"))
    command = [word.format(**names) for word in job.command]
    # strace writes the ID of the process that it starts into the name of that process's file.
    marker = ["sh", "-c", 'echo $$ >"$0"; exec "$@"', str(work / "root"), *command]
    options = ["-f", "-ff", "-qq", "-y", "-s", "200", "-e", "signal=none", "--seccomp-bpf", "-e", f"trace={calls}"]
    strace = ["strace", *options, "-o", str(work / "trace")] if job.traced else []
    done = subprocess.run(
        [*strace, *marker],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode not in job.expect:
        sys.exit(f"{job.name}: exit status {done.returncode} of {' '.join(command)}\n{done.stdout}{done.stderr}")
    root = int((work / "root").read_text())
    found = {generalised(access, names) for access in accesses(work, root, str(folder))}
    shutil.rmtree(work)
    return {one for one in found if not one.place.startswith("{folder}/traces/")}


def prepare(folder: Path) -> None:
    """Write the files that the jobs read: a study, the fake target, and a checkout without ``.venv``."""
    (folder / "fake.toml").write_text(FAKE)
    (folder / "study.toml").write_text(STUDY)
    for name in ("src", "cache", "state", "tmp"):
        (folder / name).mkdir()
    FakeSsh(folder / "board")
    (folder / "bin").symlink_to(folder / "board" / "bin")
    (folder / "src" / "x.c").write_text("int main(void) { return 0; }\n")
    for name in ("root-a", "root-b"):
        (folder / name).mkdir()
        (folder / name / "name").write_text(name)
        subprocess.run(["cc", "-static", "-o", folder / name / "x", folder / "src" / "x.c"], check=True)
    for name in ("swapstone", "packages", "requirements.lock", "tools", "src"):
        source, target = TOP / name, folder / "checkout" / name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def main(arguments: Sequence[str]) -> int:
    """Trace the jobs, print the tables and the accesses without a reason."""
    parser = argparse.ArgumentParser(
        prog="tools/trace-accesses", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jobs",
        default="",
        help=f"some of: {', '.join(job.name for job in JOBS)}; record before those that read one [all]",
    )
    parser.add_argument("--write-docs", action="store_true", help=f"renew the tables of {PAGE.relative_to(TOP)}")
    asked = parser.parse_args(arguments)
    chosen = [job for job in JOBS if not asked.jobs or job.name in asked.jobs.split(",")]
    if not chosen or shutil.which("strace") is None:
        parser.error(f"strace is not installed, or there is no job {asked.jobs!r}.")
    seen: dict[Access, set[str]] = {}
    with tempfile.TemporaryDirectory(prefix="swapstone-trace-") as made:
        folder = Path(made).resolve()
        prepare(folder)
        names = {
            "folder": str(folder),
            "record": str(folder / "records" / "traced"),
            "records": str(folder / "records"),
            "tmp": str(folder / "tmp"),
            "cache": str(folder / "cache" / "swapstone"),
            "state": str(folder / "state" / "swapstone"),
            "top": str(TOP),
            "home": str(Path.home()),
        }
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWAPSTONE_"))},
            "TMPDIR": names["tmp"],
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
            "SWAPSTONE_RECORDS": names["records"],
        }
        for job in chosen:
            print(f"{'tracing' if job.traced else 'running'} {job.name}", file=sys.stderr)
            for access in trace(job, folder, environment, names):
                seen.setdefault(access, set()).add(job.name)
    reasons = read_reasons()
    used, unknown = explained(seen, reasons)
    text = tables(used, reasons)
    print(text)
    if asked.write_docs:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}")
    for access in sorted(unknown):
        print(f"no reason: {access.kind}: {access.place} ({', '.join(sorted(unknown[access]))})")
    if not asked.jobs:
        for one in reasons:
            if one.traced and one not in used:
                print(f"not met: {one.kind}: {one.pattern}", file=sys.stderr)
    return 1 if unknown else 0
