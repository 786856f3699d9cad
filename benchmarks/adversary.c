// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A program whose arguments are its work, in their order: `adversary loop:4000 mode:50:36000 print:done`.
 *
 * Fields are separated by colons. US is processor work in microseconds of the calibrating machine: a fixed number of iterations, so that
 * the same argument is the same work in every run. PERMILLE is a share of runs in thousandths, drawn by getrandom(2).
 * `adversary calibrate` prints iterations per microsecond; compile with -DPER_US of that number.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PER_US
#define PER_US 1
#endif

enum { FIELDS = 6, BUFFER = 1 << 16 };

static volatile uint64_t sink;
static char buffer[BUFFER];

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "adversary: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void iterate(uint64_t count) {
    uint64_t state = 1;
    for (uint64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
    }
    sink = state;
}

static void loop(uint64_t us) { iterate(us * PER_US); }

static uint64_t now_ns(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time)) fail("clock_gettime");
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void calibrate(void) {
    enum { COUNT = 10000000 };
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        iterate(COUNT);
        uint64_t took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        if (took < best) best = took;
    }
    printf("%llu\n", (unsigned long long)(COUNT * 1000ull / (best ? best : 1)));
}

/* Return a random number in [0, below). */
static uint64_t draw(uint64_t below) {
    uint64_t value;
    if (getrandom(&value, sizeof value, 0) != sizeof value) fail("getrandom");
    return value % below;
}

/* Return the number in a state file, 0 where there is none; `tag` gets the text before it, if it is not NULL. */
static uint64_t state_of(const char *path, char *tag) {
    unsigned long long number = 0;
    char text[64] = "-";
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%63s %llu", text, &number) != 2) number = 0;
        fclose(file);
    }
    if (tag) strcpy(tag, text);
    return number;
}

static void set_state(const char *path, const char *tag, uint64_t number) {
    FILE *file = fopen(path, "w");
    if (!file) fail(path);
    fprintf(file, "%s %llu\n", tag, (unsigned long long)number);
    if (fclose(file)) fail(path);
}

static void read_file(const char *path) {
    int file = open(path, O_RDONLY);
    if (file < 0) fail(path);
    uint64_t sum = 0;
    for (ssize_t got; (got = read(file, buffer, sizeof buffer)) != 0;) {
        if (got < 0) fail(path);
        for (ssize_t i = 0; i < got; i += 64) sum += (unsigned char)buffer[i];
    }
    sink = sum;
    close(file);
}

static void evict_file(const char *path) {
    int file = open(path, O_RDONLY);
    if (file < 0) fail(path);
    if ((errno = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))) fail(path);
    close(file);
}

static void write_bytes(const char *path, int flags, uint64_t bytes) {
    int file = open(path, O_WRONLY | O_CREAT | flags, 0600);
    if (file < 0) fail(path);
    memset(buffer, 'x', sizeof buffer);
    while (bytes) {
        ssize_t wrote = write(file, buffer, bytes < sizeof buffer ? bytes : sizeof buffer);
        if (wrote < 0) fail(path);
        bytes -= (uint64_t)wrote;
    }
    close(file);
}

/* Write to every page of a mapping `times` times, with all pages given back in between. */
static void touch(uint64_t bytes, uint64_t times) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (uint64_t i = 0; i < times; i++) {
        for (uint64_t at = 0; at < bytes; at += 4096) memory[at] = 1;
        if (i + 1 < times) madvise(memory, bytes, MADV_DONTNEED);
    }
}

static void *thread_loop(void *us) {
    loop(*(uint64_t *)us);
    return NULL;
}

static void threads(uint64_t count, uint64_t us) {
    pthread_t made[64];
    if (count > 64) count = 64;
    for (uint64_t i = 0; i < count; i++) {
        if ((errno = pthread_create(&made[i], NULL, thread_loop, &us))) fail("pthread_create");
    }
    for (uint64_t i = 0; i < count; i++) pthread_join(made[i], NULL);
}

/* Loop in a child process, and wait for it. */
static void child(uint64_t us) {
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid == 0) {
        loop(us);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* Leave a process behind that sleeps in a session of its own. */
static void orphan(uint64_t us) {
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid == 0) {
        setsid();
        for (int i = 0; i < 3; i++) close(i);
        usleep((useconds_t)us);
        _exit(0);
    }
}

static void crash(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    abort();
}

static void sleep_us(uint64_t us) {
    struct timespec left = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left)) {}
}

