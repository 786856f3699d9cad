# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the layers of a container image: an OCI image layout, or the output of ``docker save``.

Formats: the OCI image specification 1.1 (image-layout, image-index, manifest, config), and Docker's image specification 1.2
(``manifest.json``). Every digest that names a blob is verified, and so is the digest of each unpacked layer.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tarfile import GNUTYPE_SPARSE, HeaderError, TarInfo
from typing import NoReturn, Protocol, Self, TypeVar

import msgspec

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import FrozenStruct

_CHUNK = 1 << 18
_MOST_HEADER_BYTES = 1 << 17
"""The limit of an extended header. A path has at most 4096 bytes; the rest are attributes, which are ignored."""

_EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
_KINDS = frozenset({*_EXTENDED, *tarfile.SUPPORTED_TYPES}) - {tarfile.GNUTYPE_SPARSE}
_MOST_SIZE_BYTES = 1 << 60
_MOST_TRAILER_BYTES = 64 << 20
_DAMAGED, _SPARSE = "is no tar archive, or is damaged", "has a sparse file"
_DECOMPRESSORS = (
    (b"\x1f\x8b", "gzip", ("--decompress", "--stdout")),
    (b"\xfd7zXZ\0", "xz-utils", ("--decompress", "--stdout", "--memlimit-decompress=256MiB")),
    (b"\x28\xb5\x2f\xfd", "zstd", ("--decompress", "--stdout", "--memory=256MB")),
    (b"BZh", "bzip2", ("--decompress", "--stdout")),
)
"""First bytes of a compressed file, the package that decompresses it, whose program has the same name but for a suffix, and the program's
arguments. A dictionary has at most 256 MiB."""


DAMAGED_HINT = "Save or download it again: it is incomplete, or was altered."
_OTHER = "Save that image, for example: podman pull --platform linux/{} NAME && podman save --format oci-archive -o image.tar NAME"


class ArchiveError(ValueError):
    """An archive is damaged, truncated, or beyond a limit, or its image can't be chosen.

    The message is the end of a sentence whose subject is the archive. A second argument is the next step.
    """


