"""The kinds of targets, by what the user types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from swapstone.model import UserError, unknown
from swapstone.targets.base import Target
from swapstone.targets.fake import FakeTarget
from swapstone.targets.host import HostTarget


def _open_host(detail: str) -> Target:
    if detail:
        raise UserError("The target host takes nothing after its name.", "Write: --target host")
    return HostTarget()


def _open_fake(detail: str) -> Target:
    if not detail:
        raise UserError("The target fake needs a file.", "Write: --target fake:SPEC.toml (see docs/fake-target.md)")
    return FakeTarget(Path(detail))


TARGETS: tuple[tuple[str, str, Callable[[str], Target]], ...] = (
    ("host", "this machine", _open_host),
    ("fake", "answers made up as a file says: fake:SPEC.toml", _open_fake),
)
"""Name, one line about it, and how one is opened from what follows the name's colon."""


def open_target(text: str) -> Target:
    """Open a target.

    Args:
        text: ``NAME`` or ``NAME:DETAIL``, as the user typed it.

    Returns:
        The target, to be used as a context manager.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    name, _, detail = text.partition(":")
    for known, _, opened in TARGETS:
        if known == name:
            return opened(detail)
    raise unknown("target", name, (known for known, _, _ in TARGETS))
