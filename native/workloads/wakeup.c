// SPDX-License-Identifier: MIT OR Apache-2.0
/* Measures how late a thread wakes. It does what the thread of cyclictest does, and prints the same JSON, but
 * it is built for each variant, so that a C library, an allocator or a compiler can be compared on one
 * kernel.
 *
 *     wakeup INTERVAL_US WAKEUPS
 *
 * The thread sleeps with clock_nanosleep until absolute times of CLOCK_MONOTONIC, which no step of the wall
 * clock moves. Periods that a late wake-up has missed are skipped, as in cyclictest. SWAPSTONE_PRIORITY is
 * fifo:01 to fifo:99, or other:0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BINS = 1000000, MOST_WAKEUPS = 10000000, MOST_INTERVAL_US = 1000000 };

static const int64_t NS_PER_S = 1000000000, NS_PER_US = 1000;

static uint32_t histogram[BINS];

static _Noreturn void fail(const char *what, int number) {
    fprintf(stderr, "%s: %s\n", what, strerror(number));
    exit(1);
}

static long number(const char *text, long most) {
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > most)
        fail(text, EINVAL);
    return value;
}

/* Deep sleep states of the processor would be measured otherwise (Documentation/power/pm_qos_interface.rst).
 * A kernel without such states has no such file. */
static void forbid_deep_sleep(void) {
    int32_t none = 0;
    int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);

    if (fd < 0 && errno != ENOENT)
        fail("/dev/cpu_dma_latency can't be opened, which needs root", errno);
    if (fd >= 0 && write(fd, &none, sizeof none) != (ssize_t)sizeof none)
        fail("/dev/cpu_dma_latency can't be written", errno);
}

static void set_priority(void) {
    const char *text = getenv("SWAPSTONE_PRIORITY");
    struct sched_param parameter = {.sched_priority = 99};
    int policy = SCHED_FIFO, error;

    if (text && strncmp(text, "fifo:", 5) == 0) {
        parameter.sched_priority = (int)number(text + 5, 99);
    } else if (text && strcmp(text, "other:0") == 0) {
        parameter.sched_priority = 0;
        policy = SCHED_OTHER;
    } else if (text) {
        fail("SWAPSTONE_PRIORITY", EINVAL);
    }
    error = pthread_setschedparam(pthread_self(), policy, &parameter);
    if (error)
        fail("the scheduling policy SCHED_FIFO can't be set, which needs root or RLIMIT_RTPRIO", error);
}

static int64_t now_ns(void) {
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now))
        fail("clock_gettime", errno);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void sleep_until(int64_t at_ns) {
    struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S), .tv_nsec = (long)(at_ns % NS_PER_S)};
    int error;

    do
        error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    while (error == EINTR);
    if (error)
        fail("clock_nanosleep", error);
}

static void print(long wakeups, int64_t sum_us, int64_t most_us, int64_t least_us, int cpu) {
    const char *comma = "";

    printf("{\n  \"file_version\": 1,\n  \"return_code\": 0,\n  \"num_threads\": 1,\n  \"resolution_in_ns\": "
           "0,\n");
    printf("  \"thread\": {\n    \"0\": {\n      \"histogram\": {");
    for (int us = 0; us < BINS; us++) {
        if (histogram[us]) {
            printf("%s\n        \"%d\": %u", comma, us, (unsigned)histogram[us]);
            comma = ",";
        }
    }
    printf("\n      },\n      \"cycles\": %ld,\n      \"min\": %lld,\n      \"max\": %lld,\n", wakeups,
           (long long)least_us, (long long)most_us);
    printf("      \"avg\": %.2f,\n      \"cpu\": %d,\n      \"node\": 0\n    }\n  }\n}\n",
           (double)sum_us / (double)wakeups, cpu);
}

int main(int count, char **arguments) {
    int64_t interval_ns, next_ns, sum_us = 0, most_us = 0, least_us = INT64_MAX;
    long wakeups;

    if (count != 3)
        fail("wakeup INTERVAL_US WAKEUPS", EINVAL);
    interval_ns = number(arguments[1], MOST_INTERVAL_US) * NS_PER_US;
    wakeups = number(arguments[2], MOST_WAKEUPS);
    memset(histogram, 1, sizeof histogram); /* its pages are written before the measurement */
    memset(histogram, 0, sizeof histogram);
    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        fail("the memory can't be locked, which needs root or RLIMIT_MEMLOCK", errno);
    forbid_deep_sleep();
    set_priority();
    next_ns = now_ns() + interval_ns;
    for (long done = 0; done < wakeups; done++) {
        int64_t woke_ns, late_us;

        sleep_until(next_ns);
        woke_ns = now_ns();
        late_us = (woke_ns - next_ns) / NS_PER_US;
        if (late_us < 0)
            fail("the monotonic clock went back", EINVAL);
        most_us = late_us > most_us ? late_us : most_us;
        least_us = late_us < least_us ? late_us : least_us;
        sum_us += late_us;
        if (late_us < BINS)
            histogram[late_us]++;
        for (next_ns += interval_ns; next_ns < woke_ns;)
            next_ns += interval_ns;
    }
    print(wakeups, sum_us, most_us, least_us, sched_getcpu());
    return fflush(stdout) ? 1 : 0;
}
