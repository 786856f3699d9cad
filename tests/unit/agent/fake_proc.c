// SPDX-License-Identifier: MIT OR Apache-2.0
/* Runs the agent's readers of /proc on folders that a test made, where no machine would have the wanted
 * values. Implements the part of port.h that they call.
 *
 *     fake_proc machine BEFORE AFTER    growth of the machine's counters
 *     fake_proc server BEFORE AFTER     growth of a server's counters; the agent is process 1
 *     fake_proc task FOLDER PID         what is read of one process
 *     fake_proc image FOLDER PID...     its loader and its mapped objects, as lines "interp PATH" and "object
 * PATH" fake_proc text FOLDER ROOM        length of the file "text" in a buffer of so many bytes, opened and
 * read again; -1: not read fake_proc conditions BEFORE AFTER what trials inherit, and whether it is that of
 * the agent's start
 *
 * BEFORE, AFTER and FOLDER stand for the root folder. The file "now_ns" in it is the clock, "proc/PID/cpu_ns"
 * the processor time of a process, "proc/PID/cpus" and "proc/PID/nice" are its affinity and nice value.
 * "cpus" has the numbers of the agent's processors, "policy" is its scheduling policy, "limit/N/soft" and
 * "limit/N/hard" are its resource limits, which are 0 without the file; a negative number is an error. A file
 * that stays open is read below AFTER when it is rewound there. Prints one line "NAME VALUE" for each known
 * fact. The exit status is 3 if a descriptor stays open of what is read of processes, or of an earlier start.
 */
#include "../../../native/agent/conditions.h"
#include "../../../native/agent/counters.h"
#include "../../../native/agent/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_FILES = 64 };
static const char *root;
static char *paths[MOST_FILES]; /* of open files */

static int open_below_root(const char *path) {
    char full[4096];
    snprintf(full, sizeof full, "%s%s", root, path);
    return open(full, O_RDONLY | O_CLOEXEC);
}

int port_open_read(const char *path) {
    int fd = open_below_root(path);
    if (fd < 0)
        return -errno;
    if (strcmp(path, "/proc/self/cgroup") == 0) { /* leaves the lowest descriptor to a quota */
        int high = fcntl(fd, F_DUPFD_CLOEXEC, MOST_FILES / 2);
        close(fd);
        fd = high;
    }
    if (fd >= MOST_FILES)
        abort();
    free(paths[fd]);
    paths[fd] = strdup(path);
    return fd;
}

int port_close(int fd) {
    return close(fd);
}

long port_read(int fd, void *buffer, size_t size) {
    long result = read(fd, buffer, size);
    return result < 0 ? -errno : result;
}

/* A file of a machine that is rewound has new content, or can't be read any more. */
long port_lseek(int fd, long offset) {
    int again = open_below_root(paths[fd]);
    if (again < 0)
        again = open("/dev/null", O_RDONLY);
    if (again < 0 || dup2(again, fd) < 0 || close(again) < 0)
        abort();
    return lseek(fd, offset, SEEK_SET);
}

long port_getdents(int fd, void *buffer, size_t size) {
    return syscall(SYS_getdents64, fd, buffer, size);
}

const char *port_next_dirent(const void *buffer, size_t *offset) {
    const char *entry = (const char *)buffer + *offset;
    unsigned short length;
    memcpy(&length, entry + 16, sizeof length); /* struct linux_dirent64 */
    *offset += length;
    return entry + 19;
}

/* Reads a number from a file below the root folder; `otherwise` if there is none. */
static long long number(const char *format, int pid, long long otherwise) {
    char name[64], bytes[64] = "";
    snprintf(name, sizeof name, format, pid);
    int fd = port_open_read(name);
    if (fd < 0)
        return otherwise;
    if (read(fd, bytes, sizeof bytes - 1) <= 0)
        abort();
    close(fd);
    return atoll(bytes);
}

int64_t port_now_ns(void) {
    return number("/now_ns", 0, 0);
}

int64_t port_process_cpu_ns(int pid) {
    return number("/proc/%d/cpu_ns", pid, -PORT_E_NOENT);
}

int port_count_allowed_cpus(int pid) {
    return (int)number("/proc/%d/cpus", pid, -PORT_E_NOENT);
}

int port_get_nice(int pid, int *nice) {
    long long value = number("/proc/%d/nice", pid, 100);
    *nice = (int)value;
    return value == 100 ? -PORT_E_NOENT : 0;
}

int port_getpid(void) {
    return 1;
}

