# SPDX-License-Identifier: MIT OR Apache-2.0
"""The raw outputs of a record as tests read and change them."""

from __future__ import annotations

import json
from pathlib import Path

from swapstone.core.record import KeptOutputs, record_format
from swapstone.core.record.run_lines import kept_texts


def raw_bytes(record: Path, digest: str, most_bytes: int | None = None) -> bytes | None:
    """Return an output of a record; None as for `KeptOutputs.read`."""
    with KeptOutputs(record) as outputs:
        return outputs.read(digest, most_bytes)


def raw_text(record: Path, digest: str) -> str:
    """Return an output of a record."""
    data = raw_bytes(record, digest)
    assert data is not None, f"{record} lacks {digest}"
    return data.decode()


def raw_to_files(record: Path) -> Path:
    """Move the outputs of a record from its lines to files, where records before 0.2 have them; return the record."""
    runs = record / record_format.RUNS
    lines = []
    for line in runs.read_bytes().splitlines(keepends=True):
        for text in kept_texts(line):
            (record / record_format.RAW / f"{record_format.file_sha256(text)}.txt").write_bytes(text)
        begin = line.rfind(b',"raw":[')
        lines.append(line if begin < 0 else line[:begin] + b"}\n")
        assert "raw" not in json.loads(lines[-1])
    runs.write_bytes(b"".join(lines))
    return record
