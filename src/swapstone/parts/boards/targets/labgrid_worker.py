# SPDX-License-Identifier: MIT OR Apache-2.0
"""The process in which labgrid runs: it acquires a place, and its strategy boots the board. See docs/boards.md.

Run as a program, this file reads requests from standard input, one JSON object a line, and writes an answer for each.
labgrid has a process of its own because an environment may import Python code of the user, drivers print, and Ctrl-C must not end a boot
in the middle of a transition. It releases the place when its input ends, so also when Swapstone is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import json
import os
import re
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

OPTION_CONFIG = "swapstone_ssh_config"
"""Key of ``options:`` in an environment: an ssh configuration."""

KERNEL = ("swapstone_kernel_image", "kernel")
"""Of a kernel: the key of ``options:`` that chooses the key of ``images:``, and that key's default."""

ROOT = ("swapstone_root_image", "rootfs")
"""The same of a root file system."""

DEFAULT_COORDINATOR = "127.0.0.1:20408"
_SHELL_ADDRESS = "ip -o -4 addr show scope global"
_INET = re.compile(r"\binet ([0-9.]{7,15})/", re.ASCII)
_MOST_LINES, _IDLE_S = 200, 0.5


class LabError(Exception):
    """Something that the user can change.

    Args:
        message: what failed.
        hint: the next step.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Lab:
    """A place, its environment and its board.

    Args:
        place: name of a RemotePlace in the environment, or of a target there that has none.
        environment: path of the environment.
        state: of the strategy, in which the board is measured.
    """

    def __init__(self, place: str, environment: str, state: str) -> None:
        self._place, self._path, self._state = place, environment, state
        self._environment: Any = None
        self._target: Any = None
        self._coordinator = ""
        self._acquired = self._is_remote = False
        self._owner = ""
        self._opened: dict[str, object] = {}

    def open(self, kernels: Sequence[str], roots: Sequence[str]) -> dict[str, object]:
        """Read the environment, acquire the place, and boot the board.

        Args:
            kernels: images of the environment whose paths are returned.
            roots: the same of root file systems.

        Returns:
            What was found, for `board` and for the doctor.

        Raises:
            LabError: something that the user can change.
        """
        self._environment = _environment(self._path)
        config = self._environment.config
        role, self._is_remote = _role(config.get_targets(), self._place, self._path)
        self._opened = {
            "place": self._place,
            "role": role,
            "kernels": {name: self._named_image(name, "kernel", "kernel=./Image-a,./Image-b") for name in kernels},
            "roots": {name: self._named_image(name, "root file system", "rootfs=./a.img,./b.img") for name in roots},
        }
        if self._is_remote:
            self._coordinator = config.get_option(
                "coordinator_address", os.environ.get("LG_COORDINATOR", DEFAULT_COORDINATOR)
            )
            self._acquire()
        with _explained(f"The target {role} of {self._path} can't be made"):
            self._target = self._environment.get_target(role)
        return self._activate()

    def boot(self, kernel: str, root: str) -> dict[str, object]:
        """Switch the board off, and boot it again.

        Args:
            kernel: path of the image; empty for that of the environment, or the one that was booted last.
            root: the same of the root file system.

        Returns:
            As `open`.

        Raises:
            LabError: it does not boot, or its strategy can't switch it off.
        """
        strategy = self._strategy()
        if strategy is None:
            raise LabError(
                f"{self._path} has no strategy for {self._place}, which a boot needs.",
                "Add one to its drivers, such as ShellStrategy.",
            )
        self._replace(KERNEL, kernel)
        self._replace(ROOT, root)
        states = _states(strategy)
        if "off" not in states:
            raise LabError(
                f"The strategy {type(strategy).__name__} has no state off: the board can't be switched off.",
                f"It has: {', '.join(states) or 'no list of states'}. Add a state off.",
            )
        strategy.broken = None  # one boot that failed does not end the session
        if (status := getattr(type(getattr(strategy, "status", None)), "__members__", {}).get("unknown")) is not None:
            strategy.status = status
        with _explained(f"{self._place} can't be switched off"):
            strategy.transition("off")
        return self._activate()

    def idle(self) -> None:
        """Read the consoles of emulated boards: QEMU stops a machine whose console's socket is full, which is at 280 bytes."""
        from labgrid.binding import BindingState  # noqa: PLC0415 - an optional package

        for driver in self._target.drivers if self._target is not None else ():
            if type(driver).__name__ == "QEMUDriver" and driver.state is BindingState.active and driver.status:
                with contextlib.suppress(Exception):  # above all the time-out if there is nothing to read
                    while driver.read(size=4096, timeout=0.0, max_size=4096):
                        pass

    def close(self) -> None:
        """Release what was acquired. Drivers that run the board in this process end it."""
        with contextlib.suppress(Exception):
            if self._environment is not None:
                self._environment.cleanup()
        if self._acquired:
            self._acquired = False
            with contextlib.ExitStack() as stack:
                # A coordinator accepts one session of a process, and that of the resources lasts as long as the process.
                session = _open_session(self._place) or stack.enter_context(_session(self._coordinator, self._place))
                session.loop.run_until_complete(session.release())

    def _key(self, kind: tuple[str, str]) -> str:
        """Return the key of ``images:`` of a kernel or a root file system."""
        return str(self._environment.config.get_option(*kind))

    def _replace(self, kind: tuple[str, str], path: str) -> None:
        """Let the environment name a file as its kernel or its root file system; an empty path changes nothing."""
        images, name = self._environment.config.data.get("images"), self._key(kind)
        if not path:
            return
        if not isinstance(images, dict) or name not in images:
            raise LabError(
                f"{self._path} names no image {name}, which would be replaced by {path}.",
                f"Add `images: {{{name}: ./FILE}}`, and use it in a driver or in your strategy; "
                f"`options: {{{kind[0]}: NAME}}` chooses another one.",
            )
        images[name] = path

    def _acquire(self) -> None:
        with _session(self._coordinator, self._place) as session:
            if self._place not in session.places:
                known = ", ".join(sorted(session.places)) or "none"
                raise LabError(
                    f"The coordinator {self._coordinator} has no place {self._place}.",
                    f"It has: {known}. Create it: labgrid-client -x {self._coordinator} -p {self._place} create",
                )
            me, owner = f"{session.gethostname()}/{session.getuser()}", session.places[self._place].acquired
            self._owner = me
            if owner == me or (owner and me in session.places[self._place].allowed):
                self._owner = owner
                return  # the user has acquired it, and keeps it
            if owner:
                raise LabError(
                    f"The place {self._place} is acquired by {owner}.",
                    f"Wait until it is released, or let its owner run: labgrid-client -p {self._place} allow {me}",
                )
            with _explained(f"The place {self._place} can't be acquired"):
                session.loop.run_until_complete(session.acquire())
            self._acquired = True

    def _strategy(self) -> Any:  # noqa: ANN401 - labgrid has no types
        from labgrid.strategy import Strategy  # noqa: PLC0415 - an optional package

        found = [driver for driver in self._target.drivers if isinstance(driver, Strategy)]
        if len(found) > 1:
            names = ", ".join(type(each).__name__ for each in found)
            raise LabError(f"{self._path} has several strategies for {self._place}: {names}.", "Leave one of them.")
        return found[0] if found else None

    def _activate(self) -> dict[str, object]:
        """Bring the board into the state, and find its address."""
        strategy = self._strategy()
        if strategy is not None:
            states = _states(strategy)
            if states and self._state not in states:
                raise LabError(
                    f"The strategy {type(strategy).__name__} has no state {self._state}.",
                    f"It has: {', '.join(states)}. Name one: --target labgrid:{self._place},state={states[-1]}",
                )
            with _explained(f"{self._place} did not reach the state {self._state}"):
                strategy.transition(self._state)
        address, port, user, source = self._address()
        config = self._environment.config
        options = config.data.get("options") or {}
        ssh_config = (
            os.path.normpath(config.resolve_path(str(options[OPTION_CONFIG]))) if OPTION_CONFIG in options else ""
        )
        return {
            **self._opened,
            "acquired": self._acquired,
            "owner": self._owner,
            "address": address,
            "port": port,
            "user": user,
            "source": source,
            "config": ssh_config,
            "strategy": type(strategy).__name__ if strategy is not None else "",
            "state": self._state if strategy is not None else "",
            "drivers": sorted({type(driver).__name__ for driver in self._target.drivers}),
            "resources": sorted({type(resource).__name__ for resource in self._target.resources}),
            "coordinator": self._coordinator,
            "image": self._image(self._key(KERNEL)),
            "root_image": self._image(self._key(ROOT)),
            "emulated": any(map(_emulates, self._target.drivers)),
        }

    def _named_image(self, name: str, what: str, files: str) -> str:
        """Return the path of an image of the environment.

        Args:
            name: of the image.
            what: it is.
            files: an example that names files instead.
        """
        if path := self._image(name):
            return path
        raise LabError(
            f"{self._path} names no image {name}, which would be the {what} {name} of {self._place}.",
            f"Add `{name}: ./Image-{name}` to its `images:`, or name files: {files}. Or measure on --target vm.",
        )

    def _image(self, name: str) -> str:
        """Return the path of an image of the environment; empty if it names none."""
        with contextlib.suppress(KeyError, TypeError):
            return os.path.normpath(str(self._environment.config.get_image_path(name)))
        return ""

    def _address(self) -> tuple[str, int, str, str]:
        """Return address, port, user and where they come from: the NetworkService, or else the shell."""
        from labgrid.exceptions import NoResourceFoundError  # noqa: PLC0415 - an optional package

        with contextlib.suppress(NoResourceFoundError):
            service = self._target.get_resource("NetworkService", wait_avail=False)
            return str(service.address), int(service.port or 0), str(service.username or ""), "NetworkService"
        hint = "Add a NetworkService with address and username to its resources."
        shell = next((driver for driver in self._target.drivers if type(driver).__name__ == "ShellDriver"), None)
        if shell is None:
            raise LabError(
                f"{self._place} has neither a NetworkService nor a ShellDriver: its address is unknown.", hint
            )
        with _explained(f"The shell of {self._place} can't be used", hint):
            self._target.activate(shell)
            lines = shell.run(_SHELL_ADDRESS)[0][:_MOST_LINES]
        for text in _INET.findall("\n".join(map(str, lines))):
            with contextlib.suppress(ValueError):
                return str(ipaddress.IPv4Address(text)), 0, str(shell.username or ""), f"the shell: {_SHELL_ADDRESS}"
        raise LabError(f"`{_SHELL_ADDRESS}` on {self._place} prints no address.", hint)


