# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets the agent notice that a server accepts connections on another address than 127.0.0.1, the only one to which it connects."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_RETRY_S = 0.002
_ATTEMPT_S = 0.05


@contextlib.contextmanager
def ready_listener(address: str, port: int) -> Iterator[None]:
    """Listen on 127.0.0.1 as soon as a server accepts connections on an address, and until the end of the context.

    A server that listens on every address, and so on 127.0.0.1 too, is noticed by the agent itself.

    Args:
        address: on which the server listens.
        port: of the server, and on 127.0.0.1.
    """
    stopped = threading.Event()

    def listen() -> None:
        while not _accepts(address, port):
            if stopped.wait(_RETRY_S):
                return
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(8)
            stopped.wait()

    if address == "127.0.0.1":
        yield
        return
    thread = threading.Thread(target=listen, name="ready", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _accepts(address: str, port: int) -> bool:
    with socket.socket() as attempt:
        attempt.settimeout(_ATTEMPT_S)
        return attempt.connect_ex((address, port)) == 0
