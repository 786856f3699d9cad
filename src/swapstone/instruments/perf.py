"""Recording with perf, and reading the recording."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from swapstone.instruments import perf_script, requirements
from swapstone.instruments.measured_region import MARKER, Windows, windows
from swapstone.instruments.perf_script import Event
from swapstone.instruments.traced_run import Ended, run
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import UnavailableError, UserError

COMM_BYTES = 15
_DATA = "perf.data"
_SCRIPT_S = 600


class TooLargeError(Exception):
    """A recording that would take too long to read.

    Attributes:
        times: how much larger it is than it may be.
    """

    def __init__(self, times: float) -> None:
        super().__init__(f"{times:.1f} times too large")
        self.times = times


@dataclasses.dataclass(frozen=True)
class Recording:
    """What perf recorded of a run.

    Attributes:
        events: ascending by time.
        windows: where the work is.
        ended: how the run ended.
        lost: records that the kernel had no room for.
        command: what was run, as one would type it.
    """

    events: list[Event]
    windows: Windows
    ended: Ended
    lost: int
    command: str


def need(*, tracepoints: bool) -> tuple[str, ...]:
    """Return the command that perf is started through.

    Raises:
        UnavailableError: perf can't be used here, or no tracepoints.
    """
    barrier = requirements.perf_barrier()
    wrapper: tuple[str, ...] = ()
    if barrier is None and tracepoints:
        found = requirements.tracing_wrapper()
        barrier, wrapper = (found, ()) if isinstance(found, requirements.Barrier) else (None, found)
    if barrier is not None:
        raise UnavailableError(barrier.reason, barrier.mend)
    return wrapper


def record(
    subject: Subject,
    options: Sequence[str],
    folder: Path,
    *,
    tracepoints: bool = False,
    before: Sequence[str] = (),
    most_bytes: int | None = None,
) -> Recording:
    """Record a run.

    Args:
        subject: what to run.
        options: of ``perf record``: events, stacks.
        folder: scratch.
        tracepoints: whether one of the events is a tracepoint.
        before: what to start perf through instead of what `need` says.
        most_bytes: that are read.

    Raises:
        TooLargeError: perf wrote more than that.
        UnavailableError: it can't be done here.
        UserError: the program, or perf, failed.
    """
    marked = subject.region is Region.PASSES
    wrapper = tuple(before) or need(tracepoints=tracepoints or marked)
    markers = ("-e", MARKER) if marked else ()
    if subject.region is Region.DRIVEN:
        markers = ("-k", "CLOCK_MONOTONIC")  # the clock by which the driver's start and end are noted
    data = folder / _DATA
    attached = (
        ("-p", str(subject.pid), "--", "sleep", str(subject.seconds)) if subject.region is Region.ATTACHED else ("--",)
    )
    command = (*wrapper, "perf", "record", "-q", "-o", str(data), *options, *markers, *attached)
    ended = run(command, subject, folder)
    if (ended.status != 0 and ended.driven is None) or not data.is_file():
        said = ended.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise UserError(f"perf record ended with status {ended.status}; its last words: {said[0][:200]}")
    try:
        if most_bytes is not None and (size := data.stat().st_size) > most_bytes:
            raise TooLargeError(size / most_bytes)
        events = read(data)
    finally:
        data.unlink()
    name = Path(subject.program).name[:COMM_BYTES]
    where = (
        Windows(((ended.driven.start_ns, ended.driven.end_ns),))
        if ended.driven is not None
        else windows(events, subject.region, name)
    )
    if not where.pieces:
        raise UserError("The recording holds no sign of where the work begins and ends.")
    lost = sum(int(event.trace) for event in events if event.what == "lost")
    shown = " ".join(("perf", "record", *options, *markers, "--", *subject.request.arguments))
    return Recording(events, where, ended, lost, shown)


def read(data: Path) -> list[Event]:
    """Read a recording.

    Raises:
        UserError: perf can't read it.
    """
    command = ("perf", "script", "-i", str(data), "-F", perf_script.FIELDS, *perf_script.FLAGS)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        events = list(perf_script.events(process.stdout))
    if process.returncode != 0:
        raise UserError(f"perf script ended with status {process.returncode}.")
    return once(sorted(events, key=lambda event: event.time_ns))


def once(events: Sequence[Event]) -> list[Event]:
    """Drop records that are there twice.

    Of a long recording perf now and then gives a few records a second time (of 300,000, up to 22 were seen), the same to the ns.
    A thread does nothing twice in one ns.

    Args:
        events: ascending by time.

    Returns:
        Each of them once, in the same order.
    """
    kept: list[Event] = []
    now: set[Event] = set()
    for event in events:
        if kept and event.time_ns != kept[-1].time_ns:
            now.clear()
        if event not in now or event.what == "lost":
            kept.append(event)
        now.add(event)
    return kept


def lost_note(recording: Recording, of: Iterable[str]) -> tuple[str, ...]:
    """Say how many records were lost, if any were."""
    kept = sum(event.what in set(of) for event in recording.events)
    if not recording.lost:
        return ()
    return (f"{recording.lost} records were lost beside {kept} that were kept: the kernel's buffer was full",)
