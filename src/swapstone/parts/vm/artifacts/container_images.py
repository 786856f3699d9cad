# SPDX-License-Identifier: MIT OR Apache-2.0
"""Container images by their names: ``docker:alpine:3.20``, through whichever of docker, podman and skopeo is installed.

A name is pinned by a digest, and the image is then taken by the digest, as an archive. docker and podman have the same command lines here.
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.announcement import announced
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.vm.artifacts.root_archives import IMAGE_ARCHITECTURES
from swapstone.parts.vm.factors.container_image import ContainerImage, parse_image

_ENGINES, _SKOPEO = ("docker", "podman"), "skopeo"
_MOST_JSON_BYTES = 4 << 20
_QUERY_S, _TRANSFER_S = 60, 3600


class EngineImage(msgspec.Struct):
    """What docker and podman print of an image; podman's identifier has no ``sha256:``."""

    id: str = msgspec.field(name="Id")
    architecture: str = msgspec.field(name="Architecture", default="")
    repo_digests: list[str] | None = msgspec.field(name="RepoDigests", default=None)


class RegistryImage(msgspec.Struct):
    """What skopeo prints of an image in a registry: its digest, or that of its index."""

    digest: str = msgspec.field(name="Digest")
    architecture: str = msgspec.field(name="Architecture", default="")


Decoded = TypeVar("Decoded")
Result = TypeVar("Result")


@functools.lru_cache
def pinned_image(text: str, machine: str) -> str:
    """Return a level with the digest of the image that has its name now, which an engine pulls if it does not have it.

    A level that has a digest is returned as it is: `save_image` checks it.

    Args:
        text: a level.
        machine: architecture of the machine, as ``uname -m`` prints it.

    Raises:
        UnavailableError: docker, podman and skopeo are missing.
        UserError: none of them has the image for this architecture.
    """
    image = parse_image(text)
    if image.content_digest:
        return image.level

    def find(tool: str) -> str:
        return (_remote(tool, image, machine) if tool == _SKOPEO else _local(tool, image, machine))[1]

    return msgspec.structs.replace(image, content_digest=_through_any(image, find)).level


def save_image(text: str, machine: str, file: Path) -> Path:
    """Write the image of a pinned level into a new file, an archive, and return the file.

    Args:
        text: as for `pinned_image`.
        machine: as for `pinned_image`.
        file: to write.

    Raises:
        UnavailableError, UserError: as `pinned_image`; also if no program has an image with this digest.
    """
    image = parse_image(text)

    def save(tool: str) -> Path:
        if tool == _SKOPEO:
            _remote(tool, image, machine)
            override = ("--override-os", "linux", "--override-arch", _architecture(machine))
            with announced(f"fetching the image {image.title} with {tool}"):
                _run((tool, *override, "copy", f"docker://{image.reference}", f"oci-archive:{file}"), _TRANSFER_S)
        else:
            name, _ = _local(tool, image, machine)
            with announced(f"saving the image {image.title} with {tool}"):
                _run((tool, "save", "--output", str(file), name), _TRANSFER_S)
        return file

    return _through_any(image, save)


def require_tool(text: str) -> None:
    """Raise an `UnavailableError` with the commands that make an archive if none of the programs is installed."""
    image = parse_image(text)
    if not any(map(shutil.which, (*_ENGINES, _SKOPEO))):
        raise UnavailableError(
            f"The image {image.title} needs docker, podman or skopeo, and none of them is installed.", _by_hand(image)
        )


def _by_hand(image: ContainerImage) -> str:
    name = shlex.quote(image.reference.removeprefix("docker.io/").removeprefix("library/"))
    file = re.sub("[^A-Za-z0-9._-]+", "-", image.title)
    return (
        f"Make an archive where the image can be had: docker pull {name} && docker save -o {file}.tar {name}\n"
        f"Then name the archive: rootfs=./{file}.tar"
    )


