// SPDX-License-Identifier: MIT OR Apache-2.0
#include "answer.h"

#include "../port/port.h"

enum { STANDARD_OUTPUT = 1, CHUNK = 512, FIRST_CONDITION = FACT_AGENT_CPUS };

/* Bytes that are not written yet, and the counts for the line `end`. */
static struct {
    char bytes[8192];
    size_t used;
    int64_t lines;
    uint32_t crc;
    bool begun; /* the first part of an answer was written */
    bool failed;
} writer;

static void flush(void) {
    size_t written = 0;
    while (written < writer.used && !writer.failed) {
        long result = port_write(STANDARD_OUTPUT, writer.bytes + written, writer.used - written);
        if (result == -PORT_E_AGAIN) { /* the reader made this file description non-blocking */
            struct port_pollfd polled = {STANDARD_OUTPUT, PORT_POLL_OUT, 0};
            port_poll(&polled, 1, -1);
        } else if (result <= 0) {
            writer.failed = true;
        } else {
            written += (size_t)result;
        }
    }
    writer.used = 0;
}

static void put_bytes(const char *bytes, size_t size) { /* a newline ends a part */
    writer.crc = crc_add(writer.crc, bytes, size);
    writer.lines += size && bytes[size - 1] == '\n';
    while (size) {
        size_t room = sizeof writer.bytes - writer.used, part = size < room ? size : room;
        __builtin_memcpy(writer.bytes + writer.used, bytes, part);
        writer.used += part;
        bytes += part;
        size -= part;
        if (writer.used == sizeof writer.bytes)
            flush();
    }
}

static void put_line(const char *word, const char *bytes, size_t size) {
    text_print(put_bytes, "%s ", word);
    text_encode(bytes, size, put_bytes);
    put_bytes("\n", 1);
}

/* One line for each text of a list. */
static void put_list(const char *word, const struct text *list) {
    for (size_t at = 0; at < list->used;) {
        size_t size = text_length(list->bytes + at);
        put_line(word, list->bytes + at, size);
        at += size + 1;
    }
}

static void put_output(const char *word, const struct output *output) {
    size_t kept = output->used < output->limit ? output->used : output->limit;
    for (size_t at = 0; at < kept; at += CHUNK)
        put_line(word, output->bytes + at, kept - at < CHUNK ? kept - at : CHUNK);
}

static void put_observations(const struct observations *observations) {
    for (unsigned i = 0; i < observations->count; i++) {
        const struct observation *one = &observations->list[i];
        if (one->result == OBSERVATION_FAILED)
            continue;
        text_print(put_bytes, "%s %s ", one->result == OBSERVATION_ABSENT ? WORD_ABSENT : WORD_OBSERVED,
                   observation_names[one->what.kind]);
        text_encode(one->what.name, text_length(one->what.name), put_bytes);
        if (one->result == OBSERVATION_READ) {
            put_bytes(" ", 1);
            text_encode(one->value, one->size, put_bytes);
        }
        put_bytes("\n", 1);
    }
}

static void put_crc(uint32_t crc) {
    static const char digits[] = "0123456789abcdef";
    for (int shift = 28; shift >= 0; shift -= 4)
        put_bytes(&digits[crc >> shift & 15], 1);
}

void set_outcome(struct answer *answer, enum outcome outcome, int64_t code) {
    answer->outcome = outcome;
    answer->code = code;
}

void note(struct answer *answer, const char *format, ...) {
    struct text *notes = &answer->notes;
    va_list values;

    va_start(values, format);
    text_add_list(notes, format, values);
    va_end(values);
    if (notes->used < notes->room)
        notes->bytes[notes->used++] = 0;
}

bool write_header(void) {
    text_print(put_bytes, "%s\n", AGENT_HEADER);
    flush();
    return !writer.failed;
}

bool write_plan_error(int64_t line, const char *error) {
    text_print(put_bytes, "%s %lld ", WORD_ERROR, (long long)line);
    text_encode(error, text_length(error), put_bytes);
    put_bytes("\n", 1);
    flush();
    return !writer.failed;
}

/* The facts from `first` to the one before `end`. */
static void put_facts(const struct facts *facts, int first, int end) {
    for (int fact = first; fact < end; fact++)
        if (facts->known[fact])
            text_print(put_bytes, "%s %s %lld\n", WORD_FACT, fact_names[fact],
                       (long long)facts->values[fact]);
}

void begin_answer(const struct answer *answer) {
    writer.begun = true;
    writer.lines = 0;
    writer.crc = CRC_START;
    text_print(put_bytes, "%s %s\n", WORD_BEGIN, answer->id);
    if (answer->nonce)
        text_print(put_bytes, "%s %s\n", WORD_NONCE, answer->nonce);
    put_facts(&answer->facts, 0, FIRST_CONDITION);
    flush();
}

bool write_answer(const struct answer *answer) {
    static const char *const words[OUTPUTS] = {WORD_OUT, WORD_ERR, WORD_DRIVER_OUT, WORD_DRIVER_ERR};

    if (!writer.begun)
        begin_answer(answer);
    writer.begun = false;
    put_facts(&answer->facts, FIRST_CONDITION, FACT_COUNT);
    if (answer->has_image && answer->image.has_interp)
        put_line(WORD_INTERP, answer->image.interp, text_length(answer->image.interp));
    if (answer->has_image)
        put_list(WORD_OBJECT, &answer->image.objects);
    if (answer->has_image)
        put_observations(&answer->observations);
    for (int i = 0; i < OUTPUTS; i++)
        put_output(words[i], &answer->outputs[i]);
    put_list(WORD_NOTE, &answer->notes);

    int64_t lines = writer.lines;
    text_print(put_bytes, "%s %s %s %lld %lld ", WORD_END, answer->id, outcome_names[answer->outcome],
               (long long)answer->code, (long long)lines);
    put_crc(~writer.crc);
    put_bytes("\n", 1);
    flush();
    return !writer.failed;
}
