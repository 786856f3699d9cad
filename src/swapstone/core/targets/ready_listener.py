# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets the agent notice that a server accepts connections on another address than 127.0.0.1, the only one to which it connects."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

_RETRY_S = 0.002
_ATTEMPT_S = 0.05


class ReadyListener:
    """Listens on 127.0.0.1 as soon as a server accepts connections on an address, and until the end of the context.

    A server that listens on every address, and so on 127.0.0.1 too, is noticed by the agent itself.

    Args:
        address: on which the server listens.
        port: of the server, and on 127.0.0.1.
    """

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="ready", daemon=True)

    def __enter__(self) -> None:
        if self._address != "127.0.0.1":
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _wait(self) -> None:
        while not self._stopped.wait(_RETRY_S):
            if self._accepts():
                break
        else:
            return
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self._port))
            listener.listen(8)
            self._stopped.wait()

    def _accepts(self) -> bool:
        with socket.socket() as attempt:
            attempt.settimeout(_ATTEMPT_S)
            return attempt.connect_ex((self._address, self._port)) == 0
