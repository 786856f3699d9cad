/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Planted causes that need nothing but the C library: `work NAME 0` and `work NAME 1`; benchmarks/causes.toml has the functions that
   explain should name. Compile with -O2 -pthread. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static volatile uint64_t sink;

__attribute__((noinline)) static void crunch(unsigned turns) {
    uint64_t state = 88172645463325252u;

    for (unsigned i = 0; i < turns; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    sink += state;
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static char *pages(size_t size) {
    char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    check(area != MAP_FAILED, "mmap");
    madvise(area, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += PAGE)
        area[at] = 1;
    return area;
}

/* ---- surroundings */

static void write_to(const char *folder, const char *file, const char *text) {
    char path[200];
    int to;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    to = open(path, O_WRONLY);
    check(to >= 0 && write(to, text, strlen(text)) > 0 && close(to) == 0, path);
}

/* Both sides run in a control group of their own; the planted one has 15 % of a processor. */
static void quota(int planted) {
    int first = access("/sys/fs/cgroup/cpu/cpu.cfs_period_us", F_OK) == 0 || access("/sys/fs/cgroup/cpu/cpu.shares", F_OK) == 0;
    const char *top = first ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
    char folder[100];

    snprintf(folder, sizeof folder, "%s/causes-%d", top, (int)getpid());
    check(mkdir(folder, 0755) == 0, folder);
    if (planted)
        write_to(folder, first ? "cpu.cfs_quota_us" : "cpu.max", first ? "15000" : "15000 100000");
    write_to(folder, "cgroup.procs", "0");
    crunch(150000000);
    write_to(top, "cgroup.procs", "0");
    check(rmdir(folder) == 0, folder);
}

static void *crunch_half(void *unused) {
    crunch(200000000);
    return unused;
}

static void pinned(int planted) {
    cpu_set_t allowed;
    pthread_t other;

    check(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    for (int cpu = 0, left = planted ? 1 : CPU_SETSIZE; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && left-- <= 0)
            CPU_CLR(cpu, &allowed);
    check(sched_setaffinity(0, sizeof allowed, &allowed) == 0, "sched_setaffinity");
    pthread_create(&other, NULL, crunch_half, NULL);
    crunch_half(NULL);
    pthread_join(other, NULL);
}

/* ---- locales and time zones */

static void use_locale(const char *name) {
    setenv("LOCPATH", getenv("CAUSES_LIBRARIES") ? getenv("CAUSES_LIBRARIES") : ".", 1);
    check(setlocale(LC_ALL, name) != NULL, name);
}

static int in_order(const void *one, const void *other) {
    return strcoll(*(char *const *)one, *(char *const *)other);
}

static void collation(int planted) {
    enum { NAMES = 20000 };
    static char text[NAMES][24];
    static char *names[NAMES];
    uint32_t state = 1;

    use_locale(planted ? "en_US.utf8" : "C");
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < NAMES; i++) {
            names[i] = text[i];
            for (int at = 0; at < 20; at++)
                text[i][at] = (char)((at < 8 ? 'a' : 'A') + (at < 8 ? 0 : next_random(&state) % 26));
        }
        qsort(names, NAMES, sizeof *names, in_order);
        crunch(10000000);
    }
}

static void patterns(int planted) {
    regex_t pattern;
    char line[200];
    uint32_t state = 7;

    use_locale(planted ? "en_US.utf8" : "C");
    check(regcomp(&pattern, "[[:alpha:]]+[0-9]+[a-f]*=([^;]*);", REG_EXTENDED) == 0, "regcomp");
    for (int i = 0; i < 2500; i++) {
        for (size_t at = 0; at < sizeof line - 1; at++)
            line[at] = (char)('a' + next_random(&state) % 26);
        line[sizeof line - 1] = 0;
        sink += (uint64_t)regexec(&pattern, line, 0, NULL, 0);
    }
    regfree(&pattern);
}

static void characters(int planted) {
    static char text[MIB];
    uint32_t state = 5;
    uint64_t letters = 0;

    use_locale("en_US.utf8");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(' ' + next_random(&state) % 90);
    for (int round = 0; round < 20; round++) {
        crunch(6000000);
        for (size_t at = 0; planted && at < sizeof text; at++) {
            wchar_t one;
            mbstate_t shift = {0};
            letters += mbrtowc(&one, &text[at], sizeof text - at, &shift) == 1 && iswalpha((wint_t)one);
        }
        for (size_t at = 0; !planted && at < sizeof text; at++)
            letters += (unsigned)((text[at] | 32) - 'a') < 26;
    }
    sink += letters;
}

static void time_zone(int planted) {
    if (planted)
        unsetenv("TZ");
    else
        setenv("TZ", ":/etc/localtime", 1);
    for (int i = 0; i < 1000; i++) {
        crunch(150000);
        for (time_t n = 0; n < 1000; n++)
            sink += (uint64_t)localtime(&(time_t){1700000000 + n})->tm_hour;
    }
}

/* ---- sorting and arithmetic */

struct item {
    double value;
    char text[24];
};

static int by_value(const void *one, const void *other) {
    double first = ((const struct item *)one)->value, second = ((const struct item *)other)->value;
    return (first > second) - (first < second);
}

static int by_text(const void *one, const void *other) {
    double first = strtod(((const struct item *)one)->text, NULL), second = strtod(((const struct item *)other)->text, NULL);
    return (first > second) - (first < second);
}

static void comparator(int planted) {
    enum { ITEMS = 50000 };
    static struct item items[ITEMS];
    uint32_t state = 3;

    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < ITEMS; i++) {
            snprintf(items[i].text, sizeof items[i].text, "%u.%u", next_random(&state) % 100000, next_random(&state) % 1000);
            items[i].value = strtod(items[i].text, NULL);
        }
        qsort(items, ITEMS, sizeof *items, planted ? by_text : by_value);
    }
}

