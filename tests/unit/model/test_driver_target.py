# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine of the load generators, as a user types it."""

from __future__ import annotations

import pytest

from swapstone.core.model import UserError
from swapstone.parts.boards.model.ssh_address import DriverTarget, parse_driver_target, parse_host_detail


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("ssh:board", DriverTarget(host="board")),
        ("ssh:me@board.example", DriverTarget(host="board.example", user="me")),
        ("ssh:me@10.0.0.7:2222", DriverTarget(host="10.0.0.7", user="me", port=2222)),
        ("ssh:[fe80::1]:22", DriverTarget(host="[fe80::1]", port=22)),
    ],
)
def test_forms_that_are_accepted(text: str, parsed: DriverTarget) -> None:
    found = parse_driver_target(text, "192.168.1.2")
    assert (found.host, found.user, found.port) == (parsed.host, parsed.user, parsed.port)
    assert found.address == "192.168.1.2"
    assert f"ssh:{found.name}" == text
    assert parse_host_detail(found.target.removeprefix("host:")) == found
    assert parse_host_detail(parsed.target.removeprefix("host:")) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "board",
        "ssh:",
        "ssh:-oProxyCommand=sh",
        "ssh:me@-oProxyCommand=sh",
        "ssh:-l@board",
        "ssh:a b",
        "ssh:board;reboot",
        "ssh:$(reboot)",
        "ssh:board:0",
        "ssh:board:65536",
        "ssh:board:22x",
        "ssh:board\n",
        "ssh:[fe80::zz]",
        "ssh:[:::]",
        "ssh:b\u00f6ard",
        "ssh:" + "a" * 300,
        "telnet:board",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_driver_target(text)


@pytest.mark.parametrize("address", ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::1", "board", "1.2.3", "1.2.3.4 "])
def test_an_address_is_that_of_one_machine(address: str) -> None:
    with pytest.raises(UserError):
        parse_driver_target("ssh:board", address)


@pytest.mark.parametrize("detail", ["x", "driver=", "driver=ssh:a,", "driver=ssh:a,port=1", "driver=ssh:a,address="])
def test_other_details_of_the_host_target_are_refused(detail: str) -> None:
    with pytest.raises(UserError):
        parse_host_detail(detail)
