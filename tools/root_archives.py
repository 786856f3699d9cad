# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes tar archives and container images for tests, valid and hostile ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping

TYPES = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard": tarfile.LNKTYPE,
    "char": tarfile.CHRTYPE,
    "block": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}


def tar(*entries: tuple[str, str, bytes | str], modes: Mapping[str, int] | None = None) -> bytes:
    """Return a tar archive of entries (path, kind, content or target)."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, kind, content in entries:
            info = tarfile.TarInfo(path)
            info.type = TYPES[kind]
            info.mode = (modes or {}).get(path, 0o755 if kind == "folder" else 0o644)
            data = content if isinstance(content, bytes) else content.encode()
            if kind in {"link", "hard"}:
                info.linkname = data.decode()
                data = b""
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return output.getvalue()


def sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def oci_image(
    layers: Iterable[bytes],
    *,
    architecture: str = "amd64",
    changes: Mapping[str, bytes] | None = None,
    config: Mapping[str, object] | None = None,
) -> bytes:
    """Return an OCI archive; its layers are compressed with gzip. `changes` replaces files of it."""
    plain = list(layers)
    packed = [gzip.compress(layer, mtime=0) for layer in plain]
    ids = [f"sha256:{sha256(layer)}" for layer in plain]
    settings = json.dumps(config if config is not None else {"rootfs": {"type": "layers", "diff_ids": ids}}).encode()
    manifest = json.dumps({"config": _descriptor(settings), "layers": [_descriptor(blob) for blob in packed]}).encode()
    index = {"manifests": [{**_descriptor(manifest), "platform": {"architecture": architecture, "os": "linux"}}]}
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
        **{f"blobs/sha256/{sha256(blob)}": blob for blob in (settings, manifest, *packed)},
        **(changes or {}),
    }
    return tar(*((path, "file", content) for path, content in files.items()))


def docker_image(layers: Iterable[bytes]) -> bytes:
    """Return an archive as older versions of ``docker save`` write it."""
    plain = list(layers)
    names = [f"{number}/layer.tar" for number, _ in enumerate(plain)]
    settings = json.dumps({"rootfs": {"diff_ids": [f"sha256:{sha256(layer)}" for layer in plain]}}).encode()
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["a:b"], "Layers": names}]).encode()
    files = {"manifest.json": manifest, "c.json": settings, **dict(zip(names, plain, strict=True))}
    return tar(*((path, "file", content) for path, content in files.items()))


def _descriptor(blob: bytes) -> dict[str, object]:
    return {"digest": f"sha256:{sha256(blob)}", "size": len(blob)}
