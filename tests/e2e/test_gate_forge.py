# SPDX-License-Identifier: MIT OR Apache-2.0
"""The steps of the gate's action and of the workflow that comments, as a forge runs them."""

from __future__ import annotations

import http.server
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cli import environment
from tests.programs import require
from tests.unit.gate.repositories import SmallRepository

PART = Path(__file__).parents[2] / "src/swapstone/parts/gate"


class Job:
    """A job of a pull request: a shallow clone of the merge commit that the forge made, and no secret."""

    def __init__(self, small: SmallRepository, folder: Path) -> None:
        require("bash", "git", "make", "cc")
        self.small, self.folder, self.clone = small, folder, folder / "clone"
        tools = folder / "tools"
        tools.mkdir()
        (tools / "swapstone").write_text(f'#!/bin/sh\nexec {sys.executable} -m swapstone "$@"\n')
        (tools / "swapstone").chmod(0o755)
        self.variables = {
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "RUNNER_TEMP": str(folder / "temp"),
            "XDG_STATE_HOME": str(folder / "state"),
            "ARGUMENTS": "",
            "PATH": f"{tools}:{os.environ['PATH']}",
        }

    def merge(self) -> str:
        """Merge the branch into a main that went on, as the forge does, and return the commit."""
        self.small.git("checkout", "-q", "main")
        self.small.git("submodule", "update", "-q", "--init")
        self.small.commit(news=f"{len(list(self.small.folder.iterdir()))}")
        self.small.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
        return self.small.git("rev-parse", "main")

    def run(self, expect: int, **variables: str) -> tuple[str, dict[str, Any]]:
        """Clone, run the action's step, and return what it printed and the JSON of its artifact."""
        made = self.merge() if not self.clone.exists() else ""
        if made:
            self.small.git("clone", "-q", "--depth", "2", f"file://{self.small.folder}", str(self.clone))
        self.variables.setdefault("GITHUB_SHA", made)
        steps = yaml.safe_load((PART / "action.yml").read_text())["runs"]["steps"]
        (script,) = [step["run"] for step in steps if "run" in step]
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self.clone,
            env=environment(self.folder, **{**self.variables, **variables}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        assert done.stderr == "", "all of it is between the words that stop commands"
        answer = self.folder / "temp/swapstone-gate/gate.json"
        return done.stdout, json.loads(answer.read_text()) if answer.exists() else {}


@pytest.fixture
def small(tmp_path: Path) -> SmallRepository:
    require("git")
    return SmallRepository(tmp_path / "small")


@pytest.fixture
def job(small: SmallRepository, tmp_path: Path) -> Job:
    return Job(small, tmp_path)


def test_a_pull_request_of_a_fork(job: Job) -> None:
    """No step uses a secret, and what stands in the change is no command of the workflow."""
    job.small.edit("Makefile", "\tcc", "\t@echo '::error::of a stranger' >&2; exit 1; cc")
    assert (
        "secrets" not in (PART / "action.yml").read_text()
        and "token" not in (PART / "action.yml").read_text().split("runs:")[1]
    )
    printed, found = job.run(3)
    assert found["status"] == 3 and "does not build" in found["answer"]
    lines = printed.splitlines()
    words = [line.removeprefix("::stop-commands::") for line in lines if line.startswith("::stop-commands::")]
    assert len(words) == 1 and len(words[0]) == 32
    between = lines.index(f"::{words[0]}::")
    commands = [line for line in lines[between + 1 :] if line.startswith("::")]
    assert len(commands) == 1 and commands[0].startswith("::error title=swapstone gate::The head is worse: ")
    assert "of a stranger" in (job.folder / "summary.md").read_text()
    again, _ = job.run(3)
    assert words[0] not in again, "the word can't be known before"


def test_a_pull_request_that_changes_nothing(job: Job) -> None:
    job.small.commit(README="other")
    printed, found = job.run(0)
    assert found["base"] == job.small.git("rev-parse", "main^1")
    assert "::notice title=swapstone gate::Nothing is measured" in printed
    assert "**Nothing is measured, because nothing can differ" in (job.folder / "summary.md").read_text()
    files = {path.name for path in (job.folder / "temp/swapstone-gate").iterdir()}
    assert files == {"gate.txt", "gate.md", "gate.json", "junit.xml", "annotations"}


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run"])
def test_an_event_whose_token_can_write(job: Job, event: str) -> None:
    job.small.commit(README="other")
    printed, found = job.run(2, GITHUB_EVENT_NAME=event)
    assert "a token that can write" in printed and not found and not (job.folder / "summary.md").exists()


def test_a_push_that_replaced_the_commit(job: Job) -> None:
    """The answer of an earlier run of the job is no answer of this one."""
    job.small.commit(README="other")
    job.run(0)
    printed, found = job.run(2, GITHUB_SHA="1" * 40)
    assert "not the merge commit that the forge made" in printed and not found


def test_submodules_of_a_shallow_clone(job: Job, tmp_path: Path) -> None:
    """The submodule is built with both sides, and a change of it is a change."""
    other = SmallRepository(tmp_path / "other")
    other.edit("work.c", "unsigned work(", "unsigned help(")
    job.small.git("checkout", "-q", "main")
    job.small.git("submodule", "add", "-q", str(other.folder), "sub")
    job.small.edit("Makefile", " -g -o prog main.c work.c", " -o prog main.c work.c sub/work.c")
    job.small.edit("swapstone.toml", '["*.c"', '["sub", "*.c"')
    job.small.git("checkout", "-q", "-B", "topic")
    other.edit("work.c", "unsigned help", "/* a comment */ unsigned help")
    job.small.git("-C", "sub", "pull", "-q", "origin", "topic")
    job.small.commit("newer submodule")
    printed, _ = job.run(2)
    assert "The submodule sub is not here" in printed and "submodules: recursive" in printed
    job.small.git("-C", str(job.clone), "submodule", "update", "-q", "--init", "--recursive")
    _, found = job.run(0)
    assert "the programs are equal to the byte" in found["answer"]


def test_a_dirty_tree(job: Job) -> None:
    """A step before the gate that changes tracked files changes the head, and the answer states it."""
    job.small.edit("Makefile", " -g", "")
    job.small.git("branch", "-q", "-f", "main")
    job.small.commit(README="other")
    assert "no file that decides what is built differs" in job.run(0)[1]["answer"]
    (job.clone / "work.c").write_text("int broken\n")
    _, found = job.run(3)
    assert "does not build" in found["answer"]
    assert any("1 uncommitted files are in the head" in note for note in found["notes"])


COMMENT = yaml.safe_load((PART / "comment.yml").read_text())


class Forge:
    """The part of GitHub's API that the workflow uses, for a pull request number 7 of a fork."""

    def __init__(self, text: str, rows: list[dict[str, str]], status: int = 0) -> None:
        self.files = {"gate.txt": text.encode(), "gate.json": json.dumps({"status": status, "rows": rows}).encode()}
        self.head = "a" * 40
        self.comments = [{"id": 1, "user": {"login": "reviewer"}, "body": "<!-- swapstone gate --> not ours"}]
        self.written: list[tuple[str, str, str]] = []
        self.tokens: set[str | None] = set()

    def answer(self, method: str, path: str, body: bytes) -> object:
        if method != "GET":
            self.written.append((method, path, json.loads(body)["body"]))
            return {}
        if path.startswith("/repos/o/r/pulls?state=open&head=fork%3Atopic"):
            return [{"number": 7, "head": {"sha": self.head}}, {"number": 8, "head": {"sha": "b" * 40}}]
        if path.startswith("/repos/o/r/actions/runs/5/artifacts"):
            return {"artifacts": [{"id": 9, "name": "swapstone-gate"}]}
        assert path.startswith("/repos/o/r/issues/7/comments"), path
        return self.comments

    def packed(self) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as files:
            for name, content in self.files.items():
                files.writestr(name, content)
        return packed.getvalue()

    def run(self, folder: Path, expect: int = 0) -> str:
        """Run the step that comments, and return what it printed."""
        forge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path == "/elsewhere":
                    assert self.headers["Authorization"] is None, "the token is not sent to another place"
                    content = forge.packed()
                else:
                    forge.tokens.add(self.headers["Authorization"])
                    moved = self.path == "/repos/o/r/actions/artifacts/9/zip"
                    content = b"" if moved else json.dumps(forge.answer(self.command, self.path, body)).encode()
                    if moved:
                        self.send_response(302)
                        self.send_header("Location", "/elsewhere")
                        self.end_headers()
                        return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = _any  # noqa: N815 - names of the library

            def log_message(self, *_: object) -> None:
                pass

        event = folder / "event.json"
        run = {"id": 5, "head_sha": "a" * 40, "head_branch": "topic", "head_repository": {"owner": {"login": "fork"}}}
        event.write_text(json.dumps({"workflow_run": {**run, "pull_requests": []}}))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            (step,) = COMMENT["jobs"]["comment"]["steps"]
            assert step["shell"] == "python"
            done = subprocess.run(
                [sys.executable, "-c", step["run"]],
                env={
                    "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
                    "GITHUB_REPOSITORY": "o/r",
                    "GITHUB_EVENT_PATH": str(event),
                    "GITHUB_TOKEN": "word",
                },
                capture_output=True,
                text=True,
                check=False,
            )
            server.shutdown()
        assert done.returncode == expect, done.stderr
        return done.stdout + done.stderr


WORSE = [{"state": "same"}, {"state": "worse"}]


def test_the_first_comment_and_its_edit(tmp_path: Path) -> None:
    forge = Forge("The head is worse.", WORSE, 3)
    forge.run(tmp_path)
    body = "<!-- swapstone gate -->\n~~~text\nThe head is worse.\n~~~\n"
    assert forge.written == [("POST", "/repos/o/r/issues/7/comments", body)]
    assert forge.tokens == {"Bearer word"}
    forge.comments.append({"id": 2, "user": {"login": "github-actions[bot]"}, "body": body})
    forge.files["gate.txt"] = b"The head passes."
    forge.files["gate.json"] = b'{"status": 0, "rows": []}'
    forge.run(tmp_path)
    assert forge.written[1][:2] == ("PATCH", "/repos/o/r/issues/comments/2") and "passes" in forge.written[1][2]


def test_no_comment_where_nothing_changed(tmp_path: Path) -> None:
    forge = Forge("Nothing is measured.", [{"state": "same"}])
    assert "nothing changed" in forge.run(tmp_path) and not forge.written
    forge.files["gate.json"] = b'{"status": 4, "rows": []}'
    forge.run(tmp_path)
    assert len(forge.written) == 1


def test_a_strangers_artifact_is_shown_as_plain_characters(tmp_path: Path) -> None:
    hostile = "~~~\n@everyone <img src=x> [a](https://example.org) \x1b[2J\u202e `~~~~`\n" + "x" * 100_000
    forge = Forge(hostile, WORSE, 3)
    forge.run(tmp_path)
    body = forge.written[0][2]
    assert body.startswith("<!-- swapstone gate -->\n~~~text\n") and body.endswith("\n~~~\n") and len(body) < 65_000
    inside = body.split("~~~text\n")[1].removesuffix("\n~~~\n")
    assert "~" not in inside and set(inside) <= {chr(code) for code in range(32, 126)} | {"\n"}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no answer"),
        ({"gate.txt": b"x", "gate.json": b"["}, "no answer"),
        ({"gate.txt": b"x", "gate.json": b'{"status": 0, "rows": 3}'}, "no answer"),
        ({"gate.txt": b"x", "gate.json": b"[" * 100_000}, "no answer"),
        ({"gate.txt": b"x", "gate.json": b" " * (8 << 20) + b'{"status": 3, "rows": []}'}, "no answer"),
    ],
)
def test_an_artifact_without_an_answer(tmp_path: Path, files: dict[str, bytes], why: str) -> None:
    forge = Forge("", [])
    forge.files = files
    assert why in forge.run(tmp_path) and not forge.written


def test_an_artifact_that_is_too_large(tmp_path: Path) -> None:
    forge = Forge("", [])
    forge.files = {"gate.txt": os.urandom(2 << 20)}
    assert "is larger than" in forge.run(tmp_path, expect=1) and not forge.written


def test_the_commit_of_an_earlier_push_gets_no_comment(tmp_path: Path) -> None:
    forge = Forge("The head is worse.", WORSE, 3)
    forge.head = "c" * 40
    assert "0 open pull requests have this commit" in forge.run(tmp_path) and not forge.written


def test_the_workflow_that_comments_builds_nothing_and_may_only_comment() -> None:
    assert COMMENT["permissions"] == {"actions": "read", "pull-requests": "write"}
    steps = COMMENT["jobs"]["comment"]["steps"]
    assert [*steps[0]] == ["name", "shell", "env", "run"] and len(steps) == 1
    assert "${{" not in steps[0]["run"], "no text of an event becomes code"
