# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records: the files of an experiment on disk. Every report is computed from them."""

from swapstone.core.record.files import FileProblemError, RecordFolder, open_runs, read_regular
from swapstone.core.record.kept_outputs import KeptOutputs, check_raw
from swapstone.core.record.origin import ORIGIN, file_bytes, foreign_reason, has_origin, mark_file, origin_reason
from swapstone.core.record.reader import RecordView, load
from swapstone.core.record.record_format import (
    SCHEMA,
    Artifact,
    Damage,
    Description,
    Manifest,
    MappedFile,
    Meta,
    ResidentMemory,
    Seal,
    manifest_differences,
)
from swapstone.core.record.record_paths import (
    default_root,
    find_record,
    find_records,
    list_records,
    new_record_path,
    record_name,
)
from swapstone.core.record.replace_file import open_folder, replace_file, replace_in
from swapstone.core.record.run_lines import doubled_keys
from swapstone.core.record.validation import require_readable
from swapstone.core.record.writer import RecordWriter

__all__ = [
    "ORIGIN",
    "SCHEMA",
    "Artifact",
    "Damage",
    "Description",
    "FileProblemError",
    "KeptOutputs",
    "Manifest",
    "MappedFile",
    "Meta",
    "RecordFolder",
    "RecordView",
    "RecordWriter",
    "ResidentMemory",
    "Seal",
    "check_raw",
    "default_root",
    "doubled_keys",
    "file_bytes",
    "find_record",
    "find_records",
    "foreign_reason",
    "has_origin",
    "list_records",
    "load",
    "manifest_differences",
    "mark_file",
    "new_record_path",
    "open_folder",
    "open_runs",
    "origin_reason",
    "read_regular",
    "record_name",
    "replace_file",
    "replace_in",
    "require_readable",
]
