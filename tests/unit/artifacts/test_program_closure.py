# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files that a program needs: the search of a dynamic loader, repeated without executing anything."""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tools.small_elf import AARCH64, NEEDED, small_elf

from swapstone.core.factors.elf_file import MOST_ENTRIES, DamagedElfError
from swapstone.core.model import UserError
from swapstone.parts.build.artifacts.loader_files import read_entries
from swapstone.parts.build.artifacts.program_closure import (
    CachedObject,
    Closure,
    FileTree,
    decode_cache,
    encode_cache,
    host_tree,
    needs_newer_musl,
    resolve_closure,
)
from tests.programs import needs

LOADER = "/lib64/ld-linux-x86-64.so.2"
MUSL = "/lib/ld-musl-x86_64.so.1"


def resolved(
    files: Mapping[str, bytes],
    program: str = "/opt/app/bin/prog",
    *,
    cached: Mapping[str, str] | None = None,
    **options: object,
) -> Closure:
    every = {LOADER: small_elf(soname="ld-linux-x86-64.so.2"), MUSL: small_elf(), **files}
    cache = {name: (CachedObject(name=name, path=path, flags=0x303),) for name, path in (cached or {}).items()}

    def real(path: str) -> str:
        plain = os.path.normpath(path)
        return plain if plain in every else ""

    tree = FileTree(lambda path: every[os.path.normpath(path)], real, cache)
    return resolve_closure(program, tree, **options)  # type: ignore[arg-type] # of its keywords


def where(closure: Closure, name: str) -> str:
    found = [path for path in closure.files if path.endswith(f"/{name}")]
    assert len(found) == 1, closure
    return os.path.normpath(found[0])


def program(**entries: object) -> bytes:
    return small_elf(loader=LOADER, **entries)  # type: ignore[arg-type] # of its keywords


def test_the_order_of_the_search_is_that_of_glibc() -> None:
    """ld.so(8): DT_RPATH without DT_RUNPATH, LD_LIBRARY_PATH, DT_RUNPATH, the cache, the default folders."""
    lib = small_elf(soname="liba.so")
    places = [
        "/rpath/liba.so",
        "/env/liba.so",
        "/runpath/liba.so",
        "/cached/liba.so",
        "/usr/lib/x86_64-linux-gnu/liba.so",
    ]
    left = dict.fromkeys(places, lib)
    for expected, entries in (
        ("/rpath/liba.so", {"rpath": "/rpath"}),
        ("/env/liba.so", {"rpath": "/rpath", "runpath": "/runpath"}),
    ):
        files = {"/opt/app/bin/prog": program(needed=["liba.so"], **entries), **left}
        closure = resolved(files, cached={"liba.so": "/cached/liba.so"}, library_path="/env")
        assert where(closure, "liba.so") == expected
    for expected in places[1:]:
        files = {"/opt/app/bin/prog": program(needed=["liba.so"], runpath="/runpath"), **left}
        closure = resolved(files, cached={"liba.so": "/cached/liba.so"}, library_path="/env")
        assert where(closure, "liba.so") == expected
        assert [each.path for each in closure.cached] == (["/cached/liba.so"] if "/cached" in expected else [])
        del left[expected]
    assert resolved(files | {expected: b""}).missing == (("liba.so", "/opt/app/bin/prog"),)


def test_origin_is_the_folder_of_the_object_that_has_the_path() -> None:
    closure = resolved(
        {
            "/opt/app/bin/prog": program(needed=["liba.so"], runpath="$ORIGIN/../lib:/none"),
            "/opt/app/lib/liba.so": small_elf(needed=["libb.so"], runpath="${ORIGIN}/private"),
            "/opt/app/lib/private/libb.so": small_elf(),
        }
    )
    assert where(closure, "liba.so") == "/opt/app/lib/liba.so"
    assert where(closure, "libb.so") == "/opt/app/lib/private/libb.so"
    assert (
        "/opt/app/bin/../lib/liba.so" in closure.files
    )  # as the loader opens it: that path must work in a machine too


def test_objects_that_may_be_loaded_bring_what_they_need_and_lack_nothing() -> None:
    """As dlopen(3) searches: by the object's own paths, and the program's DT_RPATH. What the program itself lacks is still missing."""
    files = {
        "/opt/app/bin/prog": program(needed=["libnone.so"], rpath="/a"),
        "/a/liba.so": small_elf(),
        "/plugins/private/libb.so": small_elf(needed=["libc.so.1"]),
        "/plugins/one.so": small_elf(needed=["libb.so", "libnone.so", "libother.so"], runpath="$ORIGIN/private"),
        "/plugins/two.so": small_elf(needed=["liba.so"]),
        "/plugins/arm.so": small_elf(needed=["liba.so"], machine=AARCH64),
    }
    found = resolved(files, loadable=[f"/plugins/{name}.so" for name in ("one", "two", "arm", "none")])
    assert found.files.keys() == {"/opt/app/bin/prog", LOADER, "/plugins/private/libb.so", "/a/liba.so"}
    assert found.missing == (("libnone.so", "/opt/app/bin/prog"),)


