# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetch the source of lwIP that crates/swapstone-net-lwip-sys/source.toml names, verify its digest, and print its folder.

The build script of that crate uses this folder. Set LWIP_DIR to use another one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from swapstone.core.model import UserError
from swapstone.parts.build.artifacts.lwip_source import lwip_source


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    argparse.ArgumentParser(prog="tools/fetch-lwip", description=__doc__).parse_args(arguments)
    try:
        print(lwip_source())
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
