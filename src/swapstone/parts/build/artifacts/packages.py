# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packages for images: the lock that pins them, the cache that stores them, and reading their contents."""

from __future__ import annotations

import contextlib
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import sha256_of, writable_folder
from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.regular_file import read_toml
from swapstone.parts.build.artifacts.apt import Apt, PackageGoneError
from swapstone.parts.build.artifacts.mirror import from_mirror
from swapstone.parts.build.artifacts.snapshot import Archives, from_other_archives

LOCK_VERSION = 1
MOST_LINKS = 20
Progress = Callable[[str], None]
"""Called with a line of text for each step."""


class Package(FrozenStruct, frozen=True, kw_only=True):
    """A package of the lock.

    Attributes:
        architecture: its Debian name.
        name: of the package.
        version: exact.
        sha256: digest of the file.
        size_bytes: size of the file.
        kernel: name of the kernel in the package, or empty.
        headers: names of the kernels whose modules are built with it.
        builds: the C library whose headers and objects it contains, to build programs for its architecture: ``musl``; or empty.
        debug: the package whose symbols it contains, to name functions: ``libc6``; or empty.
        needs: sonames that its used files depend on.
        objects: paths of its used shared objects, by soname.
    """

    architecture: str
    name: str
    version: str
    sha256: str
    size_bytes: int
    kernel: str = ""
    headers: tuple[str, ...] = ()
    builds: str = ""
    debug: str = ""
    needs: tuple[str, ...] = ()
    objects: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def in_images(self) -> bool:
        """Whether images can contain its files."""
        return not (self.headers or self.builds or self.debug)

    @property
    def file_name(self) -> str:
        """The name that apt-get gives to the file."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


class Lock(FrozenStruct, frozen=True, kw_only=True):
    """The packages from which images are built.

    Attributes:
        version: of the lock's format.
        packages: of all architectures.
        unavailable: why the lock lacks an architecture, or a kernel of an architecture.
    """

    version: int
    packages: tuple[Package, ...]
    unavailable: dict[str, str] = msgspec.field(default_factory=dict)

    def of(self, architecture: str) -> tuple[Package, ...]:
        """Return the packages of one architecture.

        Raises:
            UnavailableError: the lock has none.
        """
        found = tuple(package for package in self.packages if package.architecture == architecture)
        if not found:
            reason = self.unavailable.get(architecture, "the lock has no package for it")
            raise UnavailableError(
                f"There are no images for {architecture}: {reason}.",
                "Update the lock from the archive: swapstone image lock",
            )
        return found


def lock_path() -> Path:
    """Return the path of the lock."""
    return share_dir() / "native" / "images" / "lock.toml"


def read_lock(path: Path | None = None) -> Lock:
    """Read the lock.

    Raises:
        UserError: it can't be read, or is not a lock.
    """
    path = path or lock_path()
    hint = "Write a new one: swapstone image lock"
    lock = read_toml(path, Lock, hint)
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
        *(f"{_toml(name)} = {_toml(why)}" for name, why in sorted(lock.unavailable.items())),
    ]
    for package in lock.packages:
        values = msgspec.structs.asdict(package).items()
        lines += [
            "",
            "[[packages]]",
            *(f"{name} = {_toml(value)}" for name, value in values if value not in ("", (), {})),
        ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
    except OSError as error:
        raise UserError(f"The lock {path} can't be written: {error.strerror}.") from error


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in sorted(value.items()))} }}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return msgspec.json.encode(value).decode()  # a JSON string is a TOML basic string


def package_file(sha256: str) -> Path:
    """Return the path of a package in the cache."""
    return cache_dir() / "packages" / f"{sha256}.deb"


def images_of(lock: Lock) -> dict[str, frozenset[str]]:
    """Return the digests of the packages that each image is made of, by architecture and kernel: ``arm64 rt``."""
    found: dict[str, frozenset[str]] = {}
    for architecture in sorted({package.architecture for package in lock.packages}):
        packages = [package for package in lock.of(architecture) if package.in_images]
        base = {package.sha256 for package in packages if not package.kernel}
        found |= {
            f"{architecture} {package.kernel}": frozenset(base | {package.sha256})
            for package in packages
            if package.kernel
        }
    return found


def fetch(packages: Sequence[Package], progress: Progress) -> None:
    """Put packages of one architecture into the cache, and verify their digests.

    They come from the mirror, else from the system's archives, else from those of `other_archives`.

    Args:
        packages: to fetch; undamaged ones in the cache are not fetched again.
        progress: called before each download.

    Raises:
        GoneError: the archives no longer have the locked version of a package; the message names the images that are not affected.
        UserError: a download failed or differs from the lock, or the cache can't be written.
        UnavailableError: apt-get is not installed.
    """
    missing = [package for package in packages if not _whole(package, progress)]
    missing = [package for package in missing if not from_mirror(package.sha256, package_file(package.sha256))]
    if not missing:
        return
    architecture = missing[0].architecture
    size = sum(package.size_bytes for package in missing) / 1e6
    progress(f"downloading {len(missing)} packages for {architecture}, {size:.0f} MB")
    home = package_file("").parent
    with writable_folder(home), tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as temporary:
        left, folder = list(missing), Path(temporary)

        def download(apt: Apt) -> None:
            """Download what is left; of an archive that lacks some packages, or has other builds of them, the others."""
            gone: PackageGoneError | None = None
            try:
                _download(apt, left, folder, progress)
            except PackageGoneError as error:
                gone = error
                apt.download([(each.name, each.version) for each in left if each.name not in error.names], folder)
            for package in [each for each in left if gone is None or each.name not in gone.names]:
                try:
                    _downloaded(package, folder)
                    left.remove(package)
                except UserError as error:
                    for file in folder.glob(f"{package.name}_*.deb"):
                        file.unlink()
                    gone = gone or PackageGoneError(error.message, error.hint)
            if gone:
                gone.names = tuple(package.name for package in left)
                raise gone

        def download_from(archives: Archives | None = None) -> None:
            if archives:
                progress(f"the archive does not have them; fetching from {archives.title}")
            apt = Apt(architecture, archives)
            with apt.alone():
                download(apt)

        try:
            try:
                download_from()
            except PackageGoneError as gone:
                from_other_archives(gone, download_from)
        except PackageGoneError as error:
            raise _with_unaffected(error, left) from error
        for package in missing:
            _downloaded(package, folder).rename(package_file(package.sha256))


def _with_unaffected(error: PackageGoneError, gone: Sequence[Package]) -> PackageGoneError:
    """Return an error that names the images which don't need the packages that are gone."""
    lost = {package.sha256 for package in gone}
    kept = [name for name, needed in images_of(read_lock()).items() if not needed & lost]
    found = PackageGoneError(
        f"{error.message} Not affected: {', '.join(kept) if kept else 'no image'}.",
        "From a machine that still has them in its cache: `swapstone image vendor FOLDER` there, SWAPSTONE_MIRROR=FOLDER"
        " here. Or update the lock from the archive: swapstone image lock. Images built from it have other digests.",
    )
    found.names = tuple(package.name for package in gone)
    return found


