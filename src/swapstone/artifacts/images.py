"""Images for virtual machines: a kernel, its modules and the programs of packages, addressed by the digest of all that goes in.

Equal input gives equal bytes, wherever and whenever an image is built: nothing in it knows a time, an owner or a folder.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swapstone.artifacts import elf_dependencies, image_assembly, image_catalog, kernel_modules, kernels
from swapstone.artifacts.apt import locked, writing
from swapstone.artifacts.bundled_modules import build_module
from swapstone.artifacts.image_assembly import KERNEL_PART, KERNEL_PATH, Overlay, Tree
from swapstone.artifacts.image_catalog import KERNELS, PARTS, Architecture, Part, architecture_of, part_of
from swapstone.artifacts.image_comparison import ImageFile
from swapstone.artifacts.kernel_modules import Module, Modules
from swapstone.artifacts.kernels import Kernel, read_kernel
from swapstone.artifacts.packages import Contents, Lock, Package, Progress, fetch, package_file, read_lock, sha256_of
from swapstone.model import FrozenStruct, UnavailableError, UserError, cpio
from swapstone.model.directories import cache_dir

_KERNEL, _INITRD, _IMAGE, _SEAL = "kernel", "initrd", "image.json", "seal"
_INSTALLED = "lib/modules/"
_KEY_DIGITS = 32

MODULES_BESIDE = ".modules"
"""A kernel of the user's own has its modules in the folder beside it that is called as it is, with this at the end."""


class ImageRequest(FrozenStruct, frozen=True, kw_only=True):
    """What an image shall be made of.

    Attributes:
        architecture: a name of `ARCHITECTURES`.
        kernel: a level of `KERNELS`, or the path of a kernel of the user's own: it holds a slash, or such a file exists.
        modules_folder: where the modules of the user's own kernel are; empty for the folder beside it that is called as it is, with
            ``.modules`` at the end, if that is there.
        modules: names of those that are wanted; what they need comes with them. None for the architecture's usual ones, or for none
            where the user's own kernel has no modules folder.
        own_modules: names of `OWN_MODULES`: built for the packaged kernel and put beside its modules; not loaded.
        parts: names of `PARTS`.
        overlays: the caller's files.
    """

    architecture: str
    kernel: str = "generic"
    modules_folder: str = ""
    modules: tuple[str, ...] | None = None
    own_modules: tuple[str, ...] = ()
    parts: tuple[str, ...] = tuple(part.name for part in PARTS)
    overlays: tuple[Overlay, ...] = ()


class Image(FrozenStruct, frozen=True, kw_only=True):
    """What an image is made of; its digest names it.

    Attributes:
        architecture: a name of `ARCHITECTURES`.
        kernel: ``generic``, ``rt``, or the file name of the user's own.
        banner: the kernel's version line, or empty where its file doesn't say it.
        release: what ``uname -r`` will say, by the banner or else the modules; empty if neither tells.
        preempt_dynamic: whether the kernel was built to take ``preempt=`` on its command line; None where its package doesn't say.
        kernel_sha256: of the kernel's file.
        initrd_sha256: of the archive.
        modules: paths in the image, in the order in which they must be loaded.
        packages: triples (name, version, SHA-256) of all that something was taken from.
        files: every file by path, the kernel as ``kernel``: what `compare_images` compares.
    """

    architecture: str
    kernel: str
    banner: str
    release: str
    preempt_dynamic: bool | None
    kernel_sha256: str
    initrd_sha256: str
    modules: tuple[str, ...]
    packages: tuple[tuple[str, str, str], ...]
    files: dict[str, ImageFile]


@dataclasses.dataclass(frozen=True)
class BuiltImage:
    """An image in the cache.

    Attributes:
        image: what it is made of.
        folder: where it is.
        options: what the kernel's level adds to the kernel's command line, such as ``preempt=none``.
    """

    image: Image
    folder: Path
    options: str = ""

    @property
    def kernel(self) -> Path:
        """The kernel's file."""
        return self.folder / _KERNEL

    @property
    def initrd(self) -> Path:
        """The archive that the kernel unpacks."""
        return self.folder / _INITRD