def _through_any(image: ContainerImage, act: Callable[[str], Result]) -> Result:
    """Return what the first program returns that succeeds.

    Raises:
        UserError: none did; names the reason of each.
    """
    require_tool(image.level)
    reasons: list[str] = []
    for tool in filter(shutil.which, (*_ENGINES, _SKOPEO)):
        try:
            return act(tool)
        except UserError as error:
            reasons.append(f"{tool} {error.message}")
    why = "; ".join(reasons)
    raise UserError(
        f"The image {image.title} can't be had: {why}{'' if why.endswith(('.', '?', '!')) else '.'}", _by_hand(image)
    )


def _local(tool: str, image: ContainerImage, machine: str) -> tuple[str, str]:
    """Return by which name an engine has an image, which is pulled if it is not there, and the digest that pins it.

    An image that was built here is in no registry: the identifier pins it.
    """
    known = (image.reference, *filter(None, (image.content_digest,)))
    wanted = _architecture(machine)
    found = next(((name, each) for name in known if (each := _inspected(tool, name)).architecture == wanted), None)
    if found is None:
        with announced(f"pulling the image {image.title} with {tool}"):
            _run((tool, "pull", "--quiet", "--platform", f"linux/{wanted}", image.reference), _TRANSFER_S)
        found = image.reference, _inspected(tool, image.reference)
    name, about = found
    _check_architecture(about.architecture, wanted)
    identifier = f"sha256:{about.id.removeprefix('sha256:')}"
    pairs = [each.rpartition("@") for each in about.repo_digests or ()]
    of_name = [digest for place, _, digest in pairs if _same_repository(place, image)]
    if image.content_digest not in {"", identifier, *of_name}:
        raise UserError(
            f"has it with the digest {safe_excerpt((of_name or [identifier])[0], 80)}, not {image.content_digest}"
        )
    return name, image.content_digest or parse_image(
        f"{image.repository}@{(of_name or [identifier])[0]}"
    ).content_digest


def _same_repository(place: str, image: ContainerImage) -> bool:
    try:
        return parse_image(place).repository == image.repository
    except UserError:
        return False


def _inspected(tool: str, name: str) -> EngineImage:
    """Return what an engine has under a name; an empty description for nothing."""
    try:
        found = decode_image(_run((tool, "image", "inspect", name), _QUERY_S), list[EngineImage])
    except UserError:
        found = []
    return found[0] if found else EngineImage("")


def _remote(tool: str, image: ContainerImage, machine: str) -> tuple[str, str]:
    """Return the name of an image in its registry, and its digest or that of its index."""
    wanted = _architecture(machine)
    override = ("--override-os", "linux", "--override-arch", wanted)
    about = decode_image(_run((tool, *override, "inspect", f"docker://{image.reference}"), _QUERY_S), RegistryImage)
    _check_architecture(about.architecture, wanted)
    if image.content_digest not in {"", about.digest}:
        raise UserError(f"has it with the digest {safe_excerpt(about.digest, 80)}, not {image.content_digest}")
    return image.reference, parse_image(f"{image.repository}@{about.digest}").content_digest


def _architecture(machine: str) -> str:
    return IMAGE_ARCHITECTURES.get(machine, machine)


def _check_architecture(found: str, wanted: str) -> None:
    if found != wanted:
        raise UserError(f"has it for {safe_excerpt(found, 20) or 'no architecture'}, and the machine is {wanted}")


def decode_image(data: bytes, kind: type[Decoded]) -> Decoded:
    """Return what a program prints of an image.

    Raises:
        UserError: it has another form.
    """
    try:
        return msgspec.json.decode(data if len(data) <= _MOST_JSON_BYTES else b"", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError("describes it in no form that is known") from error


def _run(command: Sequence[str], limit_s: int) -> bytes:
    """Run a command, and return what it prints.

    Raises:
        UserError: it failed; has the last line of its errors.
    """
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"took longer than {limit_s} s to {command[1]}") from error
    except OSError as error:
        raise UserError(f"can't be started: {error.strerror}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"ended with status {done.returncode}"]
        raise UserError(f"reports: {safe_excerpt(lines[-1])}")
    return done.stdout