int port_get_affinity(int pid, struct port_cpu_set *cpus) {
    (void)pid;
    char bytes[64] = "", *end, *at = bytes;
    int fd = port_open_read("/cpus");
    if (fd < 0)
        return fd;
    if (read(fd, bytes, sizeof bytes - 1) < 0)
        abort();
    close(fd);
    *cpus = (struct port_cpu_set){0};
    for (long cpu = strtol(at, &end, 10); end > at; cpu = strtol(at = end, &end, 10))
        cpus->bits[(size_t)cpu / (8 * sizeof(long))] |= 1UL << (size_t)cpu % (8 * sizeof(long));
    return 0;
}

int port_get_policy(void) {
    return (int)number("/policy", 0, 0);
}

int port_get_limit(int resource, uint64_t both[2]) {
    both[0] = (uint64_t)number("/limit/%d/soft", resource, 0);
    both[1] = (uint64_t)number("/limit/%d/hard", resource, 0);
    return both[0] == UINT64_MAX ? -PORT_E_NOENT : 0;
}

static void print(const struct facts *facts) {
    for (int fact = 0; fact < FACT_COUNT; fact++)
        if (facts->known[fact])
            printf("%s %lld\n", fact_names[fact], (long long)facts->values[fact]);
}

static void print_image(int pid) {
    static struct image image;
    struct task_files files; /* `image` is that of the process before */

    open_task_files(&files, pid);
    observe_image(&image, &files, pid);
    close_task_files(&files);
    if (image.has_interp)
        printf("interp %s\n", image.interp);
    for (size_t at = 0; at < image.objects.used; at += strlen(image.objects.bytes + at) + 1)
        printf("object %s\n", image.objects.bytes + at);
    if (image.failed)
        printf("failed %d\n", -image.failed);
}

static void read_task(struct facts *facts, int pid) {
    struct run_times earlier = {number("/proc/%d/earlier_cpu_ns", pid, 0),
                                number("/proc/%d/earlier_delay_ns", pid, 0)};
    struct task_files files;

    open_task_files(&files, pid);
    observe_task(facts, &files, pid, earlier);
    close_task_files(&files);
}

/* Returns the length of the text, -1 if it is not read, and -2 if a byte beyond the room was written. */
static long length_in_room(bool (*reader)(int, char *, size_t), size_t room) {
    char bytes[256];
    memset(bytes, 'x', sizeof bytes);
    bool known = reader(port_open_read("/text"), bytes, room);
    for (size_t at = room; at < sizeof bytes; at++)
        if (bytes[at] != 'x')
            return -2;
    return known ? (long)strlen(bytes) : -1;
}

static int count_open_files(void) {
    int count = 0;
    for (int fd = 0; fd < MOST_FILES; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

int main(int count, char **arguments) {
    static struct facts before, after;
    static struct counters first, second;
    struct machine_files files;

    if (count < 4)
        return 2;
    close(0); /* the next file has this descriptor, which is one like others */
    root = arguments[2];
    if (strcmp(arguments[1], "image") == 0) {
        for (int i = 3; i < count; i++)
            print_image(atoi(arguments[i]));
    } else if (strcmp(arguments[1], "text") == 0) {
        size_t room = (size_t)atoi(arguments[3]);
        printf("read %ld\nagain %ld\n", length_in_room(read_text, room), length_in_room(reread_text, room));
    } else if (strcmp(arguments[1], "task") == 0) {
        read_task(&after, atoi(arguments[3]));
    } else if (strcmp(arguments[1], "machine") == 0) {
        open_machine_files(&files);
        observe_machine(&before, &files);
        root = arguments[3];
        observe_machine(&after, &files);
        facts_grow(&after, &before);
    } else if (strcmp(arguments[1], "server") == 0) {
        count_server(&first);
        root = arguments[3];
        count_server(&second);
        set_window_facts(&after, &first, &second);
    } else if (strcmp(arguments[1], "conditions") == 0) {
        begin_conditions();
        for (int fact = FACT_AGENT_CPUS; fact <= FACT_GOVERNOR_CRC; fact++)
            after.known[fact] = true; /* of a trial before */
        root = arguments[3];
        observe_conditions(&after);
    } else {
        return 2;
    }
    print(&after);
    if (strcmp(arguments[1], "conditions") ==
        0) { /* a new start leaves no more descriptors open than the first one */
        int open_files = count_open_files();
        begin_conditions();
        observe_conditions(&after);
        return count_open_files() <= open_files ? 0 : 3;
    }
    bool processes = strcmp(arguments[1], "task") == 0 || strcmp(arguments[1], "server") == 0;
    return processes && dup(1) != 0 ? 3 : 0; /* the lowest free descriptor is the first one */
}
