# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of an unpacked root are looked up as a process in it does, and no link leaves the root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.vm.subjects.own_program_root import RootView


@pytest.fixture
def view(tmp_path: Path) -> RootView:
    for name in ("root/usr/bin", "root/etc", "files"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root/usr/bin/sh").write_text("#!/bin/none\n")
    (tmp_path / "root/usr/bin/sh").chmod(0o755)
    (tmp_path / "root/etc/name").write_text("x")
    (tmp_path / "files/mine").write_text("x")
    (tmp_path / "files/mine").chmod(0o755)
    for link, target in (
        ("bin", "usr/bin"),
        ("absolute", "/usr/bin/sh"),
        ("up", "../../../../etc/name"),
        ("out", str(tmp_path / "secret")),
        ("loop", "loop"),
        ("etc/mine", "/swapstone/mine"),
    ):
        (tmp_path / "root" / link).symlink_to(target)
    return RootView("a.tar", str(tmp_path / "root"), str(tmp_path / "files"))


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/bin/sh", "/usr/bin/sh"),
        ("/absolute", "/usr/bin/sh"),
        ("/../..//./bin/../bin/sh", "/usr/bin/sh"),
        ("/up", "/etc/name"),
        ("/etc/mine", "/swapstone/mine"),
        ("/swapstone/mine", "/swapstone/mine"),
        ("/out", ""),
        ("/loop", ""),
        ("/bin", ""),
        ("/missing", ""),
        ("/etc/name/x", ""),
    ],
)
def test_links_are_followed_in_the_root(view: RootView, path: str, real: str) -> None:
    assert view.real(path) == real
    place = view.place(path)
    assert (place is None) == (real == "")
    assert place is None or "secret" not in str(place)


@pytest.mark.parametrize(
    ("name", "found"),
    [("sh", "/bin/sh"), ("/absolute", "/absolute"), ("./mine", "/swapstone/mine"), ("sub/../mine", "")],
)
def test_a_program_is_found_as_execvp_finds_it(view: RootView, name: str, found: str) -> None:
    if found:
        assert view.find_program(name, "relative:/sbin:/bin") == found
    else:
        assert view.find_program(name, "/bin") == f"/swapstone/{name}"


def test_a_file_without_permission_is_no_program(view: RootView) -> None:
    with pytest.raises(UserError, match="can't be executed"):
        view.find_program("/etc/name", "/bin")
    with pytest.raises(UserError, match=r"has no program name in /etc"):
        view.find_program("name", "/etc")


def test_a_script_needs_its_interpreter(view: RootView) -> None:
    with pytest.raises(UserError, match=r"The script /bin/sh needs /bin/none, which is not in the root"):
        view.check("/bin/sh", "x86_64", {})


def test_scripts_of_scripts_end(view: RootView) -> None:
    script = Path(view.folder) / "usr/bin/sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UserError, match="is a script of a script of a script"):
        view.check("/bin/sh", "x86_64", {})


def test_a_damaged_program_is_named(view: RootView) -> None:
    (Path(view.folder) / "usr/bin/sh").write_bytes(b"\x7fELF" + os.urandom(40))
    with pytest.raises(UserError, match=r"/bin/sh of a.tar is a damaged ELF file"):
        view.check("/bin/sh", "x86_64", {})
