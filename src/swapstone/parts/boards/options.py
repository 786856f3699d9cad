# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of boards."""

from __future__ import annotations

import attrs

from swapstone.core.session.option_table import Piece, declared

_DRIVER = "The machine of the load generator"


@attrs.frozen(kw_only=True)
class Boards(Piece):
    """How boards of a lab, and the machine of a load generator, are reached."""

    lg_env: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(str),
        metadata=declared("--lg-env FILE", "Measuring", "labgrid's environment, for --target labgrid:PLACE.  [LG_ENV]"),
    )
    driver_target: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--driver-target ssh:[USER@]HOST[:PORT]",
            _DRIVER,
            "Run the load generators of servers on this machine, reached by ssh.  [beside the servers]",
        ),
    )
    server_address: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--server-address ADDRESS",
            _DRIVER,
            "The address of this machine on which servers listen for --driver-target.  [that from which ssh comes there]",
        ),
    )
