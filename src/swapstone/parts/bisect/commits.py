# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commits of a range, which of them can build other programs, and what the last one is without one of them."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model import UserError, refuse
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.gate.revisions import Repository

_EXAMPLE = "For example: swapstone bisect v1.2..HEAD"


def ends_of(repository: Repository, text: str) -> tuple[str, str]:
    """Return both commits of a range ``A..B``; an empty side is HEAD.

    Raises:
        UserError: it has another form, or there is no such commit.
    """
    first, dots, last = text.partition("..")
    refuse((not dots or last.startswith("."), f"'{safe(text)}' is no range A..B.", _EXAMPLE))
    found = []
    for name in (first, last):
        commit = repository.commit(name or "HEAD")
        refuse((not commit, f"There is no commit '{safe(name)}' here.", "List them: git log --oneline --first-parent"))
        found.append(commit)
    return found[0], found[1]


def first_parents(repository: Repository, first: str, last: str) -> tuple[str, ...]:
    """Return the commits from the first to the last one, along first parents, both included.

    Raises:
        UserError: the last one does not descend from the first one that way.
    """
    lines = repository.git("rev-list", "--first-parent", "--reverse", "--parents", f"{first}..{last}").splitlines()
    parent = lines[0].split()[1] if lines and " " in lines[0] else ""
    if parent != first:
        backwards = not lines and first != last
        hint = f"Turn it around: swapstone bisect {last[:12]}..{first[:12]}" if backwards else ""
        other = f"The first parents of {last[:12]} reach {parent[:12]}: swapstone bisect {parent[:12]}..{last[:12]}"
        refuse((first == last, f"Both ends are {first[:12]}.", _EXAMPLE))
        raise UserError(
            f"{first[:12]} is not among the first parents of {last[:12]}.",
            hint or (other if parent else "The history is not whole here: git fetch --unshallow"),
        )
    return first, *(line.split()[0] for line in lines)


def changing(repository: Repository, first: str, last: str, patterns: tuple[str, ...]) -> frozenset[str]:
    """Return the commits after the first one whose files that match patterns of git differ from those of their first parent."""
    paths = patterns or (".",)
    return frozenset(repository.git("rev-list", "--first-parent", f"{first}..{last}", "--", *paths).split())


def subject_of(repository: Repository, commit: str) -> str:
    """Return the start of a commit's message as one safe line."""
    text = repository.git("rev-list", "--max-count=1", "--format=%s", commit)
    return safe_excerpt(text.partition("\n")[2].rstrip("\n"), 72)


def merged_branch(repository: Repository, commit: str) -> tuple[str, str] | None:
    """Return the ends of the branch that a commit merges: the merge base, and the second parent. None if it merges no or several."""
    parents = repository.git("rev-list", "--max-count=1", "--parents", commit).split()[1:]
    if len(parents) != 2 or not (base := repository.found("merge-base", *parents)):
        return None
    return base, parents[1]


def without(repository: Repository, commit: str, last: str, patterns: tuple[str, ...] = ()) -> str:
    """Return the tree of the last commit with another one reverted, in the files that match patterns of git.

    It is empty where that conflicts. No file of the working tree changes.
    """
    with TemporaryFolder("revert") as folder:
        patch, index = Path(folder) / "patch", {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        options = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        repository.git("diff", *options, f"--output={patch}", commit, f"{commit}^1", "--", *patterns)
        repository.git("read-tree", last, environment=index)
        try:
            repository.git("apply", "--cached", "--3way", "--whitespace=nowarn", str(patch), environment=index)
        except UserError:
            return ""
        return repository.git("write-tree", environment=index).strip()