class Source(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        ...


TarEntry = tuple[TarInfo, Iterator[bytes]]
"""An entry of an archive, with the content of a file."""


class _Whole(io.RawIOBase):
    """A source whose end is an error: `tarfile` takes it as the end of the archive."""

    def __init__(self, source: Source, seen: Callable[[bytes], object]) -> None:
        self._source, self._seen, self._at_end = source, seen, "is empty"

    def read(self, size: int = -1, /) -> bytes:
        if not (data := self._source.read(size)):
            raise ArchiveError(self._at_end)
        self._at_end = "is truncated"
        self._seen(data)
        return data


class _Member(tarfile.TarInfo):
    """A header. Damage is an error also where `tarfile` takes it as the end of the archive."""

    def _proc_member(self, tarfile: tarfile.TarFile) -> Self:
        """Check a header before what follows it is read: every header passes here, in each release of Python."""
        if self.type not in _KINDS:
            sparse = self.type == GNUTYPE_SPARSE
            raise ArchiveError(_SPARSE if sparse else f"has an entry of the unknown type {self.type!a}")
        if not 0 <= self.size <= _MOST_SIZE_BYTES:
            raise ArchiveError("is damaged: a number in a header is invalid")
        if self.type in _EXTENDED and self.size > _MOST_HEADER_BYTES:
            raise ArchiveError(f"has a header of {self.size} bytes")
        return super()._proc_member(tarfile)  # type: ignore[misc,no-any-return]  # typeshed lacks it

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if str(error) != "end of file header":
                raise ArchiveError(_DAMAGED) from error
            raise

    def _proc_gnusparse_10(self, *_: object) -> NoReturn:
        """Refuse a sparse file before `tarfile` reads its map, whose length has no limit."""
        raise ArchiveError(_SPARSE)


def read_tar(source: Source, seen: Callable[[bytes], object] = lambda _: None) -> Iterator[TarEntry]:
    """Yield the entries of an archive in their order, each with the content of a file. A content is read before the next entry.

    What follows the last entry is read too, so that damage there is found.

    Args:
        source: the archive, decompressed.
        seen: called with all that is read, in its order.

    Raises:
        ArchiveError: the archive is damaged.
    """
    try:
        with tarfile.open(fileobj=_Whole(source, seen), mode="r|", tarinfo=_Member, encoding="utf-8") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # typeshed lacks it; half a million entries take much memory
                if any(name.startswith("GNU.sparse.") for name in member.pax_headers):
                    raise ArchiveError(_SPARSE)
                if not member.pax_headers.get("size", "0").isdecimal():
                    raise ArchiveError("is damaged: a size in an extended header is invalid")
                content = archive.extractfile(member) if member.isreg() else None
                yield member, iter(functools.partial(content.read, _CHUNK), b"") if content else iter(())
    except ArchiveError:
        raise
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise ArchiveError(_DAMAGED) from error
    left = _MOST_TRAILER_BYTES
    while data := source.read(_CHUNK):
        seen(data)
        if (left := left - len(data)) < 0:
            raise ArchiveError("has data after its end")


class _Piped:
    """Reads the output of a program that decompresses."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self._process, self._name = process, name

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end.

        Raises:
            ArchiveError: the program failed.
        """
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if not data and self._process.wait() != 0:
            raise ArchiveError(
                f"can't be decompressed by {self._name}: it is damaged, truncated, or needs more than 256 MiB"
            )
        return data


@contextmanager
def decompressed(path: Path) -> Iterator[Source]:
    """Open a tar file that is plain or compressed with gzip, xz, zstd or bzip2, by its first bytes.

    Raises:
        OSError: it can't be read. `Source.read` raises `ArchiveError` for damage.
        UnavailableError: the program that decompresses it is not installed.
    """
    with path.open("rb") as file:
        head = file.read(8)
        file.seek(0)
        package, arguments = next((each[1:] for each in _DECOMPRESSORS if head.startswith(each[0])), ("", ()))
        if not package:
            yield file
            return
        name = package.removesuffix("-utils")
        os.lseek(file.fileno(), 0, os.SEEK_SET)  # the seek above moves within the buffer alone
        command = [require_command(name, "Decompressing a root file system"), *arguments]
        with subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                yield _Piped(process, name)
            finally:
                process.kill()


MOST_LAYERS = 500
_MOST_JSON_BYTES = 4 << 20
_MOST_INDEXES = 4
_INDEX, _LAYOUT, _DOCKER = "index.json", "oci-layout", "manifest.json"
_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
IMAGE_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "arm": "arm", "riscv64": "riscv64"}
"""Architectures of images by those of machines, as ``uname -m`` prints them."""

FindFile = Callable[[str], Path | None]
"""Returns the file with the content of a path of the archive; None if there is none."""

Decoded = TypeVar("Decoded")


class Layer(FrozenStruct, frozen=True, kw_only=True):
    """A layer.

    Attributes:
        file: a tar archive, plain or compressed.
        name: for messages.
        unpacked_sha256: of the archive without its compression; empty if the image does not name it.
    """

    file: Path
    name: str
    unpacked_sha256: str = ""


class _Platform(msgspec.Struct):
    architecture: str = ""


class _Descriptor(msgspec.Struct):
    digest: str
    size: int = -1
    media_type: str = msgspec.field(name="mediaType", default="")
    platform: _Platform | None = None


class _Index(msgspec.Struct):
    manifests: list[_Descriptor]


class _Manifest(msgspec.Struct):
    layers: list[_Descriptor]
    config: _Descriptor | None = None


class _RootFs(msgspec.Struct):
    diff_ids: list[str] = []


class _Config(msgspec.Struct):
    rootfs: _RootFs = msgspec.field(default_factory=_RootFs)


class _Saved(msgspec.Struct):
    layers: list[str] = msgspec.field(name="Layers")
    config: str = msgspec.field(name="Config", default="")


def layers_of(find: FindFile, architecture: str) -> tuple[Layer, ...] | None:
    """Return the layers of a container image, the lowest first; None for an archive that is a root file system itself.

    Args:
        find: of the archive.
        architecture: of the machine, as ``uname -m`` prints it. It selects among images for several platforms.

    Raises:
        ArchiveError: a blob is missing or differs from its digest, or there are several images.
    """
    if find(_INDEX) is not None and find(_LAYOUT) is not None:
        return _oci_layers(find, IMAGE_ARCHITECTURES.get(architecture, architecture))
    saved = find(_DOCKER)
    if saved is None:
        return None
    with saved.open("rb") as file:
        return _docker_layers(find, saved) if file.read(64).lstrip().startswith(b"[") else None