def _emulates(driver: Any) -> bool:  # noqa: ANN401 - labgrid has no types
    """Return whether a driver emulates its board: QEMU does, unless it gets the option of KVM."""
    words = f"{getattr(driver, 'machine', '')} {getattr(driver, 'extra_args', '')}"
    return type(driver).__name__ == "QEMUDriver" and "kvm" not in words


def _environment(path: str) -> Any:  # noqa: ANN401 - labgrid has no types
    from labgrid import Environment  # noqa: PLC0415 - an optional package

    def refuse(_: object = "") -> str:
        raise LabError("The strategy waits for input, and this session has none.", "Use drivers that need no hand.")

    with _explained(f"The labgrid environment {path} can't be used", f"Try: labgrid-client -c {path} places"):
        environment = Environment(path, interact=refuse)
        targets = environment.config.get_targets()
        if not isinstance(targets, dict) or not all(isinstance(each, dict) for each in targets.values()):
            raise LabError(
                f"The labgrid environment {path} has no valid section targets.", "See `swapstone docs boards`."
            )
    return environment


def _role(targets: dict[str, Any], place: str, path: str) -> tuple[str, bool]:
    """Return the target of an environment that has a place, and whether the place is a coordinator's."""
    from labgrid.factory import TargetFactory  # noqa: PLC0415 - an optional package

    known = []
    for role, config in targets.items():
        places = TargetFactory.normalize_config(config)[0].get("RemotePlace", {})
        if place in places:
            return role, True
        known += list(map(str, places)) if places else [role]
        if role == place and not places:
            return role, False
    raise LabError(
        f"{path} has neither a RemotePlace nor a target {place}.",
        f"It has: {', '.join(map(str, known)) or 'none'}.",
    )


