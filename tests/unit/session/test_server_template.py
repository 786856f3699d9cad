# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server's configuration file with a port: what is accepted, and what a trial gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.session import command_lines
from swapstone.core.session.own_program_request import own_program
from swapstone.core.session.server_program import MOST_BYTES
from tests.unit.session.test_server_program import server_request

NGINX = "events {}\nhttp { server { listen {address}:{port}; } client_body_temp_path {folder}/body; }\n"


def test_the_text_of_the_file_is_part_of_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nginx.conf").write_text(NGINX)
    own = own_program(server_request(server="./nginx -c {template}", template="nginx.conf"))
    assert own is not None
    assert {each.template for each in own.load_generators} == {NGINX}
    assert own.arguments == (str(tmp_path / "nginx"), "-c", "{template}")


@pytest.mark.parametrize(
    ("server", "content", "message"),
    [
        ("./nginx", NGINX.encode(), "--server receives no {template}"),
        ("./nginx -c {template}", b"listen 80;", "has no {port}"),
        ("./nginx -c {template}", b"{port}\xff", "it is no UTF-8 text"),
        ("./nginx -c {template}", b"{port}" + b"#" * MOST_BYTES, "has more than 64 KiB"),
        ("./nginx -c {template}", None, "No such file or directory"),
    ],
)
def test_files_that_are_no_templates(tmp_path: Path, server: str, content: bytes | None, message: str) -> None:
    name = tmp_path / "nginx.conf"
    if content is not None:
        name.write_bytes(content)
    with pytest.raises(UserError) as caught:
        own_program(server_request(server=server, template=str(name)))
    assert message in str(caught.value)


def test_a_placeholder_without_the_option() -> None:
    with pytest.raises(UserError, match=r"--template is missing"):
        own_program(server_request(server="./nginx -c {template}"))


def test_programs_of_administrators_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Debian the PATH of a user has no sbin, and there the packages put their servers."""
    sbin = tmp_path / "sbin"
    sbin.mkdir()
    program = sbin / "only-administrators"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert command_lines.found_program("only-administrators") is None
    monkeypatch.setattr(command_lines, "ADMINISTRATORS", str(sbin))
    own = own_program(server_request(server="only-administrators {port}"))
    assert own is not None and own.arguments[0] == str(program)
