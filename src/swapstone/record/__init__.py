# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records: the files of an experiment on disk. Every report is computed from them."""

from swapstone.record.files import FileProblemError, RecordFolder, has_runs
from swapstone.record.reader import RecordView, check_raw, load, raw_bytes
from swapstone.record.record_format import SCHEMA, Artifact, Damage, Manifest, Meta, Seal, manifest_differences
from swapstone.record.record_paths import default_root, find_record, list_records, new_record_path, record_name
from swapstone.record.writer import RecordWriter

__all__ = [
    "SCHEMA",
    "Artifact",
    "Damage",
    "FileProblemError",
    "Manifest",
    "Meta",
    "RecordFolder",
    "RecordView",
    "RecordWriter",
    "Seal",
    "check_raw",
    "default_root",
    "find_record",
    "has_runs",
    "list_records",
    "load",
    "manifest_differences",
    "new_record_path",
    "raw_bytes",
    "record_name",
]
