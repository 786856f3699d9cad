# SPDX-License-Identifier: MIT OR Apache-2.0
"""The decoders under atheris, which adds libFuzzer to Python: inputs that reach new code are kept and changed further.

libFuzzer ends its process, so each decoder has a process of its own, forked after the modules were instrumented.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import struct
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import atheris
from tools.fuzz_outcome import LIMIT_S, Defect, Outcome, keep, libfuzzer_folders

if TYPE_CHECKING:
    from tools.fuzz_decoders import Decoder

_COUNTS = struct.Struct("<QQ")
_MOST_BYTES = 1 << 16
_MEMORY_MB = 4096


def import_decoders() -> None:
    """Import the decoders, and what they use of Swapstone and pyelftools, with instrumentation."""
    # atheris prints a line for each module.
    silent = contextlib.redirect_stderr(io.StringIO())
    with silent, atheris.instrument_imports(include=["swapstone", "benchmarks", "elftools"]):
        import tools.fuzz_decoders  # noqa: F401, PLC0415 # imported here to be instrumented


def guide(chosen: Sequence[Decoder], seconds: float, seed: int) -> list[Outcome]:
    """Run each decoder in a process of its own for its part of the time."""
    from tools.fuzz_decoders import scratch_folder  # noqa: PLC0415 # imported with instrumentation before

    scratch_folder()  # made here, because the processes end without removing theirs
    return [_guided(decoder, seconds / len(chosen), seed) for decoder in chosen]


def _guided(decoder: Decoder, seconds: float, seed: int) -> Outcome:
    inputs = (*decoder.seeds(), *decoder.refused)
    corpus, seeds, found = libfuzzer_folders(decoder.name.replace(" ", "-"), inputs)
    arguments = [
        *("fuzz", f"-max_total_time={max(1, round(seconds))}", f"-seed={seed % (1 << 31) or 1}"),
        *(f"-max_len={_MOST_BYTES}", f"-timeout={round(2 * LIMIT_S)}", f"-rss_limit_mb={_MEMORY_MB}"),
        *(f"-artifact_prefix={found}/", "-print_final_stats=0", str(corpus), str(seeds)),
    ]
    counts = mmap.mmap(-1, _COUNTS.size)
    start = time.monotonic()
    process = os.fork()
    if process == 0:
        _run(decoder, arguments, counts, found)
    os.waitpid(process, 0)
    executions, accepted = _COUNTS.unpack_from(counts)
    return Outcome(
        decoder.name, decoder.origin, executions, accepted, time.monotonic() - start, _defects(decoder, found)
    )


def _run(decoder: Decoder, arguments: list[str], counts: mmap.mmap, found: Path) -> None:
    """Fuzz in this process; it ends here."""
    from tools.fuzz_decoders import is_empty  # noqa: PLC0415 # imported with instrumentation before

    done = [0, 0]
    log = os.open(found / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def one(data: bytes) -> None:
        if decoder.repair is not None and len(data) % 2:
            data = decoder.repair(data)
        done[0] += 1
        try:
            done[1] += not is_empty(decoder.decode(data))
        except decoder.errors:
            pass
        except Exception:
            (found / "input").write_bytes(data)
            (found / "traceback").write_text(traceback.format_exc())
            raise
        finally:
            _COUNTS.pack_into(counts, 0, *done)

    atheris.Setup(arguments, one)
    atheris.Fuzz()
    os._exit(0)


def _defects(decoder: Decoder, found: Path) -> tuple[Defect, ...]:
    """Return what a process left: an input with its traceback, or the input of a time-out or of too much memory."""
    if (found / "input").is_file():
        return (keep(decoder, (found / "input").read_bytes(), (found / "traceback").read_text()),)
    left = sorted(path for path in found.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-")))
    reports = (f"libFuzzer ended the process: {path.name.partition('-')[0]}" for path in left)
    return tuple(keep(decoder, path.read_bytes(), report) for path, report in zip(left, reports, strict=True))