def _open_session(place: str) -> Any:  # noqa: ANN401 - labgrid has no types
    """Return the session through which labgrid watches the resources of the place, with the arguments that a request needs."""
    from labgrid.resource.remote import RemotePlaceManager  # noqa: PLC0415 - an optional package

    session = RemotePlaceManager.get().session
    if session is None or session.stopping.is_set():
        return None
    session.args = _arguments(place)
    return session


def _arguments(place: str) -> argparse.Namespace:
    """Return what labgrid-client would have as its options."""
    return argparse.Namespace(place=place, allow_unmatched=False, kick=False)


@contextlib.contextmanager
def _session(coordinator: str, place: str) -> Iterator[Any]:
    """Connect to a coordinator, for one request."""
    from labgrid.remote.client import Error, start_session  # noqa: PLC0415 - an optional package

    try:
        session = start_session(coordinator, extra={"args": _arguments(place)})
    except (Error, OSError) as error:
        raise LabError(
            f"The labgrid coordinator {coordinator} can't be reached.",
            "Start it (labgrid-coordinator), or name another one: LG_COORDINATOR=HOST:PORT",
        ) from error
    try:
        yield session
    finally:
        session.stopping.set()
        session.loop.run_until_complete(session.stop())
        session.loop.run_until_complete(session.close())


