// SPDX-License-Identifier: MIT OR Apache-2.0
/* Mounts the root on /dev/fs-root, and measures how long its init takes or how long its files take to read.
 * After a warm read it checks what they hold.
 *
 *     root boot|cold_read|warm_read TYPE IMAGE FILES BYTES ADLER32
 *
 * The type of the file system; the file from which the device was written; how many files it holds, their
 * size together, and the checksum (RFC 1950) of their contents in the order of their paths. */
#include "figures.h"
#include "proc_files.h"

#include <dirent.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

enum { CHUNK = 1 << 16, ADLER_BASE = 65521, ADLER_RUN = 5552, START_BYTES = 96, SUPERBLOCK_BYTES = 128 };

static const char device[] = "/dev/fs-root", folder[] = "/mnt";

/* What was found in the root. */
struct contents {
    uint64_t files, bytes;
    uint32_t low, high; /* of the checksum, if one is requested */
};

/* The machine's counters. */
struct counters {
    uint64_t now_ns, idle_ns, free_bytes, reads, sectors;
    bool has_idle;
};

static void add_checksum(struct contents *found, const unsigned char *bytes, size_t size) {
    while (size) {
        size_t run = size < ADLER_RUN ? size : ADLER_RUN; /* the sums don't exceed 32 bits */
        for (size_t i = 0; i < run; i++)
            found->high += found->low += bytes[i];
        found->low %= ADLER_BASE;
        found->high %= ADLER_BASE;
        bytes += run;
        size -= run;
    }
}

static void read_file(const char *path, struct contents *found, bool checks) {
    static unsigned char chunk[CHUNK];
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t size;

    if (fd < 0)
        figures_fail("can't open a file of the root");
    while ((size = read(fd, chunk, sizeof chunk)) > 0) {
        found->bytes += (uint64_t)size;
        if (checks)
            add_checksum(found, chunk, (size_t)size);
    }
    if (size < 0)
        figures_fail("can't read a file of the root");
    close(fd);
    found->files++;
}

/* Reads the files of a folder and of those in it, in the order of their names. The path is extended in
 * place. */
static void read_folder(char *path, struct contents *found, bool checks) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    size_t length = strlen(path);

    if (count < 0)
        figures_fail("can't read a folder of the root");
    for (int i = 0; i < count; i++) {
        const struct dirent *entry = entries[i];
        if (length + 1 + strlen(entry->d_name) >= PATH_MAX)
            figures_fail("a path of the root is too long");
        snprintf(path + length, PATH_MAX - length, "/%s", entry->d_name);
        if (entry->d_type == DT_REG)
            read_file(path, found, checks);
        else if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            read_folder(path, found, checks);
        free(entries[i]);
    }
    path[length] = '\0';
    free(entries);
}

static struct contents read_root(bool checks) {
    static char path[PATH_MAX];
    struct contents found = {.low = 1};

    strcpy(path, folder);
    read_folder(path, &found, checks);
    return found;
}

/* Adds up the numbers of the lines "  .NAME : NUMBER nsecs". Returns false if there is none. */
static bool add_ns(const char *text, const char *name, uint64_t *sum) {
    bool found = false;

    for (; (text = strstr(text, name)); found = true) {
        text = strchr(text, ':');
        if (!text)
            return false;
        *sum += strtoull(text + 1, NULL, 10);
    }
    return found;
}

/* Returns the free memory, with the pages that the allocator keeps for each processor (pagesets of
 * /proc/zoneinfo): MemFree leaves them out, and a few hundred pages go there or not. */
