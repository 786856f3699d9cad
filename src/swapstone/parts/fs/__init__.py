# SPDX-License-Identifier: MIT OR Apache-2.0
"""Part `fs`: the file system of a root that is an image, such as squashfs, in a virtual machine. docs/fs.md has an example."""
