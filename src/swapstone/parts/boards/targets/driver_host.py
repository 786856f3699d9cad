# SPDX-License-Identifier: MIT OR Apache-2.0
"""Another machine on which load generators run, reached by ssh.

One connection lasts from `DriverHost` to its `close`; each load generator is a session of it. The standard input of a session ends with
the connection, and then that machine kills the load generator.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError, WireError, undone_on_error
from swapstone.core.model.regular_file import text_of
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.target import LoadDriverKind, RemoteProgram
from swapstone.parts.boards.model.ssh_address import DriverTarget, parse_host_detail
from swapstone.parts.boards.targets.board import BoardAnswer, decode_board_answer, ending
from swapstone.parts.boards.targets.ssh_connection import SshConnection

NEEDED = ("sha256sum", "setsid", "env", "sed", "tr", "head", "sleep", "rm", "cat", "chmod", "readlink")
"""Programs that the scripts use; those of busybox do."""

_DECODE = r"""
count=$#
while [ "$count" -gt 0 ]; do
    word=$(printf '%b' "$(printf '%s' "${1#w}" | sed 's/.../\\0&/g')x")
    shift
    set -- "$@" "${word%x}"
    count=$((count - 1))
done
"""

_PART = r"""
part() { printf '\n%s %s\n' '@WORD@' "$1"; }
"""

RUN = rf"""# run DIGEST SECONDS WORD...: execute a load generator until it ends, or the connection or the time does
digest=$1 seconds=$2
shift 2
{_DECODE}
sum=$(sha256sum <"$1") || exit 97
if [ "${{sum%% *}}" != "$digest" ]; then
    echo "swapstone: the file of the load generator has changed" >&2
    exit 97
fi
exec 3<&0 </dev/null
env -i PATH="$PATH" LC_ALL=C setsid "$@" 3<&- &
driver=$!
stop() {{ kill -s KILL -- "-$driver"; kill -s KILL "$driver"; }}
(
    exec >/dev/null 2>&1
    while read -r _ <&3; do :; done
    stop
) &
watch=$!
(
    exec >/dev/null 2>&1 3<&-
    trap 'kill "$nap"; exit' TERM
    sleep "$seconds" &
    nap=$!
    wait "$nap"
    stop
) &
clock=$!
exec 3<&-
wait "$driver"
status=$?
{{ kill -s KILL -- "-$driver"; kill -s KILL "$watch"; kill -s TERM "$clock"; }} 2>/dev/null
exit "$status"
"""

FIND = rf"""# find WORD: print the path of a program and the SHA-256 of its file
{_DECODE}
{_PART}
path=$(command -v -- "$1") && path=$(readlink -f -- "$path") && [ -f "$path" ] && sum=$(sha256sum <"$path") && {{
    part path; printf '%s' "$path"
    part sha256; printf '%s' "${{sum%% *}}"
}}
part end
"""

TAKE = """# take DIGEST: store standard input as a program
umask 077
cat >"${0%/*}/driver-$1" && chmod 700 "${0%/*}/driver-$1"
"""

_KEEP = rf"""
umask 077
folder=@FOLDER@
mkdir "$folder" || exit 3
trap 'rm -rf "$folder"' EXIT
trap 'exit 3' HUP INT TERM
@FILES@
{_PART}
part kernel; uname -srv
part architecture; uname -m
part system; sed -n 's/^PRETTY_NAME="*\([^"]*\)"*$/\1/p' /etc/os-release
part cpu; sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1
part cpus; sed -n 's/^processor[^:]*: //p' /proc/cpuinfo | tr '\n' ' '
part memory; sed -n 's/^MemTotal: *//p' /proc/meminfo
part boot; cat /proc/sys/kernel/random/boot_id
part client; printf '%s' "${{SSH_CONNECTION%% *}}"
part missing
for program in {" ".join(NEEDED)}; do
    command -v "$program" >/dev/null || printf '%s ' "$program"
done
part end
"""


def keeper_script(folder: str, word: str) -> str:
    """Return the script of the session that lasts as long as the connection: it makes a folder, prints facts, and removes it at its end.

    Args:
        folder: absolute path, of letters, digits, ``/`` and ``-``.
        word: that begins the parts of the answers: random letters and digits.
    """
    files = "\n".join(
        f"cat >\"$folder/{name}\" <<'{name.upper()}_ENDS'\n{content}{name.upper()}_ENDS"
        for name, content in (("run", RUN), ("find", FIND), ("take", TAKE))
    )
    return _KEEP.replace("@FOLDER@", folder).replace("@FILES@", files).replace("@WORD@", word)


def octal(word: str) -> str:
    """Return a word as an argument of `RUN` and `FIND`.

    Args:
        word: without zero bytes.
    """
    return "w" + "".join(f"{byte:03o}" for byte in word.encode(errors="surrogateescape"))


_MOST_COMMAND_BYTES = 100_000
"""Of the words of a load generator: they are one argument of ssh, which may have 128 KiB."""

_FACTS = ("kernel", "architecture", "system", "cpu", "cpus", "memory")
"""Facts of the machine that a record keeps, in the order in which reports print them."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class DriverHost:
    """A connection to the machine of the load generators.

    Args:
        driver: the machine, and the address of this machine.

    Raises:
        UnavailableError: it can't be reached or lacks a program, or this machine lacks ssh or does not have the address.
        UserError: it answered something that is not valid.
    """

    def __init__(self, driver: DriverTarget) -> None:
        self.driver = driver
        self._connection = SshConnection(driver, "The load generators' machine", "driver")
        self._endless = self._connection.folder / "endless"
        self._there = f"/tmp/swapstone-driver-{secrets.token_hex(16)}"  # noqa: S108 - there; mkdir fails if it exists
        self._word = f"swapstone-{secrets.token_hex(16)}"
        self._programs: dict[str, RemoteProgram] = {}
        with undone_on_error(self.close):
            os.mkfifo(self._endless, 0o600)
            self._facts = self._connect()
            self.address = driver.address or self._facts.get("client", "")
            _check_address(self.address, given=bool(driver.address))

    @property
    def architecture(self) -> str:
        """Return its architecture, as ``uname -m`` prints it there."""
        return self._facts.get("architecture", "")

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (what, text) of what was observed of the machine and of the load generators there."""
        same = self._facts.get("boot", "") == text_of(Path("/proc/sys/kernel/random/boot_id"))
        return (
            ("load generators on", self.driver.name),
            *((f"load generators' machine: {key}", self._facts[key]) for key in _FACTS if self._facts.get(key)),
            *([("load generators' machine: same kernel as the servers'", "yes")] if same else []),
            ("servers listen on", self.address),
            *(
                (f"driver {name}", f"{each.path}, sha256 {each.sha256}")
                for name, each in sorted(self._programs.items())
            ),
        )

    def find(self, name: str) -> RemoteProgram:
        """Return a program of that machine; see `LoadDriver.find`."""
        found = self._find(name)
        if found is None:
            raise UnavailableError(
                f"The load generator {safe_excerpt(name, 80)} is not installed on {self.driver.name}.",
                "Install it there, or name a file of this machine by its path: that is copied.",
            )
        self._programs[Path(name).name] = found
        return found

    def copy(self, path: Path) -> RemoteProgram:
        """Copy a program to that machine and return it; see `LoadDriver.copy`."""
        here = os.uname().machine
        if self.architecture != here:
            raise UnavailableError(
                f"The load generator {path.name} is a program of {here}, and {self.driver.name} is {self.architecture}.",
                "Install it there and name it without a path.",
            )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with path.open("rb") as content:
            self._connection.call(self._script("take", digest[:32]), content)
        found = self._find(f"{self._there}/driver-{digest[:32]}")
        if found is None or found.sha256 != digest:
            raise UserError(
                f"The load generator {path.name} arrived on {self.driver.name} with another content.",
                f"There may be no room in /tmp there: ssh {self.driver.name} df /tmp",
            )
        self._programs[path.name] = found
        return found

    def _find(self, name: str) -> RemoteProgram | None:
        found = self._decoded(self._connection.call(self._script("find", octal(name))))
        if not found.parts:
            return None
        path, digest = found.text("path"), found.text("sha256")
        if not path.startswith("/") or not _SHA256.fullmatch(digest):
            raise WireError("The load generators' machine answered no path and digest of a program.")
        return RemoteProgram(path=path, sha256=digest)

    def command(self, program: RemoteProgram, words: tuple[str, ...], limit_s: int) -> tuple[str, ...]:
        """Return the command that executes a load generator there; see `LoadDriver.command`."""
        there = " ".join([program.sha256, str(limit_s), *map(octal, (program.path, *words))])
        if len(there) > _MOST_COMMAND_BYTES:
            raise UserError(
                "The command of the load generator is too long to be sent to another machine.", "Shorten it."
            )
        # Standard input that never ends: a FIFO that its reader has also opened for writing.
        shell = ("/bin/sh", "-c", 'exec "$@" <>"$0"', str(self._endless))
        return (*shell, *self._connection.session(self._script("run", there)))

    def close(self) -> None:
        """End the connection; that machine then kills what runs there and removes its folder. May be called twice."""
        self._connection.close()

    def _script(self, script: str, argument: str) -> str:
        return f"exec /bin/sh {self._there}/{script} {argument}"

    def _connect(self) -> dict[str, str]:
        """Open the connection; return what the machine printed of itself."""
        script = keeper_script(self._there, self._word).encode()
        answer = self._decoded(self._connection.open(script, ending(self._word)))
        found = {key: answer.text(key) for key in answer.parts}
        if missing := found.get("missing"):
            raise UnavailableError(
                f"{self.driver.name} lacks programs: {missing}.", "Install coreutils and util-linux there."
            )
        return found

    def _decoded(self, data: bytes) -> BoardAnswer:
        return decode_board_answer(b"\n" + data, self._word)


def _check_address(address: str, *, given: bool) -> None:
    """Check that servers of this machine can listen on an address.

    Raises:
        UnavailableError: they can't.
    """
    hint = "Name the address of this machine that the other one reaches: --server-address ADDRESS (ip -4 address)"
    what = (
        f"--server-address {address}"
        if given
        else f"The address from which ssh came, {safe_excerpt(address, 60) or 'unknown'},"
    )
    with socket.socket() as candidate:
        try:
            candidate.bind((socket.inet_ntoa(socket.inet_aton(address)), 0))
        except (OSError, ValueError) as error:
            raise UnavailableError(
                f"{what} is no address of this machine on which a server can listen.", hint
            ) from error


SSH_DRIVER = LoadDriverKind(
    usage="host:driver=ssh:USER@HOST",
    description="this machine, with load generators on another one",
    name_of=lambda detail: parse_host_detail(detail).name,
    connect=lambda detail: DriverHost(parse_host_detail(detail)),
)
