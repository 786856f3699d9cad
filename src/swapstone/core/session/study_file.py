# SPDX-License-Identifier: MIT OR Apache-2.0
"""Study files: one TOML file for an experiment, or for several parts that share its keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from swapstone.core.factors import free_factor, free_levels, parse_choice
from swapstone.core.manifests import FOLDER, shipped_parts
from swapstone.core.model import (
    COMMAND,
    FactorLevels,
    FrozenStruct,
    UserError,
    unknown,
)
from swapstone.core.model.directories import share_dir
from swapstone.core.model.regular_file import TomlError, decode_toml
from swapstone.core.session.option_table import Option, options_of
from swapstone.core.session.option_values import duration_ns
from swapstone.core.session.options import PIECES, Program, Settings, settings_from
from swapstone.core.session.request import ExperimentRequest, default_budget_ns, varied_program
from swapstone.core.targets import target_below

_PART_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class StudyFactor(FrozenStruct, frozen=True, kw_only=True):
    """A factor of a study: its name and levels, the baseline first."""

    name: str
    levels: tuple[str, ...]


class ExperimentKeys(FrozenStruct, frozen=True, kw_only=True):
    """The keys of an experiment: at the top of a study file, and in a part, which inherits those that it leaves out.

    Besides these it has a key for each option that `swapstone.core.session.options` declares with an example; see `with_options`.

    Attributes:
        factor: what is varied.
    """

    factor: tuple[StudyFactor, ...] = ()

    @property
    def given(self) -> dict[str, object]:
        """Return the values of the options that are in the file, without those of an own program."""
        return _given(self, KEYS)

    @property
    def own(self) -> dict[str, object] | None:
        """Return the values of the options of an own program that are in the file; None if it has none."""
        program = getattr(self, "program", msgspec.UNSET)
        return None if program is msgspec.UNSET else _given(program, PROGRAM_KEYS)

    @property
    def settings(self) -> Settings:
        """Return the settings that the keys make.

        Raises:
            UserError: a value has the wrong form.
        """
        own = self.own or {}
        if isinstance(commands := own.get("commands"), Mapping):
            own = {**own, "names": tuple(commands), "commands": tuple(commands.values())}
        return settings_from({**self.given, **own})

    @property
    def factors(self) -> tuple[FactorLevels, ...]:
        """Return what is varied, without a look-up of names."""
        own = self.own or {}
        named = {"program": own.get("programs"), COMMAND: own.get("commands")}
        given = {name: tuple(each) for name, each in named.items() if isinstance(each, Mapping) and len(each) > 1}
        return (
            *(FactorLevels(factor=name, levels=levels) for name, levels in given.items()),
            *(FactorLevels(factor=each.name, levels=each.levels) for each in self.factor),
        )

    @property
    def budget_ns(self) -> int:
        """Return the time for measuring, in nanoseconds."""
        return duration_ns(self.settings.measuring.budget) or default_budget_ns(self.factors)

    def request(self, name: str, directory: str = "") -> ExperimentRequest:
        """Return the experiment that the keys describe.

        Args:
            name: of the record.
            directory: where relative paths start; empty for the current folder.

        Raises:
            UserError: a name is unknown or a value has the wrong form.
        """
        settings = self.settings
        machine, place, held = settings.machine, settings.place, settings.workloads.hold
        own, varied = varied_program(settings.program, tuple(map(_choice, self.factor)), held, directory)
        kernels = (text.partition("=") for text in machine.modules)
        machine = attrs.evolve(
            machine,
            modules=tuple(f"{_absolute(one, directory)}={_absolute(other, directory)}" for one, _, other in kernels),
            module_files=tuple(_absolute(path, directory) for path in machine.module_files),
        )
        place = attrs.evolve(place, target=target_below(place.target or "", directory) or None)
        settings = attrs.evolve(settings, machine=machine, place=place)
        return ExperimentRequest(name=name, factors=varied, settings=settings, own=own, budget_extends=True)


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


def with_options(base: type[Any], options: Mapping[str, Option], *more: tuple[str, Any, Any]) -> type[Any]:
    """Return a struct with a key for each option, unset where the file leaves it out.

    Args:
        base: its base class, whose name it has.
        options: by name.
        *more: further fields: name, type, default.
    """
    keys = [(name, option.form | msgspec.UnsetType, msgspec.UNSET) for name, option in options.items()]
    return msgspec.defstruct(base.__name__, [*keys, *more], bases=(base,), frozen=True, kw_only=True)


class _Program(FrozenStruct, frozen=True, kw_only=True):
    """The table ``[program]``: an own program or an own server."""


PROGRAM_KEYS = {name: option for name, option in options_of(Program) if option.example}
KEYS = {
    name: option
    for piece in PIECES.values()
    if piece is not Program
    for name, option in options_of(piece)
    if option.example
}
_PROGRAM = ("program", with_options(_Program, PROGRAM_KEYS) | msgspec.UnsetType, msgspec.UNSET)
_PART = with_options(StudyPart, KEYS, _PROGRAM)
STUDY_FILE: type[Study] = with_options(Study, KEYS, _PROGRAM, ("part", tuple[_PART, ...], ()))  # type: ignore[valid-type] # made here
"""What a study file holds: a `Study` with a key for each option."""


def _given(keys: object, names: Iterable[str]) -> dict[str, object]:
    values = ((name, getattr(keys, name, msgspec.UNSET)) for name in names)
    return {name: value for name, value in values if value is not msgspec.UNSET}


def studies_dir() -> Path:
    """Return the folder of the shipped studies that several parts are needed for."""
    return share_dir() / "studies"


def _shipped() -> dict[str, Path]:
    """Return the files of the shipped studies by name: those of each part are in its folder ``studies``."""
    folders = (studies_dir(), *(FOLDER / part.name / "studies" for part in shipped_parts()))
    return {path.stem: path for folder in folders for path in folder.glob("*.toml")}


def study_names() -> tuple[str, ...]:
    """Return the names of the shipped studies."""
    return tuple(sorted(_shipped()))


def list_studies() -> Iterator[tuple[str, Study | UserError]]:
    """Yield every shipped study by name. A file that is no study gives the error with the reason."""
    for name in study_names():
        try:
            yield name, load_study(name)
        except UserError as error:
            yield name, error


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
    return Path(name) if name.endswith(".toml") else _shipped().get(name, studies_dir() / f"{name}.toml")


def decode_study(content: bytes, name: str) -> Study:
    """Decode a study file.

    Args:
        content: the whole file.
        name: of the file, for the error.

    Raises:
        UserError: the file is not a study; names the key and an example of a value.
    """
    try:
        study = msgspec.convert(decode_toml(content), STUDY_FILE)
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
    "factor": '[[factor]] with name = "libc" and levels = ["glibc", "musl"]',
    "program": '[program] with command = "./prog ARG"',
    "part": '[[part]] with name = "strings" and title = "Strings"',
    "name": 'name = "strings"',
    "levels": 'levels = ["glibc", "musl"]',
    **{name: option.example for name, option in {**KEYS, **PROGRAM_KEYS}.items()},
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
        if each.own is not None and not {"suites", "only"}.isdisjoint(each.given):
            yield f"{where}suites", "the own program is measured instead of suites"


def _value_problems(keys: ExperimentKeys, where: str) -> Iterator[tuple[str, str]]:
    values = {**{f"program.{name}": each for name, each in (keys.own or {}).items()}, **keys.given}
    for key, value in values.items():
        name = key.removeprefix("program.")
        if name != "commands" and (problem := _problem_of(name, value)):
            yield f"{where}{key}", problem
    for index, factor in enumerate(keys.factor):
        if len(set(factor.levels)) < max(2, len(factor.levels)):
            yield f"{where}factor[{index}].levels", f"{factor.name} needs two or more different levels"


def _problem_of(name: str, value: object) -> str:
    """Return what is wrong with the value of an option, or an empty text."""
    choices = {**KEYS, **PROGRAM_KEYS}[name].choices
    if choices and value not in choices:
        return f"there is no {name} {value!r}: it is {' or '.join(choices)}"
    try:
        settings_from({name: value})
    except UserError as error:
        return error.message
    return ""


def _inherit(part: StudyPart, top: ExperimentKeys) -> StudyPart:
    """Return a part with the top's value of every key that it leaves out."""
    kept = {name: getattr(part, name) for name in part.given}
    inherited: dict[str, Any] = {name: value for name, value in top.given.items() if name not in kept}
    if not part.factor:
        inherited["factor"] = top.factor
    chooses = not {"suites", "only"}.isdisjoint(kept)
    if part.own is None and top.own is not None and not chooses:
        inherited["program"] = getattr(top, "program")  # noqa: B009 - a key of the struct made from the options
    if part.own is not None and "suites" not in kept:  # its own program replaces the suites of the top
        inherited = {key: value for key, value in inherited.items() if key not in {"suites", "only"}}
    return msgspec.structs.replace(part, **inherited)


def _choice(factor: StudyFactor) -> FactorLevels:
    if free_factor(factor.name) is not None:
        return free_levels(factor.name, factor.levels)
    return parse_choice(f"{factor.name}={','.join(factor.levels)}")


def _absolute(path: str, directory: str) -> str:
    return str(Path(directory) / Path(path).expanduser()) if directory and "/" in path else path
