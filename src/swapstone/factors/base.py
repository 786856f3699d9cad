"""The contract of a factor: what can be swapped, and how what was really in force is seen."""

from __future__ import annotations

import enum
from typing import Protocol, runtime_checkable

from swapstone.model import FrozenStruct, Observation


class Stage(enum.Enum):
    """Where a factor acts."""

    COMPILE = "compile"
    LINK = "link"
    BOOT = "boot"
    LAUNCH = "launch"


class Level(FrozenStruct, frozen=True, kw_only=True):
    """One value of a factor.

    Attributes:
        name: as users type it.
        description: one line.
        needs: commands that must be on PATH for it.
        package: the Debian package that brings them.
    """

    name: str
    description: str
    needs: tuple[str, ...] = ()
    package: str = ""


class Recipe(FrozenStruct, frozen=True, kw_only=True):
    """Everything that decides how a program is built and started. Factors turn one recipe into another.

    Factors say by name what they want (`libc`, `compiler`, `linking`, `allocator`), in any order; when all have spoken,
    `swapstone.artifacts.recipe_resolution` turns the names into what the machine has: `command`, further flags, `preload`.

    Attributes:
        libc: name of the C library.
        compiler: name of the C compiler: ``cc`` for whatever the machine's is, ``gcc``, ``clang``.
        linking: ``dynamic`` or ``static``.
        allocator: name of the allocator, ``default`` for the C library's own; or the path of a shared object that has one.
        cflags: flags for compiling.
        ldflags: flags for linking.
        environment: pairs (name, value): the whole environment of the program but for what `preload` adds.
        nice: priority, -20..19.
        command: the C compiler's command; empty until it is provided.
        preload: absolute paths of shared objects that the loader takes before all others; empty until they are provided.
        preload_bytes: how many bytes the list of `preload` takes in the environment, filled up where it is shorter, so that variants
            with and without it have equally large environments; 0 to fill nothing up.
        kernel: level of the kernel of the machine; empty for the target's own.
        swap: level of the machine's swap; empty for none.
        architecture: of the machine that it is for, as ``uname -m`` has it; empty for the one on which it is built.
        observe: values that the agent reads at the end of the process, for the factors that need them.
    """

    libc: str = "glibc"
    compiler: str = "cc"
    linking: str = "dynamic"
    allocator: str = "default"
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    nice: int = 0
    command: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    preload_bytes: int = 0
    kernel: str = ""
    swap: str = ""
    architecture: str = ""
    observe: tuple[Observation, ...] = ()


class ProgramFacts(FrozenStruct, frozen=True, kw_only=True):
    """What the file of a program or of a shared object says of how it was made.

    Attributes:
        path: absolute, as it is mapped.
        machine: what it is for, by its name in ELF, e.g. ``EM_X86_64``.
        entry: the first bytes of code at its entry, hexadecimal.
        interp: its PT_INTERP, or None when it has none.
        needed: its DT_NEEDED entries, in order.
        soname: its DT_SONAME; empty where it has none.
        kind: its type, such as ``ET_DYN``.
        bits: its word size, 32 or 64; 0 where it isn't known.
        versions: the versions of symbols that it needs, such as ``GLIBC_2.34``.
        sections: names of its sections.
        comments: the compilers that left their names in ``.comment``.
        switches: command lines that compilers left in ``.GCC.command.line`` (``-frecord-gcc-switches``).
        symbols: those of `TELLING_SYMBOLS` that it defines, from its dynamic symbols and, unless it is stripped, all others.
        exports: those of them that it offers to other objects: its dynamic symbols.
        aliases: those of them that lie where its ``malloc`` lies, other names of the same function.
        build_id: of the note NT_GNU_BUILD_ID, hexadecimal; empty where it has none.
        properties: those of ``.note.gnu.property``, each ``TYPE=VALUE``.
    """

    path: str
    machine: str = ""
    entry: str = ""
    interp: str | None = None
    needed: tuple[str, ...] = ()
    soname: str = ""
    kind: str = ""
    bits: int = 0
    versions: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    build_id: str = ""
    properties: tuple[str, ...] = ()


