"""Where records are, and how a user names one."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

from swapstone.model import RecordError, unknown
from swapstone.record import layout

ROOT_VARIABLE = "SWAPSTONE_RECORDS"


def default_root() -> Path:
    """Return the folder of records: ``$SWAPSTONE_RECORDS``, or ``records`` in the current folder."""
    return Path(os.environ.get(ROOT_VARIABLE) or "records")


def list_records(root: Path | None = None) -> tuple[Path, ...]:
    """Return the folders under the root that are records, oldest first."""
    folder = root or default_root()
    if not folder.is_dir():
        return ()
    found = (path for path in folder.iterdir() if (path / layout.META).is_file())
    return tuple(sorted(found, key=lambda path: ((path / layout.META).stat().st_mtime_ns, path.name)))


def find_record(text: str) -> Path:
    """Turn what a user typed into a record's folder.

    Args:
        text: a path, the name of a folder under the root, or ``last``.

    Raises:
        RecordError: there is no record there; names the nearest ones.
    """
    if text == "last":
        records = list_records()
        if not records:
            raise RecordError(
                f"There are no records in {default_root()}.", "Make one: swapstone compare libc=glibc,musl"
            )
        return records[-1]
    for candidate in (Path(text), default_root() / text):
        if (candidate / layout.META).is_file():
            return candidate
    if Path(text).exists():
        raise RecordError(
            f"{text} is not a record: it has no {layout.META}.", "`swapstone list records` shows those that exist."
        )
    error = unknown("record", text, [path.name for path in list_records()])
    raise RecordError(error.message, error.hint)


def new_record_path(name: str) -> Path:
    """Return a folder under the root that does not exist yet, named by the time and the experiment."""
    slug = re.sub(r"[^A-Za-z0-9=.,_-]+", "-", name).strip("-")[:60] or "experiment"
    stem = f"{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}-{slug}"
    candidates = (stem if attempt == 1 else f"{stem}-{attempt}" for attempt in range(1, 1000))
    return next(path for path in (default_root() / name for name in candidates) if not path.exists())