static uint64_t free_bytes(void) {
    uint64_t bytes = proc_field(require_proc_file("/proc/meminfo"), "MemFree") * 1024;
    const char *text = require_proc_file("/proc/zoneinfo");

    while ((text = strstr(text, " count:"))) {
        text += sizeof " count:" - 1;
        bytes += strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    return bytes;
}

/* Reads the counters: the time last at the beginning, and first at the end of a measurement. */
static struct counters read_counters(bool begins) {
    struct counters read = {.now_ns = begins ? 0 : now_ns()};
    char path[64];
    uint64_t fields[3] = {0};
    struct stat is;

    if (stat(device, &is) != 0)
        figures_fail(device);
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/stat", major(is.st_rdev), minor(is.st_rdev));
    if (parse_numbers(require_proc_file(path), fields, 3) != 3)
        figures_fail(path);
    read.reads = fields[0];
    read.sectors = fields[2];
    read.free_bytes = free_bytes();
    /* In nanoseconds; /proc/stat has the same in steps of 10 ms. */
    const char *timers = read_proc_file("/proc/timer_list");
    read.has_idle = timers && add_ns(timers, ".idle_sleeptime", &read.idle_ns) &&
                    add_ns(timers, ".iowait_sleeptime", &read.idle_ns);
    if (begins)
        read.now_ns = now_ns();
    return read;
}

static void mount_root(const char *type) {
    if (mount(device, folder, type, MS_RDONLY, NULL) != 0)
        figures_fail("can't mount the root");
}

/* Starts the shell of the root and waits for its first byte. */
static void start_init(void) {
    int ends[2], status;
    char byte;

    if (pipe(ends) != 0)
        figures_fail("can't make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        if (chroot(folder) == 0 && chdir("/") == 0)
            execl("/bin/sh", "sh", "-c", "echo", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], &byte, 1);
    if (pid < 0 || size != 1 || waitpid(pid, &status, 0) != pid || status != 0)
        figures_fail("the shell of the root did not start");
    close(ends[0]);
}

static void see_device(const char *name, int fd, off_t at, size_t size) {
    unsigned char bytes[SUPERBLOCK_BYTES];

    if (pread(fd, bytes, size, at) != (ssize_t)size)
        figures_fail("can't read the superblock of the root");
    figures_add("seen %s ", name);
    for (size_t i = 0; i < size; i++)
        figures_add("%02x", bytes[i]);
    figures_add("\n");
}

static void require_contents(struct contents found, char **expected) {
    if (found.files != strtoull(expected[0], NULL, 10) || found.bytes != strtoull(expected[1], NULL, 10) ||
        (found.high << 16 | found.low) != strtoul(expected[2], NULL, 10))
        figures_fail("the root does not hold the files from which its image was made");
}

static uint64_t taken(struct counters before, struct counters after) {
    return before.free_bytes > after.free_bytes ? before.free_bytes - after.free_bytes : 0;
}

static void drop_caches(void) {
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "3", 1) != 1)
        figures_fail("can't drop the caches");
    close(fd);
}

int main(int count, char **arguments) {
    if (count != 7)
        figures_fail("usage: root WORK TYPE IMAGE FILES BYTES ADLER32");
    const char *work = arguments[1], *type = arguments[2];
    bool boots = strcmp(work, "boot") == 0, warm = strcmp(work, "warm_read") == 0, cold = !boots && !warm;
    struct counters unmounted = read_counters(true), before = unmounted;
    struct stat image;

    if (stat(arguments[3], &image) != 0)
        figures_fail("there is no image");
    if (boots)
        before = read_counters(true);
    mount_root(type);
    if (warm)
        read_root(false);
    if (!boots)
        before = read_counters(true);
    if (boots)
        start_init();
    else
        read_root(false);
    struct counters after = read_counters(false), kept = after;
    if (cold) {
        drop_caches();
        kept = read_counters(false);
    }
    if (warm)
        require_contents(read_root(true), arguments + 4);

    figures_begin(work);
    int fd = open(device, O_RDONLY | O_CLOEXEC);
    see_device("device_start", fd, 0, START_BYTES);
    see_device("device_1024", fd, 1024, SUPERBLOCK_BYTES);
    uint64_t took_ns = after.now_ns - before.now_ns;
    figure(boots ? "to_init" : "read_time", took_ns);
    if (before.has_idle && after.has_idle)
        figure("busy", took_ns - (after.idle_ns - before.idle_ns));
    else
        figures_add("figure busy -\n");
    figure("device_bytes", (after.sectors - before.sectors) * 512);
    if (!warm)
        figure("device_reads", after.reads - before.reads);
    if (boots)
        figure("image_bytes", (uint64_t)image.st_size);
    if (cold) {
        figure("memory", taken(unmounted, after));
        figure("memory_kept", taken(unmounted, kept));
    }
    figures_end();
    return 0;
}
