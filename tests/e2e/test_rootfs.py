# SPDX-License-Identifier: MIT OR Apache-2.0
"""`rootfs=A,B`: a program in root file systems of the user, on this machine and in a virtual machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from tools.container_engines import engine, offer
from tools.root_archives import oci_image
from tools.small_elf import AARCH64, small_elf

from swapstone.core.record import load
from swapstone.core.session.sample_check import derive
from swapstone.parts.vm.artifacts.root_archives import IMAGE_ARCHITECTURES
from tests.e2e.cli import TIMEOUT_S, command, environment, runs_of, swapstone
from tests.programs import missing, require, with_nice_0
from tests.raw_outputs import raw_text

needs_perf = pytest.mark.skipif(os.geteuid() != 0 or bool(missing("perf")), reason="needs root and perf")

# The program prints which files it finds, and writes one.
PROGRAM = r"""
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char **argv) {
        char line[64] = "none";
        for (volatile int i = 0; i < 200000; i++);
        for (int i = 1; i < argc; i++) {
            FILE *file = fopen(argv[i], "r");
            printf("%s: %s\n", argv[i], file && fgets(line, sizeof line, file) ? line : "missing");
            if (file) fclose(file);
        }
        FILE *written = fopen("/etc/written", "wx");
        return written ? 0 : 3;
    }
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, linked statically and dynamically."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "p.c").write_text(PROGRAM)
    for name, option in (("static", "-static"), ("dynamic", "-no-pie")):
        subprocess.run(["cc", "-O1", option, "-o", folder / name, folder / "p.c"], check=True)
    return folder


def libraries_of(program: Path) -> list[str]:
    """Return the paths of the loader and the libraries of a dynamic program."""
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", text)


@pytest.fixture
def roots(tmp_path: Path, programs: Path) -> Path:
    """A folder with two roots: ``a`` with the static program as a folder, and ``b.tar`` with the dynamic one."""
    for name, program in (("a", "static"), ("b", "dynamic")):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "etc").mkdir()
        shutil.copy(programs / program, tmp_path / name / "bin/prog")
        (tmp_path / name / "etc/name").write_text("equal\n")
    for library in libraries_of(programs / "dynamic"):
        place = tmp_path / "b" / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    subprocess.run(["tar", "cf", tmp_path / "b.tar", "-C", tmp_path / "b", "."], check=True)
    (tmp_path / "data.txt").write_text("of the user\n")
    return tmp_path


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, agents: Path) -> Path:
    """The cache of these tests, so that roots of tests don't stay in the user's. The agent is in it."""
    folder = tmp_path_factory.mktemp("cache")
    shutil.copytree(agents, folder / "swapstone/agents")
    return folder