def _oci_layers(find: FindFile, architecture: str) -> tuple[Layer, ...]:
    index = _decode(find(_INDEX), _INDEX, _Index)
    for _ in range(_MOST_INDEXES):
        chosen = _choose(index.manifests, architecture)
        if chosen.media_type not in _INDEX_TYPES:
            break
        index = _decode(_blob(find, chosen), "an index", _Index)
    else:
        raise ArchiveError("has an index in an index in an index")
    manifest = _decode(_blob(find, chosen), "a manifest", _Manifest)
    config = _decode(_blob(find, manifest.config), "a configuration", _Config) if manifest.config else _Config()
    return _layers([(_blob(find, layer), layer.digest) for layer in _few(manifest.layers)], config)


def _choose(manifests: list[_Descriptor], architecture: str) -> _Descriptor:
    """Return the image for the architecture. Attestations have the platform ``unknown``."""
    images = [each for each in manifests if each.platform is None or each.platform.architecture != "unknown"]
    fits = [each for each in images if each.platform is None or each.platform.architecture in {architecture, ""}]
    if not fits:
        names = sorted({each.platform.architecture for each in images if each.platform})
        raise ArchiveError(
            f"has no image for {architecture}, but for {', '.join(names)[:100]!r}", _OTHER.format(architecture)
        )
    if len({each.digest for each in fits}) > 1:
        raise ArchiveError(f"has {len(fits)} images for {architecture}: it must have one")
    return fits[0]


def _docker_layers(find: FindFile, manifest: Path) -> tuple[Layer, ...]:
    saved = _decode(manifest, _DOCKER, list[_Saved])
    if len(saved) != 1:
        raise ArchiveError(f"has {len(saved)} images: it must have one")
    config = _decode(_named(find, saved[0].config), saved[0].config[:80], _Config) if saved[0].config else _Config()
    return _layers([(_named(find, name), name) for name in _few(saved[0].layers)], config)


def _layers(files: list[tuple[Path, str]], config: _Config) -> tuple[Layer, ...]:
    digests = config.rootfs.diff_ids
    if digests and len(digests) != len(files):
        raise ArchiveError(f"has {len(files)} layers, and its configuration names {len(digests)}")
    return tuple(
        Layer(file=file, name=name, unpacked_sha256=_sha256(digests[number]) if digests else "")
        for number, (file, name) in enumerate(files)
    )


Item = TypeVar("Item")


def _few(items: list[Item]) -> list[Item]:
    if not 1 <= len(items) <= MOST_LAYERS:
        raise ArchiveError(f"has {len(items)} layers")
    return items


def _sha256(digest: str) -> str:
    if not re.fullmatch("sha256:[0-9a-f]{64}", digest, re.ASCII):
        raise ArchiveError(f"names a blob by {digest[:80]!r}, which is no SHA-256 digest")
    return digest.removeprefix("sha256:")


def _named(find: FindFile, path: str) -> Path:
    found = find(path)
    if found is None:
        raise ArchiveError(f"has no file {path[:200]!r}, which its manifest names")
    return found


def _blob(find: FindFile, descriptor: _Descriptor) -> Path:
    digest = _sha256(descriptor.digest)
    found = _named(find, f"blobs/sha256/{digest}")
    with found.open("rb") as handle:
        actual = hashlib.file_digest(handle, "sha256").hexdigest()
    if actual != digest or descriptor.size not in {-1, found.stat().st_size}:
        raise ArchiveError(f"is damaged: the blob sha256:{digest[:12]} does not match its digest", DAMAGED_HINT)
    return found


def _decode(file: Path | None, name: str, kind: type[Decoded]) -> Decoded:
    if file is None or file.stat().st_size > _MOST_JSON_BYTES:
        raise ArchiveError(f"has {name} that is {'missing' if file is None else 'too large'}")
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArchiveError(f"has {name} that can't be read: {str(error)[:200]}") from error
