// SPDX-License-Identifier: MIT OR Apache-2.0
/* Signals, 4000 times. lmbench: lat_sig install, catch, prot; the summary's rows sig inst, sig hndl, Prot
 * Fault.
 *
 * The parameter is what is done: sigaction() of SIGUSR1 with a handler; kill() of the own process with signal
 * 0, which sends nothing; kill() of the own process, whose handler runs and returns; a write to a page of a
 * file that is mapped read-only, whose handler runs and returns to the same write. lmbench's figure for
 * `catch` is its time less that of `send`. Its figure for `prot` is the time less that figure. */
#include "harness.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIGNALS = 4000, PAGE = 4096 };

static volatile sig_atomic_t handled;
static volatile char *page;
static sigjmp_buf after_last;

static void on_user_signal(int number) {
    (void)number;
    handled++;
}

static void on_fault(int number) {
    (void)number;
    if (++handled == SIGNALS)
        siglongjmp(after_last, 1);
}

static void install(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    require(sigaction(number, &action, NULL) == 0, "sigaction");
}

static void prepare(void) {
    int file = unnamed_file();
    require(ftruncate(file, PAGE) == 0, "ftruncate");
    page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    require(page != MAP_FAILED, "mmap");
    install(SIGUSR1, on_user_signal);
    if (strcmp(parameter->argument, "prot") == 0)
        install(SIGSEGV, on_fault);
}

static uint64_t install_pass(void) {
    uint64_t installed = 0;
    struct sigaction action = {.sa_handler = on_user_signal}, old;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        installed += sigaction(SIGUSR1, &action, &old) == 0;
    return installed;
}

static uint64_t send_pass(void) {
    pid_t self = getpid();
    uint64_t sent = 0;
    for (int i = 0; i < SIGNALS; i++)
        sent += kill(self, 0) == 0;
    return sent;
}

static uint64_t catch_pass(void) {
    pid_t self = getpid();
    handled = 0;
    for (int i = 0; i < SIGNALS; i++)
        if (kill(self, SIGUSR1) != 0)
            fail("kill: %s", strerror(errno));
    return (uint64_t)handled;
}

static uint64_t prot_pass(void) {
    handled = 0;
    if (sigsetjmp(after_last, 1) == 0) {
        *page = 1;
        fail("a write to a page that is mapped read-only succeeded");
    }
    return (uint64_t)handled;
}

#define SIGNAL(what)                                                                                         \
    { .argument = #what, .name = "lat_sig(" #what ")", .ops = SIGNALS, .pass = what##_pass }

static const struct parameter kinds[] = {SIGNAL(install), SIGNAL(send), SIGNAL(catch), SIGNAL(prot), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .parameters = kinds);