def compare(folder: Path, cache: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `swapstone compare` in a folder; skip the test where the machine has no mount namespaces."""
    result = subprocess.run(
        command("compare", *arguments),
        cwd=folder,
        env=environment(folder, XDG_CACHE_HOME=str(cache), **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if "can't run a program in another root file system" in result.stderr:
        pytest.skip(result.stderr)
    return result


def refused(folder: Path, cache: Path, *arguments: str, **variables: str) -> str:
    result = swapstone(folder, "compare", *arguments, expect=2, XDG_CACHE_HOME=str(cache), **variables)
    assert not (folder / "r").exists()
    return " ".join(result.stderr.split())


def outputs(record: Path) -> list[str]:
    """Return what the runs of a record printed."""
    return [raw_text(record, run["output"]) for run in runs_of(record)]


NATIVE = IMAGE_ARCHITECTURES[os.uname().machine]
ROOTS = ("rootfs=./a,./b.tar", "--blocks", "2", "--out", "r")


def test_a_program_is_compared_in_two_roots(roots: Path, cache: Path) -> None:
    result = compare(
        roots, cache, *ROOTS, "--", "/bin/prog", "/etc/name", "/swapstone/data.txt", "data.txt", str(roots)
    )
    assert result.returncode == 0, result.stderr
    assert "output: equal" in " ".join(result.stdout.split())
    runs = runs_of(roots / "r")
    assert {run["status"] for run in runs} == {"ok"}
    assert {tuple(run["observed"][0]) for run in runs} == {
        ("rootfs", str(roots / "a")),
        ("rootfs", str(roots / "b.tar")),
    }
    for shown in outputs(roots / "r"):
        assert "/etc/name: equal" in shown and "data.txt: of the user" in shown and f"{roots}: missing" in shown
    assert re.search(r"root size +\S+ .iB +\S+ .iB", result.stdout) and "files of the root" in result.stdout
    assert f"Levels in full: a is {roots / 'a'}; b.tar is {roots / 'b.tar'}." in " ".join(result.stdout.split())
    table = result.stdout.partition("What is measured")[0]
    assert str(roots) not in table and re.search(r"a +b\.tar +ratio", table)
    manifest = load(roots / "r").manifest
    assert manifest is not None
    assert dict(manifest.artifacts[0].sizes)["root_files"] == 4
    names = {dict(artifact.sources).popitem()[0] for artifact in manifest.artifacts}
    assert names == {f"rootfs {roots / 'a'}", f"rootfs {roots / 'b.tar'}"}
    assert not list((roots / "a/etc").glob("written"))
    check_that_roots_are_observed_again(roots / "r")


def check_that_roots_are_observed_again(record: Path) -> None:
    """The mounts that the record keeps show each run's root, by the digest of its content; exchanged digests are noticed."""
    view = load(record)
    found = derive(view)
    assert (found.whole, found.levels, found.problems) == (found.runs, (), ()) and found.runs > 0
    assert view.manifest is not None
    one, other = view.manifest.artifacts
    (first, second), (third, fourth) = one.sources[0], other.sources[0]
    exchanged = (
        msgspec.structs.replace(one, sources=((first, fourth),)),
        msgspec.structs.replace(other, sources=((third, second),)),
    )
    forged = msgspec.structs.replace(view, manifest=msgspec.structs.replace(view.manifest, artifacts=exchanged))
    problems = derive(forged).problems
    assert len(problems) == found.runs and all("its raw output shows the root /" in each for each in problems)


def test_a_program_of_the_current_folder_runs_in_the_roots(roots: Path, programs: Path, cache: Path) -> None:
    shutil.copy(programs / "static", roots / "mine")
    result = compare(roots, cache, *ROOTS, "--", "./mine", "data.txt")
    assert result.returncode == 0, result.stderr
    assert "data.txt: of the user" in outputs(roots / "r")[0]


@pytest.mark.slow
def test_a_name_is_searched_in_the_roots(roots: Path, cache: Path) -> None:
    result = compare(roots, cache, *ROOTS, "--env", "PATH=/sbin:/bin", "--", "prog")
    assert result.returncode == 0, result.stderr


def test_a_root_is_held_while_something_else_is_compared(roots: Path, cache: Path) -> None:
    varied = ("--vary", "env:NAME=1,2", "--hold", "rootfs=./b.tar", "--blocks", "2", "--out", "r")
    result = compare(roots, cache, *varied, "--", "/bin/prog", "/etc/name")
    assert result.returncode == 0, result.stderr
    assert {dict(run["observed"])["rootfs"] for run in runs_of(roots / "r")} == {str(roots / "b.tar")}


@pytest.mark.parametrize(
    ("change", "program", "reason"),
    [
        ("", "/bin/missing", "There is no program /bin/missing in the root file system"),
        ("", "missing", "has no program missing in /usr/bin:/bin"),
        ("", "./missing", "There is no program ./missing in the current folder"),
        ("", "/etc/name", "can't be executed"),
        ("rm b/lib64/* b/lib/ld-* 2>/dev/null; true", "/bin/prog", "needs the loader"),
        ("find b -name 'libc.so*' -delete", "/bin/prog", "needs libc.so.6, which is not in the root file system"),
        ("cp other b/bin/prog", "/bin/prog", "is a program for AARCH64, and the machine is"),
        ("printf '#!/bin/none\\n' > b/bin/prog", "/bin/prog", "needs /bin/none, which is not in the root"),
        ("printf x > b/bin/prog", "/bin/prog", "is neither an ELF program nor a script"),
        ("rm -r b/bin b/etc b/lib*; cp -r a/. b", "/bin/prog", "have the same content"),
        ("ln -s /etc b/dev", "/bin/prog", "has a link at /dev, where a folder must be"),
    ],
)
def test_a_root_that_cannot_run_the_program_is_refused(
    roots: Path, cache: Path, change: str, program: str, reason: str
) -> None:
    if os.uname().machine == "aarch64":
        pytest.skip("the program of another architecture in this test is one for this machine")
    (roots / "other").write_bytes(small_elf(machine=AARCH64))
    subprocess.run(["sh", "-c", change], cwd=roots, check=True)
    pair = ("rootfs=./a,./b", "--blocks", "2", "--out", "r")
    assert reason in refused(roots, cache, *pair, "--", program)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--program", "a=/bin/sh", "--program", "b=/bin/cat"), "--program is unavailable with the factor rootfs"),
        (("./x 1", "./x 2"), "There is no program ./x in the current folder"),
        (("--artifact", "out", "--", "/bin/prog"), "--artifact is unavailable with the factor rootfs"),
        (
            (
                "--server",
                "/bin/prog {template}",
                "--template",
                "t.conf",
                "--load-generator",
                "ab -n 9 http://127.0.0.1:{port}/",
            ),
            "--template is unavailable with the factor rootfs",
        ),
        (("linking=static,dynamic", "--", "/bin/prog"), "The factor linking is unavailable with the factor rootfs"),
        (("--layouts", "3", "--", "/bin/prog"), "--layouts is unavailable with the factor rootfs"),
        ((), "The factor rootfs is for a program of yours"),
    ],
)
def test_what_a_root_does_not_offer_is_refused(
    roots: Path, cache: Path, arguments: tuple[str, ...], reason: str
) -> None:
    (roots / "t.conf").write_text("{port}")
    assert reason in refused(roots, cache, *ROOTS, *arguments)


