# SPDX-License-Identifier: MIT OR Apache-2.0
"""The base of the model's types: an immutable, strictly decoded value with a digest."""

from __future__ import annotations

import hashlib
from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True)
class FrozenStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An immutable, hashable value whose encoding is the same for the same content."""

    def encoded(self) -> bytes:
        """Return the canonical JSON encoding (UTF-8, keys sorted), of which digests are taken."""
        return msgspec.json.encode(self, order="sorted")

    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of `encoded`."""
        return hashlib.sha256(self.encoded()).hexdigest()[:16]
