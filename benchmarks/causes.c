/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Planted causes: `causes NAME 0` and `causes NAME 1` do the same work, the second with an added cost. `causes.py` lists what explain should
   find. Each is a function: with 0 it does its work, with 1 the same work at an added cost. Compile with -O2 -pthread -ldl. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

struct cause {
    const char *name;
    void (*run)(int planted);
};

static volatile uint64_t sink; /* keeps the compiler from removing a computation */

__attribute__((noinline)) static void compute(unsigned turns) {
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

/* Exit with the error of `what` unless `good`. */
static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* ---- threads */

static _Alignas(256) volatile uint64_t counters[64];
static atomic_int arrived;

/* Pin the thread to one of the processors that it may use, another one for each number. */
static void pin(int number) {
    cpu_set_t allowed, mine;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && number-- == 0) {
            CPU_ZERO(&mine);
            CPU_SET(cpu, &mine);
            sched_setaffinity(0, sizeof mine, &mine);
        }
}

static void *count(void *at) {
    volatile uint64_t *counter = at;

    pin(atomic_fetch_add(&arrived, 1));
    while (atomic_load(&arrived) < 2)
        sched_yield();
    for (int i = 0; i < 25000000; i++)
        *counter += 1;
    return NULL;
}

/* On a busy machine the threads hardly run at the same moment, or both on one processor. So each has one of its own, with real-time
 * priority. The kernel leaves other programs 5 % of a processor after about 0.95 s: the runs are shorter. */
