# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build images for virtual machines: a kernel, its modules and programs from packages, stored under the digest of all inputs.

Equal inputs give equal bytes on every machine and at any time: an image has no times, owners or build paths.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, sha256_of, writable_folder
from swapstone.core.model import FrozenStruct, UnavailableError, UserError, cpio
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.regular_file import read_regular_file, readable
from swapstone.core.record.replace_file import replace_file
from swapstone.parts.build.artifacts import loader_files
from swapstone.parts.build.artifacts.packages import Contents, Lock, Package, Progress, fetch, package_file, read_lock
from swapstone.parts.vm.artifacts import image_assembly, image_catalog, kernel_modules, kernels
from swapstone.parts.vm.artifacts.image_assembly import KERNEL_PART, KERNEL_PATH, ImageFile, Overlay, Tree
from swapstone.parts.vm.artifacts.image_catalog import (
    KERNELS,
    PARTS,
    ImagePart,
    MachineArchitecture,
    find_machine_architecture,
    find_part,
)
from swapstone.parts.vm.artifacts.kernel_modules import (
    Module,
    Modules,
    build_module_source,
    modules_for,
    read_module_file,
)
from swapstone.parts.vm.artifacts.kernels import Kernel, read_kernel

_KERNEL, _INITRD, _IMAGE, _SEAL = "kernel", "initrd", "image.json", "seal"
_INSTALLED = "lib/modules/"
_PACKAGE = "linux-image-"  # the rest of a kernel package's name is the kernel's release
_KEY_DIGITS = 32
_MOST_DESCRIPTION_BYTES = 64 << 20

MODULE_SOURCE = ".c"
"""Suffix of a module of the user that is built for each kernel."""

MODULES_BESIDE = ".modules"
"""Suffix of the modules folder beside a kernel file given by the user."""


class ImageRequest(FrozenStruct, frozen=True, kw_only=True):
    """The requested contents of an image.

    Attributes:
        architecture: a name of `MACHINE_ARCHITECTURES`.
        kernel: a level of `KERNELS`, or the path of a kernel file: with a slash, or the name of an existing file.
        modules_folder: modules of a kernel file; empty for the folder with the kernel's path and the suffix ``.modules``, if it exists.
        modules: names of modules to load; their dependencies are added. None for the defaults of the architecture, or for no modules if a
            kernel file has no modules folder.
        module_files: files of the user's modules, loaded after the others in this order; of those with one name the one for this kernel.
            A C file is built for this kernel.
        parts: names of `PARTS`.
        overlays: the caller's files.
    """

    architecture: str
    kernel: str = "generic"
    modules_folder: str = ""
    modules: tuple[str, ...] | None = None
    module_files: tuple[str, ...] = ()
    parts: tuple[str, ...] = tuple(part.name for part in PARTS)
    overlays: tuple[Overlay, ...] = ()


