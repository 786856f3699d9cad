# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is built into the cache: images, packages, SDKs and allocators."""

from __future__ import annotations

import functools
import hashlib
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from swapstone.parts.build.build import Build
from tests.faults.children import Action, Ended, Place, reported, run_child
from tests.faults.injection import CRASH, Fault
from tests.faults.scenario import COMPLETE, Scenario

if TYPE_CHECKING:
    from swapstone.parts.build.artifacts.packages import Lock


class Cache(Scenario):
    """Something that is built into the cache."""

    def require_collectable(self, place: Place) -> None:
        """Require that the temporary folders that a crash left are those that `swapstone image gc` removes when they are old."""
        listed = run_child(place, reported(_print_leftovers))
        self.require(listed.status == 0, "the cache can't be listed", listed)
        cache = place.folder / "cache" / "swapstone"
        left = {str(path) for path in (*cache.glob(".*"), *cache.glob("*/.*"))}
        self.require(left == set(listed.out.splitlines()), f"left in the cache: {left}", listed)


def _print_leftovers() -> None:
    from swapstone.parts.vm.artifacts.image_cache import other_entries

    for entry in other_entries():
        if entry.kind == "leftover":
            print(entry.path)


class Image(Cache):
    """An image, from packages in the cache."""

    name = "image"
    title = "an image (packages of the test, already fetched)"
    programs = ("apt-get", "apt-cache", "dpkg-deb", "cc")
    fetched: ClassVar[bool] = True

    def prepare(self) -> None:
        from swapstone.parts.build.artifacts.packages import fetch
        from tests.unit.artifacts.archive import RELEASE, Archive, kernel_files, lock_of, named

        archive = Archive(self.base / "archive")
        (self.folder / "compiled").mkdir()
        generic = archive.add(f"linux-image-{RELEASE}", kernel_files(self.folder / "compiled"))
        shell = archive.add("busybox-static", {"bin/busybox": b"#! a shell"})
        self.lock = lock_of(named(generic, "generic"), shell)
        if self.fetched:
            fetched = run_child(self.place(self.base), reported(lambda: fetch(self.lock.packages, lambda _: None)))
            self.require(fetched.status == 0, "the packages can't be fetched", fetched)

    def place(self, folder: Path) -> Place:
        """Return a place where apt-get uses the archive of the test, at the path that it was made for."""
        place = super().place(folder)
        return Place(folder, {**place.environment, "APT_CONFIG": str(self.base / "archive" / "apt.conf")})

    def action(self) -> Action:
        from swapstone.parts.vm.artifacts.images import ImageRequest, build_image

        request = ImageRequest(architecture="x86_64", modules=("top_one", "inside"), parts=("busybox",))
        return reported(functools.partial(build_image, request, lock=self.lock))

    def result(self, place: Place) -> object:
        self.require_collectable(place)
        (home,) = (path for path in (place.folder / "cache/swapstone/images").iterdir() if _is_home(path))
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in home.iterdir()}


