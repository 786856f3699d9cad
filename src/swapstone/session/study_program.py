# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table ``[program]`` of a study file: an own program or an own server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from swapstone.model import UserError
from swapstone.session.api_values import value_texts
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.program_options import ProgramOptions

Text = str | tuple[str, ...]
"""A command: a text that is split as a shell would, or its words."""


class StudyProgram(ProgramOptions, frozen=True, kw_only=True):
    """An own program or an own server. The keys are those of `ProgramOptions`, and these.

    Attributes:
        command: the program and its arguments; with `programs` the arguments alone.
        commands: command lines by name, the baseline first.
        parameters: values by name, or a range such as ``1..100/10``: a workload for each.
        programs: name to path, the baseline first.
        env: variable to value.
        libraries: the key ``with``: names of libraries that are built for each variant.
        input: a file that is the standard input.
        connections: numbers of connections of a load generator.
        read: how its output is read.
    """

    command: Text | None = None
    commands: dict[str, str] = msgspec.field(default_factory=dict)
    parameters: dict[str, str | tuple[str | int | float, ...]] = msgspec.field(default_factory=dict)
    programs: dict[str, str] = msgspec.field(default_factory=dict)
    libraries: tuple[str, ...] = msgspec.field(default=(), name="with")
    input: str | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)
    connections: tuple[int, ...] = ()
    read: str | None = None

    def request(self, directory: str) -> OwnProgramRequest:
        """Return the options of this program; relative paths start from `directory`."""
        try:
            words = tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command
        except ValueError as error:
            raise UserError(f"The quotes of command don't match: {error}.", "Write a list of words.") from error
        same = {name: getattr(self, name) for name in ProgramOptions.__struct_fields__}
        return OwnProgramRequest(
            **same,
            command=words,
            directory=directory,
            commands=tuple(self.commands.values()),
            names=tuple(self.commands),
            parameters=value_texts(
                {
                    name: each if isinstance(each, str) else tuple(map(str, each))
                    for name, each in self.parameters.items()
                }
            ),
            programs=named_values(self.programs),
            libraries=",".join(self.libraries) or None,
            stdin=self.input,
            variables=named_values(self.env),
            connections=",".join(map(str, self.connections)) or None,
            reader=self.read,
        )


def named_values(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``NAME=VALUE`` for each name."""
    return tuple(f"{name}={value}" for name, value in values.items())
