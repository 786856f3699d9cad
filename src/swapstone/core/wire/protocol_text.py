# SPDX-License-Identifier: MIT OR Apache-2.0
"""Encodes and decodes texts and numbers of the protocols. Each has exactly one spelling; no other is accepted."""

from __future__ import annotations

import binascii
import re

from swapstone.core.model import WireError
from swapstone.core.model.safe_text import safe

MAX_NUMBER = 2**63 - 1

_PLAIN_OR_ENCODED = re.compile(
    rb"[!-$&-~]*+(?:%(?:[01][0-9A-F]|2[05]|7F|[89A-F][0-9A-F])[!-$&-~]*+)*+", re.ASCII
)  # without backtracking: outputs have megabytes
_TO_ENCODE = re.compile(rb"[^!-$&-~]")
_ZERO = ord("0")
_NUMBER = re.compile(rb"-?[0-9]{1,19}", re.ASCII)


def encode_bytes(data: bytes) -> bytes:
    """Percent-encode bytes: every byte outside ``!``..``~``, and ``%`` itself. No bytes become ``%``."""
    return _TO_ENCODE.sub(lambda match: b"%%%02X" % match[0][0], data) or b"%"


def encode_text(text: str) -> bytes:
    """Percent-encode text as UTF-8. Surrogate escapes become the bytes of the file name that they stand for.

    Raises:
        WireError: the text contains a surrogate that stands for no byte.
    """
    try:
        return encode_bytes(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise WireError(f"The text {text!r} can't be written as UTF-8.", "Use another name or value.") from error


class Place:
    """A line of input, for error messages.

    Attributes:
        what: what is being read, e.g. ``the agent's answer``.
        number: of the line, from 1.
    """

    def __init__(self, what: str, number: int = 0) -> None:
        self.what = what
        self.number = number

    def fault(self, text: str, hint: str = "") -> WireError:
        """Return an error that names this line."""
        return WireError(f"Line {self.number} of {self.what}: {text}", hint)

    def decode_bytes(self, token: bytes) -> bytes:
        """Decode percent-encoded bytes.

        Raises:
            WireError: the token is not encoded, or not in its canonical form.
        """
        if token == b"%":
            return b""
        if not token or not _PLAIN_OR_ENCODED.fullmatch(token):
            raise self.fault(f"the text {show(token)} is not percent-encoded as it should be.")
        if b"%" not in token:
            return token
        # As quoted-printable (RFC 2045, 6.7), which is decoded several times faster than by urllib.
        return binascii.a2b_qp(token.replace(b"=", b"=3D").replace(b"%", b"="))

    def decode_text(self, token: bytes) -> str:
        """Decode percent-encoded text. Bytes that are not UTF-8 are shown by their hexadecimal codes.

        Raises:
            WireError: as `decode_bytes`.
        """
        return self.decode_bytes(token).decode("utf-8", "backslashreplace")

    def decode_number(self, token: bytes, name: str, low: int = 0, high: int = MAX_NUMBER) -> int:
        """Decode a decimal whole number.

        Args:
            token: its digits.
            name: what it counts, for the error.
            low: the least it can be.
            high: the most it can be.

        Raises:
            WireError: it is no whole number, has leading zeros, or is out of range.
        """
        if token.isdigit() and len(token) < 19 and (token[0] != _ZERO or len(token) == 1):  # nearly every number
            value = int(token)
            if low <= value <= high:
                return value
        if not _NUMBER.fullmatch(token):
            if token.lstrip(b"-").isdigit():
                raise self.fault(f"{name} is {show(token)}, out of range.")
            raise self.fault(f"{name} is {show(token)}, not a whole number.")
        value = int(token)
        if str(value).encode() != token:
            raise self.fault(f"{name} is written {show(token)}, not {value}.")
        if value < 0 <= low:
            raise self.fault(f"{name} is negative: {value}.")
        if not low <= value <= high:
            raise self.fault(f"{name} is {value}, outside {low} to {high}.")
        return value


def show(token: bytes) -> str:
    """Return untrusted bytes in a form for messages: quoted, escaped, at most 60 characters."""
    text = safe(token.decode("ascii", "backslashreplace"))
    return f"'{text[:60]}'" + ("..." if len(text) > 60 else "")
