# SPDX-License-Identifier: MIT OR Apache-2.0
"""The client of GDB's remote serial protocol, against scripted replies."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from benchmarks.gdb_remote import (
    MOST_MEMORY_BYTES,
    MOST_REPLY_BYTES,
    ChecksumError,
    ClosedError,
    MalformedError,
    RefusedError,
    Remote,
    RemoteError,
    TimedOutError,
    TooLongError,
    decoded,
    framed,
)

Peer = tuple[Remote, socket.socket]


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Return a client and the machine's end of its connection. Replies are written before the command is sent."""
    own, other = socket.socketpair()
    with own, other:
        yield Remote(own, timeout_s=5.0), other


def reply(payload: bytes) -> bytes:
    """Return an acknowledgement and a packet with a payload without escapes."""
    return b"+$%b#%02x" % (payload, sum(payload) % 256)


def test_a_packet_has_the_checksum_of_the_manual() -> None:
    assert framed(b"?") == b"$?#3f"
    assert framed(b"m80000000,8") == b"$m80000000,8#59"
    with pytest.raises(ValueError, match="escaped"):
        framed(b"a#b")


def test_run_lengths_and_escapes_are_resolved() -> None:
    assert decoded(b"0* ") == b"0000"  # the manual's example
    assert decoded(b"a}\x03b") == b"a#b"
    assert decoded(b"") == b""


@pytest.mark.parametrize("data", [b"* ", b"a*", b"a*\x1f", b"a*\x7f", b"a}"])
def test_a_damaged_encoding_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decoded(data)


def test_repetitions_do_not_exceed_the_limit_of_a_reply() -> None:
    assert len(decoded(b"0*~" * 100)) == 100 * 98
    with pytest.raises(TooLongError):
        decoded(b"0*~" * 1000)


def test_a_machine_is_stopped_read_and_continued(peer: Peer) -> None:
    remote, other = peer
    other.sendall(b"+$T02thread:01;#04")  # `?`
    other.sendall(b"+")  # `c`
    other.sendall(b"$T02thread:01;#04")  # the interrupt
    other.sendall(reply(b"0100000000000000" + b"ff00000000000080" + b"00"))
    other.sendall(reply(b"0102"))
    other.sendall(reply(b"OK"))
    remote.attach()
    remote.resume()
    remote.stop()
    assert remote.registers(2, 8) == (1, 0x80000000000000FF)
    assert remote.memory(0x80000000, 2) == b"\x01\x02"
    remote.detach()
    assert other.recv(1000) == b"$?#3f+$c#63\x03+$g#67+$m80000000,2#53+$D#44+"


def test_a_stop_that_is_reported_before_the_first_command_is_accepted(peer: Peer) -> None:
    remote, other = peer
    other.sendall(b"$T02thread:01;#04" + reply(b"T02thread:01;"))
    remote.attach()
    assert other.recv(100) == b"$?#3f++"


def test_a_packet_that_is_not_accepted_is_sent_again(peer: Peer) -> None:
    remote, other = peer
    other.sendall(b"-+")
    remote.resume()
    assert other.recv(100) == b"$c#63$c#63"
    other.sendall(b"---")
    with pytest.raises(ChecksumError, match="not accepted c in 3 tries"):
        remote.resume()


def test_a_reply_with_a_wrong_checksum_is_requested_again(peer: Peer) -> None:
    remote, other = peer
    other.sendall(b"+$0102#00$0102#c3")
    assert remote.memory(16, 2) == b"\x01\x02"
    assert other.recv(100) == b"$m10,2#2c-+"
    other.sendall(b"+$0102#00$0102#01$0102#02")
    with pytest.raises(ChecksumError, match="wrong checksum 3 times"):
        remote.memory(16, 2)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"x", MalformedError, "b'x' is no acknowledgement"),
        (b"+x", MalformedError, "a reply begins with b'x'"),
        (b"++", MalformedError, "a reply begins with"),
        (b"+$01$02#25", MalformedError, "within a reply"),
        (b"+$0102#zz", MalformedError, "has no checksum"),
        (reply(b"010"), MalformedError, "hexadecimal"),
        (reply(b"xxxx"), MalformedError, "hexadecimal"),
        (reply("é".encode()), MalformedError, "hexadecimal"),
        (reply(b"01"), MalformedError, "1 bytes of memory arrived instead of 2"),
        (reply(b"010203"), MalformedError, "3 bytes of memory arrived instead of 2"),
        (reply(b"E14"), RefusedError, "refuses m10,2 with E14"),
        (reply(b""), RefusedError, "does not support m10,2"),
        (b"+$" + b"0" * (MOST_REPLY_BYTES + 8192), TooLongError, "more than"),
    ],
)
def test_a_wrong_reply_has_a_named_error(peer: Peer, data: bytes, error: type[RemoteError], message: str) -> None:
    remote, other = peer
    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    other.sendall(data)
    with pytest.raises(error, match=message):
        remote.memory(16, 2)


