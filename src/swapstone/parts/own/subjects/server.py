# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers: a subject of any kind that a load generator sends requests to."""

from __future__ import annotations

import dataclasses
import random
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import Recipe
from swapstone.core.model import Cpus, Experiment, LoadGenerator, OwnProgram, UnavailableError, UserError, Variant
from swapstone.core.model.load import FOLDER, LOOPBACK, TEMPLATE, filled
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.run.subject import BuildContext, Subject, TrialSpec
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import Capabilities, Target, driver_of
from swapstone.core.targets.target import LoadDriver, RemoteProgram
from swapstone.core.wire import LoadGeneratorRequest, TrialRequest
from swapstone.parts.build.artifacts.servers import (
    build_static_load_generator,
    find_load_generator,
    is_built,
    is_installed_name,
)
from swapstone.parts.build.subjects.own_program_carried import carried_files

_PORTS = range(20_000, 32_768)
"""Five digits each, so that the address of the stack does not depend on the port; below the kernel's ephemeral ports."""

_TRIES = 200


def free_port(address: str = LOOPBACK, ports: Sequence[int] = _PORTS) -> int:
    """Return a port on which nothing listens at 127.0.0.1 and at another address of this machine.

    Args:
        address: an IPv4 address.
        ports: to choose from.

    Raises:
        UnavailableError: no free port was found.
    """
    for _ in range(_TRIES):
        port = random.choice(ports)  # noqa: S311 - any will do
        if _is_free(LOOPBACK, port) and (address == LOOPBACK or _is_free(address, port)):
            return port
    raise UnavailableError(f"No port from {ports[0]} to {ports[-1]} is free.", "End the programs that listen there.")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind((address, port))
        except OSError:
            return False
        return True


class Server(Subject):
    """A subject that is a server, with its load generator.

    What it does not define is that of its program, but `run`, which calls what it defines.

    Args:
        inner: builds, starts and judges the server.
        generator: sends the requests and prints the figures.
    """

    runs = LoadGenerator

    def __init__(self, inner: Subject, generator: LoadGenerator) -> None:
        super().__init__(inner.workload)
        self._inner = inner
        self._generator = generator
        for name in vars(Subject).keys() - vars(Server).keys() - {"run"}:
            if not name.startswith("_"):
                setattr(self, name, getattr(inner, name))
        self._in_guest = False
        self._driver: LoadDriver | None = None
        self._remote = RemoteProgram(path="", sha256="")
        """The load generator on the driver's machine."""
        self._folder: TemporaryFolder | None = None

    def check(self, experiment: Experiment, target: Capabilities) -> None:
        """Raise also if the target has no load generators."""
        self._inner.check(experiment, target)
        if target.offers.isdisjoint({"has_load_generators", "carries_files"}):
            raise UnavailableError(
                f"{self.workload.name} is a server, and the target {target.name} has no load generators.",
                "Leave --target out: servers are measured on this machine.",
            )

    def programs(self, experiment: Experiment, recipes: Iterable[Recipe]) -> tuple[str, ...]:
        """Return those of the server, and the load generator if it runs here and is not built."""
        name = self._generator.command[0]
        here = not driver_of(experiment.target) and not is_built(name)
        return (*self._inner.programs(experiment, recipes), *((name,) if here else ()))

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the server, and put its load generator on the target."""
        target = context.target
        if target.driver is not None:
            self._find_remote(target.driver)  # before the server is built, which takes longer
            return self._inner.build(variant, recipe, context)
        program = self._inner.build(variant, recipe, context)
        simulated = f"/fake/{self._generator.command[0]}"
        if "runs_programs" not in target.offers:
            generator = simulated
        elif "shares_files" in target.offers:
            generator = target.put(find_load_generator(self._generator))
        else:
            if self._generator.template:
                raise UnavailableError(
                    "--template is for servers of this machine: the filled file is not in the virtual machine.",
                    "Leave --target out, or --template.",
                )
            self._in_guest = True
            generator = self._carried(program, target)
        links = tuple(dataclasses.replace(link, load_generator=generator) for link in program.links)
        return dataclasses.replace(program, load_generator=generator, links=links)

    def _find_remote(self, driver: LoadDriver) -> None:
        """Find the load generator on its machine, or copy it there: one that Swapstone builds, and a file that the user names by a path.

        Raises:
            UserError: it isn't there and can't be copied.
        """
        if self._driver is driver:
            return
        name = self._generator.command[0]
        if not is_installed_name(name):
            found = driver.copy(find_load_generator(self._generator, alone=True))
        else:
            try:
                found = driver.find(Path(name).name)
            except UnavailableError:
                if not is_built(name):
                    raise
                found = driver.copy(build_static_load_generator(name))
        self._driver, self._remote = driver, found

    def _carried(self, program: Program, target: Target) -> str:
        """Give the load generator to a machine, with its loader and libraries; return its path."""
        generator = find_load_generator(self._generator, alone=True, architecture=program.recipe.architecture)
        path = str(generator.absolute())
        memory_bytes = self.workload.machine.memory_bytes if self.workload.machine else 0
        alone = OwnProgram(name=self.workload.name, arguments=(path,), memory_bytes=memory_bytes)
        environment = program.recipe.environment
        folder = program.folder if program.folder and not program.root else str(Path(path).parent)
        target.put_files(carried_files(alone, path, folder, target.architecture, environment=environment))
        return path

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request for server and load generator, on a port that is free now.

        With `Cpus.ONE` the server has the last processor, and the load generator the others. On one processor they share it.
        Nothing is preloaded into the load generator.
        """
        driver = self._driver
        address = driver.address if driver else LOOPBACK
        port, request = _PORTS[0] if self._in_guest else free_port(address), self._inner.request(trial)
        words = filled(self._generator.command, port, address)[1:]
        limit_s = request.timeout_ms // 1000 + 1
        command = driver.command(self._remote, words, limit_s) if driver else (trial.program.load_generator, *words)
        apart = self.workload.cpus is Cpus.ONE and len(trial.cpus) > 1
        last = max(trial.cpus, default=0)
        template = self._filled_template(port, address)
        return msgspec.structs.replace(
            request,
            arguments=_with_template(filled(request.arguments, port, address), template),
            environment=tuple(
                (name, *_with_template(filled((value,), port, address), template))
                for name, value in request.environment
            ),
            cpus=(last,) if apart else (),
            counted=True,
            load_generator=LoadGeneratorRequest(
                port=port,
                arguments=command,
                environment=() if driver else trial.program.recipe.environment,
                cpus=tuple(cpu for cpu in trial.cpus if cpu != last) if apart else (),
                ready_ms=self._generator.ready_ms,
                warm_ms=self._generator.warm_ms,
                drain_ms=self._generator.drain_ms,
                stop_ms=self._generator.stop_ms,
            ),
        )

    def _filled_template(self, port: int, address: str) -> str:
        """Write the server's configuration file for a trial, in the place of the last one; return its path, empty for none.

        Raises:
            UserError: it can't be written.
        """
        text = self._generator.template
        if not text:
            return ""
        if self._folder is None:
            self._folder = TemporaryFolder("server")
        path = self._folder.path / "filled.conf"
        (text,) = filled((text,), port, address)
        try:
            path.write_text(text.replace(FOLDER, str(self._folder.path)))
        except OSError as error:
            raise UserError(f"{path} can't be written: {error.strerror}.", "Free space in its folder.") from error
        return str(path)


def _with_template(words: tuple[str, ...], path: str) -> tuple[str, ...]:
    return tuple(word.replace(TEMPLATE, path) for word in words) if path else words
