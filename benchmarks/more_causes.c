/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Further planted causes: threads, processes and signals, arithmetic, the C library, the kernel. See causes.c. */
#define _GNU_SOURCE
#include "causes.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <iconv.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- threads */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static atomic_int ready;
static int spinning;

static void *hold_for_long(void *unused) {
    for (int i = 0; i < 20; i++) {
        if (spinning) {
            pthread_spin_lock(&spin);
            usleep(8000);
            pthread_spin_unlock(&spin);
        } else {
            pthread_mutex_lock(&mutex);
            usleep(8000);
            pthread_mutex_unlock(&mutex);
        }
        usleep(500);
    }
    return unused;
}

/* A lock that is held while its holder sleeps: waiting for it costs processor time if the others spin. */
static void spin_lock(int planted) {
    pthread_t holder;

    spinning = planted;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_create(&holder, NULL, hold_for_long, NULL);
    for (int i = 0; i < 15; i++) {
        if (planted) {
            pthread_spin_lock(&spin);
            pthread_spin_unlock(&spin);
        } else {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        compute(100000);
        usleep(200);
    }
    pthread_join(holder, NULL);
}

static void *prepare(void *unused) {
    for (int i = 1; i <= 40; i++) {
        compute(300000);
        pthread_mutex_lock(&mutex);
        atomic_store(&ready, i);
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
        while (atomic_load(&ready) == i)
            usleep(50);
    }
    return unused;
}

/* Wait for another thread: by a condition, or by asking again after a pause. */
static void wait_for_steps(int planted, void (*pause_once)(void)) {
    pthread_t other;

    pthread_create(&other, NULL, prepare, NULL);
    for (int i = 1; i <= 40; i++) {
        pthread_mutex_lock(&mutex);
        while (atomic_load(&ready) != i) {
            if (!planted) {
                pthread_cond_wait(&condition, &mutex);
            } else {
                pthread_mutex_unlock(&mutex);
                pause_once();
                pthread_mutex_lock(&mutex);
            }
        }
        pthread_mutex_unlock(&mutex);
        compute(20000);
        atomic_store(&ready, -i);
    }
    pthread_join(other, NULL);
}

static void sleep_10_ms(void) { usleep(10000); }
static void give_way(void) { sched_yield(); }
static void retries(int planted) { wait_for_steps(planted, sleep_10_ms); }
static void yields(int planted) { wait_for_steps(planted, give_way); }

static void *one_item(void *unused) {
    compute(5000);
    return unused;
}

static void threads(int planted) {
    for (int i = 0; i < 2000; i++) {
        pthread_t worker;

        if (planted) {
            check(pthread_create(&worker, NULL, one_item, NULL) == 0, "thread");
            pthread_join(worker, NULL);
        } else {
            one_item(NULL);
        }
    }
}

static void uncontended(int planted) {
    for (int i = 0; i < 3000; i++) {
        compute(3000);
        for (int n = 0; planted && n < 1000; n++) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
    }
}

static atomic_int over;

static void *touch(void *unused) {
    while (!over)
        compute(10000);
    return unused;
}

/* Each change of a mapping interrupts the processors on which other threads of the process run. */
static void shootdown(int planted) {
    char *area = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t other;

    check(area != MAP_FAILED, "mmap");
    memset(area, 1, MIB);
    pthread_create(&other, NULL, touch, NULL);
    for (int i = 0; i < 60; i++) {
        compute(100000);
        for (int n = 0; planted && n < 40; n++) {
            mprotect(area, MIB, PROT_READ);
            mprotect(area, MIB, PROT_READ | PROT_WRITE);
            area[n * PAGE] = 1;
        }
    }
    over = 1;
    pthread_join(other, NULL);
}

/* ---- processes and signals */

static void forks(int planted) {
    enum { SIZE = 32 * MIB };
    char *area = malloc(SIZE);

    check(area != NULL, "malloc");
    memset(area, 1, SIZE);
    for (int i = 0; i < 120; i++) {
        if (!planted) {
            compute(100000);
            continue;
        }
        int child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            compute(100000);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    sink += (uint64_t)area[5];
}

static volatile sig_atomic_t ticks;
static void tick(int number) { ticks += number; }

/* No system call of the program: a timer interrupts it. */
static void timer_signals(int planted) {
    struct itimerval each = {.it_interval.tv_usec = 150, .it_value.tv_usec = 150};

    signal(SIGALRM, tick);
    if (planted)
        setitimer(ITIMER_REAL, &each, NULL);
    compute(50000000);
}

static void raised_signals(int planted) {
    signal(SIGUSR1, tick);
    for (int i = 0; i < 400; i++) {
        compute(100000);
        for (int n = 0; planted && n < 150; n++)
            raise(SIGUSR1);
    }
}

static void closed_descriptors(int planted) {
    for (int i = 0; i < 40; i++) {
        compute(500000);
        for (int file = 3; planted && file < 20000; file++)
            close(file);
    }
}

/* ---- arithmetic and memory */

/* A load of 8 bytes of which the last store wrote only some must wait for that store. */
static void store_forwarding(int planted) {
    static _Alignas(64) volatile uint8_t bytes[64];
    volatile uint64_t *whole = (volatile uint64_t *)bytes;
    uint64_t sum = 0;

    for (int i = 0; i < 30000000; i++) {
        bytes[planted ? 3 : 35] = (uint8_t)i;
        sum = *whole + (sum & 1);
        bytes[planted ? 5 : 37] = (uint8_t)sum;
    }
    sink += sum;
}

static void atomics(int planted) {
    static atomic_uint_least64_t shared;
    static volatile uint64_t own;

    for (int i = 0; i < 40000000; i++)
        if (planted)
            atomic_fetch_add(&shared, 1);
        else
            own += 1;
    sink += own + atomic_load(&shared);
}

struct message {
    char bytes[8192];
};

__attribute__((noinline)) static char by_value(struct message given, int at) { return given.bytes[at & 8191]; }
__attribute__((noinline)) static char by_pointer(const struct message *given, int at) { return given->bytes[at & 8191]; }

static void by_values(int planted) {
    static struct message message;

    for (int i = 0; i < 1000000; i++) {
        message.bytes[i & 8191] = (char)i;
        sink += (uint64_t)(planted ? by_value(message, i) : by_pointer(&message, i));
    }
}

static void needless_zeroing(int planted) {
    for (int i = 0; i < 60000; i++) {
        char *volatile area = planted ? calloc(1, 64000) : malloc(64000);

        check(area != NULL, "malloc");
        area[i & 4095] = 1;
        compute(1000);
        free(area);
    }
}

/* Sorted insertion moves half of the elements each time. */
static void insertion(int planted) {
    enum { NUMBER = 30000 };
    uint32_t *sorted = malloc(NUMBER * sizeof *sorted), state = 7;
    size_t used = 0;

    check(sorted != NULL, "malloc");
    for (int i = 0; i < NUMBER; i++) {
        uint32_t value = next_random(&state);
        size_t low = 0, high = used;

        while (low < high) {
            size_t middle = (low + high) / 2;
            if (sorted[middle] < value)
                low = middle + 1;
            else
                high = middle;
        }
        if (planted)
            memmove(&sorted[low + 1], &sorted[low], (used - low) * sizeof *sorted);
        sorted[planted ? low : used] = value;
        used++;
        compute(1000);
    }
    sink += sorted[NUMBER / 2];
}

struct node {
    struct node *next;
    uint32_t key;
};

/* A hash function that uses few of its values: long lists. */
static void collisions(int planted) {
    enum { NUMBER = 4000, SLOTS = 8192 };
    static struct node nodes[NUMBER], *slots[SLOTS];
    uint32_t state = 3;

    for (int i = 0; i < NUMBER; i++) {
        struct node **slot = &slots[(nodes[i].key = next_random(&state)) % (planted ? 16 : SLOTS)];
        nodes[i].next = *slot;
        *slot = &nodes[i];
    }
    for (int i = 0; i < 400000; i++) {
        uint32_t key = nodes[next_random(&state) % NUMBER].key;
        struct node *at = slots[key % (planted ? 16 : SLOTS)];

        while (at->key != key)
            at = at->next;
        sink += at->key;
    }
}

/* ---- the C library */

static void stdio_locks(int planted) {
    FILE *file = fopen("/dev/zero", "r");
    pthread_t other;

    check(file != NULL, "/dev/zero");
    pthread_create(&other, NULL, one_item, NULL); /* with one thread only, glibc takes no lock */
    for (int i = 0; i < 30000000; i++)
        sink += (uint64_t)(planted ? getc(file) : getc_unlocked(file));
    pthread_join(other, NULL);
    fclose(file);
}

static void backtracking(int planted) {
    const char *pattern = planted ? "\\(a*\\)*\\1b" : "aaaaaab";
    char text[] = "aaaaaaaaaaaaaaaaaaaaaaaac";
    regex_t compiled;

    check(regcomp(&compiled, pattern, 0) == 0, "regcomp");
    for (int i = 0; i < 40; i++) {
        compute(200000);
        sink += (uint64_t)regexec(&compiled, text, 0, NULL, 0);
    }
    regfree(&compiled);
}

static void conversions(int planted) {
    char text[] = "The quick brown fox jumps over the lazy dog";
    iconv_t by = iconv_open("UTF-16LE", "UTF-8");

    check(by != (iconv_t)-1, "iconv_open");
    for (int i = 0; i < 100000; i++) {
        char *from = text, result[256], *to = result;
        size_t left = sizeof text, space = sizeof result;

        compute(400);
        if (!planted)
            continue;
        iconv(by, &from, &left, &to, &space);
        sink += (uint64_t)result[4];
    }
    iconv_close(by);
}

/* Without TZ, each call of localtime looks whether /etc/localtime has changed. */
static void local_times(int planted) {
    struct tm parts;

    unsetenv("TZ");
    for (time_t now = 1000000000; now < 1000080000; now++) {
        if (planted)
            sink += (uint64_t)localtime(&now)->tm_min;
        else
            sink += (uint64_t)localtime_r(&now, &parts)->tm_min;
    }
}

static void formatted(int planted) {
    char text[64];

    for (int i = 0; i < 300000; i++) {
        if (planted)
            snprintf(text, sizeof text, "%.6f", i * 1.0001);
        else
            text[0] = (char)i;
        sink += (uint64_t)text[0];
        compute(100);
    }
}

static void environment(int planted) {
    char name[32];

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "CAUSES_VARIABLE_%d", i);
        setenv(name, "value", 1);
    }
    for (int i = 0; i < 2000; i++) {
        compute(20000);
        for (int n = 0; planted && n < 100; n++)
            sink += getenv("CAUSES_NO_SUCH_VARIABLE") != NULL;
    }
}

