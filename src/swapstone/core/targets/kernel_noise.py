# SPDX-License-Identifier: MIT OR Apache-2.0
"""Noise of the kernel and of the hardware, as the target's own rtla measures it with the kernel's tracer osnoise.

A thread on each processor reads the clock in a loop, and the tracer counts what interrupts it: interrupts, other threads, and what it can't
attribute to the kernel, which is the hardware or a hypervisor (Documentation/trace/osnoise-tracer.rst; rtla-osnoise-top(1) and
rtla-hwnoise(1)). ``rtla hwnoise`` disables interrupts meanwhile, so that the last kind remains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.target import MachineConfig, Target
from swapstone.core.wire import ProcessOutcome, TrialRequest

OSNOISE, HWNOISE = "osnoise", "hwnoise"
TOOLS: Mapping[str, str] = {OSNOISE: "rtla osnoise top", HWNOISE: "rtla hwnoise"}
"""The commands of rtla by the name that reports print."""

DURATION_S = 5
_SLACK_MS = 60_000
_MOST_BYTES = 64 << 10
FOLDERS = "/sys/kernel/tracing /sys/kernel/debug/tracing"
"""Where tracefs is mounted (Documentation/trace/ftrace.rst)."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the target's rtla is searched."""

_PROBE = """
for folder in @FOLDERS@; do [ -e "$folder/available_tracers" ] && break; done
if [ -e "$folder/available_tracers" ]; then
    echo tracers $(cat "$folder/available_tracers" 2>/dev/null || echo '?')
fi
if command -v rtla >/dev/null; then
    echo rtla
    case $(rtla -h 2>&1) in *hwnoise*) echo hwnoise ;; esac
fi
case $(id -u 2>/dev/null) in 0) echo root ;; esac
"""

_BUSY = MachineConfig(real_time=True)
"""The tracer's threads occupy all processors, for hwnoise with interrupts disabled: a board's ssh server may answer late."""

_ROW = re.compile(
    r"^ {0,4}(?P<cpu>[0-9]{1,5}) #(?P<cycles>[0-9]{1,12}) +(?P<runtime>[0-9]{1,15}) +(?P<noise>[0-9]{1,15}) +[0-9]{1,3}\.[0-9]{5}"
    r" *(?P<period>[0-9]{1,12}) +(?P<single>[0-9]{1,12}) +(?P<hardware>[0-9]{1,12}) +(?P<nmi>[0-9]{1,12})(?: +[0-9]{1,12}){0,3} *$",
    re.ASCII | re.MULTILINE,
)
"""A processor's row of rtla's table, since Linux 5.17: osnoise_top_print in tools/tracing/rtla/src/osnoise_top.c. Numbers are 12 wide, and
not all have a space between them: ten digits of the longest interruption still leave some."""

_MISSED = re.compile(r" events missed,")
"""What `osnoise_report_missed_events` of rtla prints below the table if the tracer's buffer overflowed."""

_COLOURS = re.compile(r"\x1b\[[0-9;]{0,12}m", re.ASCII)


class KernelNoise(FrozenStruct, frozen=True, kw_only=True):
    """What a command of rtla measured, over all processors.

    Attributes:
        processors: how many were measured.
        runtime_us: how long their threads were busy, all together.
        noise_us: how much of that they did not get.
        longest_us: the longest single interruption.
        hardware: how often something interrupted a thread that was none of the kernel's.
        missed: whether rtla lost some of the tracer's events.
    """

    processors: int
    runtime_us: int
    noise_us: int
    longest_us: int
    hardware: int
    missed: bool = False

    def text(self, command: str) -> str:
        """Return one sentence; `command` is that of rtla."""
        share = 100 * self.noise_us / self.runtime_us
        each = "processor" if self.processors == 1 else "processors"
        return (
            f"{command}, {DURATION_S} s on {self.processors} {each} before the trials: {share:.2g} % of the time lost, at most "
            f"{self.longest_us} us at once; {self.hardware} interruptions by the hardware or a hypervisor"
            + ("; rtla lost some events, so all of these may be larger" if self.missed else "")
        )


def unavailable(target: Target) -> dict[str, str]:
    """Return why the commands of `TOOLS` can't measure on a target; an empty text for each that can.

    Args:
        target: one that runs commands of a shell, such as this machine or a board.
    """
    try:
        answer = target.run(_request(target, "probe-noise", _PROBE.replace("@FOLDERS@", FOLDERS), 0))
    except UserError as error:
        return dict.fromkeys(TOOLS, error.message)
    words: dict[str, list[str]] = {}
    for line in answer.stdout.decode(errors="replace").splitlines():
        name, *rest = line.split()[:200] or [""]
        words[name] = rest
    return {name: _reason(name, words) for name in TOOLS}


def _reason(name: str, words: Mapping[str, list[str]]) -> str:
    tracers = words.get("tracers")
    if tracers is None:
        root = "root" in words
        mount = "mount -t tracefs none /sys/kernel/tracing"
        return f"the kernel shows no tracers: it has none, or needs `{mount}`" if root else "tracefs needs root"
    if OSNOISE not in tracers:
        return "tracefs needs root" if "?" in tracers else "the kernel has no tracer osnoise (CONFIG_OSNOISE_TRACER)"
    if "rtla" not in words:
        return "rtla is not installed there"
    if name == HWNOISE and HWNOISE not in words:
        return "this rtla has no command hwnoise; osnoise counts interruptions by the hardware too"
    return ""


def measure(target: Target) -> dict[str, str]:
    """Return what the commands of `TOOLS` measure on a target that does nothing else, as sentences; ``unavailable: `` and the reason."""
    found = {}
    for name, reason in unavailable(target).items():
        found[name] = f"unavailable: {reason}" if reason else _measured(target, name)
    return found


def _measured(target: Target, name: str) -> str:
    command = TOOLS[name]
    script = f"exec {command} -q -d {DURATION_S} 2>&1"
    try:
        answer = target.run(_request(target, name, script, DURATION_S), _BUSY)
    except UserError as error:
        return f"unavailable: {command}: {error.message}"
    text = answer.stdout.decode(errors="replace")
    noise = read_table(text)
    if noise is None or answer.outcome is not ProcessOutcome.EXITED or answer.code != 0:
        lines = text.strip().splitlines()
        last = safe_excerpt(_COLOURS.sub("", lines[-1]).strip(), 100) if lines else "nothing"
        return f"unavailable: {command} printed {last!r}"
    return noise.text(command)


def read_table(text: str) -> KernelNoise | None:
    """Return the sums over the rows of rtla's table; None if it has none, or a row in which nothing was measured."""
    rows = [
        {name: int(value) for name, value in match.groupdict().items()}
        for match in _ROW.finditer(_COLOURS.sub("", text))
    ]
    if not rows or any(not row["runtime"] or row["noise"] > row["runtime"] for row in rows):
        return None
    return KernelNoise(
        processors=len(rows),
        runtime_us=sum(row["runtime"] for row in rows),
        noise_us=sum(row["noise"] for row in rows),
        longest_us=max(row["single"] for row in rows),
        hardware=sum(row["hardware"] for row in rows),
        missed=bool(_MISSED.search(text)),
    )


def _request(target: Target, name: str, script: str, duration_s: int) -> TrialRequest:
    return TrialRequest(
        id=name,
        arguments=("/bin/sh", "-c", script),
        environment=(("LC_ALL", "C"), ("PATH", SEARCH_PATH)),
        cwd=target.scratch(),
        timeout_ms=1000 * duration_s + _SLACK_MS,
        output_bytes=_MOST_BYTES,
    )
