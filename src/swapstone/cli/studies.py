"""Reading the studies that Swapstone ships: one TOML file each."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from swapstone.model import Noun, UserError, unknown
from swapstone.model.share import share_dir


class StudyFactor(Noun, frozen=True, kw_only=True):
    """A factor of a study: its name and levels, the baseline first."""

    name: str
    levels: tuple[str, ...]


class Study(Noun, frozen=True, kw_only=True):
    """An experiment that we ship.

    Attributes:
        title: what it compares.
        question: what it answers.
        published: the published study to print beside the results; may be empty.
        suites: whose workloads it runs.
        null: whether the baseline takes part again.
        budget: a duration, as `--budget` takes it.
        margin: a share, as `--margin` takes it.
        factor: what is varied.
    """

    title: str
    question: str
    published: str = ""
    suites: tuple[str, ...]
    null: bool = False
    budget: str
    margin: str = "2%"
    factor: tuple[StudyFactor, ...]


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
    try:
        return msgspec.convert(tomllib.loads(content.decode()), Study)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{name} is not a study: {error}.", "studies/musl-vs-glibc.toml shows the form.") from error
