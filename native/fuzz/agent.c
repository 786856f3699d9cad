// SPDX-License-Identifier: MIT OR Apache-2.0
/* libFuzzer's entry to the decoders of the agent and of a guest's first process. tools/fuzz-agent builds and
 * runs it. The variable SWAPSTONE_FUZZ names the decoder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../agent/conditions.h"
#include "../agent/counters.h"
#include "../agent/observation.h"
#include "../agent/observe.h"
#include "../agent/plan.h"
#include "order.h"
#include "port.h"

/* Reads an input. Returns whether it was accepted. */
typedef bool decoder(const uint8_t *data, size_t size);

static unsigned long executions, accepted;

static void require(bool holds) {
    if (!holds)
        abort();
}

/* A plan: every trial of it must be whole. */
static bool read_plan(const uint8_t *data, size_t size) {
    static char room[8192];
    static struct request request;
    struct plan plan = {.lines = {.bytes = room, .room = sizeof room}};
    enum plan_result result;
    bool found = false;

    set_files(data, size);
    plan.lines.fd = port_open_read("/plan");
    for (result = plan_open(&plan); result == PLAN_TRIAL; found |= result == PLAN_TRIAL) {
        result = plan_next(&plan, &request);
        if (result != PLAN_TRIAL)
            break;
        const char *path = request.program.arguments[0];
        require(path && path[0] == '/' && request.folder[0] == '/');
        require(text_length(request.id) >= 1 && text_length(request.id) <= PLAN_ID);
        for (char **word = request.program.arguments; *word; word++)
            require(text_length(*word) < PLAN_BYTES);
        for (unsigned i = 0; i < request.observation_count; i++)
            require(text_length(request.observations[i].name) > 0);
    }
    require(result != PLAN_MALFORMED || plan.error);
    return found;
}

static char *encoded;

static void add_encoded(const char *bytes, size_t size) {
    memcpy(encoded, bytes, size);
    encoded += size;
}

/* A percent-encoded text has one form: what is decoded and encoded again is the same. */
static bool read_text_value(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *again = malloc(3 * size + 2);
    bool valid;

    memcpy(text, data, size);
    text[size] = 0;
    valid = text_decode(text);
    if (valid) {
        encoded = again;
        text_encode(text, strlen(text), add_encoded);
        size_t length = (size_t)(encoded - again);
        require(length == strnlen((const char *)data, size) && memcmp(again, data, length) == 0);
    }
    free(text);
    free(again);
    return valid;
}

/* The counters of the machine, in /proc. */
static bool read_machine(const uint8_t *data, size_t size) {
    struct facts before = {0}, after = {0};
    struct machine_files files;
    struct task_files task;

    set_files(data, size);
    open_machine_files(&files);
    observe_machine(&before, &files);
    observe_machine(&after, &files);
    facts_grow(&after, &before);
    open_task_files(&task, 1);
    observe_task(&after, &task, 1, (struct run_times){0});
    close_task_files(&task);
    for (int fact = 0; fact < FACT_COUNT; fact++)
        if (after.known[fact])
            return true;
    return false;
}

/* A process: its ELF file and its mappings. */
static bool read_image(const uint8_t *data, size_t size) {
    static struct image image;
    struct task_files files;
    size_t used = 0;

    set_files(data, size);
    open_task_files(&files, 1);
    observe_image(&image, &files, 1);
    if (image.has_interp)
        require(text_length(image.interp) < sizeof image.interp);
    while (used < image.objects.used)
        used += text_length(image.object_bytes + used) + 1;
    require(used == image.objects.used && used <= sizeof image.object_bytes);
    is_same_program(&image, &files);
    close_task_files(&files);
    return image.has_interp || used;
}

/* Values that factors observe: a variable, and files of three kinds. */
static bool read_values(const uint8_t *data, size_t size) {
    static struct observations observations;
    static const struct observation_request requests[] = {{OBSERVE_ENV, "NAME"},
                                                          {OBSERVE_PROC, "limits"},
                                                          {OBSERVE_CGROUP, "memory.max"},
                                                          {OBSERVE_FILE, "/proc/sys/vm/swappiness"}};
    bool found = false;

    set_files(data, size);
    observe_values(&observations, 1, requests, sizeof requests / sizeof *requests);
    require(observations.used <= sizeof observations.bytes);
    for (unsigned i = 0; i < observations.count; i++) {
        const struct observation *one = &observations.list[i];
        if (one->result != OBSERVATION_READ)
            continue;
        require(one->value >= observations.bytes &&
                one->value + one->size <= observations.bytes + observations.used);
        found = true;
    }
    return found;
}

/* A server's processes and threads. */
static bool read_server(const uint8_t *data, size_t size) {
    struct counters before, after;
    struct facts facts = {0};

    set_files(data, size);
    count_server(&before);
    set_files(data, size);
    count_server(&after);
    set_window_facts(&facts, &before, &after);
    return after.sums[COUNT_PROCESSES] > 0;
}

/* What a trial inherits: governors, and the quota of cgroups. */
static bool read_conditions(const uint8_t *data, size_t size) {
    struct facts facts = {0};

    set_files(data, size);
    begin_conditions();
    observe_conditions(&facts);
    require(facts.known[FACT_CHANGED_CONDITIONS] && facts.values[FACT_CHANGED_CONDITIONS] == 0);
    return facts.known[FACT_CPU_QUOTA_MILLI];
}

static const struct {
    const char *name;
    decoder *decode;
} decoders[] = {
    {"plan", read_plan},   {"text", read_text_value},       {"machine", read_machine},
    {"image", read_image}, {"values", read_values},         {"server", read_server},
    {"order", read_order}, {"conditions", read_conditions},
};

static decoder *chosen;

static void print_counts(void) {
    fprintf(stderr, "swapstone-fuzz: %lu executions, %lu accepted\n", executions, accepted);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *name = getenv("SWAPSTONE_FUZZ");

    (void)count, (void)arguments;
    for (size_t i = 0; name && i < sizeof decoders / sizeof *decoders; i++)
        if (strcmp(decoders[i].name, name) == 0)
            chosen = decoders[i].decode;
    if (!chosen) {
        fprintf(stderr, "SWAPSTONE_FUZZ names no decoder\n");
        exit(2);
    }
    atexit(print_counts);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    executions++;
    accepted += chosen(data, size);
    return 0;
}