def levels_in(record: Path, factor: str) -> set[str]:
    """Return the levels of a factor that were in force, of runs that are all ok."""
    runs = runs_of(record)
    assert {run["status"] for run in runs} == {"ok"}
    return {dict(run["observed"])[factor] for run in runs}


@pytest.mark.slow
def test_command_lines_and_values_are_compared_in_a_root(roots: Path, cache: Path) -> None:
    held = ("--hold", "rootfs=./b.tar", "--blocks", "2")
    result = compare(roots, cache, *held, "--out", "r", "/bin/prog /etc/name", "./prog data.txt", "--output-may-differ")
    assert result.returncode == 2 and "There is no program ./prog in the current folder" in result.stderr
    result = compare(roots, cache, *held, "--out", "r", "/bin/prog", "/bin/prog data.txt", "--output-may-differ")
    assert result.returncode == 0, result.stderr
    assert levels_in(roots / "r", "command") == {"prog", "prog-data.txt"}
    vary = ("--vary", "name=/etc/name,data.txt", "--vary", "env:SHADE=unset,red", "--output-may-differ")
    result = compare(roots, cache, *held, "--out", "v", *vary, "--", "/bin/prog", "{name}")
    assert result.returncode == 0, result.stderr
    assert levels_in(roots / "v", "{name}") == {"/etc/name", "data.txt"}
    assert levels_in(roots / "v", "env:SHADE") == {"unset", "red"}


@pytest.mark.slow
def test_a_program_is_built_here_and_runs_in_a_root(roots: Path, cache: Path) -> None:
    (roots / "src").mkdir()
    (roots / "src/p.c").write_text(PROGRAM)
    build = ("--source", "src", "--build", "{cc} {cflags} -o p p.c {ldflags}", "--blocks", "2", "--out")
    asked = ("--hold", "rootfs=./b.tar", "optimization=O1,O2", *build)
    result = compare(roots, cache, *asked, "r", "--", "./p", "/etc/name")
    assert result.returncode == 0, result.stderr
    assert levels_in(roots / "r", "optimization") == {"O1", "O2"}
    assert all("/etc/name: equal" in shown for shown in outputs(roots / "r"))
    manifest = load(roots / "r").manifest
    assert manifest is not None
    assert all(each.command and f"rootfs {roots / 'b.tar'}" in dict(each.sources) for each in manifest.artifacts)
    text = compare(roots, cache, "--hold", "rootfs=./a", *asked[2:], "s", "--", "./p").stderr
    assert "needs the loader" in text and "which is not in the root file system" in " ".join(text.split())


# It never frees: it returns the next bytes of one array.
ALLOCATOR = r"""
    #include <stddef.h>
    #include <string.h>
    static char room[1 << 24];
    static size_t used;
    void *malloc(size_t size) {
        char *at = room + used;
        used += (size + 31) & ~(size_t)15;
        return (char *)memcpy(at, &size, sizeof size) + 16;
    }
    void free(void *old) { (void)old; }
    void *calloc(size_t count, size_t size) { return malloc(count * size); }
    void *realloc(void *old, size_t size) {
        void *made = malloc(size);
        size_t before = 0;
        if (old) memcpy(&before, (char *)old - 16, sizeof before);
        return old ? memcpy(made, old, before < size ? before : size) : made;
    }
"""


