# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server of a test with the part of Amazon S3's REST API that a store uses, in this process, on a free port of 127.0.0.1."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET, BUCKET = "AKIATEST", "secret", "bucket"
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


class S3Server(ThreadingHTTPServer):
    """Keeps objects in memory.

    Attributes:
        objects: content by key, of the bucket `BUCKET`, the only one there is.
        made: names of buckets that a client wanted to make.
        full: whether writing fails, as where the server's disk is full.
        gone: whether it closes each connection without an answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.made: list[str] = []
        self.full = self.gone = False

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    do_GET = do_PUT = do_DELETE = do_HEAD  # noqa: N815 - as http.server calls it

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(split.path.lstrip("/")).partition("/")
        if self.server.gone:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
            self._error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        elif self.command == "PUT" and not key:
            self.server.made.append(bucket)
            self._send(200)
        elif bucket != BUCKET:
            self._error(404, "NoSuchBucket", "The specified bucket does not exist")
        elif not key:
            names = "<KeyCount>0</KeyCount><IsTruncated>false</IsTruncated>"
            self._send(200, f"<ListBucketResult><Name>{BUCKET}</Name>{names}</ListBucketResult>".encode())
        elif self.command == "PUT" and self.server.full:
            self._error(507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold.")
        elif self.command == "PUT":
            assert self.headers.get("Content-Encoding") != "aws-chunked"
            self.server.objects[key] = body
            self._send(200, etag=hashlib.md5(body).hexdigest())
        elif self.command == "DELETE":
            self.server.objects.pop(key, None)
            self._send(204)
        elif key in self.server.objects:
            self._send(200, self.server.objects[key], etag=hashlib.md5(self.server.objects[key]).hexdigest())
        else:
            self._error(404, "NoSuchKey", "The specified key does not exist.")

    def _error(self, status: int, code: str, message: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())

    def _send(self, status: int, body: bytes = b"", etag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml" if not etag else "binary/octet-stream")
        self.send_header("Last-Modified", _DATE)
        if etag:
            self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server until the end of the context."""
    server = S3Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
