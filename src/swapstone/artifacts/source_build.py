"""Building a program of the user's own: one copy of the sources for each variant, built there by the user's command."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from swapstone.artifacts.placeholders import fill
from swapstone.artifacts.program_size import sizes_of
from swapstone.artifacts.source_tree import copy_sources, digest_tree, sha256_of
from swapstone.artifacts.tool_versions import compiler_identity
from swapstone.artifacts.workload_build import BASE_RECIPE, Built
from swapstone.factors import Recipe, read_facts
from swapstone.model import FrozenStruct, OwnProgram, UnavailableError, UserError
from swapstone.model.directories import cache_dir

OWN_RECIPE = Recipe(
    # What most projects build with, and nothing that may break one. The switches are recorded so that the optimisation that was
    # really used can be read from the program.
    cflags=("-O2", "-g0", "-frecord-gcc-switches"),
    environment=BASE_RECIPE.environment,
)

LAST_LINES = 15
_EPOCH = "315532800"  # 1980-01-01: for SOURCE_DATE_EPOCH, so that equal sources give equal programs
_NAMED = 8  # so many of the programs that a build left are named

KeepLog = Callable[[bytes], str]
"""Keeps a build's log and returns where."""


class Made(FrozenStruct, frozen=True, kw_only=True):
    """What a finished build is remembered by.

    Attributes:
        tree: digest of the copy as the build left it.
        log: what the build printed.
    """

    tree: str
    log: str


class OwnBuilder:
    """Builds the user's program for one variant after another.

    Args:
        own: says what to build, from what, and how.
        rebuild: whether to build anew what was built before.

    Raises:
        UserError: a source can't be read.
    """

    def __init__(self, own: OwnProgram, *, rebuild: bool = False) -> None:
        self._own = own
        self._source = Path(own.source)
        self._rebuild = rebuild
        self._sources = digest_tree(self._source)

    def build(self, recipe: Recipe, keep_log: KeepLog) -> Built:
        """Build the program for one variant, or take it from the cache.

        A copy that was changed since it was built (its program writes beside itself, say) is put back to what it was.

        Args:
            recipe: compiler and flags, the levels applied and provided.
            keep_log: called with what the build printed, also when it fails.

        Raises:
            UnavailableError: the compiler is not there.
            UserError: the build failed or took too long; the message ends with the last lines of its log.
        """
        if shutil.which(recipe.command[0]) is None:
            raise UnavailableError(
                f"The compiler {recipe.command[0]!r} is not installed.", "`swapstone doctor` says what is missing."
            )
        command = fill(self._own.build, _values(recipe))
        parts = ("own 1", self._sources, command, self._own.command[0], *sorted(map("=".join, _environment().items())))
        address = "\n".join((*parts, compiler_identity(recipe.command)))
        home = cache_dir().resolve() / "own" / sha256(address.encode(errors="surrogateescape")).hexdigest()[:32]
        with _alone_in(home) as alone:
            made = None if self._rebuild and alone else _made(home)
            if made is None and not alone:
                raise _in_use(home)
            if made is None:
                made = self._build(home, command, keep_log)
            else:
                keep_log(made.log.encode())
                if digest_tree(home / "tree", everything=True) != made.tree:
                    _put_back(home, alone=alone)
        return self._built(home / "tree", command)

    def _build(self, home: Path, command: str, keep_log: KeepLog) -> Made:
        """Build in the final place, because many builds write their own path into what they make."""
        shutil.rmtree(home, ignore_errors=True)
        tree = home / "tree"
        copy_sources(self._source, tree)
        status, said = _run(command, tree, self._own.build_timeout_ms / 1000)
        log = f"in {tree}\n$ {command}\n".encode() + said
        kept = keep_log(log)
        if status != 0:
            what = f"did not end within {self._own.build_timeout_ms / 1000:g} s" if status is None else "failed"
            last = (
                "\n".join(said.decode(errors="replace").rstrip().splitlines()[-LAST_LINES:]) or "(it printed nothing)"
            )
            raise UserError(
                f"The build {what}: {command}\n{last}\nThe whole log: {kept}",
                "--build-timeout gives it more time."
                if status is None
                else "Try the command in a copy of the sources.",
            )
        self._check(tree, kept)
        copy_sources(tree, home / "built", everything=True)
        made = Made(tree=digest_tree(tree, everything=True), log=log.decode(errors="replace"))
        (home / "made.json.new").write_bytes(made.encoded())
        (home / "made.json.new").rename(home / "made.json")
        return made

    def _check(self, tree: Path, log: str) -> None:
        """Check that the program is there and came from the build."""
        typed = self._own.command[0]
        program = tree / typed
        if not program.is_file():
            there = ", ".join(_programs_in(tree)) or "none"
            raise UserError(
                f"The build left no program {typed}. The programs in its copy: {there}.\nThe whole log: {log}",
                "Name the program after -- by its path inside the sources; one of the system by its whole path.",
            )
        if not os.access(program, os.X_OK):
            raise UserError(
                f"What the build left as {typed} can't be executed.\nThe whole log: {log}",
                f"Let the build do it: --build '... && chmod +x {shlex.quote(typed)}'",
            )
        before = self._source / typed
        same = before.is_file() and before.stat().st_mtime_ns == program.stat().st_mtime_ns
        if same and program.is_relative_to(tree) and read_facts(program) is not None:
            raise UserError(
                f"The build left {typed} as it was in the sources: it had been built there already.\nThe whole log: {log}",
                "Let the build begin from nothing: --build 'make clean && make ...'",
            )

    def _built(self, tree: Path, command: str) -> Built:
        program = (tree / self._own.command[0]).resolve()
        sizes = own_sizes(program)
        digest = sha256_of(program)
        return Built(program, digest, command, (("sources", self._sources),), sizes, read_facts(program), tree)


