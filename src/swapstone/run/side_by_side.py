# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several trials at once, where a target can run them."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from swapstone.targets import Target

Result = TypeVar("Result")
Job = TypeVar("Job")


@contextlib.contextmanager
def side_by_side(make: Callable[[Job], Result], jobs: Iterable[Job], target: Target) -> Iterator[Iterator[Result]]:
    """Run jobs, as many at once as the target can, and yield the results in the order of the jobs.

    Args:
        make: runs one job; called by several threads if the target runs several trials at once.
        jobs: arguments of `make`.
        target: stopped if the caller leaves before the last result.

    Yields:
        The results. If the target runs one trial at a time, each job runs when its result is requested.
    """
    if target.at_once == 1:
        yield map(make, jobs)
        return
    pool = concurrent.futures.ThreadPoolExecutor(target.at_once, thread_name_prefix="trial")
    try:
        yield pool.map(make, jobs)
    except BaseException:
        target.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
