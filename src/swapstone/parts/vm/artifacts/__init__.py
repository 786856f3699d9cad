# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is built of the part vm."""
