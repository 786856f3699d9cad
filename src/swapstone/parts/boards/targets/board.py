# SPDX-License-Identifier: MIT OR Apache-2.0
"""A board: a machine that ssh reaches, its lock, its folder, and the files that were copied there."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import re
import secrets
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from swapstone.core.model import FrozenStruct, UnavailableError, UserError, WireError
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.boards.model.ssh_address import SshAddress
from swapstone.parts.boards.targets.board_answer import (
    MOST_ANSWER_BYTES,
    BoardAnswer,
    boot_of,
    decode_board_answer,
    ending,
)
from swapstone.parts.boards.targets.board_scripts import REFUSED, clean_script, is_board_path, open_script, step_script
from swapstone.parts.boards.targets.ssh_connection import SshConnection

MOST_FILE_BYTES = 256 << 20
"""Of a file that is copied to a board."""

_SHA256 = re.compile(r"([0-9a-f]{64})\b", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_+.@=-]{1,92}", re.ASCII)
_FOLDER_DIGITS = 32
_SHORT_NAME, _PLACE_BYTES, _LONG_PLACE_BYTES = 28, 60, 124


class BoardFolder(SshAddress, frozen=True, kw_only=True):
    """A board and the folder there.

    Attributes:
        folder: absolute path on the board; empty for ``swapstone-board`` in the user's cache folder.
        governor: of the processors' frequency during a session; empty to leave it alone.
        own_target: the target's text, without options, where the address may be another one after each boot; else empty.
    """

    folder: str = ""
    governor: str = ""
    own_target: str = ""

    @property
    def name(self) -> str:
        """Return the name of the board in messages."""
        return self.own_target or self.address

    @property
    def address(self) -> str:
        """Return where ssh reaches it, as ``USER@HOST:PORT``."""
        return super().name

    @property
    def target(self) -> str:
        """Return the target's text, without the folder."""
        return self.own_target or f"ssh:{self.name}"


class Cleaned(FrozenStruct, frozen=True, kw_only=True):
    """What was removed from a board.

    Attributes:
        folder: its path there.
        kib: its size in KiB; None if there was nothing.
    """

    folder: str
    kib: int | None


