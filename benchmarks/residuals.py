# SPDX-License-Identifier: MIT OR Apache-2.0
"""Residuals of explain's ledger for known causes: six pairs of programs whose candidate has one added cost.

Prints for each the first finding, its share, and the residual with its two parts: unnamed stacks, and the drift of the reference
runs from the record. Exits with 1 if a first finding is wrong or a residual exceeds the limit. Needs root and perf.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.e2e.cli import swapstone
from tests.e2e.test_explain import EXPECTED, METRIC, PLANTED, QUICK, explained, planted

LIMIT = 0.15


def main(arguments: list[str]) -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/residuals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=f"any of {', '.join(PLANTED)}; default: all")
    parser.add_argument("--blocks", type=int, default=24, help="blocks of each record (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="of the residual's share (default: %(default)s)")
    asked = parser.parse_args(arguments)
    if wrong := [cause for cause in asked.causes if cause not in PLANTED]:
        parser.error(f"there is no {wrong[0]!r}; there are {', '.join(PLANTED)}")
    head = ("planted", "named first", "share", "residual", "no name", "not repeated")
    print(f"{head[0]:12} {head[1]:20} {head[2]:>8} {head[3]:>9} {head[4]:>9} {head[5]:>13}")
    good = True
    for name in asked.causes or PLANTED:
        with tempfile.TemporaryDirectory(prefix="swapstone-residuals-") as scratch:
            folder = Path(scratch)
            record = ("--blocks", str(asked.blocks), "--out", str(folder / "r"))
            swapstone(folder, "compare", *record, *planted(folder, name))
            found = explained(folder, METRIC.get(name, "cpu"), "--only", "*", *QUICK)["explanation"]
        ledger = found["ledger"]
        whole = ledger["candidate"] - ledger["baseline"]
        # Without a significant difference there are no findings.
        cause, share = next(((each["cause"], each["share"]) for each in found["findings"]), ("nothing", 0.0))
        residual, drift = ledger["residual"] / whole, ledger["drift"] / whole
        print(f"{name:12} {cause:20} {share:8.1%} {residual:9.1%} {residual - drift:9.1%} {drift:13.1%}", flush=True)
        good = good and cause == EXPECTED[name] and abs(residual) < asked.limit
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
