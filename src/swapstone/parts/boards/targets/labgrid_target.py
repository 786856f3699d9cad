# SPDX-License-Identifier: MIT OR Apache-2.0
"""A board of a lab as a target: labgrid acquires and boots it, and ssh reaches it as any other board. See docs/boards.md."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import msgspec

from swapstone.core.artifacts.cache_folder import sha256_of
from swapstone.core.factors.factor import BOOTED_ROOT
from swapstone.core.model import Experiment, FrozenStruct, UserError, refuse, undone_on_error
from swapstone.core.model.image_difference import KernelIdentity, identity_of_file, identity_of_running
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.core.targets.target import DEFAULT_MACHINE, REBOOTED, AgentStartError, MachineConfig, TargetError
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.boards.model.ssh_address import parse_ssh_address
from swapstone.parts.boards.targets.board import BoardAnswer, BoardFolder
from swapstone.parts.boards.targets.board_scripts import is_board_path, is_governor
from swapstone.parts.boards.targets.labgrid_session import LabBoard, LabPlace, LabSession, require_labgrid
from swapstone.parts.boards.targets.ssh_connection import ConnectionEndedError, UnreachableError
from swapstone.parts.boards.targets.ssh_target import SshTarget, options_of, recipe_architecture, retry
from swapstone.parts.vm.factors.kernel import OTHER_KERNEL

MOST_ROOT_BYTES = 64 << 30
"""Of an image that a strategy deploys."""

_LIBRARIES = (
    *("/lib/libc.so.[0-9]*", "/lib64/libc.so.[0-9]*", "/lib/*/libc.so.[0-9]*"),
    *("/usr/lib/libc.so.[0-9]*", "/usr/lib64/libc.so.[0-9]*", "/usr/lib/*/libc.so.[0-9]*", "/lib/ld-musl-*.so.1"),
)
_OTHERS = (
    *("/sbin/init", "/bin/sh", "/bin/busybox", "/usr/bin/busybox"),
    *("/var/lib/dpkg/status", "/lib/apk/db/installed", "/usr/lib/opkg/status", "/var/lib/opkg/status"),
)
_SYSTEM = "/etc/os-release"

ROOT_STEP = f"""show {_SYSTEM}
part root-mounts
while read -r source point type rest; do
    [ "$point" = / ] && printf '%s %s\\n' "$source" "$type"
done </proc/mounts
part root-files
for each in {" ".join((*_LIBRARIES, *_OTHERS))}; do
    [ -f "$each" ] && [ -r "$each" ] || continue
    if sum=$(sha256sum "$each" 2>/dev/null) || sum=$(cksum "$each" 2>/dev/null); then
        printf '%s %s\\n' "${{sum%% *}}" "$each"
    fi
done
:"""
"""Step of `swapstone.parts.boards.targets.board_scripts.step_script` that describes the board's root."""

_MOST_BYTES = 64 << 10  # of each part that is compared
_MOST_LINES = 64
_MOUNT = re.compile(r"[!-~]{1,200} [A-Za-z0-9_.-]{1,40}", re.ASCII)
_FILE = re.compile(r"(?P<digest>[0-9a-f]{64}|[0-9]{1,10}) (?P<path>/[A-Za-z0-9_.+/-]{1,200})", re.ASCII)
_NAMES = re.compile(r'^(?:PRETTY_NAME|NAME)=["\']?([^"\'\n]{1,100})', re.MULTILINE)


class RootIdentity(FrozenStruct, frozen=True, kw_only=True):
    """What distinguishes a root file system.

    Attributes:
        sha256: of all that was read; empty if that was too little to distinguish two roots.
        shown: its name, C library and mount, in one line that steers no terminal.
    """

    sha256: str
    shown: str


def root_identity_of(answer: BoardAnswer) -> RootIdentity:
    """Read a board's answer to `ROOT_STEP`. Lines of another form are ignored: the board may be hostile.

    Args:
        answer: decoded.
    """
    system = answer.files.get(_SYSTEM, b"")[:_MOST_BYTES]
    mounts = [line for line in _lines(answer, "root-mounts") if _MOUNT.fullmatch(line)][
        -1:
    ]  # the last one covers the others
    files = [found for line in _lines(answer, "root-files") if (found := _FILE.fullmatch(line))]
    name = _NAMES.search(system.decode(errors="replace"))
    libraries = [found for found in files if "libc.so" in found["path"] or "ld-musl" in found["path"]]
    shown = (
        safe_excerpt(name[1], 60) if name else f"no {_SYSTEM}",
        f"{libraries[0]['path']} {libraries[0]['digest'][:12]}" if libraries else "no C library",
        f"{mounts[0].split(' ')[1]} from {mounts[0].split(' ')[0]}" if mounts else "an unknown mount",
    )
    pairs = sorted({(found["path"], found["digest"]) for found in files})
    content = repr((hashlib.sha256(system).hexdigest(), mounts, pairs))
    known = bool(system or files)
    return RootIdentity(
        sha256=hashlib.sha256(content.encode()).hexdigest() if known else "", shown=safe_excerpt(", ".join(shown), 300)
    )


