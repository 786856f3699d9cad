# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes programs named docker, podman and skopeo for tests: they answer as the real ones, from a folder that stands for a registry.

Each file ``REFERENCE.json`` of that folder, slashes replaced by ``+``, describes an image: what ``image inspect`` or ``inspect`` prints,
and the file with its archive. An engine has an image after ``pull``, or if the description has ``local``. What is called is appended to
``calls``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

_PROGRAM = r"""#!{python}
import json, os, shutil, sys
from pathlib import Path

registry, name, words = Path({registry!r}), os.path.basename(sys.argv[0]), sys.argv[1:]
with (registry / "calls").open("a") as calls:
    calls.write(f"{{name}} {{' '.join(words)}}\n")

def image(reference):
    path = registry / (reference.replace("/", "+") + ".json")
    return json.loads(path.read_text()) if path.exists() else None

def fail(text):
    sys.exit(text)

pulled = registry / f"pulled-{{name}}"
have = pulled.read_text().split() if pulled.exists() else []
if name == "skopeo":
    options = dict(zip(words[0:4:2], words[1:4:2]))
    if words[0] != "--override-os" or words[2] != "--override-arch":
        fail("unknown flag")
    command, (reference, *target) = words[4], words[5:]
    found = image(reference.removeprefix("docker://"))
    if found is None:
        fail(f'time="2026-11-30T00:00:00Z" level=fatal msg="pinging container registry: dial tcp: lookup registry: no such host"')
    if command == "inspect":
        print(json.dumps({{"Name": reference, "Digest": found["digest"], "RepoTags": [], "Architecture": found["architecture"]}}))
    else:
        shutil.copy(registry / found["archive"], target[0].removeprefix("oci-archive:"))
elif words[:2] == ["image", "inspect"]:
    found = image(words[2])
    if found is None or not (found.get("local") or words[2] in have):
        print("[]")
        fail(f"Error: No such image: {{words[2]}}")
    identifier = found["id"].removeprefix("sha256:") if name == "podman" else found["id"]
    print(json.dumps([{{"Id": identifier, "RepoDigests": found["repo_digests"], "Architecture": found["architecture"], "Os": "linux"}}]))
elif words[:3] == ["pull", "--quiet", "--platform"]:
    if image(words[4]) is None or image(words[4]).get("local") == "only":
        fail(f'Error response from daemon: Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry: no such host')
    pulled.write_text(" ".join((*have, words[4])))
    print(words[4])
elif words[:2] == ["save", "--output"]:
    shutil.copy(registry / image(words[3])["archive"], words[2])
else:
    fail(f"unknown command: {{words}}")
"""


def engine(folder: Path, registry: Path, name: str) -> Path:
    """Write a program named docker, podman or skopeo into a folder, and return it."""
    program = folder / name
    program.write_text(_PROGRAM.format(python=sys.executable, registry=str(registry)))
    program.chmod(0o755)
    return program


def offer(
    registry: Path,
    reference: str,
    archive: bytes,
    *,
    digest: str,
    architecture: str = "amd64",
    local: str = "",
    repo_digests: tuple[str, ...] | None = None,
    identifier: str = "",
) -> None:
    """Offer an image by a name, and by its digest.

    Args:
        registry: the folder.
        reference: with host and tag.
        archive: what is saved.
        digest: of the image or its index.
        architecture: as the programs print it.
        local: ``yes`` for an image that an engine has already, ``only`` for one that is in no registry.
        repo_digests: as engines print them; that of the reference by default.
        identifier: of the image; the digest by default.
    """
    repository = reference.rpartition(":")[0]
    (registry / f"{digest[7:19]}.tar").write_bytes(archive)
    described = {
        "digest": digest,
        "id": identifier or digest,
        "architecture": architecture,
        "archive": f"{digest[7:19]}.tar",
        "local": local,
        "repo_digests": (f"{repository}@{digest}",) if repo_digests is None else repo_digests,
    }
    for name in (reference, f"{repository}@{digest}", *((identifier or digest,) if local else ())):
        (registry / f"{name.replace('/', '+')}.json").write_text(json.dumps(described))
