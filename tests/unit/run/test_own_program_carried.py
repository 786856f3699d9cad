# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of an own program that a virtual machine gets: all that it needs, nothing else, and no file that is not plain."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import msgspec
import pytest
from tools.small_elf import AARCH64, X86_64, small_elf

from swapstone.core.factors import read_facts
from swapstone.core.model import OwnProgram, UserError
from swapstone.core.model.cpio import file, folder, link
from swapstone.core.targets.carried_files import CarriedFiles, room_bytes
from swapstone.parts.build.artifacts.program_closure import CachedObject, Closure, decode_cache
from swapstone.parts.build.subjects import own_program_carried
from swapstone.parts.build.subjects.own_program_carried import carried_files, uncarried_files
from swapstone.parts.vm.artifacts.root_file_systems import RootFileSystem
from swapstone.parts.vm.machine.guest import find, placed, resolve
from swapstone.parts.vm.subjects import own_program_root
from swapstone.parts.vm.subjects.own_program_root import working_files

HERE = os.uname().machine


def carried(path: Path, *, architecture: str = HERE, **own: object) -> CarriedFiles:
    described = OwnProgram(name="p", arguments=(str(path),), directory=str(path.parent), **own)  # type: ignore[arg-type] # its fields
    return carried_files(described, str(path), str(path.parent), architecture)


def static(path: Path, content: bytes = b"", mode: int = 0o755) -> Path:
    path.write_bytes(content or (small_elf() if HERE == "x86_64" else small_elf(machine=AARCH64)))
    path.chmod(mode)
    return path


def test_a_dynamic_program_brings_its_loader_and_libraries_and_nothing_else(tmp_path: Path) -> None:
    program = Path(shutil.copy(os.path.realpath("/bin/ls"), tmp_path / "prog"))
    found = carried(program)
    facts = read_facts(program)
    assert facts is not None
    assert facts.interp is not None
    names = {path.rpartition("/")[2] for path in (*found.files, *found.aliases)}
    assert {"prog", facts.interp.rpartition("/")[2], "ld.so.cache", *facts.needed} <= names
    cached = decode_cache(found.files["/etc/ld.so.cache"].content)
    assert set(cached) <= names  # no other library of this machine is named
    assert found.files[str(program)].mode == stat.S_IFREG | 0o755
    assert all(path == os.path.realpath(path) for path in found.files if path != "/etc/ld.so.cache")
    assert found == carried(program)


def test_a_folder_is_taken_whole_with_links_that_stay_inside(tmp_path: Path) -> None:
    program = static(tmp_path / "prog")
    data = tmp_path / "data"
    (data / "sub" / "empty").mkdir(parents=True)
    (data / "sub" / "one.txt").write_text("1")
    (data / "link").symlink_to("sub/one.txt")
    (tmp_path / "input").write_text("in")
    found = carried(program, files=("data",), stdin=str(tmp_path / "input"))
    assert {path.removeprefix(f"{tmp_path}/") for path in found.files} == {"prog", "data/sub/one.txt", "input"}
    assert found.aliases[f"{data}/link"] == f"{data}/sub/one.txt"
    assert f"{data}/sub/empty" in found.folders
    assert str(tmp_path) in found.folders  # in which it runs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.symlink_to("/etc/hostname"), "data/x leads out of the folder, to /etc/hostname"),
        (lambda path: path.symlink_to("/dev/null"), "data/x leads out of the folder, to /dev/null"),
        (os.mkfifo, "x is no regular file"),
        (lambda path: static(path, mode=0o4755), "x has a set-user-ID or set-group-ID bit"),
        (lambda path: static(path, mode=0o2755), "x has a set-user-ID or set-group-ID bit"),
    ],
)
def test_what_is_no_plain_file_is_refused(make: object, message: str, tmp_path: Path) -> None:
    program = static(tmp_path / "prog")
    (tmp_path / "data").mkdir()
    make(tmp_path / "data" / "x")  # type: ignore[operator] # the cases are functions
    with pytest.raises(UserError, match=message):
        carried(program, files=("data",))


