# SPDX-License-Identifier: MIT OR Apache-2.0
"""From an experiment to its machines: what each is made of, and what makes them incomparable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.model import FactorLevels, ImageDifference, UserError
from swapstone.core.session.machines import open_experiment_target
from swapstone.parts.vm.artifacts.image_assembly import ImageFile
from swapstone.parts.vm.artifacts.images import BuiltImage, Image, ImageRequest
from swapstone.parts.vm.artifacts.kernel_modules import Module
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.session import vm_images, vm_kind
from swapstone.parts.vm.session.vm_images import parse_module_files, parse_modules
from tests.unit import builders

Files = dict[str, ImageFile]


def _file(content: str, part: str) -> ImageFile:
    return ImageFile(sha256=content, mode=0o100644, part=part)


class Opened:
    """Stands in for the target: keeps its arguments."""

    def __init__(self, images: dict[str, VmImage], _: object, image_differences: tuple[ImageDifference, ...]) -> None:
        self.images, self.image_differences = images, image_differences


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[list[ImageRequest], Callable[..., None]]:
    """Images with the files of the test instead of packages, and the list of requests."""
    requests: list[ImageRequest] = []
    changed: Files = {}

    def build(request: ImageRequest, **_: object) -> BuiltImage:
        requests.append(request)
        files = {"kernel": _file(request.kernel, "kernel"), "bin/busybox": _file("b", "busybox-static")}
        image = Image(
            architecture="x86_64",
            kernel=request.kernel,
            banner="Linux version 6.1.0",
            release="6.1.0",
            preempt_dynamic=None,
            kernel_sha256="",
            initrd_sha256="",
            modules=(),
            packages=(),
            files={**files, **(changed if len(requests) > 1 else {})},
        )
        return BuiltImage(image, tmp_path)

    def module(name: str, _architecture: object, kernel: str, *_: object) -> Module:
        content = f"{name} for {kernel}".encode()
        return Module(path="", name=name, content=content, release="6.1.0", architecture="", needs=(), wishes=())

    monkeypatch.setattr(vm_images, "build_image", build)
    monkeypatch.setattr(vm_images, "check_kernel_file", lambda _: None)
    monkeypatch.setattr(vm_images, "build_module", module)
    monkeypatch.setattr(vm_kind, "VmTarget", Opened)
    return requests, changed.update


def _levels(*names: str) -> tuple[FactorLevels, ...]:
    return (FactorLevels(factor="kernel", levels=names),)


def test_the_certificate_goes_to_the_target(images: tuple[list[ImageRequest], Callable[..., None]]) -> None:
    subject = builders.experiment(target="vm", clock="virtual", architecture="x86_64", factors=_levels("generic", "rt"))
    opened = open_experiment_target(subject, lambda _: None)
    assert isinstance(opened, Opened)
    (found,) = opened.image_differences
    assert found.between == ("generic", "rt")
    assert (found.differing, found.same, found.parts) == ((("kernel", "kernel"),), 1, ("kernel",))
    assert not any(image.own_modules for image in opened.images.values()), "only for a load that asks for it"


def test_what_differs_elsewhere_refuses_the_comparison(
    images: tuple[list[ImageRequest], Callable[..., None]],
) -> None:
    images[1]({"bin/busybox": _file("altered", "busybox-static")})
    subject = builders.experiment(target="vm", clock="virtual", architecture="x86_64", factors=_levels("generic", "rt"))
    with pytest.raises(
        UserError, match=r"differ in more than kernel: bin/busybox \(busybox-static: different content\)"
    ):
        open_experiment_target(subject, lambda _: None)


def test_a_load_brings_its_module_to_all_variants(images: tuple[list[ImageRequest], Callable[..., None]]) -> None:
    loads = ("idle", "planted")
    opened = open_experiment_target(
        builders.experiment(
            target="vm", clock="virtual", architecture="x86_64", factors=_levels("generic", "none"), loads=loads
        ),
        print,
    )
    assert isinstance(opened, Opened)
    assert {level: dict(image.own_modules) for level, image in opened.images.items()} == {
        "generic": {"planted": b"planted for generic"},
        "none": {"planted": b"planted for none"},
    }
    assert all("busybox" in request.parts for request in images[0])


def test_kernels_of_ones_own_have_their_modules(
    images: tuple[list[ImageRequest], Callable[..., None]], tmp_path: Path
) -> None:
    one, other = (tmp_path / name / "bzImage" for name in ("a", "b"))
    for path in (one, other):
        path.parent.mkdir()
        path.touch()
    factors = _levels(str(one), str(other))
    pairs = parse_modules([f"{one}={tmp_path}"], factors, None)
    assert pairs == ((str(one), str(tmp_path)),)
    notes: list[str] = []
    open_experiment_target(
        builders.experiment(target="vm", clock="virtual", architecture="x86_64", factors=factors, modules=pairs),
        notes.append,
    )
    assert [(request.kernel, request.modules_folder) for request in images[0]] == [
        (str(one), str(tmp_path)),
        (str(other), ""),
    ]
    assert notes == [
        f"note: {one} and {other} have the same banner (Linux version 6.1.0): the guest can't observe which one runs;"
        " the digests in the record's manifest differ"
    ]


def test_a_module_needs_a_target_that_boots_machines(tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text("")
    with pytest.raises(UserError, match="--module loads a kernel module into a virtual machine") as caught:
        parse_module_files([str(source)], "host")
    assert caught.value.hint == "Add: --target vm"
    assert parse_module_files([str(source)], "vm") == (str(source),)
    assert parse_module_files([], "host") == ()


def test_what_is_wrong_with_modules_is_said(tmp_path: Path) -> None:
    kernel = tmp_path / "k"
    with pytest.raises(UserError, match="'x' is not KERNEL=FOLDER"):
        parse_modules(["x"], (), None)
    with pytest.raises(UserError, match="which this experiment does not run") as caught:
        parse_modules([f"generic={tmp_path}"], _levels("generic", str(kernel)), None)
    assert caught.value.hint == f"Name one of: {kernel}"
    with pytest.raises(UserError, match="There is no folder of modules /absent"):
        parse_modules([f"{kernel}=/absent"], (), f"vm:{kernel}")
    assert parse_modules([f"{kernel}={tmp_path}"], (), f"vm:{kernel}") == ((str(kernel), str(tmp_path)),)
