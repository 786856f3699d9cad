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
from typing import Literal

import msgspec

from swapstone.core.model import UnavailableError, UserError, WireError, undone_on_error
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.boards.model.ssh_address import SshAddress
from swapstone.parts.boards.targets.board_scripts import REFUSED, clean_script, is_board_path, open_script, step_script
from swapstone.parts.boards.targets.ssh_connection import SshConnection

MOST_ANSWER_BYTES = 1 << 20
"""Of one answer."""

_MOST_PARTS = 4096
_KEY = re.compile(r"[a-z][a-z0-9-]{0,15}", re.ASCII)
_FILE = re.compile(r"/(?:proc|sys|etc)/[A-Za-z0-9_.:/-]{1,300}", re.ASCII)
_DIGITS = re.compile(r"-?[0-9]{1,12}", re.ASCII)
_BITS = re.compile(r"[0-9a-f]{1,8}", re.ASCII)
_CPUS = re.compile(r"^Cpus_allowed_list:[ \t]*([0-9,-]{1,2000})$", re.ASCII | re.MULTILINE)
_SPAN = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_BOOT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_HIGHEST_CPU = 4095


class BoardAnswer(msgspec.Struct, frozen=True):
    """An answer of a shell on another machine.

    Attributes:
        parts: contents by name, as it printed them.
        files: contents of files in ``/proc``, ``/sys`` and ``/etc`` by path.
    """

    parts: Mapping[str, bytes]
    files: Mapping[str, bytes]

    def text(self, name: str) -> str:
        """Return a part as one line that steers no terminal, at most 400 characters; empty if it is missing."""
        return safe_excerpt(self.parts.get(name, b"").decode(errors="replace").strip(), 400)

    def file(self, path: str) -> str:
        """Return a file's text without leading and trailing space; empty if it is missing."""
        return self.files.get(path, b"").decode(errors="replace").strip(" \t\n\0")

    @property
    def boot(self) -> str:
        """Return the identifier of the board's boot; empty if the kernel has none."""
        found = self.file("/proc/sys/kernel/random/boot_id")
        return found if _BOOT.fullmatch(found) else ""


def ending(word: str) -> bytes:
    """Return the last bytes of an answer."""
    return f"\n{word} end\n".encode()


def decode_board_answer(data: bytes, word: str) -> BoardAnswer:
    """Decode an answer.

    Args:
        data: all of it. What precedes the first part is ignored.
        word: that begins the parts.

    Raises:
        WireError: it is longer than `MOST_ANSWER_BYTES`, cut off, or has another form.
    """
    if len(data) > MOST_ANSWER_BYTES or not data.endswith(ending(word)):
        raise WireError("The other machine's answer is too long or cut off.")
    _, *pieces = data[: -len(ending(word))].split(f"\n{word} ".encode())
    if len(pieces) > _MOST_PARTS:
        raise WireError("The other machine's answer has too many parts.")
    parts: dict[str, bytes] = {}
    files: dict[str, bytes] = {}
    for piece in pieces:
        head, _, content = piece.partition(b"\n")
        name = head.decode("ascii", errors="replace")
        path = name.removeprefix("file ")
        if path != name and _FILE.fullmatch(path) and ".." not in path.split("/") and path not in files:
            files[path] = content
        elif _KEY.fullmatch(name) and name not in parts:
            parts[name] = content
        else:
            raise WireError(f"The other machine's answer has a part that is not valid: {safe_excerpt(name, 80)!r}.")
    return BoardAnswer(parts, files)


def former_governors(answer: BoardAnswer) -> str:
    """Return the frequency governors that a session replaced, without repetitions; empty if it replaced none."""
    lines = answer.parts.get("governors", b"").decode(errors="replace").splitlines()
    return ", ".join(sorted({safe_excerpt(line.partition(" ")[2], 30) for line in lines[1:1000]}))


def cpus_of(answer: BoardAnswer) -> tuple[int, ...]:
    """Return the numbers of the processors that a process may use there.

    Raises:
        WireError: the list is missing or not valid.
    """
    match = _CPUS.search(answer.file("/proc/self/status"))
    found: set[int] = set()
    for span in match[1].split(",") if match else ():
        ends = _SPAN.fullmatch(span)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            found.clear()
            break
        found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    if not found or max(found) > _HIGHEST_CPU:
        raise WireError("The board's list of processors is not valid.")
    return tuple(sorted(found))


def uname_of(answer: BoardAnswer) -> tuple[str, str, str, str]:
    """Return name, release and version of the kernel, and the machine, as ``uname`` prints them.

    Raises:
        WireError: one is missing.
    """
    lines = answer.parts.get("uname", b"").decode(errors="replace").strip("\n").split("\n")
    if len(lines) != 4 or not all(lines):
        raise WireError("The board's name of its kernel is not valid.")
    name, release, version, machine = (safe_excerpt(line.strip(), 200) for line in lines)
    return name, release, version, machine


_MACHINES = {62: "x86_64", 183: "aarch64", 40: "arm", 243: "riscv64"}
"""Of e_machine, as in <elf.h>; the names are those of recipes."""

_ARM, _HARD_FLOAT, _OLD_ARM = 40, 0x400, re.compile(r"armv[456].*", re.ASCII)
_SUPPORTED = "Swapstone builds programs for x86_64, arm64, armhf (ARMv7 with a floating-point unit) and riscv64."


