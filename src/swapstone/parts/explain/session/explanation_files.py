# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of an explained row, beside its record: the evidence with its manifest, what is computed from it, and evidence of claims."""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from swapstone.core.comparison.profile_difference import ProfileDifference
from swapstone.core.model import UserError
from swapstone.core.model.frozen_struct import amount_problem
from swapstone.core.model.profile import Profile
from swapstone.core.model.safe_text import utf8_path
from swapstone.core.record import FileProblemError, RecordFolder, RecordView, open_folder, replace_in
from swapstone.core.report import formatting
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.render import html, markdown
from swapstone.core.report.tables import Range, Ranges
from swapstone.core.session.explainer import PAGE
from swapstone.parts.explain.explanation.machine_answer import (
    counted_difference,
    explain_counts,
    explain_wakeups,
    traced_difference,
)
from swapstone.parts.explain.explanation.profile_formats import folded, folded_difference, pprof
from swapstone.parts.explain.explanation.row_answer import explain_measurements
from swapstone.parts.explain.explanation.time_split import measured_difference, run_of
from swapstone.parts.explain.model.explanation import (
    CountedRow,
    Explanation,
    RowKey,
    RowMeasurements,
    TracedRow,
)
from swapstone.parts.explain.report import flame_graph
from swapstone.parts.explain.report.explanation_document import Evidence, document_of, summary_of, to_json
from swapstone.parts.explain.report.explanations import FOLDER
from swapstone.version import __version__


class EvidenceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that explain a row. None of them is a trial of the record.

    Attributes:
        record: its identity.
        chain: of the record's last run. If the record was resumed since, the evidence is out of date.
        swapstone, created: the version that wrote it, and the time.
        place: the row.
        seen: SHA-256 of the file with the evidence.
    """

    record: str
    chain: str
    swapstone: str
    created: str
    place: RowKey
    seen: str


SEEN, MANIFEST = "seen.json", "manifest.json"
KINDS = ("on-cpu", "off-cpu", "syscalls", "instructions")
SIDES = ("baseline", "candidate")
EXPLANATION = "explanation.json"

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")
"""A file of `replace_in` that a kill left."""
_ALL = re.compile(r"(?s:.*)")
PAGES = (
    (PAGE, "all of it"),
    *((f"{kind}-difference.html", f"flame graph {kind}") for kind in KINDS),
)
"""The pages that a report links to, each with the text of the link."""


Decoded = TypeVar("Decoded")
Stored = TypeVar("Stored", bound=Evidence)


class EvidenceKind(NamedTuple):
    """What is done with a type of evidence.

    Attributes:
        file: in which it is stored.
        explain: explains a row by it.
        compare: returns the whole difference of both variants by function; None without profiles of both.
        no_profile: why a kind of profile is missing of which it never has one, and what to do.
        sides: its fields with a variant's label in each.
    """

    file: str
    explain: Callable[[Any], Explanation]
    compare: Callable[[Any], ProfileDifference | None]
    no_profile: tuple[str, str]
    sides: tuple[str, ...] = ("sides",)


KINDS_OF_EVIDENCE: Mapping[type[Any], EvidenceKind] = {
    CountedRow: EvidenceKind(
        "instructions.json",
        explain_counts,
        counted_difference,
        (
            "records on the exact clock have instructions by call path",
            "Write those: swapstone profile RECORD --instructions",
        ),
    ),
    TracedRow: EvidenceKind(
        "wakeups.json",
        explain_wakeups,
        traced_difference,
        (
            "a row of latencies is explained by the path of its worst wake-up",
            "Write its instructions: swapstone profile RECORD --instructions",
        ),
    ),
    RowMeasurements: EvidenceKind(
        SEEN,
        explain_measurements,
        measured_difference,
        ("callgrind counts them without their callers", ""),
        ("references", "runs"),
    ),
}


def folder_of(view: RecordView, place: RowKey) -> Path:
    """Return the folder of a row's evidence."""
    text = f"{place.workload}-{place.metric}-{place.candidate}"
    slug = re.sub(r"[^A-Za-z0-9=,._-]+", "-", text).strip("-")[:80]
    return view.path / FOLDER / f"{slug}-{place.digest()[:6]}"


