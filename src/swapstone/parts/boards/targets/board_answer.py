# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the scripts on a board or on the machine of load generators print, decoded strictly: that machine may be hostile."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal

from swapstone.core.model import UnavailableError, WireError
from swapstone.core.model.safe_text import safe_excerpt

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


@dataclasses.dataclass(frozen=True)
class BoardAnswer:
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


def boot_of(answer: BoardAnswer) -> str:
    """Return the identifier of the board's boot; empty if the kernel has none."""
    found = answer.file("/proc/sys/kernel/random/boot_id")
    return found if _BOOT.fullmatch(found) else ""


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
