# SPDX-License-Identifier: MIT OR Apache-2.0
"""The swap device of a board for a trial, and the limit of the trial's memory: set, read back, and restored. See docs/boards.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from swapstone.core.model import UnavailableError, UserError, process_file, refuse
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.target import TargetError
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.boards.targets.board import Board, BoardAnswer
from swapstone.parts.boards.targets.board_scripts import GROUP, NO_SWAP, SLACK_MIB
from swapstone.parts.vm.factors.swap import BOARD_MEMORY_BYTES, BOARD_SWAP_MIB, BOARD_SWAPS, BOARD_ZRAM

SWAP_WAIT_S = 600.0
"""Added to the limit of an answer: a file of 192 MiB is written to a card, and former swap devices are read back into memory."""

MEMORY_VARIABLE = "SWAPSTONE_MEMORY_BYTES"
"""Variable of a trial's environment: the limit of its memory, which /proc/meminfo does not show."""

_CGROUP = process_file("cgroup")
_MOST_TEXT, _MOST_DEVICES = 4096, 32
_LEVEL = re.compile(r"none|file|zram:[a-z0-9-]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_BYTES = re.compile(r"[0-9]{1,18}", re.ASCII)
_GROUP = re.compile(rf"/[A-Za-z0-9_./-]{{1,300}}/{GROUP}", re.ASCII)


class BoardSwap:
    """Sets the swap device of a board for trials.

    Args:
        board: connected.

    Attributes:
        group: folder of the cgroup that the agent of the next trial enters; empty for none.
        former: the devices that the board had before; empty until a level is set, and if it had none.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.group = ""
        self.former = ""

    def check(self, levels: Sequence[str]) -> None:
        """Set each level once.

        Raises:
            UnavailableError: the board can't set one; the connection is made again, and its own swap is restored.
        """
        try:
            for level in levels:
                self._set(level)
        except UnavailableError:
            self._board.connect()  # the shell has ended
            raise

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return what the board swapped to before the session, for the manifest."""
        return (("swap of the board", f"before the session {self.former}"),) if self.former else ()

    def run(
        self,
        level: str,
        request: TrialRequest,
        run: Callable[[TrialRequest], AgentAnswer],
        stop: Callable[[], None],
    ) -> AgentAnswer:
        """Run a trial with a level's device as the only one, and in a cgroup with a limit.

        Args:
            level: of the factor ``swap``.
            request: of the trial.
            run: runs it, in an agent that enters `group`.
            stop: ends the agent.

        Returns:
            The answer, with what the board shows of its swap device after the trial.

        Raises:
            ConnectionEndedError: the connection has ended.
            TargetError: the trial's memory was not limited.
            UnavailableError: as of `check`, but the connection has ended.
        """
        stop()
        self._set(level)
        try:
            answer = run(_limited(request))
            shown = self._board.ask(swap_step("show", level))
            limit = limit_in_force(shown)
            refuse(
                (
                    not all(f"/{GROUP}" in value for what, value in answer.observed if what == _CGROUP),
                    "The program left the memory cgroup in which it was started.",
                    "",
                ),
                (
                    limit != BOARD_MEMORY_BYTES,
                    f"The limit of the trial's memory was {limit} bytes, and {BOARD_MEMORY_BYTES} had been set.",
                    "",
                ),
                kind=TargetError,
            )
            return msgspec.structs.replace(answer, machine=(*answer.machine, *swap_texts(shown)))
        finally:
            self.group = ""
            stop()

    def _set(self, level: str) -> None:
        """Make a level's device the only one, and the cgroup of the next trial.

        Raises:
            ConnectionEndedError: the connection has ended.
            UnavailableError: the board can't set the level; the message has the reason. The connection has ended, and what was changed
                is restored.
            UserError: the answer is not valid.
        """
        self.group = ""
        answer = self._board.ask(swap_step("set", level), SWAP_WAIT_S)
        self.group = check_set(answer, self._board.place.name, self._board.place.words)
        lines = answer.parts.get("swap-former", b"").decode(errors="replace").splitlines()[:_MOST_DEVICES]
        self.former = ", ".join(sorted(safe_excerpt(line.partition(" ")[0], 100) for line in lines)) or self.former


def _limited(request: TrialRequest) -> TrialRequest:
    """Return a trial's request with the limit of its memory in the environment; its cgroup is observed."""
    others = tuple(pair for pair in request.environment if pair[0] != MEMORY_VARIABLE)
    return msgspec.structs.replace(
        request,
        environment=(*others, (MEMORY_VARIABLE, str(BOARD_MEMORY_BYTES))),
        observe=tuple(dict.fromkeys((*request.observe, _CGROUP))),
    )


def swap_step(what: Literal["set", "show"], level: str) -> str:
    """Return the step of `swapstone.parts.boards.targets.board_scripts.step_script` that sets a level, or reads back what was set.

    Raises:
        UserError: it is no level of a board.
    """
    if not _LEVEL.fullmatch(level):
        raise UserError(
            f"{safe_excerpt(level, 60)!r} is no swap device of a board.", "For example: swap=file,zram:lzo-rle"
        )
    return f"swap_{what} {level}"


def check_set(answer: BoardAnswer, board: str, words: str) -> str:
    """Return the folder of the memory cgroup that a board made for a trial.

    Args:
        answer: to the step ``set`` of `swap_step`.
        board: its name.
        words: of the ssh command that reaches it.

    Raises:
        UnavailableError: it can't set the level; the message has the reason.
        UserError: its answer is not valid.
    """
    if NO_SWAP in answer.parts:
        code, _, detail = answer.text(NO_SWAP).partition(" ")
        reason, hint = _REASONS.get(code, ("no reason given", ""))
        values = {"board": board, "words": words, "detail": detail, **_words(detail)}
        raise UnavailableError(
            f"The board {board} can't compare swap devices: {reason.format_map(values)}.", hint.format_map(values)
        )
    group = answer.text("swap-group")
    if not _GROUP.fullmatch(group):
        raise UserError(f"The answer of {board} to a swap level is not valid.", f"Observe it: ssh {words} dmesg")
    return group


def _words(detail: str) -> dict[str, str]:
    """Return the first word of a detail and the rest, and its numbers of KiB as MiB, for a sentence."""
    word, _, rest = detail.partition(" ")
    found = [str(int(each) >> 10) if _NUMBER.fullmatch(each) else "?" for each in (*detail.split(" "), "", "")]
    return {
        "word": word,
        "rest": rest,
        "first": found[0],
        "second": found[1],
        "needed": str(BOARD_SWAP_MIB + SLACK_MIB + (BOARD_MEMORY_BYTES >> 20)),
    }


PROBE_STEP = "swap_probe"
"""Step that states what the board lacks for the factor `swap`, and changes nothing; for `missing_for_swap`."""


def missing_for_swap(answer: BoardAnswer, *, is_root: bool) -> tuple[str, str]:
    """Return why a board can't compare swap devices, and what to do; two empty texts if nothing is known to be missing.

    Args:
        answer: to `PROBE_STEP`.
        is_root: whether the user is root there.
    """
    parts = (("probe-program", "program"), ("probe-no-swap", "kernel"), ("probe-no-top", "controller"))
    code = next((code for part, code in parts if part in answer.parts), "") if is_root else "user"
    if not code:
        return "", ""
    reason, hint = _REASONS[code]
    values = {"words": "BOARD", "detail": answer.text("probe-program")}
    return reason.format_map(values), hint.format_map(values)


def swap_texts(answer: BoardAnswer) -> tuple[tuple[str, str], ...]:
    """Return what a board showed after a trial, by the names that the factor `swap` reads; see `Evidence.machine`.

    Args:
        answer: to the step ``show`` of `swap_step`.
    """
    parts = {name: content[:_MOST_TEXT].decode(errors="replace") for name, content in answer.parts.items()}
    found = [(BOARD_SWAPS, parts.get("swap-devices", "")), ("board memory limit", parts.get("swap-limit", "").strip())]
    number = parts.get("swap-zram", "").strip()
    if _NUMBER.fullmatch(number):
        device = f"zram{number}"
        found.append((BOARD_ZRAM, device))
        files = (("comp_algorithm", "swap-algorithms"), ("disksize", "swap-disksize"), ("mm_stat", "swap-mm-stat"))
        found += [(f"board /sys/block/{device}/{name}", parts.get(part, "")) for name, part in files]
    return tuple(found)


def limit_in_force(answer: BoardAnswer) -> int:
    """Return the limit that a board's cgroup had after a trial, in bytes; 0 if it does not show one."""
    text = answer.text("swap-limit")
    return int(text) if _BYTES.fullmatch(text) else 0


_ROOT_HINT = "Log in as root: --target ssh:root@BOARD"
_REASONS = {
    "user": ("it needs root", _ROOT_HINT),
    "program": ("it lacks the program {detail}", "Install busybox or util-linux there."),
    "kernel": ("its kernel has no swap (CONFIG_SWAP)", "Boot a kernel with CONFIG_SWAP=y."),
    "state": ("{detail} has no space left", "Name another folder: --target ssh:root@BOARD,folder=/path"),
    "own": (
        "the swap device of the trial before can't be switched off",
        "Observe it: ssh {words} cat /proc/swaps",
    ),
    "name": (
        "its active swap {detail} could not be restored: a path has letters, digits and ./_+@:=- only",
        "Switch it off there (swapoff), and on again afterwards.",
    ),
    "busy": (
        "its own swap has {first} MiB in use, and only {second} MiB of memory are available to read them back",
        "End programs there, or switch swap off by hand: ssh {words} swapoff -a",
    ),
    "off": (
        "its own swap can't be switched off: {detail}",
        "End programs there, or try it by hand: ssh {words} swapoff -a",
    ),
    "memory": (
        "{first} MiB of memory are available there without swap, and a trial needs {needed} MiB",
        "End programs there, or measure on --target vm.",
    ),
    "controller": (
        "it has no memory cgroup, which limits the memory of a trial",
        "Its kernel needs CONFIG_MEMCG and no cgroup_disable=memory (on a Raspberry Pi: cgroup_enable=memory in cmdline.txt), and a "
        "mounted hierarchy: ssh {words} mount -t cgroup2 none /sys/fs/cgroup",
    ),
    "group": ("the memory cgroup {detail} can't be made", "Observe it: ssh {words} mount"),
    "limit": (
        f"a memory limit of {BOARD_MEMORY_BYTES} bytes reads back as {{detail}}",
        "Observe it: ssh {words} mount",
    ),
    "zram": (
        "its kernel has no zram that adds devices (CONFIG_ZRAM, Linux 4.2 or newer), and modprobe zram does not load it",
        "Boot a kernel with CONFIG_ZRAM=m or y, or compare swap=none,file.",
    ),
    "add": ("zram adds no device", "Observe it: ssh {words} dmesg"),
    "algorithm": ("zram has no algorithm {word}; it has: {rest}", "Name one of the list: swap=zram:ALGORITHM"),
    "size": (f"zram{{detail}} does not take a size of {BOARD_SWAP_MIB} MiB", "Observe it: ssh {words} dmesg"),
    "space": (
        f"its folder has no room for a swap file of {BOARD_SWAP_MIB} MiB: {{detail}}",
        "Name a folder on another file system: --target ssh:root@BOARD,folder=/path",
    ),
    "start": (
        "a command failed: {detail}",
        "A swap file needs a file system on a block device, such as ext4: not tmpfs, NFS or overlay. Name a folder on one: "
        "--target ssh:root@BOARD,folder=/path",
    ),
}
"""Why a level can't be set, by the first word of the part `NO_SWAP`, and what to do."""