def read(
    folder: Path, view: RecordView, kind: type[Stored], note: Callable[[str], None] = lambda _: None
) -> Stored | None:
    """Return what was observed of a row.

    Args:
        folder: of the row.
        view: the record.
        kind: of which type it is.
        note: called with the reason why measurements that are stored can't be used.

    Returns:
        None if there is none, if the record was resumed since, or if its files can't be read or contradict themselves.
    """
    try:
        with RecordFolder(view.path) as record:
            return _stored(record, f"{FOLDER}/{folder.name}", view, kind, note)
    except FileProblemError as error:
        note(f"the stored evidence of this row can't be read: {error}")
    return None


def _stored(
    record: RecordFolder,
    folder: str,
    view: RecordView,
    kind: type[Stored],
    note: Callable[[str], None] = lambda _: None,
) -> Stored | None:
    """Return what was observed, from a folder of the record; as `read`."""
    data = record.read(f"{folder}/{KINDS_OF_EVIDENCE[kind].file}")
    stamp = record.read(f"{folder}/{MANIFEST}") if kind is RowMeasurements else data
    if stamp is None:
        return None
    found, manifest = _decoded(data, kind), _decoded(stamp, EvidenceManifest) if kind is RowMeasurements else None
    stamped = manifest is not None and hashlib.sha256(data or b"").hexdigest() == manifest.seen
    fits = found is not None and not found.problem() and (stamped or kind is not RowMeasurements)
    chain = manifest.chain if manifest is not None else getattr(found, "chain", view.last_chain)
    if chain != view.last_chain:
        note("the record was continued since its evidence was stored")
    elif not fits:
        note("the stored evidence of this row is damaged, or was edited")
    else:
        return found
    return None


def _decoded(data: bytes | None, kind: type[Decoded]) -> Decoded | None:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None if data is None or amount_problem(data) else msgspec.json.decode(data, type=kind)
    return None


def reasons_of(view: RecordView, beside: Path | None = None) -> tuple[ExplanationSummary, ...]:
    """Return summaries of the explained rows of a record, as `stored_rows` has them.

    Args:
        view: the record.
        beside: the folder of the report that links to the pages; None for paths that start with the record's.
    """
    found = []
    for name, evidence, pages in stored_rows(view):
        folder = view.path / FOLDER / name
        relative = "" if beside is None else os.path.relpath(folder.resolve(), beside.resolve())
        base = quote(os.fsencode(relative)) if relative else utf8_path(folder)
        found.append(summary_of(explain(evidence), [(f"{base}/{page}", words) for page, words in pages]))
    return tuple(found)


def stored_rows(view: RecordView) -> Iterator[tuple[str, Evidence, list[tuple[str, str]]]]:
    """Yield the explained rows of a record: the name of the folder, what was observed, and those of `PAGES` that are there.

    They are sorted by the names. Rows with evidence from before the record was resumed are left out, and those whose files can't be read.
    """
    with contextlib.suppress(FileProblemError), RecordFolder(view.path) as record:
        for name in record.subfolders(FOLDER):
            with contextlib.suppress(FileProblemError):
                folder = f"{FOLDER}/{name}"
                found = [
                    each for kind in KINDS_OF_EVIDENCE if (each := _stored(record, folder, view, kind)) is not None
                ]
                if found:
                    yield name, found[0], [page for page in PAGES if record.is_regular(f"{folder}/{page[0]}")]