/* ---- the kernel */

static void proc_reads(int planted) {
    char text[4096];

    for (int i = 0; i < 3000; i++) {
        int file = open("/proc/self/status", O_RDONLY);

        check(file >= 0, "/proc/self/status");
        while (read(file, text, planted ? 16 : sizeof text) > 0)
            ;
        close(file);
        compute(5000);
    }
}

/* As many calls, each with more work: poll looks at every descriptor. */
static void many_descriptors(int planted) {
    enum { NUMBER = 500 };
    static struct pollfd all[NUMBER];
    int ends[2];

    check(pipe(ends) == 0 && write(ends[1], "x", 1) == 1, "pipe");
    for (int i = 0; i < NUMBER; i++)
        all[i] = (struct pollfd){.fd = dup(ends[i ? 1 : 0]), .events = i ? POLLPRI : POLLIN};
    for (int i = 0; i < 20000; i++) {
        check(poll(all, planted ? NUMBER : 1, -1) == 1, "poll");
        compute(2000);
    }
}

/* As many sleeps, each longer. */
static void timer_slack(int planted) {
    prctl(PR_SET_TIMERSLACK, planted ? 5000000ul : 1ul);
    for (int i = 0; i < 100; i++) {
        compute(100000);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void small_buffers(int planted) {
    enum { SIZE = 16 * MIB };
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM, 0), bytes = 2048;
    static char text[1 << 16];

    if (planted)
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    check(bind(listener, (struct sockaddr *)&place, length) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&place, &length);
    if (fork() == 0) {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        check(connect(client, (struct sockaddr *)&place, length) == 0, "connect");
        for (size_t sent = 0; sent < SIZE; sent += sizeof text)
            check(write(client, text, sizeof text) == sizeof text, "write");
        _exit(0);
    }
    int peer = accept(listener, NULL, NULL);
    for (size_t got = 0; got < SIZE;) {
        ssize_t now = read(peer, text, sizeof text);
        check(now > 0, "read");
        got += (size_t)now;
    }
    wait(NULL);
}

/* The file must be on a disk. */
static void cold_cache(int planted) {
    enum { SIZE = 2 * MIB };
    static char block[1 << 14];
    char name[] = "causes-XXXXXX";
    int file = mkostemp(name, 0);

    check(file >= 0, name);
    unlink(name);
    for (int at = 0; at < SIZE; at += (int)sizeof block)
        check(write(file, block, sizeof block) > 0, "write");
    check(fsync(file) == 0, "fsync");
    for (int round = 0; round < 10; round++) {
        if (planted)
            posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
        for (int at = 0; at < SIZE; at += (int)sizeof block)
            check(pread(file, block, sizeof block, at) > 0, "pread");
    }
    close(file);
}

const struct cause MORE_CAUSES[] = {
    {"spin-lock", spin_lock},
    {"retries", retries},
    {"yields", yields},
    {"threads", threads},
    {"uncontended", uncontended},
    {"shootdown", shootdown},
    {"forks", forks},
    {"timer-signals", timer_signals},
    {"raised-signals", raised_signals},
    {"closed-descriptors", closed_descriptors},
    {"store-forwarding", store_forwarding},
    {"atomics", atomics},
    {"by-value", by_values},
    {"zeroing", needless_zeroing},
    {"insertion", insertion},
    {"collisions", collisions},
    {"stdio-locks", stdio_locks},
    {"backtracking", backtracking},
    {"conversions", conversions},
    {"local-times", local_times},
    {"formatted", formatted},
    {"environment", environment},
    {"proc-reads", proc_reads},
    {"many-descriptors", many_descriptors},
    {"timer-slack", timer_slack},
    {"small-buffers", small_buffers},
    {"cold-cache", cold_cache},
    {NULL, NULL},
};
