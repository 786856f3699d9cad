// SPDX-License-Identifier: MIT OR Apache-2.0
/* Generated from native/wire/words.toml by tools/generate-wire: do not edit. */
// clang-format off
#include "words.h"

const char *const fact_names[FACT_COUNT] = {
    "wall_ns",
    "launch_ns",
    "user_us",
    "system_us",
    "maxrss_bytes",
    "minflt",
    "majflt",
    "nvcsw",
    "nivcsw",
    "read_bytes",
    "write_bytes",
    "trial_cpu_us",
    "run_delay_ns",
    "nice",
    "cpus_allowed",
    "psi_cpu_us",
    "psi_memory_us",
    "psi_io_us",
    "steal_ticks",
    "idle_ticks",
    "cpu_ticks",
    "ticks_ns",
    "load1_milli",
    "pid",
    "ready_ns",
    "driven_ns",
    "server_cpu_ns",
    "server_user_us",
    "server_system_us",
    "server_minflt",
    "server_majflt",
    "server_nvcsw",
    "server_nivcsw",
    "server_unseen_switches",
    "server_rss_bytes",
    "server_peak_bytes",
    "server_processes",
    "server_threads",
    "driver_user_us",
    "driver_system_us",
};

const char *const outcome_names[OUTCOME_COUNT] = {
    "exited",
    "signaled",
    "timeout",
    "overflow",
    "disk",
    "orphans",
    "unstarted",
    "driven",
    "unready",
    "undriven",
};

const char *const observation_names[OBSERVE_COUNT] = {
    "env",
    "proc",
    "cgroup",
    "file",
};
