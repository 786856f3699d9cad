"""Reading the studies that Swapstone ships: one TOML file each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec

from swapstone.model import IDLE, FrozenStruct, UserError, unknown
from swapstone.model.directories import share_dir
from swapstone.session.values import parse_duration_ns, parse_ratio

_PART_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class StudyFactor(FrozenStruct, frozen=True, kw_only=True):
    """A factor of a study: its name and levels, the baseline first."""

    name: str
    levels: tuple[str, ...]


class StudyPart(FrozenStruct, frozen=True, kw_only=True):
    """One of several experiments of a study: a record of its own.

    Attributes:
        name: of its folder: small letters, digits, ``-``, ``_`` and ``.``.
        title: what it compares.
        suites: whose workloads it runs.
        only: patterns of workloads, as `--only` takes them; none for all.
        factor: what is varied; none for the study's.
        loads: what else the machine does meanwhile.
        architecture: of the virtual machine; empty for this machine's.
        budget: a duration, as `--budget` takes it; also its weight where a budget for the whole study is shared out.
        margin: a share; empty for the study's.
        blocks: an exact number of blocks, or 0 to stop on precision and budget.
    """

    name: str
    title: str
    suites: tuple[str, ...]
    only: tuple[str, ...] = ()
    factor: tuple[StudyFactor, ...] = ()
    loads: tuple[str, ...] = (IDLE.name,)
    architecture: str = ""
    budget: str
    margin: str = ""
    blocks: int = 0


class Study(FrozenStruct, frozen=True, kw_only=True):
    """What we ship: one experiment, or several that belong together.

    Attributes:
        title: what it compares.
        question: what it answers.
        published: the published study to print beside the results; may be empty.
        suites: whose workloads it runs; none where it consists of parts.
        null: whether the baseline takes part again.
        budget: a duration, as `--budget` takes it; empty where it consists of parts.
        margin: a share, as `--margin` takes it.
        factor: what is varied.
        part: its parts, in the order in which they run; none for a study of one experiment.
    """

    title: str
    question: str
    published: str = ""
    suites: tuple[str, ...] = ()
    null: bool = False
    budget: str = ""
    margin: str = "2%"
    factor: tuple[StudyFactor, ...] = ()
    part: tuple[StudyPart, ...] = ()

    @property
    def budget_ns(self) -> int:
        """Return its budget, of all parts together, in nanoseconds."""
        return sum(parse_duration_ns(each.budget) for each in self.part or (self,))


def studies_dir() -> Path:
    """Return the folder of the shipped studies."""
    return share_dir() / "studies"


def study_names() -> tuple[str, ...]:
    """Return the names of the shipped studies."""
    return tuple(sorted(path.stem for path in studies_dir().glob("*.toml")))


def load_study(name: str) -> Study:
    """Read a study by its name, or from a file of the user's own.

    Args:
        name: as `study_names` lists them, or a path that ends in ``.toml``.

    Raises:
        UserError: there is none of that name, or the file is not a study.
    """
    path = Path(name) if name.endswith(".toml") else studies_dir() / f"{name}.toml"
    if not path.is_file():
        if name.endswith(".toml"):
            raise UserError(f"There is no file {name}.")
        raise unknown("study", name, study_names())
    return decode_study(path.read_bytes(), path.name)


def decode_study(content: bytes, name: str) -> Study:
    """Decode a study's TOML.

    Args:
        content: the whole file.
        name: for the error.

    Raises:
        UserError: it is not a study; says where.
    """
    hint = "docs/studies.md shows the form."
    try:
        study = msgspec.convert(tomllib.loads(content.decode()), Study)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{name} is not a study: {error}.", hint) from error
    if wrong := _wrong(study):
        raise UserError(f"{name} is not a study: {wrong}.", hint)
    return study


def _wrong(study: Study) -> str:
    """Say what is wrong with a study that its types don't show; empty if nothing is."""
    if bool(study.part) == bool(study.suites):
        return "it needs either `suites` or parts, and not both"
    if study.part and study.budget:
        return "its parts have the budgets, so it has none of its own"
    names = [part.name for part in study.part]
    for part in study.part:
        if not _PART_NAME.fullmatch(part.name):
            return f"{part.name!r} is no name for a part: it is a folder's, of small letters, digits, -, _ and ."
        if names.count(part.name) > 1:
            return f"two parts have the name {part.name!r}"
        if not part.suites or not part.loads:
            return f"the part {part.name!r} has no suites or no loads"
    if not all(part.factor or study.factor for part in study.part or (study,)):
        return "it varies no factor"
    try:
        for margin in (study.margin, *(part.margin for part in study.part)):
            parse_ratio(margin or study.margin, "margin", 0.0, 1.0)
        assert study.budget_ns
    except UserError as error:
        return error.message.rstrip(".")
    return ""
