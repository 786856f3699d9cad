# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare two images: which files differ, and whether all of them belong to the swapped parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swapstone.core.model import FrozenStruct, ImageDifference, UserError

_SHOWN = 10


class ImageFile(FrozenStruct, frozen=True, kw_only=True):
    """A file of an image.

    Attributes:
        sha256: of its content, or of a link's target.
        mode: type and permissions.
        part: its origin: ``kernel``, a package's name, or the caller's name.
    """

    sha256: str
    mode: int
    part: str


Manifest = Mapping[str, ImageFile]
"""Files of an image by path. The kernel is listed as ``kernel``, though it is not in the archive."""


def compare_images(
    baseline: Manifest, candidate: Manifest, parts: Iterable[str], between: tuple[str, str] = ("", "")
) -> ImageDifference:
    """Compare two images file by file.

    Args:
        baseline: one image.
        candidate: the other.
        parts: the swapped parts; only their files may differ.
        between: names of the two images.

    Returns:
        The files that differ.

    Raises:
        UserError: a file of another part differs, so the images can't be compared.
    """
    swapped = tuple(sorted(set(parts)))
    differing, beyond = [], []
    for path in sorted(baseline.keys() | candidate.keys()):
        one, other = baseline.get(path), candidate.get(path)
        if one == other:
            continue
        origins = sorted({side.part for side in (one, other) if side is not None})
        differing.append((path, " and ".join(origins)))
        if not set(origins) <= set(swapped):
            beyond.append(f"{path} ({' and '.join(origins)}: {_difference(one, other)})")
    if beyond:
        more = f" and {len(beyond) - _SHOWN} more" if len(beyond) > _SHOWN else ""
        raise UserError(
            f"The two images differ in more than {', '.join(swapped) or 'nothing'}: {', '.join(beyond[:_SHOWN])}{more}.",
            "Build both from the same lock, with the same parts and modules.",
        )
    return ImageDifference(
        between=between,
        differing=tuple(differing),
        same=len(baseline.keys() | candidate.keys()) - len(differing),
        parts=swapped,
    )


def _difference(one: ImageFile | None, other: ImageFile | None) -> str:
    if one is None or other is None:
        return f"only in the {'candidate' if one is None else 'baseline'}"
    if one.sha256 != other.sha256:
        return "different content"
    return f"mode {one.mode:o} and {other.mode:o}" if one.mode != other.mode else "from different parts"