class Evidence(FrozenStruct, frozen=True, kw_only=True):
    """What was seen of the process that was measured.

    Attributes:
        interp: its PT_INTERP, or None when it has none or none could be read.
        objects: files that were mapped executable at its end.
        mapped: files that the measuring child itself says it has mapped; empty for programs that don't report it.
        facts: the agent's named integers.
        program: what the file of the program says that was started, read before it was stripped where we built it; None where it
            can't be read as one.
        started: path of the file that was started, where that file was the same before and after the trial as when its digest was
            taken; empty where that is not known.
        named: pairs (level, path) of the programs that the user named, for the factor ``program``.
        libraries: what the files of the other objects say, in the order of `objects`.
        malloc: the file in which the measuring child itself found ``malloc``; empty for programs that don't report it.
        preload: objects that the loader was told to take before all others, whether or not it did.
        paths: levels that were asked for by the path of a file.
        machine: what a virtual machine said of itself, pairs (name, text) as docs/virtual-machines.md lists them; empty elsewhere.
        observed: pairs (observation, value) of what the agent read at the end of the process because a factor's ``observes`` names it.
            The values come from the process or the system, and may hold anything.
        absent: observations of a variable or file that did not exist.
        seen: what the program saw of the process that it measured, pairs (name, text) as docs/wire.md, section 4, has them; empty for
            programs that measure themselves.
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
    paths: tuple[str, ...] = ()
    machine: tuple[tuple[str, str], ...] = ()
    observed: tuple[tuple[Observation, str], ...] = ()
    absent: tuple[Observation, ...] = ()
    seen: tuple[tuple[str, str], ...] = ()

    def said(self, name: str) -> str:
        """Return what the machine said under a name, or an empty text."""
        return dict(self.machine).get(name, "")

    def value(self, observation: Observation) -> str | None:
        """Return an observed value; None if it was absent or could not be read, which `is_absent` distinguishes."""
        return dict(self.observed).get(observation)

    def is_absent(self, observation: Observation) -> bool:
        """Return whether a variable or file was looked for and did not exist."""
        return observation in self.absent

    def fact(self, name: str) -> int | None:
        """Return one of the agent's integers, or None if it could not be read."""
        return dict(self.facts).get(name)


class Factor(Protocol):
    """What is varied. One instance per factor; it holds no state.

    Attributes:
        name: as users type it.
        stage: where it acts.
        description: one line for ``list factors``.
        levels: in the order of ``list levels``.

    Two more attributes are optional:

    - ``observes``: a tuple of `Observation`: values that the agent reads for it. `observe` finds them by `Evidence.value`.
    - ``unseen``: a hint for the user if the evidence does not tell the level.
    """

    name: str
    stage: Stage
    description: str
    levels: tuple[Level, ...]

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Return the recipe with this level in it.

        Args:
            level: one of `levels`' names.
            recipe: what the factors before this one made.
        """
        ...

    def observe(self, evidence: Evidence) -> str | None:
        """Say which level was in force in the process that ran.

        Args:
            evidence: what was seen of it.

        Returns:
            A level's name; any other text when something else was in force (it is shown to the user); or None when the evidence
            doesn't tell. Only the level that was asked for lets the run count.
        """
        ...


@runtime_checkable
class TakesTexts(Protocol):
    """A factor that takes levels beside those that it lists: a family of them, such as a device at any rate."""

    def level_of_text(self, text: str) -> Level | None:
        """Return the level that a text stands for, by its one name; None where it stands for none.

        Args:
            text: as the user typed it.

        Raises:
            UserError: it is of the family's form and can't be a level.
        """
        ...


@runtime_checkable
class TakesPaths(Protocol):
    """A factor that also takes the path of a file as a level. What users type with a slash in it is one."""

    def level_of_path(self, text: str) -> Level:
        """Return the level that a path stands for; its name is the absolute path without symbolic links.

        Args:
            text: as the user typed it.

        Raises:
            UserError: the file isn't there or can't be a level.
        """
        ...
