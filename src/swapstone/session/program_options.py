# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of an own program that have one name and one form on the command line and in a study file."""

from __future__ import annotations

from swapstone.model import FrozenStruct


class ProgramOptions(FrozenStruct, frozen=True, kw_only=True):
    """Options of `swapstone compare`, with ``_`` for ``-``, as text in the form that its help describes.

    Attributes:
        shell: whether ``/bin/sh -c`` runs the command lines.
        template: a server's configuration file with ``{port}``.
    """

    shell: bool = False
    build: str | None = None
    source: str | None = None
    build_timeout: str | None = None
    output: str | None = None
    artifacts: tuple[str, ...] = ()
    output_may_differ: bool = False
    files: tuple[str, ...] = ()
    memory: str | None = None
    setup: str | None = None
    prepare: str | None = None
    conclude: str | None = None
    timeout: str | None = None
    pin: bool = False
    ignore_failure: bool = False
    metrics: tuple[str, ...] = ()
    cpu_bound: bool = False
    server: str | None = None
    load_generator: str | None = None
    warm_up: str | None = None
    ready_timeout: str | None = None
    template: str | None = None