def _is_home(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


class Fetch(Image):
    """The packages of an image, by the real apt-get from an archive in a folder."""

    name = "fetch"
    title = "an image with its packages (the real apt-get, an archive in a folder)"
    fetched = False


class ImageOfLibc(Image):
    """An image of one C library in the folder of ``--out``; its programs are files of the test."""

    name = "libc-image"
    title = "image build --libc (packages and programs of the test)"

    def action(self) -> Action:
        return reported(functools.partial(_build_libc_image, self.lock))

    def result(self, place: Place) -> object:
        out = place.folder / "out"
        written = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
        self.require(set(written) == {"kernel", "initrd", "root.tar", "image.json"}, f"in the folder: {written}")
        return {"out": written, "cache": super().result(place)}


def _build_libc_image(lock: Lock) -> None:
    from swapstone.parts.build.artifacts.sdk import BuiltSdk, Sdk
    from swapstone.parts.vm.artifacts import libc_files
    from swapstone.parts.vm.artifacts.image_assembly import Overlay
    from swapstone.parts.vm.artifacts.images import build_image
    from swapstone.parts.vm.artifacts.libc_files import LibcFiles, init_entries

    sdk = Sdk(
        format=1,
        architecture="x86_64",
        libc="musl",
        triple="x",
        compiler="gcc",
        needs=(),
        packages=(),
        content="0" * 64,
    )
    made = LibcFiles(
        overlays=(Overlay(part="init", entries=init_entries()),),
        observed={},
        programs=(),
        sdk=BuiltSdk(sdk=sdk, folder=Path()),
        library=lock.packages[0],
    )
    for name, value in (
        ("make_libc_files", lambda *_: made),
        ("build_image", functools.partial(build_image, lock=lock)),
    ):
        setattr(libc_files, name, value)  # this process is a fork, and ends after it
    request = libc_files.LibcImageRequest(architecture="x86_64", libc="musl", modules=("top_one", "inside"))
    libc_files.write_libc_image(libc_files.build_libc_image(request, lambda _: None), Path("out"))


class SdkOfGlibc(Cache):
    """An SDK of few files, made in the cache and copied to the folder of ``--out``."""

    name = "sdk"
    title = "sdk --libc glibc (headers and objects of the test)"
    programs = ("gcc", "dpkg")

    def prepare(self) -> None:
        """Nothing is needed: the packages are installed."""

    def action(self) -> Action:
        return reported(_make_sdk)

    def survey(self, place: Place, fault: Fault) -> None:
        """A folder that exists is a whole SDK."""
        out = place.folder / "out"
        self.require(not out.exists() or self.described(out) == self.reference, "the folder has a part of an SDK")

    def recover(self, place: Place, ended: Ended) -> str:
        if (place.folder / "out").exists() and ended.status == CRASH:
            return COMPLETE  # it was renamed to its place before the crash; `result` compares it
        return super().recover(place, ended)

    def described(self, folder: Path) -> object:
        """Return the digest of an SDK's files, and that of its description."""
        from swapstone.parts.build.artifacts.sdk import content_digest

        return content_digest(folder), json.loads((folder / "sdk.json").read_text())["content"]

    def result(self, place: Place) -> object:
        found = self.described(place.folder / "out")
        left = [path.name for path in place.folder.glob("swapstone-*/*")]
        self.require(not left, f"left beside the folder: {left}")
        if (place.folder / "cache" / "swapstone").exists():
            self.require_collectable(place)
        return found


def _make_sdk() -> None:
    from swapstone.parts.build.artifacts import sdk
    from swapstone.parts.vm.session.image_store import make_sdk

    def fill(folder: Path, *_: object) -> None:
        for name in ("include/stdio.h", "lib/crt1.o"):
            (folder / "usr" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "usr" / name).write_text(name)

    for name, value in (("fill_sysroot", fill), ("_try", lambda _: None)):
        setattr(sdk, name, value)  # this process is a fork, and ends after it
    make_sdk("x86_64", "glibc", "out", lambda _: None)


class Allocator(Cache):
    """An allocator: one source file, compiled and linked by the real compiler."""

    name = "allocator"
    title = "an allocator (one source file of the test, the real compiler)"
    programs = ("cc",)

    def prepare(self) -> None:
        top = self.folder / "pack-1.0"
        top.mkdir()
        (top / "x.c").write_text("void *malloc(unsigned long n) { return 0; }\n")
        self.archive = self.folder / "pack_1.0.orig.tar.gz"
        with tarfile.open(self.archive, "w:gz") as opened:
            opened.add(top, "pack-1.0")

    def action(self) -> Action:
        return reported(functools.partial(_build_allocator, self.archive))

    def result(self, place: Place) -> object:
        self.require_collectable(place)
        homes = [path for path in (place.folder / "cache/swapstone/allocators").iterdir() if _is_home(path)]
        self.require(len(homes) == 1, f"folders: {homes}")
        return {path.name: path.stat().st_size > 0 for path in homes[0].iterdir()}


def _build_allocator(archive: Path) -> None:
    from swapstone.parts.build.artifacts import allocators
    from swapstone.parts.build.artifacts.allocators import Plan
    from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
    from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE

    step = ("cc", "-fPIC", "-w", "-c", "{source}/x.c", "-o", "x.o")
    setattr(allocators, "fetch", lambda *_, **__: archive)  # noqa: B010 - this process is a fork, and ends after it
    allocators.PLANS["mimalloc"] = Plan(steps=((step,),), objects=("x.o",))
    resolve_recipe(BASE_RECIPE.changed(Build, allocator="mimalloc"))
