# SPDX-License-Identifier: MIT OR Apache-2.0
"""The interface to a guest: its order, the archive that is appended to its image, and its report (docs/virtual-machines.md)."""

from __future__ import annotations

import hashlib
import re
import stat
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from swapstone.core.factors import ProgramFacts
from swapstone.core.model import FrozenStruct, UserError, WireError
from swapstone.core.model.cpio import Entry, archive, device, file, folder, link, tree
from swapstone.core.model.directories import share_dir
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.carried_files import CarriedFiles, check_place
from swapstone.core.wire import AgentAnswer, decode_answers, encode_text
from swapstone.core.wire.protocol_words import AGENT_HEADER, GUEST_HEADER, ORDER_HEADER
from swapstone.parts.build.artifacts.program_closure import host_tree, is_musl, resolve_closure
from swapstone.parts.vm.artifacts.root_file_systems import resolve_inside

_MAX_IDLE_NS = 4_000_000_000
_MAX_DELAY_NS = 100_000_000
_LAYOUTS = (1 << 62) - 1


def perturbation(replicate: int) -> dict[str, int]:
    """Return the inputs that make a replicate differ from others: lines of the order, and so part of the run's name.

    They are ``layout``, the seed of the memory layout (native/guest/layout.c), below 2^62, of which 0 leaves it as it is; ``idle-ns``, how
    long the machine is idle before the order's commands: up to 4 s, the longest period of what an idle kernel does regularly (its watchdog
    for soft lockups); and ``delay-ns``, the delay before the agent starts, after the commands: less than 100 ms, several ticks of a
    kernel's clock and any fraction of one.

    Args:
        replicate: its number. Replicate 0 has no perturbation.
    """
    if replicate == 0:
        return {"layout": 0, "idle-ns": 0, "delay-ns": 0}
    return {
        "layout": 1 + _number(f"layout {replicate}") % _LAYOUTS,
        "idle-ns": _number(f"idle {replicate}") % _MAX_IDLE_NS,
        "delay-ns": _number(f"draw {replicate}") % _MAX_DELAY_NS,
    }


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def block_of(identity: str) -> int:
    """Return the block of a trial's identifier ``BLOCK-POSITION``; 0 for other identifiers."""
    difference = re.match(r"([0-9]{1,9})-", identity)
    return int(difference[1]) if difference else 0


def resolve(tree: Mapping[str, Entry], path: str) -> str:
    """Return a path of an image without links, relative to the root; parts that don't exist stay as they are."""

    def target(here: str) -> str | None:
        entry = tree.get(here)
        if entry is None or not stat.S_ISLNK(entry.mode):
            return None
        return entry.content.decode(errors="surrogateescape")

    return resolve_inside(path, target) or ""


def find(tree: Mapping[str, Entry], path: str) -> Entry | None:
    """Return the file at a path of an image, following links; None if there is none."""
    found = tree.get(resolve(tree, path))
    return found if found is not None and stat.S_ISREG(found.mode) else None


def placed(image: Mapping[str, Entry], carried: CarriedFiles) -> dict[str, Entry]:
    """Return the entries that put files into an image.

    Folders of their paths may be links in the image, such as ``/usr``, and are followed. A file that the image has already is left out;
    another file at that path is replaced.

    Args:
        image: its entries by path.
        carried: to add.

    Raises:
        UserError: a file would replace a folder of the image, or lie below a file of it.
    """
    tree, added = dict(image), dict[str, Entry]()

    def put(path: str, entry: Entry) -> None:
        parent, _, name = path.rpartition("/")
        above = resolve(tree, parent)
        key = f"{above}/{name}".lstrip("/")
        parts = key.split("/")
        for depth in range(1, len(parts)):
            here = tree.setdefault("/".join(parts[:depth]), folder())
            if not stat.S_ISDIR(here.mode):
                raise UserError(
                    f"{safe(path)} can't be put into the machine: /{'/'.join(parts[:depth])} is no folder there."
                )
        before = tree.get(key)
        if before == entry:
            return
        if before is not None and stat.S_ISDIR(before.mode):
            raise UserError(f"{safe(path)} can't be put into the machine: it is a folder there.")
        tree[key] = added[key] = entry

    for path in sorted(carried.files):
        put(path, carried.files[path])
    for path, real in sorted(carried.aliases.items()):
        if resolve(tree, path) != resolve(tree, real):
            put(path, link(real))
    for path in sorted(carried.folders):
        key = resolve(tree, path)
        if key and key not in tree:
            put(f"/{key}", folder())
    return added


SCRATCH = "/scratch"
ROOTS = "/roots"
"""Where the root file systems of own programs are."""

MAX_ORDER_BYTES = 2 << 20
"""The limit of native/guest/init.c."""

