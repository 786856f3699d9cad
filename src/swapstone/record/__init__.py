"""Records: an experiment, its plan, its runs and its artifacts on disk; the truth that everything else is computed from."""

from swapstone.record.reader import RecordView, check_raw, load
from swapstone.record.record_format import SCHEMA, Artifact, Damage, Manifest, Meta, Seal, manifest_differences
from swapstone.record.record_paths import default_root, find_record, list_records, new_record_path, record_name
from swapstone.record.writer import RecordWriter

__all__ = [
    "SCHEMA",
    "Artifact",
    "Damage",
    "Manifest",
    "Meta",
    "RecordView",
    "RecordWriter",
    "Seal",
    "check_raw",
    "default_root",
    "find_record",
    "list_records",
    "load",
    "manifest_differences",
    "new_record_path",
    "record_name",
]
