// SPDX-License-Identifier: MIT OR Apache-2.0
/* The words of the protocols. Generated from native/wire/words.toml by tools/generate-wire: do not edit. */
#ifndef WIRE_WORDS_H
#define WIRE_WORDS_H

#define PLAN_HEADER "swapstone-plan 6"
#define AGENT_HEADER "swapstone-agent 7"
#define WORKLOAD_HEADER "swapstone-workload 2"
#define FIGURES_HEADER "swapstone-figures 1"
#define ORDER_HEADER "swapstone-order 4"
#define GUEST_HEADER "swapstone-guest 1"

#define WORD_ABSENT "absent"
#define WORD_AFTER "after"
#define WORD_ARG "arg"
#define WORD_BEFORE "before"
#define WORD_BEGIN "begin"
#define WORD_BESIDE "beside"
#define WORD_CGROUP "cgroup"
#define WORD_CHECK "check"
#define WORD_CLOCK "clock"
#define WORD_CPUS "cpus"
#define WORD_CWD "cwd"
#define WORD_DELAY_NS "delay-ns"
#define WORD_DISK_BYTES "disk-bytes"
#define WORD_DRAIN_MS "drain-ms"
#define WORD_DRIVER_ARG "driver-arg"
#define WORD_DRIVER_CPUS "driver-cpus"
#define WORD_DRIVER_ENV "driver-env"
#define WORD_DRIVER_ERR "driver-err"
#define WORD_DRIVER_OUT "driver-out"
#define WORD_END "end"
#define WORD_ENV "env"
#define WORD_ERR "err"
#define WORD_ERROR "error"
#define WORD_FACT "fact"
#define WORD_FIGURE "figure"
#define WORD_FILE "file"
#define WORD_IDLE_NS "idle-ns"
#define WORD_INTERP "interp"
#define WORD_LAYOUT "layout"
#define WORD_LIMIT_MS "limit-ms"
#define WORD_MACHINE "machine"
#define WORD_MALLOC "malloc"
#define WORD_MAPPED "mapped"
#define WORD_MEMORY "memory"
#define WORD_NAME "name"
#define WORD_NICE "nice"
#define WORD_NONCE "nonce"
#define WORD_NOTE "note"
#define WORD_OBJECT "object"
#define WORD_OBSERVE "observe"
#define WORD_OBSERVED "observed"
#define WORD_OPS "ops"
#define WORD_OUT "out"
#define WORD_OUTPUT_BYTES "output-bytes"
#define WORD_PASS "pass"
#define WORD_PASSES "passes"
#define WORD_PORT "port"
#define WORD_PREPARE "prepare"
#define WORD_QUIT "quit"
#define WORD_READY_MS "ready-ms"
#define WORD_RELEASE "release"
#define WORD_REPORT "report"
#define WORD_ROOT "root"
#define WORD_ROOT_FILES "root-files"
#define WORD_ROOT_LAYER "root-layer"
#define WORD_RUN "run"
#define WORD_SEEN "seen"
#define WORD_SERIES "series"
#define WORD_SETTLE_MS "settle-ms"
#define WORD_STDIN "stdin"
#define WORD_STDOUT "stdout"
#define WORD_STOP_MS "stop-ms"
#define WORD_SYSTEM "system"
#define WORD_TIMEOUT_MS "timeout-ms"
#define WORD_TRIAL "trial"
#define WORD_VERSION "version"
#define WORD_WARM_MS "warm-ms"
#define WORD_WORDS "words"
#define WORD_WRITE "write"

enum fact {
    FACT_WALL_NS,
    FACT_LAUNCH_NS,
    FACT_USER_US,
    FACT_SYSTEM_US,
    FACT_MAXRSS_BYTES,
    FACT_MINFLT,
    FACT_MAJFLT,
    FACT_NVCSW,
    FACT_NIVCSW,
    FACT_READ_BYTES,
    FACT_WRITE_BYTES,
    FACT_TRIAL_CPU_US,
    FACT_RUN_DELAY_NS,
    FACT_MAIN_CPU_NS,
    FACT_NICE,
    FACT_CPUS_ALLOWED,
    FACT_PSI_CPU_US,
    FACT_PSI_MEMORY_US,
    FACT_PSI_IO_US,
    FACT_STEAL_TICKS,
    FACT_IDLE_TICKS,
    FACT_CPU_TICKS,
    FACT_TICKS_NS,
    FACT_LOAD1_MILLI,
    FACT_CREATED_TASKS,
    FACT_STOPS,
    FACT_SUSPENDED_NS,
    FACT_CLOCK_STEP_NS,
    FACT_LATE_NS,
    FACT_AGENT_CPUS,
    FACT_AGENT_CPU_BITS,
    FACT_AGENT_NICE,
    FACT_AGENT_POLICY,
    FACT_AGENT_LIMITS_CRC,
    FACT_CPU_QUOTA_MILLI,
    FACT_GOVERNOR_CRC,
    FACT_CHANGED_CONDITIONS,
    FACT_QUOTA_THROTTLED,
    FACT_PID,
    FACT_READY_NS,
    FACT_DRIVEN_NS,
    FACT_SERVER_CPU_NS,
    FACT_SERVER_USER_US,
    FACT_SERVER_SYSTEM_US,
    FACT_SERVER_MINFLT,
    FACT_SERVER_MAJFLT,
    FACT_SERVER_NVCSW,
    FACT_SERVER_NIVCSW,
    FACT_SERVER_UNSEEN_SWITCHES,
    FACT_SERVER_RSS_BYTES,
    FACT_SERVER_PEAK_BYTES,
    FACT_SERVER_PROCESSES,
    FACT_SERVER_THREADS,
    FACT_DRIVER_USER_US,
    FACT_DRIVER_SYSTEM_US,
    FACT_COUNT,
};
extern const char *const fact_names[FACT_COUNT];

enum outcome {
    OUTCOME_EXITED,
    OUTCOME_SIGNALED,
    OUTCOME_TIMEOUT,
    OUTCOME_OVERFLOW,
    OUTCOME_DISK,
    OUTCOME_ORPHANS,
    OUTCOME_UNSTARTED,
    OUTCOME_DRIVEN,
    OUTCOME_UNREADY,
    OUTCOME_UNDRIVEN,
    OUTCOME_COUNT,
};
extern const char *const outcome_names[OUTCOME_COUNT];

enum observation_kind {
    OBSERVE_ENV,
    OBSERVE_PROC,
    OBSERVE_CGROUP,
    OBSERVE_FILE,
    OBSERVE_COUNT,
};
extern const char *const observation_names[OBSERVE_COUNT];

#endif
