# SPDX-License-Identifier: MIT OR Apache-2.0
"""Imports for processes that run commands in forks: what one of them would import or compile again in each fork, it has before."""

from __future__ import annotations

import gc
import importlib
import pkgutil

LATE = ("duckdb", "jinja2", "numpy.random")  # modules that the program imports on first use
LEFT_OUT = ("swapstone.__main__", "swapstone.parts.cluster.sftp_files")
"""The first runs the program; the second imports an implementation of SSH for a quarter of a second, and is of one kind of store."""

PAGES = ("document.html.j2", "flame.html.j2")


def import_all() -> None:
    """Import all modules of the program and those that it imports late, and compile the templates of its pages."""
    import swapstone
    from swapstone.core.report.render.html import template

    found = (each.name for each in pkgutil.walk_packages(swapstone.__path__, "swapstone."))
    for module in (*(name for name in found if name not in LEFT_OUT), *LATE):
        importlib.import_module(module)
    for page in PAGES:
        template(page)
    gc.freeze()  # a fork that collects garbage would copy all of this
