#include "plan.h"

/* Each reads one value into the request and returns NULL, or what is wrong with it. */
typedef const char *take(struct request *request, char *value);

static char store[PLAN_BYTES];
static size_t stored;
static unsigned arguments, variables, drive_arguments, drive_variables;

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

static const char *add_argument(char **list, unsigned *count, char *value) {
    const char *kept, *complaint;
    if (*count == PLAN_WORDS)
        return "there are more than 4096 arguments";
    complaint = *count ? keep(value, &kept) : keep_path(value, &kept);
    if (!complaint)
        list[(*count)++] = (char *)kept;
    return complaint;
}

static const char *add_variable(char **list, unsigned *count, char *value) {
    const char *kept, *complaint = keep(value, &kept);
    if (complaint)
        return complaint;
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

static const char *take_argument(struct request *request, char *value) {
    return add_argument(request->arguments, &arguments, value);
}

static const char *take_variable(struct request *request, char *value) {
    return add_variable(request->environment, &variables, value);
}

static const char *take_drive_argument(struct request *request, char *value) {
    return add_argument(request->drive.arguments, &drive_arguments, value);
}

static const char *take_drive_variable(struct request *request, char *value) {
    return add_variable(request->drive.environment, &drive_variables, value);
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

static const char *take_cpus(struct request *request, char *value) {
    return read_cpus(&request->cpus, &request->pinned, value);
}

static const char *take_drive_cpus(struct request *request, char *value) {
    return read_cpus(&request->drive.cpus, &request->drive.pinned, value);
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

static const char *take_number_from(int64_t lowest, char *value, int64_t highest, int64_t *number) {
    const char *at = value;
    if (!text_number(&at, number) || *at)
        return "the value is not a whole number";
    return *number >= lowest && *number <= highest ? NULL : "the number is out of range";
}

static const char *take_number(char *value, int64_t highest, int64_t *number) {
    return take_number_from(1, value, highest, number);
}

enum { HOUR_MS = 3600000 };

static const char *take_port(struct request *request, char *value) {
    int64_t port = 0;
    const char *complaint = take_number(value, 65535, &port);
    request->drive.port = (int)port;
    return complaint;
}

static const char *take_ready(struct request *request, char *value) {
    return take_number(value, HOUR_MS, &request->drive.ready_ms);
}

static const char *take_warm(struct request *request, char *value) {
    return take_number_from(0, value, HOUR_MS, &request->drive.warm_ms);
}

static const char *take_drain(struct request *request, char *value) {
    return take_number_from(0, value, HOUR_MS, &request->drive.drain_ms);
}

static const char *take_stop(struct request *request, char *value) {
    return take_number(value, HOUR_MS, &request->drive.stop_ms);
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

/* Of a server's lines either all are there that must be, or none. */
enum need { MUST, MAY, MUST_OF_SERVER, MAY_OF_SERVER };

static const struct {
    const char *start;
    take *take;
    bool repeats;
    enum need need;
} keys[] = {
    {"trial ", take_trial, false, MUST},
    {"arg ", take_argument, true, MUST},
    {"env ", take_variable, true, MAY},
    {"cwd ", take_folder, false, MUST},
    {"cpus ", take_cpus, false, MUST},
    {"nice ", take_nice, false, MAY},
    {"timeout-ms ", take_timeout, false, MUST},
    {"output-bytes ", take_output, false, MUST},
    {"disk-bytes ", take_disk, false, MUST},
    {"stdin ", take_in, false, MAY},
    {"stdout ", take_out, false, MAY},
    {"port ", take_port, false, MUST_OF_SERVER},
    {"ready-ms ", take_ready, false, MUST_OF_SERVER},
    {"warm-ms ", take_warm, false, MUST_OF_SERVER},
    {"drain-ms ", take_drain, false, MUST_OF_SERVER},
    {"stop-ms ", take_stop, false, MUST_OF_SERVER},
    {"driver-arg ", take_drive_argument, true, MUST_OF_SERVER},
    {"driver-env ", take_drive_variable, true, MAY_OF_SERVER},
    {"driver-cpus ", take_drive_cpus, false, MUST_OF_SERVER},
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
    if (result == PLAN_TRIAL && !text_equal(line, "swapstone-plan 2"))
        return refuse(plan,
                      "the first line is not `swapstone-plan 2`, the only version that this agent knows");
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

/* What a trial's lines lack, or NULL. */
static const char *find_lacking(unsigned seen) {
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

    stored = arguments = variables = drive_arguments = drive_variables = 0;
    __builtin_memset(&request->cpus, 0, sizeof request->cpus);
    __builtin_memset(&request->drive.cpus, 0, sizeof request->drive.cpus);
    request->pinned = request->has_nice = request->drive.pinned = false;
    request->drive.port = 0;
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
    const char *lacking = find_lacking(seen);
    if (lacking)
        return refuse(plan, lacking);
    request->drive.arguments[drive_arguments] = request->drive.environment[drive_variables] = NULL;
    request->arguments[arguments] = request->environment[variables] = NULL;
    return PLAN_TRIAL;
}
