# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine on which load generators run, if it is another one than the servers'."""

from __future__ import annotations

import ipaddress

from swapstone.core.model.errors import UserError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.boards.model.ssh_address import SshAddress, parse_ssh_address

DRIVER_EXAMPLE = "--driver-target ssh:me@board.example --server-address 192.168.1.2"


class DriverTarget(SshAddress, frozen=True, kw_only=True):
    """A machine on which load generators run.

    Attributes:
        address: IPv4 address of this machine on which servers listen; empty for the one from which ssh came.
    """

    address: str = ""

    @property
    def target(self) -> str:
        """Return the text of a host target whose load generators run there."""
        return f"host:driver=ssh:{self.name}{f',address={self.address}' if self.address else ''}"


def parse_driver_target(text: str, address: str = "") -> DriverTarget:
    """Parse ``ssh:[USER@]HOST[:PORT]``.

    Args:
        text: the machine.
        address: of this machine, on which servers listen; empty for the one from which ssh came.

    Raises:
        UserError: one of them has another form.
    """
    what = "names no machine for load generators: it has the form ssh:[USER@]HOST[:PORT]"
    if not text.startswith("ssh:"):
        raise UserError(f"{safe_excerpt(text, 80)!r} {what}.", f"For example: {DRIVER_EXAMPLE}")
    found = parse_ssh_address(text.removeprefix("ssh:"), what, DRIVER_EXAMPLE)
    return DriverTarget(host=found.host, user=found.user, port=found.port, address=_address(address) if address else "")


def parse_host_detail(detail: str) -> DriverTarget:
    """Parse what follows ``host:`` in a target: ``driver=ssh:[USER@]HOST[:PORT][,address=ADDRESS]``.

    Raises:
        UserError: it has another form.
    """
    first, comma, second = detail.partition(",")
    name, _, machine = first.partition("=")
    other, _, address = second.partition("=")
    if name != "driver" or (comma and (other != "address" or not address)):
        raise UserError(
            "The target host takes nothing after its name but :driver=ssh:USER@HOST and ,address=ADDRESS.",
            f"Write: --target host, and for load generators on another machine {DRIVER_EXAMPLE}",
        )
    return parse_driver_target(machine, address)


def _address(text: str) -> str:
    """Return an IPv4 address on which a server can listen and that is of one machine.

    Raises:
        UserError: the text is none.
    """
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise UserError(
            f"--server-address {safe_excerpt(text, 60)!r} is no IPv4 address.", f"For example: {DRIVER_EXAMPLE}"
        ) from error
    if address.is_unspecified or address.is_multicast or address == ipaddress.IPv4Address("255.255.255.255"):
        raise UserError(
            f"--server-address {address} is not the address of one machine.",
            "Name the address of this machine that the other one reaches: ip -4 address",
        )
    return str(address)