def machine_of(answer: BoardAnswer) -> str:
    """Return the architecture of a board's programs, as recipes name it: that of its own programs, which may be 32-bit on a 64-bit kernel.

    Raises:
        UnavailableError: no programs are built for it.
        WireError: the answer has no architecture.
    """
    kernel, head = uname_of(answer)[3], answer.parts.get("shell", b"")
    if len(head) < 52 or not head.startswith(b"\x7fELF"):
        found = {"x86_64": 62, "aarch64": 183, "riscv64": 243}.get(kernel, _ARM if kernel.startswith("armv7") else 0)
        flags, is_64_bit, little = _HARD_FLOAT, found != _ARM, True
    else:
        little = head[5] == 1
        order: Literal["little", "big"] = "little" if little else "big"
        found, flags, is_64_bit = int.from_bytes(head[18:20], order), int.from_bytes(head[36:40], order), head[4] == 2
    reason = ""
    if found not in _MACHINES or not little or is_64_bit == (found == _ARM):
        bits = f"{'64' if is_64_bit else '32'}-bit {'little' if little else 'big'}-endian"
        reason = f"programs of the board are {bits} ELF files of machine {found} ({safe_excerpt(kernel, 40)})"
    elif found == _ARM and _OLD_ARM.fullmatch(kernel):
        reason = f"its processor is an {safe_excerpt(kernel, 40)}, and Debian's C libraries for ARM need ARMv7"
    elif found == _ARM and not flags & _HARD_FLOAT:
        reason = "its programs are ARM with floating point in general registers (armel)"
    if reason:
        raise UnavailableError(f"Nothing can be built for this board: {reason}.", _SUPPORTED)
    return _MACHINES[found]


def check_machine(answer: BoardAnswer, wanted: str) -> None:
    """Check that a board's kernel runs programs of an architecture that the user named.

    Args:
        answer: of the board.
        wanted: a name in recipes.

    Raises:
        UnavailableError: it does not.
        WireError: the answer has no architecture.
    """
    kernel = uname_of(answer)[3]
    runs = {"aarch64": {"aarch64", "arm"}, "armv8l": {"arm"}, "armv7l": {"arm"}}.get(kernel, {kernel})
    if wanted not in runs:
        raise UnavailableError(
            f"The board's kernel is of {safe_excerpt(kernel, 40)}, and runs no programs of {wanted}.",
            "Name none (--arch, or the key architecture of a study): it is then that of the board's own programs.",
        )


def sensor_facts(files: Mapping[str, bytes], when: str) -> dict[str, int]:
    """Return facts from the files of `swapstone.parts.boards.targets.board_scripts.SENSORS`.

    Args:
        files: contents by path.
        when: end of the facts' names: ``before`` or ``after``.

    Returns:
        ``board_temperature_WHEN`` in 0.001 degrees Celsius, of the hottest zone; ``board_frequency_WHEN`` in kHz, of the fastest processor;
        ``board_throttled_WHEN``, a sum of counts; ``board_throttle_bits_WHEN``, of the Raspberry Pi: bits 0 to 3 of its firmware's answer,
        its present state. Those that were found.
    """
    texts = {path: content.decode(errors="replace").strip() for path, content in files.items()}

    def numbers(last: str) -> list[int]:
        return [int(text) for path, text in texts.items() if path.endswith(last) and _DIGITS.fullmatch(text)]

    temperatures, frequencies, counts = numbers("/temp"), numbers("/scaling_cur_freq"), numbers("/core_throttle_count")
    bits = [int(text, 16) for path, text in texts.items() if path.endswith("/get_throttled") and _BITS.fullmatch(text)]
    pairs = (
        ("temperature", temperatures),
        ("frequency", frequencies),
        ("throttled", [sum(counts)] if counts else []),
        ("throttle_bits", [each & 0xF for each in bits]),
    )
    return {f"board_{name}_{when}": max(found) for name, found in pairs if found}


MOST_FILE_BYTES = 256 << 20
"""Of a file that is copied to a board."""

_SHA256 = re.compile(r"([0-9a-f]{64})\b", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_+.@=-]{1,92}", re.ASCII)
FOLDER_DIGITS = 32
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
        with undone_on_error(self.close):
            self.connect()

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
        self.connection.call(_in_sh("true"))  # the agent runs in a second session
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

    def put(self, path: Path, *, name: str = "", folder: str = "") -> str:
        """Copy a file, unless it is there.

        Args:
            path: of this machine.
            name: on the board; empty for its name here.
            folder: the name of its folder there, of hexadecimal digits; empty for digits of the content.

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
        there = f"{self.folder}/files/{folder or digest[: size - len(name)]}/{name}"
        if self.placed.get(there) != content:
            self._require(there, content)
            self.placed[there] = content
        return there

    def write_anew(self, path: str) -> str:
        """Copy a file of `placed` on the board, in place of itself.

        The pages of such files lie in the page cache alike, as one program wrote all in the same way. What ssh brought was written in
        pieces as they arrived, and a file of an earlier session may have been read from storage. After a reboot, `connect` reads all alike.

        Returns:
            Why it could not be written; empty if it was.
        """
        part = f"{path}.part"
        written = self.ask(
            f"if why=$({{ cat {path} >{part} && chmod 700 {part} && mv -f {part} {path}; }} 2>&1); then part written; "
            f"else rm -f {part}; part why; printf '%s\\n' \"$why\"; fi"
        )
        if "written" in written.parts and self.has_file(path, self.placed[path]):
            return ""
        self._require(path, self.placed[path])
        return f"it could not be written anew there: {written.text('why') or 'its content was another one then'}"

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
                    error.hint
                    or f"Free some space there (swapstone target clean {self.place.target}), or name another folder: "
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


def clean_board(place: BoardFolder) -> tuple[str, int | None]:
    """Remove the files of Swapstone from a board.

    Returns:
        The folder's path there, and its size in KiB; None if there was nothing.

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
    return answer.text("folder"), (int(size[0]) if size else 0) if "size" in answer.parts else None


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
