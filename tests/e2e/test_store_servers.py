# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stores on servers: sftp on a real sshd, and s3 on a small server in this process. Runs, wrong credentials, a full and a lost server."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.cluster.content_store import OBJECTS, RUNS, TRIALS, ContentStore, DamagedEntryError, get_run
from tests.e2e.cli import TOP, swapstone
from tests.e2e.s3_server import BUCKET, KEY, SECRET, S3Server, s3_server
from tests.e2e.ssh_server import SshServer, missing, ssh_server
from tests.unit.targets.test_shared_runs import Bench

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the first process is built by this machine's compiler"),
]

CONTENT = os.urandom(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAME = "ab" * 32


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """An sshd, and a home whose configuration of ssh has its keys."""
    pytest.importorskip("paramiko", reason="paramiko is not installed")
    if missing():
        pytest.skip(missing())
    folder = tmp_path / "ssh"
    folder.mkdir()
    with ssh_server(folder) as found:
        home = tmp_path / "home" / ".ssh"
        home.mkdir(parents=True, mode=0o700)
        (home / "config").write_text(f"Host *\n{(folder / 'ssh_config').read_text()}")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        yield found


def url_of(server: SshServer, path: Path | str) -> str:
    return f"{server.target.replace('ssh:', 'sftp://', 1)}{path}"


def with_paramiko(folder: Path) -> dict[str, str]:
    """Return changes of a command's environment: the home, and where Python finds paramiko."""
    paramiko = pytest.importorskip("paramiko")

    site = Path(paramiko.__file__).parents[1]
    return {"HOME": str(folder / "home"), "PYTHONPATH": f"{TOP / 'src'}:{site}"}


def use(store: ContentStore) -> None:
    """Write, read, find, and remove entries."""
    assert store.get(RUNS, NAME) is None and store.size(OBJECTS, DIGEST) is None
    assert store.put_object(DIGEST, lambda: CONTENT) == DIGEST and store.get_object(DIGEST) == CONTENT
    store.put(RUNS, NAME, b"one")
    store.put(RUNS, NAME, b"other")
    assert store.get(RUNS, NAME) == b"other" and store.size(RUNS, NAME) == 5
    store.put(RUNS, NAME, b"")
    assert store.get(RUNS, NAME) == b""
    store.remove(RUNS, NAME)
    assert store.get(RUNS, NAME) is None
    with pytest.raises(UserError, match="no name of a store's entry"):
        store.get(RUNS, "../" * 21 + "x")


def in_threads(store: ContentStore) -> None:
    """Several threads use one store at once; each gets its own answers."""
    wrong: list[int] = []

    def act(number: int) -> None:
        for turn in range(10):
            content = f"{number} {turn}".encode() * 1000
            if store.get_object(store.put_object(hashlib.sha256(content).hexdigest(), lambda: content)) != content:  # noqa: B023 - called at once
                wrong.append(number)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert not wrong and not any(each.is_alive() for each in threads)


def test_a_folder_of_an_ssh_server_is_a_store(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(server, tmp_path / "there" / "store")
    store = ContentStore(url)
    use(store)
    in_threads(store)
    left = [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()]
    assert left and not any(name.endswith(".part") for name in left)

    (tmp_path / "bench").mkdir()
    bench = Bench(tmp_path / "bench", monkeypatch)
    name = bench.run(bench.sharing(store=url))
    assert bench.runs == 1 and get_run(store, name) is not None
    bench.run(bench.sharing(store=url), cache="other")
    assert bench.runs == 1  # it came from the store
    bench.run(bench.sharing(store=url, executor="threads:2"), "2-0")
    assert bench.runs == 2 and not list((tmp_path / "there").rglob("*.part"))


def test_links_and_special_files_of_an_ssh_server_are_not_opened(server: SshServer, tmp_path: Path) -> None:
    store = ContentStore(url_of(server, tmp_path / "there"))
    store.put(RUNS, NAME, b"x")
    path = tmp_path / "there" / store.path_of(RUNS, NAME)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(DamagedEntryError, match="it is no regular file"):
        store.get(RUNS, NAME)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamagedEntryError, match="it is no regular file"):
        store.get(RUNS, NAME)


def test_an_unknown_server_and_a_refused_user_are_errors_with_the_next_step(server: SshServer, tmp_path: Path) -> None:
    url = url_of(server, tmp_path / "there")
    with pytest.raises(UserError, match="Authentication failed") as caught:
        ContentStore(url.replace("://", "://nobody-", 1))
    assert "ssh ssh://nobody-" in caught.value.hint and "ssh-copy-id" in caught.value.hint
    with pytest.raises(UserError, match="can't be opened") as caught:
        ContentStore(f"sftp://nobody:top-secret@{url.rpartition('@')[2]}")
    assert "top-secret" not in str(caught.value)
    server.known_hosts.write_text("")
    refused = swapstone(tmp_path, "run-trial", NAME, "--store", url, expect=2, **with_paramiko(tmp_path))
    assert "not found in known_hosts" in refused.stderr and "Connect once by hand" in refused.stderr
    assert not (tmp_path / "there").exists()


def test_another_key_than_the_known_one_is_refused(server: SshServer, tmp_path: Path) -> None:
    made = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other"))
    subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    host = server.known_hosts.read_text().split()[0]
    server.known_hosts.write_text(f"{host} {(tmp_path / 'other.pub').read_text()}")
    with pytest.raises(UserError, match="can't be opened") as caught:
        ContentStore(url_of(server, tmp_path / "there"))
    assert "compare the server's key" in caught.value.hint


def test_a_lost_connection_is_made_again_and_a_lost_server_is_an_error(server: SshServer, tmp_path: Path) -> None:
    store = ContentStore(url_of(server, tmp_path / "there"))
    store.put_object(DIGEST, lambda: CONTENT)
    for _ in range(3):
        for session in server.sessions():
            os.kill(session, signal.SIGKILL)
        assert store.get_object(DIGEST) == CONTENT
    sessions = server.sessions()
    os.kill(server.pid, signal.SIGTERM)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    for session in sessions:
        os.kill(session, signal.SIGKILL)
    with pytest.raises(UserError, match=r"can't be (read|written)") as caught:
        store.get_object(DIGEST)
        store.put(TRIALS, NAME, b"x")
    assert "Nothing that was measured is lost" in caught.value.hint


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB, mounted before the server starts, which has a mount namespace of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=128k", "none", folder), capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(("umount", folder), check=False)


def test_a_full_disk_of_the_server_leaves_no_half_entry(small: Path, server: SshServer) -> None:
    store = ContentStore(url_of(server, small))
    with pytest.raises(UserError, match="can't be written") as caught:
        store.put_object(DIGEST, lambda: CONTENT)
    assert "full" in caught.value.message or "No space" in caught.value.message
    store.put(RUNS, NAME, b"small")
    assert store.get(RUNS, NAME) == b"small" and store.size(OBJECTS, DIGEST) is None


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server of S3's protocol, and the environment that names it."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with s3_server() as found:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        s3fs.S3FileSystem.clear_instance_cache()
        yield found
        s3fs.S3FileSystem.clear_instance_cache()


def test_a_bucket_is_a_store(bucket: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"s3://{BUCKET}/runs"
    store = ContentStore(url)
    use(store)
    in_threads(store)
    assert bucket.objects and all(key.startswith("runs/objects/") for key in bucket.objects)
    bench = Bench(tmp_path, monkeypatch)
    name = bench.run(bench.sharing(store=url))
    assert bench.runs == 1 and get_run(store, name) is not None
    bench.run(bench.sharing(store=url), cache="other")
    assert bench.runs == 1
    key = f"runs/{store.path_of(RUNS, name)}"
    bucket.objects[key] = bucket.objects[key][:-9]  # a forged entry
    bench.run(bench.sharing(store=url), cache="third")
    assert bench.runs == 2 and any("is refused: its content has another digest" in note for note in bench.notes)


def test_wrong_credentials_of_a_bucket_and_a_bucket_that_is_missing(
    bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"can't be written: .*bucket does not exist"):
        ContentStore("s3://bukcet/runs").put(RUNS, NAME, b"x")
    assert bucket.made == []  # a name that may be a mistake makes no bucket
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    other = ContentStore(f"s3://{BUCKET}/runs")
    with pytest.raises(UserError, match=r"can't be (read|written)") as caught:
        other.put_object(DIGEST, lambda: CONTENT)
    assert "Traceback" not in str(caught.value) and SECRET not in str(caught.value)
    assert bucket.objects == {}


def test_a_full_and_a_lost_server_of_a_bucket_are_errors(bucket: S3Server) -> None:
    store = ContentStore(f"s3://{BUCKET}/runs")
    store.put(RUNS, NAME, b"kept")
    bucket.full = True
    with pytest.raises(UserError, match="can't be written") as caught:
        store.put_object(DIGEST, lambda: CONTENT)
    assert "Nothing that was measured is lost" in caught.value.hint
    assert store.get(RUNS, NAME) == b"kept"
    bucket.gone = True
    with pytest.raises(UserError, match="can't be read"):
        store.get(RUNS, NAME)
