// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conditions.h"

#include "text.h"

enum { WORD_BITS = (int)(8 * sizeof(unsigned long)), FACT_BITS = 63, FIRST_FACT = FACT_AGENT_CPUS };
static const int64_t NO_QUOTA = INT64_MAX;

static struct facts at_start;

/* The controller of processors in both versions of cgroups (cgroups(7)). */
enum { VERSIONS = 2 };
static const struct version {
    const char *folder, *quota;
    const char *period; /* NULL: it follows the quota in its file */
} versions[VERSIONS] = {
    {"/sys/fs/cgroup", "cpu.max", NULL},
    {"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"},
};

/* Files of the agent's cgroups and of all above them, which stay open. `content` is /proc/self/cgroup as it
 * was when they were opened. */
enum { MOST_GROUPS = 64 };
static struct {
    int list,
        quotas[VERSIONS][MOST_GROUPS]; /* a negative descriptor is a file that does not exist (any more) */
    unsigned counts[VERSIONS];
    char content[8192];
    int64_t throttled; /* sum of nr_throttled of the groups with a quota at the last reading; negative if
                          unknown */
} groups = {.list = -1, .throttled = -1};

static uint32_t crc_add_text(uint32_t crc, const char *text) {
    return crc_add(crc, text, text_length(text));
}

