# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the user accepts that a repository's code is built and run: once for each repository, as by `make`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swapstone.core.model import FrozenStruct
from swapstone.core.record.origin import file_bytes, mark_file, origin_reason
from swapstone.core.session.trust import refuse_untrusted
from swapstone.parts.gate.revisions import Repository

_FILE, _FOLDER = "trusted.json", "swapstone"


class TrustedRepository(FrozenStruct, frozen=True, kw_only=True):
    """What the mark in git's folder is of."""

    path: str


def require_trust(repository: Repository, action: str, commands: Callable[[], Sequence[str]], *, trust: bool) -> None:
    """Check that the user accepts that the repository's code is built and run; with `trust`, that is stored for its folder.

    Args:
        repository: whose code runs.
        action: for the message: a verb with its object.
        commands: returns a line for each thing that would be done.
        trust: whether the user accepts it now.

    Raises:
        UntrustedRecordError: the user never accepted it here.
    """
    folder, identity = repository.git_folder / _FOLDER, str(repository.top)
    mark = TrustedRepository(path=identity)
    if trust:
        folder.mkdir(exist_ok=True)
        mark_file(folder, identity, _FILE, mark)

    def reason() -> str:
        return origin_reason(folder, identity, [(_FILE, file_bytes(mark))]) and "its code was never accepted here"

    refuse_untrusted(repository.top, action, reason, commands, trust=trust)
