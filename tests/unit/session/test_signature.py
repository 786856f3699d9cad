# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record's seal is signed by an ssh key, and the signature is checked against accepted keys."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import swapstone
from swapstone.core.model import RecordError, UnavailableError, UserError
from tests.e2e.cli import fake
from tests.e2e.cli import swapstone as command
from tests.programs import needs
from tests.small_records import compared

NEEDS_SSH_KEYGEN = needs("ssh-keygen")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    out, target = folder / "record", fake(folder)
    return compared(libc="glibc,musl", out=out, only="b_string_strlen", blocks=6, seed=1, target=target).path


@pytest.fixture
def record(original: Path, tmp_path: Path) -> swapstone.Record:
    return swapstone.load(Path(shutil.copytree(original, tmp_path / "record")))


def _key(folder: Path, name: str) -> tuple[Path, str]:
    """Make a key; return its file and a line of accepted signers."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path, f"{name}@example.org {path.with_suffix('.pub').read_text()}"


@NEEDS_SSH_KEYGEN
def test_a_signature_names_its_signer(record: swapstone.Record, tmp_path: Path) -> None:
    alice, line = _key(tmp_path, "alice")
    _, other = _key(tmp_path, "bob")
    (tmp_path / "signers").write_text(other + line)
    path = record.sign(alice)
    assert path == record.path / "seal.json.sig" and path.read_text().startswith("-----BEGIN SSH SIGNATURE-----")
    result = record.verify(signers=tmp_path / "signers")
    assert result.ok and result.signed_by == "alice@example.org"
    assert "Signed by alice@example.org (ED25519 SHA256:" in result.notes[0]
    # Without the file, the signature is mentioned and not counted.
    plain = record.verify()
    assert plain.ok and not plain.signed_by and "which was not checked" in plain.notes[0]


@NEEDS_SSH_KEYGEN
def test_a_key_that_is_not_accepted_is_a_problem(record: swapstone.Record, tmp_path: Path) -> None:
    alice, _ = _key(tmp_path, "alice")
    _, other = _key(tmp_path, "bob")
    (tmp_path / "signers").write_text(other)
    record.sign(alice)
    result = record.verify(signers=tmp_path / "signers")
    assert not result.ok and not result.signed_by
    assert any("no key of" in problem and "made its signature" in problem for problem in result.problems)


@NEEDS_SSH_KEYGEN
def test_a_signature_of_another_seal_or_of_another_purpose_is_a_problem(
    record: swapstone.Record, tmp_path: Path
) -> None:
    alice, line = _key(tmp_path, "alice")
    (tmp_path / "signers").write_text(line)
    record.sign(alice)
    seal = record.path / "seal.json"
    original = seal.read_text()
    seal.write_text(json.dumps(json.loads(original) | {"why": "another reason"}))
    result = swapstone.load(record.path).verify(signers=tmp_path / "signers")
    assert any("is not one of its seal" in problem for problem in result.problems)
    seal.write_text(original)
    assert swapstone.load(record.path).verify(signers=tmp_path / "signers").signed_by
    done = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(alice), "-n", "git"],
        input=seal.read_bytes(),
        capture_output=True,
        check=True,
    )
    (record.path / "seal.json.sig").write_bytes(done.stdout)
    assert not swapstone.load(record.path).verify(signers=tmp_path / "signers").ok


@NEEDS_SSH_KEYGEN
def test_a_missing_damaged_or_linked_signature_is_a_problem(record: swapstone.Record, tmp_path: Path) -> None:
    _, line = _key(tmp_path, "alice")
    (tmp_path / "signers").write_text(line)
    signature = record.path / "seal.json.sig"
    assert "it has no signature (seal.json.sig)" in record.verify(signers=tmp_path / "signers").problems
    signature.write_text("not a signature")
    assert not record.verify(signers=tmp_path / "signers").ok
    signature.unlink()
    signature.symlink_to(tmp_path / "signers")
    assert any("seal.json.sig: " in problem for problem in record.verify(signers=tmp_path / "signers").problems)


@NEEDS_SSH_KEYGEN
def test_signing_replaces_a_link_and_not_its_target(record: swapstone.Record, tmp_path: Path) -> None:
    alice, _ = _key(tmp_path, "alice")
    (tmp_path / "precious").write_text("precious")
    (record.path / "seal.json.sig").symlink_to(tmp_path / "precious")
    record.sign(alice)
    assert (tmp_path / "precious").read_text() == "precious"


@NEEDS_SSH_KEYGEN
def test_a_damaged_record_is_not_signed(record: swapstone.Record, tmp_path: Path) -> None:
    alice, _ = _key(tmp_path, "alice")
    with pytest.raises(UserError, match="There is no key"):
        record.sign(tmp_path / "absent")
    (tmp_path / "broken").write_text("no key")
    with pytest.raises(UserError, match="ssh-keygen can't sign"):
        record.sign(tmp_path / "broken")
    (record.path / "experiment.json").write_text((record.path / "experiment.json").read_text() + "\n")
    with pytest.raises(RecordError, match="it is not signed"):
        record.sign(alice)
    (record.path / "seal.json").unlink()
    with pytest.raises(RecordError, match="is not sealed"):
        record.sign(alice)
    assert not (record.path / "seal.json.sig").exists()


def test_without_ssh_keygen_signatures_are_unavailable(
    record: swapstone.Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for action in (lambda: record.sign(tmp_path / "key"), lambda: record.verify(signers=tmp_path / "key")):
        with pytest.raises(UnavailableError, match="need ssh-keygen, which is not installed") as caught:
            action()
        assert "apt-get install openssh-client" in caught.value.hint
    with pytest.raises(UserError, match="There is no file"):
        record.verify(signers=tmp_path / "nowhere")
    assert record.verify().ok


@pytest.mark.slow
@NEEDS_SSH_KEYGEN
def test_the_command_line_signs_what_is_whole_and_prints_the_identity(record: swapstone.Record, tmp_path: Path) -> None:
    alice, line = _key(tmp_path, "alice")
    (tmp_path / "signers").write_text(line)
    assert "Signed: record/seal.json.sig" in command(tmp_path, "verify", "record", "--sign", str(alice)).stdout
    found = command(tmp_path, "verify", "record", "--signers", "signers").stdout
    assert "Signed by alice@example.org (ED25519 SHA256:" in found
    lines = (record.path / "runs.jsonl").read_text().split("\n")
    (record.path / "runs.jsonl").write_text("\n".join(lines[1:]))
    refused = command(tmp_path, "verify", "record", "--sign", str(alice), expect=2)
    assert "Not signed." in refused.stdout