def test_a_device_and_a_path_of_the_machine_are_refused(tmp_path: Path) -> None:
    program = static(tmp_path / "prog")
    with pytest.raises(UserError, match="/dev/null can't be in a virtual machine: it mounts a file system"):
        carried(program, files=("/dev/null",))
    with pytest.raises(UserError, match="/proc/version can't be in"):
        carried(program, files=("/proc/version",))
    with pytest.raises(UserError, match=re.escape("--files: /no/such is not there")):
        carried(program, files=("/no/such",))


def test_a_file_below_a_path_of_the_machine_is_refused_although_the_link_leads_out_of_it(tmp_path: Path) -> None:
    """The process would open the path that the user named, below a mount of the machine."""
    with pytest.raises(UserError, match="/proc/self/exe can't be in a virtual machine: it mounts a file system"):
        carried(static(tmp_path / "prog"), files=("/proc/self/exe",))


def test_a_link_that_leads_into_a_mount_of_the_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/version")
    with pytest.raises(UserError, match="/proc/version can't be in a virtual machine"):
        carried(static(tmp_path / "prog"), files=("link",))


def test_a_link_in_a_folder_needs_a_name_that_an_image_can_contain(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one").write_text("1")
    os.symlink("one", os.fsencode(tmp_path / "data") + b"/\xff")  # noqa: PTH211 - no text
    with pytest.raises(UserError, match="is not UTF-8"):
        carried(static(tmp_path / "prog"), files=("data",))


def test_a_program_of_musl_brings_the_path_file_of_its_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, paths = static(tmp_path / "prog"), tmp_path / "ld-musl.path"
    paths.write_text("/mine\n")
    found = Closure({str(program): str(program)}, musl_path=str(paths))
    monkeypatch.setattr(own_program_carried, "resolve_closure", lambda *_, **__: found)
    assert carried(program).files[str(paths)].content == b"/mine\n"


@pytest.mark.parametrize(("below", "refused"), [(1, True), (0, False)])
def test_roots_leave_room_for_the_image(below: int, refused: bool) -> None:
    """Documentation/filesystems/tmpfs.rst: roots and image are in the same file system."""
    memory, image = 512 << 20, 32 << 20
    root = RootFileSystem(
        size_bytes=0,
        gzip_bytes=0,
        entries=0,
        source="r",
        sha256="",
        folder="/",
        layer="/",
        memory_bytes=room_bytes(memory) - image + below,
    )
    own = OwnProgram(name="p", arguments=("p",), memory_bytes=memory)
    if not refused:
        own_program_root.check_memory(own, [root])
        return
    with pytest.raises(UserError, match="more than fits into a machine with 512 MiB") as caught:
        own_program_root.check_memory(own, [root])
    needed = re.search("--memory ([0-9]+)M", caught.value.hint)
    assert needed is not None and room_bytes(int(needed[1]) << 20) >= root.memory_bytes + image


def test_a_program_with_a_setuid_bit_or_without_a_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set-user-ID") as caught:
        carried(static(tmp_path / "root", mode=0o4755))
    assert "chmod ug-s" in caught.value.hint
    loader = read_facts(Path(os.path.realpath("/bin/ls")))
    assert loader is not None
    machine = 62 if HERE == "x86_64" else AARCH64
    lacking = small_elf(loader=loader.interp or "", needed=["libnone-such.so.9"], machine=machine)
    with pytest.raises(UserError, match=r"prog needs libnone-such\.so\.9, which is not found") as caught:
        carried(static(tmp_path / "prog", lacking))
    assert "LD_LIBRARY_PATH" in caught.value.hint


def test_a_program_of_another_architecture_needs_a_machine_of_it(tmp_path: Path) -> None:
    program = static(tmp_path / "prog", small_elf(machine=AARCH64, loader="/lib/ld-none-aarch64.so.1"))
    with pytest.raises(UserError, match="64-bit program for arm64; the machine is x86_64") as caught:
        carried(program, architecture="x86_64")
    assert caught.value.hint == "Add --arch arm64"
    if HERE != "aarch64":
        assert carried(program, architecture="aarch64").from_image == ("/lib/ld-none-aarch64.so.1",)


def test_a_program_larger_than_the_machine_is_refused_and_the_hint_is_enough(tmp_path: Path) -> None:
    program = static(tmp_path / "prog")
    (tmp_path / "more").mkdir()
    for name in ("large", "more/other"):
        with (tmp_path / name).open("wb") as handle:
            handle.truncate(30 << 20)
    (tmp_path / "more" / "link").symlink_to("other")
    with pytest.raises(UserError, match=r"larger than 10 MiB .* with 128 MiB of memory") as caught:
        carried(program, files=("large", "more"), memory_bytes=128 << 20)
    assert caught.value.hint == "Give the machine more: --memory 384M"
    assert carried(program, files=("large", "more"), memory_bytes=384 << 20).size_bytes() > 60 << 20


def test_a_program_larger_than_any_machine_receives_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapstone.core.targets.carried_files.MOST_RECEIVED_BYTES", 20 << 20)
    with (tmp_path / "large").open("wb") as handle:
        handle.truncate(30 << 20)
    with pytest.raises(UserError, match=r"larger than 20 MiB .*: more than fits into a machine\.") as caught:
        carried(static(tmp_path / "prog"), files=("large",))
    assert caught.value.hint == "Give the machine more: --memory 256M"


def test_a_script_brings_its_interpreter(tmp_path: Path) -> None:
    script = static(tmp_path / "script", b"#!/bin/sh -e\necho\n")
    shell = os.path.realpath("/bin/sh")
    assert {str(script), shell} <= carried(script).files.keys()
    found = carried(static(tmp_path / "by-env", b"#!/usr/bin/env sh\necho\n"))
    assert {os.path.realpath("/usr/bin/env"), shell} <= found.files.keys()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"echo\n", "neither an ELF program nor a script"),
        (b"#!sh\n", "neither an ELF program nor a script"),
        (b"#!\n", "neither an ELF program nor a script"),
        (b"#!/no/such/interpreter\n", "needs /no/such/interpreter, which is not there"),
        (b"#!/usr/bin/env no-such-program\n", "needs no-such-program, which is not in /usr/bin:/bin"),
        (b"#!/usr/bin/env\n", "needs , which is not in"),
        (b"#!%s\n", "script of a script"),
    ],
)
def test_a_script_without_an_interpreter_is_refused_with_the_way_out(
    content: bytes, message: str, tmp_path: Path
) -> None:
    script = static(tmp_path / "script", content.replace(b"%s", os.fsencode(tmp_path / "script")))
    with pytest.raises(UserError, match=message) as caught:
        carried(script)
    assert "rootfs=" in caught.value.hint


