# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m swapstone`."""

from swapstone.cli.main import main

if __name__ == "__main__":
    main()