class Image(FrozenStruct, frozen=True, kw_only=True):
    """The contents of an image. Its digest is the image's name.

    Attributes:
        architecture: a name of `MACHINE_ARCHITECTURES`.
        kernel: ``generic``, ``rt``, or the file name of a kernel file.
        banner: the kernel's version line; empty if unknown.
        release: the output of ``uname -r``, from the banner or the modules; empty if unknown.
        preempt_dynamic: whether the kernel accepts ``preempt=`` on its command line; None if unknown.
        kernel_sha256: of the kernel file.
        initrd_sha256: of the archive.
        modules: paths in the image, in the order of loading.
        packages: triples (name, version, SHA-256) of all packages used.
        files: all files by path, the kernel as ``kernel``; the input of `compare_images`.
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


class BuiltImage(msgspec.Struct, frozen=True):
    """An image in the cache.

    Attributes:
        image: its contents.
        folder: in the cache.
        options: additions to the kernel's command line, such as ``preempt=none``.
    """

    image: Image
    folder: Path
    options: str = ""

    @property
    def kernel(self) -> Path:
        """The kernel file."""
        return self.folder / _KERNEL

    @property
    def initrd(self) -> Path:
        """The initramfs archive."""
        return self.folder / _INITRD


class ImagePlan(msgspec.Struct, frozen=True):
    """A resolved request: `own` is a kernel file with its modules, `package` a packaged kernel.

    `loaded` are the modules of the user.
    """

    request: ImageRequest
    architecture: MachineArchitecture
    parts: tuple[ImagePart, ...]
    packages: tuple[Package, ...]
    modules: tuple[str, ...]
    loaded: tuple[Module, ...]
    kernel_name: str
    package: Package | None
    own: tuple[Kernel, tuple[Module, ...]] | None

    def key(self) -> str:
        """Return the digest of all inputs, including the code that builds images."""
        own: tuple[str, ...] = ()
        if self.own is not None:
            kernel, loaded = self.own
            own = (_digest(kernel.image), *(f"{module.name} {_digest(module.content)}" for module in loaded))
        given = {
            "code": code_version(),
            "architecture": self.architecture.name,
            "kernel": [self.kernel_name, self.package.sha256 if self.package else "", *own],
            "modules": self.modules,
            "loaded": [(module.name, _digest(module.content)) for module in self.loaded],
            "parts": self.parts,
            "packages": [(package.name, package.sha256, package.objects) for package in self.packages],
            "overlays": [(overlay.part, overlay.digest()) for overlay in self.request.overlays],
        }
        return _digest(msgspec.json.encode(given, order="sorted"))[:_KEY_DIGITS]


def images_dir() -> Path:
    """Return the cache folder of images."""
    return cache_dir() / "images"


def build_image(request: ImageRequest, *, lock: Lock | None = None, progress: Progress = lambda _: None) -> BuiltImage:
    """Build an image, or return an undamaged one from the cache.

    Args:
        request: its contents.
        lock: pins the packages; by default the one that Swapstone ships.
        progress: called before downloads and unpacking.

    Raises:
        UserError: a name is unknown, a kernel or module can't be used, a package is gone or altered, or the cache can't be written.
        UnavailableError: the architecture or kernel is not available, apt-get is missing, or the kernel can't change its preemption.
    """
    plan = plan_image(request, lock, progress)
    options = KERNELS[request.kernel][1] if plan.package else ""
    home = images_dir() / plan.key()
    with writable_folder(home.parent), locked(home.parent / "lock"):
        image = _whole(home, progress)
        if image is None:
            fetch([*plan.packages, *([plan.package] if plan.package else [])], progress)
            image = _build(plan, home, progress)
        (home / _SEAL).touch()  # `swapstone image gc` uses the time of the last use
    if options and image.preempt_dynamic is False:
        raise UnavailableError(
            f"The kernel {request.kernel} for {request.architecture} is unavailable: the packaged kernel was built without"
            f" PREEMPT_DYNAMIC, so {options} would have no effect."
        )
    return BuiltImage(image, home, options)


def check_kernel_file(request: ImageRequest) -> None:
    """Check a kernel file of the user with its modules. Nothing is fetched or built. A packaged kernel is not checked.

    Raises:
        UserError: as `build_image`, for the kernel and its modules.
    """
    if request.kernel not in KERNELS:
        built = (Path(path) for path in request.module_files if not path.endswith(MODULE_SOURCE))
        _own_kernel(
            request, find_machine_architecture(request.architecture), [read_module_file(path) for path in built]
        )


def plan_image(request: ImageRequest, lock: Lock | None, progress: Progress = lambda _: None) -> ImagePlan:
    """Resolve a request; nothing is built but modules of the user.

    Args:
        request: what the image contains.
        lock: packages with their digests; None for the published ones.
        progress: called with one line for each step that takes long.

    Raises:
        UserError: a part, a kernel or a module does not exist, or does not fit.
    """
    architecture = find_machine_architecture(request.architecture)
    wanted = tuple(find_part(name) for name in request.parts)
    lock = lock or read_lock()
    locked_packages = lock.of(architecture.debian)
    package, own, name = None, None, request.kernel
    files = _user_modules(request, architecture, lock, progress)
    if request.kernel in KERNELS:
        if request.modules_folder:
            raise UserError(
                f"The kernel {request.kernel} brings its own modules.",
                "Use a modules folder only with a kernel file.",
            )
        name = KERNELS[request.kernel][0]
        package = next((each for each in locked_packages if each.kernel == name), None)
        if package is None:
            reason = lock.unavailable.get(f"{architecture.debian}/{name}", "the lock has no package for it")
            raise UnavailableError(f"There is no kernel {name} for {architecture.name}: {reason}.")
    else:
        own = _own_kernel(request, architecture, files)
        name = Path(request.kernel).name
    packages = image_assembly.needed_packages(wanted, [package for package in locked_packages if package.in_images])
    release = package.name.removeprefix(_PACKAGE) if package else _release(own[0]) if own else ""
    loaded = modules_for(files, release, request.kernel, architecture.machine)
    return ImagePlan(
        request,
        architecture,
        wanted,
        packages,
        _modules(request, architecture, files),
        loaded,
        name,
        package,
        own,
    )


def _user_modules(
    request: ImageRequest, architecture: MachineArchitecture, lock: Lock, progress: Progress
) -> list[Module]:
    """Return the user's modules. Those of C files are built first."""
    sources = [path for path in request.module_files if path.endswith(MODULE_SOURCE)]
    if sources and request.kernel not in KERNELS:
        raise UnavailableError(
            f"The module {sources[0]} can't be built for the kernel {request.kernel}: only the packaged kernels bring their headers.",
            "Build it in that kernel's build folder, and name the result: --module mine.ko",
        )
    return [
        build_module_source(Path(path), architecture, KERNELS[request.kernel][0], lock, progress)
        if path in sources
        else read_module_file(Path(path))
        for path in request.module_files
    ]


def _modules(request: ImageRequest, architecture: MachineArchitecture, files: Sequence[Module]) -> tuple[str, ...]:
    """Return the names of the kernel's own modules to load: with those that the user's modules need."""
    wanted = architecture.modules if request.modules is None else request.modules
    own = {each.name for each in files}
    return tuple(dict.fromkeys((*wanted, *(name for each in files for name in each.needs if name not in own))))


