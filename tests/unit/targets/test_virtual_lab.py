# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a lab with a virtual board, as labgrid reads them."""

from __future__ import annotations

from pathlib import Path

from labgrid.remote.config import ResourceConfig

from tests.virtual_lab import EXPORTER, PLACE


def test_labgrid_s_exporter_reads_its_configuration(tmp_path: Path) -> None:
    path = tmp_path / "exporter.yaml"
    path.write_text(EXPORTER.format(place=PLACE, port=2222))
    service = {"address": "127.0.0.1", "port": 2222, "username": "root"}
    assert ResourceConfig(str(path)).data == {PLACE: {"NetworkService": service}}