def test_an_rpath_is_inherited_and_a_runpath_is_not() -> None:
    files = {"/a/liba.so": small_elf(needed=["libb.so"]), "/a/libb.so": small_elf()}
    closure = resolved({"/opt/app/bin/prog": program(needed=["liba.so"], rpath="/a"), **files})
    assert where(closure, "libb.so") == "/a/libb.so"
    closure = resolved({"/opt/app/bin/prog": program(needed=["liba.so"], runpath="/a"), **files})
    assert closure.missing == (("libb.so", "/a/liba.so"),)


def test_objects_for_other_processors_are_passed_over_as_a_loader_does() -> None:
    closure = resolved(
        {
            "/opt/app/bin/prog": program(needed=["liba.so"], runpath="/arm:/x86"),
            "/arm/liba.so": small_elf(machine=AARCH64),
            "/x86/liba.so": small_elf(),
        }
    )
    assert where(closure, "liba.so") == "/x86/liba.so"


def test_preloaded_objects_and_what_they_need_belong_to_it() -> None:
    closure = resolved(
        {
            "/opt/app/bin/prog": program(),
            "/pre/libmalloc.so": small_elf(needed=["libstdc++.so.6"]),
            "/usr/lib/libstdc++.so.6": small_elf(),
        },
        preload=["/pre/libmalloc.so"],
    )
    assert where(closure, "libstdc++.so.6") == "/usr/lib/libstdc++.so.6"


def test_glibc_gets_the_library_that_it_loads_by_name_when_a_thread_ends() -> None:
    files = {"/opt/app/bin/prog": program(needed=["libc.so.6"]), "/lib/libc.so.6": small_elf(soname="libc.so.6")}
    assert resolved(files).missing == ()
    closure = resolved({**files, "/lib/libgcc_s.so.1": small_elf()})
    assert where(closure, "libgcc_s.so.1") == "/lib/libgcc_s.so.1"


def test_a_program_of_musl_finds_libraries_by_the_path_file_of_its_loader() -> None:
    files = {
        "/opt/app/bin/prog": small_elf(loader=MUSL, needed=["libc.so", "libz.so.1"]),
        "/etc/ld-musl-x86_64.path": b"/usr/lib/x86_64-linux-musl\n/mine\n",
        "/mine/libz.so.1": small_elf(),
        "/usr/lib/libz.so.1": small_elf(),
    }
    closure = resolved(files)
    assert where(closure, "libz.so.1") == "/mine/libz.so.1"
    assert (closure.missing, closure.musl_path) == ((), "/etc/ld-musl-x86_64.path")
    del files["/etc/ld-musl-x86_64.path"]
    assert where(resolved(files), "libz.so.1") == "/usr/lib/libz.so.1"


def test_a_static_program_needs_nothing() -> None:
    closure = resolved({"/opt/app/bin/prog": small_elf(needed=["liba.so"])})
    assert (closure.files, closure.missing) == ({"/opt/app/bin/prog": "/opt/app/bin/prog"}, ())


def test_objects_that_need_each_other_end() -> None:
    closure = resolved(
        {
            "/opt/app/bin/prog": program(needed=["liba.so"]),
            "/lib/liba.so": small_elf(needed=["libb.so", "liba.so"]),
            "/lib/libb.so": small_elf(needed=["liba.so"]),
        }
    )
    assert len(closure.files) == 4


@pytest.mark.parametrize(
    "content",
    [
        small_elf(loader="/lib64/" + "x" * 5000),
        small_elf(needed=["a" * 5000]),
        small_elf(entries=[(NEEDED, 1)], texts=b"x" * 20_000),
        small_elf(entries=[(NEEDED, 1 << 60)]),
        small_elf(entries=[(NEEDED, 1)] * (MOST_ENTRIES + 1)),
        small_elf()[:100],
        b"\x7fELF" + bytes(60),
    ],
    ids=["long loader", "long name", "texts without end", "text outside", "entries without end", "truncated", "empty"],
)
def test_damaged_files_are_refused_in_bounded_time(content: bytes) -> None:
    with pytest.raises(DamagedElfError):
        read_entries(content)
    with pytest.raises(UserError, match=re.escape("/opt/app/bin/prog is a damaged ELF file")):
        resolved({"/opt/app/bin/prog": content})


@pytest.mark.slow
def test_random_changes_of_a_file_raise_no_other_error() -> None:
    drawn = random.Random(4)
    whole = program(needed=["liba.so", "libb.so"], runpath="$ORIGIN")
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
        try:
            read_entries(bytes(changed))
        except DamagedElfError:
            continue


@pytest.mark.slow
def test_more_objects_than_any_program_has_are_refused() -> None:
    chain = {f"/lib/lib{n}.so": small_elf(needed=[f"lib{n + 1}.so"]) for n in range(1010)}
    with pytest.raises(UserError, match="more than 1000 shared objects"):
        resolved({"/opt/app/bin/prog": program(needed=["lib0.so"]), **chain})


