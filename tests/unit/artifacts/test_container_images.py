# SPDX-License-Identifier: MIT OR Apache-2.0
"""Container images by their names: which names are accepted, and what docker, podman and skopeo are called with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from tools.container_engines import engine, offer
from tools.root_archives import docker_image, oci_image, sha256, tar

from swapstone.core.factors import find_level, parse_choice
from swapstone.core.model import FactorLevels, UnavailableError, UserError
from swapstone.core.session.progress import as_progress
from swapstone.parts.vm.artifacts.container_images import pinned_image
from swapstone.parts.vm.artifacts.root_file_systems import unpack_root
from swapstone.parts.vm.factors.container_image import parse_image
from swapstone.parts.vm.factors.rootfs import ROOTFS
from swapstone.parts.vm.session.vm_rules import pinned
from tests.unit.builders import experiment

ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
NAME = "docker.io/library/alpine:3.20"
LEVEL = f"docker:{NAME}@{ONE}"
LAYER = tar(("bin/sh", "file", "program"))
ENGINES = ("docker", "podman", "skopeo")


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for a registry; PATH has no programs but those that a test adds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pinned_image.cache_clear()
    for name in ("bin", "registry"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/gzip").symlink_to("/bin/gzip")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "registry"


def calls(registry: Path) -> list[str]:
    path = registry / "calls"
    return path.read_text().splitlines() if path.exists() else []


def install(registry: Path, *names: str) -> None:
    for name in names:
        engine(registry.parent / "bin", registry, name)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("docker:alpine:3.20", f"docker:{NAME}"),
        ("docker:alpine", "docker:docker.io/library/alpine:latest"),
        ("docker:bitnami/redis:7", "docker:docker.io/bitnami/redis:7"),
        ("docker:localhost/mine:dev", "docker:localhost/mine:dev"),
        ("docker:registry.example:5000/a/b_c__d-e.f:V1.2-x", "docker:registry.example:5000/a/b_c__d-e.f:V1.2-x"),
        (f"docker:alpine@{ONE}", f"docker:docker.io/library/alpine@{ONE}"),
        (LEVEL, LEVEL),
    ],
)
def test_a_name_is_completed_as_docker_does(text: str, level: str) -> None:
    assert find_level(ROOTFS, text).name == level
    assert find_level(ROOTFS, level).name == level


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "-v",
            "--help",
            "-",
            "Alpine",
            "alpine:",
            "alpine:-x",
            "alpine:a b",
            "a//b",
            "/a",
            "a/",
            "a/-b",
            "a..b",
            "host:port/a",
        ),
        *(
            "alpine;id",
            "$(id)",
            "a\nb",
            "a\tb",
            "alpine@sha256:1",
            f"alpine@sha512:{'1' * 64}",
            f"alpine@{ONE.upper()}",
            "ä",
            "a" * 401,
        ),
        *(
            "../etc",
            "alpine:3.20:4",
            "-host.example/a",
            "host-.example/a",
            "docker://alpine",
            "a@b",
            "alpine:3\u0663",
        ),
    ],
)
def test_other_names_are_refused_before_any_program_runs(registry: Path, name: str) -> None:
    install(registry, *ENGINES)
    with pytest.raises(UserError, match="is no name of a container image") as caught:
        find_level(ROOTFS, f"docker:{name}")
    assert "rootfs=docker:alpine:3.20" in caught.value.hint
    assert caught.value.message.isprintable()
    assert calls(registry) == []


@pytest.mark.parametrize("tool", ENGINES)
def test_an_image_is_pinned_and_saved_by_each_program(registry: Path, tool: str) -> None:
    install(registry, tool)
    offer(registry, NAME, oci_image([LAYER]) if tool == "skopeo" else docker_image([LAYER]), digest=ONE)
    lines: list[str] = []
    as_progress(lines.append)
    level = pinned_image(f"docker:{NAME}", "x86_64")
    assert level == LEVEL
    root = unpack_root(level, "x86_64")
    unpack_root(level, "x86_64")  # from the cache
    of_image = f"the image alpine:3.20 with {tool}"
    fetched = [f"fetching {of_image}"] if tool == "skopeo" else [f"pulling {of_image}"] * 2 + [f"saving {of_image}"]
    assert lines == [*fetched, "unpacking docker:alpine:3.20"]
    assert (Path(root.folder) / "bin/sh").read_text() == "program"
    assert root.source == "docker:alpine:3.20"
    by_digest = f"docker.io/library/alpine@{ONE}"
    archive = next(each.split()[-2 if tool != "skopeo" else -1] for each in calls(registry) if ".tar" in each)
    override = "skopeo --override-os linux --override-arch amd64"
    assert calls(registry) == {
        "skopeo": [
            f"{override} inspect docker://{NAME}",
            f"{override} inspect docker://{by_digest}",
            f"{override} copy docker://{by_digest} {archive}",
        ]
    }.get(
        tool,
        [
            f"{tool} image inspect {NAME}",
            f"{tool} pull --quiet --platform linux/amd64 {NAME}",
            f"{tool} image inspect {NAME}",
            f"{tool} image inspect {by_digest}",
            f"{tool} image inspect {ONE}",
            f"{tool} pull --quiet --platform linux/amd64 {by_digest}",
            f"{tool} image inspect {by_digest}",
            f"{tool} save --output {archive} {by_digest}",
        ],
    )


def test_a_root_in_the_cache_needs_no_program(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(registry, "docker")
    offer(registry, NAME, docker_image([LAYER]), digest=ONE, local="yes")
    first = unpack_root(LEVEL, "x86_64")
    shutil.copytree(registry.parent / "cache", registry.parent / "copy")  # else it is found in this process
    monkeypatch.setenv("XDG_CACHE_HOME", str(registry.parent / "copy"))
    monkeypatch.setenv("PATH", "/nonexistent")
    again = unpack_root(LEVEL, "x86_64")
    assert (again.sha256, again.source) == (first.sha256, first.source)
    assert again.folder.startswith(str(registry.parent / "copy"))
    with pytest.raises(UnavailableError, match="needs docker, podman or skopeo"):
        unpack_root(LEVEL, "aarch64")  # another image


def test_an_image_that_was_built_here_is_pinned_by_its_identifier(registry: Path) -> None:
    install(registry, "docker")
    offer(registry, "localhost/mine:dev", docker_image([LAYER]), digest=TWO, local="only", repo_digests=())
    level = pinned_image("docker:localhost/mine:dev", "x86_64")
    assert level == f"docker:localhost/mine:dev@{TWO}"
    (registry / f"localhost+mine@{TWO}.json").unlink()  # in no registry
    assert (Path(unpack_root(level, "x86_64").folder) / "bin/sh").is_file()
    assert not any(" pull " in each for each in calls(registry))


def test_an_experiment_has_the_digests(registry: Path) -> None:
    install(registry, "docker")
    offer(registry, NAME, b"", digest=ONE, local="yes")
    offer(registry, "docker.io/library/debian:12", b"", digest=TWO, local="yes")
    choice = parse_choice("rootfs=docker:alpine:3.20,docker:debian:12")
    machine = {"x86_64": "x86_64"}.get(os.uname().machine)
    if machine is None:
        pytest.skip("the images of this test are for amd64")
    found = pinned(msgspec.structs.replace(experiment(), factors=(choice,)))
    assert found.factors == (
        FactorLevels(factor="rootfs", levels=(LEVEL, f"docker:docker.io/library/debian:12@{TWO}")),
    )
    assert pinned(found) == found
    held = msgspec.structs.replace(experiment(), held=(("rootfs", f"docker:{NAME}"),))
    assert pinned(held).held == (("rootfs", LEVEL),)


def test_without_a_program_the_commands_that_make_an_archive_are_printed() -> None:
    with pytest.raises(UnavailableError, match=r"The image alpine:3\.20 needs docker, podman or skopeo") as caught:
        pinned_image("docker:alpine:3.20", "x86_64")
    assert caught.value.hint == (
        "Make an archive where the image can be had: docker pull alpine:3.20 && docker save -o alpine-3.20.tar alpine:3.20\n"
        "Then name the archive: rootfs=./alpine-3.20.tar"
    )


@pytest.mark.parametrize("tools", [("docker",), ("skopeo",), ENGINES])
def test_a_registry_that_cannot_be_reached_is_named_with_the_next_step(registry: Path, tools: tuple[str, ...]) -> None:
    install(registry, *tools)
    with pytest.raises(UserError, match=r"The image alpine:3\.20 can't be had: ") as caught:
        pinned_image("docker:alpine:3.20", "x86_64")
    assert caught.value.message.count("no such host") == len(tools)
    assert all(f"{tool} reports: " in caught.value.message for tool in tools)
    assert "\n" not in caught.value.message
    assert "docker save -o alpine-3.20.tar alpine:3.20" in caught.value.hint


def test_the_next_program_is_tried_if_the_first_has_no_daemon(registry: Path) -> None:
    install(registry, "docker", "skopeo")
    (registry.parent / "bin/docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    offer(registry, NAME, oci_image([LAYER]), digest=ONE)
    assert pinned_image(f"docker:{NAME}", "x86_64") == LEVEL
    assert (Path(unpack_root(LEVEL, "x86_64").folder) / "bin/sh").is_file()


@pytest.mark.parametrize("tool", ENGINES)
def test_an_image_of_another_architecture_is_refused(registry: Path, tool: str) -> None:
    install(registry, tool)
    offer(registry, NAME, b"", digest=ONE, architecture="arm64", local="yes")
    with pytest.raises(UserError, match=f"{tool} has it for arm64, and the machine is amd64"):
        pinned_image(f"docker:{NAME}", "x86_64")
    assert pinned_image(f"docker:{NAME}", "aarch64") == LEVEL


@pytest.mark.parametrize("tool", ENGINES)
def test_another_digest_than_the_pinned_one_is_refused(registry: Path, tool: str) -> None:
    install(registry, tool)
    offer(registry, NAME, oci_image([LAYER]), digest=ONE, local="yes")
    asked = registry / f"docker.io+library+alpine@{TWO}.json"
    asked.write_bytes((registry / f"docker.io+library+alpine@{ONE}.json").read_bytes())
    with pytest.raises(UserError, match=f"{tool} has it with the digest {ONE}, not {TWO}"):
        unpack_root(f"docker:{NAME}@{TWO}", "x86_64")


@pytest.mark.parametrize("tool", ENGINES)
def test_a_damaged_archive_is_refused(registry: Path, tool: str) -> None:
    install(registry, tool)
    other = f"sha256:{sha256(b'other')}"
    offer(registry, NAME, oci_image([LAYER], config={"rootfs": {"diff_ids": [other]}}), digest=ONE, local="yes")
    with pytest.raises(UserError, match=r"docker:alpine:3\.20 is damaged: the layer"):
        unpack_root(LEVEL, "x86_64")


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "null",
        "[]",
        "[1]",
        '[{"Id": 1}]',
        '{"Digest": 1}',
        '{"Digest": "x"}',
        '[{"Id": "--x", "Architecture": "amd64"}]',
    ],
)
@pytest.mark.parametrize("tool", ENGINES)
def test_what_a_program_prints_is_read_strictly(registry: Path, tool: str, printed: str) -> None:
    program = registry.parent / "bin" / tool
    program.write_text(f"#!/bin/sh\nprintf '%s' '{printed}'\nprintf '\\033[31m' >&2\n")
    program.chmod(0o755)
    with pytest.raises(UserError) as caught:
        pinned_image(f"docker:{NAME}", "x86_64")
    assert caught.value.message.isprintable()


def test_what_a_program_reports_is_made_harmless(registry: Path) -> None:
    program = registry.parent / "bin/skopeo"
    program.write_text("#!/bin/sh\nprintf 'first\\n\\033]0;title\\007 x' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match=r"skopeo reports: \\x1b\]0;title\\x07 x\.") as caught:
        pinned_image(f"docker:{NAME}", "x86_64")
    assert caught.value.message.isprintable()


def test_a_program_that_cannot_be_started_is_named(registry: Path) -> None:
    program = registry.parent / "bin/docker"
    program.write_text("#!/nonexistent/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="docker can't be started: No such file or directory"):
        pinned_image(f"docker:{NAME}", "x86_64")


def test_titles_are_as_a_user_types_them() -> None:
    assert parse_image(LEVEL).title == "alpine:3.20"
    assert parse_image(f"docker:ghcr.io/a/b:1@{ONE}").title == "ghcr.io/a/b:1"