class Board:
    """A connection to a board.

    Args:
        place: the board.

    Attributes:
        connection: over which its commands run.
        answer: what the board answered when the connection was opened last.
        folder: absolute path there.
        placed: contents here by path there, of all files that were copied.
    """

    def __init__(self, place: BoardFolder) -> None:
        self.place = place
        self.placed: dict[str, bytes] = {}
        self._session = secrets.token_hex(16)
        self._word = f"swapstone-{secrets.token_hex(16)}"
        self.connection = SshConnection(place, f"The board {place.name}", "board")
        self.answer = BoardAnswer({}, {})
        self.folder = ""
        try:
            self.connect()
        except BaseException:
            self.close()
            raise

    @property
    def scratch(self) -> str:
        """Return the path of the folder that `ready` empties."""
        return f"{self.folder}/scratch-{self._session}"

    @property
    def load_folder(self) -> str:
        """Return the path of the folder of programs beside a trial."""
        return f"{self.folder}/load-{self._session}"

    def move(self, place: BoardFolder) -> None:
        """Reach the board at another address, from the next `connect` on."""
        self.place = place
        self.connection.move(place)

    def connect(self) -> None:
        """Connect, also again: take the lock, end what an earlier connection of this object left, and check the copied files.

        Raises:
            UnavailableError: the board can't be reached, or can't run trials; the hint has the next step.
            UserError: the lock belongs to another user.
            WireError: the board's answer is not valid.
        """
        self.connection.disconnect()
        owner = f"{getpass.getuser()}@{socket.gethostname()}"
        script = open_script(self._word, self._session, owner, self.place.folder, self.place.governor)
        data = self.connection.open(script, ending(self._word), MOST_ANSWER_BYTES)
        self.answer = decode_board_answer(b"\n" + data, self._word)
        if greeting := (b"\n" + data).partition(f"\n{self._word} ".encode())[0].decode(errors="replace").strip():
            raise UnavailableError(
                f"The login shell of {self.place.name} prints text before each command, here {safe_excerpt(greeting, 60)!r}.",
                f"Let it do so at a terminal only. This must print nothing: ssh {self.place.words} true",
            )
        check_answer(self.answer, self.place)
        folder = self.answer.text("folder")
        if not is_board_path(folder):
            raise UserError(
                f"The folder on {self.place.name} has a path that Swapstone can't use: {safe_excerpt(folder, 80)}.",
                f"Name another one: --target {self.place.target},folder=/tmp/swapstone",
            )
        self.folder = folder
        for path, content in self.placed.items():
            self._require(path, content)

    def ask(self, step: str, beside_s: float = 0.0) -> BoardAnswer:
        """Run functions of the opening script.

        Args:
            step: ``ready`` empties the scratch folder, ``sample`` reads the sensors; several, separated by ``;``.
            beside_s: time that it may take beside the usual limit.

        Raises:
            ConnectionEndedError: the connection has ended.
            UserError: the board does not answer, or its answer is not valid.
        """
        data = self.connection.ask(step_script(step), ending(self._word), MOST_ANSWER_BYTES, beside_s)
        return decode_board_answer(b"\n" + data, self._word)

    @property
    def boot(self) -> str:
        """Return the identifier of the board's boot."""
        return boot_of(self.answer)

    def put(self, path: Path, *, name: str = "", folder_digest: str = "") -> str:
        """Copy a file, unless it is there.

        Args:
            path: of this machine.
            name: on the board; empty for its name here.
            folder_digest: hexadecimal; its first 32 digits are the name of its folder there. Empty for digits of the content.

        Returns:
            Its path there. Names up to 28 bytes have equally long paths.

        Raises:
            UserError: it can't be read or copied.
        """
        name = name or path.name
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise UserError(f"{safe_excerpt(name, 100)} can't be the name of a file on a board.", "Rename the file.")
        with readable(str(path)):
            if path.stat().st_size > MOST_FILE_BYTES:
                raise UserError(f"{path} is larger than {MOST_FILE_BYTES >> 20} MiB.")
            content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest() * 2
        size = _PLACE_BYTES if len(name) <= _SHORT_NAME else _LONG_PLACE_BYTES
        folder = folder_digest[:_FOLDER_DIGITS] or digest[: size - len(name)]
        there = f"{self.folder}/files/{folder}/{name}"
        if self.placed.get(there) != content:
            self._require(there, content)
            self.placed[there] = content
        return there

    def agent_command(self, agent: str, which: str = "", group: str = "") -> tuple[str, ...]:
        """Return the command of this machine that runs an agent there; `connect` ends what a lost connection left of it.

        Args:
            agent: its path there.
            which: distinguishes it from other agents of the session: a hyphen, letters and digits; empty for the one of trials.
            group: folder of the cgroup there that it enters; empty for none.
        """
        note = f"{self.folder}/agent-{self._session}{which}"
        enter = f"echo $$ >{group}/cgroup.procs && " if group else ""
        return self.connection.session(_in_sh(f"{enter}cd / && echo $$ >{note} && exec env -i {agent} -"))

    def close(self) -> None:
        """End the connection; the board then removes the scratch folder and the lock. May be called twice."""
        self.connection.close()

    def _require(self, path: str, content: bytes) -> None:
        """Copy a file unless the board has it.

        Raises:
            UserError: it can't be copied, or arrives with another content.
        """
        if self.has_file(path, content):
            return
        folder = path.rpartition("/")[0]
        part = f"{path}.part"
        with tempfile.TemporaryFile() as stream:
            stream.write(content)
            stream.seek(0)
            try:
                self.connection.call(
                    _in_sh(f"umask 077; mkdir -p {folder} && cat >{part} && chmod 700 {part} && mv -f {part} {path}"),
                    stream,
                )
            except UserError as error:
                raise UserError(
                    f"{path.rpartition('/')[2]} can't be copied to {self.place.name}: {error.message}",
                    f"Free some space there (swapstone target clean {self.place.target}), or name another folder: "
                    f"--target {self.place.target},folder=/path",
                ) from error
        if not self.has_file(path, content):
            raise UserError(
                f"{path.rpartition('/')[2]} arrived on {self.place.name} with another content.",
                f"There may be no room: ssh {self.place.words} df {self.folder}",
            )

    def has_file(self, path: str, content: bytes) -> bool:
        """Return whether the board has a file with this content: by its own sha256sum, or else by reading the file."""
        digest = hashlib.sha256(content).hexdigest()
        found = self.ask(f"if [ -x {path} ]; then part there; part sum; sha256sum {path} 2>/dev/null; fi")
        if "there" not in found.parts:
            return False
        known = _SHA256.match(found.text("sum"))
        if known is not None:
            return known[1] == digest
        try:
            there = self.connection.call(f"cat {path}", most_bytes=len(content) + 1)
        except WireError:
            return False
        return there == content


