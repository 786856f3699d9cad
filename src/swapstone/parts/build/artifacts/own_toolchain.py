# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compilers, SDKs and C libraries that the user names by path: the commands that build with them, and what identifies them."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import first_line, header_folders, link_inputs
from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import MARK
from swapstone.parts.build.factors.compiler_probe import CompilerFacts, probe_compiler
from swapstone.parts.build.factors.libc import CLibraryTree, level_of_file, read_tree
from swapstone.parts.build.factors.sdk import Sdk, command_of_level, sdk_of_level


def installed_musl(command: str = "musl-gcc") -> CLibraryTree:
    """Return the musl that a command links.

    Args:
        command: gcc for musl.

    Raises:
        UnavailableError: it does not print where its files are.
    """
    gcc = (command,)
    start = next((path.parent for path in link_inputs(gcc) if path.name.endswith("crt1.o")), None)
    headers = tuple(str(folder) for folder in header_folders(gcc) if (folder / "stdio.h").is_file())
    loader = next(iter(sorted(Path("/lib").glob("ld-musl-*.so.1"))), None)
    if start is None or not headers:
        raise UnavailableError(
            f"{command} does not print the location of musl's headers and start-up objects.",
            f"Check the output of `{command} -### -x c /dev/null`.",
        )
    return CLibraryTree(
        kind="musl", headers=headers, objects=str(start), libraries=(str(start),), loader=str(loader or "")
    )