@dataclasses.dataclass(frozen=True)
class _Plan:
    """A request, resolved: `own` is the user's kernel with its modules, `package` the packaged one, `added` modules that we wrote."""

    request: ImageRequest
    architecture: Architecture
    parts: tuple[Part, ...]
    packages: tuple[Package, ...]
    modules: tuple[str, ...]
    added: tuple[Module, ...]
    kernel_name: str
    package: Package | None
    own: tuple[Kernel, tuple[Module, ...]] | None

    def key(self) -> str:
        """Return the digest of everything that goes in, our own code among it."""
        own: tuple[str, ...] = ()
        if self.own is not None:
            kernel, loaded = self.own
            own = (_digest(kernel.image), *(f"{module.name} {_digest(module.content)}" for module in loaded))
        given = {
            "code": _code(),
            "architecture": self.architecture.name,
            "kernel": [self.kernel_name, self.package.sha256 if self.package else "", *own],
            "modules": self.modules,
            "added": [(module.name, _digest(module.content)) for module in self.added],
            "parts": self.parts,
            "packages": [(package.name, package.sha256, package.objects) for package in self.packages],
            "overlays": [(overlay.part, overlay.digest()) for overlay in self.request.overlays],
        }
        return _digest(msgspec.json.encode(given, order="sorted"))[:_KEY_DIGITS]


def images_dir() -> Path:
    """Return the folder of the cache that images are in."""
    return cache_dir() / "images"


def build_image(request: ImageRequest, *, lock: Lock | None = None, progress: Progress = lambda _: None) -> BuiltImage:
    """Build an image, or take it from the cache if it is there, whole.

    Args:
        request: what it shall be made of.
        lock: which packages it is made of; the one that Swapstone ships if left out.
        progress: told of downloads and unpacking.

    Raises:
        UserError: a name isn't known, a kernel or module can't be used, a package is gone or altered, the cache can't be written.
        UnavailableError: the architecture or kernel can't be had here, or there is no apt-get; or the kernel can't change its preemption.
    """
    plan = _plan(request, lock, progress)
    options = KERNELS[request.kernel][1] if plan.package else ""
    home = images_dir() / plan.key()
    with writing(home.parent), locked(home.parent / "lock"):
        image = _whole(home, progress)
        if image is None:
            fetch([*plan.packages, *([plan.package] if plan.package else [])], progress)
            image = _build(plan, home, progress)
        (home / _SEAL).touch()  # `swapstone image gc` goes by the last use
    if options and image.preempt_dynamic is False:
        raise UnavailableError(
            f"The kernel {request.kernel} for {request.architecture} is unavailable: the packaged kernel was built without"
            f" PREEMPT_DYNAMIC, so {options} would do nothing."
        )
    return BuiltImage(image, home, options)


def _plan(request: ImageRequest, lock: Lock | None, progress: Progress = lambda _: None) -> _Plan:
    architecture = architecture_of(request.architecture)
    wanted = tuple(part_of(name) for name in request.parts)
    locked_packages = (lock or read_lock()).of(architecture.debian)
    package, own, name = None, None, request.kernel
    if request.kernel in KERNELS:
        if request.modules_folder:
            raise UserError(
                f"The kernel {request.kernel} brings its own modules.",
                "A modules folder goes with a kernel of your own.",
            )
        name = KERNELS[request.kernel][0]
        package = _kernel_package(architecture, name, locked_packages, lock)
    else:
        own = _own_kernel(request, architecture)
        name = Path(request.kernel).name
    of_images = [package for package in locked_packages if not package.headers and not package.source]
    packages = image_assembly.needed_packages(wanted, of_images)
    added = _added(request, architecture, name, lock or read_lock(), progress)
    return _Plan(request, architecture, wanted, packages, _modules(request, architecture), added, name, package, own)


