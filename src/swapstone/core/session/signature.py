# SPDX-License-Identifier: MIT OR Apache-2.0
"""Signatures of a record's seal by an ssh key, made and checked by ssh-keygen(1) (OpenSSH 8.2 and newer, PROTOCOL.sshsig).

The signature is ``seal.json.sig`` beside the seal. The seal names the digests of all other files, so it covers the whole record.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from swapstone.core.model import RecordError, UnavailableError, UserError
from swapstone.core.model.safe_text import safe
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.record import FileProblemError, RecordView, read_regular, replace_file
from swapstone.core.record.record_format import SEAL, file_sha256

SIGNATURE = f"{SEAL}.sig"
NAMESPACE = "swapstone"
"""The purpose of a signature (``-n``): one that was made for another purpose, such as git, is not accepted."""

_MOST_BYTES = 1 << 20
_TIMEOUT_S = 600
"""A person may have to type a passphrase or touch a token."""
_KEY = re.compile(r"with (\S+) key (\S+)")


@dataclasses.dataclass(frozen=True)
class SignatureCheck:
    """The result of checking a signature.

    Attributes:
        identity: of the accepted signer (a principal of the file of signers); empty without a good signature.
        key: type and fingerprint of the key.
        problem: what is wrong, in a sentence; empty if the signature is good.
    """

    identity: str = ""
    key: str = ""
    problem: str = ""


def sign(view: RecordView, key: Path) -> Path:
    """Sign a record's seal, and return the file of the signature.

    Args:
        view: the record.
        key: a private key; or a public one whose private key is in ssh-agent(1).

    Raises:
        UserError: the record is damaged or not sealed, there is no such key, or ssh-keygen is missing or fails.
    """
    if not view.digest:
        raise RecordError(
            f"{view.path} is not sealed: there is nothing to sign.", "Finish it: swapstone compare --resume"
        )
    if view.damages:
        raise RecordError(
            f"{view.path} is damaged ({view.damages[0]}): it is not signed.", f"swapstone verify {view.path}"
        )
    if not key.is_file():
        raise UserError(
            f"There is no key {key}.",
            "Name a private key such as ~/.ssh/id_ed25519, or make one: ssh-keygen -t ed25519",
        )
    arguments = ("-Y", "sign", "-f", str(key.absolute()), "-n", NAMESPACE)
    done = _ssh_keygen(arguments, _seal_bytes(view))
    if done.returncode or b"BEGIN SSH SIGNATURE" not in done.stdout:
        raise UserError(f"ssh-keygen can't sign with {key}: {_last_line(done)}.")
    path = view.path / SIGNATURE
    try:
        replace_file(path, done.stdout)
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.") from error
    return path


def check_signature(view: RecordView, signers: Path) -> SignatureCheck:
    """Check the signature of a record's seal.

    Args:
        view: the record.
        signers: a file of accepted keys with their identities (ssh-keygen(1), ALLOWED SIGNERS).

    Raises:
        UnavailableError: ssh-keygen is missing.
        UserError: there is no such file.
    """
    if not signers.is_file():
        raise UserError(
            f"There is no file {signers} of accepted signers.", "Its lines: alice@example.org ssh-ed25519 AAAA..."
        )
    _require_ssh_keygen()
    if not view.digest:
        return SignatureCheck(problem="it has no seal, and so no signature")
    try:
        signature = read_regular(view.path / SIGNATURE, _MOST_BYTES)
    except FileNotFoundError:
        return SignatureCheck(problem=f"it has no signature ({SIGNATURE})")
    except FileProblemError as error:
        return SignatureCheck(problem=f"{SIGNATURE}: {error}")
    with TemporaryFolder("signature") as scratch:
        copy = scratch / SIGNATURE
        copy.write_bytes(signature)  # ssh-keygen reads this copy: what is checked can't change meanwhile
        place = ("-f", str(signers.absolute()), "-s", str(copy))
        found = _ssh_keygen(("-Y", "find-principals", *place), b"")
        # An identity of the file is a list of patterns; the first one of it names the signer.
        names = [line.split(",")[0] for line in found.stdout.decode(errors="replace").splitlines() if line]
        if found.returncode or not names:
            return SignatureCheck(problem=f"no key of {signers} made its signature ({SIGNATURE}): {_last_line(found)}")
        seal = _seal_bytes(view)
        for name in names:
            done = _ssh_keygen(("-Y", "verify", *place, "-n", NAMESPACE, "-I", name), seal)
            if not done.returncode:
                key = _KEY.search(done.stdout.decode(errors="replace"))
                return SignatureCheck(identity=name, key=f"{key[1]} {key[2]}" if key else "")
    return SignatureCheck(problem=f"its signature ({SIGNATURE}) is not one of its seal: {_last_line(done)}")


def signature_notes(view: RecordView, checked: SignatureCheck | None) -> Iterator[str]:
    """Yield a sentence on the signature: who made it, or that it was not checked."""
    if checked is not None and checked.identity:
        yield f"Signed by {safe(checked.identity)} ({safe(checked.key)}): the owner of that key signed this seal."
    elif checked is None and (view.path / SIGNATURE).is_file():
        yield f"It has a signature ({SIGNATURE}), which was not checked: name the accepted keys with --signers FILE."


def _seal_bytes(view: RecordView) -> bytes:
    """Return the content of the seal, which must be what was read of the record."""
    try:
        data = read_regular(view.path / SEAL, _MOST_BYTES)
    except (FileNotFoundError, FileProblemError) as error:
        raise RecordError(f"{view.path / SEAL} can't be read: {error}.") from error
    if file_sha256(data) != view.digest:
        raise RecordError(
            f"{view.path / SEAL} changed while it was read.", "Is a process writing the record? Try again."
        )
    return data


def _require_ssh_keygen() -> str:
    found = shutil.which("ssh-keygen")
    if found is None:
        raise UnavailableError(
            "Signatures need ssh-keygen, which is not installed.", "Install it: apt-get install openssh-client"
        )
    return found


def _ssh_keygen(arguments: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen with data on its standard input. It reads a passphrase from the terminal itself."""
    try:
        return subprocess.run(
            [_require_ssh_keygen(), *arguments], input=data, capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"ssh-keygen can't be run: {error}.") from error


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line for line in (done.stderr or done.stdout).decode(errors="replace").splitlines() if line.strip()]
    return safe(lines[-1].strip().rstrip(".")) if lines else f"it ended with status {done.returncode}"
