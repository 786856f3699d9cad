# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/release: what it builds is equal each time, is checked, and runs without a compiler; what is missing is one list."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from tools import release

from swapstone.version import __version__
from tests.e2e.cli import TOP
from tests.e2e.installed_wheel import installed
from tests.programs import needs, require

pytestmark = pytest.mark.quick

PYPROJECT = """
[project]
license-files = []
{urls}
{maintainers}
"""


def _repository(folder: Path, **given: str) -> Path:
    texts = {"urls": "", "maintainers": "", "heading": "## [1.2.3] - not released yet"} | given
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(**texts))
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{texts['heading']}\n\n## [1.2.2] - 2026-01-01\n")
    _commit(folder)
    return folder


def _git(folder: Path, *words: str) -> None:
    names = ("user.name=A", "user.email=a@example.org", "commit.gpgsign=false", "tag.gpgsign=false")
    options = [word for name in names for word in ("-c", name)]
    subprocess.run(["git", "-C", str(folder), *options, *words], check=True, capture_output=True)


def _commit(folder: Path) -> None:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "x")


def _sign(folder: Path, key: Path) -> None:
    _git(folder, "-c", "gpg.format=ssh", "-c", f"user.signingkey={key}", "tag", "-f", "-s", "-m", "x", "v1.2.3")


@needs("ssh-keygen")
def test_all_that_is_missing_is_one_list(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    top = _repository(tmp_path / "bare")
    (top / "left").write_text("")
    words = ("clean tree", "1.2.3] - YYYY-MM-DD", "git tag -s v1.2.3", "Repository", "maintainer")
    found = release.missing(top, "1.2.3")
    assert [word in line for word, line in zip(words, found, strict=True)] == [True] * len(words)
    whole = _repository(
        tmp_path / "whole",
        urls='urls = { Repository = "https://example.org/r", Issues = "https://example.org/i" }',
        maintainers='maintainers = [{ name = "A", email = "a@example.org" }]',
        heading="## [1.2.3] - 2026-12-01",
    )
    _git(whole, "tag", "v1.2.3")
    assert [line.partition(":")[0] for line in release.missing(whole, "1.2.3")] == ["a signed tag of this commit"]
    _sign(whole, key)
    assert release.missing(whole, "1.2.3") == []
    _commit(whole)  # the tag is not of this commit
    assert [line.partition(":")[0] for line in release.missing(whole, "1.2.3")] == ["a signed tag of this commit"]


def test_with_something_missing_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "TOP", _repository(tmp_path / "top"))
    assert release.main([str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert all(line.startswith("missing: ") for line in captured.err.splitlines()) and not captured.out
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of this commit by the end of their names."""
    require("cc", "aarch64-linux-gnu-gcc")
    if not (TOP / ".git").exists():
        pytest.skip("not a git checkout")
    made = release.build(TOP, tmp_path_factory.mktemp("release") / "files")
    return {path.name.removeprefix(f"swapstone-{__version__}"): path for path in made}


def _wheel(files: dict[str, Path], machine: str) -> Path:
    return files[f"-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl"]


@pytest.mark.slow
def test_equal_commits_give_equal_bytes(files: dict[str, Path], tmp_path: Path) -> None:
    assert set(files) == {".tar.gz", *(_wheel(files, machine).name[15:] for machine in release.MACHINES)}
    again = release.build(TOP, tmp_path / "again")
    assert {path.name: path.read_bytes() for path in again} == {path.name: path.read_bytes() for path in files.values()}


@pytest.mark.slow
@pytest.mark.parametrize("machine", sorted(release.MACHINES))
def test_a_wheel_is_checked(files: dict[str, Path], tmp_path: Path, machine: str) -> None:
    wheel = _wheel(files, machine)
    (other,) = set(release.MACHINES) - {machine}
    assert release.faults(wheel, TOP) == []
    with zipfile.ZipFile(wheel) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}
    with zipfile.ZipFile(_wheel(files, other)) as opened:
        foreign = {name.replace(other, machine): opened.read(name) for name in opened.namelist()}
    agent = f"swapstone/share/agents/{machine}/swapstone-agent"
    notice = next(name for name in contents if name.endswith("licenses/NOTICE"))
    changes = {
        "the licence files are in it": {notice: b""},
        "the agent has its digest": {agent: contents[agent] + b"\0"},
        f"the agent is a static program of {machine}": {name: foreign[name] for name in (agent, f"{agent}.sha256")},
        "no path of this machine is in it": {"swapstone/version.py": f"# {TOP}/src".encode()},
    }
    for expected, change in changes.items():
        broken = tmp_path / wheel.name
        with zipfile.ZipFile(broken, "w") as written:
            for name, content in (contents | change).items():
                written.writestr(name, content)
        assert release.faults(broken, TOP) == [expected]
    renamed = tmp_path / wheel.name.replace(__version__, "9.9")
    renamed.write_bytes(wheel.read_bytes())
    assert release.faults(renamed, TOP)[0] == f"the version is {__version__}"


@pytest.mark.slow
def test_two_programs_are_compared_without_a_compiler(files: dict[str, Path], tmp_path: Path) -> None:
    home, packages, clean = installed(_wheel(files, "x86_64"), tmp_path / "venv")
    for name in ("a", "b"):
        (tmp_path / name).write_text("#!/bin/sh\necho 1\n")
        (tmp_path / name).chmod(0o755)
    clean |= {"PATH": "/nowhere", "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*words: str) -> str:
        command = [str(home / "bin" / "swapstone"), *words]
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout

    assert "a against b" in run("compare", "./b", "./a", "--blocks", "3")
    assert "x86_64, SHA-256" in (
        manifest := "".join(path.read_text() for path in tmp_path.glob("records/*/manifest.json"))
    )
    assert "of the wheel" in manifest
    # An agent that is not the one of the wheel is not started.
    (Path(packages) / "swapstone/share/agents/x86_64/swapstone-agent").write_bytes(b"#!/bin/true\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("compare", "./b", "./a", "--blocks", "3")
    assert "There is no C compiler named 'cc' to build the agent with." in caught.value.stderr
