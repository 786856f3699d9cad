# SPDX-License-Identifier: MIT OR Apache-2.0
"""A client of GDB's remote serial protocol that stops a machine, reads it and continues it.

It sends the commands `?`, `g`, `m`, `c`, `D` and the interrupt byte, with acknowledgements (GDB's manual: "GDB Remote Serial Protocol").
"""

from __future__ import annotations

import re
import socket
import time

MOST_REPLY_BYTES = 1 << 16
"""The limit of a reply, before and after run-length decoding. QEMU's have at most 4096."""
MOST_MEMORY_BYTES = 1024
"""The limit of one read of memory: QEMU's packets hold 4096 bytes, two for each byte of memory."""
_TRIES = 3
_STOPPED = re.compile(rb"S[0-9a-fA-F]{2}|T[0-9a-fA-F]{2}[\x20-\x7e]*")
_ENDED = re.compile(rb"[WX][0-9a-fA-F]{2}[\x20-\x7e]*")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2})*")


class RemoteError(Exception):
    """The other side does not keep to the protocol, or does not answer; the message states how."""


class MalformedError(RemoteError):
    """Bytes that the protocol does not permit."""


class ChecksumError(RemoteError):
    """A reply arrived with a wrong checksum three times."""


class TooLongError(RemoteError):
    """A reply exceeds `MOST_REPLY_BYTES`."""


class TimedOutError(RemoteError):
    """No whole reply arrived in time."""


class ClosedError(RemoteError):
    """The connection was closed, or the machine ended."""


class RefusedError(RemoteError):
    """The machine answered with an error number or has no such command."""


def framed(payload: bytes) -> bytes:
    """Return a packet: `$payload#checksum`. The payload must not contain `#`, `$`, `}` or `*`."""
    if re.search(rb"[#$}*]", payload):
        raise ValueError("the payload has a byte that must be escaped")
    return b"$%b#%02x" % (payload, sum(payload) % 256)


def decoded(data: bytes) -> bytes:
    """Return the content of a packet with its escapes and its run lengths resolved.

    Raises:
        MalformedError: an escape or a repetition is incomplete or not valid.
        TooLongError: the content exceeds `MOST_REPLY_BYTES`.
    """
    found = bytearray()
    rest = iter(data)
    for byte in rest:
        if byte == ord("}"):
            following = next(rest, None)
            if following is None:
                raise MalformedError("a reply ends within an escape")
            found.append(following ^ 0x20)
        elif byte == ord("*"):
            count = (next(rest, None) or 0) - 29
            if not found or not 3 <= count <= 126 - 29:
                raise MalformedError("a reply has a repetition without a byte or with a wrong count")
            found += found[-1:] * count
        else:
            found.append(byte)
        if len(found) > MOST_REPLY_BYTES:
            raise TooLongError(f"a reply has more than {MOST_REPLY_BYTES} bytes")
    return bytes(found)