def test_files_and_shared_objects_that_an_error_message_names_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = static(tmp_path / "prog")
    (tmp_path / "lib.cfg").write_text("x")
    known = CachedObject(name="libx.so.1", path=str(tmp_path / "lib.cfg"), flags=0)
    monkeypatch.setattr(own_program_carried, "read_cache", lambda: {"libx.so.1": (known,)})
    own = OwnProgram(name="p", arguments=("prog",))
    found = carried_files(own, str(program), str(tmp_path), HERE)
    for message in (
        f"Error: could not open `{tmp_path}/lib.cfg'",
        "prog: error while loading shared libraries: libx.so.1: cannot open shared object file: No such file",
        f"Error loading shared library libx.so.1: No such file (needed by {program})",
    ):
        assert uncarried_files(found, message.encode()) == (str(tmp_path / "lib.cfg"),)
    for message in (f"{program}: /proc/version, {tmp_path}, {tmp_path}/none", "liby.so", "x" * 5000):
        assert uncarried_files(found, message.encode()) == ()
    assert uncarried_files(found, b"\xff" + os.fsencode(tmp_path / "lib.cfg") + b"\xff")


def of_command(folder_: Path, program: str, *arguments: str, **own: object) -> set[str]:
    described = OwnProgram(name="p", arguments=(program, *arguments), directory=str(folder_), **own)  # type: ignore[arg-type] # its fields
    found = carried_files(described, program, str(folder_), HERE)
    return {*found.files, *found.aliases}