@pytest.mark.slow
def test_an_allocator_is_preloaded_in_a_root(roots: Path, cache: Path) -> None:
    (roots / "m.c").write_text(ALLOCATOR)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", "m.so", "m.c"], cwd=roots, check=True)
    asked = ("--hold", "rootfs=./b.tar", "allocator=default,./m.so", "--blocks", "2", "--out")
    result = compare(roots, cache, *asked, "r", "--", "/bin/prog", "/etc/name")
    assert result.returncode == 0, result.stderr
    assert levels_in(roots / "r", "allocator") == {"default", str(roots / "m.so")}
    assert levels_in(roots / "r", "rootfs") == {str(roots / "b.tar")}
    assert "m.so" in result.stdout
    static = compare(roots, cache, "--hold", "rootfs=./a", *asked[2:], "s", "--", "/bin/prog")
    assert "is linked statically" in " ".join(static.stderr.split())


# A server that answers each request with its root's /etc/name.
SERVER = r"""
    #include <arpa/inet.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[argc - 1]))};
        int on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
        char text[4096] = "HTTP/1.0 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n", request[4096];
        FILE *name = fopen("/etc/name", "r");
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (!name || !fgets(text + strlen(text), 100, name) || bind(server, (void *)&address, sizeof address) || listen(server, 99))
            return 9;
        for (;;) {
            int client = accept(server, NULL, NULL);
            if (read(client, request, sizeof request) > 0 && write(client, text, strlen(text)) < 0)
                return 8;
            close(client);
        }
    }
"""


@pytest.mark.slow
def test_a_server_runs_in_a_root_and_its_load_generator_outside(roots: Path, cache: Path) -> None:
    require("ab")
    (roots / "s.c").write_text(SERVER)
    subprocess.run(["cc", "-O1", "-static", "-o", "a/bin/server", "s.c"], cwd=roots, check=True)
    subprocess.run(["cc", "-O1", "-static", "-g", "-o", "b/bin/server", "s.c"], cwd=roots, check=True)
    generator = ("--load-generator", "ab -n 200 -c {connections} http://127.0.0.1:{port}/", "--connections", "1")
    asked = ("rootfs=./a,./b", "--blocks", "2", "--out", "r", "--server", "/bin/server {port}", *generator)
    result = compare(roots, cache, *asked)
    assert result.returncode == 0, result.stderr
    assert levels_in(roots / "r", "rootfs") == {str(roots / "a"), str(roots / "b")}
    assert "requests a second" in result.stdout and "start to first connection" in result.stdout
    assert not list(roots.glob("[ab]/**/ab"))


WORK = r"""
    #include <stdio.h>
    __attribute__((noinline)) static int planted(int turns) {
        volatile int left = turns;
        while (left > 0) left--;
        return left;
    }
    int main(void) {
        FILE *name = fopen("/etc/name", "r");
        return name ? planted(TURNS) : 1;
    }
"""


@pytest.mark.slow
@needs_perf
def test_a_difference_between_roots_is_explained_by_a_function(roots: Path, cache: Path) -> None:
    """Under each instrument the program runs in its root: it fails where /etc/name is missing."""
    (roots / "w.c").write_text(WORK)
    for root, turns in (("a", 1_000_000), ("b", 20_000_000)):
        built = ["cc", "-O1", f"-DTURNS={turns}", "-static", "-o", f"{root}/bin/work", "w.c"]
        subprocess.run(built, cwd=roots, check=True)
    result = compare(roots, cache, "rootfs=./a,./b", "--blocks", "6", "--out", "r", "--", "/bin/work")
    assert result.returncode == 0, result.stderr
    printed = swapstone(roots, "explain", "r", "cpu", "--only", "work", XDG_CACHE_HOME=str(cache)).stdout
    text = " ".join(printed.split())
    assert "Why: work, cpu: rootfs=b against rootfs=a function, with what it calls" in text
    assert re.search(r" planted \+\S+ ms .* main ", text)
    assert "valgrind is not in the program's root file system" in text
    for kind in ("on-cpu", "syscalls"):
        assert f"{kind} is unavailable" not in text
    assert str(roots) not in text.partition(" Next ")[0]


