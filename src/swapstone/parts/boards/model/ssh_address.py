# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine that ssh reaches, as a user names it."""

from __future__ import annotations

import ipaddress
import re
import shlex

from swapstone.core.model.errors import UserError
from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.model.safe_text import safe_excerpt

# None of these begins with a hyphen or has a character that a shell or ssh interprets.
_SSH = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9_.-]{0,63})@)?"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,15})?\])(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_HIGHEST_PORT = 65_535


class SshAddress(FrozenStruct, frozen=True, kw_only=True):
    """A machine that ssh reaches.

    Attributes:
        host: its name or address, or a Host of the user's ssh configuration.
        user: the name to log in with; empty for ssh's choice.
        port: of its ssh server; 0 for ssh's choice.
        config: path of an ssh configuration to use instead of the user's; empty for the user's.
    """

    host: str
    user: str = ""
    port: int = 0
    config: str = ""

    @property
    def name(self) -> str:
        """Return ``USER@HOST:PORT`` without the parts that ssh chooses."""
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.host}{f':{self.port}' if self.port else ''}"

    @property
    def words(self) -> str:
        """Return the arguments of an ssh command that a user types."""
        port = f"-p {self.port} " if self.port else ""
        config = f"-F {shlex.quote(self.config)} " if self.config else ""
        return f"{config}{port}{f'{self.user}@' if self.user else ''}{self.host.strip('[]')}"


def parse_ssh_address(text: str, what: str, example: str) -> SshAddress:
    """Parse ``[USER@]HOST[:PORT]``.

    Args:
        text: to parse.
        what: what the text should name, for the message: the rest of a sentence that begins with the text.
        example: of an option, for the hint.

    Raises:
        UserError: it has another form.
    """
    match = _SSH.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else 0
    if match is None or port > _HIGHEST_PORT or (match["port"] and not port):
        raise UserError(f"{safe_excerpt(f'ssh:{text}', 80)!r} {what}.", f"{_remark(text)}For example: {example}")
    host = match["host"]
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError as error:
            raise UserError(f"{safe_excerpt(host, 60)} is no IPv6 address.", f"For example: {example}") from error
    return SshAddress(host=host, user=match["user"] or "", port=port)


def _remark(text: str) -> str:
    """Return what is probably wrong with an address, as a sentence and a space; empty if that is not known."""
    if text.startswith(("//", "ssh://")):
        return "Leave out the slashes. "
    _, at, host = text.rpartition("@")
    if host.count(":") > 1 and not host.startswith("["):
        return "An IPv6 address is written in brackets, as [fe80::1%eth0]. "
    if at and _SSH.fullmatch(host):
        return "A user name with other characters than letters, digits and ._- belongs into ~/.ssh/config, as User of a Host. "
    return ""


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
