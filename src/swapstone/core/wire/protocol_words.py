# SPDX-License-Identifier: MIT OR Apache-2.0
"""The words of the protocols. Generated from native/wire/words.toml by tools/generate-wire: do not edit."""

from __future__ import annotations

PLAN_HEADER = b"swapstone-plan 6"
AGENT_HEADER = b"swapstone-agent 7"
WORKLOAD_HEADER = b"swapstone-workload 2"
FIGURES_HEADER = b"swapstone-figures 1"
ORDER_HEADER = b"swapstone-order 4"
GUEST_HEADER = b"swapstone-guest 1"

PLAN_WORDS: tuple[str, ...] = (
    "trial",
    "nonce",
    "arg",
    "env",
    "cwd",
    "root",
    "root-layer",
    "root-files",
    "cpus",
    "nice",
    "timeout-ms",
    "output-bytes",
    "disk-bytes",
    "stdin",
    "stdout",
    "port",
    "ready-ms",
    "warm-ms",
    "drain-ms",
    "stop-ms",
    "driver-arg",
    "driver-env",
    "driver-cpus",
    "cgroup",
    "observe",
    "run",
    "quit",
)

AGENT_WORDS: tuple[str, ...] = (
    "begin",
    "nonce",
    "fact",
    "interp",
    "object",
    "observed",
    "absent",
    "out",
    "err",
    "driver-out",
    "driver-err",
    "note",
    "end",
    "error",
)

WORKLOAD_WORDS: tuple[str, ...] = (
    "name",
    "ops",
    "passes",
    "pass",
    "memory",
    "malloc",
    "mapped",
    "check",
    "end",
    "error",
)

FIGURES_WORDS: tuple[str, ...] = (
    "name",
    "seen",
    "figure",
    "series",
    "end",
)

ORDER_WORDS: tuple[str, ...] = (
    "layout",
    "idle-ns",
    "delay-ns",
    "limit-ms",
    "settle-ms",
    "report",
    "write",
    "prepare",
    "beside",
)

GUEST_WORDS: tuple[str, ...] = (
    "system",
    "release",
    "version",
    "machine",
    "clock",
    "file",
    "before",
    "after",
    "prepare",
    "beside",
    "words",
)

OBSERVATIONS: tuple[str, ...] = (
    "env",
    "proc",
    "cgroup",
    "file",
)
"""What a plan can ask an agent to read."""

OUTCOMES: dict[str, tuple[int, int]] = {
    "exited": (0, 255),
    "signaled": (1, 127),
    "timeout": (0, 0),
    "overflow": (0, 0),
    "disk": (0, 0),
    "orphans": (1, 2147483647),
    "unstarted": (1, 4095),
    "driven": (0, 0),
    "unready": (0, 0),
    "undriven": (0, 4095),
}
"""How a process ended, with the lowest and highest code of each."""

FACTS: dict[str, int] = {
    "wall_ns": 0,
    "launch_ns": 0,
    "user_us": 0,
    "system_us": 0,
    "maxrss_bytes": 0,
    "minflt": 0,
    "majflt": 0,
    "nvcsw": 0,
    "nivcsw": 0,
    "read_bytes": 0,
    "write_bytes": 0,
    "trial_cpu_us": 0,
    "run_delay_ns": 0,
    "main_cpu_ns": 0,
    "nice": -20,
    "cpus_allowed": 1,
    "psi_cpu_us": 0,
    "psi_memory_us": 0,
    "psi_io_us": 0,
    "steal_ticks": 0,
    "idle_ticks": 0,
    "cpu_ticks": 0,
    "ticks_ns": 0,
    "load1_milli": 0,
    "created_tasks": 0,
    "stops": 0,
    "suspended_ns": 0,
    "clock_step_ns": -9223372036854775807,
    "late_ns": 0,
    "agent_cpus": 1,
    "agent_cpu_bits": 0,
    "agent_nice": -20,
    "agent_policy": 0,
    "agent_limits_crc": 0,
    "cpu_quota_milli": 0,
    "governor_crc": 0,
    "changed_conditions": 0,
    "quota_throttled": 0,
    "pid": 1,
    "ready_ns": 0,
    "driven_ns": 0,
    "server_cpu_ns": 0,
    "server_user_us": 0,
    "server_system_us": 0,
    "server_minflt": 0,
    "server_majflt": 0,
    "server_nvcsw": 0,
    "server_nivcsw": 0,
    "server_unseen_switches": 0,
    "server_rss_bytes": 0,
    "server_peak_bytes": 0,
    "server_processes": 0,
    "server_threads": 0,
    "driver_user_us": 0,
    "driver_system_us": 0,
}
"""Whole numbers that an agent may state, with the lowest value of each."""