def test_a_machine_without_mount_namespaces_is_unavailable(
    roots: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the user namespace of this shell, the limit of mount namespaces is 0 (namespaces(7))."""
    limit = 'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine has no user namespaces to test it in")
    result = subprocess.run(
        [*with_nice_0(), *inside, *command("compare", *ROOTS, "--", "/bin/prog")],
        cwd=roots,
        env=environment(roots, XDG_CACHE_HOME=str(cache)),
        capture_output=True,
        text=True,
        check=False,
    )
    text = " ".join(result.stderr.split())
    assert result.returncode == 2, text
    assert "can't run a program in another root file system: the agent could not make a mount namespace" in text
    assert "sysctl kernel.unprivileged_userns_clone" in text


def test_container_images_are_compared_by_their_names(roots: Path, cache: Path) -> None:
    """The record has their digests. A repetition finds both roots in the cache, and an unknown image is one line."""
    (roots / "tools").mkdir()
    (roots / "registry").mkdir()
    engine(roots / "tools", roots / "registry", "docker")
    names = ("docker.io/library/alpine:3.20", "docker.io/library/debian:12")
    digests = tuple(f"sha256:{digit * 64}" for digit in "12")
    for name, digest, folder in zip(names, digests, ("a", "b"), strict=True):
        layer = subprocess.run(["tar", "c", "-C", roots / folder, "."], capture_output=True, check=True).stdout
        offer(roots / "registry", name, oci_image([layer]), digest=digest, architecture=NATIVE)
    levels = [f"docker:{name}@{digest}" for name, digest in zip(names, digests, strict=True)]
    path = {"PATH": f"{roots / 'tools'}:{os.environ['PATH']}"}
    asked = (
        "rootfs=docker:alpine:3.20,docker:debian:12",
        "--blocks",
        "2",
        "--out",
        "r",
        "--",
        "/bin/prog",
        "/etc/name",
    )
    result = compare(roots, cache, *asked, **path)
    assert result.returncode == 0, result.stderr
    assert load(roots / "r").experiment.factors[0].levels == tuple(levels)
    assert {tuple(run["observed"][0]) for run in runs_of(roots / "r")} == {("rootfs", level) for level in levels}
    check_that_roots_are_observed_again(roots / "r")
    shutil.rmtree(roots / "r")
    shutil.rmtree(roots / "registry")
    again = compare(roots, cache, f"rootfs={','.join(levels)}", *asked[1:4], "again", *asked[5:], **path)
    assert again.returncode == 0, again.stderr
    (roots / "registry").mkdir()
    text = refused(roots, cache, "rootfs=docker:alpine:3.21,docker:debian:12", "--", "/bin/prog", **path)
    assert "The image alpine:3.21 can't be had: docker reports: Error response from daemon" in text
    assert "docker save -o alpine-3.21.tar alpine:3.21" in text


VM = ("--target", "vm", "--memory", "256M")


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the images of this test are of x86_64")
def test_roots_are_compared_exactly_in_a_virtual_machine(roots: Path, exhaustive: bool) -> None:
    """The roots are those of the trial; with --exhaustive, two runs are equal to the byte, as of the own program in test_vm_carried.py."""
    layer = subprocess.run(["tar", "c", "-C", roots / "a", "."], capture_output=True, check=True).stdout
    (roots / "a.tar").write_bytes(oci_image([layer]))
    asked = ("compare", "rootfs=./a.tar,./b.tar", "--blocks", "1", *VM)
    program = ("--", "/bin/prog", "/etc/name", "data.txt")
    swapstone(roots, *asked, "--out", "r", *program)
    if exhaustive:
        swapstone(roots, *asked, "--no-cache", "--out", "again", *program)

    def results(record: str) -> dict[str, object]:
        return {
            run["trial"]["variant"]: (run["status"], run["observed"], run["output"], run["samples"])
            for run in runs_of(roots / record)
        }

    assert not exhaustive or results("again") == results("r")
    check_that_roots_are_observed_again(roots / "r")
    for run in runs_of(roots / "r"):
        assert run["status"] == "ok"
        assert f"rootfs={dict(run['observed'])['rootfs']}" == run["trial"]["variant"]
    for printed in outputs(roots / "r"):
        assert "/etc/name: equal" in printed and "data.txt: of the user" in printed


def test_roots_that_are_larger_than_a_machine_are_refused(roots: Path) -> None:
    with (roots / "a/large").open("wb") as large:
        large.truncate(90 << 20)
    text = swapstone(roots, "compare", *ROOTS, *VM, "--", "/bin/prog", expect=2).stderr
    assert "more than fits into a machine with 256 MiB of memory" in " ".join(text.split())
    assert "--memory 512M" in text
