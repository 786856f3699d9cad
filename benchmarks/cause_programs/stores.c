/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Planted causes in SQLite and zlib, as the distribution builds them: `stores NAME 0|1`. Link with -lsqlite3 -lz. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static volatile uint64_t sink;

static void check(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static void execute(sqlite3 *store, const char *text) {
    char *problem = NULL;
    check(sqlite3_exec(store, text, NULL, NULL, &problem) == SQLITE_OK, problem ? problem : text);
}

static void insert(sqlite3 *store, int rows) {
    sqlite3_stmt *one;

    check(sqlite3_prepare_v2(store, "INSERT INTO events VALUES (?, ?, 'some text')", -1, &one, NULL) == SQLITE_OK, "prepare");
    for (int i = 0; i < rows; i++) {
        sqlite3_bind_int(one, 1, i);
        sqlite3_bind_int(one, 2, (int)(i * 2654435761u >> 12));
        check(sqlite3_step(one) == SQLITE_DONE && sqlite3_reset(one) == SQLITE_OK, "INSERT");
    }
    sqlite3_finalize(one);
}

/* 300 rows of a log, each in a transaction of its own; 250,000 rows of another table in one. */
static void commits(int planted) {
    char name[] = "causes-XXXXXX", journal[40];
    sqlite3 *store, *memory;

    check(close(mkstemp(name)) == 0 && sqlite3_open(name, &store) == SQLITE_OK, name);
    check(sqlite3_open(":memory:", &memory) == SQLITE_OK, ":memory:");
    execute(store, "CREATE TABLE events (number INTEGER, code INTEGER, text TEXT)");
    execute(memory, "CREATE TABLE events (number INTEGER, code INTEGER, text TEXT); BEGIN");
    insert(memory, 250000);
    if (!planted)
        execute(store, "BEGIN");
    insert(store, 300);
    if (!planted)
        execute(store, "COMMIT");
    sqlite3_close(memory);
    sqlite3_close(store);
    snprintf(journal, sizeof journal, "%s-journal", name);
    unlink(journal);
    unlink(name);
}

static void index_of_column(int planted) {
    enum { ROWS = 20000 };
    sqlite3 *store;
    sqlite3_stmt *one;

    check(sqlite3_open(":memory:", &store) == SQLITE_OK, ":memory:");
    execute(store, "CREATE TABLE events (number INTEGER, code INTEGER, text TEXT); BEGIN");
    for (int i = 0; i < 10; i++) {
        execute(store, "DELETE FROM events");
        insert(store, ROWS);
    }
    execute(store, planted ? "CREATE INDEX of_number ON events (number)" : "CREATE INDEX of_code ON events (code)");
    check(sqlite3_prepare_v2(store, "SELECT text FROM events WHERE code = ?", -1, &one, NULL) == SQLITE_OK, "prepare");
    for (int i = 0; i < 400; i++) {
        sqlite3_bind_int(one, 1, i * 7);
        while (sqlite3_step(one) == SQLITE_ROW)
            sink++;
        sqlite3_reset(one);
    }
    sqlite3_finalize(one);
    sqlite3_close(store);
}

static size_t some_text(char *text, size_t size) {
    static const char *const words[] = {"block ", "error ", "value ", "of the ", "row ", "counter ", "is ", "was written\n"};
    uint32_t state = 9;
    size_t used = 0;

    while (used + 32 < size) {
        state = state * 1664525u + 1013904223u;
        used += (size_t)sprintf(text + used, "%s%u", words[state >> 29], state >> 8 & 511);
    }
    return used;
}

static void level(int planted) {
    enum { SIZE = 8 << 20 };
    static char text[SIZE];
    static unsigned char packed[SIZE];
    uLongf length = SIZE;

    check(compress2(packed, &length, (unsigned char *)text, some_text(text, SIZE), planted ? 7 : 3) == Z_OK, "compress2");
    sink += length;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(int planted);
    } causes[] = {{"commits", commits}, {"index", index_of_column}, {"level", level}};

    for (size_t i = 0; count == 3 && i < sizeof causes / sizeof *causes; i++)
        if (strcmp(arguments[1], causes[i].name) == 0) {
            causes[i].run(atoi(arguments[2]));
            return 0;
        }
    return 2;
}
