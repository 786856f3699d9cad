// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates a process and waits for its end. lmbench: lat_proc fork, exec, shell; the summary's rows fork proc,
 * exec proc, sh proc.
 *
 * The parameter is what the child does: it ends at once (40 children); it closes standard output and executes
 * a program that calls write() for "Hello world" there, which fails, as in lmbench (20); it does so through a
 * shell (10). The program is this one with the argument "-". The shell is busybox's, beside the program,
 * built with the same C library. The child of `fork` calls _exit(), not exit(): the harness keeps a line in
 * the buffer of stdout, which exit() would write. */
#include "children.h"

enum { FORKS = 40, EXECS = 20, SHELLS = 10, PATH_BYTES = 4096, EXEC_FAILED = 127 };

static char program[PATH_BYTES], shell[PATH_BYTES];

static void prepare(void) {
    program_path(program, sizeof program);
    path_beside_program(shell, sizeof shell, "busybox");
}

static int say_hello(int count, char **arguments) {
    static const char text[] = "Hello world\n";
    (void)count;
    (void)arguments;
    return write(STDOUT_FILENO, text, sizeof text - 1) != -1 || errno != EBADF;
}

static uint64_t fork_pass(void) {
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork_or_fail();
        if (child == 0)
            _exit(0);
        wait_for_exit(child, 0);
    }
    return FORKS;
}

static void execute(char **arguments) {
    pid_t child = fork_or_fail();
    if (child == 0) {
        close(STDOUT_FILENO);
        execv(arguments[0], arguments);
        _exit(EXEC_FAILED);
    }
    wait_for_exit(child, 0);
}

static uint64_t exec_pass(void) {
    char option[] = "-", *arguments[] = {program, option, NULL};
    for (int i = 0; i < EXECS; i++)
        execute(arguments);
    return EXECS;
}

static uint64_t shell_pass(void) {
    char applet[] = "sh", option[] = "-c", command[] = "\"$0\" -";
    char *arguments[] = {shell, applet, option, command, program, NULL};
    for (int i = 0; i < SHELLS; i++)
        execute(arguments);
    return SHELLS;
}

static const struct parameter kinds[] = {
    {.argument = "fork", .name = "lat_proc(fork)", .ops = FORKS, .pass = fork_pass},
    {.argument = "exec", .name = "lat_proc(exec)", .ops = EXECS, .pass = exec_pass},
    {.argument = "shell", .name = "lat_proc(shell)", .ops = SHELLS, .pass = shell_pass},
    {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .parameters = kinds, .reexec_main = say_hello);
