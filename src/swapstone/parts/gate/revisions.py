# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two revisions that a gate compares, and their files, as git has them. No commit is ever taken in the place of another one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from swapstone.core.model import UserError
from swapstone.core.model.regular_file import read_regular_file, readable
from swapstone.parts.build.artifacts.build_command import run_tool

_MERGE_REF = re.compile(r"refs/pull/\d+/merge")
_UPSTREAM = ("refs/remotes/origin/HEAD", "origin/main", "origin/master", "main", "master")
_MOST_EVENT_BYTES = 32 << 20
_DEPTH = (
    "In continuous integration, fetch the parent too: fetch-depth: 2 of actions/checkout, or 0 for the whole history."
)
_REFUSED_EVENTS = ("pull_request_target", "workflow_run", "issue_comment")
_HARMLESS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""No command of git runs a hook of the repository."""
SHORT = 12
"""Digits of a commit in texts."""
FILE_TIME = 315532800
"""Modification time of each exported file: SOURCE_DATE_EPOCH of builds."""


class Base(NamedTuple):
    """The commit that a change is compared with, and why it is this one."""

    commit: str
    why: str


class _MergeGroup(msgspec.Struct):
    base_sha: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40,64}$")]


class _Event(msgspec.Struct):
    """What a forge writes about the event of a job; the other fields are not read."""

    merge_group: _MergeGroup


class Repository:
    """A repository of git with a working tree.

    Args:
        folder: any folder in the working tree.

    Attributes:
        top: of the working tree.

    Raises:
        UserError: it is none.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder
        self.top = Path(self.git("rev-parse", "--show-toplevel").rstrip("\n"))
        self.git_folder = Path(self.git("rev-parse", "--absolute-git-dir").rstrip("\n"))

    def git(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """Return what git prints.

        Raises:
            UserError: it fails.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return run_tool(
            ("git", "-C", str(self.top), *_HARMLESS, *arguments),
            f"`git {arguments[0]}` in {self.top}",
            environment={**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(environment or {})},
        )

    def found(self, *arguments: str) -> str:
        """Return the line that git prints; empty if it fails."""
        try:
            return self.git(*arguments).strip()
        except UserError:
            return ""

    def commit(self, revision: str) -> str:
        """Return the hash of a commit; empty if there is none of this name here."""
        return self.found("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def head(self) -> tuple[str, int]:
        """Return the commit of the change, and how many files of it are not committed: a commit of its own has them, if there are any.

        Files that git does not track are not in it.
        """
        changed = self.git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all").splitlines()
        identity = {f"GIT_{who}_{what}": "gate" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        made = self.git("stash", "create", environment=identity).strip() if changed else ""
        return made or self.commit("HEAD"), len(changed)

    def base(self, given: str, environment: Mapping[str, str]) -> Base:
        """Return the base of a change.

        It is the given revision; else, as the forge's variables tell, the base of a merge queue's group, or the first parent of the merge
        commit that the forge made; else the merge base of HEAD and the default branch.

        Args:
            given: of ``--base``; empty for none.
            environment: of the process.

        Raises:
            UserError: the base is not known, or its commit is not here.
        """
        event, path = environment.get("GITHUB_EVENT_NAME", ""), environment.get("GITHUB_EVENT_PATH", "")
        if event in _REFUSED_EVENTS:
            raise UserError(
                f"The event {event} has a token that can write, and the gate runs code of the change.",
                "Run the gate on pull_request, and comment in another workflow (`swapstone docs gate`).",
            )
        if given:
            return self._known(given, f"--base {given}")
        if event == "merge_group":
            with readable(f"The event {path}", "Name the base: --base REV"):
                content = read_regular_file(Path(path), _MOST_EVENT_BYTES)
            return self._known(decode_event(content), "the base of the merge queue's group")
        github = event == "pull_request" and _MERGE_REF.fullmatch(environment.get("GITHUB_REF", ""))
        if github or environment.get("CI_MERGE_REQUEST_EVENT_TYPE") == "merged_result":
            made = environment.get("GITHUB_SHA" if github else "CI_COMMIT_SHA", "")
            parents = self.git("rev-list", "--parents", "-1", "HEAD").split()[1:]
            if made != self.commit("HEAD") or (len(parents) < 2 and not self._shallow):
                raise UserError(
                    "HEAD is not the merge commit that the forge made: its base is not known.", "Name it: --base REV"
                )
            return self._known("HEAD^1", "the first parent of the forge's merge commit")
        if self._shallow:
            raise UserError(
                "The history is not whole here: a merge base of it may be another one.",
                f"{_DEPTH} Or name it: --base REV",
            )
        upstream = next((name for name in _UPSTREAM if self.commit(name)), "")
        commit = self.found("merge-base", "HEAD", upstream) if upstream else ""
        if not commit or (commit == self.commit("HEAD") and not self.head()[1]):
            why = f"HEAD is in {upstream} already" if commit else "no default branch is known that HEAD began from"
            raise UserError(f"The base of the change is not known: {why}.", "Name it: --base HEAD^")
        return Base(commit, f"the merge base of HEAD and {upstream.removeprefix('refs/remotes/')}")

    @property
    def _shallow(self) -> bool:
        return self.found("rev-parse", "--is-shallow-repository") == "true"

    def _known(self, revision: str, why: str) -> Base:
        if not (commit := self.commit(revision)):
            raise UserError(f"The base is {why}, and its commit is not here.", _DEPTH if self._shallow else "Fetch it.")
        return Base(commit, why)

    def content(self, commit: str, path: str) -> bytes | None:
        """Return a file of a commit; None if it has none."""
        if not self.object_of(commit, path):
            return None
        return self.git("cat-file", "blob", f"{commit}:{path}").encode(errors="surrogateescape")

    def object_of(self, commit: str, path: str) -> str:
        """Return the hash of a file or folder of a commit; empty if it has none."""
        return self.found("rev-parse", "--verify", "--quiet", f"{commit}:{path}")

    def changed(self, base: str, head: str, patterns: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the paths that differ between two commits, among those that match patterns of git."""
        options = ("--no-renames", "--name-only", "--no-ext-diff", "-z", "--ignore-submodules=none")
        return tuple(filter(None, self.git("diff", *options, base, head, "--", *patterns).split("\0")))

    def matches(self, commit: str, patterns: tuple[str, ...]) -> bool:
        """Return whether a commit has a file that matches one of these patterns of git."""
        empty = self.git("hash-object", "-t", "tree", "/dev/null").strip()
        return bool(self.changed(empty, commit, patterns))

    def export(self, commit: str, folder: Path) -> None:
        """Write the files of a commit with those of its submodules into a new folder, without history, all of one time.

        Raises:
            UserError: a submodule is not here.
        """
        folder.mkdir(parents=True)
        self._export(commit, folder)
        for path in folder.rglob("*"):
            os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)

    def _export(self, commit: str, folder: Path) -> None:
        index = {"GIT_INDEX_FILE": str(folder.parent / f"{folder.name}.index")}
        self.git("read-tree", commit, environment=index)
        self.git("checkout-index", "--all", "--force", "--quiet", f"--prefix={folder}/", environment=index)
        Path(index["GIT_INDEX_FILE"]).unlink()
        for path, its_commit in self._submodules(commit):
            own = self.top / path
            if not (own / ".git").exists() or not (module := Repository(own)).commit(its_commit):
                raise UserError(
                    f"The submodule {path} is not here with the commit {its_commit[:SHORT]}.",
                    "Fetch it: git submodule update --init --recursive (submodules: recursive of actions/checkout)",
                )
            shutil.rmtree(folder / path, ignore_errors=True)
            (folder / path).mkdir(parents=True)
            module._export(its_commit, folder / path)

    def _submodules(self, commit: str) -> Iterator[tuple[str, str]]:
        for line in self.git("ls-tree", "-r", "-z", commit).split("\0"):
            facts, _, path = line.partition("\t")
            if facts.startswith("160000 "):
                yield path, facts.split()[2]


def decode_event(content: bytes) -> str:
    """Return the base of a merge queue's group, from what a forge writes about the event of a job.

    Raises:
        UserError: it has none.
    """
    try:
        return msgspec.json.decode(content, type=_Event).merge_group.base_sha
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"The forge's event can't be read: {error}.", "Name the base: --base REV") from error