def _added(
    request: ImageRequest, architecture: Architecture, kernel: str, lock: Lock, progress: Progress
) -> tuple[Module, ...]:
    if request.own_modules and request.kernel not in KERNELS:
        raise UnavailableError(
            f"The module {request.own_modules[0]} is unavailable for the kernel {request.kernel}: it is built with the headers"
            " of a packaged kernel."
        )
    return tuple(build_module(name, architecture, kernel, lock, progress) for name in request.own_modules)


def _modules(request: ImageRequest, architecture: Architecture) -> tuple[str, ...]:
    return architecture.modules if request.modules is None else request.modules


def _kernel_package(architecture: Architecture, name: str, packages: Sequence[Package], lock: Lock | None) -> Package:
    for package in packages:
        if package.kernel == name:
            return package
    reasons = (lock or read_lock()).unavailable
    reason = reasons.get(f"{architecture.debian}/{name}", "the lock names no package of it")
    raise UnavailableError(f"There is no kernel {name} for {architecture.name}: {reason}.")


def _own_kernel(request: ImageRequest, architecture: Architecture) -> tuple[Kernel, tuple[Module, ...]]:
    path = Path(request.kernel)
    if not path.exists():
        raise UserError(
            f"There is no kernel {request.kernel!r}: it is neither a file nor one of {', '.join(KERNELS)}.",
            "A kernel of your own is named by its path, such as ./arch/x86/boot/bzImage.",
        )
    kernel = read_kernel(path)
    _check_architecture(kernel, architecture, str(path))
    beside = path.with_name(path.name + MODULES_BESIDE)
    if not request.modules_folder and not beside.is_dir():
        if request.modules:
            raise UserError(
                f"The kernel {path} needs the module{'s' if len(request.modules) > 1 else ''} {', '.join(request.modules)},"
                f" and there is no folder {beside}.",
                f"Install its modules there (make modules_install INSTALL_MOD_PATH={beside}), or name the folder that they are in."
                " For what is built in, the file modules.builtin of the kernel's build is enough there.",
            )
        return kernel, ()
    loaded = _own_modules(kernel, Path(request.modules_folder or beside), _modules(request, architecture))
    return kernel, loaded


def _own_modules(kernel: Kernel, folder: Path, wanted: Sequence[str]) -> tuple[Module, ...]:
    """Read a user's modules: what ``make modules_install`` wrote, or any folder with modules somewhere in it."""
    if not folder.is_dir():
        raise UserError(f"There is no folder of modules {folder}.", "It is what `make modules_install` writes.")
    names = [found.relative_to(folder).as_posix() for found in folder.rglob("*") if found.is_file()]
    ours = f"{_INSTALLED}{_release(kernel)}/"
    if any(name.startswith(ours) for name in names):  # then those of other kernels may lie beside them
        names = [name for name in names if name.startswith(ours) or not name.startswith(_INSTALLED)]
    loaded = Modules(names, lambda name: _read(folder / name)).load_order(wanted)
    _check_release(kernel, loaded)
    return loaded


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from error


def _check_architecture(kernel: Kernel, architecture: Architecture, what: str) -> None:
    if kernel.architecture != architecture.machine:
        raise UserError(
            f"The kernel {what} is for {kernel.architecture}, not for {architecture.machine}.",
            f"The image is for {architecture.name}; `--arch` names another architecture.",
        )


def _release(kernel: Kernel) -> str:
    return (kernel.banner.removeprefix("Linux version ").split() or [""])[0]


def _check_release(kernel: Kernel, loaded: Sequence[Module]) -> None:
    release = _release(kernel)
    if loaded and release and loaded[0].release != release:
        raise UserError(
            f"The modules are for the kernel {loaded[0].release}, but the kernel is {release}.",
            "Give the modules that were built with it.",
        )