def test_a_cache_is_written_in_the_order_in_which_a_loader_searches() -> None:
    entries = [
        CachedObject(name=f"lib{name}.so", path=f"/x/lib{name}.so", flags=0x303) for name in ("a", "a10", "a9", "b")
    ]
    content = encode_cache(entries)
    assert [*decode_cache(content)] == ["libb.so", "liba10.so", "liba9.so", "liba.so"]  # descending; numbers by value
    assert encode_cache(reversed(entries)) == content
    for end in range(len(content)):
        decode_cache(content[:end])
    assert decode_cache(content[:-1]) != {}
    assert decode_cache(content.replace(b"\x04\0\0\0", b"\xff\xff\xff\x7f", 1)) == {}


@needs("ldconfig")
def test_ldconfig_reads_a_written_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(encode_cache([CachedObject(name="liba.so.1", path="/x/liba.so.1", flags=0x303)]))
    shown = subprocess.run(["ldconfig", "-p", "-C", tmp_path / "cache"], capture_output=True, text=True, check=True)
    assert "liba.so.1 (libc6,x86-64) => /x/liba.so.1" in shown.stdout


@needs("ldd")
def test_the_files_of_a_program_of_this_machine_are_those_that_its_loader_prints() -> None:
    path = os.path.realpath("/bin/ls")
    closure = resolve_closure(path, host_tree(lambda name: Path(name).read_bytes()))
    shown = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    loaded = {os.path.realpath(found) for found in re.findall(r"(/\S+) \(0x", shown)}
    assert loaded | {path} == {real for real in closure.files.values() if "libgcc_s" not in real}


def test_an_object_with_a_runpath_does_not_search_the_rpath_of_the_program() -> None:
    """ld.so(8): DT_RPATH is used only if DT_RUNPATH does not exist in the object."""
    files = {
        "/opt/app/bin/prog": program(needed=["liba.so"], rpath="/rpath"),
        "/rpath/liba.so": small_elf(soname="liba.so", needed=["libb.so"], runpath="/own"),
        "/rpath/libb.so": small_elf(soname="libb.so"),
        "/own/libb.so": small_elf(soname="libb.so"),
    }
    assert where(resolved(files), "libb.so") == "/own/libb.so"


def test_an_object_that_is_loaded_under_another_name_is_not_searched_again() -> None:
    """The loader compares names with DT_SONAME too."""
    files = {
        "/opt/app/bin/prog": program(needed=["./liba.so", "liba.so.1"], runpath="/other"),
        "/opt/app/liba.so": small_elf(soname="liba.so.1"),
        "/other/liba.so.1": small_elf(soname="liba.so.1"),
    }
    closure = resolved(files, folder="/opt/app")
    assert [path for path in closure.files if "/other/" in path] == [] and closure.missing == ()


def test_origin_of_an_object_is_the_folder_of_the_path_that_was_opened() -> None:
    """Only of the program does a loader follow links (/proc/self/exe)."""
    every = {
        LOADER: small_elf(soname="ld-linux-x86-64.so.2"),
        "/opt/prog": program(needed=["liba.so"], runpath="/links"),
        "/real/liba.so": small_elf(soname="liba.so", needed=["libb.so"], runpath="$ORIGIN"),
        "/real/libb.so": small_elf(soname="libb.so"),
        "/links/libb.so": small_elf(soname="libb.so"),
    }
    links = {"/links/liba.so": "/real/liba.so"}

    def real(path: str) -> str:
        plain = os.path.normpath(path)
        return links.get(plain, plain if plain in every else "")

    closure = resolve_closure("/opt/prog", FileTree(lambda path: every[real(path)], real, {}))
    assert where(closure, "libb.so") == "/links/libb.so"


@pytest.mark.parametrize(
    ("version", "entries", "name", "named"),
    [
        ("1.2.3", [(36, 0)], "ld-musl-x86_64.so.1", True),
        ("1.2.4", [(36, 0)], "ld-musl-x86_64.so.1", False),
        ("1.3.0", [(36, 0)], "ld-musl-x86_64.so.1", False),
        ("1.2.3", [], "ld-musl-x86_64.so.1", False),
        ("1.2.3", [(36, 0)], "ld-linux-x86-64.so.2", False),
        ("unknown", [(36, 0)], "ld-musl-x86_64.so.1", False),
    ],
)
def test_an_object_that_an_older_musl_does_not_relocate_is_named(
    version: str, entries: list[tuple[int, int]], name: str, named: bool, tmp_path: Path
) -> None:
    """DT_RELR is 36."""
    loader = tmp_path / name
    loader.write_bytes(small_elf(soname="libc.so") + f"\0{version}\0".encode())
    (tmp_path / "prog").write_bytes(small_elf(loader=str(loader), needed=["libx.so"], runpath="$ORIGIN"))
    (tmp_path / "libx.so").write_bytes(small_elf(soname="libx.so", entries=entries))
    found = needs_newer_musl(str(tmp_path / "prog"))
    assert bool(found) is named
    if named:
        assert "libx.so needs musl 1.2.4 or newer" in found and found.endswith("is musl 1.2.3")