static void act(char *argument) {
    char *field[FIELDS] = {"", "", "", "", "", ""};
    uint64_t number[FIELDS];
    char *rest = argument;
    for (int i = 0; i < FIELDS && rest; i++) field[i] = strsep(&rest, ":");
    for (int i = 0; i < FIELDS; i++) number[i] = strtoull(field[i], NULL, 10);
    const char *name = field[0], *path = field[1];
    char tag[64];
#define IS(text) (strcmp(name, text) == 0)
    if (IS("loop")) { /* US */
        loop(number[1]);
    } else if (IS("spin")) { /* US of elapsed time */
        for (uint64_t end = now_ns(CLOCK_MONOTONIC) + number[1] * 1000; now_ns(CLOCK_MONOTONIC) < end;) {}
    } else if (IS("sleep")) { /* US */
        sleep_us(number[1]);
    } else if (IS("mode")) { /* PERMILLE:US: a separate slow mode */
        if (draw(1000) < number[1]) loop(number[2]);
    } else if (IS("heavy")) { /* US:LIMIT: a Pareto variable of shape 1 and scale US */
        uint64_t us = number[1] * 1000 / (1 + draw(1000));
        loop(us < number[2] ? us : number[2]);
    } else if (IS("periodic")) { /* PERIOD_MS:SLOW_MS:US: slow in the last part of each period of the clock */
        if (now_ns(CLOCK_MONOTONIC) / 1000000 % number[1] >= number[1] - number[2]) loop(number[3]);
    } else if (IS("slots")) { /* SLOT_MS:PERMILLE:US: slow in whole time slots, chosen by a hash of their number */
        uint64_t slot = now_ns(CLOCK_MONOTONIC) / (number[1] * 1000000);
        slot = (slot ^ slot >> 31) * 0x9e3779b97f4a7c15u;
        if ((slot >> 32) % 1000 < number[2]) loop(number[3]);
    } else if (IS("read")) { /* FILE */
        read_file(path);
    } else if (IS("evict")) { /* FILE: drop its pages from the page cache */
        evict_file(path);
    } else if (IS("write")) { /* FILE:KIB, not synced */
        write_bytes(path, O_TRUNC, number[2] * 1024);
    } else if (IS("append")) { /* FILE:BYTES */
        write_bytes(path, O_APPEND, number[2]);
    } else if (IS("text")) { /* FILE:TEXT */
        FILE *file = fopen(path, "w");
        if (!file || fprintf(file, "%s\n", field[2]) < 0 || fclose(file)) fail(path);
    } else if (IS("unless")) { /* FILE:US: work that FILE saves */
        if (access(path, F_OK)) loop(number[2]);
    } else if (IS("parity")) { /* FILE:US: slow in every second run */
        uint64_t runs = state_of(path, NULL);
        set_state(path, "runs", runs + 1);
        if (runs % 2) loop(number[2]);
    } else if (IS("warm")) { /* FILE:N:US: slow in the first N runs */
        uint64_t runs = state_of(path, NULL);
        set_state(path, "runs", runs + 1);
        if (runs < number[2]) loop(number[3]);
    } else if (IS("pay")) { /* FILE:US: work if the run before has left it */
        if (state_of(path, NULL)) loop(number[2]);
    } else if (IS("leave")) { /* FILE:0 or FILE:1: leave work to the next run that pays */
        set_state(path, "debt", number[2]);
    } else if (IS("streak")) { /* FILE:TAG:N:US: slow unless the last N runs had the same TAG */
        uint64_t runs = state_of(path, tag);
        if (strcmp(tag, field[2]) != 0) runs = 0;
        set_state(path, field[2], runs + 1);
        if (runs < number[3]) loop(number[4]);
    } else if (IS("touch")) { /* KIB:TIMES */
        touch(number[1] * 1024, number[2]);
    } else if (IS("threads")) { /* N:US each */
        threads(number[1], number[2]);
    } else if (IS("child")) { /* US */
        child(number[1]);
    } else if (IS("orphan")) { /* US */
        orphan(number[1]);
    } else if (IS("print")) { /* TEXT */
        printf("%s\n", field[1]);
    } else if (IS("warning")) { /* TEXT and the time, to standard error */
        fprintf(stderr, "%s %llu\n", field[1], (unsigned long long)now_ns(CLOCK_REALTIME));
    } else if (IS("lines")) { /* N: a long output */
        for (uint64_t i = 0; i < number[1]; i++) printf("line %llu of a long output\n", (unsigned long long)i);
    } else if (IS("time")) { /* print the time */
        printf("at %llu\n", (unsigned long long)now_ns(CLOCK_REALTIME));
    } else if (IS("crash")) { /* PERMILLE:US: work, then SIGABRT */
        if (draw(1000) < number[1]) {
            loop(number[2]);
            crash();
        }
    } else if (IS("exit")) { /* STATUS */
        exit((int)number[1]);
    } else if (!IS("ignored")) {
        errno = EINVAL;
        fail(name);
    }
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "calibrate") == 0) {
        calibrate();
        return 0;
    }
    for (int i = 1; i < count; i++) {
        char copy[4096];
        snprintf(copy, sizeof copy, "%s", arguments[i]);
        act(copy);
    }
    return 0;
}
