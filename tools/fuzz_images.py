# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decoders of ELF files, packages, images and files of the host, with valid inputs."""

from __future__ import annotations

import gzip
import lzma
import tempfile
from pathlib import Path

from tools import fuzz_binaries, fuzz_seeds
from tools.fuzz_decoder import TOP, Decoder, constant, in_file, in_folder, scratch_folder, sections, text_of
from tools.root_archives import docker_image, oci_image, tar
from tools.small_elf import AARCH64, BX_LR, NOP, VADD, attributes, call, float_elf, small_elf

from swapstone.core.artifacts import program_size
from swapstone.core.factors import Evidence, all_factors
from swapstone.core.factors import elf_file as program_facts
from swapstone.core.factors.elf_file import DamagedElfError, open_elf
from swapstone.core.model import (
    cpio,
)
from swapstone.core.model.image_difference import identity_of_file, identity_of_running
from swapstone.core.targets import health
from swapstone.core.targets.host import describe_host
from swapstone.parts.build.artifacts import loader_files, packages, program_closure, snapshot, upstream_sources
from swapstone.parts.build.artifacts.apt import offers_in
from swapstone.parts.build.factors import arm_attributes
from swapstone.parts.explain.instruments import symbol_tables, unwind_tables
from swapstone.parts.vm.artifacts import container_images, kernels, root_file_systems
from swapstone.parts.vm.artifacts.kernel_modules import Modules

# ELF files and images


def _facts(data: bytes) -> object:
    facts = program_facts.facts_of.__wrapped__(in_file(data), "file")
    if facts is None:
        raise DamagedElfError("no facts")
    evidence = Evidence(interp=facts.interp, objects=("/lib/x.so",), program=facts, libraries=(facts,))
    return facts, [factor.observe(evidence) for factor in all_factors()]


def _symbols(data: bytes) -> object:
    table = symbol_tables._table.__wrapped__(in_file(data), 0)
    if table is None:
        raise DamagedElfError("no table")
    return (
        list(table),
        symbol_tables.missing_symbols(in_file(data)),
        table.name_at(0x118),
    )


def _unwind_tables(data: bytes) -> object:
    path = in_file(data)
    with open_elf(path) as elf:
        lacks = unwind_tables.lacks_tables(elf)
    return lacks, unwind_tables.layout_of(path)


def _objects(data: bytes) -> object:
    return symbol_tables.matches(in_file(fuzz_binaries.elf(), "library"), in_file(data, "objects"))


def _kernel(data: bytes) -> object:
    kernel = kernels.read_kernel(in_file(data))
    return kernel.architecture, len(kernel.image), kernel.banner


def _identity(data: bytes) -> object:
    found = identity_of_file(data)
    running = identity_of_running(data[:200], data[200:])
    found.runs(running)
    return found.versions + found.build_ids


def _module(data: bytes) -> object:
    name = "one.ko" + next((end for magic, end in _PACKED if data.startswith(magic)), "")
    built_in = b"two.ko\nthree.ko\nfour.ko\n"
    modules = Modules([name, "modules.builtin"], lambda path: data if path == name else built_in)
    return modules.load_order(["one"])


_PACKED = ((b"\x1f\x8b", ".gz"), (b"\xfd7zXZ\0", ".xz"))


def _module_seeds() -> tuple[bytes, ...]:
    plain = fuzz_binaries.elf()
    return plain, gzip.compress(plain), lzma.compress(plain)


def _elves() -> tuple[bytes, ...]:
    return fuzz_binaries.elf(), fuzz_binaries.elf(wide=False, machine=40), fuzz_binaries.elf(little=False, machine=21)


def _root_archive(data: bytes) -> object:
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as work:
        tree = root_file_systems.read_tree("root.tar", "x86_64", Path(work), archive=in_file(data))
        tree.check()
        tree.write(Path(work) / "root")
        return tree.sha256()


def _root_archives() -> tuple[bytes, ...]:
    layer = tar(("bin/a", "file", "a"), ("b", "hard", "bin/a"), ("l", "link", "/bin"), ("tmp", "folder", ""))
    above = tar((".wh.b", "file", ""), ("l/c", "file", "c"), ("bin/.wh..wh..opq", "file", ""))
    return layer, gzip.compress(layer), lzma.compress(layer), oci_image([layer, above]), docker_image([layer, above])