static void false_sharing(int planted) {
    pthread_t threads[2];
    struct sched_param first = {.sched_priority = 1};

    sched_setscheduler(0, SCHED_RR, &first);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, (void *)&counters[planted ? i : 32 * i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn, batch;

static void *alternate(void *given) {
    int mine = given != NULL;

    for (int i = 0; i < 20000 / batch; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != mine)
            pthread_cond_wait(&condition, &mutex);
        compute((unsigned)batch * 400);
        turn = !mine;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void condvar(int planted) {
    pthread_t other;

    batch = planted ? 1 : 1000;
    pthread_create(&other, NULL, alternate, &batch);
    alternate(NULL);
    pthread_join(other, NULL);
}

static volatile int done;

static void *hold(void *unused) {
    while (!done) {
        pthread_mutex_lock(&mutex);
        usleep(5000);
        pthread_mutex_unlock(&mutex);
        usleep(300);
    }
    return unused;
}

static void lock(int planted) {
    pthread_t holder;

    pthread_create(&holder, NULL, hold, NULL);
    for (int i = 0; i < 60; i++) {
        if (planted) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        compute(200000);
    }
    done = 1;
    pthread_join(holder, NULL);
}

/* ---- the same instructions, slower */

static void branches(int planted) {
    static uint8_t taken[1 << 20];
    uint32_t state = 1;
    uint64_t even = 0, odd = 0;

    for (size_t i = 0; i < sizeof taken; i++)
        taken[i] = (uint8_t)((planted ? next_random(&state) >> 20 : i) & 1); // lower bits repeat after 512 numbers
    for (int round = 0; round < 30; round++)
        for (size_t i = 0; i < sizeof taken; i++)
            if (taken[i]) {
                even += 3;
                __asm__ volatile("" : "+r"(even));
            } else {
                odd += 5;
                __asm__ volatile("" : "+r"(odd));
            }
    sink += even + odd;
}

static void stride(int planted) {
    enum { READS = 1 << 15, ROUNDS = 300 };
    size_t step = planted ? 512 : 8, mask = 16 * MIB - 1;
    volatile char *area = malloc(16 * MIB);
    uint64_t sum = 0;

    check(area != NULL, "malloc");
    for (size_t at = 0; at < 16 * MIB; at += PAGE)
        area[at] = 1;
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < READS; i++)
            sum += (uint64_t)area[(i * step) & mask];
    sink += sum;
}

static void columns(int planted) {
    enum { SIDE = 1024 };
    static float matrix[SIDE][SIDE];
    volatile float *cells = &matrix[0][0];

    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < SIDE; i++)
            for (size_t k = 0; k < SIDE; k++)
                cells[planted ? k * SIDE + i : i * SIDE + k] += 1.0f;
}

static void huge_pages(int planted) {
    enum { SIZE = 128 * MIB };
    char *area = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t state = 1;
    uint64_t sum = 0;

    check(area != MAP_FAILED, "mmap");
    area = (char *)(((uintptr_t)area + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
    madvise(area, SIZE, planted ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    for (size_t at = 0; at < SIZE; at += PAGE)
        area[at] = 1;
    for (int i = 0; i < 6000000; i++)
        sum += (uint64_t)area[(next_random(&state) * 61u) % SIZE];
    sink += sum;
}

static void divides(int planted) {
    double value = 1.5, by = 1.0000001;

    for (int i = 0; i < 20000000; i++)
        if (planted)
            value = value / by;
        else
            value = value - by;
    sink += value > 0;
}

/* ---- more instructions */

__attribute__((noinline, optimize("O0"))) static void slowly(unsigned turns) {
    uint64_t state = 88172645463325252u;

    for (unsigned i = 0; i < turns; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    sink += state;
}

static void not_optimized(int planted) {
    for (int i = 0; i < 100; i++)
        planted ? slowly(300000) : compute(300000);
}

static void more_turns(int planted) {
    for (int i = 0; i < 100; i++)
        compute(planted ? 600000 : 200000);
}

static void string_lengths(int planted) {
    enum { LENGTH = 20000 };
    static char text[LENGTH + 1];
    uint64_t sum = 0;

    memset(text, 'a', LENGTH);
    for (int round = 0; round < 24; round++) {
        size_t length = strlen(text);
        for (size_t i = 0; i < (planted ? strlen(text) : length); i++) {
            text[i] = 'b';
            sum += (uint64_t)text[i];
            __asm__ volatile("" ::: "memory");
        }
        compute(300000);
    }
    sink += sum;
}

static void copies(int planted) {
    static char from[1 << 14], to[1 << 14];

    for (int i = 0; i < 1000; i++) {
        compute(30000);
        for (int n = 0; planted && n < 600; n++) {
            memcpy(to, from, sizeof to);
            from[n] = to[n + 1];
        }
    }
}

/* ---- the allocator */

static void growth(int planted) {
    for (int round = 0; round < 200; round++) {
        char *text = malloc(16);
        size_t size = 16;

        for (size_t used = 0; used < 40000; used++) {
            if (planted || used == size) {
                size = planted ? used + 16 : 2 * size;
                text = realloc(text, size);
                check(text != NULL, "realloc");
            }
            text[used] = 'a';
        }
        sink += (uint64_t)text[7];
        free(text);
        compute(100000);
    }
}

static void allocations(int planted) {
    for (int i = 0; i < 200; i++) {
        compute(50000);
        for (int n = 0; planted && n < 20000; n++) {
            char *volatile kept = malloc(48 + n % 64);
            free(kept);
        }
    }
}

static void clearing(int planted) {
    static char area[1 << 16];

    for (int i = 0; i < 4000; i++) {
        char *volatile kept = area;

        compute(10000);
        for (int n = 0; planted && n < 8; n++)
            memset(kept, n, sizeof area);
    }
}

/* ---- system calls */

static void unbuffered(int planted) {
    FILE *file = fopen("/dev/null", "w");

    check(file != NULL, "/dev/null");
    setvbuf(file, NULL, planted ? _IONBF : _IOFBF, 1 << 16);
    for (int i = 0; i < 400000; i++)
        fputc('a' + i % 26, file);
    fclose(file);
}

static void clocks(int planted) {
    struct timespec now;

    for (int i = 0; i < 600000; i++)
        if (planted)
            syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        else
            clock_gettime(CLOCK_MONOTONIC, &now);
    sink += (uint64_t)now.tv_nsec;
}

static void identifiers(int planted) {
    for (int i = 0; i < 800; i++) {
        compute(30000);
        for (int n = 0; planted && n < 200; n++)
            syscall(SYS_getppid);
    }
}

static void opened_files(int planted) {
    for (int i = 0; i < 200; i++) {
        compute(60000);
        for (int n = 0; planted && n < 500; n++)
            close(open("/dev/null", O_RDONLY));
    }
}

static void small_writes(int planted) {
    static char text[1 << 16];
    int ends[2];

    check(pipe(ends) == 0, "pipe");
    for (int i = 0; i < 20; i++) {
        for (size_t n = 0; planted && n < sizeof text / 16; n++)
            check(write(ends[1], text, 16) == 16, "write");
        if (!planted)
            check(write(ends[1], text, sizeof text) > 0, "write");
        for (size_t left = sizeof text; left;) {
            ssize_t got = read(ends[0], text, left);
            check(got > 0, "read");
            left -= (size_t)got;
        }
        compute(100000);
    }
}

/* ---- files */

static int temporary(int flags) {
    char name[] = "causes-XXXXXX";
    int file = mkostemp(name, flags);

    check(file >= 0, name);
    unlink(name);
    return file;
}

static void synced(int planted) {
    int file = temporary(0);

    for (int i = 0; i < 40; i++) {
        check(write(file, "0123456789abcdef", 16) == 16, "write");
        if (planted)
            check(fsync(file) == 0, "fsync");
        compute(100000);
    }
    close(file);
}

static void direct(int planted) {
    enum { SIZE = 2 * MIB, BLOCK = 4096 };
    static _Alignas(4096) char block[BLOCK];
    int file = temporary(planted ? O_DIRECT : 0);

    for (int at = 0; at < SIZE; at += BLOCK)
        check(write(file, block, BLOCK) == BLOCK, "write");
    for (int round = 0; round < 2; round++)
        for (int at = 0; at < SIZE; at += BLOCK)
            check(pread(file, block, BLOCK, at) == BLOCK, "pread");
    close(file);
}

/* ---- memory */

static void faults(int planted) {
    enum { SIZE = MIB };
    int file = memfd_create("pages", 0); /* its pages stay, and need no clearing */
    char *area;

    check(file >= 0 && ftruncate(file, SIZE) == 0, "memfd");
    area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(area != MAP_FAILED, "mmap");
    for (int i = 0; i < 150; i++) {
        compute(75000);
        if (planted)
            madvise(area, SIZE, MADV_DONTNEED);
        for (int at = 0; at < SIZE; at += PAGE)
            area[at] = (char)i;
    }
}

static void mapped_buffers(int planted) {
    static char *kept;

    for (int i = 0; i < 1500; i++) {
        char *area = planted || !kept ? mmap(NULL, MIB / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : kept;
        check(area != MAP_FAILED, "mmap");
        for (int at = 0; at < MIB / 4; at += PAGE)
            area[at] = (char)i;
        if (planted)
            munmap(area, MIB / 4);
        else
            kept = area;
        compute(10000);
    }
}

/* ---- waiting */

static void sleeps(int planted) {
    for (int i = 0; i < 60; i++) {
        compute(200000);
        if (planted)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void whole_read(int from, char *to, size_t size) {
    while (size) {
        ssize_t got = read(from, to, size);
        check(got > 0, "read");
        to += got;
        size -= (size_t)got;
    }
}

static void nagle(int planted) {
    enum { REQUESTS = 20 };
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char text[200] = {0};

    check(bind(listener, (struct sockaddr *)&place, length) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&place, &length);
    int child = fork();
    if (child == 0) {
        int peer = accept(listener, NULL, NULL);
        for (int i = 0; i < REQUESTS; i++) {
            whole_read(peer, text, sizeof text);
            check(write(peer, "x", 1) == 1, "write");
        }
        _exit(0);
    }
    int client = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(client, (struct sockaddr *)&place, length) == 0, "connect");
    if (!planted)
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int i = 0; i < REQUESTS; i++) {
        check(write(client, text, 100) == 100 && write(client, text, 100) == 100, "write");
        whole_read(client, text, 1);
        compute(50000);
    }
    waitpid(child, NULL, 0);
}

static void timeouts(int planted) {
    int ends[2];

    check(pipe(ends) == 0, "pipe");
    for (int i = 0; i < 60; i++) {
        struct pollfd readable = {.fd = ends[0], .events = POLLIN};

        compute(200000);
        check(poll(&readable, 1, planted ? 5 : 0) == 0, "poll");
    }
}

static sem_t turns_of[2];

static void *wait_and_post(void *given) {
    int mine = given != NULL;

    for (int i = 0; i < 60000 / batch; i++) {
        while (sem_wait(&turns_of[mine]) != 0)
            ;
        compute((unsigned)batch * 100);
        sem_post(&turns_of[!mine]);
    }
    return NULL;
}

static void semaphores(int planted) {
    pthread_t other;

    batch = planted ? 1 : 1000;
    sem_init(&turns_of[0], 0, 1);
    sem_init(&turns_of[1], 0, 0);
    pthread_create(&other, NULL, wait_and_post, &batch);
    wait_and_post(NULL);
    pthread_join(other, NULL);
}

static void messages(int planted) {
    static char text[1 << 16];
    size_t size = planted ? 8 : sizeof text / 4;
    int ends[2];

    check(pipe(ends) == 0, "pipe");
    if (fork() == 0) {
        for (size_t sent = 0; sent < 4 * sizeof text; sent += size)
            check(write(ends[1], text, size) == (ssize_t)size, "write");
        _exit(0);
    }
    for (size_t got = 0; got < 4 * sizeof text; got += size)
        whole_read(ends[0], text, size);
    wait(NULL);
}

/* ---- start-up */

static void libraries(int planted) {
    for (int i = 0; planted && i < 50; i++) {
        char name[4096];

        snprintf(name, sizeof name, "%s/causes-%d.so", getenv("CAUSES_LIBRARIES"), i);
        check(dlopen(name, RTLD_NOW) != NULL, name);
    }
    compute(300000);
}

static const struct cause CAUSES[] = {
    {"false-sharing", false_sharing},
    {"branches", branches},
    {"stride", stride},
    {"columns", columns},
    {"huge-pages", huge_pages},
    {"condvar", condvar},
    {"lock", lock},
    {"O0", not_optimized},
    {"turns", more_turns},
    {"strlen", string_lengths},
    {"copies", copies},
    {"growth", growth},
    {"allocations", allocations},
    {"unbuffered", unbuffered},
    {"clock", clocks},
    {"getppid", identifiers},
    {"open", opened_files},
    {"small-writes", small_writes},
    {"fsync", synced},
    {"direct", direct},
    {"faults", faults},
    {"mmap", mapped_buffers},
    {"sleep", sleeps},
    {"nagle", nagle},
    {"libraries", libraries},
    {"divides", divides},
    {"clearing", clearing},
    {"timeouts", timeouts},
    {"semaphores", semaphores},
    {"messages", messages},
    {NULL, NULL},
};

int main(int count, char **arguments) {
    if (count == 3)
        for (const struct cause *one = CAUSES; one->name; one++)
            if (strcmp(arguments[1], one->name) == 0) {
                one->run(atoi(arguments[2]));
                return 0;
            }
    fprintf(stderr, "usage: causes NAME 0|1\n");
    return 2;
}
