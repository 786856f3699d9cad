# SPDX-License-Identifier: MIT OR Apache-2.0
"""The names of container images, ``docker:alpine:3.20``: the grammar of the OCI distribution specification 1.1 and of Docker's references.

A name without a host is one of docker.io.
"""

from __future__ import annotations

import re

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.safe_text import safe_excerpt

PREFIX = "docker:"
_LONGEST = 400
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_LABEL}(?:\.{_LABEL})+(?::[0-9]+)?|{_LABEL}:[0-9]+|localhost)/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


class ContainerImage(FrozenStruct, frozen=True, kw_only=True):
    """The name of an image.

    Attributes:
        repository: with its host.
        tag: empty for none.
        content_digest: of the image or of its index, ``sha256:`` and 64 hexadecimal digits; empty for none.
    """

    repository: str
    tag: str = ""
    content_digest: str = ""

    @property
    def title(self) -> str:
        """Return the name as a user types it, without its digest."""
        short = self.repository.removeprefix("docker.io/").removeprefix("library/")
        return f"{short}:{self.tag}" if self.tag else short

    @property
    def level(self) -> str:
        """Return the text that `parse_image` reads."""
        named = f"{self.repository}:{self.tag}" if self.tag else self.repository
        return f"{PREFIX}{named}@{self.content_digest}" if self.content_digest else f"{PREFIX}{named}"

    @property
    def reference(self) -> str:
        """Return the argument for the programs: by its digest if it has one, which skopeo does not take together with a tag."""
        return f"{self.repository}@{self.content_digest}" if self.content_digest else f"{self.repository}:{self.tag}"


def is_image(text: str) -> bool:
    """Return whether a level is the name of an image."""
    return text.startswith(PREFIX)


def parse_image(text: str) -> ContainerImage:
    """Return the image that a level names.

    Raises:
        UserError: it is no name of an image.
    """
    found = _REFERENCE.fullmatch(text.removeprefix(PREFIX)) if len(text) <= _LONGEST else None
    if found is None:
        raise UserError(
            f"{safe_excerpt(text, 80)!r} is no name of a container image.",
            "For example: rootfs=docker:alpine:3.20,docker:debian:bookworm-slim, or docker:HOST/NAME:TAG@sha256:DIGEST",
        )
    host, path = found["host"] or "docker.io", found["path"]
    path = path if found["host"] or "/" in path else f"library/{path}"
    digest = found["digest"] or ""
    return ContainerImage(
        repository=f"{host}/{path}", tag=found["tag"] or ("" if digest else "latest"), content_digest=digest
    )