def test_files_that_arguments_name_come_with_a_program(tmp_path: Path) -> None:
    program = static(tmp_path / "prog")
    (tmp_path / "data" / "sub").mkdir(parents=True)
    for name in ("given", "other", "data/sub/one"):
        (tmp_path / name).write_text("x")
    found = of_command(tmp_path, str(program), "-v", "given", "none", "a\0b", "", "data", ".", "/proc/version", "/usr")
    assert found == {str(program), str(tmp_path / "given"), str(tmp_path / "data/sub/one")}


def test_a_shell_script_brings_its_shell_and_the_commands_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "helper").write_text("#!/bin/sh\nif true; then LC_ALL=C sort x | uniq -c; fi\n")
    (tmp_path / "helper").chmod(0o755)
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\n# tac nothing\necho cut > x; n=$(wc -l < x) && exec ./helper\n")
    script.chmod(0o755)
    names = {Path(path).name for path in of_command(tmp_path, str(script))}
    assert {"run", "helper", "sh", "wc", "sort", "uniq"} <= names
    assert names.isdisjoint({"tac", "cut"})
    assert {"head", "ls", "sh"} <= {Path(path).name for path in of_command(tmp_path, "/bin/sh", "-c", "ls | head -1")}


def test_what_only_seems_to_be_needed_refuses_nothing(tmp_path: Path) -> None:
    """A set-user-ID program, and a script whose interpreter is absent."""
    static(tmp_path / "other-user", mode=0o4755)
    static(tmp_path / "lost", b"#!/no/such/interpreter\n")
    script = static(tmp_path / "run", b"#!/bin/sh -e\n./other-user && ./lost\nwc -l < x\n")
    names = {Path(path).name for path in of_command(tmp_path, str(script), "other-user")}
    assert {"run", "sh", "wc"} <= names
    assert "other-user" not in names
    assert "wc" in {Path(path).name for path in of_command(tmp_path, "/bin/sh", "-e", "run")}


def interpreter(top: Path, name: str, libraries: dict[str, str]) -> Path:
    """Make a folder with an interpreter, a static program that is never executed, and its libraries."""
    (top / "bin").mkdir(parents=True)
    for path, content in libraries.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(content)
    return static(top / "bin" / name)


def test_an_interpreter_brings_its_libraries_and_a_script_what_it_imports(tmp_path: Path) -> None:
    site = "lib/python3.11/site-packages"
    python = interpreter(
        tmp_path / "py",
        "python3.11",
        {
            "lib/python3.11/os.py": "",
            "lib/python3.11/test/big.py": "",
            f"{site}/one/__init__.py": "import two\ntry:\n    import three\nexcept ImportError: pass\n",
            f"{site}/two.py": "",
            f"{site}/three.py": "",
            f"{site}/one-1.0.dist-info/METADATA": "",
        },
    )
    work = tmp_path / "work"
    (work / "near").mkdir(parents=True)
    (work / "near" / "deep.py").write_text("")
    (work / "far.py").write_text("")
    (work / "x.py").write_text("import sys\ndef f():\n    from near import deep\nimport one\n")
    names = {path.removeprefix(f"{tmp_path}/") for path in of_command(work, str(python), "-I", "x.py")}
    assert {"py/lib/python3.11/os.py", f"py/{site}/one/__init__.py", f"py/{site}/two.py", "/bin/sh"} <= names
    assert {"work/x.py", "work/near/deep.py", f"py/{site}/one-1.0.dist-info/METADATA"} <= names
    given = of_command(work, str(python), "-c", "import sys, os; import io, far")
    assert {f"{work}/far.py", f"{tmp_path}/py/lib/python3.11/os.py"} <= given
    assert names.isdisjoint({"work/far.py", "py/lib/python3.11/test/big.py", f"py/{site}/three.py"})


