# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of an explained row, beside its record: the evidence with its manifest, and the explanation computed from it."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from swapstone.explanation import CostClasses, folded, folded_difference, speedscope
from swapstone.explanation.ledger import run_of
from swapstone.model import Explanation, FrozenStruct, Profile, RowKey, RowMeasurements, UserError
from swapstone.record import RecordView
from swapstone.report import flame_graph, row_explanation
from swapstone.report.context import ExplanationSummary
from swapstone.report.render import html, markdown
from swapstone.version import __version__

FOLDER = "explain"
SEEN, MANIFEST = "seen.json", "manifest.json"
KINDS = ("on-cpu", "off-cpu", "allocations", "syscalls")
SIDES = ("baseline", "candidate")
EXPLANATION = "explanation.json"
PAGES = (
    ("explanation.html", "all of it"),
    *((f"{kind}-difference.html", f"flame graph {kind}") for kind in KINDS),
)
"""The pages that a report links to, each with the text of the link."""


class _ExplanationFile(msgspec.Struct):
    """The part of `EXPLANATION` that a report shows; the file has other keys too."""

    explanation: Explanation


class EvidenceRun(FrozenStruct, frozen=True, kw_only=True):
    """One run under an instrument, as the manifest lists it."""

    instrument: str
    tool: str
    variant: str
    command: str
    operations: float
    overhead: float | None


class EvidenceManifest(FrozenStruct, frozen=True, kw_only=True):
    """The runs that explain a row. None of them is a trial of the record.

    Attributes:
        record: its identity.
        chain: of the record's last run. If the record was resumed since, the evidence is out of date.
        swapstone, created: the version that wrote it, and the time.
        place: the row.
        programs: pairs (variant, SHA-256 of the file that ran).
        seen: SHA-256 of `SEEN`.
        runs: one for each variant and instrument.
    """

    record: str
    chain: str
    swapstone: str
    created: str
    place: RowKey
    programs: tuple[tuple[str, str], ...]
    seen: str
    runs: tuple[EvidenceRun, ...]


def folder_of(view: RecordView, place: RowKey) -> Path:
    """Return the folder of a row's evidence."""
    text = f"{place.workload}-{place.metric}-{place.candidate}"
    slug = re.sub(r"[^A-Za-z0-9=,._-]+", "-", text).strip("-")[:80]
    return view.path / FOLDER / f"{slug}-{place.digest()[:6]}"


def read(folder: Path, view: RecordView) -> RowMeasurements | None:
    """Return the stored evidence of a row; None if there is none, or if the record was resumed since."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=EvidenceManifest)
        data = (folder / SEEN).read_bytes()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if manifest.chain != view.last_chain or manifest.seen != hashlib.sha256(data).hexdigest():
        return None
    try:
        return msgspec.json.decode(data, type=RowMeasurements)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def reasons_of(view: RecordView, beside: Path | None = None) -> tuple[ExplanationSummary, ...]:
    """Return summaries of the explained rows of a record, sorted by the names of their folders.

    Rows with evidence from before the record was resumed are left out.

    Args:
        view: the record.
        beside: the folder of the report that links to the pages; None for paths that start with the record's.
    """
    found = []
    for folder in sorted(path for path in (view.path / FOLDER).glob("*") if path.is_dir()):
        if read(folder, view) is None:
            continue
        try:
            kept = msgspec.json.decode((folder / EXPLANATION).read_bytes(), type=_ExplanationFile)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        base = str(folder) if beside is None else quote(os.path.relpath(folder.resolve(), beside.resolve()))
        pages = [(f"{base}/{name}", words) for name, words in PAGES if (folder / name).is_file()]
        found.append(row_explanation.summary_of(kept.explanation, pages))
    return tuple(found)


def store(folder: Path, view: RecordView, seen: RowMeasurements) -> None:
    """Write the evidence and its manifest.

    Raises:
        UserError: the record's folder can't be written.
    """
    data = seen.encoded()
    manifest = EvidenceManifest(
        record=view.meta.id,
        chain=view.last_chain,
        swapstone=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        place=seen.place,
        programs=tuple((side.variant, side.program_sha256) for side in seen.references),
        seen=hashlib.sha256(data).hexdigest(),
        runs=tuple(
            EvidenceRun(
                instrument=run.instrument,
                tool=run.tool,
                variant=run.variant,
                command=run.command,
                operations=run.operations,
                overhead=run.overhead,
            )
            for run in seen.runs
        ),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        (folder / SEEN).write_bytes(data)
        (folder / MANIFEST).write_bytes(msgspec.json.format(manifest.encoded(), indent=1))
    except OSError as error:
        raise UserError(
            f"{folder} can't be written: {error.strerror}.", "Copy the record to a folder that you can write."
        ) from error


def write(folder: Path, seen: RowMeasurements, explanation: Explanation, classes: CostClasses) -> list[Path]:
    """Write everything that is computed from the evidence, and return the files."""
    written = []
    for name, content in _files(seen, explanation, classes):
        path = folder / name
        path.write_text(content, encoding="utf-8")
        written.append(path)
    return written


def _files(seen: RowMeasurements, explanation: Explanation, classes: CostClasses) -> Iterator[tuple[str, str]]:
    yield EXPLANATION, row_explanation.to_json(seen, explanation)
    yield "explanation.md", markdown.render(row_explanation.document_of(seen, explanation))
    pages = []
    for kind in KINDS:
        pair = profiles(seen, kind)
        for side, reference, profile in zip(SIDES, seen.references, pair, strict=True):
            if profile is not None and profile.stacks:
                title = f"{kind} {seen.place.workload} {reference.variant}"
                yield f"{kind}-{side}.folded", folded(profile)
                yield f"{kind}-{side}.speedscope.json", speedscope(profile, title)
                yield f"{kind}-{side}.html", flame_graph.page(title, profile, None, classes)
        before, after = pair
        if before is not None and after is not None and (before.stacks or after.stacks):
            title = f"{kind} {seen.place.workload}: {seen.references[1].variant} against {seen.references[0].variant}"
            yield f"{kind}-difference.folded", folded_difference(before, after)
            yield f"{kind}-difference.html", flame_graph.page(title, before, after, classes)
            pages.append((f"{kind}-difference.html", kind))
    yield "explanation.html", html.render(row_explanation.document_of(seen, explanation, pages))


def profiles(seen: RowMeasurements, kind: str) -> tuple[Profile | None, Profile | None]:
    """Return both sides' profiles of a kind. A side that was profiled and has no such stack has an empty profile."""
    found: list[Profile | None] = []
    for reference in seen.references:
        run = run_of(seen, kind, reference.variant)
        if run is None:
            found.append(None)
        else:
            unit = {"allocations": "B", "syscalls": "1"}.get(kind, "ns")
            empty = Profile(kind=kind, unit=unit, operations=run.operations, frames=(), stacks=())
            found.append(run.profile or (None if run.notes and "strace" in run.notes[0] else empty))
    return found[0], found[1]
