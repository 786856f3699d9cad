# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m swapstone`, and the installed command: signals are handled before anything large is imported."""

from swapstone.cli.interrupts import end_at_once


def main() -> None:
    """Run the command line; see `swapstone.cli.main`."""
    end_at_once()
    from swapstone.cli.main import main as run  # noqa: PLC0415 - the handlers come first

    run()


if __name__ == "__main__":
    main()