def test_env_starts_an_interpreter_with_its_libraries(tmp_path: Path) -> None:
    python = interpreter(tmp_path / "py", "python3.11", {"lib/python3.11/os.py": ""})
    script = tmp_path / "x.py"
    script.write_text("#!/usr/bin/env python3.11\nimport os\n")
    script.chmod(0o755)
    own = OwnProgram(name="p", arguments=(str(script),), directory=str(tmp_path))
    path = (("PATH", str(python.parent)),)
    found = carried_files(own, str(script), str(tmp_path), HERE, environment=path)
    assert {str(python), str(tmp_path / "py/lib/python3.11/os.py")} <= found.files.keys()


def test_a_script_of_node_brings_its_modules_and_those_that_they_need(tmp_path: Path) -> None:
    node = interpreter(tmp_path / "nodejs", "node", {})
    for path, content in {
        "x.mjs": "import a from 'a'\nconst b = require(\"./b\")\nrequire('..')\n",
        "b.js": "",
        "node_modules/a/index.js": "require('@s/c/lib')",
        "node_modules/@s/c/lib.js": "",
        "node_modules/d/index.js": "",
    }.items():
        (tmp_path / "w" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "w" / path).write_text(content)
    names = {path.removeprefix(f"{tmp_path}/w/") for path in of_command(tmp_path / "w", str(node), "x.mjs")}
    assert {"x.mjs", "b.js", "node_modules/a/index.js", "node_modules/@s/c/lib.js"} <= names
    assert "node_modules/d/index.js" not in names


IMAGE = {
    "usr": link("."),
    "lib64": folder(),
    "lib64/ld.so": file(b"loader of the image"),
    "lib/x/libc.so.6": file(b"C library of the image"),
    "bin": folder(),
    "tmp": folder(),
}


def test_files_are_placed_through_the_links_of_an_image() -> None:
    """An image whose /usr links to its root: an entry /usr/lib would replace that link."""
    files = CarriedFiles(
        {"/usr/lib/x/ld.so": file(b"loader"), "/usr/lib/x/libc.so.6": file(b"C library of the image")},
        {"/lib64/ld.so": "/usr/lib/x/ld.so", "/opt/a/bin/../lib/liba.so": "/usr/lib/x/ld.so"},
        ("/srv/work", "/opt/a/bin"),
    )
    added = placed(IMAGE, files)
    assert added.keys() == {"lib/x/ld.so", "lib64/ld.so", "opt/a/lib/liba.so", "srv/work", "opt/a/bin"}
    tree = {**IMAGE, **added}
    assert resolve(tree, "/lib64/ld.so") == "lib/x/ld.so"
    loader = find(tree, "/opt/a/bin/../lib/liba.so")
    assert loader is not None
    assert loader.content == b"loader"


@pytest.mark.parametrize("path", ["/bin", "/lib64/ld.so/inside"])
def test_a_file_that_does_not_fit_into_the_image_is_refused(path: str) -> None:
    with pytest.raises(UserError, match="can't be put into the machine"):
        placed(IMAGE, CarriedFiles({path: file(b"x")}))


