# SPDX-License-Identifier: MIT OR Apache-2.0
"""Settings of all tests."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background leaves SIGINT ignored, and the programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