def _states(strategy: Any) -> list[str]:  # noqa: ANN401 - labgrid has no types
    """Return the states of a strategy, as far as it lists them: those of a GraphStrategy, or of the enumeration that `status` is of."""
    states = getattr(strategy, "states", None)
    if isinstance(states, dict):
        return list(map(str, states))
    return [name for name in getattr(type(getattr(strategy, "status", None)), "__members__", {}) if name != "unknown"]


@contextlib.contextmanager
def _explained(what: str, hint: str = "") -> Iterator[None]:
    """Turn any exception of labgrid, of its drivers and of the user's code into a `LabError` with its causes."""
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        causes: list[str] = []
        each: BaseException | None = error
        while each is not None and len(causes) < 4:
            text = " ".join(str(each).split()) or type(each).__name__
            causes += [text] if text not in causes else []
            each = each.__cause__ or each.__context__
        raise LabError(f"{what}: {': '.join(causes)}", hint) from error


def main() -> None:
    """Answer requests until the input ends."""
    requests = os.dup(0)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)  # what drivers print goes to the log
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # Swapstone does not wait any longer
    labs: list[Lab] = []
    try:
        for line in _lines(requests, labs):
            request = json.loads(line)
            try:
                if request.pop("command") == "open":
                    kernels, roots = request.pop("kernels"), request.pop("roots")
                    labs.append(Lab(**request))
                    found = labs[-1].open(kernels, roots)
                else:
                    found = labs[-1].boot(**request)
            except LabError as error:
                found = {"error": str(error), "hint": error.hint}
            answers.write(json.dumps(found) + "\n")
            answers.flush()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for each in labs:
            each.close()


def _lines(descriptor: int, labs: Sequence[Lab]) -> Iterator[bytes]:
    """Yield the lines of a file. Until the next one comes, consoles are read twice a second."""
    found = b""
    while True:
        while not select.select([descriptor], [], [], _IDLE_S)[0]:
            for lab in labs:
                lab.idle()
        if not (data := os.read(descriptor, 1 << 16)):
            return
        *lines, found = (found + data).split(b"\n")
        yield from lines


if __name__ == "__main__":
    main()
