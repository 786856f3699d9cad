"""The packages that images are made of: the lock that pins them, the cache that keeps them, and reading what is in them."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from swapstone.artifacts.apt import Apt, GoneError, writing
from swapstone.model import FrozenStruct, UnavailableError, UserError
from swapstone.model.directories import cache_dir, share_dir

LOCK_VERSION = 1
MOST_LINKS = 20
Progress = Callable[[str], None]
"""Told what is being done, a line at a time."""


class Package(FrozenStruct, frozen=True, kw_only=True):
    """One package of the lock.

    Attributes:
        architecture: Debian's name.
        name: the package's.
        version: exact.
        sha256: of its file.
        size_bytes: of its file.
        kernel: the name of the kernel that it holds, or empty.
        headers: names of the kernels whose modules are built with it.
        source: what it is for when a kernel is built from source, ``tree``, ``patches`` or ``tool``; or empty.
        needs: sonames that what is used of it asks for.
        objects: soname to path, of the shared objects that are used of it.
    """

    architecture: str
    name: str
    version: str
    sha256: str
    size_bytes: int
    kernel: str = ""
    headers: tuple[str, ...] = ()
    source: str = ""
    needs: tuple[str, ...] = ()
    objects: dict[str, str] = msgspec.field(default_factory=dict)


class Lock(FrozenStruct, frozen=True, kw_only=True):
    """Which packages images are made of.

    Attributes:
        version: of the lock's format.
        packages: of all architectures.
        unavailable: architecture, or architecture and kernel, to the reason why the lock hasn't it.
    """

    version: int
    packages: tuple[Package, ...]
    unavailable: dict[str, str] = msgspec.field(default_factory=dict)

    def of(self, architecture: str) -> tuple[Package, ...]:
        """Return the packages of one architecture.

        Raises:
            UnavailableError: there are none.
        """
        found = tuple(package for package in self.packages if package.architecture == architecture)
        if not found:
            reason = self.unavailable.get(architecture, "the lock names no package for it")
            raise UnavailableError(
                f"There are no images for {architecture}: {reason}.",
                "`swapstone image lock` renews the lock from what the archive has.",
            )
        return found


def lock_path() -> Path:
    """Return the file that the lock is in."""
    return share_dir() / "native" / "images" / "lock.toml"


def read_lock(path: Path | None = None) -> Lock:
    """Read the lock.

    Raises:
        UserError: it isn't there, or isn't a lock.
    """
    path = path or lock_path()
    hint = "`swapstone image lock` writes a new one."
    try:
        lock = msgspec.convert(tomllib.loads(path.read_text()), Lock)
    except OSError as error:
        raise UserError(f"The lock {path} can't be read: {error.strerror}.", hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The lock {path} is damaged: {error}.", hint) from error
    if lock.version != LOCK_VERSION:
        raise UserError(f"The lock {path} has version {lock.version}; this program reads {LOCK_VERSION}.", hint)
    return lock


def write_lock(lock: Lock, path: Path | None = None) -> None:
    """Write a lock as TOML.

    Raises:
        UserError: the file can't be written.
    """
    path = path or lock_path()
    lines = [
        "# The packages that images for virtual machines are made of. Written by `swapstone image lock`; do not edit.",
        f"version = {lock.version}",
        "",
        "[unavailable]",
        *(f"{_quoted(name)} = {_quoted(why)}" for name, why in sorted(lock.unavailable.items())),
    ]
    for package in lock.packages:
        lines += ["", "[[packages]]"]
        for name, value in msgspec.structs.asdict(package).items():
            if isinstance(value, dict):
                pairs = ", ".join(f"{_quoted(soname)} = {_quoted(where)}" for soname, where in sorted(value.items()))
                lines += [f"{name} = {{ {pairs} }}"] if pairs else []
            elif isinstance(value, tuple):
                lines += [f"{name} = [{', '.join(map(_quoted, value))}]"] if value else []
            elif value != "":
                lines.append(f"{name} = {value if isinstance(value, int) else _quoted(value)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
    except OSError as error:
        raise UserError(f"The lock {path} can't be written: {error.strerror}.") from error


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()  # a JSON string is a TOML basic string


def package_file(sha256: str) -> Path:
    """Return where the cache keeps a package's file."""
    return cache_dir() / "packages" / f"{sha256}.deb"


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def fetch(packages: Sequence[Package], progress: Progress) -> None:
    """Put packages of one architecture into the cache, checked against their digests.

    Args:
        packages: what is wanted; what the cache has whole is not fetched again.
        progress: told of each download.

    Raises:
        GoneError: the archive no longer has one of them in the locked version.
        UserError: a download failed, has other content than the lock says, or the cache can't be written.
        UnavailableError: there is no apt-get here.
    """
    missing = [package for package in packages if not _whole(package, progress)]
    if not missing:
        return
    apt = Apt(missing[0].architecture)
    size = sum(package.size_bytes for package in missing) / 1e6
    progress(f"downloading {len(missing)} packages for {apt.architecture}, {size:.0f} MB")
    home = package_file("").parent
    with writing(home), apt.alone(), tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as temporary:
        _download(apt, missing, Path(temporary), progress)
        for package in missing:
            _keep(package, Path(temporary))