_PAGE_BYTES = 4096
_HEADER = GUEST_HEADER + b"\n"
_AGENT = AGENT_HEADER + b"\n"
_AFTER = b"swapstone-after 1\n"
_END = b"swapstone-end\n"
_WORDS = ("system", "release", "version", "machine")
_FILES = {"file": "", "before": "before ", "after": "after "}
_ENDS = ("prepare", "beside")
_SMALL = re.compile("[0-9]{1,9}")
_KILLED = 256  # a higher status is this plus a signal
_PATH_BYTES, _LONG_PATH_BYTES, _LONGEST_NAME = 80, 320, 240
_SHORT_NAME = 48
PROGRAMS = "/programs/"
_FOLDERS = ("proc", "sys", "dev", "tmp", SCRATCH.lstrip("/"))
_SCRIPTS = "swapstone"


class EndedCommand(FrozenStruct, frozen=True, kw_only=True):
    """A command of an order that failed or ended too early.

    Attributes:
        kind: ``prepare`` or ``beside``.
        number: its index among those of its kind, from 0.
        status: its exit status, or 256 plus the signal that killed it.
        words: the end of its output.
    """

    kind: str
    number: int
    status: int
    words: str = ""

    def description(self) -> str:
        """Return how it ended, with the last line of its output."""
        how = f"was killed by signal {self.status - _KILLED}" if self.status >= _KILLED else f"ended with {self.status}"
        last = next((line for line in reversed(self.words.splitlines()) if line.strip()), "")
        return f"{how}; {f'its last output: {last.strip()[:200]!r}' if last else 'it printed nothing'}"


class GuestReport(FrozenStruct, frozen=True, kw_only=True):
    """A guest's description of itself.

    Attributes:
        system, release, version, machine: of uname(2).
        clock_ns: its monotonic clock after it read its order; one more instruction changes it.
        files: pairs (path, content); of counters the keys are ``before PATH`` and ``after PATH``, read before and after the plan.
        ended: commands of the order that failed or ended before the plan.
    """

    system: str
    release: str
    version: str
    machine: str
    clock_ns: int
    files: tuple[tuple[str, str], ...]
    ended: tuple[EndedCommand, ...] = ()

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return all except `ended` as pairs (name, text)."""
        return (*((word, getattr(self, word)) for word in _WORDS), ("clock", str(self.clock_ns)), *self.files)

    def file(self, path: str) -> str:
        """Return a file's content, or an empty text."""
        return dict(self.files).get(path, "")


def encode_order(
    plan: bytes,
    *,
    replicate: int,
    limit_ms: int,
    reports: Iterable[str] = (),
    files: Iterable[tuple[str, bytes]] = (),
    prepare: Iterable[str] = (),
    beside: Iterable[str] = (),
    settle_ms: int = 0,
) -> bytes:
    """Return an order, padded to whole pages, so that reading it always takes equally long.

    Args:
        plan: for the agent; it ends with ``quit``.
        replicate: number of the replicate.
        limit_ms: limit of the agent's time, in guest time.
        reports: paths of files that the guest reports before all commands.
        files: pairs (absolute path, content), written before the commands run.
        prepare: shell commands that run one after another before the plan.
        beside: shell commands that run during the plan.
        settle_ms: how long those run before the plan begins.

    Raises:
        WireError: it is larger than a guest can read, or a text can't be encoded.
    """
    numbers = {**perturbation(replicate), "limit-ms": limit_ms, "settle-ms": settle_ms}
    order = ORDER_HEADER + b"\n" + b"".join(b"%s %d\n" % (name.encode(), number) for name, number in numbers.items())
    order += b"".join(b"report " + encode_text(path) + b"\n" for path in reports)
    order += b"".join(b"write %s %s\n" % (path.encode(), data.hex().encode()) for path, data in files)
    for word, texts in ((b"prepare ", prepare), (b"beside ", beside)):
        order += b"".join(word + encode_text(command) + b"\n" for command in texts)
    order += plan
    if len(order) > MAX_ORDER_BYTES - _PAGE_BYTES:
        raise WireError(f"The plan has {len(plan)} bytes, more than a virtual machine accepts.")
    return order + b"\n" * (-len(order) % _PAGE_BYTES)


def guest_path(program: Path, digest: str) -> str:
    """Return the path of a program in a guest. All paths are equally long, except those with very long names.

    Args:
        program: its file on this machine.
        digest: of its content and of the files beside it, at least 64 characters; it pads the path.

    Raises:
        UserError: its name is too long.
    """
    name = program.name
    size = len(name.encode())
    if size > _LONGEST_NAME:
        raise UserError(f"The name of {program} is too long for a virtual machine.", "Give it a shorter one.")
    room = (_PATH_BYTES if size <= _SHORT_NAME else _LONG_PATH_BYTES) - len(PROGRAMS) - 1 - size
    return f"{PROGRAMS}{(digest * 5)[:room]}/{name}"


def read_root(folder: Path) -> dict[str, Entry]:
    """Read an unpacked root file system.

    Raises:
        UserError: a name in it is not UTF-8, which an image can't contain.
    """
    entries = tree(folder)
    for name in entries:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"The root file system has a file whose name is not UTF-8: {name!a}.", "Remove it from the root."
            ) from error
    return entries


