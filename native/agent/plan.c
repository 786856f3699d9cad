// SPDX-License-Identifier: MIT OR Apache-2.0
#include "plan.h"

struct key;
/* Reads one value into the request. Returns NULL, or what is wrong with the value. */
typedef const char *parse(struct request *request, char *value, const struct key *key);

/* A trial has all MUST_OF_SERVER lines, or no line of a server. */
enum need { MUST, MAY, MUST_OF_SERVER, MAY_OF_SERVER };

struct key {
    const char *word;
    parse *parse;
    bool repeats;
    enum need need;
    size_t field;            /* offset of what it sets in the request */
    int64_t lowest, highest; /* of a number */
};

static char *store; /* of PLAN_BYTES */
static size_t stored;

/* Stores a text until the trial has ended. */
static const char *keep_text(const char *text, const char **kept) {
    size_t size = text_length(text) + 1;
    if (size > PLAN_BYTES - stored)
        return "the trial's texts are longer than 1 MiB together";
    *kept = __builtin_memcpy(store + stored, text, size);
    stored += size;
    return NULL;
}

static const char *store_text(char *value, const char **kept) {
    return text_decode(value) ? keep_text(value, kept) : "the text is not percent-encoded";
}

static void *field_of(struct request *request, const struct key *key) {
    return (char *)request + key->field;
}

static const char *store_path(char *value, const char **kept) {
    const char *error = store_text(value, kept);
    return error || **kept == '/' ? error : "the path is not absolute";
}