def test_only_programs_can_be_executed_in_the_machine(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("1")
    (tmp_path / "data.txt").chmod(0o644)
    program = static(tmp_path / "prog")
    found = carried(program, files=("data.txt",))
    modes = {path.rpartition("/")[2]: entry.mode & 0o777 for path, entry in found.files.items()}
    assert modes == {"prog": 0o755, "data.txt": 0o644}


def test_a_link_into_a_folder_with_a_longer_name_leads_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data-of-others").mkdir()
    (tmp_path / "data-of-others" / "x").write_text("")
    (tmp_path / "data" / "link").symlink_to("../data-of-others/x")
    with pytest.raises(UserError, match=r"leads out of the folder, to .*/data-of-others/x"):
        carried(static(tmp_path / "prog"), files=("data",))


def test_links_out_of_a_folder_need_the_names_of_their_targets(tmp_path: Path) -> None:
    """The hint names all of them, and with it the same command works."""
    program = static(tmp_path / "prog")
    for name in ("data", "etc", "etc/more"):
        (tmp_path / name).mkdir()
    for name in ("one", "more/two"):
        (tmp_path / "etc" / name).write_text(name)
    for number, target in enumerate(("one", "more", "one")):
        (tmp_path / "data" / str(number)).symlink_to(tmp_path / "etc" / target)
    with pytest.raises(UserError, match=r"the link .*/data/0 leads out of the folder, to .*/etc/one,") as caught:
        carried(program, files=("data",))
    assert caught.value.hint == f"Add --files {tmp_path}/etc/one --files {tmp_path}/etc/more"
    found = carried(program, files=("data", *caught.value.hint.removeprefix("Add --files ").split(" --files ")))
    assert found.aliases == {
        f"{tmp_path}/data/{at}": f"{tmp_path}/etc/{to}" for at, to in enumerate(("one", "more", "one"))
    }
    assert {f"{tmp_path}/etc/one", f"{tmp_path}/etc/more/two"} < found.files.keys()


def test_a_link_without_a_target_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to("../none/src.zip")
    found = carried(static(tmp_path / "prog"), files=("data",))
    assert found.files[f"{tmp_path}/data/link"] == link("../none/src.zip")


def test_objects_that_a_program_may_load_bring_what_they_need(tmp_path: Path) -> None:
    """As a Java virtual machine or modules of an interpreter, which nothing but the program names; data that look like ELF stay data."""
    program = Path(shutil.copy(os.path.realpath("/bin/ls"), tmp_path / "prog"))
    machine = X86_64 if HERE == "x86_64" else AARCH64
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
    plugin = small_elf(machine=machine, needed=["libdep.so", "libnone.so"], runpath="$ORIGIN/../other")
    (tmp_path / "data" / "plugin").write_bytes(plugin)
    (tmp_path / "data" / "damaged").write_bytes(plugin[:70])
    (tmp_path / "other" / "libdep.so").write_bytes(small_elf(machine=machine))
    alone, found = carried(program), carried(program, files=("data",))
    more = {f"{tmp_path}/data/plugin", f"{tmp_path}/data/damaged", f"{tmp_path}/other/libdep.so"}
    assert found.files.keys() - alone.files.keys() == more
    assert found.aliases == {**alone.aliases, f"{tmp_path}/data/../other/libdep.so": f"{tmp_path}/other/libdep.so"}
    assert found.from_image == alone.from_image == ()


def test_files_of_two_programs_are_joined_with_all_that_they_need() -> None:
    one = CarriedFiles({"/a": file(b"1")}, {"/l": "/a"}, ("/f",), ("libc.so",), memory_bytes=256 << 20)
    other = CarriedFiles({"/b": file(b"2")}, {"/m": "/b"}, ("/f", "/g"), ("libm.so", "libc.so"), memory_bytes=512 << 20)
    assert one.joined(other) == CarriedFiles(
        {"/a": file(b"1"), "/b": file(b"2")},
        {"/l": "/a", "/m": "/b"},
        ("/f", "/g"),
        ("libc.so", "libm.so"),
        memory_bytes=512 << 20,
    )


def test_an_alias_that_a_link_of_the_image_provides_adds_no_link_to_itself() -> None:
    image = {"lib": link("usr/lib"), "usr": folder(), "usr/lib": folder()}
    files = CarriedFiles({"/usr/lib/libx.so": file(b"x")}, {"/lib/libx.so": "/usr/lib/libx.so"})
    assert placed(image, files) == {"usr/lib/libx.so": file(b"x")}


def test_files_beside_the_working_folder_are_not_in_a_root(tmp_path: Path) -> None:
    """Also those of a folder whose name begins like that of the working folder."""
    for name in ("work", "work-of-others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    own = OwnProgram(name="p", arguments=("cat", "x"), directory=str(tmp_path / "work"))
    assert list(working_files(own).files) == [str(tmp_path / "work" / "x")]
    outside = msgspec.structs.replace(own, files=("../work-of-others/x",))
    with pytest.raises(UserError, match=r"--files \.\./work-of-others/x is not below the current folder"):
        working_files(outside)