def own_sizes(program: Path) -> tuple[tuple[str, int], ...]:
    """Return a program's sizes in bytes as `sizes_of` does, stripped like our own; none for a script."""
    if read_facts(program) is None:
        return ()
    with tempfile.TemporaryDirectory(prefix="swapstone-strip-") as folder:
        stripped = Path(folder) / "stripped"
        command = ["strip", "--strip-all", "-o", str(stripped), str(program)]
        with contextlib.suppress(OSError):
            subprocess.run(command, capture_output=True, check=False, timeout=60)
        return sizes_of(stripped if stripped.is_file() else program)


def _values(recipe: Recipe) -> dict[str, str]:
    """Return what the placeholders stand for. Make and other shells read them once more, so words are quoted where they must be."""
    return {
        "cc": shlex.join(recipe.command),
        "cflags": shlex.join(recipe.cflags),
        "ldflags": shlex.join(recipe.ldflags),
        "jobs": str(os.cpu_count() or 1),
    }


def _environment() -> dict[str, str]:
    """Return all that a build finds: what else the user has set must not decide what is built."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C", "SOURCE_DATE_EPOCH": _EPOCH}


def _run(command: str, folder: Path, timeout_s: float) -> tuple[int | None, bytes]:
    """Run a build to its end; return its exit status, None when it took too long, and what it printed."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what a build that ended well has left behind
            process.wait()
        output.seek(0)
        return status, output.read()


def _programs_in(tree: Path) -> list[str]:
    found = [path for path in sorted(tree.rglob("*")) if path.is_file() and os.access(path, os.X_OK)]
    programs = [path for path in found if read_facts(path) is not None] or found
    names = [f"./{path.relative_to(tree)}" for path in programs]
    return [*names[:_NAMED], *(["..."] if len(names) > _NAMED else [])]


def _made(home: Path) -> Made | None:
    try:
        return msgspec.json.decode((home / "made.json").read_bytes(), type=Made)
    except (OSError, msgspec.DecodeError):
        return None  # never finished, or of another version of Swapstone


def _in_use(home: Path) -> UserError:
    return UserError(f"Another comparison uses {home}, with the same sources and flags.", "Wait for it to end.")


def _put_back(home: Path, *, alone: bool) -> None:
    if not alone:
        raise _in_use(home)
    shutil.rmtree(home / "tree")
    copy_sources(home / "built", home / "tree", everything=True)


_held: dict[Path, int] = {}
"""Open lock files of the copies that this process uses; they are released when it ends."""


@contextlib.contextmanager
def _alone_in(home: Path) -> Iterator[bool]:
    """Lock a copy: nobody else may build it or put it back while this process lives. Yields whether nobody else uses it now.

    Raises:
        UserError: the cache can't be written.
    """
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        lock = _held.setdefault(home, -1)
        if lock < 0:
            lock = _held[home] = os.open(f"{home}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(
            f"The copy {home} can't be made: {error.strerror}.",
            "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
        ) from error
    alone = True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        alone = False
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits while another process builds it
    try:
        yield alone
    finally:
        fcntl.flock(lock, fcntl.LOCK_SH)
