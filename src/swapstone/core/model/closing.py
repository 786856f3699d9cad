# SPDX-License-Identifier: MIT OR Apache-2.0
"""Context managers that end by a call of `close`."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self


class Closing(abc.ABC):
    """A context manager that is its own context; leaving it calls `close`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
