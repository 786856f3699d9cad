#include "plan.h"

/* Each reads one value into the request and returns NULL, or what is wrong with it. */
typedef const char *take(struct request *request, char *value);

static char store[PLAN_BYTES];
static size_t stored;
static unsigned arguments, variables;

/* Keeps a decoded text until the trial is over. */
static const char *keep(char *value, const char **kept) {
    if (!text_decode(value))
        return "the text is not encoded as the protocol says";
    size_t size = text_length(value) + 1;
    if (size > sizeof store - stored)
        return "the trial's texts are longer than 1 MiB together";
    __builtin_memcpy(store + stored, value, size);
    *kept = store + stored;
    stored += size;
    return NULL;
}

static const char *keep_path(char *value, const char **kept) {
    const char *complaint = keep(value, kept);
    return complaint || **kept == '/' ? complaint : "the path is not absolute";
}

static const char *take_trial(struct request *request, char *value) {
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

static const char *take_argument(struct request *request, char *value) {
    const char *kept, *complaint;
    if (arguments == PLAN_WORDS)
        return "there are more than 4096 arguments";
    complaint = arguments ? keep(value, &kept) : keep_path(value, &kept);
    if (!complaint)
        request->arguments[arguments++] = (char *)kept;
    return complaint;
}

static const char *take_variable(struct request *request, char *value) {
    const char *kept, *complaint = keep(value, &kept);
    if (complaint)
        return complaint;
    if (variables == PLAN_WORDS)
        return "there are more than 4096 environment variables";
    const char *equals = kept;
    while (*equals && *equals != '=')
        equals++;
    if (!*equals || equals == kept)
        return "an environment variable is NAME=VALUE";
    request->environment[variables++] = (char *)kept;
    return NULL;
}

static const char *take_folder(struct request *request, char *value) {
    return keep_path(value, &request->folder);
}

static const char *take_in(struct request *request, char *value) {
    return keep_path(value, &request->in);
}

static const char *take_out(struct request *request, char *value) {
    return keep_path(value, &request->out);
}

static const char *take_cpus(struct request *request, char *value) {
    const char *at = value;
    int64_t cpu;

    if (text_equal(value, "all"))
        return NULL;
    request->pinned = true;
    for (;; at++) {
        if (!text_number(&at, &cpu))
            return "processors are a comma list of numbers, or `all`";
        if (cpu >= PORT_CPUS)
            return "a processor's number is at most 4095";
        enum { BITS = 8 * sizeof(unsigned long) };
        request->cpus.bits[cpu / BITS] |= 1UL << (cpu % BITS);
        if (!*at)
            return NULL;
        if (*at != ',')
            return "processors are a comma list of numbers, or `all`";
    }
}

static const char *take_nice(struct request *request, char *value) {
    bool negative = *value == '-';
    const char *at = value + negative;
    int64_t nice;

    if (!text_number(&at, &nice) || *at || nice > 20 - !negative || (negative && nice == 0))
        return "nice is a whole number from -20 to 19";
    request->nice = negative ? -(int)nice : (int)nice;
    request->has_nice = true;
    return NULL;
}

static const char *take_number(char *value, int64_t highest, int64_t *number) {
    const char *at = value;
    if (!text_number(&at, number) || *at)
        return "the value is not a whole number";
    return *number >= 1 && *number <= highest ? NULL : "the number is out of range";
}

static const char *take_timeout(struct request *request, char *value) {
    return take_number(value, 1000LL * 86400 * 365, &request->timeout_ms);
}

static const char *take_output(struct request *request, char *value) {
    return take_number(value, 16 << 20, &request->output_bytes);
}

static const char *take_disk(struct request *request, char *value) {
    return take_number(value, INT64_MAX, &request->disk_bytes);
}

static const struct {
    const char *start;
    take *take;
    bool repeats, optional;
} keys[] = {
    {"trial ", take_trial, false, false},        {"arg ", take_argument, true, false},
    {"env ", take_variable, true, true},         {"cwd ", take_folder, false, false},
    {"cpus ", take_cpus, false, false},          {"nice ", take_nice, false, true},
    {"timeout-ms ", take_timeout, false, false}, {"output-bytes ", take_output, false, false},
    {"disk-bytes ", take_disk, false, false},    {"stdin ", take_in, false, true},
    {"stdout ", take_out, false, true},
};
enum { KEYS = sizeof keys / sizeof *keys };

static enum plan_result refuse(struct plan *plan, const char *complaint) {
    plan->complaint = complaint;
    return PLAN_MALFORMED;
}

/* Reads a line; whether it is there, the plan ends, or something is wrong. */
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
    if (result == PLAN_END)
        return refuse(plan, "the plan is empty");
    if (result == PLAN_TRIAL && !text_equal(line, "swapstone-plan 1"))
        return refuse(plan,
                      "the first line is not `swapstone-plan 1`, the only version that this agent knows");
    return result;
}

/* Puts one line into the request. */
static const char *take_line(struct request *request, char *line, unsigned *seen) {
    for (unsigned key = 0; key < KEYS; key++) {
        const char *value = text_after(line, keys[key].start);
        if (!value)
            continue;
        if (key > 0 && !(*seen & 1))
            return "a trial begins with its `trial` line";
        if ((*seen >> key & 1) && !keys[key].repeats)
            return "the trial has such a line already";
        *seen |= 1U << key;
        return keys[key].take(request, (char *)value);
    }
    return "the line begins with no known word";
}

enum plan_result plan_next(struct plan *plan, struct request *request) {
    unsigned seen = 0;

    stored = arguments = variables = 0;
    __builtin_memset(&request->cpus, 0, sizeof request->cpus);
    request->pinned = request->has_nice = false;
    request->in = request->out = NULL;
    for (;;) {
        char *line;
        enum plan_result result = read_line(plan, &line);
        if (result == PLAN_END && seen)
            return refuse(plan, "the plan ends inside a trial");
        if (result != PLAN_TRIAL)
            return result;
        if (text_equal(line, "quit") && !seen)
            return PLAN_END;
        if (text_equal(line, "run"))
            break;
        const char *complaint = take_line(request, line, &seen);
        if (complaint)
            return refuse(plan, complaint);
    }
    request->read_ns = port_now_ns();
    for (unsigned key = 0; key < KEYS; key++)
        if (!(seen >> key & 1) && !keys[key].optional)
            return refuse(
                plan, "the trial lacks one of trial, arg, cwd, cpus, timeout-ms, output-bytes, disk-bytes");
    request->arguments[arguments] = request->environment[variables] = NULL;
    return PLAN_TRIAL;
}
