# SPDX-License-Identifier: MIT OR Apache-2.0
"""Virtual machines that QEMU runs, as a target: docs/virtual-machines.md."""
