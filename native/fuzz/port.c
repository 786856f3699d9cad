// SPDX-License-Identifier: MIT OR Apache-2.0
#include "port.h"

#include <stdlib.h>
#include <string.h>

#include "../port/port.h"

enum { MOST_FILES = 16, MOST_OPENED = 256, FIRST_FD = 100, SEPARATOR = 0x1e, MOST_READ = 4096 };

static struct {
    const uint8_t *bytes;
    size_t size, at;
} files[MOST_FILES];
static int count, opened, listed;
static size_t most_read;
static uint64_t
    paths[MOST_OPENED]; /* hashes of the paths that were opened, in the order of their first opening */
static int path_count;

void set_files(const uint8_t *data, size_t size) {
    count = opened = listed = path_count = 0;
    most_read = size & 1 ? 7 : MOST_READ; /* files are also read in small pieces */
    do {
        const uint8_t *end = size ? memchr(data, SEPARATOR, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        files[count].bytes = data;
        files[count++].size = length;
        if (!end)
            break;
        data += length + 1;
        size -= length + 1;
    } while (count < MOST_FILES);
}

/* FNV-1a */
static uint64_t hash(const char *path) {
    uint64_t value = 0xcbf29ce484222325;
    while (*path)
        value = (value ^ (unsigned char)*path++) * 0x100000001b3;
    return value;
}

int port_open_read(const char *path) {
    uint64_t hashed = hash(path); /* the address sanitizer checks the path */
    int file = 0;

    /* A process that is its own parent would be opened without end. */
    if (!*path || ++opened > MOST_OPENED)
        return -PORT_E_NOENT;
    while (file < path_count && paths[file] != hashed)
        file++;
    if (file == path_count)
        paths[path_count++] = hashed;
    file %= count;
    files[file].at = 0;
    return FIRST_FD + file;
}

int port_close(int fd) {
    return fd >= FIRST_FD && fd < FIRST_FD + MOST_FILES ? 0 : -PORT_E_NOENT;
}

long port_read(int fd, void *buffer, size_t size) {
    int file = fd - FIRST_FD;
    size_t left = files[file].size - files[file].at;

    size = size < left ? size : left;
    size = size < most_read ? size : most_read;
    memcpy(buffer, files[file].bytes + files[file].at, size);
    files[file].at += size;
    return (long)size;
}

int port_create_file(const char *path) {
    (void)path;
    return FIRST_FD;
}

long port_lseek(int fd, long offset) {
    int file = fd - FIRST_FD;

    if (offset < 0 || (size_t)offset > files[file].size)
        return -PORT_E_NOENT;
    files[file].at = (size_t)offset;
    return offset;
}

/* Each folder has three entries; every other one is empty, so that loops over folders in folders end. */
long port_getdents(int fd, void *buffer, size_t size) {
    static const char names[] = "11\00012\000self";

    (void)fd;
    if (size < sizeof names || listed++ % 2)
        return 0;
    memcpy(buffer, names, sizeof names);
    return sizeof names;
}

const char *port_next_dirent(const void *buffer, size_t *offset) {
    const char *name = (const char *)buffer + *offset;

    *offset += strlen(name) + 1;
    return name;
}

void *port_mmap(size_t size, bool shared) {
    (void)shared;
    return calloc(1, size);
}

int port_keep_from_children(void *memory, size_t size) {
    return memory && size ? 0 : -PORT_E_NOMEM;
}

int64_t port_now_ns(void) {
    return 1000;
}

int64_t port_process_cpu_ns(int pid) {
    return pid > 0 ? 5 : -PORT_E_NOENT;
}

int port_getpid(void) {
    return 10;
}

int port_get_nice(int pid, int *nice) {
    *nice = 0;
    return pid >= 0 ? 0 : -PORT_E_NOENT;
}

int port_get_affinity(int pid, struct port_cpu_set *cpus) {
    memset(cpus, 0, sizeof *cpus);
    cpus->bits[0] = 5;
    return pid >= 0 ? 0 : -PORT_E_NOENT;
}

int port_get_policy(void) {
    return 0;
}

int port_get_limit(int resource, uint64_t both[2]) {
    both[0] = both[1] = (uint64_t)resource;
    return 0;
}

int port_count_allowed_cpus(int pid) {
    return pid >= 0 ? 2 : -PORT_E_NOENT;
}
