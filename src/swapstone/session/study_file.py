# SPDX-License-Identifier: MIT OR Apache-2.0
"""Study files: one TOML file for an experiment, or for several parts that share its keys."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from swapstone.factors import free_factor, free_levels, parse_choice
from swapstone.model import (
    COMMAND,
    IDLE,
    RANDOM_ORDER,
    REPORT_CORRECTION,
    FactorLevels,
    FrozenStruct,
    UserError,
    unknown,
)
from swapstone.model.directories import share_dir
from swapstone.model.toml_file import TomlError, decode_toml
from swapstone.session.defaults import MARGIN, default_budget_ns, default_confidence
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.request import ExperimentRequest
from swapstone.session.study_program import StudyProgram, named_values
from swapstone.session.values import parse_confidence, parse_duration_ns, parse_ratio
from swapstone.session.varied_program import varied_program
from swapstone.targets import target_below

_PART_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class StudyFactor(FrozenStruct, frozen=True, kw_only=True):
    """A factor of a study: its name and levels, the baseline first."""

    name: str
    levels: tuple[str, ...]


class ExperimentKeys(FrozenStruct, frozen=True, kw_only=True):
    """The keys of an experiment: at the top of a study file, and in a part, which inherits those that it leaves out.

    Attributes:
        suites: names of suites; if left out, those that suit the factors.
        only: patterns of workloads; all if left out.
        factor: what is varied.
        loads: names of loads; ``idle`` if left out.
        target: ``host``, ``vm``, ``vm:KERNEL`` or ``fake:PATH``; if left out, the one that the experiment needs.
        architecture: of the virtual machine; this machine's if left out.
        clock: ``wall`` or ``virtual``; the target's if left out.
        cpu_model, processors: of the virtual machine, as QEMU names it, and how many; the default and 1 if left out.
        ns_per_instruction: guest time of an instruction on the virtual clock: 1, 2, 4 ... 1024; 1 if left out.
        modules: path of a kernel to the folder of its modules.
        module_files: paths of kernel modules that the virtual machine loads.
        margin: a share such as ``2%``.
        confidence: a percentage such as ``95``; if left out, 99 with the correction ``report`` and 95 with ``family``.
        correction: ``report`` or ``family``; ``report`` if left out.
        null: whether the baseline takes part again.
        layouts: how many links of each variant take turns.
        prime: runs of the same variant that are discarded before each measured run; what the work needs if left out.
        order: ``random`` or ``balanced``.
        blocks: an exact number of blocks.
        budget: a duration such as ``14m``; one minute a variant if left out.
        duration: how long each trial of the suite latency measures, such as ``10s``.
        seed: of every random order.
        published: name of the published study beside the results.
        program: an own program or server instead of suites.
    """

    suites: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    factor: tuple[StudyFactor, ...] = ()
    loads: tuple[str, ...] = ()
    target: str = ""
    architecture: str = ""
    cpu_model: str = ""
    ns_per_instruction: int | None = None
    processors: int | None = None
    clock: str = ""
    modules: dict[str, str] = msgspec.field(default_factory=dict)
    module_files: tuple[str, ...] = ()
    hold: dict[str, str] = msgspec.field(default_factory=dict)
    margin: str = ""
    confidence: str = ""
    correction: str = ""
    null: bool | None = None
    layouts: int = 0
    prime: int | None = None
    order: str = ""
    blocks: int = 0
    budget: str = ""
    duration: str = ""
    seed: int | None = None
    published: str = ""
    program: StudyProgram | None = None

    @property
    def factors(self) -> tuple[FactorLevels, ...]:
        """Return what is varied, without a look-up of names."""
        named = {"program": self.program.programs, COMMAND: self.program.commands} if self.program else {}
        given = (FactorLevels(factor=name, levels=tuple(levels)) for name, levels in named.items() if len(levels) > 1)
        return (*given, *(FactorLevels(factor=each.name, levels=each.levels) for each in self.factor))

    @property
    def budget_ns(self) -> int:
        """Return the time for measuring, in nanoseconds."""
        return parse_duration_ns(self.budget) if self.budget else default_budget_ns(self.factors)

    def request(self, name: str, directory: str = "") -> ExperimentRequest:
        """Return the experiment that the keys describe.

        Args:
            name: of the record.
            directory: where relative paths start; empty for the current folder.

        Raises:
            UserError: a name is unknown or a value has the wrong form.
        """
        request = self.program.request(directory) if self.program else OwnProgramRequest(directory=directory)
        own, varied = varied_program(request, tuple(map(_choice, self.factor)), named_values(self.hold))
        return ExperimentRequest(
            name=name,
            factors=varied,
            suites=self.suites,
            only=self.only,
            budget_ns=parse_duration_ns(self.budget) if self.budget else None,
            duration_ns=parse_duration_ns(self.duration) if self.duration else None,
            margin=parse_ratio(self.margin, "margin", 0.0, 1.0) if self.margin else MARGIN,
            confidence=parse_confidence(self.confidence, "confidence") if self.confidence else None,
            correction=self.correction or REPORT_CORRECTION,
            seed=self.seed,
            blocks=self.blocks,
            null=bool(self.null),
            layouts=self.layouts,
            prime=self.prime,
            order=self.order or RANDOM_ORDER,
            target=target_below(self.target, directory) or None,
            loads=self.loads or (IDLE.name,),
            architecture=self.architecture,
            cpu_model=self.cpu_model,
            ns_per_instruction=1 if self.ns_per_instruction is None else self.ns_per_instruction,
            processors=1 if self.processors is None else self.processors,
            module_files=tuple(_absolute(path, directory) for path in self.module_files),
            modules=tuple(f"{_absolute(k, directory)}={_absolute(v, directory)}" for k, v in self.modules.items()),
            clock=self.clock or None,
            published=self.published,
            own=own,
            hold=named_values(self.hold),
            budget_extends=True,
        )


class StudyPart(ExperimentKeys, frozen=True, kw_only=True):
    """One of several experiments of a study, with a record of its own.

    Attributes:
        name: of its folder: small letters, digits, ``-``, ``_`` and ``.``.
        title: what it compares.
    """

    name: str
    title: str


class Study(ExperimentKeys, frozen=True, kw_only=True):
    """An experiment, or several that belong together.

    Attributes:
        title: what it compares.
        question: what it answers.
        part: its parts, in the order in which they run; none for a study of one experiment.
    """

    title: str
    question: str
    part: tuple[StudyPart, ...] = ()

    @property
    def total_budget_ns(self) -> int:
        """Return the time for measuring of all parts together, in nanoseconds."""
        return sum(each.budget_ns for each in self.experiments())

    def experiments(self) -> tuple[ExperimentKeys, ...]:
        """Return the parts with the keys that they inherit, or the study itself if it has no parts."""
        return self.parts() or (self,)

    def parts(self) -> tuple[StudyPart, ...]:
        """Return the parts, each with the keys that it inherits from the top."""
        return tuple(_inherit(part, self) for part in self.part)


@dataclasses.dataclass(frozen=True)
class BadStudy:
    """A file among the shipped studies that is no study."""

    name: str
    reason: str


def studies_dir() -> Path:
    """Return the folder of the shipped studies."""
    return share_dir() / "studies"


def study_names() -> tuple[str, ...]:
    """Return the names of the shipped studies."""
    return tuple(sorted(path.stem for path in studies_dir().glob("*.toml")))


def list_studies() -> Iterator[tuple[str, Study | BadStudy]]:
    """Yield every shipped study by name. A file that is no study gives a `BadStudy` with the reason."""
    for name in study_names():
        try:
            yield name, load_study(name)
        except UserError as error:
            yield name, BadStudy(name, error.message)


def is_part_name(text: str) -> bool:
    """Return whether a text can be the name of a part, which is that of its folder."""
    return _PART_NAME.fullmatch(text) is not None


def load_study(name: str) -> Study:
    """Read a study by its name, or from a file.

    Args:
        name: one of `study_names`, or a path that ends in ``.toml``.

    Raises:
        UserError: there is no such study, or the file is not a study.
    """
    path = study_path(name)
    if not path.is_file():
        if name.endswith(".toml"):
            raise UserError(f"There is no file {name}.", "`swapstone list studies` names the shipped ones.")
        raise unknown("study", name, study_names())
    return decode_study(path.read_bytes(), path.name)


def study_path(name: str) -> Path:
    """Return the file of a study: a path that ends in ``.toml``, or a shipped study's."""
    return Path(name) if name.endswith(".toml") else studies_dir() / f"{name}.toml"