def _own_kernel(
    request: ImageRequest, architecture: MachineArchitecture, files: Sequence[Module]
) -> tuple[Kernel, tuple[Module, ...]]:
    path = Path(request.kernel)
    if not path.exists():
        raise UserError(
            f"There is no kernel {request.kernel!r}: it is neither a file nor one of {', '.join(KERNELS)}.",
            "Name a kernel file by its path, such as ./arch/x86/boot/bzImage.",
        )
    kernel = read_kernel(path)
    _check_architecture(kernel, architecture, str(path))
    beside = path.with_name(path.name + MODULES_BESIDE)
    if not request.modules_folder and not beside.is_dir():
        if request.modules:
            raise UserError(
                f"The kernel {path} needs the module{'s' if len(request.modules) > 1 else ''} {', '.join(request.modules)},"
                f" and the folder {beside} does not exist.",
                f"Install its modules there (make modules_install INSTALL_MOD_PATH={beside}), or name their folder."
                " For built-in modules, the file modules.builtin of the kernel's build is sufficient there.",
            )
        return kernel, ()
    # The output of `make modules_install`, or any folder that contains modules.
    folder = Path(request.modules_folder or beside)
    if not folder.is_dir():
        raise UserError(f"The folder of modules {folder} does not exist.", "Create it with `make modules_install`.")
    names = [found.relative_to(folder).as_posix() for found in folder.rglob("*") if found.is_file()]
    ours = f"{_INSTALLED}{_release(kernel)}/"
    if any(name.startswith(ours) for name in names):  # ignore modules of other kernels in the same folder
        names = [name for name in names if name.startswith(ours) or not name.startswith(_INSTALLED)]
    wanted = _modules(request, architecture, files)
    loaded = Modules(names, lambda name: _read(folder / name)).load_order(wanted)
    _check_release(kernel, loaded)
    return kernel, loaded


def _read(path: Path) -> bytes:
    with readable(str(path)):
        return path.read_bytes()


def _check_architecture(kernel: Kernel, architecture: MachineArchitecture, what: str) -> None:
    if kernel.architecture != architecture.machine:
        raise UserError(
            f"The kernel {what} is for {kernel.architecture}, not for {architecture.machine}.",
            f"The image is for {architecture.name}; name another architecture with --arch.",
        )


def _release(kernel: Kernel) -> str:
    return (kernel.banner.removeprefix("Linux version ").split() or [""])[0]


def _check_release(kernel: Kernel, loaded: Sequence[Module]) -> None:
    release = _release(kernel)
    if loaded and release and loaded[0].release != release:
        raise UserError(
            f"The modules are for the kernel {loaded[0].release}, but the kernel is {release}.",
            "Use the modules that were built with the kernel.",
        )


def _build(plan: ImagePlan, home: Path, progress: Progress) -> Image:
    """Build in a temporary folder and rename it. The caller holds the lock."""
    with new_folder(home) as done:
        work = done.parent
        if plan.own is not None:
            (kernel, loaded), dynamic = plan.own, None
        else:
            assert plan.package is not None
            progress(f"unpacking {plan.package.name}")
            kernel, loaded, dynamic = _packaged_kernel(plan.package, plan, work)
        tree = Tree()
        image_assembly.add_base(tree, shell="busybox" in plan.request.parts)
        order = image_assembly.add_modules(tree, (*loaded, *plan.loaded))
        progress(f"assembling {len(plan.packages)} packages")
        image_assembly.add_parts(tree, plan.parts, plan.packages, work)
        for overlay in plan.request.overlays:
            tree.include(overlay)
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
        for name, content in ((_KERNEL, kernel.image), (_INITRD, initrd), (_IMAGE, image.encoded())):
            replace_file(done / name, content)  # synced, so that it is complete if the rename survives a crash
        replace_file(done / _SEAL, _digest(image.encoded()).encode())
    return image


def _packaged_kernel(package: Package, plan: ImagePlan, work: Path) -> tuple[Kernel, tuple[Module, ...], bool | None]:
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
    """Read the description of an image without checking its files; None if it is damaged."""
    try:
        encoded = read_regular_file(home / _IMAGE, _MOST_DESCRIPTION_BYTES)
        if read_regular_file(home / _SEAL, _MOST_DESCRIPTION_BYTES).decode() != _digest(encoded):
            return None
        return msgspec.json.decode(encoded, type=Image)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None


def _whole(home: Path, progress: Progress) -> Image | None:
    """Return a cached image if all its files match their digests; else move it away."""
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
    progress(f"the image {home.name[:12]} in the cache is damaged ({', '.join(damaged)}) and is built again")
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".damaged-") as aside:
        home.rename(Path(aside) / home.name)
    return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@functools.cache
def code_version() -> str:
    """Return a digest of the code that builds images, because another version may build a different image from the same input."""
    files = [
        Path(str(module.__file__))
        for module in (image_assembly, cpio, kernels, kernel_modules, loader_files, image_catalog)
    ]
    return _digest(b"".join(path.read_bytes() for path in (*files, Path(__file__))))
