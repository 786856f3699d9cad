# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hostile inputs of commands that read no record: files that options name, entries of the cache, and what a board answers.

`python -m tests.hostile.inputs` prints a line for each. What is named here is refused before anything is fetched or built.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.fake_ssh import FakeSsh
from tests.hostile.commands import ended_wrongly, run_limited
from tests.hostile.forgery import LINES, NESTED, linked, sparse
from tests.preloaded import import_all

Maker = Callable[[Path], object]


class Input(NamedTuple):
    """A command with a hostile input.

    Attributes:
        name: of the kind and the command.
        arguments: of the command; its current folder is an empty one.
        make: puts the input into that folder.
        status: the only exit status that is right.
        named: a part of the output.
    """

    name: str
    arguments: tuple[str, ...]
    make: Maker
    status: int
    named: str


class Found(NamedTuple):
    """How a command ended: its exit status, what is wrong about it, and its output."""

    name: str
    status: int
    faults: tuple[str, ...]
    text: str


def _nothing(_: Path) -> None:
    return


_FILES: tuple[tuple[str, Maker], ...] = (
    ("a FIFO", os.mkfifo),
    ("a link to /dev/zero", linked("/dev/zero")),
    ("a link to itself", lambda place: place.symlink_to(place)),
    ("a folder", Path.mkdir),
    ("1 TiB of nothing", sparse()),
    ("absent", _nothing),
)
_KERNEL_FILES = (
    *_FILES,
    ("empty", Path.touch),
    ("a text", lambda place: place.write_text(NESTED)),
    (
        "a header without its kernel",
        lambda place: place.write_bytes(b"MZ" + bytes(0x1FC) + b"\x55\xaaHdrS" + b"\xff" * 99),
    ),
)