def overlay(
    init: bytes,
    agent: bytes,
    others: Mapping[str, Entry],
) -> bytes:
    """Return the archive that is appended to an image: first process, agent and scripts.

    Args:
        init: the first process.
        agent: the agent.
        others: more entries, by path relative to the root.
    """
    entries = {name: folder() for name in _FOLDERS}
    entries |= {"dev/console": device(5, 1), "init": file(init, executable=True), "agent": file(agent, executable=True)}
    scripts = sorted((share_dir() / "native" / "guest").glob("*.sh"))
    entries |= {_SCRIPTS: folder()} if scripts else {}
    entries |= {f"{_SCRIPTS}/{path.name}": file(path.read_bytes(), executable=True) for path in scripts}
    return archive(entries | dict(others))


_MUSL = "libc.so"  # its loader

# musl's loader is also the C library, and resolves these names to itself (ldso/dynlink.c, load_library).
_IS_MUSL_ITSELF = re.compile(r"lib(c|pthread|rt|m|dl|util|xnet)\.")


def missing_libraries(facts: ProgramFacts, neighbours: Iterable[str], image: Mapping[str, Entry]) -> tuple[str, ...]:
    """Return the loader and the shared objects that a dynamic program needs and an image lacks.

    Args:
        facts: of the program.
        neighbours: names of the files in its folder.
        image: entries by path.
    """
    names = {PurePosixPath(path).name for path in image} | set(neighbours)
    musl = is_musl(facts.interp or "")
    needed = [name for name in facts.needed if not (musl and _IS_MUSL_ITSELF.match(name))]
    missing = [name for name in needed if "/" not in name and name not in names | {_MUSL}]
    if facts.interp and find(image, facts.interp) is None:
        missing.insert(0, facts.interp)
    return tuple(missing)


def own_loader(facts: ProgramFacts | None, image: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return a program's loader and shared objects, at their own paths, if an image lacks the loader and this machine has it.

    It is that of a C library in a folder of this machine.

    Args:
        facts: of the program; its path is one of this machine.
        image: entries by path.

    Raises:
        UserError: a file can't be read, or can't be at its path in a machine.
    """
    if facts is None or not facts.interp or find(image, facts.interp) or not Path(facts.interp).is_file():
        return {}
    paths = resolve_closure(facts.path, host_tree(lambda path: Path(path).read_bytes())).files
    for path in (others := [path for path in paths if path != facts.path]):
        check_place(path)
    return {path: file(Path(path).read_bytes(), executable=True) for path in others}


def decode_channel(output: bytes) -> tuple[GuestReport, tuple[AgentAnswer, ...]]:
    """Decode the output of a guest's channel.

    Args:
        output: of the channel; bytes before the first line of the guest are ignored.

    Raises:
        WireError: it does not follow docs/virtual-machines.md.
    """
    _, mark, rest = output.rpartition(_HEADER)
    rest, end, _ = rest.rpartition(_END)
    report, agent, answers = rest.partition(_AGENT)
    answers, after, last = answers.rpartition(_AFTER)
    if not mark:
        raise WireError("The guest did not describe itself.")
    if not end or (agent and (not after or not answers.endswith(b"\n"[: len(answers)]))):
        raise WireError("The guest's output is truncated.")
    guest_report = _decode_report(report + last)
    if any(ended.kind == "prepare" for ended in guest_report.ended) and not agent:
        return guest_report, ()
    if not agent:
        raise WireError("The guest did not start its agent.")
    return guest_report, decode_answers(agent + answers) if answers else ()


def _decode_report(output: bytes) -> GuestReport:
    words: dict[str, str] = {}
    files: list[tuple[str, str]] = []
    ended: list[EndedCommand] = []
    clock_ns: int | None = None
    for line in output.decode("ascii", "replace").splitlines():
        word, _, rest = line.partition(" ")
        first, _, second = rest.partition(" ")
        if word in _FILES:
            files.append((_FILES[word] + first, _decoded(second)))
        elif word == "words" and ended:
            ended[-1] = msgspec.structs.replace(ended[-1], words=_decoded(second))
        elif word in _ENDS and _SMALL.fullmatch(first) and _SMALL.fullmatch(second):
            ended.append(EndedCommand(kind=word, number=int(first), status=int(second)))
        elif word == "clock" and clock_ns is None and re.fullmatch("[1-9][0-9]{0,18}", rest):
            clock_ns = int(rest)
        elif word in _WORDS and word not in words:
            words[word] = _decoded(rest)
        else:
            raise WireError(f"The guest wrote {line[:60]!r}, which is no line of a guest.")
    if missing := [word for word in _WORDS if word not in words]:
        raise WireError(f"The guest did not report its {missing[0]}.")
    if clock_ns is None:
        raise WireError("The guest did not report its clock.")
    return GuestReport(**words, clock_ns=clock_ns, files=tuple(files), ended=tuple(ended))


def _decoded(text: str) -> str:
    return "" if text == "%" else urllib.parse.unquote(text, errors="backslashreplace")