def _lines(answer: BoardAnswer, part: str) -> list[str]:
    return answer.parts.get(part, b"")[:_MOST_BYTES].decode("ascii", errors="replace").splitlines()[:_MOST_LINES]


class RootLevels:
    """The roots that were seen, by the level that the strategy had deployed when each was seen first.

    An image may have any format, so its content is not read here. A level is in force if the board shows what it showed after the first
    boot with this level's image, which no other level's image has shown.
    """

    def __init__(self) -> None:
        self._seen: dict[str, RootIdentity] = {}

    def learn(self, level: str, found: RootIdentity) -> None:
        """Keep what the board shows after a boot with a level's image, if it is the first one.

        Raises:
            UserError: it shows too little, or what it showed with another level's image.
        """
        if level in self._seen:
            return
        same = [other for other, seen in self._seen.items() if seen.sha256 == found.sha256]
        refuse(
            (
                not found.sha256,
                f"The root file system {safe(level)} shows neither {_SYSTEM} nor a C library: no other one can be told apart from it.",
                f"Add the file {_SYSTEM} to it, with another BUILD_ID= in each root (os-release(5)).",
            ),
            (
                same,
                f"The board shows the same root file system with {safe(''.join(same[:1]))} and with {safe(level)}: {found.shown}.",
                f"If they are different ones, give each another BUILD_ID= in {_SYSTEM} (os-release(5)). If they are not, the strategy does "
                "not deploy the image rootfs of its environment: see `swapstone docs boards`.",
            ),
        )
        self._seen[level] = found

    def level_of(self, found: RootIdentity) -> str:
        """Return the level whose root a board runs on; a description if it is of none."""
        same = (level for level, seen in self._seen.items() if seen.sha256 == found.sha256)
        return next(same, f"another root: {found.shown}")


def root_file_digest(path: str) -> str:
    """Return the SHA-256 of an image that a strategy deploys.

    Raises:
        UserError: it is no regular file, is too large, or can't be read.
    """
    file = Path(path)
    with readable(f"The root file system {safe(path)}"):
        if not file.is_file() or file.stat().st_size > MOST_ROOT_BYTES:
            raise UserError(
                f"The root file system {safe(path)} is no regular file of at most {MOST_ROOT_BYTES >> 30} GiB.",
                "Name the file that the strategy deploys, such as rootfs.ext4 or rootfs.cpio.",
            )
        return sha256_of(file)


def require_different_roots(digests: dict[str, str]) -> None:
    """Check that no two levels are the same file.

    Args:
        digests: of the files, by level.

    Raises:
        UserError: two are equal.
    """
    for first, second in itertools.combinations(digests, 2):
        if digests[first] == digests[second]:
            raise UserError(
                f"The root file systems {safe(first)} and {safe(second)} have the same content: there is nothing to compare.",
                "To learn how often a root differs from itself by chance, add --null instead.",
            )


ENVIRONMENT = "LG_ENV"
"""Variable of the environment with the path of labgrid's environment, as labgrid reads it."""

_VERSION, _NOTES, _BOOT_ID = "/proc/version", "/sys/kernel/notes", "/proc/sys/kernel/random/boot_id"
_OBSERVE = f"show {_VERSION} {_NOTES} {_BOOT_ID}"
_MOST_KERNEL_BYTES = 1 << 30
_POWER_CYCLE_AFTER = 6  # attempts to connect, which are about a minute: as long as a board needs that reboots by itself
_PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", re.ASCII)
_STATE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_ENVIRONMENT_PATH = re.compile(r"[^,\0-\x1f\x7f]{1,4000}")
_FORM = "names no place of a lab: it has the form labgrid:PLACE[,env=FILE][,state=NAME][,folder=/PATH][,governor=NAME]"
_EXAMPLE = "--target labgrid:rpi4 --lg-env lab.yaml"