def _whole(package: Package, progress: Progress) -> bool:
    path = package_file(package.sha256)
    if not path.is_file():
        return False
    if sha256_of(path) == package.sha256:
        with contextlib.suppress(OSError):  # a cache that can only be read is good enough
            path.touch()  # `swapstone image gc` goes by the last use
        return True
    progress(f"{package.name} in the cache is damaged: it is fetched again")
    return False


def _download(apt: Apt, missing: Sequence[Package], folder: Path, progress: Progress) -> None:
    wanted = [(package.name, package.version) for package in missing]
    try:
        apt.download(wanted, folder)
        return
    except UserError:
        pass  # the lists may be older than the lock or the archive, or there are none yet
    progress(f"fetching the lists of packages for {apt.architecture}")
    trouble = apt.update()
    try:
        apt.download(wanted, folder)
    except GoneError as error:
        also = f" Some of its lists could not be fetched: {trouble}" if trouble else ""
        raise GoneError(
            error.message + also,
            "`swapstone image lock` renews the lock from what the archive has now; images made from it get other digests.",
        ) from error


def _keep(package: Package, folder: Path) -> None:
    """Check a downloaded package and move it to its place in the cache."""
    files = sorted(folder.glob(f"{package.name}_*.deb"))
    found = [path for path in files if sha256_of(path) == package.sha256]
    if not found:
        said = f"has SHA-256 {sha256_of(files[0])}" if files else "was not downloaded"
        raise UserError(
            f"{package.name} {package.version} for {package.architecture} {said}; the lock says {package.sha256}.",
            "The archive replaced the file, or the lock is wrong: `swapstone image lock` renews it.",
        )
    found[0].rename(package_file(package.sha256))


class Contents:
    """What is in a package: a context manager, since it unpacks to a temporary file.

    Paths are relative to the root and without a leading ``usr/``, which an image doesn't have.

    Args:
        path: the package's file.
        folder: where the temporary file goes.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, self._folder = path, folder

    def __enter__(self) -> Contents:
        """Unpack the package.

        Raises:
            UserError: it is no package, or is damaged.
            UnavailableError: there is no dpkg-deb here.
        """
        if shutil.which("dpkg-deb") is None:
            raise UnavailableError(
                "There is no dpkg-deb on this machine: packages can't be unpacked.",
                "Build the image on a Debian or Ubuntu machine.",
            )
        self._file = tempfile.TemporaryFile(dir=self._folder)
        result = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(self._path)], stdout=self._file, stderr=subprocess.PIPE, check=False
        )
        if result.returncode != 0:
            self._file.close()
            said = result.stderr.decode(errors="replace").strip().splitlines()
            raise UserError(f"{self._path.name} can't be unpacked: {said[0] if said else 'no reason given'}.")
        self._file.seek(0)
        self._tar = tarfile.open(fileobj=self._file, mode="r:")
        self._members = {plain_path(member.name): member for member in self._tar.getmembers()}
        return self

    def __exit__(self, *_: object) -> None:
        """Close the temporary file."""
        self._tar.close()
        self._file.close()

    def names(self) -> Iterable[str]:
        """Return the paths of all files, links and folders."""
        return self._members.keys()

    def find(self, pattern: str) -> str:
        """Return the one path that a pattern matches.

        Raises:
            UserError: none does, or several do.
        """
        found = [name for name in self._members if fnmatchcase(name, pattern)]
        if len(found) != 1:
            raise UserError(f"{self._path.name} holds {len(found)} files like {pattern}: one was expected.")
        return found[0]

    def resolve(self, name: str) -> str | None:
        """Follow links inside the package; None where they lead out of it or nowhere."""
        for _ in range(MOST_LINKS):
            member = self._members.get(name)
            if member is None or not member.issym():
                return name if member is not None and member.isfile() else None
            name = plain_path(posixpath.join("/" + posixpath.dirname(name), member.linkname))
        return None

    def read(self, name: str) -> tuple[bytes, bool]:
        """Return a file's content, links followed, and whether it is executable.

        Raises:
            UserError: it isn't there.
        """
        resolved = self.resolve(name)
        if resolved is None:
            raise UserError(f"{self._path.name} has no file {name}.")
        member = self._members[resolved]
        handle = self._tar.extractfile(member)
        assert handle is not None  # it is a file
        return handle.read(), bool(member.mode & 0o100)


def plain_path(path: str) -> str:
    """Return a path of a package as an image has it: relative, normal, and without ``usr/``."""
    normal = posixpath.normpath("/" + path).lstrip("/")
    return normal.removeprefix("usr/")
