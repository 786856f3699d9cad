// SPDX-License-Identifier: MIT OR Apache-2.0
/* Integer arithmetic with the branches and calls of ordinary programs: copies linked records, compares
 * strings, fills a table and searches it. One pass is 60000 rounds. UnixBench: Dhrystone 2 using register
 * variables (other work of the same kind).
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). */
#include "tasks.h"

enum { ROUNDS = 60000, RECORDS = 16, CELLS = 64, TEXT = 32 };

struct record {
    struct record *next;
    uint32_t kind, number;
    char name[TEXT];
};

struct state {
    struct record records[RECORDS];
    uint32_t table[CELLS];
    uint32_t random;
    uint64_t sum;
};

static void init_state(struct state *state) {
    memset(state, 0, sizeof *state);
    state->random = 1;
    for (int i = 0; i < RECORDS; i++) {
        struct record *record = &state->records[i];
        record->next = &state->records[(i * 5 + 1) % RECORDS];
        record->kind = (uint32_t)i % 3;
        strcpy(record->name, "a name that most of them share ");
        record->name[TEXT - 2] = (char)('a' + i % 4);
    }
}

static uint32_t quotient_plus_remainder(uint32_t value, uint32_t by) {
    return by ? value / by + value % by : value;
}

static void one_round(struct state *state, uint32_t round) {
    struct record *record = &state->records[round % RECORDS], *other = record->next, copy = *other;
    uint32_t low = 0, high = CELLS, wanted = next_random(&state->random) >> 20;
    copy.number = quotient_plus_remainder(wanted * 7 + round, copy.kind + 3);
    if (strcmp(record->name, copy.name) == 0)
        copy.number += 2;
    else if (record->name[TEXT - 2] > copy.name[TEXT - 2])
        copy.number ^= round;
    switch (copy.kind) {
    case 0:
        state->table[round % CELLS] = copy.number & 0xfff;
        break;
    case 1:
        for (uint32_t i = 1; i < CELLS; i += 3)
            state->table[i] += state->table[i - 1] >> 3;
        break;
    default:
        while (low < high) { /* The table is not sorted; only the steps of the search matter. */
            uint32_t middle = (low + high) / 2;
            if (state->table[middle] < wanted)
                low = middle + 1;
            else
                high = middle;
        }
    }
    copy.kind = (copy.kind + 1) % 3;
    *other = copy;
    state->sum = state->sum * 31 + copy.number + low;
}

static uint64_t work(unsigned task) {
    struct state state;
    (void)task;
    init_state(&state);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        one_round(&state, round);
        compiler_barrier();
    }
    return fnv1a_number(FNV1A_OFFSET_BASIS, state.sum);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("integer", "integer", ROUNDS)};

WORKLOAD(.mode = WARM, .pass = run_in_tasks, .parameters = tasks);
