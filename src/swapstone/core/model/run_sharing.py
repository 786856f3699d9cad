# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the runs of an experiment come from, besides this machine."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct

EXECUTORS = "threads:N, dask:tcp://HOST:PORT, or MODULE:FACTORY[@N]"
"""What names an executor."""


class RunSharing(FrozenStruct, frozen=True, kw_only=True):
    """Where the runs of an experiment come from, besides this machine.

    Attributes:
        store: URL of a store; empty for none. With an executor, for one in the cache folder.
        executor: as `EXECUTORS`; empty to make runs in this process.
        recheck: share of the runs that are made twice, 0 to 1.
    """

    store: str = ""
    executor: str = ""
    recheck: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.store or self.executor or self.recheck)

    def options(self) -> tuple[str, ...]:
        """Return the options that were given, as the command line writes them."""
        given = {"--store": self.store, "--executor": self.executor, "--recheck": self.recheck}
        return tuple(name for name, value in given.items() if value)


NO_SHARING = RunSharing()