/* Adds the frequency governor of a processor. Returns false if there is none. */
static bool add_governor(uint32_t *crc, int cpu) {
    char content[32];
    int fd = open_path("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu);

    if (!read_text(fd, content, sizeof content))
        return false;
    *crc = crc_add_text(*crc, content);
    return true;
}

static void observe_processors(struct facts *facts) {
    struct port_cpu_set cpus;
    int first = -1, last = -1, count = 0;
    int64_t bits = 0;
    uint32_t crc = CRC_START;

    if (port_get_affinity(0, &cpus) < 0)
        return;
    for (int i = 0; i < PORT_MAX_CPUS / WORD_BITS; i++)
        for (unsigned long word = cpus.bits[i]; word; word &= word - 1) {
            int cpu = i * WORD_BITS + __builtin_ctzl(word);
            first = first < 0 ? cpu : first;
            last = cpu;
            count++;
            bits |= cpu < FACT_BITS ? 1LL << cpu : 0;
        }
    if (first < 0)
        return;
    fact_set(facts, FACT_AGENT_CPUS, count);
    fact_set(facts, FACT_AGENT_CPU_BITS, bits);
    if (add_governor(&crc, first) && add_governor(&crc, last))
        fact_set(facts, FACT_GOVERNOR_CRC, ~crc);
}

static void observe_limits(struct facts *facts) {
    uint32_t crc = CRC_START;

    for (int resource = 0; resource < PORT_LIMITS; resource++) {
        uint64_t both[2];
        char bytes[48];
        struct text numbers = {bytes, sizeof bytes, 0, false};
        if (port_get_limit(resource, both) < 0)
            return;
        text_format(&numbers, "%lld\n%lld\n", (long long)both[0], (long long)both[1]);
        crc = crc_add_text(crc, text_end(&numbers));
    }
    fact_set(facts, FACT_AGENT_LIMITS_CRC, ~crc);
}

static void close_quotas(void) {
    for (int version = 0; version < VERSIONS; version++) {
        for (unsigned i = 0; i < groups.counts[version]; i++)
            close_file(&groups.quotas[version][i]);
        groups.counts[version] = 0;
    }
}

/* Reads the quota of a cgroup, in thousandths of a processor. Opens its file if it is not open. */
static int64_t read_quota(const struct version *version, const char *group, int *fd) {
    char content[64], other[32];
    const char *at = content, *rest = other;
    int64_t quota, period;

    if (*fd < 0)
        *fd = open_path("%s%s/%s", version->folder, group, version->quota);
    if (*fd < 0)
        return NO_QUOTA;
    if (!reread_text(*fd, content, sizeof content)) { /* its group was removed */
        close_file(fd);
        return NO_QUOTA;
    }
    if (!text_number(&at, &quota)) /* "max", or -1 in version 1 */
        return NO_QUOTA;
    if (!version->period)
        rest = *at == ' ' ? at + 1 : at;
    else if (!read_text(open_path("%s%s/%s", version->folder, group, version->period), other, sizeof other))
        return NO_QUOTA;
    if (!text_number(&rest, &period) || period < 1)
        return NO_QUOTA;
    return quota > INT64_MAX / 1000 ? NO_QUOTA : quota * 1000 / period;
}

/* Adds how often a cgroup was throttled. */
static void add_throttled(const struct version *version, const char *group, int64_t *sum) {
    char content[512];
    int64_t times;
    bool read = read_text(open_path("%s%s/cpu.stat", version->folder, group), content, sizeof content) &&
                number_after(content, "nr_throttled ", &times);
    if (*sum < 0 || !read || __builtin_add_overflow(*sum, times, sum))
        *sum = -1;
}

/* Ends a line "ID:CONTROLLERS:PATH" of /proc/self/cgroup, and returns the next one. Finds the path, and the
 * version whose controller of processors it is of, or NULL. */
static char *next_group(char *line, char **path, const struct version **version) {
    char *list = line, *end;

    while (*list && *list != '\n' && *list++ != ':')
        ;
    *version = text_after(line, "0::") ? &versions[0] : NULL;
    for (*path = list; **path && **path != '\n' && **path != ':'; (*path)++)
        if ((*path == list || (*path)[-1] == ',') && text_after(*path, "cpu") &&
            ((*path)[3] == ':' || (*path)[3] == ','))
            *version = &versions[1];
    *path += **path == ':';
    for (end = *path; *end && *end != '\n';)
        end++;
    char *next = end + (*end != 0);
    *end = 0;
    return next;
}

/* Reads the quota of the agent's cgroups and of all above them, and how often it stopped processes. */
static void observe_quota(struct facts *facts) {
    static char content[sizeof groups.content];
    int64_t smallest = NO_QUOTA, throttled = 0;
    const struct version *version;
    char *path;

    if (!reread_text(groups.list, content, sizeof content))
        return;
    if (!text_equal(content, groups.content)) {
        close_quotas();
        __builtin_memcpy(groups.content, content, sizeof content);
    }
    for (char *line = content; *line;) {
        line = next_group(line, &path, &version);
        for (unsigned depth = 0; version && depth < MOST_GROUPS; depth++) {
            int number = (int)(version - versions);
            if (depth == groups.counts[number])
                groups.quotas[number][groups.counts[number]++] = -1;
            int64_t quota = read_quota(version, path, &groups.quotas[number][depth]);
            if (quota != NO_QUOTA)
                add_throttled(version, path, &throttled);
            smallest = quota < smallest ? quota : smallest;
            if (!*path)
                break;
            char *end = path + text_length(path);
            while (end > path && *--end != '/')
                ;
            *end = 0;
        }
    }
    if (smallest != NO_QUOTA)
        fact_set(facts, FACT_CPU_QUOTA_MILLI, smallest);
    else
        throttled = -1;
    if (groups.throttled >= 0 && throttled >= groups.throttled)
        fact_set(facts, FACT_QUOTA_THROTTLED, throttled - groups.throttled);
    groups.throttled = throttled;
}

static void read_conditions(struct facts *facts) {
    int nice, policy = port_get_policy();

    for (int fact = FIRST_FACT; fact <= FACT_GOVERNOR_CRC; fact++)
        facts->known[fact] = false;
    observe_processors(facts);
    if (port_get_nice(0, &nice) == 0)
        fact_set(facts, FACT_AGENT_NICE, nice);
    if (policy >= 0)
        fact_set(facts, FACT_AGENT_POLICY, policy);
    observe_limits(facts);
    observe_quota(facts);
}

void begin_conditions(void) {
    close_quotas();
    close_file(&groups.list);
    groups.list = port_open_read("/proc/self/cgroup");
    groups.content[0] = 0;
    groups.throttled = -1;
    read_conditions(&at_start);
}

void observe_conditions(struct facts *facts) {
    int64_t changed = 0;

    read_conditions(facts);
    for (int fact = FIRST_FACT; fact <= FACT_GOVERNOR_CRC; fact++)
        if (facts->known[fact] != at_start.known[fact] ||
            (facts->known[fact] && facts->values[fact] != at_start.values[fact]))
            changed |= 1LL << (fact - FIRST_FACT);
    fact_set(facts, FACT_CHANGED_CONDITIONS, changed);
}