def _dynamic_elves() -> tuple[bytes, ...]:
    loader = small_elf(loader="/lib64/ld.so", needed=["liba.so", "libb.so"], runpath="$ORIGIN/../lib:/x")
    return loader, small_elf(soname="liba.so", rpath="/y", machine=AARCH64)


def _loader_caches() -> tuple[bytes, ...]:
    names = ("libc.so.6", "libm.so.6")
    cached = [program_closure.CachedObject(name=name, path=f"/lib/{name}", flags=0x303) for name in names]
    return (program_closure.encode_cache(cached), b"ld.so-1.7.0" + program_closure.encode_cache(cached[:1]))


def _initrds() -> tuple[bytes, ...]:
    one = cpio.archive({"d/a": cpio.file(b"1"), "d/l": cpio.link("a"), "null": cpio.device(1, 3)})
    return one + one, gzip.compress(one) + b"\0" * 4, lzma.compress(one) + one


def _host(data: bytes) -> object:
    names = [name.decode()[4:] for name in fuzz_seeds.HOST.splitlines() if name.startswith(b"--- ")]
    root = in_folder("host", sections(data, names))
    findings = health.examine(health.HostFiles(root))
    return [one for one in findings if one.name != "free disk"], describe_host(root)


IMAGE_DECODERS: tuple[Decoder, ...] = (
    Decoder("image lock", "file", lambda data: packages.read_lock(in_file(data)), constant(fuzz_seeds.IMAGE_LOCK)),
    Decoder(
        "source lock", "file", lambda data: upstream_sources.read_lock(in_file(data)), constant(fuzz_seeds.SOURCE_LOCK)
    ),
    Decoder(
        "snapshot times",
        "file",
        lambda data: snapshot.read_snapshots(in_file(data)),
        lambda: ((TOP / "native" / "snapshots.toml").read_bytes(),),
    ),
    Decoder("program facts", "ELF file", _facts, _elves, errors=(DamagedElfError,)),
    Decoder(
        "ARM program facts",
        "ELF file",
        _facts,
        lambda: (float_elf("soft", [call(0, 2), BX_LR, NOP], "__aeabi_fadd"), float_elf("hard", [VADD, BX_LR])),
        errors=(DamagedElfError,),
    ),
    Decoder(
        "ARM build attributes",
        "ELF file",
        arm_attributes.decode_arm_attributes,
        lambda: (attributes([(10, 4), (28, 1)]),),
        errors=(arm_attributes.DamagedAttributesError,),
    ),
    Decoder("symbols", "ELF file", _symbols, _elves, errors=(DamagedElfError,)),
    Decoder("unwind tables", "ELF file", _unwind_tables, lambda: (fuzz_binaries.elf(),), errors=(DamagedElfError,)),
    Decoder("dynamic entries", "ELF file", loader_files.read_entries, _dynamic_elves, errors=(DamagedElfError,)),
    Decoder("loader cache", "ld.so.cache", program_closure.decode_cache, _loader_caches),
    Decoder(
        "container engine",
        "docker, podman",
        lambda data: container_images.decode_image(data, list[container_images.EngineImage]),
        constant(b'[{"Id": "sha256:1", "Architecture": "amd64", "RepoDigests": ["a@sha256:1"]}]'),
    ),
    Decoder(
        "image in a registry",
        "skopeo",
        lambda data: container_images.decode_image(data, container_images.RegistryImage),
        constant(b'{"Digest": "sha256:1", "Architecture": "amd64"}'),
    ),
    Decoder("root archive", "root file system", _root_archive, _root_archives),
    Decoder("program size", "ELF file", lambda data: program_size.sizes_of(in_file(data)), _elves),
    Decoder("kernel module", "ELF file", _module, _module_seeds),
    Decoder("objects of an archive", "ELF file", _objects, _elves, errors=(DamagedElfError,)),
    Decoder("kernel", "image", _kernel, fuzz_binaries.kernels),
    Decoder("kernel identity", "image", _identity, fuzz_binaries.kernels),
    Decoder("initrd", "image", cpio.unpack, _initrds),
    Decoder("package index", "apt", lambda data: offers_in(text_of(data), "one"), constant(fuzz_seeds.PACKAGES)),
    Decoder("host files", "/proc, /sys", _host, constant(fuzz_seeds.HOST)),
)