def _build(plan: _Plan, home: Path, progress: Progress) -> Image:
    """Build in a folder beside the final one and move it there whole. The caller holds the lock."""
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".building-") as temporary:
        work = Path(temporary)
        if plan.own is not None:
            (kernel, loaded), dynamic = plan.own, None
        else:
            assert plan.package is not None
            progress(f"unpacking {plan.package.name}")
            kernel, loaded, dynamic = _packaged_kernel(plan.package, plan, work)
        tree = Tree()
        image_assembly.add_base(tree, shell="busybox" in plan.request.parts)
        _check_release(kernel, plan.added)
        order = image_assembly.add_modules(tree, loaded, plan.added)
        progress(f"putting {len(plan.packages)} packages together")
        image_assembly.add_parts(tree, plan.parts, plan.packages, work)
        for overlay in plan.request.overlays:
            for path, entry in overlay.entries.items():
                tree.add(path, entry, overlay.part)
        initrd = cpio.archive(tree.entries)
        kernel_file = ImageFile(sha256=_digest(kernel.image), mode=0o100644, part=KERNEL_PART)
        used = (*plan.packages, *([plan.package] if plan.package else []))
        image = Image(
            architecture=plan.architecture.name,
            kernel=plan.kernel_name,
            banner=kernel.banner,
            release=_release(kernel) or (loaded[0].release if loaded else ""),
            preempt_dynamic=dynamic,
            kernel_sha256=kernel_file.sha256,
            initrd_sha256=_digest(initrd),
            modules=order,
            packages=tuple((package.name, package.version, package.sha256) for package in used),
            files={KERNEL_PATH: kernel_file, **tree.files()},
        )
        done = work / "done"
        done.mkdir()
        for name, content in ((_KERNEL, kernel.image), (_INITRD, initrd), (_IMAGE, image.encoded())):
            _write_through(done / name, content)
        _write_through(done / _SEAL, _digest(image.encoded()).encode())
        done.rename(home)
    return image


def _write_through(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it: a crash after the rename must not leave half of it."""
    with path.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def _packaged_kernel(package: Package, plan: _Plan, work: Path) -> tuple[Kernel, tuple[Module, ...], bool | None]:
    with Contents(package_file(package.sha256), work) as contents:
        file = work / "vmlinuz"
        file.write_bytes(contents.read(contents.find("boot/vmlinu*"))[0])
        kernel = read_kernel(file)
        _check_architecture(kernel, plan.architecture, package.name)
        loaded = Modules(contents.names(), lambda name: contents.read(name)[0]).load_order(plan.modules)
        configs = [name for name in contents.names() if name.startswith("boot/config-")]
        dynamic = b"\nCONFIG_PREEMPT_DYNAMIC=y\n" in contents.read(configs[0])[0] if configs else None
    _check_release(kernel, loaded)
    return kernel, loaded, dynamic


def read_image(home: Path) -> Image | None:
    """Read what an image in the cache is made of, without looking at its kernel and archive; None if that is damaged."""
    try:
        encoded = (home / _IMAGE).read_bytes()
        if (home / _SEAL).read_text() != _digest(encoded):
            return None
        return msgspec.json.decode(encoded, type=Image)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None


def _whole(home: Path, progress: Progress) -> Image | None:
    """Return an image of the cache if each of its files has the digest that it should have; else move it out of the way."""
    if not home.exists():
        return None
    image = read_image(home)
    damaged = [_IMAGE] if image is None else []
    if image is not None:
        for name, digest in ((_KERNEL, image.kernel_sha256), (_INITRD, image.initrd_sha256)):
            if not (home / name).is_file() or sha256_of(home / name) != digest:
                damaged.append(name)
    if not damaged:
        return image
    progress(f"the image {home.name[:12]} in the cache is damaged ({', '.join(damaged)}): it is built again")
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".damaged-") as aside:
        home.rename(Path(aside) / home.name)
    return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@functools.cache
def _code() -> str:
    """Return a digest of the code that decides what is in an image: another version may make another one of the same input."""
    files = [
        Path(str(module.__file__))
        for module in (image_assembly, cpio, kernels, kernel_modules, elf_dependencies, image_catalog)
    ]
    return _digest(b"".join(path.read_bytes() for path in (*files, Path(__file__))))