class LabgridTarget(SshTarget):
    """Acquires a place, boots its board by the strategy, and runs trials there.

    A trial whose `MachineConfig` names a kernel file runs on that kernel: the strategy switches the board off, and boots that image. The
    answer has the file as ``booted`` only if the running kernel is found to be of that file, at the trial's end. The same holds for a root
    file system, whose level is found by `RootLevels`.

    Args:
        lab: the place.
        folder: on the board; empty for the default.
        governor: as of `BoardFolder`.
        architecture: as of `SshTarget`.
        kernels: files that trials may name, or names of images of labgrid's environment.
        roots: the same of root file systems.

    Attributes:
        lab: what labgrid reported.

    Raises:
        UserError: the place can't be had, or the board can't be booted or reached.
    """

    name = "labgrid"
    offers = SshTarget.offers | {"reboots"}

    def __init__(
        self,
        lab: LabPlace,
        folder: str = "",
        governor: str = "",
        architecture: str = "",
        *,
        kernels: tuple[str, ...] = (),
        roots: tuple[str, ...] = (),
    ) -> None:
        self._paths = {level: level for level in kernels if "/" in level}
        self._root_paths = {level: level for level in roots if "/" in level}
        self._read_files()
        self._root_levels = RootLevels()
        self._folder, self._governor = folder, governor
        self._kernel, self._root, self._wanted_start, self._booted_start = "", "", "", ""
        self._attempts = 0
        self._session = LabSession(
            lab,
            [level for level in kernels if level not in self._paths],
            [level for level in roots if level not in self._root_paths],
        )
        with undone_on_error(self._session.close):
            self._paths |= self.lab.kernels
            self._root_paths |= self.lab.roots
            self._read_files()
            self.emulated = self.lab.emulated
            # The ssh server of a board that has just booted may start later than its shell.
            retry(CONNECT_S, UnreachableError, lambda: SshTarget.__init__(self, self._place(), architecture))

    def _read_files(self) -> None:
        """Read what distinguishes the files of kernels and root file systems, and check that it does."""
        self._files = {level: _identity(path) for level, path in self._paths.items()}
        _require_different(self._files, self._paths)
        self._root_files = {level: root_file_digest(path) for level, path in self._root_paths.items()}
        require_different_roots(self._root_files)

    @property
    def lab(self) -> LabBoard:
        """What labgrid reported of the board."""
        return self._session.board

    @property
    def environment(self) -> str:
        """The path of labgrid's environment."""
        return self._session.place.environment

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the tools of a board, and of the lab."""
        lab = self.lab
        files = (
            (
                f"kernel {level}",
                f"{' '.join(found.build_ids) or found.versions[0]}"
                + (f", {self._paths[level]}" if self._paths[level] != level else ""),
            )
            for level, found in self._files.items()
        )
        roots = (
            (f"rootfs {level}", f"SHA-256 {digest}, {self._root_paths[level]}")
            for level, digest in self._root_files.items()
        )
        return (
            *super().tools(),
            (
                "labgrid",
                f"place {safe(lab.place)}, strategy {safe(lab.strategy) or 'none'}, state {safe(lab.state) or 'none'}",
            ),
            *((safe(name), safe_excerpt(value, 400)) for name, value in (*files, *roots)),
        )

    def begin(self, start: str) -> None:
        """Boot the board anew before the next trial that names a kernel or a root, if this start is another one than the last."""
        self._wanted_start = start

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial; see `SshTarget.run`.

        Raises:
            TargetError: the board does not boot the kernel or the root.
            UserError: two roots can't be told apart.
        """
        kernel, root = config.kernel, config.root
        if not kernel and not root:
            return super().run(request, config)
        if (kernel, root, self._wanted_start) != (self._kernel, self._root, self._booted_start):
            self._boot_images(kernel, root)
        answer = super().run(request, msgspec.structs.replace(config, kernel="", root=""))
        return msgspec.structs.replace(answer, machine=(*answer.machine, *self._running(kernel, root)))

    def _boot_images(self, kernel: str, root: str) -> None:
        """Boot a kernel and a root file system, and connect.

        Args:
            kernel: a level; empty for the kernel that was booted last.
            root: the same.

        Raises:
            TargetError: they don't boot, or ssh does not reach the board.
            UserError: the root can't be told apart from another one.
        """
        self._stop()
        self._kernel = self._root = ""
        self.board.connection.disconnect()
        folder = self.board.folder
        try:
            self._session.boot(self._paths.get(kernel, kernel), self._root_paths.get(root, root))
            self.board.move(self._place())
            self._connect_within(CONNECT_S, UnreachableError)
            self._expect_boot()
            if self.board.folder != folder:
                raise UserError(
                    f"The folder for programs there is {self.board.folder}, and was {folder} before.",
                    f"Name one that all roots have: --target {self.board.place.target},folder=/tmp/swapstone",
                )
            identity = root_identity_of(self.board.ask(ROOT_STEP)) if root else None
        except AgentStartError:
            raise
        except UserError as error:
            what = " with ".join(safe(level) for level in (kernel, root) if level)
            raise TargetError(f"{self.board.place.name} does not run {what}: {error.message}", error.hint) from error
        if identity is not None:
            self._root_levels.learn(root, identity)
        self._kernel, self._root, self._booted_start = kernel, root, self._wanted_start

    def _running(self, kernel: str, root: str) -> tuple[tuple[str, str], ...]:
        """Return what the running kernel and the root show, as far as they are varied: the level that each is of."""
        rebooted = (REBOOTED, "labgrid")
        try:
            shown = self._running_kernel(kernel) if kernel else ()
            if root:
                found = root_identity_of(self.board.ask(ROOT_STEP))
                shown = (*shown, (BOOTED_ROOT, self._root_levels.level_of(found)), ("root shows", found.shown))
        except ConnectionEndedError:
            shown = ()
        return (rebooted, *shown)

    def _running_kernel(self, kernel: str) -> tuple[tuple[str, str], ...]:
        files = self.board.ask(_OBSERVE).files
        running = identity_of_running(files.get(_VERSION, b""), files.get(_NOTES, b""))
        matching = [path for path, found in self._files.items() if found.runs(running)]
        booted = kernel if matching == [kernel] else OTHER_KERNEL
        version = safe_excerpt(running.versions[0], 400) if running.versions else ""
        return (("booted", booted), ("version", version), ("build id", "".join(running.build_ids)))

    def _before_connecting(self) -> None:
        """Switch the board off and on if it has not come back by itself."""
        self._attempts += 1
        if self._attempts % _POWER_CYCLE_AFTER == 0 and self.lab.strategy:
            self._session.boot(
                self._paths.get(self._kernel, self._kernel), self._root_paths.get(self._root, self._root)
            )
            self.board.move(self._place())

    def _place(self) -> BoardFolder:
        lab, user = self._session.board, f"{self._session.board.user}@" if self._session.board.user else ""
        host = f"[{lab.address}]" if ":" in lab.address else lab.address
        port = f":{lab.port}" if lab.port and lab.port != _SSH_PORT else ""
        found = parse_ssh_address(f"{user}{host}{port}", "is no address of an ssh server", "a NetworkService")
        return BoardFolder(
            host=found.host,
            user=found.user,
            port=found.port,
            config=lab.config,
            folder=self._folder,
            governor=self._governor,
            own_target=f"labgrid:{self._session.place.place}",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except UserError:
            if error is None:
                raise

    def close(self) -> None:
        """End the agent and the connection, and release the place."""
        try:
            super().close()
        finally:
            self._session.close()


_SSH_PORT = 22
CONNECT_S = 120.0
"""A board whose strategy has booted it must be reachable by ssh within this time."""


class LabgridSpec(FrozenStruct, frozen=True, kw_only=True):
    """A board of a lab as a target.

    Attributes:
        lab: the place.
        folder: as of `LabgridTarget`.
        governor: as of `LabgridTarget`.
        architecture: as of `LabgridTarget`.
    """

    lab: LabPlace
    folder: str = ""
    governor: str = ""
    architecture: str = ""

    def open(self, experiment: Experiment | None, notify: Notify) -> LabgridTarget:  # noqa: ARG002 - labgrid reports what it does
        """Acquire the place, and boot the board."""
        kernels, roots = (experiment.levels_of(name) if experiment else () for name in ("kernel", "rootfs"))
        return LabgridTarget(self.lab, self.folder, self.governor, self.architecture, kernels=kernels, roots=roots)


def _identity(path: str) -> KernelIdentity:
    """Read a kernel's file.

    Raises:
        UserError: it can't be read, or has neither a banner nor a build ID.
    """
    file = Path(path)
    with readable(f"The kernel {safe(path)}"):
        if not file.is_file() or file.stat().st_size > _MOST_KERNEL_BYTES:
            raise UserError(f"The kernel {safe(path)} is no regular file of at most {_MOST_KERNEL_BYTES >> 20} MiB.")
        found = identity_of_file(file.read_bytes())
    if not found.versions and not found.build_ids:
        raise UserError(
            f"{safe(path)} shows neither a banner (Linux version ...) nor a build ID: the board could not prove that it runs this file.",
            "Name an Image, zImage or bzImage, or one compressed with gzip, xz or lzma.",
        )
    return found


def _require_different(files: Mapping[str, KernelIdentity], paths: Mapping[str, str]) -> None:
    """Check that a running kernel can be of one file only.

    Args:
        files: what each level's file shows.
        paths: of the files.

    Raises:
        UserError: two files have the same banner, and no build IDs that differ.
    """
    for first, second in itertools.combinations(files, 2):
        one, two = files[first], files[second]
        ids = one.build_ids and two.build_ids and set(one.build_ids) != set(two.build_ids)
        if not ids and set(one.versions) & set(two.versions):
            raise UserError(
                f"The kernels {safe(paths[first])} and {safe(paths[second])} have the same banner, and no build IDs that differ: "
                "the board can't report which of them runs.",
                "Build them with another CONFIG_LOCALVERSION or KBUILD_BUILD_VERSION.",
            )


def parse_lab(detail: str, options: TargetOptions) -> LabgridSpec:
    """Parse what follows ``labgrid:`` in a target; see `TargetKind`.

    Raises:
        UserError: it has another form, or names no environment and `ENVIRONMENT` does not either.
        UnavailableError: labgrid is not installed.
    """
    place, named = detail.partition(",")[0], options_of(detail)
    valid = {
        "env": lambda text: bool(_ENVIRONMENT_PATH.fullmatch(text)),
        "state": lambda text: bool(_STATE.fullmatch(text)),
        "folder": is_board_path,
        "governor": is_governor,
    }
    if not _PLACE.fullmatch(place) or not all(name in valid and valid[name](value) for name, value in named.items()):
        raise UserError(f"{safe_excerpt(f'labgrid:{detail}', 200)!r} {_FORM}.", f"For example: {_EXAMPLE}")
    require_labgrid()
    path = named.pop("env", "") or os.environ.get(ENVIRONMENT, "")
    if not path:
        raise UserError(
            f"The target labgrid:{place} needs labgrid's environment, a YAML file with its targets.",
            f"Name it: --target labgrid:{place} --lg-env lab.yaml (or set {ENVIRONMENT}).",
        )
    lab = LabPlace(place=place, environment=str(Path(path).expanduser().absolute()), state=named.pop("state", "shell"))
    return LabgridSpec(
        lab=lab,
        folder=named.get("folder", ""),
        governor=named.get("governor", ""),
        architecture=recipe_architecture(options.architecture),
    )


def with_environment(target: str, path: str = "") -> str:
    """Return a target with the environment's absolute path in it, so that a record names the file with which it was made.

    Args:
        target: ``labgrid:PLACE`` with options, or another target.
        path: of ``--lg-env``; empty for that of `ENVIRONMENT`.

    Raises:
        UserError: another target is given an environment, or the path can't be a part of a target.
    """
    is_lab = target.partition(":")[0] == LABGRID.name
    if path and (not is_lab or ",env=" in target):
        what = "the target names its environment already" if is_lab else "the target is none of a labgrid lab"
        raise UserError(f"--lg-env names labgrid's environment, and {what}.", f"For example: {_EXAMPLE}")
    path = path or os.environ.get(ENVIRONMENT, "")
    if not is_lab or not path or ",env=" in target:
        return target
    whole = str(Path(path).expanduser().absolute())
    if not _ENVIRONMENT_PATH.fullmatch(whole):
        raise UserError(
            f"The path {safe(whole)!r} has a comma or a control character.", "Rename the file or its folder."
        )
    return f"{target},env={whole}"


LABGRID = TargetKind(
    name="labgrid",
    description="a board of a lab, which labgrid acquires and boots",
    opens=LabgridTarget,
    parse=parse_lab,
    usage="labgrid:PLACE",
    usages=(("labgrid:PLACE", "a board of a labgrid lab: it is acquired, booted by its strategy, and released"),),
    has_architectures=True,
    file_option="env",
    does=lambda detail: (
        f"run the Python code that labgrid's environment imports ({detail.partition(',env=')[2].partition(',')[0] or ENVIRONMENT}), "
        f"acquire and boot the board {detail.partition(',')[0]}, and run the programs of trials there by ssh"
    ),
)
