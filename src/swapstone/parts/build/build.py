# SPDX-License-Identifier: MIT OR Apache-2.0
"""How a program is built: the piece of a recipe that the factors of this part change."""

from __future__ import annotations

from swapstone.core.model import FrozenStruct


class Build(FrozenStruct, frozen=True, kw_only=True):
    """Names, which factors set in any order, and what `resolve_recipe` makes of them: `command`, further flags, and a list to preload.

    Attributes:
        libc: name of the C library.
        compiler: name of the C compiler: ``cc`` for the machine's default, ``gcc``, ``clang``.
        linking: ``dynamic`` or ``static``.
        allocator: name of the allocator, ``default`` for that of the C library; or the path of a shared object that contains one.
        cflags: flags for compiling: those that most projects build with. The switches are recorded in the program, so that the
            optimization level in force can be read from it.
        ldflags: flags for linking.
        command: the C compiler's command; empty until it is resolved.
        prefix: folder with ``include`` and ``lib`` of the libraries that ``--with`` names; empty for none.
        libraries: the texts in ``.comment`` by which a program or shared object that contains one of them is recognized.
        float_abi: level of the factor ``float``; empty for the compiler's default.
    """

    libc: str = "glibc"
    compiler: str = "cc"
    linking: str = "dynamic"
    allocator: str = "default"
    cflags: tuple[str, ...] = ("-O2", "-g0", "-frecord-gcc-switches")
    ldflags: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    prefix: str = ""
    libraries: tuple[str, ...] = ()
    float_abi: str = ""
