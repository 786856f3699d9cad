# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table ``[program]`` of a study file: an own program or an own server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from swapstone.model import FrozenStruct, UserError
from swapstone.session.api_values import value_texts
from swapstone.session.own_program_request import OwnProgramRequest

Text = str | tuple[str, ...]
"""A command: a text that is split as a shell would, or its words."""


class StudyProgram(FrozenStruct, frozen=True, kw_only=True):
    """An own program or an own server. The keys are the options of `swapstone compare`, with ``_`` for ``-``.

    Attributes:
        command: the program and its arguments; with `programs` the arguments alone.
        commands: command lines by name, the baseline first.
        shell: whether ``/bin/sh -c`` runs `commands`.
        parameters: values by name, or a range such as ``1..100/10``: a workload for each.
        programs: name to path, the baseline first.
        env: variable to value.
        libraries: the key ``with``: names of libraries that are built for each variant.
        template: a server's configuration file with ``{port}``.
    """

    command: Text | None = None
    commands: dict[str, str] = msgspec.field(default_factory=dict)
    shell: bool = False
    parameters: dict[str, str | tuple[str | int | float, ...]] = msgspec.field(default_factory=dict)
    programs: dict[str, str] = msgspec.field(default_factory=dict)
    build: str | None = None
    source: str | None = None
    build_timeout: str | None = None
    libraries: tuple[str, ...] = msgspec.field(default=(), name="with")
    input: str | None = None
    output: str | None = None
    artifacts: tuple[str, ...] = ()
    output_may_differ: bool = False
    files: tuple[str, ...] = ()
    memory: str | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)
    setup: str | None = None
    prepare: str | None = None
    conclude: str | None = None
    timeout: str | None = None
    pin: bool = False
    ignore_failure: bool = False
    metrics: tuple[str, ...] = ()
    cpu_bound: bool = False
    server: str | None = None
    template: str | None = None
    load_generator: str | None = None
    connections: tuple[int, ...] = ()
    read: str | None = None
    warm_up: str | None = None
    ready_timeout: str | None = None

    def request(self, directory: str) -> OwnProgramRequest:
        """Return the options of this program; relative paths start from `directory`."""
        try:
            words = tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command
        except ValueError as error:
            raise UserError(f"The quotes of command don't match: {error}.", "Write a list of words.") from error
        return OwnProgramRequest(
            command=words,
            directory=directory,
            commands=tuple(self.commands.values()),
            names=tuple(self.commands),
            shell=self.shell,
            parameters=value_texts(
                {
                    name: each if isinstance(each, str) else tuple(map(str, each))
                    for name, each in self.parameters.items()
                }
            ),
            programs=named_values(self.programs),
            build=self.build,
            source=self.source,
            build_timeout=self.build_timeout,
            libraries=",".join(self.libraries) or None,
            stdin=self.input,
            output=self.output,
            artifacts=self.artifacts,
            output_may_differ=self.output_may_differ,
            files=self.files,
            memory=self.memory,
            variables=named_values(self.env),
            setup=self.setup,
            prepare=self.prepare,
            conclude=self.conclude,
            timeout=self.timeout,
            pin=self.pin,
            ignore_failure=self.ignore_failure,
            metrics=self.metrics,
            cpu_bound=self.cpu_bound,
            server=self.server,
            template=self.template,
            load_generator=self.load_generator,
            connections=",".join(map(str, self.connections)) or None,
            reader=self.read,
            warm_up=self.warm_up,
            ready_timeout=self.ready_timeout,
        )


def named_values(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``NAME=VALUE`` for each name."""
    return tuple(f"{name}={value}" for name, value in values.items())
