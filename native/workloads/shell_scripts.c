// SPDX-License-Identifier: MIT OR Apache-2.0
/* Runs one shell script, or eight at once. The script sorts a text, filters its lines, stores them in a file
 * and counts them, and removes its files. UnixBench: Shell Scripts (1 concurrent), (8 concurrent).
 *
 * The parameter is SCRIPTS:TASKS, the number of scripts that run at once in each task and the number of
 * tasks. As in UnixBench, eight concurrent scripts are one operation. The shell and its tools are those of
 * the system; they are not built for the variant. */
#include "tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINES = 100, WORDS = 6, LETTERS = 5, MAX_SCRIPTS = 8, PATH_BYTES = 64 };

static char text[] = "./swapstone-XXXXXX";
static unsigned scripts, kept_lines;

/* $1 is the path of the text, $2 the common prefix of the paths of the script's files. */
static char script[] = "sort <\"$1\" >\"$2.sorted\" || exit 2\n"
                       "sort -r \"$2.sorted\" | grep -v q | sort >\"$2.some\"\n"
                       "grep a \"$2.some\" | tee \"$2.kept\" | wc -l >\"$2.count\"\n"
                       "wc \"$2.kept\" >/dev/null\n"
                       "rm -f \"$2.sorted\" \"$2.some\" \"$2.kept\"\n";

static void prepare(void) {
    unsigned count;
    uint32_t random = 1;
    if (sscanf(parameter->argument, "%u:%u", &scripts, &count) != 2 || count != parameter->size)
        fail("the parameter is not SCRIPTS:TASKS of the table");
    int file = mkstemp(text);
    FILE *stream = file < 0 ? NULL : fdopen(file, "w");
    require(stream, "can't create a file in the working directory");
    bool has_a = false, has_q = false;
    for (int i = 0; i < LINES * WORDS; i++) {
        for (int letter = 0; letter < LETTERS; letter++) {
            int each = 'a' + (int)((next_random(&random) >> 16) % 26);
            has_a |= each == 'a';
            has_q |= each == 'q';
            putc(each, stream);
        }
        putc(i % WORDS == WORDS - 1 ? '\n' : ' ', stream);
        if (i % WORDS == WORDS - 1) {
            kept_lines += has_a && !has_q;
            has_a = has_q = false;
        }
    }
    require(fclose(stream) == 0, text);
}

static pid_t start_script(const char *name) {
    char shell[] = "/bin/sh", option[] = "-c", prefix[PATH_BYTES];
    char *arguments[] = {shell, option, script, shell, text, prefix, NULL};
    strcpy(prefix, name);
    pid_t child = fork_or_fail();
    if (child == 0) {
        execv(shell, arguments);
        _exit(127);
    }
    return child;
}

/* Reads the count of lines that a script wrote, and removes its file. */
static uint64_t take_count(const char *name) {
    char path[PATH_BYTES + 8];
    unsigned lines;
    snprintf(path, sizeof path, "%s.count", name);
    FILE *stream = fopen(path, "r");
    if (!stream || fscanf(stream, "%u", &lines) != 1)
        fail("a script wrote no count of lines");
    fclose(stream);
    unlink(path);
    if (lines != kept_lines) /* without one of the tools a pipeline goes on with less */
        fail("a script counted %u lines instead of %u: this machine must have sort, grep, tee and wc", lines,
             kept_lines);
    return lines;
}

static uint64_t work(unsigned task) {
    char names[MAX_SCRIPTS][PATH_BYTES];
    pid_t started[MAX_SCRIPTS];
    uint64_t check = FNV1A_OFFSET_BASIS;
    for (unsigned i = 0; i < scripts; i++) {
        snprintf(names[i], PATH_BYTES, "%s.%u.%u", text, task, i);
        started[i] = start_script(names[i]);
    }
    for (unsigned i = 0; i < scripts; i++)
        wait_for_exit(started[i], 0);
    for (unsigned i = 0; i < scripts; i++)
        check = fnv1a_number(check, take_count(names[i]));
    return check;
}

static void finish(void) {
    unlink(text);
}

#define SCRIPTS(count)                                                                                       \
    {.argument = count ":1", .name = "shell_scripts(" count ")", .ops = 1, .size = 1}, {                     \
        .argument = count ":8", .name = "shell_scripts(" count ") (8 tasks)", .ops = EIGHT_TASKS,            \
        .size = EIGHT_TASKS                                                                                  \
    }

static const struct parameter script_counts[] = {SCRIPTS("1"), SCRIPTS("8"), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = run_in_tasks, .finish = finish,
         .parameters = script_counts);