def tree_options(
    tree: CLibraryTree,
    compiler: Sequence[str],
    *,
    clang: bool,
    cxx: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the options with which a compiler uses a C library's files and none of the system's.

    Args:
        tree: the C library.
        compiler: a command of gcc or clang.
        clang: whether it is clang, which finds its own headers in another way.
        cxx: folders of a C++ library's headers.
        libraries: further folders of libraries, searched first.
    """
    headers = [option for folder in (*cxx, *tree.headers) for option in ("-isystem", folder)]
    if clang:
        own = ["-nostdlibinc", "-fmath-errno"]
        after: list[str] = []
    else:
        own = ["-nostdinc"]
        folders = (first_line([*compiler, f"-print-file-name={name}"]) for name in ("include", "include-fixed"))
        after = [option for folder in folders if folder.startswith("/") for option in ("-isystem", folder)]
    start = [f"-B{tree.objects}/", *(f"-L{folder}" for folder in (*libraries, *tree.libraries))]
    link = ["-static-libgcc", *([f"-Wl,--dynamic-linker={tree.loader}"] if tree.loader else [])]
    link += [f"-Wl,-rpath,{folder}" for folder in tree.libraries if tree.rpath]
    options = [*own, *(["-nostdinc++"] if cxx else []), *headers, *after, *start, *link]
    return ("--start-no-unused-arguments", *options, "--end-no-unused-arguments") if clang else tuple(options)


def compiler_script(name: str, command: Sequence[str]) -> Path:
    """Return an executable script that runs a command with further arguments; it is created in the cache if necessary.

    Args:
        name: of the file.
        command: with its options.
    """
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    home = cache_dir().resolve() / "toolchains" / hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16]
    script = home / name
    if not script.is_file():
        with new_folder(home, ".making-") as made:
            (made / name).write_text(text)
            (made / name).chmod(0o755)
    return script


_MACHINES = {"EM_X86_64": "x86_64", "EM_386": "i686", "EM_AARCH64": "aarch64", "EM_ARM": "arm", "EM_RISCV": "riscv64"}
_RUNS_TOO = {("x86_64", "i686"), ("aarch64", "arm")}
"""Pairs (machine, other machine whose programs it runs)."""


def is_own(recipe: Recipe) -> bool:
    """Return whether a recipe has a compiler by path, or a C library by path or version."""
    names = (recipe.of(Build).compiler, recipe.of(Build).libc)
    return any("/" in name for name in names) or ":" in names[1]


def own_command(
    recipe: Recipe, base: tuple[str, ...], cxx: tuple[str, ...] = (), folders: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the command of a C or C++ compiler with the options for the recipe's C library.

    Args:
        recipe: with a path as compiler or as C library.
        base: the compiler.
        cxx: folders of a C++ library's headers.
        folders: folders of a C++ library.

    Raises:
        UnavailableError: compiler or C library are for another machine, or don't fit each other.
    """
    clang = recipe.of(Build).compiler == "clang"
    if "/" in recipe.of(Build).compiler:
        facts = probe_compiler(command_of_level(recipe.of(Build).compiler))
        _check_machine(f"The compiler {recipe.of(Build).compiler}", facts.machine, recipe)
        clang = facts.kind == "clang"
    tree = tree_of(recipe)
    name = f"{Path(base[0]).name}-{'own' if tree is None else tree.kind}"
    if tree is not None:
        return (
            str(
                compiler_script(
                    name, (*base, *tree_options(marked(tree), base, clang=clang, cxx=cxx, libraries=folders))
                )
            ),
        )
    sdk = sdk_of_level(recipe.of(Build).compiler)
    if sdk is None:
        return base
    return (str(compiler_script(name, (*base, *_sdk_options(sdk, recipe, clang=clang)))),)


def tree_of(recipe: Recipe) -> CLibraryTree | None:
    """Return the C library whose files a recipe's compiler must be given; None for the compiler's own.

    Raises:
        UnavailableError: it is for another machine, or an SDK has one already.
    """
    if recipe.of(Build).libc == "glibc":
        return None
    if sdk_of_level(recipe.of(Build).compiler) is not None:
        raise UnavailableError(
            f"The SDK {recipe.of(Build).compiler} has a C library of its own: it can't build for {recipe.of(Build).libc}.",
            "Name its compiler by path: compiler=/path/to/bin/TARGET-gcc",
        )
    if "/" not in recipe.of(Build).libc:
        return installed_musl()
    tree = read_tree(Path(recipe.of(Build).libc))
    _check_machine(f"The C library in {tree.root}", _MACHINES.get(tree.machine, tree.machine), recipe)
    if recipe.of(Build).linking == "dynamic" and not tree.loader:
        raise UnavailableError(f"The C library in {tree.root} has no dynamic loader.", "Compare with linking=static.")
    return tree


def _check_machine(what: str, machine: str, recipe: Recipe) -> None:
    wanted = recipe.architecture or os.uname().machine
    if machine == wanted or (wanted, machine) in _RUNS_TOO or (machine.startswith("arm") and wanted.startswith("arm")):
        return
    hint = "A virtual machine of that architecture can run it: --target vm --arch arm64" if machine == "aarch64" else ""
    raise UnavailableError(f"{what} is for {machine}, and the programs would run on {wanted}.", hint)


def _sdk_options(sdk: Sdk, recipe: Recipe, *, clang: bool) -> tuple[str, ...]:
    """Return the SDK's flags, and options that make programs use the loader and the libraries of its system root."""
    options = [*sdk.cflags, *sdk.ldflags]
    if sdk.sysroot and recipe.of(Build).linking == "dynamic":
        try:
            tree = read_tree(Path(sdk.sysroot).resolve())
        except UserError as error:
            raise UnavailableError(
                f"The system root of {sdk.script} can't be used. {error.message}", error.hint
            ) from error
        options += [f"-Wl,--dynamic-linker={tree.loader}", *(f"-Wl,-rpath,{folder}" for folder in tree.libraries)]
    return ("--start-no-unused-arguments", *options, "--end-no-unused-arguments") if clang else tuple(options)


def marked(tree: CLibraryTree) -> CLibraryTree:
    """Return a C library whose start-up objects carry its name, so that it can be observed in a static program.

    Raises:
        UnavailableError: objcopy is not installed, or fails.
    """
    if not tree.root:
        return tree
    real = Path(tree.objects)
    stamps = [f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in sorted(real.glob("*crt*.o"))]
    digest = hashlib.sha256("\n".join(("marked 1", tree.mark(), *stamps)).encode()).hexdigest()[:16]
    home = cache_dir().resolve() / "toolchains" / digest
    if not home.is_dir():
        with new_folder(home, ".making-") as made:
            mark = made.parent / "mark"
            mark.write_bytes(tree.mark().encode() + b"\0")
            options = (f"--add-section={MARK}={mark}", f"--set-section-flags={MARK}=readonly")
            for path in real.glob("*crt*.o"):
                if path.name.endswith("crt1.o"):
                    objcopy = require_command("objcopy", f"Marking {path}")
                    run_tool([objcopy, *options, str(path), str(made / path.name)], f"Marking {path}")
                else:
                    (made / path.name).symlink_to(path.resolve())
    return msgspec.structs.replace(tree, objects=str(home))


def own_tools(recipes: Iterable[Recipe]) -> list[tuple[str, str]]:
    """Return pairs (what, version and digest) of the compilers and C libraries by path, for the manifest."""
    found: set[tuple[str, str]] = set()
    for recipe in recipes:
        if "/" in recipe.of(Build).compiler:
            facts: CompilerFacts = probe_compiler(command_of_level(recipe.of(Build).compiler))
            found.add(
                (f"compiler {recipe.of(Build).compiler}", f"{facts.title}, for {facts.target}, SHA-256 {facts.sha256}")
            )
        if "/" in recipe.of(Build).libc:
            tree = read_tree(Path(recipe.of(Build).libc))
            found.add(
                (
                    f"C library {level_of_file(tree.root) or tree.root}",
                    f"{tree.kind}, {Path(tree.library).name} with SHA-256 {tree.digest()}",
                )
            )
    return sorted(found)


def libc_kind(recipe: Recipe) -> str:
    """Return the kind of a recipe's C library: ``glibc``, ``musl`` or ``uclibc``."""
    return read_tree(Path(recipe.of(Build).libc)).kind if "/" in recipe.of(Build).libc else recipe.of(Build).libc