def decode_study(content: bytes, name: str) -> Study:
    """Decode a study file.

    Args:
        content: the whole file.
        name: of the file, for the error.

    Raises:
        UserError: the file is not a study; names the key and an example of a value.
    """
    try:
        study = msgspec.convert(decode_toml(content), Study)
    except TomlError as error:
        raise UserError(
            f"{name} is not a study: {error}.", "The file must be TOML. `swapstone docs studies` has the keys."
        ) from error
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        key = place.rstrip("`").lstrip(".")
        raise _bad(name, problem, key or _named_key(problem)) from error
    for key, problem in _problems(study):
        raise _bad(name, problem, key)
    return study


_EXAMPLES = {
    "title": 'title = "musl against glibc"',
    "question": 'question = "What does it cost to replace glibc by musl?"',
    "suites": 'suites = ["libc"]',
    "only": 'only = ["b_malloc*"]',
    "factor": '[[factor]] with name = "libc" and levels = ["glibc", "musl"]',
    "loads": 'loads = ["idle", "cpu"]',
    "target": 'target = "vm"',
    "architecture": 'architecture = "arm64"',
    "cpu_model": 'cpu_model = "Nehalem"',
    "ns_per_instruction": "ns_per_instruction = 4",
    "processors": "processors = 2",
    "clock": 'clock = "virtual"',
    "module_files": 'module_files = ["./mine.ko"]',
    "modules": 'modules = { "./bzImage-a" = "./modules-a" }',
    "hold": 'hold = { optimization = "Os" }',
    "margin": 'margin = "2%"',
    "confidence": 'confidence = "95"',
    "correction": 'correction = "family"',
    "null": "null = true",
    "layouts": "layouts = 20",
    "prime": "prime = 2",
    "order": 'order = "balanced"',
    "blocks": "blocks = 20",
    "duration": 'duration = "10s"',
    "budget": 'budget = "14m"',
    "seed": "seed = 7",
    "published": 'published = "musl-vs-glibc"',
    "program": '[program] with command = "./prog ARG"',
    "part": '[[part]] with name = "strings" and title = "Strings"',
    "name": 'name = "strings"',
    "levels": 'levels = ["glibc", "musl"]',
    "commands": 'commands = { old = "./a --fast", new = "./b --fast" }',
    "parameters": "parameters = { N = [1, 10, 100] }",
    "programs": 'programs = { old = "./a", new = "./b" }',
    "with": 'with = ["zlib", "openssl"]',
    "env": 'env = { PORT = "{port}" }',
    "connections": "connections = [1, 10, 100]",
    "command": 'command = "./prog ARG"',
}
"""For each key, what to write."""