@pytest.mark.parametrize("data", [b"", b"+", b"+$", b"+$0102", b"+$0102#", b"+$0102#c"])
def test_a_truncated_reply_ends_with_the_connection(peer: Peer, data: bytes) -> None:
    remote, other = peer
    other.sendall(data)
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(ClosedError, match="closed the connection"):
        remote.memory(16, 2)


@pytest.mark.parametrize("data", [b"", b"+", b"+$0102", b"+$0102#c"])
def test_a_reply_that_stops_arriving_times_out(data: bytes) -> None:
    own, other = socket.socketpair()
    with own, other:
        other.sendall(data)
        with pytest.raises(TimedOutError, match=r"not answered in 0\.05 s"):
            Remote(own, timeout_s=0.05).memory(16, 2)


class _Endless:
    """A connection on which some bytes arrive again and again."""

    def __init__(self, first: bytes, again: bytes) -> None:
        self._next, self._again = first, again

    def settimeout(self, _: float) -> None:
        pass

    def sendall(self, _: bytes) -> None:
        pass

    def recv(self, _: int) -> bytes:
        now, self._next = self._next, self._again
        return now


@pytest.mark.parametrize(
    ("first", "again", "error"),
    [(b"+$", b"0", TooLongError), (b"", b"-", ClosedError), (b"-", b"-", ChecksumError), (b"+", b"$#00", RefusedError)],
)
def test_an_endless_reply_ends(first: bytes, again: bytes, error: type[RemoteError]) -> None:
    endless: object = _Endless(first, again)
    with pytest.raises(error):
        Remote(endless, timeout_s=600.0).memory(16, 2)  # type: ignore[arg-type]  # what is used of a socket


def test_the_time_limit_is_of_the_whole_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000))
    monkeypatch.setattr("benchmarks.gdb_remote.time", SimpleNamespace(monotonic=lambda: float(next(times))))
    endless: object = _Endless(b"+$", b"0")
    with pytest.raises(TimedOutError, match="not answered in 20 s"):
        Remote(endless).memory(16, 2)  # type: ignore[arg-type]  # what is used of a socket


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"$W00#b7", ClosedError, "the machine has ended: W00"),
        (b"$OK#9a", MalformedError, "states no stop"),
        (b"$T0#84", MalformedError, "states no stop"),
        (b"$T02\x01#b7", MalformedError, "states no stop"),
    ],
)
def test_a_stop_needs_the_reason_of_a_stop(peer: Peer, data: bytes, error: type[RemoteError], message: str) -> None:
    remote, other = peer
    other.sendall(data)
    with pytest.raises(error, match=message):
        remote.stop()


def test_too_few_registers_are_malformed(peer: Peer) -> None:
    remote, other = peer
    other.sendall(reply(b"01" * 15))
    with pytest.raises(MalformedError, match="15 bytes of registers arrived instead of 16"):
        remote.registers(2, 8)


def test_a_machine_that_does_not_detach_is_named(peer: Peer) -> None:
    remote, other = peer
    other.sendall(reply(b"E22"))
    with pytest.raises(RefusedError, match="does not detach"):
        remote.detach()


@pytest.mark.parametrize("act", [Remote.resume, Remote.stop])
def test_a_lost_connection_is_closed(act: Callable[[Remote], None]) -> None:
    own, other = socket.socketpair()
    with own:
        other.close()
        with pytest.raises(ClosedError, match="connection to the machine failed"):
            act(Remote(own))


@pytest.mark.parametrize(("address", "size"), [(0, 0), (0, MOST_MEMORY_BYTES + 1), (-8, 8)])
def test_a_read_has_a_limited_size(peer: Peer, address: int, size: int) -> None:
    with pytest.raises(ValueError, match="can't be read at once"):
        peer[0].memory(address, size)
