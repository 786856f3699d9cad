# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of a factor: how a level is applied, and how the level in force is observed."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import msgspec

from swapstone.core.model import FrozenStruct, Observation, unknown

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile


class Stage(enum.Enum):
    """The stage at which a factor is applied."""

    COMPILE = "compile"
    LINK = "link"
    BOOT = "boot"
    LAUNCH = "launch"


class Level(FrozenStruct, frozen=True, kw_only=True):
    """One value of a factor.

    Attributes:
        name: as users type it.
        description: one line.
        needs: commands that must be on PATH for it; the file `packages` has the packages that bring them.
    """

    name: str
    description: str
    needs: tuple[str, ...] = ()


Piece = TypeVar("Piece", bound=FrozenStruct)


def _piece(pieces: Sequence[FrozenStruct], kind: type[Piece]) -> Piece:
    return next((each for each in pieces if isinstance(each, kind)), kind())


class Recipe(FrozenStruct, frozen=True, kw_only=True):
    """How a program is built and started. Each factor transforms one recipe into another.

    Factors set names only, in any order. After all factors, `swapstone.core.run.builder.Builder.resolve` finds and makes what they name.

    Attributes:
        environment: pairs (name, value): the whole environment of the program, except for the variable of `preload`.
        nice: priority, -20..19.
        preload: absolute paths for LD_PRELOAD; empty until they are resolved.
        preload_bytes: length of that list in the environment; a shorter list is padded, so that variants with and without it have
            environments of equal size; 0 for no padding.
        preload_keeps_path: whether a target that gets copies of these objects has them at the same paths: they are the user's.
        kernel: level of the factor ``kernel``; empty for the target's default.
        swap: level of the factor ``swap``; empty for none.
        prepare: commands that prepare the machine of a trial for the levels; see `MachineConfig`.
        more_memory_bytes: what the levels add to the memory of that machine.
        architecture: of the machine that the program is for, as ``uname -m`` prints it; empty for the build machine.
        observe: values that the agent reads at the end of the process, for the factors that need them.
        values: pairs (placeholder, text) of the user's free factors.
        root: level of the factor ``rootfs``, a path, or of ``image``, a name; empty for the root of the target.
        pieces: what parts add, one of each class: `of` finds it.
    """

    environment: tuple[tuple[str, str], ...] = ()
    nice: int = 0
    preload: tuple[str, ...] = ()
    preload_bytes: int = 0
    preload_keeps_path: bool = False
    kernel: str = ""
    swap: str = ""
    prepare: tuple[str, ...] = ()
    more_memory_bytes: int = 0
    architecture: str = ""
    observe: tuple[Observation, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    root: str = ""
    pieces: tuple[FrozenStruct, ...] = ()

    def of(self, kind: type[Piece]) -> Piece:
        """Return the piece of a class; one with its defaults if no level added it."""
        return _piece(self.pieces, kind)

    def changed(self, kind: type[Piece], **changes: object) -> Recipe:
        """Return this recipe with other values in the piece of a class.

        Args:
            kind: of the piece.
            **changes: values by their field.
        """
        others = (each for each in self.pieces if not isinstance(each, kind))
        made: Piece = msgspec.structs.replace(self.of(kind), **changes)
        return msgspec.structs.replace(self, pieces=(*others, made))


class PartFacts(FrozenStruct, frozen=True, kw_only=True):
    """What the factors of a part need of the file of a program or of a shared object. All fields have defaults.

    A part provides its class as the kind ``program-facts``.
    """

    @classmethod
    def read(cls, elf: ELFFile) -> PartFacts:  # noqa: ARG003 - a part's class needs it
        """Read them in an ELF file; the defaults where a part reads nothing.

        Raises:
            ValueError, ELFError: the file is damaged. It then has no facts at all.
        """
        return cls()

    @classmethod
    def pretended(cls, levels: Mapping[str, str], offered: tuple[str, ...]) -> PartFacts:  # noqa: ARG003 - as above
        """Return those of a file that the target `fake` pretends; the defaults where a part pretends nothing.

        Args:
            levels: level by factor, with which a program was built.
            offered: of a shared object, the symbols that it offers; empty for a program.
        """
        return cls()


class ProgramFacts(FrozenStruct, frozen=True, kw_only=True):
    """What the file of a program or of a shared object contains.

    Attributes:
        path: absolute, as in /proc/PID/maps.
        machine: its architecture by the name in ELF, e.g. ``EM_X86_64``.
        interp: its PT_INTERP, or None.
        needed: its DT_NEEDED entries, in order.
        pieces: what parts read for their factors, one of each class: `of` finds it.
    """

    path: str
    machine: str = ""
    interp: str | None = None
    needed: tuple[str, ...] = ()
    pieces: tuple[PartFacts, ...] = ()

    def of(self, kind: type[Piece]) -> Piece:
        """Return the piece of a class; one with its defaults if no part read it."""
        return _piece(self.pieces, kind)


BOOTED_ROOT = "booted root"
"""Name in `Evidence.machine` of what a target that boots root file systems reports: the level, or a description of another root."""


class Evidence(FrozenStruct, frozen=True, kw_only=True):
    """What was observed of the process that was measured.

    Attributes:
        interp: its PT_INTERP, or None if it has none or it could not be read.
        objects: files that were mapped executable at its end.
        mapped: files that a workload reports as mapped in its measuring child; empty for other programs.
        facts: the agent's named integers.
        program: the content of the program's file, read before stripping if Swapstone built it; None if it is no ELF file.
        started: path of the file that was started, if its content before and after the trial matched its digest; else empty.
        named: pairs (level, path) of the user's programs, for the factor ``program``.
        libraries: the content of the files of the other objects, in the order of `objects`.
        malloc: the file that contains the ``malloc`` of a workload's measuring child, as it reports; empty for other programs.
        preload: objects in LD_PRELOAD, whether or not the loader mapped them.
        path_levels: pairs (factor, level) of the requested levels that are paths of files, or flags: texts that begin with a hyphen.
        machine: pairs (name, text) that a virtual machine reports, as docs/virtual-machines.md lists them; empty on other targets.
        observed: pairs (observation, value) of what the agent read at the end of the process because a factor's ``observes`` names it.
            The values come from the process or the system, and may hold anything.
        absent: observations of a variable or file that did not exist.
        levels: pairs (factor, level) of the factors ``command`` and ``{NAME}``, as read from the command line and the environment of the
            process; another text than the requested level if they differ. A factor is missing if neither could be read.
        seen: pairs (name, text) that a program reports of the process that it measured (docs/wire.md, section 4).
        root: folder on the target of the root file system that was requested; empty for that of the target. All paths are then paths in
            it, except those in `path_levels`.
    """

    interp: str | None
    objects: tuple[str, ...]
    mapped: tuple[str, ...] = ()
    facts: tuple[tuple[str, int], ...] = ()
    program: ProgramFacts | None = None
    started: str = ""
    named: tuple[tuple[str, str], ...] = ()
    libraries: tuple[ProgramFacts, ...] = ()
    malloc: str = ""
    preload: tuple[str, ...] = ()
    path_levels: tuple[tuple[str, str], ...] = ()
    machine: tuple[tuple[str, str], ...] = ()
    observed: tuple[tuple[Observation, str], ...] = ()
    absent: tuple[Observation, ...] = ()
    seen: tuple[tuple[str, str], ...] = ()
    levels: tuple[tuple[str, str], ...] = ()
    root: str = ""

    def path_of(self, factor: str) -> str:
        """Return the requested level of a factor if it is a path, else an empty text."""
        level = dict(self.path_levels).get(factor, "")
        return "" if level.startswith("-") else level

    def flags_of(self, factor: str) -> str:
        """Return the requested level of a factor if it is flags, else an empty text."""
        level = dict(self.path_levels).get(factor, "")
        return level if level.startswith("-") else ""

    def machine_text(self, name: str) -> str:
        """Return a text that the virtual machine reports, or an empty text."""
        return dict(self.machine).get(name, "")

    def value(self, observation: Observation) -> str | None:
        """Return an observed value; None if it was absent or could not be read, which `absent` distinguishes."""
        return dict(self.observed).get(observation)

    def fact(self, name: str) -> int | None:
        """Return one of the agent's facts, or None if it could not be read."""
        return dict(self.facts).get(name)


@runtime_checkable
class Factor(Protocol):
    """What an experiment varies. One instance per factor, without state.

    Attributes:
        name: as users type it.
        stage: at which stage it is applied.
        description: one line for ``list factors``.
        levels: in the order of ``list levels``.

    More attributes are optional. A factor of a part has no others, except those whose names start with an underscore:

    - ``observes``: a tuple of `Observation`: values that the agent reads for it. `observe` finds them by `Evidence.value`.
    - ``forms``: further rows of ``list levels``: what a text that is no level's name may be.
    - ``unseen``: a hint for the user if the evidence does not show the level.
    - ``reboots``: whether a target that ``reboots`` boots its machine anew for another level; see `reboots`.
    - ``machine``: `MachineNeeds` of the machines of all levels.
    - ``is_root``: whether levels are root file systems of an own program.
    - ``default_architecture``: of the machine that the factor needs, where this one will not do.
    - ``tools_are_of_this_machine``: whether the tools that levels need build for this machine alone.
    - ``limits_memory``: whether a board that sets its levels limits the memory of a trial, too.
    - ``shown_by_loader``: whether the evidence of a program without a loader is its file alone.
    - ``elsewhere``: a hint for a target on which the factor can't act.
    - ``of_built``: a hint for a program that is not built here, on which a factor that acts when programs are built can't act.
    """

    name: str
    stage: Stage
    description: str
    levels: tuple[Level, ...]

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Return the recipe with this level applied.

        Args:
            level: one of `levels`' names.
            recipe: the result of the preceding factors.
        """
        ...

    def observe(self, evidence: Evidence) -> str | None:
        """Return which level was in force in the process that ran.

        Args:
            evidence: of the process.

        Returns:
            A level's name; another text for the user if something else was in force; or None if the evidence does not show it. Only the
            requested level makes the run valid.
        """
        ...


OPTIONAL = frozenset(
    {
        *("observes", "forms", "unseen", "reboots", "machine", "is_root", "default_architecture"),
        *("tools_are_of_this_machine", "limits_memory", "shown_by_loader", "elsewhere", "of_built"),
    }
)
"""The optional attributes of a `Factor`."""


def reboots(factor: Factor) -> bool:
    """Return whether a target that ``reboots`` boots its machine anew for another level of a factor."""
    return getattr(factor, "reboots", False)


@runtime_checkable
class TakesTexts(Protocol):
    """A factor with more levels than it lists: a family of levels, such as a device with any rate."""

    def level_of_text(self, text: str) -> Level | None:
        """Return the level that a text denotes, under its canonical name; None if it denotes none.

        Args:
            text: as the user typed it.

        Raises:
            UserError: the text has the family's form but is no valid level.
        """
        ...


@runtime_checkable
class TakesPaths(Protocol):
    """A factor that also accepts the path of a file as a level. A text with a slash is a path."""

    def level_of_path(self, text: str) -> Level:
        """Return the level of a path; its name is the absolute path without symbolic links.

        Args:
            text: as the user typed it.

        Raises:
            UserError: the file does not exist or can't be a level.
        """
        ...


SOURCE_RECIPE = Recipe(
    environment=(("PATH", "/usr/bin:/bin"), ("LC_ALL", "C"), ("TMPDIR", "/tmp"))  # noqa: S108 - the program's, not ours
)
"""What programs with a build system of their own start from."""


@runtime_checkable
class ChecksLevels(Protocol):
    """A factor whose levels may exclude each other."""

    def check_levels(self, levels: Sequence[str]) -> None:
        """Raise `UserError` for levels that can't be compared."""
        ...


@runtime_checkable
class ChecksPlace(Protocol):
    """A factor that acts when a machine starts."""

    def acts_on(self, target: str, offers: frozenset[str], levels: Sequence[str]) -> bool:
        """Return whether the factor can act on a target.

        Args:
            target: its name.
            offers: its capabilities, see `swapstone.core.targets.target.Offer`.
            levels: all that the experiment has.

        Raises:
            UnavailableError: it can, and the target lacks a level.
        """
        ...


def require_known_attributes(factor: Factor) -> None:
    """Raise `UserError` for a public attribute that no factor has: a misspelled optional one would be ignored."""
    known = OPTIONAL.union(
        Factor.__annotations__, *map(vars, (Factor, TakesTexts, TakesPaths, ChecksLevels, ChecksPlace))
    )
    for name in dir(factor):
        if not name.startswith("_") and name not in known:
            raise unknown(f"attribute of the factor {factor.name}", name, OPTIONAL)