__attribute__((noinline)) static void filter(float *signal, size_t length, float floor) {
    float state = 0;

    for (size_t i = 0; i < length; i++)
        signal[i] = state = state * 0.9f + signal[i] + floor;
}

static void denormals(int planted) {
    enum { LENGTH = 20000 };
    static float signal[LENGTH];

    for (int round = 0; round < 800; round++) {
        crunch(150000);
        memset(signal, 0, sizeof signal);
        signal[0] = 1;
        filter(signal, LENGTH, planted ? 0 : 1e-20f);
    }
    sink += (uint64_t)signal[LENGTH - 1];
}

/* ---- a program with phases: the words of a text are made, split, counted in a table, and sorted */

enum { WORDS = 200000, BUCKETS = 4096 };

struct word {
    const char *text;
    struct word *next;
    unsigned count;
};

static struct word words[WORDS], *buckets[BUCKETS];

__attribute__((noinline)) static char *make_text(void) {
    char *text = malloc(8 * WORDS + 1), *to = text;
    uint32_t state = 11;

    check(text != NULL, "malloc");
    for (int i = 0; i < WORDS; i++)
        to += sprintf(to, "%c%05u ", 'a' + i % 26, next_random(&state) % 2000);
    return text;
}

__attribute__((noinline)) static unsigned hash_of(const char *text, int planted) {
    unsigned hash = 5381;

    for (const char *at = text; *at && at < text + (planted ? 4 : 99); at++)
        hash = hash * 33 + (unsigned char)*at;
    return hash % BUCKETS;
}

__attribute__((noinline)) static int count_words(char *text, int planted) {
    int used = 0;

    memset(buckets, 0, sizeof buckets);
    for (char *rest, *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        struct word **place = &buckets[hash_of(one, planted)];
        while (*place && strcmp((*place)->text, one) != 0)
            place = &(*place)->next;
        if (!*place) {
            *place = &words[used++];
            **place = (struct word){.text = one};
        }
        (*place)->count++;
    }
    return used;
}

static int by_count(const void *one, const void *other) {
    const struct word *first = one, *second = other;
    return first->count != second->count ? (first->count < second->count) - (first->count > second->count)
                                         : strcmp(first->text, second->text);
}

__attribute__((noinline)) static void sort_words(int used) {
    qsort(words, (size_t)used, sizeof *words, by_count);
}

__attribute__((noinline)) static void print_words(int used) {
    FILE *to = fopen("/dev/null", "w");

    check(to != NULL, "/dev/null");
    for (int i = 0; i < used; i++)
        fprintf(to, "%8u %s\n", words[i].count, words[i].text);
    fclose(to);
}

static void phases(int planted) {
    for (int round = 0; round < 5; round++) {
        char *text = make_text();
        int used = count_words(text, planted);

        sort_words(used);
        print_words(used);
        free(text);
    }
}

/* ---- memory */

static void populate(int planted) {
    enum { SIZE = 16 * MIB };

    for (int i = 0; i < 60; i++) {
        char *area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (planted ? MAP_POPULATE : 0), -1, 0);
        check(area != MAP_FAILED, "mmap");
        for (int at = 0; at < SIZE / 32; at += PAGE)
            area[at] = 1;
        munmap(area, SIZE);
        crunch(5000000);
    }
}

__attribute__((noinline)) static void update_cells(char *cells, size_t size) {
    for (size_t at = 0; at < size; at += PAGE)
        cells[at]++;
}

