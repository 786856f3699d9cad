// SPDX-License-Identifier: MIT OR Apache-2.0
#include "plan.h"

/* Reads one value into the request. Returns NULL, or what is wrong with the value. */
typedef const char *parse(struct request *request, char *value);

static char *store; /* of PLAN_BYTES */
static size_t stored;
static unsigned arguments, variables, generator_arguments, generator_variables;

/* Decodes a text and stores it until the trial has ended. */
static const char *store_text(char *value, const char **kept) {
    if (!text_decode(value))
        return "the text is not percent-encoded";
    size_t size = text_length(value) + 1;
    if (size > PLAN_BYTES - stored)
        return "the trial's texts are longer than 1 MiB together";
    __builtin_memcpy(store + stored, value, size);
    *kept = store + stored;
    stored += size;
    return NULL;
}

static const char *store_path(char *value, const char **kept) {
    const char *error = store_text(value, kept);
    return error || **kept == '/' ? error : "the path is not absolute";
}

static const char *parse_trial(struct request *request, char *value) {
    size_t length = text_length(value);
    if (length < 1 || length > PLAN_ID)
        return "an identifier has 1 to 64 characters";
    for (size_t i = 0; i < length; i++) {
        char c = value[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return "an identifier has only letters, digits and . _ -";
    }
    __builtin_memcpy(request->id, value, length + 1);
    return NULL;
}

/* The answer repeats the nonce, which shows that the agent wrote it. So the program may not find it: it is
 * kept in memory that is not copied to children, and the line is wiped. */
static const char *parse_nonce(struct request *request, char *value) {
    static char *kept;
    size_t length = text_length(value);
    bool valid = length == PLAN_NONCE;

    for (size_t i = 0; i < length; i++)
        valid &= (value[i] >= '0' && value[i] <= '9') || (value[i] >= 'a' && value[i] <= 'f');
    if (!kept) {
        kept = port_mmap(PLAN_NONCE + 1, false);
        if (!kept)
            return "there is no memory for the nonce";
        port_keep_from_children(kept, PLAN_NONCE + 1);
    }
    if (valid)
        __builtin_memcpy(kept, value, PLAN_NONCE);
    __builtin_memset(value, 0, length);
    request->nonce = kept;
    return valid ? NULL : "a nonce has 32 lower-case hexadecimal digits";
}

static const char *add_argument(char **list, unsigned *count, char *value) {
    const char *kept, *error;
    if (*count == PLAN_WORDS)
        return "there are more than 4096 arguments";
    error = *count ? store_text(value, &kept) : store_path(value, &kept);
    if (!error)
        list[(*count)++] = (char *)kept;
    return error;
}

static const char *add_variable(char **list, unsigned *count, char *value) {
    const char *kept, *error = store_text(value, &kept);
    if (error)
        return error;
    if (*count == PLAN_WORDS)
        return "there are more than 4096 environment variables";
    const char *equals = kept;
    while (*equals && *equals != '=')
        equals++;
    if (!*equals || equals == kept)
        return "an environment variable is NAME=VALUE";
    list[(*count)++] = (char *)kept;
    return NULL;
}

static const char *parse_argument(struct request *request, char *value) {
    return add_argument(request->arguments, &arguments, value);
}

static const char *parse_variable(struct request *request, char *value) {
    return add_variable(request->environment, &variables, value);
}

static const char *parse_generator_argument(struct request *request, char *value) {
    return add_argument(request->server.arguments, &generator_arguments, value);
}

static const char *parse_generator_variable(struct request *request, char *value) {
    return add_variable(request->server.environment, &generator_variables, value);
}

static const char *parse_folder(struct request *request, char *value) {
    return store_path(value, &request->folder);
}

/* A path that becomes a part of mount options, which commas and colons separate (overlayfs.rst). */
static const char *store_option(char *value, const char **kept) {
    const char *error = store_path(value, kept);
    for (const char *at = error ? "" : *kept; *at; at++)
        if (*at == ',' || *at == ':' || *at == '\\')
            return "the path of a root has a comma, a colon or a backslash";
    return error;
}

static const char *parse_root(struct request *request, char *value) {
    return store_option(value, &request->root);
}

static const char *parse_layer(struct request *request, char *value) {
    return store_option(value, &request->layer);
}

static const char *parse_files(struct request *request, char *value) {
    return store_path(value, &request->files);
}

static const char *parse_in(struct request *request, char *value) {
    return store_path(value, &request->in);
}

static const char *parse_out(struct request *request, char *value) {
    return store_path(value, &request->out);
}

static const char *read_cpus(struct port_cpu_set *cpus, bool *pinned, const char *value) {
    const char *at = value;
    int64_t cpu;

    if (text_equal(value, "all"))
        return NULL;
    *pinned = true;
    for (;; at++) {
        if (!text_number(&at, &cpu))
            return "processors are a comma list of numbers, or `all`";
        if (cpu >= PORT_MAX_CPUS)
            return "a processor's number is at most 4095";
        enum { BITS = 8 * sizeof(unsigned long) };
        cpus->bits[cpu / BITS] |= 1UL << (cpu % BITS);
        if (!*at)
            return NULL;
        if (*at != ',')
            return "processors are a comma list of numbers, or `all`";
    }
}

static const char *parse_cpus(struct request *request, char *value) {
    return read_cpus(&request->cpus, &request->pinned, value);
}

static const char *parse_generator_cpus(struct request *request, char *value) {
    return read_cpus(&request->server.cpus, &request->server.pinned, value);
}

static const char *parse_nice(struct request *request, char *value) {
    bool negative = *value == '-';
    const char *at = value + negative;
    int64_t nice;

    if (!text_number(&at, &nice) || *at || nice > 20 - !negative || (negative && nice == 0))
        return "nice is a whole number from -20 to 19";
    request->nice = negative ? -(int)nice : (int)nice;
    request->has_nice = true;
    return NULL;
}

static const char *parse_number_from(int64_t lowest, char *value, int64_t highest, int64_t *number) {
    const char *at = value;
    if (!text_number(&at, number) || *at)
        return "the value is not a whole number";
    return *number >= lowest && *number <= highest ? NULL : "the number is out of range";
}

static const char *parse_number(char *value, int64_t highest, int64_t *number) {
    return parse_number_from(1, value, highest, number);
}

enum { HOUR_MS = 3600000 };

static const char *parse_port(struct request *request, char *value) {
    int64_t port = 0;
    const char *error = parse_number(value, 65535, &port);
    request->server.port = (int)port;
    return error;
}

static const char *parse_ready(struct request *request, char *value) {
    return parse_number(value, HOUR_MS, &request->server.ready_ms);
}

static const char *parse_warm(struct request *request, char *value) {
    return parse_number_from(0, value, HOUR_MS, &request->server.warm_ms);
}

static const char *parse_drain(struct request *request, char *value) {
    return parse_number_from(0, value, HOUR_MS, &request->server.drain_ms);
}

static const char *parse_stop(struct request *request, char *value) {
    return parse_number(value, HOUR_MS, &request->server.stop_ms);
}

static const char *parse_observe(struct request *request, char *value) {
    struct observation_request *what = &request->observations[request->observation_count];
    const char *error;

    if (request->observation_count == MOST_OBSERVATIONS)
        return "there are more than 64 observations";
    error = parse_observation(what, value);
    if (error)
        return error;
    size_t size = text_length(what->name) + 1;
    if (size > PLAN_BYTES - stored)
        return "the trial's texts are longer than 1 MiB together";
    what->name = __builtin_memcpy(store + stored, what->name, size);
    stored += size;
    for (unsigned i = 0; i < request->observation_count; i++)
        if (request->observations[i].kind == what->kind &&
            text_equal(request->observations[i].name, what->name))
            return "the trial has this observation already";
    request->observation_count++;
    return NULL;
}

static const char *parse_timeout(struct request *request, char *value) {
    return parse_number(value, 1000LL * 86400 * 365, &request->timeout_ms);
}

static const char *parse_output(struct request *request, char *value) {
    return parse_number(value, 16 << 20, &request->output_bytes);
}

static const char *parse_disk(struct request *request, char *value) {
    return parse_number(value, INT64_MAX, &request->disk_bytes);
}

/* A trial has all MUST_OF_SERVER lines, or no line of a server. */
enum need { MUST, MAY, MUST_OF_SERVER, MAY_OF_SERVER };

static const struct {
    const char *word;
    parse *parse;
    bool repeats;
    enum need need;
} keys[] = {
    {WORD_TRIAL, parse_trial, false, MUST},
    {WORD_NONCE, parse_nonce, false, MAY},
    {WORD_ARG, parse_argument, true, MUST},
    {WORD_ENV, parse_variable, true, MAY},
    {WORD_CWD, parse_folder, false, MUST},
    {WORD_ROOT, parse_root, false, MAY},
    {WORD_ROOT_LAYER, parse_layer, false, MAY},
    {WORD_ROOT_FILES, parse_files, false, MAY},
    {WORD_CPUS, parse_cpus, false, MUST},
    {WORD_NICE, parse_nice, false, MAY},
    {WORD_TIMEOUT_MS, parse_timeout, false, MUST},
    {WORD_OUTPUT_BYTES, parse_output, false, MUST},
    {WORD_DISK_BYTES, parse_disk, false, MUST},
    {WORD_STDIN, parse_in, false, MAY},
    {WORD_STDOUT, parse_out, false, MAY},
    {WORD_OBSERVE, parse_observe, true, MAY},
    {WORD_PORT, parse_port, false, MUST_OF_SERVER},
    {WORD_READY_MS, parse_ready, false, MUST_OF_SERVER},
    {WORD_WARM_MS, parse_warm, false, MUST_OF_SERVER},
    {WORD_DRAIN_MS, parse_drain, false, MUST_OF_SERVER},
    {WORD_STOP_MS, parse_stop, false, MUST_OF_SERVER},
    {WORD_DRIVER_ARG, parse_generator_argument, true, MUST_OF_SERVER},
    {WORD_DRIVER_ENV, parse_generator_variable, true, MAY_OF_SERVER},
    {WORD_DRIVER_CPUS, parse_generator_cpus, false, MUST_OF_SERVER},
};
enum { KEYS = sizeof keys / sizeof *keys };

static enum plan_result refuse(struct plan *plan, const char *error) {
    plan->error = error;
    return PLAN_MALFORMED;
}

/* Reads a line. */
static enum plan_result read_line(struct plan *plan, char **line) {
    enum line_result result = next_line(&plan->lines, line);
    plan->line++;
    if (result == LINE_TOO_LONG)
        return refuse(plan, "the line is longer than 400 KiB");
    if (result == LINE_UNFINISHED)
        return refuse(plan, "the last line has no newline");
    if (result == LINE_FAILED)
        return refuse(plan, "the plan can't be read");
    if (result == LINE_STOPPED)
        return PLAN_STOPPED;
    return result == LINE ? PLAN_TRIAL : PLAN_END;
}

enum plan_result plan_open(struct plan *plan) {
    char *line;
    enum plan_result result = read_line(plan, &line);
    if (!store)
        store = port_mmap(PLAN_BYTES, true);
    if (!store)
        return refuse(plan, "there is no memory for its texts");
    if (result == PLAN_END)
        return refuse(plan, "the plan is empty");
    if (result == PLAN_TRIAL && !text_equal(line, PLAN_HEADER))
        return refuse(plan,
                      "the first line is not `" PLAN_HEADER "`, the only version that this agent reads");
    return result;
}

/* Reads one line into the request. */
static const char *parse_line(struct request *request, char *line, unsigned *seen) {
    for (unsigned key = 0; key < KEYS; key++) {
        const char *value = text_after(line, keys[key].word);
        if (!value || *value++ != ' ')
            continue;
        if (key > 0 && !(*seen & 1))
            return "a trial begins with its `trial` line";
        if ((*seen >> key & 1) && !keys[key].repeats)
            return "the trial has such a line already";
        *seen |= 1U << key;
        return keys[key].parse(request, (char *)value);
    }
    return "the line begins with no known word";
}

/* Names the lines that a trial lacks; NULL if it is complete. */
static const char *missing_line(unsigned seen) {
    bool server = false;
    for (unsigned key = 0; key < KEYS; key++)
        server |= (seen >> key & 1) && keys[key].need >= MUST_OF_SERVER;
    for (unsigned key = 0; key < KEYS; key++) {
        if (seen >> key & 1)
            continue;
        if (keys[key].need == MUST)
            return "the trial lacks one of trial, arg, cwd, cpus, timeout-ms, output-bytes, disk-bytes";
        if (server && keys[key].need == MUST_OF_SERVER)
            return "the server lacks one of port, ready-ms, warm-ms, drain-ms, stop-ms, driver-arg, "
                   "driver-cpus";
    }
    return NULL;
}

enum plan_result plan_next(struct plan *plan, struct request *request) {
    unsigned seen = 0;

    stored = arguments = variables = generator_arguments = generator_variables = 0;
    __builtin_memset(&request->cpus, 0, sizeof request->cpus);
    __builtin_memset(&request->server.cpus, 0, sizeof request->server.cpus);
    request->pinned = request->has_nice = request->server.pinned = false;
    request->server.port = 0;
    request->nonce = request->in = request->out = NULL;
    request->root = request->layer = request->files = NULL;
    request->observation_count = 0;
    for (;;) {
        char *line;
        enum plan_result result = read_line(plan, &line);
        if (result == PLAN_END && seen)
            return refuse(plan, "the plan ends inside a trial");
        if (result != PLAN_TRIAL)
            return result;
        if (text_equal(line, WORD_QUIT) && !seen)
            return PLAN_END;
        if (text_equal(line, WORD_RUN))
            break;
        const char *error = parse_line(request, line, &seen);
        if (error)
            return refuse(plan, error);
    }
    request->read_ns = port_now_ns();
    const char *missing = missing_line(seen);
    if (missing)
        return refuse(plan, missing);
    if (!request->root && (request->layer || request->files))
        return refuse(plan, "the trial has root-layer or root-files without root");
    if (request->root && request->server.port)
        return refuse(plan, "a server can't have a root file system of its own");
    request->server.arguments[generator_arguments] = request->server.environment[generator_variables] = NULL;
    request->arguments[arguments] = request->environment[variables] = NULL;
    return PLAN_TRIAL;
}
