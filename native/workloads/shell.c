// SPDX-License-Identifier: MIT OR Apache-2.0
/* Runs a shell that starts a script once, or eight times at once, counting with expr, and waits for the
 * scripts. Each script sorts a text into a file, dumps that file in octal and sorts the dump by number,
 * filters its lines, counts what is left, and removes its files. UnixBench: Shell Scripts (1 concurrent), (8
 * concurrent).
 *
 * The parameter is SCRIPTS:COPIES. Eight concurrent scripts are one operation. The shell and all tools are
 * busybox, beside the program, built with the same C library. Each tool is a link to it in a directory of its
 * own, which is all of PATH, so that each is executed. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { LINES = 100, WORDS = 6, LETTERS = 5, MOST_SCRIPTS = 8, PATH_BYTES = 4096, NUMBER_BYTES = 12 };
enum { EXEC_FAILED = 127 };

static const char *const tools[] = {"sh", "expr", "sort", "od", "grep", "tee", "wc", "rm", NULL};

static char directory[PATH_BYTES], text[PATH_BYTES + 8], shell[PATH_BYTES], path_variable[PATH_BYTES + 8];
static unsigned scripts;

/* $1 is the text, $2 the common prefix of the script's files. */
static char script[] = "sort >\"$2.sort\" <\"$1\"\n"
                       "od \"$2.sort\" | sort -n -k 1 >\"$2.od\"\n"
                       "grep a \"$2.sort\" | tee \"$2.grep\" | wc >\"$2.wc\"\n"
                       "rm \"$2.sort\" \"$2.grep\" \"$2.od\"\n";

/* $1 is the text, $2 the prefix, $3 the path of the script and $4 one more than the number of scripts. A
 * count that expr does not print ends the loop. */
static char starter[] = "number=1\n"
                        "while :; do\n"
                        "    sh \"$3\" \"$1\" \"$2.$number\" &\n"
                        "    number=$(expr $number + 1)\n"
                        "    case $number in \"$4\" | '') break ;; esac\n"
                        "done\n"
                        "wait\n";

static void write_text(const char *path) {
    uint32_t random = 1;
    FILE *stream = fopen(path, "w");
    for (int i = 0; stream && i < LINES * WORDS; i++) {
        for (int letter = 0; letter < LETTERS; letter++)
            putc('a' + (int)((next_random(&random) >> 16) % 26), stream);
        putc(i % WORDS == WORDS - 1 ? '\n' : ' ', stream);
    }
    require(stream && fclose(stream) == 0, path);
}

static void write_script(const char *path) {
    FILE *stream = fopen(path, "w");
    require(stream && fputs(script, stream) != EOF && fclose(stream) == 0, path);
}

static void join(char *path, const char *name) {
    if (snprintf(path, PATH_BYTES, "%.4000s/%.50s", directory, name) < 0)
        fail("snprintf failed");
}

static void prepare(void) {
    char busybox[PATH_BYTES], path[PATH_BYTES];
    if (sscanf(parameter->argument, "%u:", &scripts) != 1 || scripts > MOST_SCRIPTS)
        fail("the parameter is not SCRIPTS:COPIES of the table");
    require(getcwd(directory, 4000 - sizeof "/swapstone-XXXXXX"), "getcwd");
    strcat(directory, "/swapstone-XXXXXX");
    require(mkdtemp(directory), "mkdtemp in the working directory");
    path_beside_program(busybox, sizeof busybox, "busybox");
    require(access(busybox, X_OK) == 0, busybox);
    for (int i = 0; tools[i]; i++) {
        join(path, tools[i]);
        require(symlink(busybox, path) == 0, "symlink");
    }
    join(shell, "sh");
    join(text, "text");
    write_text(text);
    join(path, "script");
    write_script(path);
    snprintf(path_variable, sizeof path_variable, "PATH=%s", directory);
}

static void start_shell(unsigned task) {
    char option[] = "-c", prefix[PATH_BYTES + 32], path[PATH_BYTES], count[NUMBER_BYTES];
    char *arguments[] = {shell, option, starter, shell, text, prefix, path, count, NULL};
    char *environment[] = {path_variable, NULL};
    snprintf(prefix, sizeof prefix, "%s/%u", directory, task);
    join(path, "script");
    snprintf(count, sizeof count, "%u", scripts + 1);
    execve(shell, arguments, environment);
    _exit(EXEC_FAILED);
}

/* Reads the numbers of lines, words and bytes that a script wrote, and removes its file. */
static uint64_t take_counts(unsigned task, unsigned number) {
    char path[PATH_BYTES + 32];
    unsigned lines, words, bytes;
    snprintf(path, sizeof path, "%s/%u.%u.wc", directory, task, number);
    FILE *stream = fopen(path, "r");
    if (!stream || fscanf(stream, "%u %u %u", &lines, &words, &bytes) != 3)
        fail("a script counted nothing");
    fclose(stream);
    unlink(path);
    return lines * 1000000u + words * 1000u + bytes;
}

static uint64_t work(unsigned task) {
    uint64_t check = FNV1A_OFFSET_BASIS;
    pid_t child = fork_or_fail();
    if (child == 0)
        start_shell(task);
    wait_for_exit(child, 0);
    for (unsigned number = 1; number <= scripts; number++)
        check = fnv1a_number(check, take_counts(task, number));
    return check;
}

static void finish(void) {
    char path[PATH_BYTES];
    for (int i = 0; tools[i]; i++) {
        join(path, tools[i]);
        unlink(path);
    }
    join(path, "script");
    unlink(path);
    unlink(text);
    if (rmdir(directory) != 0)
        fail("rmdir %s: %s", directory, strerror(errno));
}

static const struct parameter copies[] = {
    ONE_AND_ALL_COPIES("shell1", "1:", 1), ONE_AND_ALL_COPIES("shell8", "8:", 1), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = run_in_tasks, .finish = finish, .parameters = copies);
