# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is run, how its answers are judged, and the engine that makes the trials and appends their runs to a record."""