/* A child lives while its parent writes to each page; in the plain program the child does not share them. */
static void snapshot(int planted) {
    enum { SIZE = 64 * MIB };
    char *cells = pages(SIZE);

    if (!planted)
        madvise(cells, SIZE, MADV_DONTFORK);
    for (int round = 0; round < 15; round++) {
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        update_cells(cells, SIZE);
        crunch(10000000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

/* ---- processes and signals */

extern char **environ;

static void children(int planted) {
    char *const command[] = {"true", NULL};

    pages(96 * MIB);
    for (int i = 0; i < 200; i++) {
        pid_t child;

        if (planted) {
            child = fork();
            if (child == 0) {
                execv("/bin/true", command);
                _exit(1);
            }
        } else {
            check(posix_spawn(&child, "/bin/true", NULL, NULL, command, environ) == 0, "posix_spawn");
        }
        waitpid(child, NULL, 0);
        crunch(500000);
    }
}

static void on_signal(int number) {
    sink += (uint64_t)number;
}

static void signals(int planted) {
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 500; i++) {
        crunch(400000);
        for (int n = 0; planted && n < 1000; n++)
            raise(SIGUSR1);
    }
}

/* ---- threads */

enum { PLAYERS = 12 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t conditions[PLAYERS];
static int turn, everyone;

static void *play(void *given) {
    int mine = (int)(intptr_t)given;

    for (int i = 0; i < 1200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != mine)
            pthread_cond_wait(&conditions[everyone ? 0 : mine], &mutex);
        crunch(3000);
        turn = (turn + 1) % PLAYERS;
        if (everyone)
            pthread_cond_broadcast(&conditions[0]);
        else
            pthread_cond_signal(&conditions[turn]);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void broadcast(int planted) {
    pthread_t threads[PLAYERS];

    everyone = planted;
    for (int i = 0; i < PLAYERS; i++)
        pthread_cond_init(&conditions[i], NULL);
    for (intptr_t i = 0; i < PLAYERS; i++)
        pthread_create(&threads[i], NULL, play, (void *)i);
    for (int i = 0; i < PLAYERS; i++)
        pthread_join(threads[i], NULL);
}

static atomic_int finished;

static void *crunch_and_tell(void *unused) {
    crunch(300000000);
    atomic_store(&finished, 1);
    return unused;
}

static void yield(int planted) {
    pthread_t other;

    pthread_create(&other, NULL, crunch_and_tell, NULL);
    while (planted && !atomic_load(&finished))
        sched_yield();
    pthread_join(other, NULL);
}

/* ---- descriptors */

static void descriptors(int planted) {
    enum { COUNT = 900 };
    static struct pollfd all[COUNT];
    int queue = epoll_create1(0);

    for (int i = 0; i < COUNT; i++) {
        all[i] = (struct pollfd){.fd = eventfd(0, 0), .events = POLLIN};
        check(all[i].fd >= 0, "eventfd");
        check(epoll_ctl(queue, EPOLL_CTL_ADD, all[i].fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = all[i].fd}) == 0, "epoll_ctl");
    }
    for (int i = 0; i < 20000; i++) {
        int ready = all[i % COUNT].fd;
        uint64_t value = 1;
        struct epoll_event event = {0};

        check(write(ready, &value, sizeof value) == sizeof value, "write");
        if (planted)
            check(poll(all, COUNT, -1) == 1, "poll");
        else
            check(epoll_wait(queue, &event, 1, -1) == 1, "epoll_wait");
        check(read(ready, &value, sizeof value) == sizeof value, "read");
        crunch(15000);
    }
}

static int listed(const char *folder, const char *name) {
    DIR *entries = opendir(folder);
    int found = 0;

    check(entries != NULL, folder);
    for (struct dirent *one; (one = readdir(entries));)
        found |= strcmp(one->d_name, name) == 0;
    closedir(entries);
    return found;
}

static void folder(int planted) {
    enum { FILES = 1500 };
    char name[] = "causes-XXXXXX", path[40], first[40];
    struct stat facts;

    check(mkdtemp(name) != NULL, name);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", name, i);
        check(i ? link(first, path) == 0 : close(open(path, O_WRONLY | O_CREAT, 0600)) == 0, path);
        if (i == 0)
            strcpy(first, path);
    }
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", name, i);
        sink += (uint64_t)(planted ? listed(name, strchr(path, '/') + 1) : stat(path, &facts) == 0);
        crunch(100000);
    }
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", name, i);
        unlink(path);
    }
    rmdir(name);
}

static const struct {
    const char *name;
    void (*run)(int planted);
} CAUSES[] = {
    {"quota", quota},           {"pinned", pinned},       {"collation", collation},   {"patterns", patterns},
    {"characters", characters}, {"time-zone", time_zone}, {"comparator", comparator}, {"denormals", denormals},
    {"phases", phases},         {"populate", populate},   {"snapshot", snapshot},     {"children", children},
    {"signals", signals},       {"broadcast", broadcast}, {"yield", yield},           {"descriptors", descriptors},
    {"folder", folder},
};

int main(int count, char **arguments) {
    for (size_t i = 0; count == 3 && i < sizeof CAUSES / sizeof *CAUSES; i++)
        if (strcmp(arguments[1], CAUSES[i].name) == 0) {
            CAUSES[i].run(atoi(arguments[2]));
            return 0;
        }
    fprintf(stderr, "usage: work NAME 0|1\n");
    return 2;
}