def _whole(package: Package, progress: Progress) -> bool:
    path = package_file(package.sha256)
    if not path.is_file():
        return False
    if sha256_of(path) == package.sha256:
        with contextlib.suppress(OSError):  # a read-only cache can be used
            path.touch()  # `swapstone image gc` uses the time of the last use
        return True
    progress(f"{package.name} in the cache is damaged and is fetched again")
    return False


def _download(apt: Apt, missing: Sequence[Package], folder: Path, progress: Progress) -> None:
    wanted = [(package.name, package.version) for package in missing]
    with contextlib.suppress(UserError):  # the lists may be outdated or missing
        apt.download(wanted, folder)
        return
    progress(f"fetching the lists of packages for {apt.architecture}")
    trouble = apt.update()
    try:
        apt.download(wanted, folder)
    except PackageGoneError as error:
        if trouble:
            error.message += f" Some of its lists could not be fetched: {trouble}"
        raise


def _downloaded(package: Package, folder: Path) -> Path:
    """Return the file of a downloaded package.

    Raises:
        UserError: there is none with the digest of the lock.
    """
    files = sorted(folder.glob(f"{package.name}_*.deb"))
    found = [path for path in files if sha256_of(path) == package.sha256]
    if not found:
        actual = f"has SHA-256 {sha256_of(files[0])}" if files else "was not downloaded"
        raise UserError(
            f"{package.name} {package.version} for {package.architecture} {actual}; the lock has {package.sha256}.",
            "The archive replaced the file, or the lock is wrong. Update the lock: swapstone image lock",
        )
    return found[0]


class Contents:
    """The files of a package: a context manager, which decompresses it to a temporary file.

    Paths are relative to the root, without a leading ``usr/``, as in an image.

    Args:
        path: of the package.
        folder: for the temporary file.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, self._folder = path, folder

    def __enter__(self) -> Contents:
        """Unpack the package.

        Raises:
            UserError: it is not a package, or is damaged.
            UnavailableError: dpkg-deb is not installed.
        """
        if shutil.which("dpkg-deb") is None:
            raise UnavailableError(
                "dpkg-deb is not installed on this machine, so packages can't be unpacked.",
                "Build the image on a Debian or Ubuntu machine.",
            )
        self._file = tempfile.TemporaryFile(dir=self._folder)
        result = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(self._path)], stdout=self._file, stderr=subprocess.PIPE, check=False
        )
        if result.returncode != 0:
            self._file.close()
            errors = result.stderr.decode(errors="replace").strip().splitlines()
            raise UserError(f"{self._path.name} can't be unpacked: {errors[0] if errors else 'no reason given'}.")
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
            UserError: none or several match.
        """
        found = [name for name in self._members if fnmatchcase(name, pattern)]
        if len(found) != 1:
            raise UserError(f"{self._path.name} has {len(found)} files that match {pattern}; one was expected.")
        return found[0]

    def resolve(self, name: str) -> str | None:
        """Resolve links inside the package; None if the target is outside or missing."""
        for _ in range(MOST_LINKS):
            member = self._members.get(name)
            if member is None or not member.issym():
                return name if member is not None and member.isfile() else None
            name = plain_path(posixpath.join("/" + posixpath.dirname(name), member.linkname))
        return None

    def read(self, name: str) -> tuple[bytes, bool]:
        """Return a file's content, through links, and whether it is executable.

        Raises:
            UserError: there is no such file.
        """
        resolved = self.resolve(name)
        if resolved is None:
            raise UserError(f"{self._path.name} has no file {name}.")
        member = self._members[resolved]
        handle = self._tar.extractfile(member)
        assert handle is not None  # it is a file
        return handle.read(), bool(member.mode & 0o100)


def plain_path(path: str) -> str:
    """Return a package's path as an image has it: relative, normalised, without ``usr/``."""
    normal = posixpath.normpath("/" + path).lstrip("/")
    return normal.removeprefix("usr/")
