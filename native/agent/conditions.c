// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conditions.h"

#include "text.h"

enum { WORD_BITS = (int)(8 * sizeof(unsigned long)), FACT_BITS = 63, FIRST_FACT = FACT_AGENT_CPUS };
static const int64_t NO_QUOTA = INT64_MAX;

static struct facts at_start;

/* Files of the agent's cgroup and of all above it, which stay open. `content` is /proc/self/cgroup as it was
 * when they were opened. */
enum { MOST_GROUPS = 64 };
static struct {
    int list, quotas[MOST_GROUPS]; /* a negative descriptor is a file that does not exist, or not any more */
    unsigned count;
    char content[8192];
} groups = {.list = -1};

static uint32_t crc_add_text(uint32_t crc, const char *text) {
    while (*text)
        crc = crc_add(crc, (unsigned char)*text++);
    return crc;
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
    for (unsigned i = 0; i < groups.count; i++)
        close_file(&groups.quotas[i]);
    groups.count = 0;
}

/* Reads cpu.max of a cgroup, "QUOTA PERIOD" or "max PERIOD" in microseconds, in thousandths of a processor.
 * Opens the file of the group if it is not open. */
static int64_t read_quota(const char *group, int *fd) {
    char content[64];
    const char *at = content;
    int64_t quota, period;

    if (*fd < 0)
        *fd = open_path("/sys/fs/cgroup%s/cpu.max", group);
    if (*fd < 0)
        return NO_QUOTA;
    if (!reread_text(*fd, content, sizeof content)) { /* its group was removed */
        close_file(fd);
        return NO_QUOTA;
    }
    if (!text_number(&at, &quota) || *at++ != ' ' || !text_number(&at, &period) || period < 1)
        return NO_QUOTA;
    return quota > INT64_MAX / 1000 ? NO_QUOTA : quota * 1000 / period;
}

/* Returns what follows "0::" in a line of /proc/self/cgroup, or NULL. */
static char *find_group(char *content) {
    char *path = NULL;

    for (char *at = content; *at && !path;) {
        path = (char *)text_after(at, "0::");
        while (*at && *at != '\n')
            at++;
        if (*at)
            *at++ = 0;
    }
    return path;
}

/* Reads the quota of the agent's cgroup and of all above it. */
static void observe_quota(struct facts *facts) {
    static char content[sizeof groups.content];
    int64_t smallest = NO_QUOTA;

    if (!reread_text(groups.list, content, sizeof content))
        return;
    if (!text_equal(content, groups.content)) {
        close_quotas();
        __builtin_memcpy(groups.content, content, sizeof content);
    }
    char *path = find_group(content);
    if (!path)
        return;
    for (unsigned depth = 0; depth < MOST_GROUPS; depth++) {
        if (depth == groups.count)
            groups.quotas[groups.count++] = -1;
        int64_t quota = read_quota(path, &groups.quotas[depth]);
        smallest = quota < smallest ? quota : smallest;
        if (!*path)
            break;
        char *end = path + text_length(path);
        while (end > path && *--end != '/')
            ;
        *end = 0;
    }
    if (smallest != NO_QUOTA)
        fact_set(facts, FACT_CPU_QUOTA_MILLI, smallest);
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