static const char *parse_trial(struct request *request, char *value, const struct key *key) {
    (void)key;
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
static const char *parse_nonce(struct request *request, char *value, const struct key *key) {
    (void)key;
    static char *kept;
    size_t length = text_length(value);
    bool valid = length == PLAN_NONCE;

    for (size_t i = 0; i < length; i++)
        valid &= text_digit(value[i], 'a') >= 0;
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

static const char *parse_argument(struct request *request, char *value, const struct key *key) {
    struct program *program = field_of(request, key);
    const char *kept, *error;

    if (program->argument_count == PLAN_WORDS)
        return "there are more than 4096 arguments";
    error = program->argument_count ? store_text(value, &kept) : store_path(value, &kept);
    if (!error)
        program->arguments[program->argument_count++] = (char *)kept;
    return error;
}

static const char *parse_variable(struct request *request, char *value, const struct key *key) {
    struct program *program = field_of(request, key);
    const char *kept, *error = store_text(value, &kept);

    if (error)
        return error;
    if (program->variable_count == PLAN_WORDS)
        return "there are more than 4096 environment variables";
    const char *equals = kept;
    while (*equals && *equals != '=')
        equals++;
    if (!*equals || equals == kept)
        return "an environment variable is NAME=VALUE";
    program->environment[program->variable_count++] = (char *)kept;
    return NULL;
}

static const char *parse_path(struct request *request, char *value, const struct key *key) {
    return store_path(value, field_of(request, key));
}

/* A path that becomes a part of mount options, which commas and colons separate (overlayfs.rst). */
static const char *parse_option(struct request *request, char *value, const struct key *key) {
    const char *error = parse_path(request, value, key);
    for (const char *at = error ? "" : *(const char **)field_of(request, key); *at; at++)
        if (*at == ',' || *at == ':' || *at == '\\')
            return "the path of a root has a comma, a colon or a backslash";
    return error;
}

static const char *parse_cpus(struct request *request, char *value, const struct key *key) {
    struct program *program = field_of(request, key);
    const char *at = value;
    int64_t cpu;

    __builtin_memset(&program->cpus, 0, sizeof program->cpus);
    program->pinned = !text_equal(value, "all");
    for (; program->pinned; at++) {
        if (!text_number(&at, &cpu))
            return "processors are a comma list of numbers, or `all`";
        if (cpu >= PORT_MAX_CPUS)
            return "a processor's number is at most 4095";
        enum { BITS = 8 * sizeof(unsigned long) };
        program->cpus.bits[cpu / BITS] |= 1UL << (cpu % BITS);
        if (!*at)
            return NULL;
        if (*at != ',')
            return "processors are a comma list of numbers, or `all`";
    }
    return NULL;
}

static const char *parse_nice(struct request *request, char *value, const struct key *key) {
    (void)key;
    bool negative = *value == '-';
    const char *at = value + negative;
    int64_t nice;

    if (!text_number(&at, &nice) || *at || nice > 20 - !negative || (negative && nice == 0))
        return "nice is a whole number from -20 to 19";
    request->nice = negative ? -(int)nice : (int)nice;
    request->has_nice = true;
    return NULL;
}

static const char *parse_number(struct request *request, char *value, const struct key *key) {
    int64_t *number = field_of(request, key);
    const char *at = value;

    if (!text_number(&at, number) || *at)
        return "the value is not a whole number";
    return *number >= key->lowest && *number <= key->highest ? NULL : "the number is out of range";
}

static const char *parse_group(struct request *request, char *value, const struct key *key) {
    struct key place = *key;

    if (request->group_count == PLAN_GROUPS)
        return "there are more than 2 cgroups";
    place.field += request->group_count++ * sizeof *request->groups;
    return parse_path(request, value, &place);
}

static const char *parse_observe(struct request *request, char *value, const struct key *key) {
    (void)key;
    struct observation_request *what = &request->observations[request->observation_count];
    const char *error;

    if (request->observation_count == MOST_OBSERVATIONS)
        return "there are more than 64 observations";
    error = parse_observation(what, value);
    if (error)
        return error;
    error = keep_text(what->name, &what->name);
    if (error)
        return error;
    for (unsigned i = 0; i < request->observation_count; i++)
        if (request->observations[i].kind == what->kind &&
            text_equal(request->observations[i].name, what->name))
            return "the trial has this observation already";
    request->observation_count++;
    return NULL;
}

enum { HOUR_MS = 3600000 };
static const int64_t YEAR_MS = 365 * 24LL * HOUR_MS;

#define FIELD(name) .field = offsetof(struct request, name)
#define NUMBER(name, from, to) .parse = parse_number, FIELD(name), .lowest = (from), .highest = (to)

static const struct key keys[] = {
    {WORD_TRIAL, parse_trial, .need = MUST},
    {WORD_NONCE, parse_nonce, .need = MAY},
    {WORD_ARG, parse_argument, .repeats = true, .need = MUST, FIELD(program)},
    {WORD_ENV, parse_variable, .repeats = true, .need = MAY, FIELD(program)},
    {WORD_CWD, parse_path, .need = MUST, FIELD(folder)},
    {WORD_ROOT, parse_option, .need = MAY, FIELD(root)},
    {WORD_ROOT_LAYER, parse_option, .need = MAY, FIELD(layer)},
    {WORD_ROOT_FILES, parse_path, .need = MAY, FIELD(files)},
    {WORD_CPUS, parse_cpus, .need = MUST, FIELD(program)},
    {WORD_NICE, parse_nice, .need = MAY},
    {WORD_TIMEOUT_MS, .need = MUST, NUMBER(timeout_ms, 1, YEAR_MS)},
    {WORD_OUTPUT_BYTES, .need = MUST, NUMBER(output_bytes, 1, 16 << 20)},
    {WORD_DISK_BYTES, .need = MUST, NUMBER(disk_bytes, 1, INT64_MAX)},
    {WORD_STDIN, parse_path, .need = MAY, FIELD(in)},
    {WORD_STDOUT, parse_path, .need = MAY, FIELD(out)},
    {WORD_OBSERVE, parse_observe, .repeats = true, .need = MAY},
    {WORD_CGROUP, parse_group, .repeats = true, .need = MAY, FIELD(groups)},
    {WORD_PORT, .need = MUST_OF_SERVER, NUMBER(server.port, 1, 65535)},
    {WORD_READY_MS, .need = MUST_OF_SERVER, NUMBER(server.ready_ms, 1, HOUR_MS)},
    {WORD_WARM_MS, .need = MUST_OF_SERVER, NUMBER(server.warm_ms, 0, HOUR_MS)},
    {WORD_DRAIN_MS, .need = MUST_OF_SERVER, NUMBER(server.drain_ms, 0, HOUR_MS)},
    {WORD_STOP_MS, .need = MUST_OF_SERVER, NUMBER(server.stop_ms, 1, HOUR_MS)},
    {WORD_DRIVER_ARG, parse_argument, .repeats = true, .need = MUST_OF_SERVER, FIELD(generator)},
    {WORD_DRIVER_ENV, parse_variable, .repeats = true, .need = MAY_OF_SERVER, FIELD(generator)},
    {WORD_DRIVER_CPUS, parse_cpus, .need = MUST_OF_SERVER, FIELD(generator)},
};
enum { KEYS = sizeof keys / sizeof *keys };

static enum plan_result refuse(struct plan *plan, const char *error) {
    plan->error = error;
    return PLAN_MALFORMED;
}

/* Reads a line. */
static enum plan_result read_line(struct plan *plan, char **line) {
    static const struct {
        enum plan_result result;
        const char *error;
    } meanings[] = {
        [LINE] = {PLAN_TRIAL, NULL},
        [LINE_NONE] = {PLAN_END, NULL},
        [LINE_UNFINISHED] = {PLAN_MALFORMED, "the last line has no newline"},
        [LINE_TOO_LONG] = {PLAN_MALFORMED, "the line is longer than 400 KiB"},
        [LINE_STOPPED] = {PLAN_STOPPED, NULL},
        [LINE_FAILED] = {PLAN_MALFORMED, "the plan can't be read"},
    };
    enum line_result found = next_line(&plan->lines, line);

    plan->line++;
    plan->error = meanings[found].error;
    return meanings[found].result;
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
        return keys[key].parse(request, (char *)value, &keys[key]);
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
    struct program *program = &request->program, *generator = &request->generator;
    size_t zeroed = offsetof(struct request, id);
    unsigned seen = 0;

    stored = 0;
    program->argument_count = program->variable_count = 0;
    generator->argument_count = generator->variable_count = 0;
    __builtin_memset((char *)request + zeroed, 0, sizeof *request - zeroed);
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
    program->arguments[program->argument_count] = program->environment[program->variable_count] = NULL;
    generator->arguments[generator->argument_count] = generator->environment[generator->variable_count] =
        NULL;
    return PLAN_TRIAL;
}
