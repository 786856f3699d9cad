# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine on which load generators run, if it is another one than the servers'."""

from __future__ import annotations

import ipaddress
import re

from swapstone.model.errors import UserError
from swapstone.model.frozen_struct import FrozenStruct
from swapstone.model.safe_text import safe_excerpt

DRIVER_EXAMPLE = "--driver-target ssh:me@board.example --server-address 192.168.1.2"

# None of these begins with a hyphen or has a character that a shell or ssh interprets.
_SSH = re.compile(
    r"ssh:(?:(?P<user>[A-Za-z_][A-Za-z0-9_.-]{0,63})@)?"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_HIGHEST_PORT = 65_535


class DriverTarget(FrozenStruct, frozen=True, kw_only=True):
    """A machine that ssh reaches.

    Attributes:
        host: its name or address, or a Host of the user's ssh configuration.
        user: the name to log in with; empty for ssh's choice.
        port: of its ssh server; 0 for ssh's choice.
        address: IPv4 address of this machine on which servers listen; empty for the one from which ssh came.
    """

    host: str
    user: str = ""
    port: int = 0
    address: str = ""

    @property
    def name(self) -> str:
        """Return ``USER@HOST:PORT`` without the parts that ssh chooses."""
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.host}{f':{self.port}' if self.port else ''}"

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
    match = _SSH.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else 0
    if match is None or port > _HIGHEST_PORT or (match["port"] and not port):
        raise UserError(
            f"{safe_excerpt(text, 80)!r} names no machine for load generators: it has the form ssh:[USER@]HOST[:PORT].",
            f"For example: {DRIVER_EXAMPLE}",
        )
    host = match["host"]
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError as error:
            raise UserError(
                f"{safe_excerpt(host, 60)} is no IPv6 address.", f"For example: {DRIVER_EXAMPLE}"
            ) from error
    return DriverTarget(host=host, user=match["user"] or "", port=port, address=_address(address) if address else "")


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