def _at(name: str, make: Maker) -> Maker:
    def made(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        make(root / name)

    return made


def _of_files() -> Iterator[Input]:
    for what, make in _KERNEL_FILES:
        for command in (("build",), ("boot", "--print-command")):
            arguments = ("image", *command, "--kernel", "./input")
            yield Input(f"image {command[0]} of a kernel that is {what}", arguments, _at("input", make), 2, "input")
    outputs = [pair for pair in _FILES if pair[0] not in {"a folder", "absent"}]
    for what, make in outputs:
        arguments = ("sdk", "--out", "./input")
        yield Input(f"an SDK's folder that is {what}", arguments, _at("input", make), 2, "input")
        arguments = ("image", "build", "--libc", "musl", "--out", "./input")
        yield Input(f"an image's folder that is {what}", arguments, _at("input", make), 2, "input is no folder")
    yield Input("an SDK's folder with files", ("sdk", "--out", "./input"), _at("input/a", Path.touch), 2, "not empty")


def _of_names() -> Iterator[Input]:
    for option in ("--kernel", "--arch", "--libc"):
        for command in (("image", "build"), ("image", "boot", "--print-command")):
            yield Input(
                f"{' '.join(command[:2])} {option} that forges lines",
                (*command, option, LINES),
                _nothing,
                2,
                "FORGED line",
            )
    for option in ("--arch", "--libc"):
        yield Input(
            f"sdk {option} that forges lines", ("sdk", option, LINES, "--out", "sdk"), _nothing, 2, "FORGED line"
        )
    yield Input("an age of 10^400 days", ("image", "gc", "--older-than", "9" * 400 + "d"), _nothing, 2, "")


_IMAGE = "swapstone/images/aaaaaaaaaaaaaaaaaaaa"


def _of_caches() -> Iterator[Input]:
    for name in ("image.json", "seal"):
        for what, make in _FILES[:-1]:
            both = _described(name, make)
            yield Input(f"image list with {name} that is {what}", ("image", "list"), both, 0, "damaged")
            yield Input(f"image gc with {name} that is {what}", ("image", "gc", "--dry-run"), both, 0, "unused")
    forged = _at(f"swapstone/images/{LINES.replace('/', '')[:100]}/image.json", Path.touch)
    yield Input("image list with a name that forges lines", ("image", "list"), forged, 0, "damaged")
    yield Input(
        "image gc with a name that forges lines", ("image", "gc", "--dry-run", "--older-than", "0d"), forged, 0, "x0a"
    )
    for what, make in (("a FIFO", os.mkfifo), ("a file", Path.touch), ("a link to itself", lambda p: p.symlink_to(p))):
        images = _at("swapstone/images", make)
        yield Input(f"image list of {what}", ("image", "list"), images, 0, "no images")


def _described(name: str, make: Maker) -> Maker:
    """Return what makes an entry with one hostile file, and a regular one beside it."""
    other = "seal" if name == "image.json" else "image.json"

    def made(root: Path) -> None:
        _at(f"{_IMAGE}/{other}", lambda place: place.write_text("{}"))(root)
        _at(f"{_IMAGE}/{name}", make)(root)

    return made


def _board(rest: str) -> Maker:
    """Return what makes a machine that ends each connection with a shell command."""
    return lambda root: FakeSsh(root / "board", rest)


def _of_boards() -> Iterator[Input]:
    clean = ("target", "clean", "ssh:me@board")
    answers = (
        ("nothing", "exit 0"),
        ("an endless line", "exec cat /dev/zero"),
        ("endless lines", "exec yes"),
        ("escapes", f"printf %s {shlex.quote(LINES)}; printf %s {shlex.quote(LINES)} >&2; exit 1"),
        ("endless errors", "yes >&2; exit 1"),
        ("status 255 with escapes", f"printf %s {shlex.quote(LINES)} >&2; exit 255"),
        ("another folder", "printf '\\n%s folder\\n/etc\\n\\n%s end\\n' x x"),
    )
    for what, rest in answers:
        yield Input(f"a board that answers {what}", clean, _board(rest), 2, "")
    for address in (
        "-oProxyCommand=touch owned",
        "me@",
        "",
        "a b",
        "a\nb",
        f"a{LINES}",
        "board,folder=/",
        "board,folder=../..",
        "h" * 9999,
    ):
        name = f"a board at {address[:30]!r}"
        yield Input(name, ("target", "clean", f"ssh:{address}"), _board("exit 0"), 2, "")
    for text in ("host", "fake:/dev/zero", "virtual-board", LINES, "vm", ""):
        yield Input(f"the board {text[:30]!r}", ("target", "clean", text), _board("exit 0"), 2, "")


GROUPS: dict[str, tuple[Input, ...]] = {
    "files that options name": tuple(_of_files()),
    "names": tuple(_of_names()),
    "entries of the cache": tuple(_of_caches()),
    "answers of boards": tuple(_of_boards()),
}
INPUTS = tuple(one for inputs in GROUPS.values() for one in inputs)
"""Every kind of hostile input with each command that reads it."""


def run(one: Input, root: Path) -> Found:
    """Run a command on its input in an empty folder."""
    one.make(root)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{root / 'board' / 'bin'}:{before}"
    try:
        status, text = run_limited(list(one.arguments), root)
    finally:
        os.environ["PATH"] = before
    faults = list(ended_wrongly(status, text))
    if status != one.status:
        faults.append(f"status {status}, not {one.status}")
    if one.named not in text:
        faults.append(f"nothing of {one.named!r}")
    if any(line.lstrip().startswith("FORGED") for line in text.splitlines()):
        faults.append("a line that an input forged")
    if (root / "owned").exists():
        faults.append("shell code in a name was run")
    return Found(one.name, status, tuple(faults), text)


def main() -> int:
    """Run all, or with ``--json`` print them as JSON; the exit status is 1 if one ended other than it should."""
    import_all()
    chosen = [one for one in INPUTS if all(word in one.name for word in sys.argv[1:] if word != "--json")]
    found = []
    for one in chosen:
        with tempfile.TemporaryDirectory(prefix="hostile-input-") as folder:
            found.append(run(one, Path(folder)))
        if "--json" not in sys.argv:
            print(f"{found[-1].status} {one.name!r} {'; '.join(found[-1].faults)}", flush=True)
    if "--json" in sys.argv:
        sys.stdout.buffer.write(msgspec.json.encode(found))
    return int(any(each.faults for each in found))


if __name__ == "__main__":
    result = main()
    sys.stdout.flush()
    os._exit(result)  # as in `tests.hostile`
