# SPDX-License-Identifier: MIT OR Apache-2.0
"""Entries of the cache that another version of Swapstone wrote under the same name are ignored, and made again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from swapstone.core.artifacts.cache_folder import read_description
from swapstone.core.model import FrozenStruct
from swapstone.parts.build.artifacts.libraries import BuiltLibrary
from swapstone.parts.build.artifacts.sdk import Sdk, read_sdk
from swapstone.parts.build.artifacts.source_build import FinishedBuild
from swapstone.parts.vm.artifacts.images import read_image
from swapstone.parts.vm.artifacts.root_file_systems import RootFileSystem

KINDS = (BuiltLibrary, Sdk, FinishedBuild, RootFileSystem)
"""What the cache describes in a file beside it, which `read_description` reads."""

LIBRARY = BuiltLibrary(name="zlib", version="1", ident="swapstone library", files=(("libz.a", "0"),))


def _others(whole: bytes) -> dict[str, bytes]:
    """Return what other versions may have written in the place of a description."""
    fields = msgspec.json.decode(whole)
    first, *_ = fields
    return {
        "with one field more": msgspec.json.encode({**fields, "of_a_newer_version": 1}),
        "with one field less": msgspec.json.encode({name: each for name, each in fields.items() if name != first}),
        "with another type": msgspec.json.encode({**fields, first: [None]}),
        "of another form": whole[1:],
        "of another encoding": b"\xff" + whole,
        "of lists in lists": b"[" * 100_000,
    }


def test_a_description_of_another_version_is_none(tmp_path: Path) -> None:
    path = tmp_path / "finished"
    path.write_bytes(LIBRARY.encoded())
    assert read_description(path, BuiltLibrary) == LIBRARY
    for how, content in _others(LIBRARY.encoded()).items():
        path.write_bytes(content)
        assert read_description(path, BuiltLibrary) is None, how


@pytest.mark.parametrize("kind", KINDS)
def test_no_description_accepts_an_unknown_field(kind: type[FrozenStruct]) -> None:
    """Else an older version would take what a newer one made for complete."""
    assert msgspec.inspect.type_info(kind).forbid_unknown_fields  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_each_description_has_fields_that_an_older_version_can_t_lack(kind: type[FrozenStruct]) -> None:
    """Else a newer version would take what an older one made for its own, with the defaults of new fields."""
    assert [field.name for field in msgspec.structs.fields(kind) if field.required]


@pytest.mark.parametrize("how", _others(LIBRARY.encoded()))
def test_sdks_and_sealed_images_of_another_version_are_not_read(tmp_path: Path, how: str) -> None:
    content = _others(LIBRARY.encoded())[how]
    for name in ("sdk.json", "image.json"):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "seal").write_text(hashlib.sha256(content).hexdigest())
    assert read_sdk(tmp_path) is None and read_image(tmp_path) is None
