// SPDX-License-Identifier: MIT OR Apache-2.0
/* Work of small programs of embedded systems: a linked list is searched, reversed and sorted; matrices of
 * 16-bit numbers are multiplied; a state machine reads a text of numbers; a CRC covers every result. EEMBC's
 * CoreMark is work of the same kinds; this is other code on other data, and its times are no CoreMark scores.
 *
 * The parameter is THREADS:PART. The parts are all, list, matrix, state and crc; the threads are 1, or n: one
 * for each processor. An operation is one iteration of one thread: one time the part, or each of the four
 * parts once. The CRC is CRC-16/ARC (polynomial 0x8005, reflected); prepare() checks its published check
 * value, 0xbb3d for the text "123456789". */
#include "threads.h"

#include <stdlib.h>

enum {
    ITERATIONS = 200,
    ELEMENTS = 64,
    SIDE = 16,
    TEXT_BYTES = 512,
    CRC_CHECK = 0xbb3d,
    MOST_THREADS = 256,
};

struct element {
    struct element *next;
    uint16_t key, payload;
};

struct core {
    struct element elements[ELEMENTS];
    int16_t left[SIDE][SIDE], right[SIDE][SIDE];
    int32_t product[SIDE][SIDE];
    char text[TEXT_BYTES];
    uint32_t random;
    uint16_t crc;
};

/* ==== CRC-16/ARC, bit by bit ==== */

static uint16_t crc_byte(uint16_t crc, unsigned byte) {
    crc = (uint16_t)(crc ^ byte);
    for (int bit = 0; bit < 8; bit++)
        crc = (uint16_t)((crc >> 1) ^ (crc & 1 ? 0xa001 : 0));
    return crc;
}

static uint16_t crc_word(uint16_t crc, uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8)
        crc = crc_byte(crc, word >> shift & 0xff);
    return crc;
}

static uint16_t crc_bytes(uint16_t crc, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        crc = crc_byte(crc, (unsigned char)bytes[i]);
    return crc;
}

static void do_crc(struct core *core) {
    core->crc = crc_bytes(core->crc, core->text, sizeof core->text);
}

/* ==== The list ==== */

static struct element *link_elements(struct core *core) {
    for (int i = 0; i < ELEMENTS; i++) {
        core->elements[i].key = (uint16_t)(next_random(&core->random) >> 16);
        core->elements[i].payload = (uint16_t)i;
        core->elements[i].next = i + 1 < ELEMENTS ? &core->elements[i + 1] : NULL;
    }
    return core->elements;
}

static struct element *reversed(struct element *list) {
    struct element *done = NULL;
    while (list) {
        struct element *rest = list->next;
        list->next = done;
        done = list;
        list = rest;
    }
    return done;
}

static const struct element *found(const struct element *list, uint16_t payload) {
    while (list && list->payload != payload)
        list = list->next;
    return list;
}

static struct element *merged(struct element *left, struct element *right) {
    struct element *first = NULL, **end = &first;
    while (left && right) {
        struct element **least = right->key < left->key ? &right : &left;
        *end = *least;
        *least = (*least)->next;
        end = &(*end)->next;
    }
    *end = left ? left : right;
    return first;
}

static struct element *sorted(struct element *list, int count) {
    if (count < 2) {
        if (list)
            list->next = NULL;
        return list;
    }
    struct element *half = list;
    for (int i = 0; i < count / 2; i++)
        half = half->next;
    struct element *right = sorted(half, count - count / 2);
    return merged(sorted(list, count / 2), right);
}

static void do_list(struct core *core) {
    struct element *list = reversed(link_elements(core));
    for (uint16_t wanted = 0; wanted < ELEMENTS; wanted = (uint16_t)(wanted + 5)) {
        const struct element *one = found(list, wanted);
        core->crc = crc_word(core->crc, one ? one->key : 0);
    }
    for (list = sorted(list, ELEMENTS); list; list = list->next)
        core->crc = crc_word(core->crc, list->payload);
}

/* ==== The matrices ==== */

static void do_matrix(struct core *core) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            core->left[i][j] = (int16_t)(next_random(&core->random) >> 20);
            core->right[i][j] = (int16_t)(i * j - core->left[i][j]);
        }
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            int32_t sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += core->left[i][k] * core->right[k][j];
            core->product[i][j] = sum;
        }
    for (int i = 0; i < SIDE; i++)
        core->crc = crc_word(core->crc, (uint32_t)core->product[i][(i * 7) % SIDE]);
}