def _in_sh(command: str) -> str:
    """Return the words of any login shell, such as csh or fish, that run a command without quotes in a POSIX shell."""
    return f"exec /bin/sh -c '{command}'"


def clean_board(place: BoardFolder) -> Cleaned:
    """Remove the files of Swapstone from a board.

    Raises:
        UserError: it can't be reached, is in use, or they can't be removed.
    """
    word = f"swapstone-{secrets.token_hex(16)}"
    if place.folder:
        open_script(word, "", "", place.folder)  # checks the path
    connection = SshConnection(place, f"The board {place.name}", "board")
    try:
        data = connection.open(clean_script(word, place.folder), ending(word), MOST_ANSWER_BYTES)
        answer = decode_board_answer(b"\n" + data, word)
    finally:
        connection.close()
    check_answer(answer, place)
    if "failed" in answer.parts:
        raise UserError(f"The files on {place.name} can't be removed: {answer.text('failed')}")
    size = re.match("[0-9]{1,12}", answer.text("size"))
    return Cleaned(folder=answer.text("folder"), kib=(int(size[0]) if size else 0) if "size" in answer.parts else None)


def check_answer(answer: BoardAnswer, place: BoardFolder) -> None:
    """Raise if the board refused to run trials.

    Raises:
        UnavailableError: it lacks what the agent needs.
        UserError: it is in use, or its folder can't be used.
    """
    refused = next((name for name in REFUSED if name in answer.parts), "")
    if not refused:
        return
    why = answer.text(refused)
    first, _, rest = why.partition(" ")
    second, _, third = rest.partition(" ")
    values = {
        "place": place,
        "why": why or "no reason given",
        "process": first if first.isdecimal() else "unknown",
        "owner": safe_excerpt(rest, 100) or "another session",
        "now": safe_excerpt(second, 30),
        "known": safe_excerpt(third, 200) or "no list of governors",
    }
    message, hint = _REFUSALS[refused if refused != "no-governor" or first == "0" else "no-root"]
    kind = UserError if refused == "locked" else UnavailableError
    raise kind(message.format_map(values), hint.format_map(values))


_FOLDER_HINT = "Name a folder where programs may be written and run: --target {place.target},folder=/path"
_GOVERNOR = "The frequency governor of {place.name} can't be changed from {now} to {place.governor}."
_REFUSALS = {
    "locked": (
        "The board {place.name} is in use by {owner}.",
        "Wait until that session ends. If it hangs, its process there is {process}: ssh {place.words} kill {process}",
    ),
    "no-proc": (
        "The board {place.name} has no /proc, and the agent needs it.",
        "Mount it: ssh {place.words} mount -t proc proc /proc",
    ),
    "missing": ("The board {place.name} lacks the program {why}.", "Install busybox or coreutils there."),
    "no-folder": ("The folder on {place.name} can't be written: {why}.", _FOLDER_HINT),
    "no-exec": ("No program can run in the folder on {place.name} (noexec?): {why}.", _FOLDER_HINT),
    "no-cpufreq": (
        "The kernel of {place.name} has no frequency governors (cpufreq).",
        "Leave governor= out of the target.",
    ),
    "no-governor": (_GOVERNOR, "It has: {known}."),
    "no-root": (
        _GOVERNOR,
        "It needs root: log in as root, --target ssh:root@{place.host},governor={place.governor}",
    ),
}
"""Why a board runs no trials, and what to do, by the part of its answer."""


def mirror(files: Mapping[str, bytes], root: Path) -> None:
    """Write the files of a board's answer below a folder, for functions that read this machine's.

    Args:
        files: contents by path, of a decoded answer: the paths are below ``/proc``, ``/sys`` and ``/etc``.
        root: empty folder.
    """
    for path, content in files.items():
        target = root / path.lstrip("/")
        with contextlib.suppress(OSError):  # a hostile board may name a file below a file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.replace(b"\0", b""))
