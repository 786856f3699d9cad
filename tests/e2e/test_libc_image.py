# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images of one C library and SDKs on the command line: messages and exit status; slow tests build, boot and compare.

All programs are built for musl and x86_64. For another C library, architecture or compiler, `./test` builds the one or two programs that a
test needs, and `./test --exhaustive` all.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.sdk import LIBCS
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.image_programs import PROGRAMS
from swapstone.parts.vm.artifacts.libc_files import (
    IMAGE_FILE,
    ROOT_FILE,
    BuiltLibcImage,
    LibcImageRequest,
    build_libc_image,
    write_libc_image,
)
from swapstone.parts.vm.session.image_store import boot_arguments
from tests.e2e.cli import swapstone
from tests.programs import require

BOOT_TIMEOUT_S = 900
"""A busy machine needs minutes to emulate another architecture."""


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["image", "build", "--libc", "dietlibc"], "no C library named 'dietlibc'", "musl"),
        (["image", "build", "--libc", "musl", "--compiler", "tcc"], "no compiler named 'tcc'", "clang"),
        (["image", "build", "--libc", "musl", "--arch", "mips"], "no architecture named 'mips'", "arm64"),
        (["image", "build", "--out", "x"], "--out is for images of one C library", "--libc musl"),
        (["image", "boot", "--compiler", "gcc"], "--compiler is for images of one C library", "--libc musl"),
        (["image", "build", "--libc", "musl", "--kernel", "./bzImage"], "no kernel './bzImage'", "by its path"),
        (
            ["image", "build", "--libc", "musl", "--modules-folder", "m"],
            "generic brings its own modules",
            "kernel file",
        ),
        (["sdk", "--libc", "dietlibc", "--out", "x"], "no C library named 'dietlibc'", "musl"),
        (["sdk", "--arch", "mips", "--out", "x"], "no architecture named 'mips'", "arm64"),
        (["sdk"], "Missing option '--out'", "sdk --help"),
        (["sdk", "--out", "/dev/null"], "/dev/null is no folder", "--out DIR"),
        (["sdk", "--out", "/dev/null/x"], "/dev/null/x can't be written", "--out DIR"),
        (["image", "build", "--libc", "musl", "--out", "/dev/null/x"], "/dev/null/x can't be written", "--out DIR"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_input_error_prints_a_message_and_a_hint(
    tmp_path: Path, arguments: list[str], message: str, hint: str
) -> None:
    if arguments[:2] == ["image", "boot"]:
        require("qemu-system-x86_64")
    result = swapstone(tmp_path, *arguments, expect=2, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert message in result.stderr and hint in result.stderr
    assert result.stdout == "" and list(tmp_path.iterdir()) == []


EVERY = tuple(PROGRAMS)


def _built(
    architecture: str, libc: str, compiler: str = "gcc", programs: tuple[str, ...] = ("busybox",)
) -> BuiltLibcImage:
    request = LibcImageRequest(architecture=architecture, libc=libc, compiler=compiler, programs=programs)
    try:
        return build_libc_image(request, lambda _: None)
    except UserError as error:
        if "build of" in error.message or "refused" in error.message:
            raise
        pytest.skip(error.message)


def _console(architecture: str, image: BuiltLibcImage, options: str, typed: str = "") -> str:
    """Boot an image with options on the kernel's command line, and return what its console shows."""
    machine = find_machine_architecture(architecture)
    require(machine.emulator)
    command = boot_arguments(machine, image.built, 256)
    command[-1] += options
    result = subprocess.run(
        command,
        input=typed,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=BOOT_TIMEOUT_S,
        check=False,
    )
    return result.stdout


def _served(architecture: str, image: BuiltLibcImage) -> str:
    """Boot an image, let it serve its page to itself, and return what its console shows."""
    return _console(architecture, image, " swapstone.serve")


BOOTED = [
    pytest.param("x86_64", "musl", EVERY, id="x86_64-musl", marks=pytest.mark.first),
    # tests/e2e/test_image_factor.py boots a small image of glibc
    pytest.param("x86_64", "glibc", ("busybox",), id="x86_64-glibc-busybox", marks=pytest.mark.exhaustive),
    *(
        pytest.param(architecture, libc, EVERY, id=f"{architecture}-{libc}", marks=pytest.mark.exhaustive)
        for architecture in ("x86_64", "arm64", "armhf", "riscv64")
        for libc in LIBCS
        if (architecture, libc) != ("x86_64", "musl")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "libc", "programs"), BOOTED)
def test_an_image_boots_and_serves_a_page(architecture: str, libc: str, programs: tuple[str, ...]) -> None:
    image = _built(architecture, libc, programs=programs)
    assert [program.name for program in image.description.programs] == list(programs)
    assert {file.libc for file in image.description.files.values()} == {libc}
    console = _served(architecture, image)
    assert re.search(r"swapstone: init", console), console[-3000:]
    assert re.search(r"swapstone: served", console), console[-3000:]
    assert re.search(r"swapstone: MemAvailable: [0-9]+ kB", console), console[-3000:]
    assert "can't load" not in console and "not found" not in console


LUA_SCRIPT = """print(_VERSION, 6 * 7, string.format('%.3f', math.sqrt(2)))"""
SQL_SCRIPT = "create table t(a, b); insert into t select value, value * value from generate_series(1, 10);"
SQL_QUERY = "select sqlite_version(), count(*), sum(b), round(sum(b) / 7.0, 3) from t where a > 2;"


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/e2e/test_image_factor.py runs a script in booted images of both
@pytest.mark.parametrize("libc", LIBCS)
def test_scripts_run_in_a_booted_image(libc: str) -> None:
    lost = ": " + "x" * 64  # the console drops what comes before the kernel has opened it
    lines = (lost, f'lua -e "{LUA_SCRIPT}"', f"sqlite3 :memory: '{SQL_SCRIPT}' '{SQL_QUERY}'", "exit", "")
    console = _console("x86_64", _built("x86_64", libc, programs=EVERY), "", "\n".join(lines))
    assert "Lua 5.4\t42\t1.414" in console, console[-3000:]
    assert "3.40.1|8|380|54.286" in console, console[-3000:]


@pytest.mark.slow
def test_a_program_built_by_clang_shows_it_and_runs(tmp_path: Path) -> None:
    require("clang")
    image = _built("x86_64", "musl", "clang", ("lua",))
    assert image.description.files["bin/lua"].compiler == "clang"
    assert _printed(image, tmp_path, ()) == "Lua 5.4\t42\t1.414\n"


@pytest.mark.slow
def test_a_program_of_another_architecture_runs_with_the_loader_of_its_image(tmp_path: Path) -> None:
    require("qemu-aarch64")
    image = _built("arm64", "glibc", programs=("lua",))
    assert {file.libc for file in image.description.files.values()} == {"glibc"}
    assert _printed(image, tmp_path, ("qemu-aarch64",)) == "Lua 5.4\t42\t1.414\n"


def _printed(image: BuiltLibcImage, folder: Path, emulator: tuple[str, ...]) -> str:
    """Return what Lua of an image prints of `LUA_SCRIPT`, with the loader and the libraries of the image."""
    _unpack(image, folder)
    return subprocess.run(
        [*emulator, *_with_loader(image, folder, "bin/lua"), "-e", LUA_SCRIPT],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def _unpack(image: BuiltLibcImage, folder: Path) -> None:
    """Unpack the root of an image into a folder that is made or empty."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", "-"], input=image.root, cwd=folder, check=True, timeout=60)


def _with_loader(image: BuiltLibcImage, root: Path, program: str, *options: str) -> list[str]:
    """Return the command that runs a program of an unpacked image by the image's loader, with options of the loader."""
    file = image.description.files[program]
    triple = {"x86_64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[image.description.architecture]
    libraries = ["--library-path", f"{root}/lib/{triple}"] if image.description.libc == "glibc" else []
    return [f"{root}{file.loader}", *libraries, *options, f"{root}/{program}"]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_image_built_by_clang_boots_and_serves_a_page() -> None:
    require("clang")
    image = _built("x86_64", "musl", "clang", EVERY)
    assert image.description.files["bin/busybox"].compiler == "clang"
    assert "swapstone: served" in _served("x86_64", image)


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/unit/artifacts builds a program in two caches, and tests/contract/test_vm_host.py an image
@pytest.mark.parametrize("libc", LIBCS)
def test_building_twice_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libc: str) -> None:
    request = LibcImageRequest(architecture="x86_64", libc=libc, programs=EVERY)
    _built("x86_64", libc, programs=EVERY)
    first = build_libc_image(request, lambda _: None)
    cache = cache_dir()
    (tmp_path / "swapstone" / "sources").mkdir(parents=True)
    (tmp_path / "swapstone" / "packages").symlink_to(cache / "packages")
    for path in (cache / "sources").glob("*.*"):  # the archives, and not what was unpacked
        if path.is_file():
            (tmp_path / "swapstone" / "sources" / path.name).symlink_to(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines: list[str] = []
    second = build_libc_image(request, lines.append)
    assert any(line.startswith("building lua") for line in lines), "the programs were not built again"
    assert first.built.initrd.read_bytes() == second.built.initrd.read_bytes()
    assert first.root == second.root
    assert first.description == second.description


@pytest.mark.slow
def test_the_folder_has_the_root_and_a_description(tmp_path: Path) -> None:
    image = _built("x86_64", "musl")
    write_libc_image(image, tmp_path / "out")
    described = json.loads((tmp_path / "out" / IMAGE_FILE).read_text())
    assert described["libc"] == "musl" and described["files"]["bin/busybox"]["needed"] == ["libc.so"]
    assert described["programs"][0]["patches"][0]["reason"]
    (tmp_path / "root").mkdir()
    subprocess.run(["tar", "-xf", str(tmp_path / "out" / ROOT_FILE)], cwd=tmp_path / "root", check=True, timeout=60)
    assert (tmp_path / "root" / "bin" / "ls").readlink() == Path("busybox")


VI_CASES = {
    "forward": ("/b[0-9]\\+x\rrX:wq\r", "b22x", "X22x"),
    "backward": ("G?^a.\rrX:wq\r", "a9", "X9"),
    "begin of a line": ("/^b\rrX:wq\r", "b3", "X3"),
    "end of a line": ("/x$\rrX:wq\r", "b22x", "b22X"),
    "empty line": ("/^$\rdd:wq\r", "\n\n", "\n"),
    "empty line, backward": ("G?^$\rdd:wq\r", "\n\n", "\n"),
    "ignoring case": (":set ic\r/LAST\rrX:wq\r", "last", "Xast"),
    "substitution": (":%s/b\\([0-9]*\\)x/<\\1>/g\r:wq\r", "b22x", "<22>"),
    "no match": ("/absent\rrX:wq\r", "a1", "X1"),
}
"""What is typed, and what it changes in the text."""

VI_TEXT = "a1 b22x\nb3 a4x\n\nab b456x b7x\na9\nthe last\n"


def _edited(tmp_path: Path, image: BuiltLibcImage, root: Path, keys: str) -> str:
    """Return the text after vi of an image has read keys, with the loader and the libraries of the image."""
    (tmp_path / "text").write_text(VI_TEXT)
    subprocess.run(
        [*_with_loader(image, root, "bin/busybox", "--argv0", "vi"), "text"],
        cwd=tmp_path,
        input=f"0{keys}".encode(),  # vi asks the terminal for its size, and takes the first key for the answer
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return (tmp_path / "text").read_text()


@pytest.mark.slow
def test_vi_of_both_libraries_finds_the_same(tmp_path: Path) -> None:
    images = {libc: _built("x86_64", libc) for libc in LIBCS}
    for libc, image in images.items():
        _unpack(image, tmp_path / libc)
    for case, (keys, before, after) in VI_CASES.items():
        texts = {libc: _edited(tmp_path, image, tmp_path / libc, keys) for libc, image in images.items()}
        assert texts["musl"] == texts["glibc"], case
        changed = VI_TEXT.replace(before, after, 1)
        if case == "substitution":
            changed = changed.replace("b456x b7x", "<456> <7>")
        assert texts["musl"] == changed, case


@pytest.mark.slow
def test_a_failed_build_prints_its_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    _built("x86_64", "musl")
    broken = msgspec.structs.replace(PROGRAMS["busybox"], command="echo it is broken\nexit 3")
    monkeypatch.setitem(PROGRAMS, "busybox", broken)
    with pytest.raises(UserError, match="The build of busybox failed:\nit is broken\nThe log: "):
        build_libc_image(LibcImageRequest(architecture="x86_64", libc="musl", programs=("busybox",)), lambda _: None)