/* ==== The state machine ==== */

enum state { START, SIGN, INTEGER, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, SCALED, INVALID, STATES };

static enum state next_state(enum state state, char character) {
    int digit = character >= '0' && character <= '9', sign = character == '+' || character == '-';
    switch (state) {
    case START:
        return digit ? INTEGER : sign ? SIGN : character == '.' ? POINT : INVALID;
    case SIGN:
        return digit ? INTEGER : character == '.' ? POINT : INVALID;
    case INTEGER:
        return digit ? INTEGER : character == '.' ? FRACTION : character == 'e' ? EXPONENT : INVALID;
    case POINT:
    case FRACTION:
        return digit ? FRACTION : state == FRACTION && character == 'e' ? EXPONENT : INVALID;
    case EXPONENT:
        return digit ? SCALED : sign ? EXPONENT_SIGN : INVALID;
    case EXPONENT_SIGN:
    case SCALED:
        return digit ? SCALED : INVALID;
    default:
        return INVALID;
    }
}

static void do_state(struct core *core) {
    static const char letters[] = "0123456789+-.e,x0123456789,.e123";
    uint32_t visits[STATES] = {0};
    enum state state = START;
    for (int i = 0; i < TEXT_BYTES; i++)
        core->text[i] = letters[next_random(&core->random) >> 27];
    for (int i = 0; i < TEXT_BYTES; i++) {
        state = core->text[i] == ',' ? START : next_state(state, core->text[i]);
        visits[state]++;
    }
    for (int i = 0; i < STATES; i++)
        core->crc = crc_word(core->crc, visits[i]);
}

/* ==== Threads ==== */

static void do_all(struct core *core) {
    do_list(core);
    do_matrix(core);
    do_state(core);
    do_crc(core);
}

static const struct {
    const char *name;
    void (*run)(struct core *core);
} parts[] = {{"all", do_all},     {"list", do_list}, {"matrix", do_matrix},
             {"state", do_state}, {"crc", do_crc},   {NULL, NULL}};

static void (*part)(struct core *core);

static void *run(void *result) {
    struct core *core = calloc(1, sizeof *core);
    if (!core)
        fail("no memory");
    core->random = 1;
    memset(core->text, '7', sizeof core->text);
    for (int i = 0; i < ITERATIONS; i++)
        part(core);
    *(uint16_t *)result = core->crc;
    free(core);
    return NULL;
}

static void prepare(void) {
    if (crc_bytes(0, "123456789", 9) != CRC_CHECK)
        fail("the CRC-16/ARC of 123456789 is not 0xbb3d");
    for (int i = 0; parts[i].name; i++)
        if (strcmp(parts[i].name, parameter->text) == 0)
            part = parts[i].run;
    if (!part)
        fail("there is no part %s", parameter->text);
}

static uint64_t pass(void) {
    uint16_t crcs[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    unsigned count = task_count(parameter->copies);
    if (count > MOST_THREADS)
        fail("there are more than %d processors", MOST_THREADS);
    if (count == 1) {
        run(&crcs[0]);
        return crcs[0];
    }
    for (unsigned i = 0; i < count; i++)
        start_thread(&threads[i], NULL, run, &crcs[i]);
    for (unsigned i = 0; i < count; i++)
        join_thread(threads[i]);
    for (unsigned i = 1; i < count; i++)
        if (crcs[i] != crcs[0])
            fail("the CRCs of two threads differ");
    return crcs[0];
}

#define PART(part)                                                                                           \
    {.argument = "1:" part,                                                                                  \
     .name = "core_" part " (1 thread)",                                                                     \
     .ops = ITERATIONS,                                                                                      \
     .text = part,                                                                                           \
     .copies = 1},                                                                                           \
    {                                                                                                        \
        .argument = "n:" part, .name = "core_" part " (n threads)", .ops = ITERATIONS, .text = part,         \
        .copies = ALL_PROCESSORS                                                                             \
    }

static const struct parameter kinds[] = {PART("all"),   PART("list"), PART("matrix"),
                                         PART("state"), PART("crc"),  {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = kinds);