class Remote:
    """A connection to the stub of a machine.

    Args:
        connection: a stream to it; the caller closes it.
        timeout_s: how long one reply may take.
    """

    def __init__(self, connection: socket.socket, timeout_s: float = 20.0) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._received = b""

    def attach(self) -> None:
        """Check that the machine is stopped, after connecting. QEMU 7.2 also reports the stop before the first command."""
        until = self._until()
        self._send(framed(b"?"))
        first = self._take(1, until)
        if first == b"$":
            self._received = first + self._received
            self._check_stopped(self._reply(until))
            first = self._take(1, until)
        if first != b"+":
            raise MalformedError(f"{first!r} is no acknowledgement")
        self._check_stopped(self._reply(until))

    def stop(self) -> None:
        """Stop the running machine."""
        self._send(b"\x03")
        self._check_stopped(self._reply(self._until()))

    def resume(self) -> None:
        """Let the stopped machine continue."""
        self._command(b"c", self._until())

    def detach(self) -> None:
        """Let the machine continue without a debugger."""
        reply = self._exchange(b"D")
        if reply != b"OK":
            raise RefusedError(f"the machine does not detach: {reply!r}")

    def registers(self, count: int, width: int) -> tuple[int, ...]:
        """Return the first registers of the stopped machine, of which all have the same width.

        Args:
            count: of them.
            width: of each, in bytes.

        Raises:
            MalformedError: the machine has fewer, or one is not available (`xx`).
        """
        data = self._bytes(b"g")
        if len(data) < count * width:
            raise MalformedError(f"{len(data)} bytes of registers arrived instead of {count * width}")
        return tuple(int.from_bytes(data[at : at + width], "little") for at in range(0, count * width, width))

    def memory(self, address: int, size: int) -> bytes:
        """Return memory of the stopped machine.

        Args:
            address: of its first byte.
            size: 1 to `MOST_MEMORY_BYTES`.

        Raises:
            RefusedError: there is no such memory.
        """
        if not 1 <= size <= MOST_MEMORY_BYTES or address < 0:
            raise ValueError(f"{size} bytes at {address} can't be read at once")
        data = self._bytes(b"m%x,%x" % (address, size))
        if len(data) != size:
            raise MalformedError(f"{len(data)} bytes of memory arrived instead of {size}")
        return data

    def _bytes(self, command: bytes) -> bytes:
        reply = self._exchange(command)
        if not reply:
            raise RefusedError(f"the machine does not support {command.decode()}")
        if re.fullmatch(rb"E[0-9a-fA-F]{2}", reply):
            raise RefusedError(f"the machine refuses {command.decode()} with {reply.decode()}")
        if not _HEX.fullmatch(reply):
            raise MalformedError(f"the reply to {command.decode()} is not in hexadecimal digits")
        return bytes.fromhex(reply.decode())

    def _check_stopped(self, reply: bytes) -> None:
        if _ENDED.fullmatch(reply):
            raise ClosedError(f"the machine has ended: {reply.decode()}")
        if not _STOPPED.fullmatch(reply):
            raise MalformedError(f"a reply states no stop: {reply[:40]!r}")

    def _until(self) -> float:
        return time.monotonic() + self._timeout_s

    def _exchange(self, payload: bytes) -> bytes:
        until = self._until()
        self._command(payload, until)
        return self._reply(until)

    def _command(self, payload: bytes, until: float) -> None:
        """Send a packet until it is acknowledged."""
        for _ in range(_TRIES):
            self._send(framed(payload))
            answer = self._take(1, until)
            if answer == b"+":
                return
            if answer != b"-":
                raise MalformedError(f"{answer!r} is no acknowledgement")
        raise ChecksumError(f"the machine has not accepted {payload.decode()} in {_TRIES} tries")

    def _reply(self, until: float) -> bytes:
        """Receive a packet and acknowledge it."""
        for _ in range(_TRIES):
            first = self._take(1, until)
            if first != b"$":
                raise MalformedError(f"a reply begins with {first!r}")
            while (end := self._received.find(b"#")) < 0:
                self._receive(until)
            content = self._take(end + 1, until)[:-1]
            digits = self._take(2, until)
            if b"$" in content or not re.fullmatch(rb"[0-9a-fA-F]{2}", digits):
                raise MalformedError("a reply begins within a reply, or has no checksum")
            if int(digits, 16) == sum(content) % 256:
                found = decoded(content)
                self._send(b"+")
                return found
            self._send(b"-")
        raise ChecksumError(f"a reply had a wrong checksum {_TRIES} times")

    def _take(self, size: int, until: float) -> bytes:
        while len(self._received) < size:
            self._receive(until)
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    def _receive(self, until: float) -> None:
        if len(self._received) > MOST_REPLY_BYTES:
            raise TooLongError(f"a reply has more than {MOST_REPLY_BYTES} bytes")
        left = until - time.monotonic()
        if left <= 0:
            raise TimedOutError(f"the machine has not answered in {self._timeout_s:g} s")
        try:
            self._connection.settimeout(left)
            piece = self._connection.recv(4096)
        except TimeoutError:
            raise TimedOutError(f"the machine has not answered in {self._timeout_s:g} s") from None
        except OSError as error:
            raise ClosedError(f"the connection to the machine failed: {error}") from error
        if not piece:
            raise ClosedError("the machine has closed the connection")
        self._received += piece

    def _send(self, data: bytes) -> None:
        try:
            self._connection.settimeout(self._timeout_s)
            self._connection.sendall(data)
        except TimeoutError:
            raise TimedOutError(f"the machine has read nothing for {self._timeout_s:g} s") from None
        except OSError as error:
            raise ClosedError(f"the connection to the machine failed: {error}") from error
