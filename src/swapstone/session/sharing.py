# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options with which other machines make an experiment's runs: docs/many-machines.md."""

from __future__ import annotations

import math

from swapstone.model.run_sharing import RunSharing
from swapstone.session.values import parse_ratio


def parse_sharing(store: str | None, executor: str | None, recheck: str | None) -> RunSharing:
    """Return the store and the workers that options name; a false value for none.

    Args:
        store: a path or a URL of fsspec.
        executor: as `EXECUTORS`. It is opened later.
        recheck: a share, such as ``2%`` or ``100%``.

    Raises:
        UserError: the share has another form.
    """
    share = parse_ratio(recheck, "--recheck", 0.0, math.nextafter(1.0, 2.0)) if recheck is not None else 0.0
    return RunSharing(store=store or "", executor=executor or "", recheck=share)
