/* Run a shell script, or eight at once: it sorts a text, picks lines of it, keeps them in a file on their way
 * to being counted, and removes its files. The parameter is how many at once, and the number of tasks behind
 * a colon. The shell and its tools are the machine's own, not the program's. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINES = 100, WORDS = 6, LETTERS = 5, MOST_SCRIPTS = 8, ROOM = 64 };

static char text[] = "./swapstone-XXXXXX";
static unsigned scripts;

/* $1 is the text, $2 where the script's own files lie. */
static char script[] = "sort <\"$1\" >\"$2.sorted\" || exit 2\n"
                       "sort -r \"$2.sorted\" | grep -v q | sort >\"$2.some\"\n"
                       "grep a \"$2.some\" | tee \"$2.kept\" | wc -l >\"$2.count\"\n"
                       "wc \"$2.kept\" >/dev/null\n"
                       "rm -f \"$2.sorted\" \"$2.some\" \"$2.kept\"\n";

static void prepare(void) {
    unsigned count;
    uint32_t random = 1;
    if (sscanf(parameter->argument, "%u:%u", &scripts, &count) != 2 || count != parameter->size)
        fail("the parameter is not understood");
    int file = mkstemp(text);
    FILE *stream = file < 0 ? NULL : fdopen(file, "w");
    if (!stream)
        fail("a file in the working directory: %s", strerror(errno));
    for (int i = 0; i < LINES * WORDS; i++) {
        for (int letter = 0; letter < LETTERS; letter++)
            putc('a' + (int)((next_random(&random) >> 16) % 26), stream);
        putc(i % WORDS == WORDS - 1 ? '\n' : ' ', stream);
    }
    if (fclose(stream) != 0)
        fail("%s: %s", text, strerror(errno));
}

static pid_t start_script(const char *name) {
    char shell[] = "/bin/sh", option[] = "-c", own[ROOM];
    char *arguments[] = {shell, option, script, shell, text, own, NULL};
    strcpy(own, name);
    pid_t child = start_child();
    if (child == 0) {
        execv(shell, arguments);
        _exit(127);
    }
    return child;
}

/* Read what a script counted, and remove it. */
static uint64_t counted(const char *name) {
    char path[ROOM + 8];
    unsigned lines;
    snprintf(path, sizeof path, "%s.count", name);
    FILE *stream = fopen(path, "r");
    if (!stream || fscanf(stream, "%u", &lines) != 1)
        fail("a script left no number");
    fclose(stream);
    unlink(path);
    return lines;
}

static uint64_t work(unsigned task) {
    char names[MOST_SCRIPTS][ROOM];
    pid_t started[MOST_SCRIPTS];
    uint64_t check = HASH_START;
    for (unsigned i = 0; i < scripts; i++) {
        snprintf(names[i], ROOM, "%s.%u.%u", text, task, i);
        started[i] = start_script(names[i]);
    }
    for (unsigned i = 0; i < scripts; i++)
        await_child(started[i], 0);
    for (unsigned i = 0; i < scripts; i++)
        check = hash_number(check, counted(names[i]));
    return check;
}

static uint64_t pass(void) {
    return in_tasks(work);
}

static void finish(void) {
    unlink(text);
}

#define SCRIPTS(count)                                                                                       \
    {.argument = count ":1", .name = "shell_scripts(" count ")", .ops = 1, .size = 1}, {                     \
        .argument = count ":8", .name = "shell_scripts(" count ") (8 tasks)", .ops = MOST_TASKS,             \
        .size = MOST_TASKS                                                                                   \
    }

/* As in the benchmark that it follows, eight at once are one operation. */
static const struct parameter ways[] = {SCRIPTS("1"), SCRIPTS("8"), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = ways);
