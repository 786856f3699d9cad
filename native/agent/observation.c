// SPDX-License-Identifier: MIT OR Apache-2.0
#include "observation.h"

#include "observe.h"

const char *parse_observation(struct observation_request *request, char *value) {
    const char *name = NULL;

    for (int kind = 0; kind < OBSERVE_COUNT && !name; kind++) {
        const char *rest = text_after(value, observation_names[kind]);
        if (rest && *rest == ' ') {
            request->kind = (enum observation_kind)kind;
            name = rest + 1;
        }
    }
    if (!name)
        return "an observation is KIND NAME, and the kind is not known";
    if (!text_decode((char *)name))
        return "the text is not percent-encoded";
    if (!*name)
        return "an observation has an empty name";
    if (request->kind == OBSERVE_FILE && *name != '/')
        return "the path is not absolute";
    for (const char *at = name; *at; at++)
        if ((request->kind == OBSERVE_ENV && *at == '=') ||
            (request->kind != OBSERVE_ENV && request->kind != OBSERVE_FILE && *at == '/'))
            return "the name of an observation has a character that it may not have";
    if (request->kind != OBSERVE_ENV && (text_equal(name, ".") || text_equal(name, "..")))
        return "the name of an observation is a folder";
    request->name = name;
    return NULL;
}

/* Adds a byte to a value, which begins behind the values before it. Returns false if there is no room. */
static bool add_byte(struct observations *observations, struct observation *observation, char byte) {
    if (observation->size == OBSERVATION_VALUE_BYTES ||
        observations->used + observation->size == sizeof observations->bytes)
        return false;
    observations->bytes[observations->used + observation->size++] = byte;
    return true;
}

/* Reads a whole file. */
static void read_value(struct observations *observations, struct observation *observation, int fd) {
    static char bytes[4096];
    bool room = true;
    long size = fd;

    while (fd >= 0 && room && (size = port_read(fd, bytes, sizeof bytes)) > 0)
        for (long i = 0; i < size && room; i++)
            room = add_byte(observations, observation, bytes[i]);
    close_file(&fd);
    observation->error = size < 0 ? (int)size : 0;
    observation->result = size == -PORT_E_NOENT ? OBSERVATION_ABSENT
                          : size < 0 || !room   ? OBSERVATION_FAILED
                                                : OBSERVATION_READ;
}

/* Finds NAME=VALUE in /proc/PID/environ, where each entry ends with a zero byte. The first one counts, as for
 * getenv(3). */
static void read_variable(struct observations *observations, struct observation *observation, int pid) {
    static char bytes[4096];
    const char *name = observation->what.name,
               *at = name; /* the next byte of the name, or NULL: another entry */
    bool room = true, found = false, done = false;
    int fd = open_proc_file(pid, "environ");
    long size = fd;

    while (fd >= 0 && !done && (size = port_read(fd, bytes, sizeof bytes)) > 0)
        for (long i = 0; i < size && !done; i++) {
            if (found && bytes[i])
                room &= add_byte(observations, observation, bytes[i]);
            else if (!bytes[i]) {
                done = found;
                at = name;
            } else if (at && !*at && bytes[i] == '=')
                found = true;
            else
                at = at && *at == bytes[i] ? at + 1 : NULL;
        }
    close_file(&fd);
    observation->error = size < 0 ? (int)size : 0;
    observation->result = size < 0 || !room ? OBSERVATION_FAILED
                          : found           ? OBSERVATION_READ
                                            : OBSERVATION_ABSENT;
}

/* Opens a file of the process's cgroup. The line "0::PATH" of /proc/PID/cgroup is that of version 2; the file
 * cgroup.controllers is missing where another version is mounted there (cgroups(7)). */
static int open_cgroup_file(int pid, const char *name) {
    static char bytes[8192];
    struct lines lines = {.fd = open_proc_file(pid, "cgroup"), .bytes = bytes, .room = sizeof bytes};
    char *line;
    const char *group = NULL;
    int version_2 = port_open_read("/sys/fs/cgroup/cgroup.controllers");

    while (lines.fd >= 0 && version_2 >= 0 && !group && next_line(&lines, &line) == LINE)
        group = text_after(line, "0::");
    close_file(&version_2);
    if (lines.fd < 0)
        return lines.fd;
    port_close(lines.fd);
    return group ? open_path("/sys/fs/cgroup%s/%s", group, name) : -PORT_E_OPNOTSUPP;
}

void observe_values(struct observations *observations, int pid, const struct observation_request *requests,
                    unsigned count) {
    observations->count = count;
    observations->used = 0;
    for (unsigned i = 0; i < count; i++) {
        struct observation *one = &observations->list[i];
        *one = (struct observation){.what = requests[i], .value = observations->bytes + observations->used};
        switch (requests[i].kind) {
        case OBSERVE_ENV:
            read_variable(observations, one, pid);
            break;
        case OBSERVE_PROC:
            read_value(observations, one, open_proc_file(pid, requests[i].name));
            break;
        case OBSERVE_CGROUP:
            read_value(observations, one, open_cgroup_file(pid, requests[i].name));
            break;
        case OBSERVE_FILE:
            read_value(observations, one, port_open_read(requests[i].name));
            break;
        case OBSERVE_COUNT:
            break;
        }
        if (one->result == OBSERVATION_READ)
            observations->used += one->size;
    }
}