def _bad(name: str, problem: str, key: str) -> UserError:
    last = re.split(r"[.\[]", re.sub(r"\[[^\]]*\]$", "", key))[-1].rstrip("]")
    example = f"Write for example: {_EXAMPLES[last]}. " if last in _EXAMPLES else ""
    where = f"key {key}: " if key and f"`{key}`" not in problem else ""
    return UserError(
        f"{name} is not a study: {where}{problem.rstrip('.')}.", f"{example}`swapstone docs studies` has all keys."
    )


def _named_key(problem: str) -> str:
    """Return the key that a message of msgspec names, e.g. of a required field."""
    match = re.search(r"`(\w+)`$", problem)
    return match[1] if match else ""


def _problems(study: Study) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a study beside the types of its values, as (key, problem)."""
    names = [part.name for part in study.part]
    for index, part in enumerate(study.part):
        where = f"part[{index}]."
        if not _PART_NAME.fullmatch(part.name):
            yield (
                f"{where}name",
                f"{part.name!r} is no name for a part: it names a folder, with small letters, digits, -, _ and .",
            )
        if names.count(part.name) > 1:
            yield f"{where}name", f"two parts have the name {part.name!r}"
        yield from _value_problems(part, where)
    yield from _value_problems(study, "")
    for index, each in enumerate(study.experiments()):
        where = f"part[{index}]." if study.part else ""
        if not each.factors:
            yield f"{where}factor", "it varies no factor"
        if each.program and (each.suites or each.only):
            yield f"{where}suites", "the own program is measured instead of suites"


def _value_problems(keys: ExperimentKeys, where: str) -> Iterator[tuple[str, str]]:
    checks: Mapping[str, tuple[str, object]] = {
        "budget": (keys.budget, parse_duration_ns),
        "duration": (keys.duration, parse_duration_ns),
        "margin": (keys.margin, lambda text: parse_ratio(text, "margin", 0.0, 1.0)),
        "confidence": (keys.confidence, lambda text: parse_confidence(text, "confidence")),
        "correction": (keys.correction, default_confidence),
    }
    for key, (text, parse) in checks.items():
        if text:
            try:
                parse(text)  # type: ignore[operator] # one of those above
            except UserError as error:
                yield f"{where}{key}", error.message
    for index, factor in enumerate(keys.factor):
        if len(set(factor.levels)) < max(2, len(factor.levels)):
            yield f"{where}factor[{index}].levels", f"{factor.name} needs two or more different levels"
    if keys.program is not None and isinstance(keys.program.command, str):
        try:
            shlex.split(keys.program.command)
        except ValueError as error:
            yield f"{where}program.command", f"its quotes don't match: {error}"
    if keys.clock not in {"", "wall", "virtual"}:
        yield f"{where}clock", f"there is no clock {keys.clock!r}: it is wall or virtual"
    for key, number, low, high in (("blocks", keys.blocks, 0, 10_000), ("layouts", keys.layouts, 0, 1000)):
        if not low <= number <= high:
            yield f"{where}{key}", f"{number} is not between {low} and {high}"


def _inherit(part: StudyPart, top: ExperimentKeys) -> StudyPart:
    """Return a part with the top's value of every key that it leaves out."""
    empty = ExperimentKeys()
    inherited = {
        key: getattr(top, key)
        for key in ExperimentKeys.__struct_fields__
        if getattr(part, key) == getattr(empty, key) and getattr(top, key) != getattr(empty, key)
    }
    if part.program and not part.suites:  # its own program replaces the suites of the top
        inherited = {key: value for key, value in inherited.items() if key not in {"suites", "only"}}
    if (part.suites or part.only) and not part.program:
        inherited.pop("program", None)
    return msgspec.structs.replace(part, **inherited)


def _choice(factor: StudyFactor) -> FactorLevels:
    if free_factor(factor.name) is not None:
        return free_levels(factor.name, factor.levels)
    return parse_choice(f"{factor.name}={','.join(factor.levels)}")


def _absolute(path: str, directory: str) -> str:
    return str(Path(directory) / Path(path).expanduser()) if directory and "/" in path else path
