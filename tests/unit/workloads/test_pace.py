# SPDX-License-Identifier: MIT OR Apache-2.0
"""The load generator swapstone-pace: latencies of a server that stalls, and errors."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import LoadGenerator
from swapstone.core.workloads.load_generators import read_pace
from swapstone.parts.build.artifacts.servers import find_load_generator

SERVER = """
import socketserver, sys, time
mode, count = sys.argv[2], 0
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        global count
        while True:
            line = self.rfile.readline()
            if not line: return
            while self.rfile.readline() not in (b"\\r\\n", b""): pass
            count += 1
            if mode == "stall" and count == 50: time.sleep(0.6)
            if mode == "slow": time.sleep(0.5)
            if mode == "close" and count == 20: return
            status = b"500 No" if mode == "refuse" and count == 20 else b"200 OK"
            self.wfile.write(b"HTTP/1.1 " + status + b"\\r\\nContent-Length: 3\\r\\n\\r\\nabc")
class Server(socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 100
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="session")
def pace() -> Path:
    return find_load_generator(LoadGenerator(command=("swapstone-pace",), reader="swapstone-pace"))


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number


@pytest.fixture
def server(port: int, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A server that accepts one connection at a time. The test's parameter selects its behaviour."""
    (tmp_path / "server.py").write_text(SERVER)
    process = subprocess.Popen([sys.executable, tmp_path / "server.py", str(port), request.param])
    try:
        for _ in range(500):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


def run(pace: Path, port: int, *, rate: int, seconds: int = 1) -> subprocess.CompletedProcess[bytes]:
    options = ("--port", str(port), "--rate", str(rate), "--seconds", str(seconds), "--connections", "1")
    return subprocess.run([pace, *options], capture_output=True, timeout=60, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["well"], indirect=True)
def test_it_sends_all_requests_at_the_rate(pace: Path, server: int) -> None:
    result = run(pace, server, rate=100, seconds=2)
    found = read_pace(result.stdout)
    assert (result.returncode, found.requests) == (0, 200), result.stderr
    assert found.per_second is not None
    assert found.per_second < 101  # the last is due a hundredth before the end


@pytest.mark.slow
@pytest.mark.parametrize("server", ["stall"], indirect=True)
def test_all_requests_that_are_due_in_a_stall_are_late(pace: Path, server: int) -> None:
    """A closed-loop load generator would report one late request."""
    found = dict(read_pace(run(pace, server, rate=100).stdout).latencies)
    # In 600 ms 60 of the 100 requests are due, and wait 0 to 600 ms, evenly: half of all wait for more than 100 ms.
    assert found["p50"] > 50e6
    assert found["p75"] > 250e6
    assert found["max"] >= 599e6


@pytest.mark.slow
@pytest.mark.parametrize("server", ["slow"], indirect=True)
def test_a_server_that_is_too_slow_is_an_error_with_the_number_of_responses(pace: Path, server: int) -> None:
    result = run(pace, server, rate=50)
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"the server is too slow: " in result.stderr
    assert b" of 50 requests answered in 4 s" in result.stderr


@pytest.mark.parametrize(
    ("server", "text"),
    [
        ("refuse", b"a response is not 2xx or 3xx: HTTP/1.1 500 No"),
        ("close", b"a connection failed: closed by the server"),
    ],
    indirect=["server"],
)
def test_an_invalid_response_is_an_error(pace: Path, server: int, text: bytes) -> None:
    result = run(pace, server, rate=100)
    assert (result.returncode, result.stdout) == (1, b"")
    assert text in result.stderr


def test_a_refused_connection_is_an_error(pace: Path, port: int) -> None:
    result = run(pace, port, rate=100)
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"can't connect: Connection refused" in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("--port", "1"), ("--port", "x"), ("--port", "1", "--rate", "0"), ("--nonsense", "1")]
)
def test_invalid_arguments_are_an_error(pace: Path, arguments: tuple[str, ...]) -> None:
    result = subprocess.run([pace, *arguments], capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith((b"usage: ", b"swapstone-pace: "))