def explain(evidence: Evidence) -> Explanation:
    """Explain a row by what was observed of it. Sentences have the labels of `RowKey.shown`."""
    place, kind = evidence.place, KINDS_OF_EVIDENCE[type(evidence)]
    names = dict(zip((place.baseline, place.candidate), place.shown, strict=True))
    shown = msgspec.structs.replace(place, baseline=place.shown[0], candidate=place.shown[1])
    relabelled = {
        field: tuple(
            msgspec.structs.replace(each, variant=names.get(each.variant, each.variant))
            for each in getattr(evidence, field)
        )
        for field in kind.sides
    }
    found = kind.explain(msgspec.structs.replace(evidence, place=shown, **relabelled))
    return msgspec.structs.replace(found, place=place)


def compare(evidence: Evidence) -> ProfileDifference | None:
    """Return the whole difference of both variants by function; None without profiles of both."""
    return KINDS_OF_EVIDENCE[type(evidence)].compare(evidence)


def store(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what was observed, in the place of an earlier explanation and of everything that was computed from it.

    Args:
        folder: of the row.
        files: content by name.

    Raises:
        UserError: the record's folder can't be written.
    """
    write(folder, files.items(), obsolete=_ALL)


def write(
    folder: Path, files: Iterable[tuple[str, str | bytes]], *, obsolete: re.Pattern[str] = _TEMPORARY
) -> list[Path]:
    """Write everything that is computed from what was observed, and return the files.

    Args:
        folder: of the row.
        files: pairs (name, content).
        obsolete: names of files that are removed before.

    Raises:
        UserError: the record's folder can't be written.
    """
    written = []
    with open_evidence_folder(folder) as opened:
        for old in filter(obsolete.fullmatch, os.listdir(opened)):  # noqa: PTH208 - of a descriptor
            os.unlink(old, dir_fd=opened)  # of a link, the link
        for name, content in files:
            replace_in(
                opened, name, content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
            )
            written.append(folder / name)
    return written


def evidence_files(view: RecordView, observed: Evidence) -> dict[str, bytes]:
    """Return what was observed of a row as it is stored: content by name. Measurements have a manifest."""
    files = {KINDS_OF_EVIDENCE[type(observed)].file: observed.encoded()}
    if isinstance(observed, RowMeasurements):
        manifest = EvidenceManifest(
            record=view.meta.id,
            chain=view.last_chain,
            swapstone=__version__,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            place=observed.place,
            seen=hashlib.sha256(files[SEEN]).hexdigest(),
        )
        files[MANIFEST] = msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1)
    return files


def evidence_pages(observed: Evidence, explanation: Explanation) -> Iterator[tuple[str, str | bytes]]:
    """Yield everything that is computed from evidence: name and content."""
    yield EXPLANATION, to_json(explanation, observed)
    yield "explanation.md", markdown.render(document_of(explanation))
    pages, place = [], observed.place
    for kind in KINDS:
        pair = profiles(observed, kind)
        notes = flame_graph.total_notes(pair, explanation.time)
        graphs = list(_graphs(kind, place.workload, (place.baseline, place.candidate), pair, notes=notes))
        yield from graphs
        pages += [(name, kind) for name, _ in graphs if name == f"{kind}-difference.html"]
    yield PAGE, html.render(document_of(explanation, pages))


@contextlib.contextmanager
def open_evidence_folder(folder: Path) -> Iterator[int]:
    """Open the folder of a row's evidence, which is created, through no symbolic link inside the record.

    Yields:
        A descriptor.

    Raises:
        UserError: it, or the folder of all explanations, is a link or a file, or can't be written.
    """
    try:
        opened = open_folder(folder.parent.parent, folder.parent.name, folder.name, create=True)
        try:
            yield opened
        finally:
            os.close(opened)
    except OSError as error:
        for part in (folder.parent, folder):
            if part.is_symlink():
                raise UserError(
                    f"{part} is a symbolic link: nothing is written through it, and nothing was removed.",
                    f"Remove the link, if you trust the record: rm {shlex.quote(str(part))}",
                ) from error
        if error.errno == errno.EISDIR:
            place = shlex.quote(str(folder / str(error.filename2 or error.filename)))
            raise UserError(
                f"{place} is a folder, where a file is written or removed. Nothing in it was changed.",
                f"Remove it, if you do not need it: rm -r {place}",
            ) from error
        raise UserError(
            f"{folder} can't be written: {error.strerror}.", "Copy the record to a folder that you can write."
        ) from error


def _graphs(
    kind: str,
    workload: str,
    variants: tuple[str, str],
    pair: tuple[Profile | None, Profile | None],
    *,
    notes: tuple[str, ...] = (),
) -> Iterator[tuple[str, str | bytes]]:
    """Yield the files of a kind of profile: name and content. The notes are of the difference."""
    for side, variant, profile in zip(SIDES, variants, pair, strict=True):
        if profile is not None and profile.stacks:
            title = f"{kind} {workload} {variant}"
            yield f"{kind}-{side}.folded", folded(profile)
            yield f"{kind}-{side}.pb.gz", pprof(profile)
            yield f"{kind}-{side}.html", flame_graph.page(title, profile, None)
    before, after = pair
    if before is not None and after is not None and (before.stacks or after.stacks):
        title = f"{kind} {workload}: {variants[1]} against {variants[0]}"
        yield f"{kind}-difference.folded", folded_difference(before, after)
        yield f"{kind}-difference.pb.gz", pprof(before, after)
        yield f"{kind}-difference.html", flame_graph.page(title, before, after, notes)


def profiles(observed: Evidence, kind: str) -> tuple[Profile | None, Profile | None]:
    """Return both sides' profiles of a kind. A side that was profiled and has no such stack has an empty profile."""
    if isinstance(observed, RowMeasurements):
        before, after = (_profile(observed, kind, each.variant) for each in observed.references)
        return before, after
    return (None, None) if kind != "instructions" or observed.no_paths else observed.profiles


def _profile(seen: RowMeasurements, kind: str, variant: str) -> Profile | None:
    run = run_of(seen, kind, variant)
    if run is None or kind == "instructions" or (run.notes and "strace" in run.notes[0]):
        return None
    unit = "1" if kind == "syscalls" else "ns"
    return run.profile or Profile(kind=kind, unit=unit, operations=run.operations, frames=(), stacks=())


def explained_evidence(view: RecordView) -> dict[str, Ranges]:
    """Return what yields the evidence of ``stacks``: of the rows that `swapstone explain` has stored."""
    return evidence_of([row for _, row, _ in stored_rows(view) if isinstance(row, RowMeasurements)])


def evidence_of(profiled: Sequence[RowMeasurements]) -> dict[str, Ranges]:
    """Return what yields the evidence of ``stacks``.

    A test has the attributes `suite`, `workload`, `load` and `metric` of the row, and its two `sides`, the kind `profile` of the profile,
    and the names `functions`, one of which a stack must have.

    Args:
        profiled: rows that `swapstone explain` has run under instruments.
    """
    return {"stacks": lambda test: _stacks(test, profiled)}


def _stacks(test: Any, rows: Sequence[RowMeasurements]) -> Iterator[Range]:  # noqa: ANN401 - as `Ranges`
    side, _ = test.sides
    profiles = (
        run.profile
        for row in rows
        for run in row.runs
        if (row.place.suite, row.place.workload, row.place.load) == (test.suite, test.workload, test.load)
        and run.instrument == test.profile
        and side.has_label(run.variant)
    )
    for profile in profiles:
        if profile and profile.total > 0:
            wanted = {number for number, frame in enumerate(profile.frames) if frame.symbol in test.functions}
            share = sum(stack.weight for stack in profile.stacks if wanted.intersection(stack.frames)) / profile.total
            what = "processor time" if test.profile == "on-cpu" else "waits"
            text = f"{formatting.percent(share)} of the {what} in {' or '.join(test.functions)}, and what they call"
            yield share, share, f"{test.workload}, {side.text}: {text}"
